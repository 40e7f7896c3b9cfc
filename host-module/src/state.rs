// SPDX-License-Identifier: GPL-2.0-only

//! The module's state, and the engine's view of it (`ddcore::host::Host`), which a tier on another
//! kind of memory implements as well.

use crate::counters::totals;
use crate::ffi::{page, queue, tracepoints};
use crate::memory::gfp_nowarn;
use crate::number::Number;
use crate::published::Published;
use crate::ssd::Ssd;
use crate::tier::page::Page;
use crate::tier::stock::Stock;
use crate::tier::Tier;
use crate::vm::registry::{Admission, Registry, VmList};
use crate::vm::session::Session;
use core::ops::DerefMut;
use ddabi::genl::Mode;
use ddcore::host::evict::Freed;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

/// The state, as long as callbacks of the kernel may use it. Hooks, netlink family, shrinker and
/// work queue end before the state does, and each of them waits for its callbacks.
pub(crate) static STATE: Published<Host> = Published::new();

/// Returns the state. Only callbacks of the kernel may call this.
pub(crate) fn host() -> Option<&'static Host> {
    STATE.get()
}

/// State of the host module. One instance exists from load to unload.
#[pin_data]
pub(crate) struct Host {
    pub(crate) tier: Arc<Tier>,
    #[pin]
    pub(crate) vms: Registry,
    pub(crate) stock: Stock,
    pub(crate) ssd: Arc<Ssd>,
    /// Locked while settings of the tier are checked and changed.
    #[pin]
    pub(crate) settings: Mutex<()>,
}

impl Host {
    /// Allocates a host without VMs and with a memory tier of `capacity` pages.
    pub(crate) fn new(capacity: u64, admission: Admission) -> Result<Pin<KBox<Self>>> {
        let tier = Arc::new(Tier::new(capacity), gfp_nowarn())?;
        let ssd = Ssd::new()?;
        KBox::pin_init(
            try_pin_init!(Self {
                vms <- Registry::new(admission, tier.clone(), ssd.clone()),
                tier,
                stock: Stock::new()?,
                ssd,
                settings <- new_mutex!((), "Host::settings"),
            }),
            gfp_nowarn(),
        )
    }

    /// Sets how the memory tier is divided.
    pub(crate) fn set_mode(&self, mode: Mode) {
        if mode == Mode::GlobalFifo {
            // Pages that are put from now on must be younger than all pages in the tier.
            let vm_list = self.vms.lock();
            for vm in vm_list.vms() {
                vm.peek(|session| self.tier.follow(&session.clock));
            }
        }
        self.tier.set_mode(mode);
    }
}

impl ddcore::host::Host for Host {
    type Number = Number;
    type Page = Page;
    type Stock = Stock;
    type Session = Session;
    type VmList = VmList;

    fn tier(&self) -> &ddcore::host::tier::Tier<Number> {
        &self.tier
    }

    fn lock(&self) -> impl DerefMut<Target = VmList> {
        self.vms.lock()
    }

    fn try_lock(&self) -> Option<impl DerefMut<Target = VmList>> {
        self.vms.try_lock()
    }

    fn stock(&self) -> &Stock {
        &self.stock
    }

    fn allocate(&self, pages: &mut [Option<Page>], below_floor: bool) -> usize {
        Page::allocate(pages, below_floor)
    }

    fn spare(&self) -> u64 {
        page::spare()
    }

    fn node(&self, page: &Page) -> Option<usize> {
        page.node()
    }

    fn wake_evictor(&self) {
        queue::wake_evictor();
    }

    fn milliseconds(&self) -> u64 {
        self.tier.milliseconds()
    }

    fn limit_fell(&self, pages: u64) {
        if tracepoints::limit_is_on() {
            tracepoints::limit(pages, self.tier.capacity());
        }
    }

    fn evicted(&self, pages: &Freed) {
        totals().eviction_batches.add(1);
        totals().evicted.add(pages.evicted);
        if pages.demoted > 0 {
            totals().demoted.add(pages.demoted);
        }
    }

    fn promoted(&self, pages: u64) {
        totals().promoted.add(pages);
    }

    fn ssd_pages(&self) -> u64 {
        self.ssd.places()
    }

    fn cond_resched(&self) {
        queue::cond_resched();
    }
}
