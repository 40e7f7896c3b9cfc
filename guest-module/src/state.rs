// SPDX-License-Identifier: GPL-2.0-only

//! The module's state, and operations that involve several parts of it.
//!
//! The parts depend neither on each other nor on this file. Hooks, session, background job and
//! netlink commands use this file.

use crate::counters::{count, Counters};
use crate::ffi::change::Change;
use crate::ffi::worker::Worker;
use crate::ffi::{cpu, machine, tracepoints};
use crate::filesystems::Filesystems;
use crate::hooks::departures::Departures;
use crate::host::attachment::Attachment;
use crate::host::call::Call;
use crate::host::channel::Channel;
use crate::host::flushes::Flushes;
use crate::host::schedule::Schedule;
use crate::map::Map;
use crate::memory::gfp_nowarn;
use crate::pools::admissions::Admissions;
use crate::pools::Pools;
use crate::published::Published;
use ddabi::counters::GuestCounters;
use ddabi::hypercall::{Operation, Outcome};
use ddabi::key::FileKey;
use kernel::prelude::*;

/// The state. It is published before the netlink family and the worker start, and until both have
/// ended and the hooks are detached.
pub(crate) static STATE: Published<State> = Published::new();

/// Returns the state. Only callbacks of the kernel may call this.
pub(crate) fn state() -> Option<&'static State> {
    STATE.get()
}

/// Smallest default bound of the presence map in bytes.
const MAP_FLOOR: u64 = 8 << 20;
/// The default bound of the map is one part in this many of the VM's memory.
const MAP_PART: u64 = 64;

/// State of the guest module. One instance exists from load to unload; callbacks access it through
/// [`STATE`].
#[pin_data]
pub(crate) struct State {
    /// Which pages the host may hold.
    pub(crate) map: Map,
    /// Numbers of the mounted filesystems.
    #[pin]
    pub(crate) filesystems: Filesystems,
    /// Enrolled containers, their routes and admission.
    #[pin]
    pub(crate) pools: Pools,
    /// Folios between removal and freeing.
    pub(crate) departures: Departures,
    /// Page ranges that the host can free.
    #[pin]
    pub(crate) flushes: Flushes,
    /// Calls to the host, the session, and the counters.
    pub(crate) channel: Channel,
    /// Whether the hooks are attached.
    pub(crate) attachment: Attachment,
    /// Times of the periodic work of the background job.
    pub(crate) schedule: Schedule,
}

impl State {
    /// Allocates the state of a module without a session. `map_bytes` bounds the presence map and
    /// `history_bytes` the history of all pools; 0 means the defaults. Sleeps.
    pub(crate) fn new(map_bytes: u64, history_bytes: u64) -> Result<Pin<KBox<Self>>> {
        let bytes = match map_bytes {
            0 => (machine::memory_bytes() / MAP_PART).max(MAP_FLOOR),
            bytes => bytes,
        };
        let (map, departures, flushes) = (Map::new(bytes)?, Departures::new()?, Flushes::new()?);
        let (channel, admissions) = (Channel::new()?, Admissions::new(history_bytes)?);
        KBox::pin_init(
            try_pin_init!(Self {
                map,
                filesystems <- Filesystems::new(),
                pools <- Pools::new(admissions),
                departures,
                flushes <- flushes,
                channel,
                attachment: Attachment::new(),
                schedule: Schedule::new(),
            }),
            gfp_nowarn(),
        )
    }

    /// Sends a put, a get, a flush or a ping. Applies the eviction notices of the answer and the
    /// pressure that it reports for a pool. Returns `None` if the call failed, after which the
    /// session may be over.
    pub(crate) fn send(
        &self,
        call: &mut Call<'_>,
        operation: Operation,
        session: u64,
    ) -> Option<Outcome> {
        let outcome = self.channel.send(call, operation, session).ok()?;
        for eviction in call.evictions() {
            count!(self, evicted, self.map.notice(&eviction));
        }
        let is_batch = matches!(operation, Operation::Put | Operation::Get);
        if is_batch && call.is_answered() {
            self.channel.note_retains(call.retains());
        }
        if let Some(pressure) = call.pressure() {
            self.pools.note_pressure(&pressure);
        }
        Some(outcome)
    }

    /// Returns the counters, for [`count!`].
    pub(crate) fn counters(&self) -> &Counters {
        self.channel.counters()
    }

    /// Clears the bits of pages `first..=last`, because their content changes or because they leave
    /// the page cache without a put. Any context.
    pub(crate) fn content_changed(&self, file: &FileKey, pages: (u64, u64), change: Change) {
        self.changed(file, pages, change, || ());
    }

    /// Does the same for a range that may be large. Sleeps.
    pub(crate) fn range_changed(&self, file: &FileKey, pages: (u64, u64), change: Change) {
        self.changed(file, pages, change, cpu::cond_resched);
    }

    fn changed(
        &self,
        file: &FileKey,
        (first, last): (u64, u64),
        change: Change,
        pause: impl FnMut(),
    ) {
        count!(self, changes);
        let cleared = self.map.invalidate(file, first, last, pause);
        if cleared > 0 {
            self.invalidated(file, (first, last), cleared, change);
            self.flushes.push_pages(*file, first, last);
        }
    }

    /// Counts pages `first..=last` of a file, of which `cleared` were in the map.
    fn invalidated(&self, file: &FileKey, (first, last): (u64, u64), cleared: u64, change: Change) {
        count!(self, invalidated, cleared);
        if tracepoints::invalidate_is_on() {
            let FileKey {
                inode, filesystem, ..
            } = *file;
            tracepoints::invalidate(filesystem, inode, first, last, cleared, change.word());
        }
    }

    /// Counts pages of any files that were forgotten together.
    pub(crate) fn forgotten(&self, cleared: u64, change: Change) {
        if cleared > 0 {
            self.invalidated(&FileKey::default(), (0, u64::MAX), cleared, change);
        }
    }

    /// Stops caching a filesystem: from now on none of its pages are put or read from the host.
    /// Called before the superblock is shut down, and afterwards (`done`).
    ///
    /// Its pages stay in the map but are no longer found, because the number of the filesystem is
    /// never reused. The worker removes them later, so that the unmounting task does not have to
    /// search the whole map.
    pub(crate) fn unmount(&self, superblock: usize, done: bool) {
        if let Some(number) = self.filesystems.begin_unmount(superblock) {
            self.flushes.push_filesystem(number);
        }
        if done {
            self.filesystems.end_unmount(superblock);
        }
    }

    /// Asks the worker to make room in the map, because a put found none. Any context.
    pub(crate) fn request_map_room(&self) {
        Worker::hurry();
    }

    /// Returns the counters and gauges.
    pub(crate) fn snapshot(&self) -> GuestCounters {
        let (map, bytes) = self.map.counters();
        GuestCounters {
            map_dropped: map.dropped,
            map_files: map.files.into(),
            map_pages: map.present,
            map_bytes: bytes,
            flushes_waiting: self.flushes.waiting(),
            ..self.counters().snapshot()
        }
    }
}
