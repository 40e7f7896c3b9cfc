// SPDX-License-Identifier: GPL-2.0-only

//! The template of a page, and its common parts.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

const STYLE: &str = include_str!("style.css");

/// Returns a whole document.
pub fn page(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main { (body) }
            }
        }
    }
}

/// Writes a document as a directory's `report.html`.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write(dir: &Path, page: &Markup) -> Result<()> {
    let path = dir.join("report.html");
    fs::write(&path, &page.0).with_context(|| format!("cannot write {}", path.display()))
}

/// A promise and its result.
#[derive(Clone, Debug)]
pub struct Promise {
    /// What is promised.
    pub name: String,
    /// The bound.
    pub target: String,
    /// What was measured.
    pub measured: String,
    /// Whether the promise is kept.
    pub met: bool,
}

/// Returns the promises and their results.
pub fn promises(promises: impl IntoIterator<Item = Promise>) -> Markup {
    let row = |promise: Promise| {
        let met = match promise.met {
            true => html! { "yes" },
            false => html! { strong { "no" } },
        };
        [
            Cell::text(promise.name),
            Cell::number(promise.target),
            Cell::number(promise.measured),
            Cell::number(met),
        ]
    };
    let heads = ["promise", "target", "measured", "met"];
    table(&heads, promises.into_iter().map(row))
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub struct Cell {
    content: Markup,
    class: &'static str,
}

impl Cell {
    /// Returns a cell with words.
    pub fn text(content: impl Render) -> Self {
        Self {
            content: content.render(),
            class: "",
        }
    }

    /// Returns a cell with a number at the left.
    pub fn number(content: impl Render) -> Self {
        Self {
            class: "figure",
            ..Self::text(content)
        }
    }

    /// Returns a cell with a number at the right, to be compared with those above and below.
    pub fn right(content: impl Render) -> Self {
        Self {
            class: "figure right",
            ..Self::text(content)
        }
    }
}

/// Returns a table. On a narrow screen its rows are cards, in which each cell names its column.
pub fn table<R>(heads: &[&str], rows: impl IntoIterator<Item = R>) -> Markup
where
    R: IntoIterator<Item = Cell>,
{
    let rows: Vec<Vec<Cell>> = rows
        .into_iter()
        .map(|row| row.into_iter().collect())
        .collect();
    // A heading is aligned like the numbers below it.
    let class = |column: usize| {
        let first = rows.first().and_then(|row| row.get(column));
        first.map_or("", |cell| cell.class)
    };
    html! {
        table {
            thead {
                tr {
                    @for (column, head) in heads.iter().enumerate() {
                        th class=(class(column)) { (head) }
                    }
                }
            }
            tbody {
                @for row in &rows {
                    tr {
                        @for (cell, head) in row.iter().zip(heads) {
                            @if head.is_empty() {
                                td class=(cell.class) { (cell.content) }
                            } @else {
                                td class=(cell.class) data-head=(head) { (cell.content) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{GRID, INK};

    #[test]
    fn a_page_fits_a_telephone() {
        let text = page("a <title>", &html! { "body" }).into_string();
        assert!(text.contains("width=device-width"));
        assert!(text.contains("<title>a &lt;title&gt;</title>"));
        assert!(!text.contains("overflow-x") && !text.contains("nowrap"));
    }

    /// The style gives the neutral colours of charts others on dark paper.
    #[test]
    fn the_style_knows_the_colours_of_charts() {
        let (_, dark) = STYLE.split_once("prefers-color-scheme: dark").unwrap();
        for (attribute, colour) in [("fill", INK), ("stroke", INK), ("stroke", GRID)] {
            assert!(
                dark.contains(&format!("[{attribute}=\"{colour}\"]")),
                "{colour}"
            );
        }
    }

    #[test]
    fn cells_name_their_columns() {
        let rows = [[Cell::text("web"), Cell::right(5)]];
        let text = table(&["container", "requests/s"], rows).into_string();
        assert!(
            text.contains("<th class=\"figure right\">requests/s</th>"),
            "{text}"
        );
        assert!(
            text.contains("<td class=\"figure right\" data-head=\"requests/s\">5</td>"),
            "{text}"
        );
    }

    #[test]
    fn a_promise_that_is_broken_stands_out() {
        let promise = Promise {
            name: "hits".into(),
            target: "at least 5".into(),
            measured: "4".into(),
            met: false,
        };
        let text = promises([promise]).into_string();
        assert!(text.contains("<strong>no</strong>"));
    }
}
