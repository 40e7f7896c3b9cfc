// SPDX-License-Identifier: GPL-2.0

//! The module's state.

use crate::memory::quietly;
use crate::registry::{Admission, Registry};
use crate::tier::Tier;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Everything the callbacks work on.
#[pin_data]
pub(crate) struct Host {
    pub(crate) tier: Arc<Tier>,
    #[pin]
    pub(crate) vms: Registry,
}

impl Host {
    /// A host without VMs, with a tier of `capacity` pages.
    pub(crate) fn new(capacity: u64, admission: Admission) -> Result<Pin<KBox<Self>>> {
        let tier = Arc::new(Tier::new(capacity), quietly())?;
        KBox::pin_init(
            pin_init!(Self {
                tier,
                vms <- Registry::new(admission),
            }),
            quietly(),
        )
    }
}
