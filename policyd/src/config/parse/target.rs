// SPDX-License-Identifier: GPL-2.0-only

//! Targets of the file.

use super::source;
use crate::config::Target;
use ddconf::reader::{MANY, Section};
use std::ops::Range;

/// The percentile for which latencies are usually promised.
const DEFAULT_PERCENTILE: f64 = 99.0;

pub(super) fn target(mut section: Section<'_, '_, '_>, container: &Range<usize>) -> Target {
    const LEAST: f64 = 1e-6;
    let mut is_goal = false;
    let mut goal = |key: &'static str, bounds| {
        is_goal |= section.has(key);
        section.number(key, bounds)
    };
    let target = Target {
        throughput: goal("throughput", LEAST..=MANY),
        latency_ms: goal("latency_ms", LEAST..=MANY),
        hit_ratio: goal("hit_ratio", 0.01..=0.999),
        refault_rate: goal("refault_rate", LEAST..=MANY),
        memory_pressure: goal("memory_pressure", 0.01..=100.0),
        io_pressure: goal("io_pressure", 0.01..=100.0),
        percentile: DEFAULT_PERCENTILE,
        source: None,
    };
    let percentile = section.number("percentile", 1.0..=99.999);
    let below = section.table("source");
    let source = below.and_then(|below| {
        let below = section.reader.section(below, " in the source");
        source::source(below, container, &target)
    });
    let at = section.first().unwrap_or_else(|| container.clone());
    let wrong = if !is_goal {
        Some(
            "a target needs one of throughput, latency_ms, hit_ratio, refault_rate, \
              memory_pressure and io_pressure",
        )
    } else if target.throughput.is_some() && !section.has("source") {
        Some("`throughput` needs a `source` that reports it")
    } else if target.throughput.is_some() && target.latency_ms.is_some() {
        Some("one source cannot report both `throughput` and `latency_ms`; give one of them")
    } else if below.is_some() && target.throughput.is_none() && target.latency_ms.is_none() {
        Some("`source` reports `throughput` or `latency_ms`, and the target has neither")
    } else if section.has("percentile") && target.latency_ms.is_none() {
        Some("`percentile` belongs to `latency_ms`")
    } else {
        None
    };
    if let Some(message) = wrong {
        section.problem(at, message);
    }
    section.end();
    Target {
        source,
        percentile: percentile.unwrap_or(DEFAULT_PERCENTILE),
        ..target
    }
}
