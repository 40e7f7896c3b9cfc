// SPDX-License-Identifier: GPL-2.0-only

//! Sizes and places of labels. Pages choose the font, so that widths are estimated from above.

use super::WIDTH;

/// Height of a line.
pub(super) const LINE: f64 = 19.0;
/// Width of a letter of 13 units.
const LETTER: f64 = 7.6;
/// Width of a bold letter of 13 units.
const BOLD: f64 = 8.6;

/// Returns the width of a text.
pub(super) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// Returns the width of a bold text.
pub(super) fn bold(text: &str) -> f64 {
    text.chars().count() as f64 * BOLD
}

/// Returns a text in lines of a width.
pub(super) fn wrapped(text: &str, max_width: f64) -> Vec<String> {
    broken(text, max_width, width)
}

/// Returns a bold text in lines of a width.
pub(super) fn wrapped_bold(text: &str, max_width: f64) -> Vec<String> {
    broken(text, max_width, bold)
}

fn broken(text: &str, max_width: f64, width: fn(&str) -> f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && width(&lines[last]) + width(" ") + width(word) > max_width {
            lines.push(word.to_owned());
        } else {
            let gap = if lines[last].is_empty() { "" } else { " " };
            lines[last] += &format!("{gap}{word}");
        }
    }
    lines
}

/// Returns the middle of a label that is at `x`, or as near to it as the edges of a chart allow.
pub(super) fn centred(x: f64, text: &str) -> f64 {
    let half = width(text) / 2.0;
    x.clamp(half, (WIDTH - half).max(half))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_whole_words() {
        assert_eq!(
            wrapped("one FIFO for all", 8.0 * LETTER),
            ["one FIFO", "for all"]
        );
        assert_eq!(wrapped_bold("one FIFO", 8.0 * LETTER), ["one", "FIFO"]);
        assert_eq!(wrapped("a", 0.0), ["a"]);
    }

    #[test]
    fn labels_stay_inside() {
        assert_eq!(centred(100.0, "ab"), 100.0);
        assert_eq!(centred(0.0, "ab"), LETTER);
        assert_eq!(centred(WIDTH, "ab"), WIDTH - LETTER);
        let long = "a".repeat(100);
        assert_eq!(centred(0.0, &long), 50.0 * LETTER);
    }
}
