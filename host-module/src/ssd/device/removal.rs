// SPDX-License-Identifier: GPL-2.0-only

//! Removal of a device, and of its pages after it has failed.

use super::Device;
use crate::ffi::queue;
use crate::ssd::Ssd;
use crate::state::{host, Host};
use ddabi::ssd::DeviceState;
use ddcore::host::walk::drop_device;
use ddcore::host::Session as _;
use kernel::sync::atomic::{
    ordering::{Full, Relaxed},
    Atomic,
};

/// Milliseconds between two searches for the pages of a device that has failed.
const DROP_MS: u64 = 1000;

/// Number of devices that are open. Those that were removed are included until the last task that
/// uses them has dropped its reference.
static OPEN: Atomic<usize> = Atomic::new(0);

/// Counts an open device in [`OPEN`].
pub(super) struct Open(());

impl Open {
    pub(super) fn new() -> Self {
        OPEN.add(1, Relaxed);
        Self(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Full);
    }
}

/// Returns the number of devices that are open.
pub(crate) fn open_count() -> usize {
    OPEN.load(Relaxed)
}

impl Device {
    /// Stops putting pages on the device, because it is being removed.
    pub(crate) fn begin_removal(&self, ssd: &Ssd) {
        self.state.store(DeviceState::Leaving as u32, Relaxed);
        self.tell_state();
        self.close_for_ever(ssd);
    }

    /// Prevents the opening of further segments, and subtracts the places from the tier's capacity.
    fn close_for_ever(&self, ssd: &Ssd) {
        let was_closed = core::mem::replace(&mut self.free.lock().closed, true);
        if !was_closed {
            ssd.lose(self.places());
        }
    }

    /// Drops all pages of the device in the background, because it has failed or is being removed.
    /// A call while a task is already doing that has no effect.
    pub(crate) fn drop_pages(&self, ssd: &Ssd) {
        self.tell_state();
        self.close_for_ever(ssd);
        if !self.has_segments_in_use() || !self.dropping.claim() {
            return;
        }
        // The task does not own the device, so that the command which removes the device closes it.
        let number = self.number;
        self.dropping.run(move || {
            let Some(host) = host() else { return };
            drop_from_all(host, number);
            if let Some(device) = host.ssd.device(number) {
                device.dropping.end();
            }
        });
    }

    /// Drops the pages of a device that has failed, unless a task has done so in the last
    /// [`DROP_MS`] milliseconds. A write that hangs keeps its segment in use without pages in the
    /// index.
    pub(crate) fn drop_failed(&self, ssd: &Ssd) {
        let (now, due) = (ssd.milliseconds(), self.drop_due.load(Relaxed));
        if now >= due {
            self.drop_due.store(now + DROP_MS, Relaxed);
            self.drop_pages(ssd);
        }
    }

    /// Returns whether the device has failed and still has pages to be dropped.
    pub(crate) fn is_wreck(&self) -> bool {
        self.state() == DeviceState::Failed && self.has_segments_in_use()
    }

    fn has_segments_in_use(&self) -> bool {
        self.free() < self.segments.len()
    }

    /// Returns whether no segment is in use or will be, all reads have ended, and no task is
    /// working on the device in the background.
    pub(crate) fn is_unused(&self) -> bool {
        let free = self.free.lock();
        free.closed
            && free.segments.len() + free.stale.len() == self.segments.len()
            && !self.discarding.is_claimed()
            && self.disk.is_idle()
            && !self.dropping.is_claimed()
    }
}

/// Drops the pages of all VMs on a device.
fn drop_from_all(host: &Host, device: usize) {
    for (_, session) in host.sessions(0).take_while(|_| !queue::is_leaving()) {
        // Deferred gets own places.
        session.deferrals.forget(|get| get.is_on(device));
        for pool in 0..session.pool_count() {
            if let Some(place) = session
                .pool_slot(pool)
                .filter(|place| place.log.is_on(device))
            {
                place.log.close(None);
            }
        }
        if session.state().ssd() > 0 {
            drop_device(&*session, device);
        }
    }
}
