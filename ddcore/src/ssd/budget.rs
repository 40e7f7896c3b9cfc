// SPDX-License-Identifier: GPL-2.0-only

//! A budget for the pages that are written to a device, because flash wears out.
//!
//! VMs divide the budget by their weights, and the containers of a VM divide the share of the VM.
//! At both levels a writer may use what the others leave, but half of what may be written in a
//! second is kept for writers that have not spent their shares. A container that writes without end
//! therefore delays neither other VMs nor the other containers of its own VM.

use crate::number::Number;

/// A second in nanoseconds, and the length of a burst: the pages of one second, which may be
/// written at once after a pause.
const SECOND: u64 = 1_000_000_000;

/// The part of a burst that is reserved for VMs that have not spent their shares, in nanoseconds.
/// Each of these VMs may write its share of the reserve. A VM that has spent its share may use only
/// the rest of the burst, and therefore does not delay the others.
const KEPT: u64 = SECOND / 2;

/// The part of the VM's reserve that is reserved for containers that have not spent their parts of
/// the VM's share, in nanoseconds. Each of these containers may write its part of this reserve.
const KEPT_OF_SHARE: u64 = KEPT / 2;

/// A rate of pages. Processors share it without a lock.
#[derive(Debug)]
pub struct Budget<N> {
    /// Nanoseconds for each page; 0 if there is no limit.
    page_ns: N,
    /// The time, in nanoseconds, until which the pages written so far use up the budget.
    spent_until: N,
}

/// What a VM has spent of its share of a budget, or a container of its part of the VM's share. A
/// writer may also use what other writers leave, but cannot take their shares.
#[derive(Debug)]
pub struct Spending<N> {
    /// The time, in nanoseconds, until which the pages of the writer use up its share.
    until: N,
}

/// A writer of a budget, or of the share of a VM.
#[derive(Debug)]
pub struct Writer<'a, N> {
    /// What it has spent.
    pub spending: &'a Spending<N>,
    /// Its share.
    pub share: Share,
}

/// The share of a writer: its weight, and the sum of all weights.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// The weight of the writer. A writer of weight 0 has no share.
    pub weight: u64,
    /// The sum of the weights of all writers.
    pub all: u64,
}

impl Share {
    /// Returns how long pages take at the rate of this share, if they take `ns` at the rate of the
    /// whole budget.
    fn time(self, ns: u64) -> u64 {
        let all = self.all.max(self.weight);
        let (Some(whole), Some(rest)) = (ns.checked_div(self.weight), ns.checked_rem(self.weight))
        else {
            return u64::MAX;
        };
        // ns * all / weight, without leaving 64 bits as long as weights are below 2^32.
        let rest = rest.saturating_mul(all) / self.weight;
        whole.saturating_mul(all).saturating_add(rest)
    }
}

impl<N: Number> Spending<N> {
    /// Creates the spending of a writer that has written nothing.
    pub fn new() -> Self {
        Self { until: N::new(0) }
    }

    /// Forgets what was spent.
    pub fn reset(&self) {
        self.until.swap(0);
    }

    /// Returns whether pages may be written at `now` that take `ns` at the rate of the share, if
    /// the share may be spent up to `max_lead` nanoseconds ahead.
    fn is_within(&self, ns: u64, now: u64, max_lead: u64) -> bool {
        let before = self.until.load();
        ns < u64::MAX
            && (before <= now || before.saturating_add(ns) <= now.saturating_add(max_lead))
    }

    /// Counts pages that take `ns` at the rate of the share. A writer may have written more than
    /// its share, because others left some; then it counts as having spent at most `max_lead`
    /// nanoseconds ahead, or these pages, whichever is more, so that it need not repay what others
    /// left.
    fn add(&self, ns: u64, now: u64, max_lead: u64) {
        let before = self.until.load();
        // The weight was set to 0 after the writer began. It must not count as spent for ever.
        let ns = if ns == u64::MAX { max_lead } else { ns };
        let until = before.max(now).saturating_add(ns);
        // A count that is lost between two processors is of no consequence.
        self.until
            .swap(until.min(now.saturating_add(max_lead.max(ns)).max(before)));
    }
}

impl<N: Number> Default for Spending<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<N: Number> Budget<N> {
    /// Creates a budget without limit.
    pub fn new() -> Self {
        Self {
            page_ns: N::new(0),
            spent_until: N::new(0),
        }
    }

    /// Sets the number of pages in a second, at most 10⁹; 0 means no limit. What was spent of the
    /// former budget is forgotten.
    pub fn set(&self, pages: u64) {
        self.spent_until.swap(0);
        self.page_ns.swap(SECOND.checked_div(pages).unwrap_or(0));
    }

    /// Returns the cost of pages, as [`Budget::spend`] returned it, to the budget, because the
    /// pages are not written. Their writers are still charged for them.
    pub fn give_back(&self, cost: u64) {
        loop {
            let before = self.spent_until.load();
            // The budget may have been set in the meantime.
            let after = before.saturating_sub(cost);
            if self.spent_until.replace(before, after).is_ok() {
                return;
            }
        }
    }

    /// Counts pages that a container of a VM writes at `now`, in nanoseconds, and returns their
    /// cost, or `None` if they may not be written. Takes constant time.
    pub fn spend(
        &self,
        vm: Writer<'_, N>,
        container: Writer<'_, N>,
        pages: u64,
        now: u64,
    ) -> Option<u64> {
        let page_ns = self.page_ns.load();
        if page_ns == 0 {
            return Some(0);
        }
        let cost = pages.saturating_mul(page_ns);
        let vm_cost = vm.share.time(cost);
        let own_cost = container.share.time(vm_cost);
        // A container that has spent its part leaves some of the share of its VM, and a VM that has
        // spent its share leaves some of the budget.
        let of_share = match container.spending.is_within(own_cost, now, KEPT_OF_SHARE) {
            true => KEPT,
            false => KEPT - KEPT_OF_SHARE,
        };
        let max_lead = match vm.spending.is_within(vm_cost, now, of_share) {
            true => SECOND,
            false => SECOND - KEPT,
        };
        loop {
            let before = self.spent_until.load();
            let after = before.max(now).saturating_add(cost);
            // Pages that take more than a second may be written once all pages before them are paid
            // for.
            if after > now.saturating_add(max_lead) && before > now {
                return None;
            }
            if self.spent_until.replace(before, after).is_ok() {
                vm.spending.add(vm_cost, now, of_share);
                container.spending.add(own_cost, now, KEPT_OF_SHARE);
                return Some(cost);
            }
        }
    }
}

impl<N: Number> Default for Budget<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
