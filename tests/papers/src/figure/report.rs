// SPDX-License-Identifier: GPL-2.0-only

//! One page for people, and a result for programs.

use super::{Compared, Figure, Part, plot};
use crate::inputs::INPUTS;
use crate::verdict::{Verdict, judge};
use crate::{goal, outcome};
use anyhow::{Context as _, Result};
use ddcore::policy::Policy;
use ddsim::goal::Goal;
use ddsim::replay::Outcome;
use ddsim::stream::Access;
use ddsim::table::{self, Judged, Row};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:84rem;margin:2rem auto;padding:0 1rem;\
color:#222}section{border-top:1px solid #ccc;margin-top:2rem}.parts{display:flex;flex-wrap:wrap;\
gap:1rem}.parts svg{max-width:100%;height:auto}.missing{width:640px;min-height:8rem;max-width:100%;\
border:2px dashed #bbb;color:#777;display:flex;align-items:center;justify-content:center;\
box-sizing:border-box;padding:1rem}table{border-collapse:collapse;margin:.5rem 0}td,th{padding:.1rem \
.8rem .1rem 0;text-align:left}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\
.note{max-width:60rem}";

/// All results.
#[derive(Clone, Debug)]
pub struct Report {
    /// The promises.
    pub goals: Vec<Goal>,
    /// The policy table.
    pub policies: Vec<Row>,
    /// The papers' figures.
    pub figures: Vec<Figure>,
}

impl Report {
    /// Runs all policies and all experiments; `trace` is a recorded one.
    pub fn run(trace: Option<&[Access]>) -> Self {
        let figures = super::all();
        let policies = table::rows(trace);
        let mut goals = ddsim::goal::of_policies(&policies);
        goals.extend(goal::of_figures(&figures));
        Self {
            goals,
            policies,
            figures,
        }
    }
}

/// Writes `report.html`, a copy as `index.html` for web servers, and `result.json`.
pub fn write(folder: &Path, report: &Report) -> Result<()> {
    let told = || format!("cannot write to {}", folder.display());
    fs::create_dir_all(folder).with_context(told)?;
    let page = page(report)?.into_string();
    for name in ["report.html", "index.html"] {
        fs::write(folder.join(name), &page).with_context(told)?;
    }
    let result = format!("{:#}\n", result(report));
    fs::write(folder.join("result.json"), result).with_context(told)?;
    fs::write(folder.join("papers.md"), outcome::document(&report.figures)).with_context(told)
}

fn page(report: &Report) -> Result<Markup> {
    let sections = report.figures.iter().map(section);
    let sections: Vec<Markup> = sections.collect::<Result<_>>()?;
    Ok(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "DoubleDecker: the papers' figures, replayed" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "The papers' figures, replayed" }
                p.note {
                    "The store, its shares, victims and policies are "
                    code { "ddcore" }
                    ", the source of the kernel modules; guests, containers and the disk are a \
                     model whose parameters are in " code { "ddsim/src/parameters.rs" }
                    ". Where containers have targets, policyd's own engine decides. Grey \
                     shows a paper's values. Curves that need features that are not built yet are \
                     missing."
                }
                (goals(&report.goals))
                (verdicts(&report.figures))
                (inputs())
                (policies(&report.policies)?)
                @for section in &sections { (section) }
            }
        }
    })
}

fn goals(goals: &[Goal]) -> Markup {
    html! {
        section {
            h2 { "What is promised" }
            table {
                tr { th { "" } th.n { "promise" } th.n { "measured" } th { "" } }
                @for goal in goals {
                    tr {
                        td { (goal.name) }
                        td.n { (goal.target) }
                        td.n { (goal.measured) }
                        td { (if goal.met { "met" } else { "missed" }) }
                    }
                }
            }
        }
    }
}

/// Returns the verdict on each figure.
fn verdicts(figures: &[Figure]) -> Markup {
    html! {
        section {
            h2 { "What came out" }
            table {
                tr { th { "" } th { "verdict" } th { "what is not as in the paper" } }
                @for row in outcome::rows(figures) {
                    tr { td { (row.name) } td { (row.verdict.name()) } td { (row.off) } }
                }
            }
        }
    }
}

