// SPDX-License-Identifier: GPL-2.0-only

//! All counters and settings of one container.

use super::{hit_ratio, puts_per_hit};
use crate::{
    output::{Properties, show_ratio},
    target::{NamedVm, pool_label},
};
use ddabi::pool::Histogram;
use ddconf::size::show_pages;
use ddnl::{CounterFields, Pool, quantile_ns};

pub(super) fn text(vm: Option<&NamedVm>, pool: &Pool, columns: usize) -> String {
    let stats = pool.stats_or_zero();
    let mut facts = Properties::default();
    if let Some(vm) = vm {
        facts.add("VM", format!("{} (id {})", vm.label(), vm.vm.id));
    }
    facts.add(
        "Container",
        format!("{} (id {})", pool_label(pool), pool.id),
    );
    if let Some(cgroup) = &pool.cgroup {
        facts.add("Cgroup", crate::output::printable(cgroup));
    }
    facts.add("Store", pool.store.name());
    facts.add("Policy", pool.policy.name());
    facts.add("Weight", pool.weight.to_string());
    facts.add("Used", show_pages(stats.used));
    facts.add("Entitled", show_pages(stats.entitlement));
    facts.add("Hit ratio", show_ratio(hit_ratio(&stats)));
    for (name, value) in stats.counters() {
        // These are shown above, with their units.
        if !["weight", "entitlement", "used"].contains(&name) {
            facts.add(&heading(name), value.to_string());
        }
    }
    if let Some(puts) = puts_per_hit(&stats) {
        facts.add("Puts per hit", format!("{puts:.2}"));
    }
    for (name, value) in pool.admission.iter().flat_map(CounterFields::counters) {
        facts.add(&heading(name), value.to_string());
    }
    for (name, histogram) in stats.histograms() {
        facts.add(&heading(name), latency(histogram));
    }
    facts.text(columns)
}

/// Turns the name of a counter into a heading: `get_latency` into `Get latency`.
fn heading(name: &str) -> String {
    let words = name.replace('_', " ");
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => words,
    }
}

fn latency(histogram: &Histogram) -> String {
    let quantile = |percent| quantile_ns(histogram, percent).map(show_ns);
    match (quantile(50), quantile(99), quantile(100)) {
        (Some(half), Some(most), Some(all)) => {
            format!("half below {half}, 99 % below {most}, all below {all}")
        }
        _ => "no call yet".into(),
    }
}

fn show_ns(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{:.1} µs", nanoseconds as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", nanoseconds as f64 / 1e6),
        _ => format!("{:.1} s", nanoseconds as f64 / 1e9),
    }
}
