// SPDX-License-Identifier: GPL-2.0-only

//! The policy table: every policy on every load, beside what is possible.

use crate::bound::{belady, inclusive_lru};
use crate::parallel;
use crate::replay::{Outcome, Sizes, replay};
use crate::stream::{Access, Kind, distinct};
use crate::workload::{generated, synthetic};
use ddcore::policy::Policy;
use serde::{Serialize, Serializer};

/// What a load is judged by, see [`crate::goal`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Judged {
    /// The default shall not be worse than the paper's FIFO, as on all loads.
    Bound,
    /// It shall be far better: what a machine did, with its writes.
    Trace,
    /// It shall come near the optimum, where FIFO has nothing: a loop that does not fit.
    Loop,
}

/// A load of the table.
#[derive(Clone, Debug)]
pub struct Load {
    /// For people.
    pub name: String,
    /// What it is judged by.
    pub judged: Judged,
    /// What it accesses.
    pub stream: Vec<Access>,
    /// Sizes.
    pub sizes: Sizes,
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The load.
    pub name: String,
    /// What the load is judged by.
    pub judged: Judged,
    /// Sizes.
    pub sizes: Sizes,
    /// An inclusive LRU cache of the same size.
    pub inclusive: Outcome,
    /// Each policy, in the order of [`Policy::ALL`].
    #[serde(serialize_with = "by_name")]
    pub policies: Vec<(Policy, Outcome)>,
    /// Belady's optimum.
    pub belady: Outcome,
}

impl Row {
    /// What a policy made of it.
    pub fn of(&self, policy: Policy) -> Outcome {
        let found = self.policies.iter().find(|(other, _)| *other == policy);
        found.map(|(_, outcome)| *outcome).unwrap_or_default()
    }
}

fn by_name<S: Serializer>(
    policies: &[(Policy, Outcome)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        policies
            .iter()
            .map(|(policy, outcome)| (policy.name(), outcome)),
    )
}

/// The whole table; `trace` is a recorded one.
pub fn rows(trace: Option<&[Access]>) -> Vec<Row> {
    parallel::map(&loads(trace), row)
}

/// Runs all policies on a load.
pub fn row(load: &Load) -> Row {
    let run = |policy| (policy, replay(&load.stream, load.sizes, policy));
    Row {
        name: load.name.clone(),
        judged: load.judged,
        sizes: load.sizes,
        inclusive: inclusive_lru(&load.stream, load.sizes),
        policies: Policy::ALL.into_iter().map(run).collect(),
        belady: belady(&load.stream, load.sizes),
    }
}

/// The loads of a recorded trace: guests and hosts of some percent of its pages. `reads` takes
/// its writes for reads, so that every access counts.
fn of_trace(name: &str, stream: &[Access], sizes: &[(usize, usize)], reads: bool) -> Vec<Load> {
    let mut stream = stream.to_vec();
    if reads {
        stream.retain(|access| access.kind != Kind::Gone);
        for access in &mut stream {
            access.kind = Kind::Read;
        }
    }
    let pages = distinct(&stream);
    let load = |(guest, host): &(usize, usize)| Load {
        name: format!("{name} {guest} %, {host} %"),
        judged: match (guest, host, reads) {
            (5, 20, false) => Judged::Trace,
            _ => Judged::Bound,
        },
        stream: stream.clone(),
        sizes: Sizes::new(pages * guest / 100, pages * host / 100),
    };
    sizes.iter().map(load).collect()
}

/// Guests and hosts in percent of a trace's pages.
const SIZES: [(usize, usize); 3] = [(5, 5), (5, 20), (5, 40)];

/// Of the generated trace.
const SEED: u64 = 2017;

/// The loads of the table: those of a trace, if there is one, the generated one, and the synthetic
/// ones.
fn loads(trace: Option<&[Access]>) -> Vec<Load> {
    let mut loads = Vec::new();
    if let Some(trace) = trace {
        loads.extend(of_trace("trace", trace, &SIZES, false));
        loads.extend(of_trace("trace, writes as reads", trace, &SIZES, true));
    }
    let machine = generated::machine(SEED);
    loads.extend(of_trace("generated machine", &machine, &SIZES, false));
    loads.extend(synthetic());
    loads
}

/// The synthetic loads.
fn synthetic() -> Vec<Load> {
    synthetic::all()
        .into_iter()
        .map(|(name, stream, guest, host)| Load {
            name: name.into(),
            judged: match name {
                "loop" => Judged::Loop,
                _ => Judged::Bound,
            },
            stream,
            sizes: Sizes::new(guest, host),
        })
        .collect()
}

/// The table for a document: hits in percent of all accesses, and puts for each.
pub fn markdown(rows: &[Row]) -> String {
    let cell = |outcome: Outcome| {
        let puts = outcome.puts_per_hit();
        let puts = puts.map_or("–".into(), |puts| format!("{puts:.1}"));
        format!(" {:.1} / {puts} |", outcome.hit_ratio() * 100.0)
    };
    let mut text = String::from("| load | inclusive LRU |");
    for policy in Policy::ALL {
        text += &format!(" {} |", policy.name());
    }
    text += " Belady |\n|---|---|";
    text += &"---|".repeat(Policy::ALL.len() + 1);
    text.push('\n');
    for row in rows {
        text += &format!("| {} |{}", row.name, cell(row.inclusive));
        for (_, outcome) in &row.policies {
            text += &cell(*outcome);
        }
        text += &format!(" {:.1} |\n", row.belady.hit_ratio() * 100.0);
    }
    text
}
