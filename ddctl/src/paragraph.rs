// SPDX-License-Identifier: GPL-2.0-only

//! Texts broken into lines.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns of a terminal that every output fits.
pub(crate) const COLUMNS: usize = 80;

/// Breaks a text into lines of at most `columns` columns. The first line begins with a mark, and
/// the others with as many blanks.
///
/// Lines end between words. A word that is longer than a line, such as the path of a cgroup, is
/// divided, so that no part of it is lost.
pub(crate) fn paragraph(mark: &str, text: &str, columns: usize) -> String {
    let indent = mark.width();
    let room = columns.saturating_sub(indent).max(1);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() || line.width() + 1 + word.width() <= room {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
        while let Some(rest) = overhang(lines.last_mut().expect("there is a line"), room) {
            lines.push(rest);
        }
    }
    let blanks = " ".repeat(indent);
    let marks = std::iter::once(mark).chain(std::iter::repeat(blanks.as_str()));
    let lines = marks
        .zip(&lines)
        .map(|(mark, line)| format!("{mark}{line}"));
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Cuts a line after `room` columns, and returns the rest of it, if there is one.
fn overhang(line: &mut String, room: usize) -> Option<String> {
    let mut columns = 0;
    let beyond = |&(at, letter): &(usize, char)| {
        columns += letter.width().unwrap_or_default();
        columns > room && at > 0
    };
    let at = line.char_indices().find(beyond).map(|(at, _)| at)?;
    Some(line.split_off(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words_and_no_letter_is_lost() {
        assert_eq!(paragraph("- ", "one two three", 9), "- one two\n  three\n");
        assert_eq!(
            paragraph("- ", "a /long/path b", 7),
            "- a\n  /long\n  /path\n  b\n"
        );
        assert_eq!(paragraph("", "", 80), "\n");
        // A letter of two columns.
        assert_eq!(paragraph("", "数数数", 4), "数数\n数\n");
        assert_eq!(paragraph("    ", "ab", 2), "    a\n    b\n");
    }
}
