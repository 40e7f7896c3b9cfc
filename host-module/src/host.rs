// SPDX-License-Identifier: GPL-2.0

//! The module's state.

use crate::memory::quietly;
use crate::registry::{Admission, Registry};
use crate::stock::Stock;
use crate::tier::Tier;
use ddabi::genl::Mode;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Everything the callbacks work on.
#[pin_data]
pub(crate) struct Host {
    pub(crate) tier: Arc<Tier>,
    #[pin]
    pub(crate) vms: Registry,
    #[pin]
    pub(crate) stock: Stock,
}

impl Host {
    /// A host without VMs, with a tier of `capacity` pages.
    pub(crate) fn new(capacity: u64, admission: Admission) -> Result<Pin<KBox<Self>>> {
        let tier = Arc::new(Tier::new(capacity), quietly())?;
        KBox::pin_init(
            try_pin_init!(Self {
                tier,
                vms <- Registry::new(admission),
                stock <- Stock::new(),
            }),
            quietly(),
        )
    }

    /// Sets how the tier is shared.
    pub(crate) fn set_mode(&self, mode: Mode) {
        if mode == Mode::GlobalFifo {
            // What comes from now on is younger than all there is.
            let roster = self.vms.lock();
            for session in (0..roster.vms().len()).filter_map(|at| roster.session(at)) {
                self.tier.follow(&session.clock);
            }
        }
        self.tier.set_mode(mode);
    }
}
