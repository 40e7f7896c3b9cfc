// SPDX-License-Identifier: GPL-2.0-only

//! Metrics of what the host counts for pools: for containers, and in sum for VMs.
//!
//! The modules count pages. On the page are bytes, the base unit of Prometheus.

use crate::exposition::{Labels, Page};
use ddabi::{PAGE_SIZE, pool::PoolStats};

/// Converts pages to bytes.
pub const fn bytes(pages: u64) -> u64 {
    pages.wrapping_mul(PAGE_SIZE as u64)
}

/// Returns the value of a metric from the statistics.
type Getter = fn(&PoolStats) -> u64;

/// Sizes: end of the name, help, pages.
const SIZES: [(&str, &str, Getter); 4] = [
    ("used_bytes", "Cached pages, both tiers together", |it| {
        it.used
    }),
    (
        "entitlement_bytes",
        "Part of the memory tier that the weights entitle it to",
        |it| it.entitlement,
    ),
    ("ssd_used_bytes", "Cached pages in the SSD tier", |it| {
        it.ssd_used
    }),
    (
        "ssd_entitlement_bytes",
        "Part of the SSD tier that the weights entitle it to",
        |it| it.ssd_entitlement,
    ),
];

/// Counters of pages: name before `_bytes_total`, help, pages.
const PAGES: [(&str, &str, Getter); 17] = [
    ("get", "Pages that readers requested", |it| it.gets),
    (
        "hit",
        "Pages that were found, requested by any reader",
        |it| it.hits,
    ),
    (
        "miss",
        "Pages that readers requested and did not get",
        |it| it.misses,
    ),
    (
        "foreign_hit",
        "Pages that readers got and another container owned",
        |it| it.hits_foreign,
    ),
    ("put", "Pages that were stored", |it| it.puts),
    (
        "flushed",
        "Pages freed because the guest changed or dropped them",
        |it| it.flushes,
    ),
    ("evicted", "Pages freed to make room", |it| it.evictions),
    ("moved_in", "Pages that came from another container", |it| {
        it.moved_in
    }),
    ("moved_out", "Pages that went to another container", |it| {
        it.moved_out
    }),
    ("ssd_hit", "Pages that were found in the SSD tier", |it| {
        it.ssd_hits
    }),
    ("ssd_put", "Pages that were stored in the SSD tier", |it| {
        it.ssd_puts
    }),
    (
        "ssd_flushed",
        "Pages of the SSD tier freed because the guest changed or dropped them, or reading failed",
        |it| it.ssd_flushes,
    ),
    (
        "ssd_evicted",
        "Pages of the SSD tier freed to make room",
        |it| it.ssd_evictions,
    ),
    (
        "demoted",
        "Pages that moved from the memory tier to the SSD tier",
        |it| it.demoted,
    ),
    (
        "promoted",
        "Pages that moved from the SSD tier to the memory tier",
        |it| it.promoted,
    ),
    (
        "ssd_retained",
        "Pages that the SSD tier returned and kept",
        |it| it.hits_retained,
    ),
    (
        "unproven_evicted",
        "Pages of the memory tier freed because the container admits only proven pages to SSDs",
        |it| it.evictions_unproven,
    ),
];

/// Reasons to refuse pages.
const REASONS: [(&str, Getter); 6] = [
    ("off", |it| it.put_refused_off),
    ("memory", |it| it.put_refused_memory),
    ("device", |it| it.put_refused_device),
    ("fault", |it| it.put_refused_fault),
    ("absent", |it| it.put_refused_absent),
    ("unproven", |it| it.put_refused_unproven),
];

/// Counters of calls: name before `_calls_total`, help, calls.
const CALLS: [(&str, &str, Getter); 2] = [
    ("get", "Get calls", |it| it.get_batches),
    ("put", "Put calls", |it| it.put_batches),
];

/// Statistics with their labels.
pub type Row<'a> = (&'a Labels, &'a PoolStats);

