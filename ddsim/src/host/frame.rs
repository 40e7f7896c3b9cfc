// SPDX-License-Identifier: GPL-2.0-only

//! A page of the simulated host.

use ddcore::host::carried;
use ddcore::host::heap::Device;
use std::cell::RefCell;
use std::rc::Rc;

/// An owner of a simulated page of the host. The page has no data: in the memory tier it is only an
/// entry of the index, and in the SSD tier also a place of the device.
#[derive(Debug)]
pub(super) struct Frame(pub(super) Option<(u64, SharedDevice)>);

pub(super) type SharedDevice = Rc<RefCell<Device>>;

impl carried::Page for Frame {
    fn handle(&self) -> u64 {
        self.0
            .as_ref()
            .map_or(0, |(place, _)| Device::handle(*place))
    }

    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if let Some((place, device)) = &self.0 {
            device.borrow_mut().release(*place);
        }
    }
}
