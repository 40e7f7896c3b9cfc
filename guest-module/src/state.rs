// SPDX-License-Identifier: GPL-2.0

//! The module's state, and what its parts do together.
//!
//! The parts know nothing of each other, and nothing of this file: hooks, session, background job
//! and netlink are built on it.

use crate::counters::{count, Counters};
use crate::ffi::published::Published;
use crate::ffi::worker::Worker;
use crate::ffi::{cpu, machine};
use crate::filesystems::Filesystems;
use crate::hooks::departures::Departures;
use crate::host::attachment::Attachment;
use crate::host::call::Call;
use crate::host::channel::Channel;
use crate::host::flushes::Flushes;
use crate::host::schedule::Schedule;
use crate::map::Map;
use crate::memory::quietly;
use crate::mutation::mutated;
use crate::pools::admissions::Admissions;
use crate::pools::Pools;
use ddabi::counters::GuestCounters;
use ddabi::hypercall::{Operation, Outcome};
use ddabi::key::FileKey;
use kernel::prelude::*;

/// The state, while hooks, worker and netlink family are there.
pub(crate) static STATE: Published<State> = Published::new();

/// The state, for callbacks.
pub(crate) fn state() -> Option<&'static State> {
    STATE.get()
}

/// Smallest bound of the presence map in bytes.
const MAP_FLOOR: u64 = 8 << 20;
/// The map may take this part of the machine's memory.
const MAP_PART: u64 = 64;

/// Everything.
#[pin_data]
pub(crate) struct State {
    /// What the host may hold.
    pub(crate) map: Map,
    /// Numbers of mounted filesystems.
    #[pin]
    pub(crate) filesystems: Filesystems,
    /// Enrolled containers.
    #[pin]
    pub(crate) pools: Pools,
    /// Folios between removal and freeing.
    pub(crate) departures: Departures,
    /// What the host holds in vain.
    #[pin]
    pub(crate) flushes: Flushes,
    /// Calls to the host.
    pub(crate) channel: Channel,
    /// Whether hooks are attached.
    pub(crate) attachment: Attachment,
    /// When the background job did what.
    pub(crate) schedule: Schedule,
}

impl State {
    /// The state without a host. `map_bytes` bounds the presence map, `history_bytes` what pools
    /// remember; 0 for the defaults.
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
            quietly(),
        )
    }

    /// Sends a put, a get, a flush or a ping; `None` if it brought nothing, after which the link may
    /// be lost. Applies the eviction notices that come back, and what the answer says of a pool.
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
        if let Some(pressure) = call.pressure() {
            self.pools.note_pressure(&pressure);
        }
        Some(outcome)
    }

    /// What the module counts.
    pub(crate) fn counters(&self) -> &Counters {
        self.channel.counters()
    }

    /// The content of pages `first..=last` changes, or they leave another way than by a put. Any
    /// context.
    pub(crate) fn content_changed(&self, file: &FileKey, first: u64, last: u64) {
        self.changed(file, first, last, || ());
    }

    /// As [`State::content_changed`], of ranges that may be large. Sleeps.
    pub(crate) fn range_changed(&self, file: &FileKey, first: u64, last: u64) {
        self.changed(file, first, last, cpu::cond_resched);
    }

    fn changed(&self, file: &FileKey, first: u64, last: u64, pause: impl FnMut()) {
        count!(self, changes);
        let cleared = self.map.invalidate(file, first, last, pause);
        if cleared > 0 {
            count!(self, invalidated, cleared);
            self.flushes.push_pages(*file, first, last);
        }
    }

    /// A filesystem goes: nothing of it is put or read any more. To be called before and after.
    ///
    /// Its pages stay in the map and are found no more, for its number is never used again. The
    /// worker forgets them, so that the unmounting task need not wait until all slots were looked
    /// at.
    pub(crate) fn unmount(&self, superblock: usize, done: bool) {
        if mutated(c"unmount-unseen") {
            return;
        }
        if let Some(number) = self.filesystems.begin_unmount(superblock) {
            self.flushes.push_filesystem(number);
        }
        if done {
            self.filesystems.end_unmount(superblock);
        }
    }

    /// A put found no room in the map.
    pub(crate) fn request_map_room(&self) {
        Worker::hurry();
    }

    /// Counters with gauges.
    pub(crate) fn snapshot(&self) -> GuestCounters {
        let (map, bytes) = self.map.counters();
        GuestCounters {
            map_dropped: map.dropped,
            map_files: map.files.into(),
            map_pages: map.present,
            map_bytes: bytes,
            ..self.counters().snapshot()
        }
    }
}
