// SPDX-License-Identifier: GPL-2.0-only

//! One page for people, and a result for programs.

use super::{Compared, Figure, Part};
use crate::verdict::{Verdict, judge};
use crate::{goal, outcome};
use anyhow::{Context as _, Result};
use ddcore::policy::Policy;
use ddreport::Promise;
use ddreport::page::{Cell, table};
use ddsim::goal::Goal;
use ddsim::replay::Outcome;
use ddsim::stream::Access;
use ddsim::table::{self as policy_table, Criterion, Row};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// All results.
#[derive(Clone, Debug)]
pub struct Report {
    /// The promises.
    pub goals: Vec<Goal>,
    /// The aims, which do not decide whether a run fails.
    pub aim: Goal,
    /// The policy table.
    pub policies: Vec<Row>,
    /// The papers' figures.
    pub figures: Vec<Figure>,
}

impl Report {
    /// Runs all policies and all experiments; `trace` is a recorded one.
    pub fn run(trace: Option<&[Access]>) -> Self {
        let figures = super::all();
        let policies = policy_table::rows(trace);
        let mut goals = ddsim::goal::of_policies(&policies);
        goals.extend(goal::of_figures(&figures));
        Self {
            goals,
            aim: goal::aim(&figures),
            policies,
            figures,
        }
    }
}

/// Writes `report.html`, a copy as `index.html` for web servers, and `result.json`.
pub fn write(folder: &Path, report: &Report) -> Result<()> {
    let told = || format!("cannot write to {}", folder.display());
    fs::create_dir_all(folder).with_context(told)?;
    let page = page(report).into_string();
    for name in ["report.html", "index.html"] {
        fs::write(folder.join(name), &page).with_context(told)?;
    }
    let result = format!("{:#}\n", result(report));
    fs::write(folder.join("result.json"), result).with_context(told)?;
    fs::write(folder.join("papers.md"), outcome::document(&report.figures)).with_context(told)
}

fn page(report: &Report) -> Markup {
    let body = html! {
        h1 { "The papers' figures, replayed" }
        p {
            "The store, its shares, victims and policies are "
            code { "ddcore" }
            ", the source of the kernel modules; guests, containers and the disk are a \
             model whose parameters are in " code { "ddsim/src/parameters.rs" }
            ". Where containers have targets, policyd's own engine decides. Grey \
             shows a paper's values. What is left out is named with its reason."
        }
        h2 { "What is promised" }
        (ddreport::promises(report.goals.iter().map(promise)))
        h2 { "Aims" }
        (ddreport::promises([promise(&report.aim)]))
        h2 { "What came out" }
        (verdicts(&report.figures))
        h2 { "What went in" }
        (inputs())
        h2 { "Policies: hits at the host in % of all accesses / puts for each hit" }
        (policies(&report.policies))
        @for figure in &report.figures { (section(figure)) }
    };
    ddreport::page("DoubleDecker: the papers' figures, replayed", &body)
}

fn promise(goal: &Goal) -> Promise {
    Promise {
        name: goal.name.to_string(),
        target: goal.target.to_string(),
        measured: goal.measured.to_string(),
        met: goal.met,
    }
}

/// Returns the verdict on each figure.
fn verdicts(figures: &[Figure]) -> Markup {
    let row = |row: outcome::Row| [row.name, row.verdict.name(), &row.off].map(Cell::text);
    let heads = ["figure", "verdict", "what is not as in the paper"];
    table(&heads, outcome::rows(figures).into_iter().map(row))
}

fn inputs() -> Markup {
    let mut rows = outcome::inputs();
    let heads = rows.next().unwrap_or_default();
    table(&heads, rows.map(|row| row.into_iter().map(Cell::text)))
}

