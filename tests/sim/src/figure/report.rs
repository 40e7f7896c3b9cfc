// SPDX-License-Identifier: GPL-2.0

//! One page for people, and a summary for programs.

use super::{Compared, Figure, Part, plot};
use anyhow::{Context as _, Result};
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

/// Writes `index.html` and `summary.json` into a folder.
pub fn write(folder: &Path, figures: &[Figure]) -> Result<()> {
    let told = || format!("cannot write to {}", folder.display());
    fs::create_dir_all(folder).with_context(told)?;
    fs::write(folder.join("index.html"), page(figures)?.into_string()).with_context(told)?;
    let summary = format!("{:#}\n", summary(figures));
    fs::write(folder.join("summary.json"), summary).with_context(told)
}

fn page(figures: &[Figure]) -> Result<Markup> {
    let sections: Vec<Markup> = figures.iter().map(section).collect::<Result<_>>()?;
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
                    "The store, its shares and its victims are "
                    code { "ddcore" }
                    ", the source of the kernel module; guests, containers and the disk are a model \
                     whose parameters are in " code { "tests/sim/src/parameters.rs" } ". Sizes are \
                     the papers' own. Grey is what a paper says. Places of curves that need what \
                     is not built yet are left empty."
                }
                @for section in &sections { (section) }
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
                tr { th { "" } th.n { "paper" } th.n { "ours" } th { "" } th.n { "ours / paper" } }
                @for row in &figure.compared { (compared(row)) }
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
        }
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn summary(figures: &[Figure]) -> Value {
    let row = |row: &Compared| {
        json!({
            "what": row.what,
            "unit": row.unit,
            "paper": row.paper,
            "ours": rounded(row.ours),
            "ratio": row.ratio().map(rounded),
        })
    };
    let missing = |part: &Part| match part {
        Part::Missing(why) => Some(json!(why)),
        _ => None,
    };
    let figure = |figure: &Figure| {
        json!({
            "figure": figure.name,
            "title": figure.title,
            "compared": figure.compared.iter().map(row).collect::<Vec<_>>(),
            "missing": figure.parts.iter().filter_map(missing).collect::<Vec<_>>(),
            "note": figure.note,
        })
    };
    json!({ "figures": figures.iter().map(figure).collect::<Vec<_>>() })
}

fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
