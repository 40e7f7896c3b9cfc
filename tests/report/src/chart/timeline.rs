// SPDX-License-Identifier: GPL-2.0-only

//! A stack of panels with a common time axis.

use maud::{Markup, html};

use super::{
    WIDTH, file,
    label::{LINE, centred, width, wrapped},
    palette::{GRID, INK},
    panel::{Frame, Panel},
    picture,
    scale::{self, Scale},
};

/// Least room for the numbers left of the axes.
const LEFT: f64 = 52.0;
const RIGHT: f64 = WIDTH - 12.0;
/// Height of a row of numbers of changes.
const MARKS: f64 = 22.0;
/// Height above the first panel, for letters of phases.
const HEAD: f64 = 24.0;
/// Height between panels.
const GAP: f64 = 10.0;
/// Least distance between two numbers in a row.
const APART: f64 = 20.0;
/// Height of a row of letters of periods, and the least distance between two of them.
const LETTERS: f64 = 16.0;
const LETTERS_APART: f64 = 14.0;
/// Height below the last panel, for the time axis.
const FOOT: f64 = 44.0;

/// Panels over time, in seconds.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Description for readers who cannot see it.
    pub about: String,
    /// Length of the time axis.
    pub seconds: f64,
    /// The periods. They get letters, and their names are below the chart.
    pub bands: Vec<Band>,
    /// The moments.
    pub marks: Vec<Mark>,
    /// The panels, from top to bottom.
    pub panels: Vec<Panel>,
}

/// A named period.
#[derive(Clone, Debug)]
pub struct Band {
    /// Its name.
    pub name: String,
    /// Its beginning, in seconds.
    pub from: f64,
    /// Its end, in seconds.
    pub to: f64,
}

/// A numbered moment, which is explained outside of the chart.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Its number.
    pub number: usize,
    /// Its time, in seconds.
    pub at: f64,
}

impl Timeline {
    /// Draws the panels, and names the periods below them.
    pub fn svg(&self) -> Markup {
        let (content, height) = self.panels();
        html! {
            figure {
                (picture(&self.about, height, &content))
                @if !self.bands.is_empty() {
                    figcaption {
                        @for (number, band) in self.bands.iter().enumerate() {
                            @if number > 0 { ", " }
                            b { (letter(number)) } " " (band.name)
                        }
                    }
                }
            }
        }
    }

    /// Returns the same as a file of its own, with the explanations of the moments.
    pub fn file(&self, changes: &[String]) -> String {
        let (content, height) = self.panels();
        let bands = self.bands.iter().enumerate();
        let bands = bands.map(|(number, band)| format!("{}: {}", letter(number), band.name));
        let bands = bands.collect::<Vec<_>>().join(", ");
        let marks = self.marks.iter().zip(changes);
        let marks = marks.map(|(mark, change)| format!("{}: {change}", mark.number));
        let lines = std::iter::once(bands).chain(marks);
        let lines: Vec<_> = lines
            .flat_map(|text| wrapped(&text, WIDTH - 16.0))
            .collect();
        let content = html! {
            (content)
            @for (number, line) in lines.iter().enumerate() {
                text x="8" y=(height + LINE * (number as f64 + 0.8)) fill=(INK) { (line) }
            }
        };
        let height = height + LINE * (lines.len() as f64 + 0.5);
        file(&self.about, (WIDTH, height), &content)
    }