fn policies(rows: &[Row]) -> Markup {
    let chart = |row: &Row| {
        let hits = |outcome: &Outcome| outcome.hit_ratio() * 100.0;
        let ours = row.policies.iter();
        let ours = ours.map(|(policy, outcome)| (policy.name().to_string(), hits(outcome), None));
        let bounds = [("incl. LRU", &row.inclusive), ("Belady", &row.belady)];
        let bounds = bounds.map(|(name, outcome)| (name.to_string(), hits(outcome), None));
        let title = format!("{}: reads that the host answers", row.name);
        Part::bars(title, "% of all accesses", ours.chain(bounds).collect())
    };
    let judged = rows.iter().filter(|row| row.judged != Criterion::Bound);
    let charts: Vec<Part> = judged.map(chart).collect();
    let cell = |outcome: &Outcome| {
        let puts = outcome.puts_per_hit();
        let puts = puts.map_or("–".into(), |puts| format!("{puts:.1}"));
        Cell::right(format!(
            "{:.1}\u{a0}/\u{a0}{puts}",
            outcome.hit_ratio() * 100.0
        ))
    };
    let heads = ["load", "guest, host (pages)", "inclusive LRU"];
    let heads = heads.into_iter().chain(Policy::ALL.map(Policy::name));
    let heads: Vec<&str> = heads.chain(["Belady"]).collect();
    let line = |row: &Row| {
        let sizes = format!("{}, {}", row.sizes.guest, row.sizes.host);
        let ours = row.policies.iter().map(|(_, outcome)| outcome);
        let all = [&row.inclusive]
            .into_iter()
            .chain(ours)
            .chain([&row.belady]);
        let first = [Cell::text(&row.name), Cell::right(sizes)];
        first.into_iter().chain(all.map(cell)).collect::<Vec<_>>()
    };
    html! {
        (parts(&charts))
        (table(&heads, rows.iter().map(line)))
        @if !rows.iter().any(|row| row.judged == Criterion::Trace) {
            p { "No recorded trace was given; its rows are missing." }
        }
    }
}

fn parts(parts: &[Part]) -> Markup {
    html! {
        div.charts {
            @for part in parts {
                @match part {
                    Part::Lines(lines) => (lines.svg()),
                    Part::Bars(bars) => (bars.svg()),
                    Part::Missing(why) => div.missing { "Not shown: " (why) "." },
                }
            }
        }
    }
}

fn section(figure: &Figure) -> Markup {
    let heads = ["", "paper", "ours", "unit", "ours / paper", "holds"];
    let judgement = judge(figure);
    html! {
        h2 { (figure.name) ": " (figure.title) }
        (parts(&figure.parts))
        (table(&heads, figure.compared.iter().map(compared)))
        @if judgement.verdict != Verdict::Shown {
            p {
                strong { (judgement.verdict.name()) }
                " (" (judgement.judged - judgement.off.len()) " of " (judgement.judged)
                " numbers and orders are as in the paper)"
            }
        }
        p { (figure.note) }
    }
}

fn compared(row: &Compared) -> [Cell; 6] {
    let ratio = row.ratio().map(|ratio| format!("{ratio:.2}"));
    let holds = row.holds().map(|holds| if holds { "✓" } else { "✗" });
    [
        Cell::text(&row.what),
        Cell::right(row.paper.map_or("–".into(), number)),
        Cell::right(number(row.ours)),
        Cell::number(row.unit),
        Cell::right(ratio.unwrap_or("–".into())),
        Cell::number(holds.unwrap_or_default()),
    ]
}

pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn result(report: &Report) -> Value {
    let row = |row: &Compared| {
        json!({
            "what": row.what,
            "unit": row.unit,
            "paper": row.paper,
            "ours": rounded(row.ours),
            "ratio": row.ratio().map(rounded),
            "holds": row.holds(),
        })
    };
    let missing = |part: &Part| match part {
        Part::Missing(why) => Some(json!(why)),
        _ => None,
    };
    let figure = |figure: &Figure| {
        let judgement = judge(figure);
        json!({
            "figure": figure.name,
            "title": figure.title,
            "verdict": judgement.verdict,
            "judged": judgement.judged,
            "off": judgement.off,
            "compared": figure.compared.iter().map(row).collect::<Vec<_>>(),
            "missing": figure.parts.iter().filter_map(missing).collect::<Vec<_>>(),
            "note": figure.note,
        })
    };
    json!({
        "targets": report.goals,
        "aims": [report.aim],
        "policies": report.policies,
        "figures": report.figures.iter().map(figure).collect::<Vec<_>>(),
    })
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
