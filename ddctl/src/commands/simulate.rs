// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl simulate`.

use crate::{
    context::Context,
    error::{Error, Kind, Result},
    output::Frame,
    table::Table,
    value,
};
use clap::Args;
use ddabi::PAGE_SIZE;
use ddconf::size::{Size, show_pages};
use ddsim::{
    advice::{Advice, Recorded, advise},
    replay::Outcome,
    trace,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Find the best weights and policies for recorded traces
///
/// Replays block traces (CSV with the columns op, size and lbn, optionally compressed by gzip)
/// through the code that takes the cache's decisions. No module is needed. Each trace stands for a
/// container that is alone in its guest.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl simulate db.csv.gz web.csv --cache 4G --page-cache 1G",
))]
pub(crate) struct Arguments {
    /// Recorded traces
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<String>,
    /// Size of the host's cache, in bytes or in percent of the pages of all traces
    #[arg(long, value_name = "SIZE", value_parser = value::size, default_value = "20%")]
    cache: Size,
    /// Size of each guest's page cache, in bytes or in percent of the pages of its trace
    #[arg(long, value_name = "SIZE", value_parser = value::size, default_value = "5%")]
    page_cache: Size,
}

pub(crate) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    let mut recorded = Vec::new();
    let mut all = 0;
    for path in &arguments.traces {
        let stream = trace::read(&context.system.file(path)).map_err(|error| unread(&error))?;
        let mut trace = Recorded { stream, guest: 0 };
        let pages = trace.pages() as u64;
        all += pages;
        trace.guest = in_pages(arguments.page_cache, pages);
        recorded.push(trace);
    }
    let cache = in_pages(arguments.cache, all);
    let advice = advise(&recorded, cache);
    let frame = draw(&arguments.traces, cache, &advice, context.columns());
    frame.print(context)
}

/// At least one page, so that there is something to simulate.
fn in_pages(size: Size, whole: u64) -> usize {
    let pages = size.pages(whole.saturating_mul(PAGE_SIZE as u64)).max(1);
    usize::try_from(pages).unwrap_or(usize::MAX)
}

fn unread(error: &impl std::fmt::Display) -> Error {
    Error::new(Kind::Failed, format!("{error:#}"))
        .hint("a trace is CSV with a header line that names at least op, size and lbn")
}

fn draw(names: &[String], cache: usize, advice: &[Advice], columns: usize) -> Frame {
    let mut weights = Table::new(
        1,
        &["TRACE", "WEIGHT", "SHARE", "POLICY", "HIT", "PUTS/HIT"],
    );
    let mut policies = Table::new(2, &["TRACE", "POLICY", "HIT", "PUTS/HIT"]);
    for (name, advice) in names.iter().zip(advice) {
        for (policy, outcome) in &advice.outcomes {
            let [hits, puts] = cells(outcome);
            if *policy == advice.policy {
                weights.row([
                    name.clone(),
                    advice.weight.to_string(),
                    show_pages(advice.share as u64),
                    policy.name().into(),
                    hits.clone(),
                    puts.clone(),
                ]);
            }
            policies.row([name.clone(), policy.name().into(), hits, puts]);
        }
    }
    let mut sizes = Table::new(1, &["TRACE", "CACHE", "HIT"]);
    for (name, advice) in names.iter().zip(advice) {
        let accesses = accesses(advice);
        for (pages, hits) in &advice.sizes {
            let ratio = *hits as f64 / accesses.max(1) as f64;
            sizes.row([name.clone(), show_pages(*pages), percent(ratio)]);
        }
    }
    let text = format!(
        "Best division of {} (hits of all accesses):\n{}\nPolicies at these shares:\n{}\nOther \
         sizes, with fifo:\n{}",
        show_pages(cache as u64),
        weights.text(columns),
        policies.text(columns),
        sizes.text(columns)
    );
    let traces = names.iter().zip(advice);
    let report = SimulationReport {
        cache_pages: cache,
        traces: traces
            .map(|(name, advice)| TraceReport::new(name, advice))
            .collect(),
    };
    Frame::new(text, &report)
}

/// Best weights and policies for recorded traces.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SimulationReport {
    /// Size of the host's cache.
    cache_pages: usize,
    /// The traces in the order of the command line.
    traces: Vec<TraceReport>,
}

/// The best settings for a trace.
#[derive(JsonSchema, Serialize)]
struct TraceReport {
    /// Path of the trace.
    trace: String,
    /// Best weight.
    weight: u32,
    /// Best share.
    share_pages: usize,
    /// Best policy.
    policy: &'static str,
    /// Accesses of the trace.
    accesses: u64,
    /// Each policy at the best share.
    policies: Vec<OutcomeReport>,
    /// Hits with caches of other sizes, with the policy `fifo`.
    sizes: Vec<SizeReport>,
}

/// Result of a replay with a policy.
#[derive(JsonSchema, Serialize)]
struct OutcomeReport {
    /// Name of the policy.
    policy: &'static str,
    /// Hits of all accesses.
    hit_ratio: f64,
    /// Number of hits.
    hits: u64,
    /// Number of puts.
    puts: u64,
    /// Puts for each hit; null without a hit.
    puts_per_hit: Option<f64>,
}

/// Hits with a cache of another size.
#[derive(JsonSchema, Serialize)]
struct SizeReport {
    /// Size of the cache.
    cache_pages: u64,
    /// Number of hits.
    hits: u64,
}

impl TraceReport {
    fn new(name: &str, advice: &Advice) -> Self {
        let policies = advice.outcomes.iter();
        let policies = policies.map(|(policy, outcome)| OutcomeReport {
            policy: policy.name(),
            hit_ratio: outcome.hit_ratio(),
            hits: outcome.hits,
            puts: outcome.puts,
            puts_per_hit: outcome.puts_per_hit(),
        });
        let sizes = advice.sizes.iter().map(|(pages, hits)| SizeReport {
            cache_pages: *pages,
            hits: *hits,
        });
        Self {
            trace: name.into(),
            weight: advice.weight,
            share_pages: advice.share,
            policy: advice.policy.name(),
            accesses: accesses(advice),
            policies: policies.collect(),
            sizes: sizes.collect(),
        }
    }
}

fn accesses(advice: &Advice) -> u64 {
    let first = advice.outcomes.first();
    first.map_or(0, |(_, outcome)| outcome.accesses)
}

fn cells(outcome: &Outcome) -> [String; 2] {
    let puts = outcome.puts_per_hit();
    [
        percent(outcome.hit_ratio()),
        puts.map_or("-".into(), |puts| format!("{puts:.1}")),
    ]
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}
