// SPDX-License-Identifier: GPL-2.0-only

//! Metrics of targets and figures: a pair for each kind of figure, in base units.

use crate::{config::Figure, engine::Explanation};
use dddaemon::exposition::{Labels, Page};

/// Each figure with the suffix of its metrics' names, and its unit as a fraction of the base unit.
const FIGURES: [(Figure, &str, &str, f64); 6] = [
    (
        Figure::Throughput,
        "throughput",
        "Operations a second, at least",
        1.0,
    ),
    (
        Figure::Latency,
        "latency_seconds",
        "Percentile of the latency, at most",
        1e-3,
    ),
    (
        Figure::HitRatio,
        "hit_ratio",
        "Part of the refaulted pages that the store returns, at least",
        1.0,
    ),
    (
        Figure::RefaultRate,
        "refault_rate",
        "Pages a second that come back soon after they were reclaimed, at most",
        1.0,
    ),
    (
        Figure::MemoryPressure,
        "memory_pressure_ratio",
        "Part of the time in which some task waits for memory, at most",
        1e-2,
    ),
    (
        Figure::IoPressure,
        "io_pressure_ratio",
        "Part of the time in which some task waits for I/O, at most",
        1e-2,
    ),
];

pub(super) fn write(containers: &[(Labels, &Explanation)], page: &mut Page) {
    for (figure, name, help, unit) in FIGURES {
        let goals = || {
            containers.iter().flat_map(|(labels, one)| {
                let goals = one.goals.iter().filter(|goal| goal.figure == figure);
                goals.map(move |goal| (labels, goal))
            })
        };
        let target = format!("policyd_container_target_{name}");
        let text = format!("Target: {help}");
        let mut family = page.gauge(&target, &text);
        for (labels, goal) in goals() {
            family.add(labels, goal.target * unit);
        }
        let measured = format!("policyd_container_measured_{name}");
        let text = format!("Measured: {help}");
        let mut family = page.gauge(&measured, &text);
        for (labels, goal) in goals() {
            family.add_known(labels, goal.measured.map(|value| value * unit));
        }
    }
}
