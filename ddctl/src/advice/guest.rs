// SPDX-License-Identifier: GPL-2.0-only

//! Advice for a guest, from the curves of its containers.

use super::{AdviceReport, ENOUGH, percent, refusals};
use crate::{target::pool_label, word};
use ddabi::{counters::CurvePoint, genl::LinkState, pool::Store};
use ddconf::size::show_pages;
use ddnl::{GuestStatus, Policy, Pool};
use ddsim::advice::divide;

/// Gain from which a change is advised, in percent of the reads.
const GAIN: u64 = 2;

/// A container with a curve.
struct Curved<'a> {
    pool: &'a Pool,
    points: &'a [CurvePoint],
    reads: u64,
    error_permille: u64,
}

impl Curved<'_> {
    /// Returns the hits at a size: those of the largest point that is not above it.
    fn hits(&self, pages: u64) -> u64 {
        let below = self.points.iter().filter(|point| point.pages <= pages);
        below.map(|point| point.hits).max().unwrap_or_default()
    }
}

/// Returns the advice for a guest.
pub(crate) fn guest(status: &GuestStatus, pools: &[Pool]) -> AdviceReport {
    let mut report = AdviceReport::default();
    if status.state != LinkState::Attached {
        report.add(
            "No host is attached, so nothing is cached.",
            ["ddctl doctor".to_owned()],
            "The checks show what is missing.",
        );
        return report;
    }
    for pool in pools {
        examine(&mut report, pool, &word::of_pool(pools, pool));
    }
    let curved: Vec<Curved<'_>> = pools.iter().filter_map(with_curve).collect();
    weights(&mut report, pools, &curved);
    for pool in pools.iter().filter(|pool| with_curve(pool).is_none()) {
        report.unknown.push(format!(
            "Container {} has no curve of the memory tier with {ENOUGH} reads or more, so it is not \
             known what another share would bring it.",
            pool_label(pool)
        ));
    }
    report
}

/// Returns a container of the memory tier with its curve, if that rests on enough reads.
fn with_curve(pool: &Pool) -> Option<Curved<'_>> {
    let admission = pool.admission?;
    let points = pool.curve.as_deref().unwrap_or_default();
    let usable = pool.store == Store::Memory && !points.is_empty() && admission.reads >= ENOUGH;
    usable.then_some(Curved {
        pool,
        points,
        reads: admission.reads,
        error_permille: admission.curve_error_permille,
    })
}

/// Examines a container, which is called `word` in commands.
fn examine(report: &mut AdviceReport, pool: &Pool, word: &str) {
    let stats = pool.stats_or_zero();
    let label = pool_label(pool);
    let name = format!("container {label}");
    refusals(report, &name, &stats);
    let given = stats.gets.saturating_sub(stats.misses);
    let stores_all = matches!(pool.policy, Policy::Fifo);
    if stats.puts >= ENOUGH && stores_all && stats.puts / given.max(1) >= 5 {
        report.add(
            format!(
                "Container {label} stores {} pages for each hit, because its policy fifo stores \
                 every page.",
                stats.puts / given.max(1)
            ),
            [format!("ddctl container set-policy {word} adaptive")],
            "A policy that chooses pages saves the copies of those that are not read again.",
        );
    }
    if let Some(curve) = with_curve(pool) {
        let most = curve.points.iter().map(|point| point.hits).max();
        if percent(most.unwrap_or_default(), curve.reads) == 0 && stats.used > 0 {
            report.add(
                format!(
                    "No share of the cache would give container {label} hits for 1 % of its reads."
                ),
                [format!("ddctl container set-store {word} none")],
                format!(
                    "The container stops storing pages. Its {} are free for the other containers.",
                    show_pages(stats.used)
                ),
            );
        }
    }
}

/// Compares the weights with the best division of the same memory.
fn weights(report: &mut AdviceReport, pools: &[Pool], curved: &[Curved<'_>]) {
    let entitled = |one: &Curved<'_>| one.pool.stats_or_zero().entitlement;
    let whole: u64 = curved.iter().map(entitled).sum();
    let reads: u64 = curved.iter().map(|one| one.reads).sum();
    if whole == 0 || reads < ENOUGH {
        return;
    }
    let error = curved.iter().map(|one| one.error_permille).max();
    let error = error.unwrap_or_default();
    let now: u64 = curved.iter().map(|one| one.hits(entitled(one))).sum();
    let shares = divide(curved.len(), whole, |at, pages| curved[at].hits(pages));
    let at_best = |whole: u64, shares: &[u32]| -> u64 {
        let hits = curved.iter().zip(shares);
        hits.map(|(one, share)| one.hits(whole * u64::from(*share) / 100))
            .sum()
    };
    let best = at_best(whole, &shares);
    let least = GAIN.max(error / 10);
    if percent(best.saturating_sub(now), reads) >= least {
        let commands = curved.iter().zip(&shares).map(|(one, share)| {
            // A share of 0 % would stop the container from storing pages.
            let weight = (share * 10).max(1);
            format!(
                "ddctl set-weight {} {weight}",
                word::of_pool(pools, one.pool)
            )
        });
        report.add(
            format!(
                "The containers share {} so that {} % of their reads can be hits.",
                show_pages(whole),
                percent(now, reads)
            ),
            commands,
            format!(
                "With these weights {} % of the same reads would have been hits, with a standard \
                 error of {}.{} %.",
                percent(best, reads),
                error / 10,
                error % 10
            ),
        );
    }
    let double = whole.saturating_mul(2);
    let shares = divide(curved.len(), double, |at, pages| curved[at].hits(pages));
    let more = at_best(double, &shares);
    if percent(more.saturating_sub(best), reads) >= least {
        report.add(
            format!(
                "This VM could use more than its share of {}.",
                show_pages(whole)
            ),
            [],
            format!(
                "Twice as much would have given hits for {} % of the reads instead of {} %. The \
                 administrator of the host sets the weight of this VM and the capacity.",
                percent(more, reads),
                percent(best, reads)
            ),
        );
    } else {
        report.unknown.push(format!(
            "Curves are samples of the reads of the last minutes, with a standard error of {}.{} %.",
            error / 10,
            error % 10
        ));
    }
}
