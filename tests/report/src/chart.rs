// SPDX-License-Identifier: GPL-2.0-only

//! Charts as inline SVG without scripts, fonts or external resources.
//!
//! A [`Timeline`] is a stack of panels with a common time axis; a [`Ladder`] compares a few
//! situations in each row on a logarithmic axis; [`Bars`] has values of items, [`Lines`] curves
//! over a quantity, and [`Spread`] histograms of latencies. Colours are Okabe and Ito's, which
//! everyone can distinguish, and are never the only mark.
//!
//! Labels are on lines of their own. Their lengths are estimated from above, so that no label
//! overlaps another.

mod bars;
mod label;
mod ladder;
mod legend;
mod lines;
mod palette;
mod panel;
mod scale;
mod spread;
mod tile;
mod timeline;

pub use bars::{Bar, Bars};
pub use ladder::{Ladder, Rung};
pub use lines::{Line, Lines, Points};
pub use palette::{GREY, colour};
#[cfg(test)]
pub(crate) use palette::{GRID, INK};
pub use panel::{Panel, Series, Style};
pub use spread::{Spread, Strip};
pub use tile::Tile;
pub use timeline::{Band, Mark, Timeline};

use maud::{Markup, PreEscaped, html};

/// Width of every chart, in units of which a letter has about seven: some 60 letters.
const WIDTH: f64 = 440.0;

/// Returns a chart with a title above it, which has as many lines as it needs.
fn titled(title: &str, height: f64, content: &Markup) -> Markup {
    html! {
        figure {
            figcaption { b { (title) } }
            (picture(title, height, content))
        }
    }
}

/// Returns a picture of a height with a description for readers who cannot see it.
fn picture(about: &str, height: f64, content: &Markup) -> Markup {
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (height) }
            role="img" aria-label=(about)
            font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
            font-size="13"
        { (content) }
    }
}

/// Letters that a line crosses, as in the style of pages.
const OUTLINED: &str = ".outlined{paint-order:stroke;stroke:#fff;stroke-width:4px}";

