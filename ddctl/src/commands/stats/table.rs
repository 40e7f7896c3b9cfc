// SPDX-License-Identifier: GPL-2.0-only

//! The table of VMs and containers.

use super::{Group, hit_ratio};
use crate::{number, table::Table, target::pool_label, watch::Elapsed};
use ddabi::pool::PoolStats;
use std::collections::BTreeMap;

/// Identifies a row by VM and pool: without a pool it is the row of the VM, without a VM a row of
/// the guest that ddctl runs in.
type Row = (Option<u32>, Option<u32>);

/// The counters of the previous frame, from which rates are computed.
#[derive(Default)]
pub(super) struct Rates(BTreeMap<Row, PoolStats>);

impl Rates {
    pub(super) fn remember(&mut self, groups: &[Group]) {
        self.0.clear();
        for group in groups {
            let vm = group.vm.as_ref().map(|vm| vm.vm.id);
            if let Some(vm) = &group.vm {
                self.0.insert((Some(vm.vm.id), None), vm.vm.stats);
            }
            for pool in &group.pools {
                self.0.insert((vm, Some(pool.id)), pool.stats_or_zero());
            }
        }
    }

    /// Returns puts and hits per second since the previous frame.
    fn of(&self, row: Row, stats: &PoolStats, seconds: f64) -> [String; 2] {
        let rate = |count: fn(&PoolStats) -> u64| match self.0.get(&row) {
            Some(before) if seconds > 0.0 => {
                let more = count(stats).saturating_sub(count(before));
                number::rate(more as f64 / seconds)
            }
            _ => "-".into(),
        };
        [
            rate(|stats| stats.puts),
            rate(|stats| stats.gets.saturating_sub(stats.misses)),
        ]
    }
}

const HEADINGS: [&str; 7] = ["NAME", "WEIGHT", "USED", "ENTITLED", "HIT", "GETS", "PUTS"];

/// Headings without and with rates.
const REST: [[&str; 2]; 2] = [["REFUSED", "EVICTED"], ["PUTS/S", "HITS/S"]];

/// Returns the table with one row for each VM and its containers below it. It has rates from the
/// second frame on.
pub(super) fn text(groups: &[Group], elapsed: Elapsed, rates: &Rates, columns: usize) -> String {
    let mut headings = HEADINGS.to_vec();
    headings.extend(REST[usize::from(elapsed.is_some())]);
    let mut table = Table::new(1, &headings);
    let mut add = |label: String, weight: u32, row: Row, stats: &PoolStats, not_offered: u64| {
        let refused = stats.put_refused().saturating_add(not_offered);
        let mut cells = vec![
            label,
            weight.to_string(),
            number::size(stats.used),
            number::size(stats.entitlement),
            number::percent(hit_ratio(stats)),
            number::count(stats.gets),
            number::count(stats.puts),
        ];
        match elapsed {
            Some(seconds) => cells.extend(rates.of(row, stats, seconds)),
            None => cells.extend([number::count(refused), number::count(stats.evictions)]),
        }
        table.row(cells);
    };
    for group in groups {
        let vm = group.vm.as_ref().map(|vm| vm.vm.id);
        let mut indent = "";
        if let Some(named) = &group.vm {
            let whole = PoolStats {
                used: named.vm.used,
                entitlement: named.vm.entitlement,
                ..named.vm.stats
            };
            add(named.label(), named.vm.weight, (vm, None), &whole, 0);
            indent = "  ";
        }
        for pool in &group.pools {
            let label = format!("{indent}{}", pool_label(pool));
            add(
                label,
                pool.weight,
                (vm, Some(pool.id)),
                &pool.stats_or_zero(),
                pool.admission.map_or(0, |one| {
                    one.refused_policy.saturating_add(one.refused_throttle)
                }),
            );
        }
    }
    if groups.is_empty() {
        return "No VM has loaded doubledecker_guest yet\n".into();
    }
    table.text(columns)
}
