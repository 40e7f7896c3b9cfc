// SPDX-License-Identifier: GPL-2.0-only

//! Metrics of containers: policyd's decisions, and the modules' counters.

use super::{MAX_CONTAINERS, Shown, goals, labels};
use crate::engine::{Explanation, Verdict};
use ddabi::{counters::AdmissionCounters, pool::PoolStats};
use dddaemon::{
    exposition::{Labels, Page, Value},
    pools::{self, bytes},
};
use ddnl::Pool;

type Getter = fn(&Explanation) -> Option<Value>;

const METRICS: [(&str, &str, Getter); 9] = [
    ("policyd_container_weight", "Weight in its store", |one| {
        Some(one.weight.into())
    }),
    (
        "policyd_container_ssd_weight",
        "Weight in the SSD tier; absent if it keeps no pages there",
        |one| one.ssd_weight.map(Into::into),
    ),
    (
        "policyd_container_need_bytes",
        "Part of the store that would meet the target",
        |one| one.need_bytes.map(Into::into),
    ),
    (
        "policyd_container_memory_bytes",
        "Guest memory in use",
        |one| Some(one.memory_bytes.into()),
    ),
    (
        "policyd_container_memory_anonymous_bytes",
        "Anonymous guest memory in use",
        |one| Some(one.anon_bytes.into()),
    ),
    (
        "policyd_container_memory_high_bytes",
        "Limit memory.high that policyd set",
        |one| one.limits.high.map(Into::into),
    ),
    (
        "policyd_container_memory_low_bytes",
        "Protection memory.low that policyd set",
        |one| one.limits.low.map(Into::into),
    ),
    (
        "policyd_container_enrolled",
        "Whether it has a pool",
        |one| Some(one.enrolled.into()),
    ),
    (
        "policyd_container_target_met",
        "Whether its target is met; absent without figures",
        |one| {
            let met: Option<Vec<bool>> = one.goals.iter().map(|goal| goal.is_met()).collect();
            let met = met.filter(|met| !met.is_empty())?;
            let is_met = one.verdict == Verdict::NotAsked || met.into_iter().all(|met| met);
            Some(is_met.into())
        },
    ),
];

pub(super) fn write(shown: &Shown, page: &mut Page) {
    let all = &shown.report.containers;
    let explained: Vec<(Labels, &Explanation)> = all
        .iter()
        .take(MAX_CONTAINERS)
        .map(|one| (labels(&one.name, &one.cgroup), one))
        .collect();
    for (name, help, of) in METRICS {
        let mut family = page.gauge(name, help);
        for (labels, one) in &explained {
            family.add_known(labels, of(one));
        }
    }
    goals::write(&explained, page);
    page.gauge(
        "policyd_containers_not_exported",
        "Containers that are left out because there are too many",
    )
    .add(&Labels::default(), (all.len() - explained.len()) as u64);
    if let Some(guest) = &shown.guest {
        counted(&guest.pools, page);
    }
}

/// Writes the counters of the modules, whose number of pools is bounded.
fn counted(all: &[Pool], page: &mut Page) {
    let labels = |pool: &Pool| labels(&pool.name, pool.cgroup.as_deref().unwrap_or_default());
    let shown = all.iter().take(MAX_CONTAINERS);
    let pools: Vec<(Labels, &Pool)> = shown.map(|pool| (labels(pool), pool)).collect();
    let stats: Vec<(&Labels, PoolStats)> = pools
        .iter()
        .filter_map(|(labels, pool)| Some((labels, pool.stats?)))
        .collect();
    let rows = stats.iter().map(|(labels, stats)| (*labels, stats));
    pools::sizes(page, "policyd_container", rows.clone());
    pools::counters(page, "policyd_container", rows);
    let admissions: Vec<(&Labels, AdmissionCounters)> = pools
        .iter()
        .filter_map(|(labels, pool)| Some((labels, pool.admission?)))
        .collect();
    admission(&admissions, page);
}

fn admission(admissions: &[(&Labels, AdmissionCounters)], page: &mut Page) {
    let name = "policyd_container_offered_bytes_total";
    let mut family = page.counter(name, "Clean pages that were reclaimed and could be cached");
    for (labels, one) in admissions {
        family.add(labels, bytes(one.offered));
    }
    let name = "policyd_container_not_admitted_bytes_total";
    let mut family = page.counter(name, "Pages that could be cached and were not, by reason");
    for (labels, one) in admissions {
        let refused = [
            ("policy", one.refused_policy),
            ("throttle", one.refused_throttle),
        ];
        for (reason, pages) in refused {
            family.add(&labels.with("reason", reason), bytes(pages));
        }
    }
    type Getter = fn(&AdmissionCounters) -> Value;
    let gauges: [(&str, &str, Getter); 3] = [
        (
            "policyd_container_put_throttle_ratio",
            "Part of the puts that the container may make, because its hits are too few for more",
            |one| {
                let halvings = i32::try_from(one.throttle).unwrap_or(i32::MAX);
                0.5f64.powi(halvings).into()
            },
        ),
        (
            "policyd_container_history_bytes",
            "Memory of the container's history",
            |one| one.history_bytes.into(),
        ),
        (
            "policyd_container_curve_error_ratio",
            "Standard error of the hit-ratio curve, as a part of the reads",
            |one| (one.curve_error_permille as f64 / 1e3).into(),
        ),
    ];
    for (name, help, of) in gauges {
        let mut family = page.gauge(name, help);
        for (labels, one) in admissions {
            family.add(labels, of(one));
        }
    }
}
