// SPDX-License-Identifier: GPL-2.0

//! The module's state, and what its parts do together.

use crate::counters::{count, Counters};
use crate::ffi::worker::Worker;
use crate::ffi::{cpu, machine};
use crate::filesystems::Filesystems;
use crate::hooks::departures::Departures;
use crate::host::call::{Call, CallBuffers, Failure};
use crate::host::flushes::Flushes;
use crate::host::link::Link;
use crate::map::Map;
use crate::memory::quietly;
use crate::mutation::mutated;
use crate::pools::admissions::Admissions;
use crate::pools::Pools;
use ddabi::counters::GuestCounters;
use ddabi::hypercall::{Operation, Outcome, Status};
use ddabi::key::FileKey;
use kernel::prelude::*;

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
    /// What is worth a put.
    pub(crate) admissions: Admissions,
    /// Folios between removal and freeing.
    pub(crate) departures: Departures,
    /// What the host holds in vain.
    #[pin]
    pub(crate) flushes: Flushes,
    /// Request blocks.
    pub(crate) buffers: CallBuffers,
    /// Whether there is a host.
    #[pin]
    pub(crate) link: Link,
    /// What happened.
    pub(crate) counters: Counters,
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
        let (buffers, admissions) = (CallBuffers::new()?, Admissions::new(history_bytes)?);
        let counters = Counters::new()?;
        KBox::pin_init(
            try_pin_init!(Self {
                map,
                filesystems <- Filesystems::new(),
                pools <- Pools::new(),
                admissions,
                departures,
                flushes <- flushes,
                buffers,
                link <- Link::new(),
                counters,
            }),
            quietly(),
        )
    }

    /// Sends a call; `None` if it brought nothing, after which the link may be lost. Eviction
    /// notices that come back are applied.
    pub(crate) fn send(
        &self,
        call: &mut Call<'_>,
        operation: Operation,
        session: u64,
    ) -> Option<Outcome> {
        self.try_send(call, operation, session).ok()
    }

    /// As [`State::send`], with the reason.
    pub(crate) fn try_send(
        &self,
        call: &mut Call<'_>,
        operation: Operation,
        session: u64,
    ) -> Result<Outcome, Failure> {
        count!(self, calls);
        let sent = call.send(operation, session, || {
            count!(self, calls);
            count!(self, retries);
        });
        match sent {
            Ok(outcome) => {
                if carries_evictions(operation) {
                    for eviction in call.evictions() {
                        count!(self, evicted, self.map.notice(&eviction));
                    }
                    if let Some(said) = call.pressure() {
                        if let Some(slot) = self.pools.slot_of(said.pool) {
                            self.admissions.hear(slot, &said);
                        }
                    }
                }
                Ok(outcome)
            }
            Err(failure) => {
                if failure == Failure::Refused(Status::Stale) {
                    count!(self, stale);
                }
                let ends = matches!(
                    failure,
                    Failure::NoHost | Failure::Refused(Status::Stale | Status::Denied)
                );
                if ends && self.link.lose(session) {
                    Worker::kick();
                }
                Err(failure)
            }
        }
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
            self.flushes.pages(*file, first, last);
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
            self.flushes.filesystem(number);
        }
        if done {
            self.filesystems.end_unmount(superblock);
        }
    }

    /// A put found no room in the map.
    pub(crate) fn map_is_full(&self) {
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
            ..self.counters.snapshot()
        }
    }
}

const fn carries_evictions(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Put | Operation::Get | Operation::Flush | Operation::Ping
    )
}
