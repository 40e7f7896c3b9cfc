// SPDX-License-Identifier: GPL-2.0-only

//! The policy table: results of every policy on every load, with bounds for comparison.

use crate::bound::{belady, inclusive_lru};
use crate::parallel;
use crate::replay::{Outcome, Sizes, replay};
use crate::stream::{Access, Kind, distinct};
use crate::workload::{generated, synthetic};
use ddcore::policy::Policy;
use serde::{Serialize, Serializer};

/// The criterion by which a load is judged, see [`crate::goal`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Criterion {
    /// The default policy must not be worse than FIFO. This holds for all loads.
    Bound,
    /// The default policy must be far better than FIFO, on the accesses of a real machine including
    /// its writes.
    Trace,
    /// The default policy must come near the optimum on a loop that does not fit, on which FIFO has
    /// no hits.
    Loop,
}

/// A load of the table.
#[derive(Clone, Debug)]
pub struct Load {
    /// Name in the table.
    pub name: String,
    /// The criterion by which it is judged.
    pub judged: Criterion,
    /// Its accesses.
    pub stream: Vec<Access>,
    /// Sizes.
    pub sizes: Sizes,
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The load.
    pub name: String,
    /// Criterion by which the load is judged.
    pub judged: Criterion,
    /// Sizes.
    pub sizes: Sizes,
    /// Outcome of an inclusive LRU cache of the same size.
    pub inclusive: Outcome,
    /// Outcome of each policy, in the order of [`Policy::ALL`].
    #[serde(serialize_with = "by_name")]
    pub policies: Vec<(Policy, Outcome)>,
    /// Outcome of Belady's optimum.
    pub belady: Outcome,
}

impl Row {
    /// Returns the outcome of a policy.
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

/// Returns all rows of the table. `trace` is a recorded trace, if there is one.
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

/// Returns the loads of a recorded trace. `sizes` are the sizes of guest and host in percent of its
/// pages. `reads` converts writes to reads, so that every access counts.
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
            (5, 20, false) => Criterion::Trace,
            _ => Criterion::Bound,
        },
        stream: stream.clone(),
        sizes: Sizes::new(pages * guest / 100, pages * host / 100),
    };
    sizes.iter().map(load).collect()
}

/// Sizes of guest and host in percent of a trace's pages.
const SIZES: [(usize, usize); 3] = [(5, 5), (5, 20), (5, 40)];

/// Seed of the generated trace.
const SEED: u64 = 2017;

/// Returns the loads of the table: those of the trace, if there is one, the generated load, and the
/// synthetic loads.
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

/// Returns the synthetic loads.
fn synthetic() -> Vec<Load> {
    synthetic::all()
        .into_iter()
        .map(|(name, stream, guest, host)| Load {
            name: name.into(),
            judged: match name {
                "loop" => Criterion::Loop,
                _ => Criterion::Bound,
            },
            stream,
            sizes: Sizes::new(guest, host),
        })
        .collect()
}

/// Formats the table for a document, with hits in percent of all accesses and puts per hit.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every run judges the goals, also those without a recorded trace.
    #[test]
    fn loads_without_a_trace_measure_every_goal() {
        let loads = loads(None);
        let names = |judged| {
            let of = loads.iter().filter(move |load| load.judged == judged);
            of.map(|load| load.name.as_str()).collect::<Vec<&str>>()
        };
        assert_eq!(names(Criterion::Trace), ["generated machine 5 %, 20 %"]);
        assert_eq!(names(Criterion::Loop), ["loop"]);
    }
}
