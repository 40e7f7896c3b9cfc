// SPDX-License-Identifier: GPL-2.0-only

//! The devices by their numbers, for owners of places.
//!
//! A place is shared and released once for each page that is read, evicted or flushed. A processor
//! looks the device up in a copy of the table that has a lock of its own, so that processors do not
//! contend for one lock of the host.

use crate::memory::gfp_nowarn;
use crate::ssd::device::Device;
use crate::stripe;
use ddcore::ssd::place::MAX_DEVICES;
use kernel::prelude::*;
use kernel::sync::{new_spinlock, Arc, SpinLock};

/// A copy of the table.
#[pin_data]
#[repr(align(64))]
struct Copy {
    #[pin]
    devices: SpinLock<[Option<Arc<Device>>; MAX_DEVICES]>,
}

impl Copy {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            devices <- new_spinlock!([const { None }; MAX_DEVICES], "DeviceTable::devices"),
        })
    }
}

/// The devices that may have places with owners.
pub(crate) struct DeviceTable(Pin<KVBox<[Copy]>>);

impl DeviceTable {
    /// Creates a table without devices.
    pub(crate) fn new() -> Result<Self> {
        let copies = KVBox::pin_slice(|_| Copy::new(), stripe::count(), gfp_nowarn())?;
        Ok(Self(copies))
    }

    /// Calls `work` with the device of this number, if there is one. `work` does not sleep: a
    /// spinlock is held, and the device is not closed while it is.
    pub(crate) fn with<R>(&self, number: usize, work: impl FnOnce(&Device) -> R) -> Option<R> {
        let devices = stripe::own(&self.0)?.devices.lock();
        let device = devices.get(number)?.as_deref()?;
        Some(work(device))
    }

    /// Sets or removes the device of a number below [`MAX_DEVICES`]. No page has a place on it
    /// before the first and after the second. The caller owns the device, so that it is not closed
    /// here.
    pub(crate) fn set(&self, number: usize, device: Option<&Arc<Device>>) {
        for copy in self.0.iter() {
            let device = device.cloned();
            let before = core::mem::replace(&mut copy.devices.lock()[number], device);
            drop(before);
        }
    }
}