fn inputs() -> Markup {
    html! {
        section {
            h2 { "What went in" }
            table {
                tr { th { "" } th { "value" } th { "from" } th { "how" } }
                @for input in &INPUTS {
                    tr {
                        td { (input.what) }
                        td { (input.value) }
                        td { (input.source.name()) }
                        td { (input.how) }
                    }
                }
            }
        }
    }
}

fn policies(rows: &[Row]) -> Result<Markup> {
    let mut plots = Vec::new();
    for row in rows.iter().filter(|row| row.judged != Judged::Bound) {
        let hits = |outcome: &Outcome| outcome.hit_ratio() * 100.0;
        let ours = row.policies.iter();
        let ours = ours.map(|(policy, outcome)| (policy.name().to_string(), hits(outcome), None));
        let bounds = [("incl. LRU", &row.inclusive), ("Belady", &row.belady)];
        let bounds = bounds.map(|(name, outcome)| (name.to_string(), hits(outcome), None));
        let bars = Part::Bars {
            title: format!("{}: reads that the host answers", row.name),
            y: "% of all accesses",
            bars: ours.chain(bounds).collect(),
        };
        plots.extend(plot::draw(&bars)?);
    }
    let cell = |outcome: &Outcome| {
        let puts = outcome.puts_per_hit();
        let puts = puts.map_or("–".into(), |puts| format!("{puts:.1}"));
        html! { td.n { (format!("{:.1} / {puts}", outcome.hit_ratio() * 100.0)) } }
    };
    Ok(html! {
        section {
            h2 { "Policies: hits at the host in % of all accesses / puts for each hit" }
            div.parts { @for plot in &plots { (PreEscaped(plot)) } }
            table {
                tr {
                    th { "load" } th.n { "guest, host (pages)" } th.n { "inclusive LRU" }
                    @for policy in Policy::ALL { th.n { (policy.name()) } }
                    th.n { "Belady" }
                }
                @for row in rows {
                    tr {
                        td { (row.name) }
                        td.n { (format!("{}, {}", row.sizes.guest, row.sizes.host)) }
                        (cell(&row.inclusive))
                        @for (_, outcome) in &row.policies { (cell(outcome)) }
                        (cell(&row.belady))
                    }
                }
            }
            @if !rows.iter().any(|row| row.judged == Judged::Trace) {
                p.note { "No recorded trace was given; its rows are missing." }
            }
        }
    })
}

fn section(figure: &Figure) -> Result<Markup> {
    let mut parts = Vec::new();
    for part in &figure.parts {
        let svg = plot::draw(part)?;
        parts.push(match (svg, part) {
            (Some(svg), _) => html! { (PreEscaped(svg)) },
            (None, Part::Missing(why)) => html! { div.missing { "Not shown: " (why) "." } },
            (None, _) => html! {},
        });
    }
    Ok(html! {
        section {
            h2 { (figure.name) ": " (figure.title) }
            div.parts { @for part in &parts { (part) } }
            table {
                tr { th { "" } th.n { "paper" } th.n { "ours" } th { "" } th.n { "ours / paper" } th { "" } }
                @for row in &figure.compared { (compared(row)) }
            }
            @let judgement = judge(figure);
            @if judgement.verdict != Verdict::Shown {
                p.note {
                    strong { (judgement.verdict.name()) }
                    " (" (judgement.judged - judgement.off.len()) " of " (judgement.judged)
                    " numbers and orders are as in the paper)"
                }
            }
            p.note { (figure.note) }
        }
    })
}

fn compared(row: &Compared) -> Markup {
    html! {
        tr {
            td { (row.what) }
            td.n { (row.paper.map_or("–".into(), number)) }
            td.n { (number(row.ours)) }
            td { (row.unit) }
            td.n { (row.ratio().map_or("–".into(), |ratio| format!("{ratio:.2}"))) }
            td { (row.holds().map_or("", |holds| if holds { "✓" } else { "✗" })) }
        }
    }
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
        "policies": report.policies,
        "figures": report.figures.iter().map(figure).collect::<Vec<_>>(),
    })
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
