// SPDX-License-Identifier: GPL-2.0-only

//! The table that is shown while a run is recorded.

use std::io::{IsTerminal as _, Write as _};

use crate::{
    recorder::Observer,
    recording::{ContainerTrack, Figures, Recording, Share},
    table,
};

/// Seconds over which rates are averaged.
const WINDOW: f64 = 5.0;
/// Seconds between two tables without a terminal.
const SELDOM: f64 = 10.0;

/// Shows a recording on standard error: in place on a terminal, otherwise as plain lines at
/// intervals.
#[derive(Debug)]
pub(crate) struct Live {
    terminal: bool,
    /// Number of lines of the last table.
    drawn: usize,
    shown: f64,
    phases: usize,
    changes: usize,
}

impl Live {
    pub(crate) fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            drawn: 0,
            shown: f64::NEG_INFINITY,
            phases: 0,
            changes: 0,
        }
    }

    /// Returns the phases and changes since the last table.
    fn news(&mut self, recording: &Recording) -> Vec<String> {
        let phases = recording.phases.iter().skip(self.phases);
        let phases = phases.map(|phase| (phase.from, format!("── {} ──", phase.name)));
        let changes = recording.changes.iter().skip(self.changes);
        let changes = changes.map(|change| (change.at, change.text.clone()));
        let mut news: Vec<(f64, String)> = phases.chain(changes).collect();
        news.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.phases = recording.phases.len();
        self.changes = recording.changes.len();
        news.into_iter()
            .map(|(at, text)| format!("{at:4.0} s  {text}"))
            .collect()
    }
}

impl Observer for Live {
    fn sample(&mut self, recording: &Recording) {
        let news = self.news(recording);
        let due = self.terminal || recording.now - self.shown >= SELDOM || !news.is_empty();
        if !due {
            return;
        }
        self.shown = recording.now;
        let mut text = String::new();
        if self.terminal && self.drawn > 0 {
            // Moves to the start of the last table and clears the screen from there.
            text = format!("\x1b[{}A\x1b[J", self.drawn);
        }
        for line in news {
            text.push_str(&line);
            text.push('\n');
        }
        let picture = picture(recording);
        self.drawn = picture.lines().count();
        text.push_str(&picture);
        // A write error does not end the demo.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

fn picture(recording: &Recording) -> String {
    let head = [
        "container",
        "cache MiB",
        "entitled MiB",
        "weight",
        "hits %",
        "requests/s",
        "exits/page",
    ];
    let rows = recording.containers.iter().map(|track| {
        let figures = track.over((recording.now - WINDOW, recording.now));
        row(track, &figures)
    });
    let mut text = format!("{:4.0} s\n", recording.now);
    for line in table::lines(head, rows, 1) {
        text.push_str(&format!("       {line}\n"));
    }
    text
}

fn row(track: &ContainerTrack, figures: &Figures) -> [String; 7] {
    let share = track.shares.last();
    let of = |show: fn(&Share) -> String| share.map_or("-".to_owned(), show);
    let maybe = |value: Option<f64>, scale: f64, digits: usize| {
        value.map_or("-".to_owned(), |value| {
            format!("{:.digits$}", value * scale)
        })
    };
    [
        format!("{}/{}", track.vm, track.name),
        of(|share| format!("{:.1}", share.used_mib())),
        of(|share| format!("{:.1}", share.entitlement_mib())),
        of(|share| share.weight.to_string()),
        maybe(figures.hit_ratio, 100.0, 0),
        format!("{:.0}", figures.operations_per_s),
        maybe(figures.exits_per_page, 1.0, 3),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Change, Phase};

    #[test]
    fn pictures_have_a_row_for_each_container() {
        let track = |name: &str| ContainerTrack {
            vm: "shop".to_owned(),
            name: name.to_owned(),
            about: String::new(),
            shares: vec![Share {
                at: 1.0,
                used_pages: 256,
                entitlement_pages: 512,
                weight: 40,
            }],
            counts: Vec::new(),
            work: Vec::new(),
        };
        let recording = Recording {
            containers: vec![track("web"), track("mail")],
            now: 3.0,
            ..Recording::default()
        };
        assert_eq!(
            picture(&recording),
            "   3 s\n        container  cache MiB  entitled MiB  weight  hits %  requests/s  exits/page\n        shop/web         1.0           2.0      40       -           0           -\n        shop/mail        1.0           2.0      40       -           0           -\n"
        );
    }

    #[test]
    fn phases_and_changes_are_printed_once_and_in_order() {
        let mut live = Live::new();
        let recording = Recording {
            phases: vec![Phase {
                name: "alone".to_owned(),
                weighted: false,
                from: 5.0,
                to: 5.0,
            }],
            changes: vec![Change {
                at: 4.6,
                text: "insmod".to_owned(),
            }],
            ..Recording::default()
        };
        assert_eq!(
            live.news(&recording),
            ["   5 s  insmod", "   5 s  ── alone ──"]
        );
        assert!(live.news(&recording).is_empty());
    }
}
