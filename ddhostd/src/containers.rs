// SPDX-License-Identifier: GPL-2.0-only

//! Selection of the containers that are on the page of metrics.
//!
//! Guests choose the number of containers. The page has a bound, in which the VMs have equal parts:
//! the first container of each VM is selected before the second one of any.

use ddnl::Pool;

/// Maximum number of containers on the page, those of all VMs together.
pub const MAX_CONTAINERS: usize = 1024;

/// Containers that are being selected. No more than a few times [`MAX_CONTAINERS`] are kept at a
/// time.
#[derive(Debug, Default)]
pub struct Selection {
    /// Containers, with their ranks among those of the same VM.
    kept: Vec<(usize, Pool)>,
    count: usize,
}

impl Selection {
    /// Adds the containers of a VM.
    pub fn add(&mut self, pools: Vec<Pool>) {
        self.count += pools.len();
        self.kept
            .extend(pools.into_iter().take(MAX_CONTAINERS).enumerate());
        if self.kept.len() > 2 * MAX_CONTAINERS {
            self.cut();
        }
    }

    /// Counts containers that are not selected.
    pub fn leave_out(&mut self, count: usize) {
        self.count += count;
    }

    fn cut(&mut self) {
        self.kept.sort_by_key(|(rank, pool)| (*rank, pool.vm));
        self.kept.truncate(MAX_CONTAINERS);
    }

    /// Returns the selected containers, by VM and number, and the number of all containers.
    pub fn end(mut self) -> (Vec<Pool>, usize) {
        self.cut();
        let mut pools: Vec<Pool> = self.kept.into_iter().map(|(_, pool)| pool).collect();
        pools.sort_by_key(|pool| (pool.vm, pool.id));
        (pools, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ddabi::pool::PoolStats;
    use ddnl::fake;
    use std::collections::BTreeMap;

    /// Returns how many containers of each VM are selected.
    fn selected(vms: &[(u32, u32)]) -> BTreeMap<Option<u32>, usize> {
        let mut selection = Selection::default();
        for (vm, count) in vms {
            let pool = |id| fake::pool(*vm, id, "", PoolStats::default());
            selection.add((0..*count).map(pool).collect());
            assert!(selection.kept.len() <= 2 * MAX_CONTAINERS);
        }
        let (pools, count) = selection.end();
        assert_eq!(
            count as u32,
            vms.iter().map(|(_, count)| count).sum::<u32>()
        );
        let mut selected = BTreeMap::new();
        for pool in &pools {
            *selected.entry(pool.vm).or_default() += 1;
        }
        assert!(pools.is_sorted_by_key(|pool| (pool.vm, pool.id)));
        selected
    }

    #[test]
    fn vms_have_equal_parts() {
        let parts = selected(&[(1, 1500), (2, 3)]);
        assert_eq!(parts, BTreeMap::from([(Some(1), 1021), (Some(2), 3)]));
        let many: Vec<(u32, u32)> = (1..=8).map(|vm| (vm, 1024)).collect();
        assert!(selected(&many).values().all(|part| *part == 128));
        let few = selected(&[(1, 2), (2, 2)]);
        assert_eq!(few, BTreeMap::from([(Some(1), 2), (Some(2), 2)]));
        // There are more VMs than places.
        let many: Vec<(u32, u32)> = (1..=1100).map(|vm| (vm, 2)).collect();
        assert_eq!(selected(&many).len(), MAX_CONTAINERS);
    }
}
