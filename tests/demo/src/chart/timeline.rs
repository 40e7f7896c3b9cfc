// SPDX-License-Identifier: GPL-2.0-only

//! A stack of panels with a common time axis.

use maud::{Markup, html};

use super::{
    palette::{GRID, INK},
    panel::{Frame, Panel},
    scale::{self, Scale},
};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 56.0;
/// Height above the first panel, for names of phases and numbers of changes.
const HEAD: f64 = 58.0;
/// Height between panels, for a title.
const GAP: f64 = 34.0;
/// Height below the last panel, for the time axis.
const FOOT: f64 = 44.0;

/// Panels over time, in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    /// Description for readers who cannot see it.
    pub(crate) about: String,
    pub(crate) seconds: f64,
    pub(crate) bands: Vec<Band>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) panels: Vec<Panel>,
}

/// A named period.
#[derive(Clone, Debug)]
pub(crate) struct Band {
    pub(crate) name: String,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// A numbered moment, which is explained outside of the chart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) number: usize,
    pub(crate) at: f64,
}

impl Timeline {
    pub(crate) fn svg(&self) -> Markup {
        let labels = self.panels.iter().any(|panel| panel.labels);
        let right = WIDTH - if labels { 130.0 } else { 16.0 };
        let time = Scale::new((0.0, self.seconds), (LEFT, right));
        let mut tops = Vec::new();
        let mut bottom = HEAD - GAP + 8.0;
        for panel in &self.panels {
            tops.push(bottom + GAP);
            bottom += GAP + panel.height;
        }
        let height = bottom + FOOT;
        html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (WIDTH) " " (height) }
                role="img" aria-label=(self.about)
                font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
                font-size="13"
            {
                @for (number, band) in self.bands.iter().enumerate() {
                    (self.band(number, band, &time, bottom))
                }
                @for (panel, &top) in self.panels.iter().zip(&tops) {
                    (panel.draw(&Frame { left: LEFT, right, top, time }))
                }
                @for mark in &self.marks {
                    @let x = time.at(mark.at);
                    line x1=(x) x2=(x) y1=(38.0) y2=(bottom) stroke=(INK) stroke-width="1"
                        stroke-dasharray="2 3" {}
                    circle cx=(x) cy=(30.0) r="9" fill=(INK) {}
                    text x=(x) y=(34.5) text-anchor="middle" fill="#ffffff" font-size="12"
                        font-weight="600" { (mark.number) }
                }
                line x1=(LEFT) x2=(right) y1=(bottom) y2=(bottom) stroke=(INK) {}
                @for tick in scale::ticks(self.seconds, 8) {
                    @let x = time.at(tick);
                    line x1=(x) x2=(x) y1=(bottom) y2=(bottom + 5.0) stroke=(INK) {}
                    text x=(x) y=(bottom + 19.0) text-anchor="middle" fill=(INK) {
                        (scale::number(tick))
                    }
                }
                text x=((LEFT + right) / 2.0) y=(bottom + 38.0) text-anchor="middle" fill=(INK) {
                    "time (s)"
                }
            }
        }
    }

    fn band(&self, number: usize, band: &Band, time: &Scale, bottom: f64) -> Markup {
        let (from, to) = (time.at(band.from), time.at(band.to));
        let fill = if number % 2 == 0 {
            "#f6f6f6"
        } else {
            "#ffffff"
        };
        html! {
            rect x=(from) y="0" width=(to - from) height=(bottom) fill=(fill) {}
            line x1=(from) x2=(from) y1="0" y2=(bottom) stroke=(GRID) {}
            text x=((from + to) / 2.0) y="15" text-anchor="middle" fill=(INK) { (band.name) }
        }
    }
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
                most: None,
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
        assert_eq!(
            text.matches("<text").count(),
            text.matches("</text>").count()
        );
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }
}
