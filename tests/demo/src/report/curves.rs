// SPDX-License-Identifier: GPL-2.0-only

//! Timelines of recordings.

use ddreport::chart::{Band, GREY, Mark, Panel, Series, Style, Timeline, colour};

use crate::recording::{ContainerTrack, Recording, Share};

/// Returns panels over a recording's time, with its phases and changes.
pub(crate) fn timeline(recording: &Recording, about: &str, panels: Vec<Panel>) -> Timeline {
    let bands = recording.phases.iter().map(|phase| Band {
        name: phase.name.clone(),
        from: phase.from,
        to: phase.to,
    });
    let marks = (1..).zip(&recording.changes).map(|(number, change)| Mark {
        number,
        at: change.at,
    });
    Timeline {
        about: about.to_owned(),
        seconds: recording.phases.last().map_or(0.0, |last| last.to),
        bands: bands.collect(),
        marks: marks.collect(),
        panels,
    }
}

/// Returns a panel with several parts of the cache, each with its entitlement.
pub(crate) fn shares<'a>(
    recording: &Recording,
    title: &str,
    height: f64,
    tracks: impl IntoIterator<Item = (&'a str, &'a [Share])>,
) -> Panel {
    let mut entitlements = Vec::new();
    let mut used = Vec::new();
    for (number, (name, shares)) in tracks.into_iter().enumerate() {
        entitlements.push(Series {
            label: String::new(),
            colour: colour(number),
            style: Style::Steps,
            parts: entitled(recording, shares),
        });
        used.push(Series {
            label: name.to_owned(),
            colour: colour(number),
            style: Style::Line,
            parts: vec![points(shares, Share::used_mib)],
        });
    }
    entitlements.extend(used);
    Panel {
        title: title.to_owned(),
        height,
        max: None,
        series: entitlements,
        labels: true,
    }
}

/// Returns a panel with a container's part of the cache.
pub(crate) fn own_share(recording: &Recording, track: &ContainerTrack, number: usize) -> Panel {
    Panel {
        title: format!("{} / {} (MiB)", track.vm, track.name),
        height: 74.0,
        max: None,
        series: vec![
            Series {
                label: String::new(),
                colour: colour(number),
                style: Style::Area,
                parts: vec![points(&track.shares, Share::used_mib)],
            },
            Series {
                label: String::new(),
                colour: GREY,
                style: Style::Steps,
                parts: entitled(recording, &track.shares),
            },
        ],
        labels: false,
    }
}

/// Returns a panel with a container's requests.
pub(crate) fn own_work(track: &ContainerTrack, number: usize) -> Panel {
    let points = track
        .work
        .iter()
        .map(|work| (work.at, work.interval.rate()));
    Panel {
        title: format!("{} / {} (requests/s)", track.vm, track.name),
        height: 74.0,
        max: None,
        series: vec![Series {
            label: String::new(),
            colour: colour(number),
            style: Style::Area,
            parts: vec![points.filter(|point| point.0 > 0.0).collect()],
        }],
        labels: false,
    }
}

fn points(shares: &[Share], value: fn(&Share) -> f64) -> Vec<(f64, f64)> {
    shares
        .iter()
        .map(|share| (share.at, value(share)))
        .collect()
}

/// Returns entitlements for the phases in which weights count.
fn entitled(recording: &Recording, shares: &[Share]) -> Vec<Vec<(f64, f64)>> {
    let mut parts: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut connected = false;
    for phase in &recording.phases {
        if !phase.weighted {
            connected = false;
            continue;
        }
        let within = shares
            .iter()
            .filter(|share| share.at >= phase.from && share.at < phase.to);
        let points = within.map(|share| (share.at, share.entitlement_mib()));
        match (connected, parts.last_mut()) {
            (true, Some(part)) => part.extend(points),
            _ => parts.push(points.collect()),
        }
        connected = true;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Phase;

    #[test]
    fn entitlements_are_shown_where_weights_count() {
        let phase = |name: &str, weighted, from, to| Phase {
            name: name.to_owned(),
            weighted,
            from,
            to,
        };
        let recording = Recording {
            phases: vec![
                phase("fifo", false, 0.0, 2.0),
                phase("a", true, 2.0, 4.0),
                phase("b", true, 4.0, 6.0),
            ],
            ..Recording::default()
        };
        let share = |at, pages| Share {
            at,
            used_pages: 0,
            entitlement_pages: pages,
            weight: 1,
        };
        let shares = [share(1.0, 256), share(3.0, 512), share(5.0, 768)];
        assert_eq!(entitled(&recording, &shares), [[(3.0, 2.0), (5.0, 3.0)]]);
    }
}
