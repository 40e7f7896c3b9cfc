// SPDX-License-Identifier: GPL-2.0-only

//! Puts of a pool whose pages go to the SSD tier directly.

use super::*;
use crate::host::heap::tests::Number;
use crate::host::heap::{self, Owner, Tier, Vm};
use crate::host::standing::Standing;
use crate::index::{Hasher, Removed, PLACED};
use crate::policy::Order;
use crate::request::{Header, Request};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use ddabi::answer::Eviction;
use ddabi::hypercall::Operation;
use ddabi::pool::SsdAdmit;
use ddabi::request::{RequestHeader, REQUEST_MAGIC};
use ddabi::ABI_VERSION;
use zerocopy::IntoBytes;

/// A host with memory and a device of any size.
#[derive(Default)]
struct Large;

/// The setting of a session, whether the device takes no page, the number of its places, and the
/// number of pages that were counted for the write budget.
#[derive(Default)]
struct Own {
    admit: Cell<SsdAdmit>,
    is_full: Cell<bool>,
    places: Cell<u64>,
    counted: Cell<usize>,
}

impl Owner for Large {
    type Lock<T> = RefCell<T>;
    type Page = Number;
    type Session = Own;
    type Vm = Vm<Self>;

    const SHARD_BITS: u32 = 1;

    fn page(_: &heap::Session<Self>, removed: Removed) -> Option<Number> {
        Some(Number(removed.into_handle()))
    }

    fn put_on_ssd(
        session: &heap::Session<Self>,
        _run: &Run,
        pages: &mut [Option<Number>],
        counted: usize,
    ) -> Option<(usize, u64)> {
        let counts = &session.own.counted;
        if session.own.is_full.get() {
            return None;
        }
        counts.set(counts.get() + counted);
        // As in the module, a step places 32 pages at most.
        let step = pages.len().min(32);
        let pages = &mut pages[..step];
        let places = &session.own.places;
        for page in pages.iter_mut() {
            places.set(places.get() + 1);
            *page = Some(Number(PLACED | places.get()));
        }
        Some((pages.len(), 1))
    }

    fn ssd_share(_: &heap::Session<Self>, _pool: u32) -> u32 {
        1
    }

    fn vm_ssd_share(_: &heap::Session<Self>) -> u32 {
        1
    }

    fn ssd_admit(session: &heap::Session<Self>, _pool: u32) -> SsdAdmit {
        session.own.admit.get()
    }

    fn announce(_: &heap::Session<Self>, _: &[Eviction]) {}

    fn allocate(_: &heap::Host<Self>, pages: &mut [Option<Number>], _: bool) -> usize {
        pages.fill_with(|| Some(Number(1)));
        pages.len()
    }

    fn spare(&self) -> u64 {
        0
    }

    fn milliseconds(&self) -> u64 {
        0
    }
}

/// The results of the runs of a put.
struct Results(Vec<Result<(), Refusal>>);

impl Source<Number> for Results {
    fn copy(&mut self, _: &Run, _: &mut [Option<Number>]) -> Result<(), Refusal> {
        Ok(())
    }

    fn settled(&mut self, _: &Run, result: Result<(), Refusal>) {
        self.0.push(result);
    }
}

/// Puts a run of four pages of each class. Returns the results.
fn put(host: &heap::Host<Large>) -> Vec<Result<(), Refusal>> {
    let runs: Vec<_> = (0..4u8)
        .map(|class| Run {
            index: u64::from(class) * 16,
            pages: 4,
            class,
            ..Run::default()
        })
        .collect();
    put_runs(host, &runs)
}

/// Puts runs. Returns the results.
fn put_runs(host: &heap::Host<Large>, runs: &[Run]) -> Vec<Result<(), Refusal>> {
    let vm = host.vm_list.borrow().vms()[0].clone();
    let origin = Origin {
        host,
        vm: &*vm,
        session: &vm.session,
    };
    let header = RequestHeader {
        magic: REQUEST_MAGIC,
        version: ABI_VERSION,
        operation: Operation::Put as u16,
        count: runs.len() as u32,
        ..RequestHeader::default()
    };
    let header = Header::parse(&header).unwrap();
    let Ok(Request::Put(parsed)) = Request::parse(&header, runs.as_bytes()) else {
        panic!("the request is valid");
    };
    let mut results = Results(Vec::new());
    let stored = store(&origin, &parsed, &mut Carried::new(), &mut results);
    let good = runs.iter().zip(&results.0);
    let good = good.filter_map(|(run, result)| result.is_ok().then_some(u64::from(run.pages)));
    assert_eq!(stored, good.sum::<u64>());
    results.0
}

/// Returns a host with a VM whose pool has no memory.
fn host() -> (heap::Host<Large>, Arc<Vm<Large>>) {
    let tier = Arc::new(Tier::new(100));
    let mut session = heap::Session::new(tier.clone(), Hasher::new(1), Own::default());
    let pool = session.add_pool();
    session.set_pool(pool, 0, Order::Aged);
    let host = heap::Host::new(tier, 0, Large);
    let vm = host.add_vm(Vm {
        number: 1,
        share: 1,
        session,
        standing: Standing::new(),
    });
    (host, vm)
}

/// With `second`, pages of class 0 get no place, and an older copy of them is removed.
#[test]
fn only_proven_pages_are_put_on_ssds() {
    let (host, vm) = host();
    let session = &vm.session;
    assert_eq!(put(&host), [Ok(()); 4]);
    assert_eq!(session.state().ssd(), 16);
    session.own.admit.set(SsdAdmit::Second);
    let refused = Err(Refusal::Unproven);
    assert_eq!(put(&host), [refused, Ok(()), Ok(()), Ok(())]);
    assert_eq!(session.state().ssd(), 12);
    assert_eq!(session.own.places.get(), 16 + 12);
}

/// Pages that no device takes are not refused for lack of memory, and an older copy of them is
/// removed.
#[test]
fn a_device_that_takes_no_page_is_a_reason_of_its_own() {
    let (host, vm) = host();
    assert_eq!(put(&host), [Ok(()); 4]);
    vm.session.own.is_full.set(true);
    assert_eq!(put(&host), [Err(Refusal::Device); 4]);
    assert_eq!(vm.session.state().ssd(), 0);
}

/// A run that is stored in several steps, as a whole or not at all, is counted for the write budget
/// before the first step, so that the budget cannot run out after a part of it.
#[test]
fn a_run_is_counted_for_the_write_budget_as_a_whole() {
    let (host, vm) = host();
    let run = Run {
        pages: 100,
        ..Run::default()
    };
    assert_eq!(put_runs(&host, &[run]), [Ok(())]);
    assert_eq!(
        (vm.session.own.counted.get(), vm.session.own.places.get()),
        (100, 100)
    );
}