/// Writes what pools hold now.
pub fn sizes<'a>(page: &mut Page, prefix: &str, rows: impl Iterator<Item = Row<'a>> + Clone) {
    for (name, help, of) in SIZES {
        let name = format!("{prefix}_{name}");
        let mut family = page.gauge(&name, help);
        for (labels, stats) in rows.clone() {
            family.add(labels, bytes(of(stats)));
        }
    }
}

/// Writes the counters of pools.
pub fn counters<'a>(page: &mut Page, prefix: &str, rows: impl Iterator<Item = Row<'a>> + Clone) {
    for (name, help, of) in PAGES {
        let name = format!("{prefix}_{name}_bytes_total");
        let mut family = page.counter(&name, help);
        for (labels, stats) in rows.clone() {
            family.add(labels, bytes(of(stats)));
        }
    }
    let name = format!("{prefix}_put_refused_bytes_total");
    let mut family = page.counter(&name, "Pages that the host refused, by reason");
    for (labels, stats) in rows.clone() {
        for (reason, of) in REASONS {
            family.add(&labels.with("reason", reason), bytes(of(stats)));
        }
    }
    for (name, help, of) in CALLS {
        let name = format!("{prefix}_{name}_calls_total");
        let mut family = page.counter(&name, help);
        for (labels, stats) in rows.clone() {
            family.add(labels, of(stats));
        }
    }
}

/// Writes the durations of calls, with statistics for each store that containers can have.
pub fn durations<'a>(page: &mut Page, prefix: &str, rows: impl Iterator<Item = Row<'a>> + Clone) {
    let name = format!("{prefix}_get_duration_seconds");
    let help = "Durations of get calls at the host, by the slowest tier that they read";
    let mut family = page.histogram(&name, help);
    for (labels, stats) in rows.clone() {
        family.add_durations(&labels.with("tier", "memory"), &stats.get_latency);
        family.add_durations(&labels.with("tier", "ssd"), &stats.ssd_get_latency);
    }
    let name = format!("{prefix}_put_duration_seconds");
    let mut family = page.histogram(&name, "Durations of put calls at the host");
    for (labels, stats) in rows {
        family.add_durations(labels, &stats.put_latency);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::Format;
    use std::collections::BTreeSet;
    use zerocopy::{FromBytes, IntoBytes};

    fn page(stats: &PoolStats) -> String {
        let mut page = Page::new(Format::Text);
        let labels = Labels::default();
        let rows = [(&labels, stats)];
        sizes(&mut page, "x", rows.into_iter());
        counters(&mut page, "x", rows.into_iter());
        durations(&mut page, "x", rows.into_iter());
        page.finish()
    }

    /// A counter that the modules gain is missing here until it has a metric.
    #[test]
    fn every_counter_is_on_the_page() {
        const WORDS: usize = size_of::<PoolStats>() / size_of::<u64>();
        let mut pages = BTreeSet::from([page(&PoolStats::default())]);
        for word in 1..WORDS {
            let mut words = [0u64; WORDS];
            words[word] = 1;
            let stats = PoolStats::read_from_bytes(words.as_bytes()).unwrap();
            pages.insert(page(&stats));
        }
        // The weight has a metric of its own if there is one. Durations below the bound of the
        // first bucket are in one bucket, and so are those above that of the last one.
        let together = (8 + 1) * 3;
        assert_eq!(pages.len(), WORDS - together);
    }

    #[test]
    fn pages_are_bytes() {
        let page = page(&PoolStats {
            hits: 3,
            put_refused_absent: 2,
            get_batches: 7,
            ..PoolStats::default()
        });
        for line in [
            "x_hit_bytes_total 12288",
            "x_put_refused_bytes_total{reason=\"absent\"} 8192",
            "x_get_calls_total 7",
        ] {
            assert!(page.lines().any(|one| one == line), "{line} in {page}");
        }
    }
}