    /// Returns the panels and their height.
    fn panels(&self) -> (Markup, f64) {
        let left = self.panels.iter().map(Panel::left).fold(LEFT, f64::max);
        let time = Scale::new((0.0, self.seconds), (left, RIGHT));
        let letters = self.bands.iter().map(|band| band.middle(&time));
        let letters = rows(letters, LETTERS_APART);
        let head = HEAD + LETTERS * letters.iter().max().map_or(0.0, |row| *row as f64);
        let rows = rows(self.marks.iter().map(|mark| time.at(mark.at)), APART);
        let most = rows.iter().max().map_or(0, |row| row + 1);
        let mut tops = Vec::new();
        let mut bottom = head + MARKS * most as f64;
        for panel in &self.panels {
            tops.push(bottom + panel.head());
            bottom += panel.head() + panel.height + GAP;
        }
        let bottom = bottom - GAP;
        let content = html! {
            @for ((number, band), row) in self.bands.iter().enumerate().zip(&letters) {
                (band.draw(number, *row, &time, bottom))
            }
            // Lines are below all letters.
            @for (mark, row) in self.marks.iter().zip(&rows) {
                @let x = time.at(mark.at);
                @let y = head + MARKS * (*row as f64 + 0.5);
                line x1=(x) x2=(x) y1=(y) y2=(bottom) stroke=(INK) stroke-width="1"
                    stroke-dasharray="2 3" {}
            }
            @for (panel, &top) in self.panels.iter().zip(&tops) {
                (panel.draw(&Frame { left, right: RIGHT, top, time }))
            }
            @for (mark, row) in self.marks.iter().zip(&rows) {
                @let x = time.at(mark.at);
                @let y = head + MARKS * (*row as f64 + 0.5);
                circle cx=(x) cy=(y) r="9" fill=(INK) {}
                text x=(x) y=(y + 4.5) text-anchor="middle" fill="#ffffff" font-size="12"
                    font-weight="600" { (mark.number) }
            }
            line x1=(left) x2=(RIGHT) y1=(bottom) y2=(bottom) stroke=(INK) {}
            @for tick in scale::ticks(self.seconds, self.ticks()) {
                @let x = time.at(tick);
                @let number = scale::number(tick);
                line x1=(x) x2=(x) y1=(bottom) y2=(bottom + 5.0) stroke=(INK) {}
                text x=(centred(x, &number)) y=(bottom + 19.0) text-anchor="middle" fill=(INK) {
                    (number)
                }
            }
            text x=((left + RIGHT) / 2.0) y=(bottom + 38.0) text-anchor="middle" fill=(INK) {
                "time (s)"
            }
        };
        (content, bottom + FOOT)
    }

    /// Returns the number of ticks for whose numbers there is room.
    fn ticks(&self) -> u32 {
        let longest = width(&scale::number(self.seconds));
        if longest > 30.5 { 4 } else { 6 }
    }
}

impl Band {
    /// Returns the position of its letter.
    fn middle(&self, time: &Scale) -> f64 {
        (time.at(self.from) + time.at(self.to)) / 2.0
    }

    fn draw(&self, number: usize, row: usize, time: &Scale, bottom: f64) -> Markup {
        let (from, to) = (time.at(self.from), time.at(self.to));
        let fill = if number % 2 == 0 {
            "#f6f6f6"
        } else {
            "#ffffff"
        };
        html! {
            rect x=(from) y="0" width=(to - from) height=(bottom) fill=(fill) {}
            line x1=(from) x2=(from) y1="0" y2=(bottom) stroke=(GRID) {}
            text x=(self.middle(time)) y=(LETTERS * (row as f64 + 1.0)) text-anchor="middle"
                font-weight="600" fill=(INK) { (letter(number)) }
        }
    }
}

/// Returns the letter of a period.
fn letter(number: usize) -> char {
    char::from(b'A' + (number % 26) as u8)
}

/// Returns the row of each sign, so that those of a row have a distance.
fn rows(places: impl Iterator<Item = f64>, apart: f64) -> Vec<usize> {
    // The position of the last sign in each row.
    let mut ends: Vec<f64> = Vec::new();
    let row = |x: f64| {
        let free = ends.iter().position(|end| x >= end + apart);
        let row = free.unwrap_or(ends.len());
        match ends.get_mut(row) {
            Some(end) => *end = x,
            None => ends.push(x),
        }
        row
    };
    places.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Series, Style, colour};

    #[test]
    fn a_timeline_is_well_formed() {
        let timeline = Timeline {
            about: "a <curve> & more".to_owned(),
            seconds: 10.0,
            bands: vec![Band {
                name: "before".to_owned(),
                from: 0.0,
                to: 5.0,
            }],
            marks: vec![Mark { number: 1, at: 5.0 }],
            panels: vec![Panel {
                title: "cache (MiB)".to_owned(),
                height: 120.0,
                max: None,
                series: vec![Series {
                    label: "web".to_owned(),
                    colour: colour(0),
                    style: Style::Area,
                    parts: vec![vec![(0.0, 1.0), (10.0, 3.0)]],
                }],
                labels: true,
            }],
        };
        let text = timeline.svg().into_string();
        assert!(text.contains("a &lt;curve&gt; &amp; more"));
        assert_eq!(text.matches("<path").count(), 2);
        assert!(text.contains("<b>A</b> before"), "{text}");
        assert_eq!(
            text.matches("<text").count(),
            text.matches("</text>").count()
        );
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }

    #[test]
    fn numbers_keep_apart() {
        let places = [40.0, 44.0, 48.0, 64.0];
        assert_eq!(rows(places.into_iter(), APART), [0, 1, 2, 0]);
    }
}
