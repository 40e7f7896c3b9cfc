// SPDX-License-Identifier: GPL-2.0-only

//! Scales from values to positions.

/// A linear scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    from: (f64, f64),
    to: (f64, f64),
}

impl Scale {
    /// Maps the values `from` to the positions `to`.
    pub(super) fn new(from: (f64, f64), to: (f64, f64)) -> Self {
        Self { from, to }
    }

    /// Returns the position of a value, rounded to a visible precision.
    pub(super) fn at(&self, value: f64) -> f64 {
        let span = self.from.1 - self.from.0;
        let part = match span == 0.0 {
            true => 0.0,
            false => (value - self.from.0) / span,
        };
        let place = self.to.0 + part * (self.to.1 - self.to.0);
        (place * 10.0).round() / 10.0
    }
}

/// Returns about `count` round values from 0 to at most `end`.
pub(super) fn ticks(end: f64, count: u32) -> Vec<f64> {
    if end <= 0.0 {
        return vec![0.0];
    }
    let rough = end / f64::from(count.max(1));
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * decade)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(10.0 * decade);
    let steps = (end / step + 1e-9).floor() as u32;
    (0..=steps).map(|n| f64::from(n) * step).collect()
}

/// Returns the next round value that is at least `value`.
pub(super) fn ceiling(value: f64) -> f64 {
    let decade = 10f64.powf(value.max(f64::MIN_POSITIVE).log10().floor());
    [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|factor| factor * decade)
        .find(|round| *round >= value)
        .unwrap_or(value)
}

/// Returns a short text for a number.
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        x if x >= 10.0 || x == x.trunc() => 0,
        x if x >= 1.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    // Groups of three digits are separated by a thin space.
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    if whole.len() < 5 {
        return text;
    }
    let (head, tail) = whole.split_at(whole.len() - 3);
    match rest {
        "" => format!("{head}\u{202f}{tail}"),
        rest => format!("{head}\u{202f}{tail}.{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(100.0, 4), [0.0, 50.0, 100.0]);
        assert_eq!(ticks(61.0, 3), [0.0, 50.0]);
        assert_eq!(ticks(61.0, 4), [0.0, 20.0, 40.0, 60.0]);
        assert_eq!(ticks(0.0, 4), [0.0]);
    }

    #[test]
    fn ceilings_are_above() {
        assert_eq!(ceiling(41.0), 50.0);
        assert_eq!(ceiling(100.0), 100.0);
        assert_eq!(ceiling(1250.0), 1500.0);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(12_345.0), "12\u{202f}345");
        assert_eq!(number(0.5), "0.50");
        assert_eq!(number(3.25), "3.2");
        assert_eq!(number(3.0), "3");
    }

    #[test]
    fn scales_are_linear() {
        let scale = Scale::new((0.0, 10.0), (100.0, 0.0));
        assert_eq!(scale.at(2.5), 75.0);
        assert_eq!(Scale::new((1.0, 1.0), (5.0, 9.0)).at(1.0), 5.0);
    }
}
