// SPDX-License-Identifier: GPL-2.0-only

//! Metrics of VMs and of their containers.
//!
//! Guests choose the number of containers and their names. The page is bounded
//! ([`crate::containers`]), and a metric reports how many are left out.

use crate::{
    accumulator::Totals,
    report::{Report, VmReport},
};
use ddabi::pool::PoolStats;
use dddaemon::{
    exposition::{Labels, Page, Value},
    pools,
};
use ddnl::{Pool, printable};
use std::collections::BTreeMap;

/// Most VMs on the page.
pub(crate) const MAX_VMS: usize = 1024;

pub(super) fn write(report: &Report, page: &mut Page) {
    let shown = &report.vms[..report.vms.len().min(MAX_VMS)];
    let vms: Vec<(Labels, &VmReport)> = shown.iter().map(|vm| (labels(vm), vm)).collect();
    weights(&vms, page);
    let stats = vms.iter().map(|(labels, vm)| (labels, &vm.stats));
    pools::sizes(page, "ddhostd_vm", stats);
    let totals = totals(&vms, &report.measured.totals);
    let sums: Vec<(&Labels, PoolStats)> = totals.iter().map(|one| (one.0, sum(one.1))).collect();
    let rows = sums.iter().map(|(labels, stats)| (*labels, stats));
    pools::counters(page, "ddhostd_vm", rows);
    by_store(&totals, page);
    let containers = containers(&vms, &report.measured.containers);
    let mut family = page.gauge(
        "ddhostd_objects_not_exported",
        "VMs and containers that are left out because there are too many",
    );
    let none = Labels::default();
    for (kind, all, shown) in [
        ("vm", report.vms.len(), vms.len()),
        (
            "container",
            report.measured.container_count,
            containers.len(),
        ),
    ] {
        let left_out = all.saturating_sub(shown) as u64;
        family.add(&none.with("kind", kind), left_out);
    }
    let mut family = page.gauge(
        "ddhostd_container_weight",
        "Weight among the VM's containers",
    );
    for (labels, pool) in &containers {
        family.add(labels, pool.weight);
    }
    let stats: Vec<(&Labels, PoolStats)> = containers
        .iter()
        .map(|(labels, pool)| (labels, pool.stats_or_zero()))
        .collect();
    let rows = stats.iter().map(|(labels, stats)| (*labels, stats));
    pools::sizes(page, "ddhostd_container", rows.clone());
    pools::counters(page, "ddhostd_container", rows);
}

fn labels(vm: &VmReport) -> Labels {
    let labels = Labels::default().with("vm", &vm.id.to_string());
    labels.with("vm_name", &printable(&vm.label()))
}

fn weights(vms: &[(Labels, &VmReport)], page: &mut Page) {
    type Getter = fn(&VmReport) -> u32;
    let metrics: [(&str, &str, Getter); 4] = [
        ("ddhostd_vm_weight", "Weight of a VM", |vm| vm.weight),
        (
            "ddhostd_vm_ssd_weight",
            "Weight of a VM in the SSD tier",
            |vm| vm.ssd_weight,
        ),
        (
            "ddhostd_vm_file_weight",
            "Weight that the file gives a VM",
            |vm| vm.file_weight,
        ),
        (
            "ddhostd_vm_file_ssd_weight",
            "Weight in the SSD tier that the file gives a VM",
            |vm| vm.file_ssd_weight,
        ),
    ];
    for (name, help, of) in metrics {
        let mut family = page.gauge(name, help);
        for (labels, vm) in vms {
            family.add(labels, Value::from(of(vm)));
        }
    }
}

fn totals<'a>(
    vms: &'a [(Labels, &VmReport)],
    totals: &'a BTreeMap<u32, Totals>,
) -> Vec<(&'a Labels, &'a Totals)> {
    let totals = |(labels, vm): &'a (Labels, &VmReport)| Some((labels, totals.get(&vm.id)?));
    vms.iter().filter_map(totals).collect()
}

fn sum(totals: &Totals) -> PoolStats {
    let mut sum = PoolStats::default();
    for stats in totals.values() {
        sum.merge(stats);
    }
    sum
}

/// Writes durations by the store of the containers that read or were reclaimed.
fn by_store(totals: &[(&Labels, &Totals)], page: &mut Page) {
    let rows: Vec<(Labels, &PoolStats)> = totals
        .iter()
        .flat_map(|(labels, totals)| {
            let stores = totals.iter();
            stores.map(|(store, stats)| (labels.with("store", store), stats))
        })
        .collect();
    let rows = rows.iter().map(|(labels, stats)| (labels, *stats));
    pools::durations(page, "ddhostd_vm", rows);
}

/// Returns containers with their labels.
fn containers<'a>(vms: &[(Labels, &VmReport)], pools: &'a [Pool]) -> Vec<(Labels, &'a Pool)> {
    let vms: BTreeMap<u32, &Labels> = vms.iter().map(|(labels, vm)| (vm.id, labels)).collect();
    let row = |pool: &'a Pool| {
        let labels = vms
            .get(&pool.vm?)?
            .with("pool", &pool.id.to_string())
            .with("container", &printable(&pool.name))
            .with("store", pool.store.name());
        Some((labels, pool))
    };
    pools.iter().filter_map(row).collect()
}
