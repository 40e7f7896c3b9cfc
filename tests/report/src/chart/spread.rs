// SPDX-License-Identifier: GPL-2.0-only

//! Histograms of latencies, one below the other on a logarithmic axis.

use maud::{Markup, html};

use super::{
    WIDTH,
    label::{LINE, centred, width, wrapped},
    palette::{GRID, INK},
    scale::{self, Scale},
    titled,
};

const LEFT: f64 = 8.0;
const RIGHT: f64 = WIDTH - 10.0;
/// Height of a histogram without its name.
const HEIGHT: f64 = 44.0;
const GAP: f64 = 10.0;
const FOOT: f64 = 42.0;
/// Bars for each factor of two.
const FINE: f64 = 2.0;

/// Histograms with a title.
#[derive(Clone, Debug)]
pub struct Spread {
    /// Title.
    pub title: String,
    /// The histograms.
    pub strips: Vec<Strip>,
}

/// The latencies of one situation.
#[derive(Clone, Debug)]
pub struct Strip {
    /// Name of the situation.
    pub name: String,
    /// Colour of the situation.
    pub colour: &'static str,
    /// Latencies in microseconds with their numbers of requests.
    pub counts: Vec<(u64, u64)>,
    /// The latency that 99 % do not exceed, in microseconds.
    pub p99_us: Option<u64>,
}

impl Strip {
    /// Returns the number of a bar, and the part of the requests in it.
    fn bars(&self) -> Vec<(i32, f64)> {
        let all: u64 = self.counts.iter().map(|(_, count)| count).sum();
        let mut bars: Vec<(i32, f64)> = Vec::new();
        for (us, count) in &self.counts {
            let (bar, part) = (bar(*us), *count as f64 / all.max(1) as f64);
            match bars.iter_mut().find(|(number, _)| *number == bar) {
                Some((_, sum)) => *sum += part,
                None => bars.push((bar, part)),
            }
        }
        bars
    }
}

/// Returns the number of the bar of a latency.
fn bar(us: u64) -> i32 {
    (position(us) * FINE).floor() as i32
}

/// Returns the binary logarithm of a latency.
fn position(us: u64) -> f64 {
    (us.max(1) as f64).log2()
}

impl Spread {
    /// Draws the histograms, all at one scale.
    pub fn svg(&self) -> Markup {
        let strips: Vec<_> = self.strips.iter().map(Strip::bars).collect();
        let bars = || strips.iter().flatten();
        let least = bars().map(|bar| bar.0).min().unwrap_or(0);
        let most = bars()
            .map(|bar| bar.0 + 1)
            .max()
            .unwrap_or(1)
            .max(least + 8);
        let highest = bars().map(|bar| bar.1).fold(f64::MIN_POSITIVE, f64::max);
        let ends = (f64::from(least) / FINE, f64::from(most) / FINE);
        let across = Scale::new(ends, (LEFT, RIGHT));
        let up = Scale::new((0.0, highest), (0.0, HEIGHT));
        let mut bottom = 0.0;
        let mut rows = Vec::new();
        for (strip, bars) in self.strips.iter().zip(&strips) {
            let name = wrapped(&format!("{}{}", strip.name, p99(strip)), WIDTH - 2.0 * LEFT);
            let top = bottom;
            bottom += LINE * name.len() as f64 + HEIGHT;
            rows.push((strip, bars, name, top, bottom));
            bottom += GAP;
        }
        let bottom = (bottom - GAP).max(0.0);
        let mut taken = f64::NEG_INFINITY;
        let ticks = ticks(ends).into_iter().map(|tick| {
            let (x, name) = (across.at(position(tick)), duration(tick));
            let (middle, half) = (centred(x, &name), width(&name) / 2.0);
            // Only what has room is named.
            let is_named = middle - half >= taken;
            if is_named {
                taken = middle + half;
            }
            (x, middle, is_named.then_some(name))
        });
        let content = html! {
            @for (x, middle, name) in ticks {
                line x1=(x) x2=(x) y1="0" y2=(bottom + 5.0) stroke=(GRID) {}
                @if let Some(name) = name {
                    text x=(middle) y=(bottom + 19.0) text-anchor="middle" fill=(INK) { (name) }
                }
            }
            @for (strip, bars, name, top, base) in &rows {
                @for (number, line) in name.iter().enumerate() {
                    text.outlined x=(LEFT) y=(top + LINE * number as f64 + 14.0) fill=(INK) {
                        (line)
                    }
                }
                @for (bar, part) in *bars {
                    @let left = across.at(f64::from(*bar) / FINE);
                    @let right = across.at(f64::from(*bar + 1) / FINE);
                    @let height = up.at(*part).max(1.0);
                    rect x=(left) y=(base - height) width=(right - left - 0.5) height=(height)
                        fill=(strip.colour) {}
                }
                line x1=(LEFT) x2=(RIGHT) y1=(base) y2=(base) stroke=(INK) {}
                @if let Some(us) = strip.p99_us {
                    @let x = across.at(position(us));
                    line x1=(x) x2=(x) y1=(base - HEIGHT) y2=(base) stroke=(INK)
                        stroke-dasharray="3 2" {}
                }
            }
            text x=((LEFT + RIGHT) / 2.0) y=(bottom + 36.0) text-anchor="middle" fill=(INK) {
                "latency; dashed: 99 % are not above"
            }
        };
        titled(&self.title, bottom + FOOT, &content)
    }
}

fn p99(strip: &Strip) -> String {
    strip
        .p99_us
        .map_or(String::new(), |us| format!(", 99\u{a0}%: {}", duration(us)))
}

/// Returns powers of ten between two binary logarithms, in microseconds.
fn ticks((from, to): (f64, f64)) -> Vec<u64> {
    let powers = (0..10).map(|power| 10_u64.pow(power));
    powers
        .filter(|us| (from..=to).contains(&position(*us)))
        .collect()
}

/// Returns a latency as people write it.
fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us}\u{a0}µs"),
        1_000..1_000_000 => format!("{}\u{a0}ms", scale::number(us as f64 / 1e3)),
        _ => format!("{}\u{a0}s", scale::number(us as f64 / 1e6)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_requests_are_in_the_bars() {
        let strip = Strip {
            name: "weights".into(),
            colour: "#000000",
            counts: vec![(0, 5), (1, 5), (1_000, 60), (1_050, 10), (90_000, 20)],
            p99_us: Some(90_000),
        };
        let bars = strip.bars();
        let sum: f64 = bars.iter().map(|bar| bar.1).sum();
        assert!((sum - 1.0).abs() < 1e-9);
        // Latencies that are hardly different are in one bar.
        assert_eq!(bars.len(), 4);
        assert_eq!(bars.iter().find(|one| one.0 == bar(1_000)).unwrap().1, 0.6);
        let spread = Spread {
            title: "web".into(),
            strips: vec![strip],
        };
        let text = spread.svg().into_string();
        assert_eq!(text.matches("<rect").count(), 4);
        assert!(text.contains("weights, 99\u{a0}%: 90\u{a0}ms"), "{text}");
        assert!(!text.contains("NaN"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let spread = Spread {
            title: String::new(),
            strips: Vec::new(),
        };
        assert!(!spread.svg().into_string().contains("NaN"));
        assert_eq!(duration(999), "999\u{a0}µs");
        assert_eq!(duration(2_500_000), "2.5\u{a0}s");
        assert_eq!(ticks((0.0, 10.0)), [1, 10, 100, 1_000]);
    }
}