/// Returns a picture as a file of its own, on paper of its own, so that it is readable on a page of
/// any colour.
pub fn file(about: &str, (width, height): (f64, f64), content: &Markup) -> String {
    let view = format!("0 0 {width} {height}");
    let svg = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(view) width=(width) height=(height)
            role="img" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
            font-size="13"
        {
            title { (about) }
            style { (PreEscaped(OUTLINED)) }
            rect width=(width) height=(height) fill="#ffffff" {}
            (content)
        }
    };
    // A line for each element shows changes of a picture as changes of lines.
    format!("{}\n", svg.0.replace("><", ">\n<"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the line, the left and the right end of each label.
    fn labels(svg: &Markup) -> Vec<(f64, f64, f64)> {
        let texts = svg.0.split("<text ").skip(1);
        let label = |text: &str| {
            let (attributes, rest) = text.split_once('>').unwrap();
            let words = rest.split('<').next().unwrap().replace("&amp;", "&");
            let value = |name: &str| {
                let (_, value) = attributes.split_once(&format!("{name}=\""))?;
                value.split('"').next()
            };
            let [x, y] = ["x", "y"].map(|name| value(name).unwrap().parse::<f64>().unwrap());
            let width = match value("font-weight") {
                Some(_) => label::bold(&words),
                None => label::width(&words),
            };
            let left = match value("text-anchor") {
                Some("middle") => x - width / 2.0,
                Some("end") => x - width,
                _ => x,
            };
            (y, left, left + width)
        };
        texts.map(label).collect()
    }

    /// Panics if a label is beyond the edges, or over another one.
    #[track_caller]
    fn assert_apart(svg: &Markup) {
        let labels = labels(svg);
        assert!(labels.len() > 8, "{}", svg.0);
        for (at, (y, left, right)) in labels.iter().enumerate() {
            assert!(*left >= 0.0 && *right <= WIDTH, "{left} {right} {}", svg.0);
            for (other, start, end) in &labels[..at] {
                let apart = (y - other).abs() >= 13.0 || end <= left || right <= start;
                assert!(apart, "{left} {right} at {y}: {}", svg.0);
            }
        }
    }

    #[test]
    fn labels_keep_apart_and_inside() {
        let line = |name: &str| (name.to_owned(), vec![(0.0, 1_000.0), (2_000.0, 3_000.0)]);
        let lines = Lines {
            title: "Operations a second, by those with all memory in the VM".into(),
            x: "MiB in the VM; the rest of 2 GiB at the host",
            y: "MiB in the store",
            lines: ["Container 1 (2 threads)", "Container 2 (3 threads)", "c"]
                .map(line)
                .into(),
        };
        let bar = |name: &str, value| (name.to_owned(), value, Some(value * 2.0));
        let bars = Bars {
            title: "Best effort by performance-aware, cut at 20".into(),
            unit: "times as fast",
            names: ["ours", "paper"],
            bars: vec![bar("Video server, best effort", 12_345.0), bar("b", 0.5)],
        };
        let curve = |name: &str| (name.to_owned(), vec![vec![(0.0, 1.0), (240.0, 12_345.0)]]);
        let tile = Tile {
            title: "Stored, evicted and refused (MiB/s)".into(),
            seconds: 240.0,
            max: None,
            last: false,
            behind: Vec::new(),
            curves: ["can be spared l1", "too slow /dev/mapper/cache", "c"]
                .map(curve)
                .into(),
        };
        let tile = tile.draw((0.0, 0.0), (WIDTH, 208.0));
        for svg in [lines.svg(), bars.svg(), tile] {
            assert_apart(&svg);
        }
    }

    /// A recording with long names, large values, changes that follow one another, and phases that
    /// are too short for their letters.
    fn timeline(seconds: f64, most: f64) -> Timeline {
        let series = |label: &str| Series {
            label: label.to_owned(),
            colour: colour(0),
            style: Style::Line,
            parts: vec![vec![(0.0, 0.0), (seconds, most)]],
        };
        let panel = |title: &str, height| Panel {
            title: title.to_owned(),
            height,
            max: None,
            series: ["shop", "mail server", "video server", "a fourth container"]
                .map(series)
                .into(),
            labels: true,
        };
        let band = |(number, from): (usize, f64)| Band {
            name: format!("phase {number}"),
            from: from * seconds,
            to: seconds,
        };
        let starts = [0.0, 0.9, 0.91, 0.92];
        let mark = |(number, at): (usize, f64)| Mark {
            number,
            at: at * seconds,
        };
        let times = [0.1, 0.11, 0.12, 0.13, 1.0];
        Timeline {
            about: "a recording".to_owned(),
            seconds,
            bands: starts.into_iter().enumerate().map(band).collect(),
            marks: times.into_iter().enumerate().map(mark).collect(),
            panels: vec![
                panel(
                    "video server / default (MiB; dashed: the entitlement of it)",
                    74.0,
                ),
                panel("hits/s", 140.0),
            ],
        }
    }

    #[test]
    fn labels_of_timelines_keep_apart_and_inside() {
        for seconds in [3.0, 60.0, 240.0, 600.0, 999.0, 1_000.0, 12_345.0] {
            for most in [0.5, 90.0, 9_999.0, 12_345.0, 1_234_567.0] {
                assert_apart(&timeline(seconds, most).svg());
            }
        }
    }

    #[test]
    fn labels_of_ladders_keep_apart_and_inside() {
        let rung = |name: &str, factors: [f64; 2]| Rung {
            name: name.to_owned(),
            factors: factors.map(Some).into(),
        };
        for (least, most) in [
            (1.0, 1.0),
            (0.9, 12.6),
            (0.0125, 1.0),
            (0.013, 80.0),
            (0.05, 160.0),
        ] {
            let ladder = Ladder {
                about: "gains".to_owned(),
                axis: "requests per second of each container, compared with memory of guests"
                    .to_owned(),
                situations: ["limits by hand, 50:50", "host alone, 25:75", "policyd"]
                    .map(|name| (name.to_owned(), colour(0)))
                    .into(),
                rows: vec![
                    rung("web", [least, most]),
                    rung(
                        "The same four servers in a VM, the geometric mean of them",
                        [1.0, most],
                    ),
                    rung("mail", [most, least]),
                ],
            };
            assert_apart(&ladder.svg());
        }
    }

    #[test]
    fn labels_of_spreads_keep_apart_and_inside() {
        for counts in [
            vec![(1, 5), (90, 20)],
            vec![(100, 5), (1_000, 60), (100_000, 1)],
            vec![(0, 1), (1_000_000_000, 1)],
            vec![(9_000_000, 1)],
        ] {
            let p99_us = counts.last().map(|(us, _)| *us);
            let strip = |name: &str| Strip {
                name: name.to_owned(),
                colour: colour(0),
                counts: counts.clone(),
                p99_us,
            };
            let spread = Spread {
                title: "A virtual machine of a long name / its default container".to_owned(),
                strips: [
                    "memory of guests",
                    "weights of the host and of the guest, and the default policy",
                    "one FIFO",
                    "weights",
                    "host's page cache",
                    "policyd",
                ]
                .map(strip)
                .into(),
            };
            assert_apart(&spread.svg());
        }
    }
}
