// SPDX-License-Identifier: GPL-2.0-only

//! Tables of texts and numbers.

use crate::paragraph::paragraph;
use unicode_width::UnicodeWidthStr;

/// Blanks between two columns.
const GAP: usize = 2;

/// A plain table with texts aligned to the left, and numbers to the right.
///
/// A table that is too wide keeps its columns. The texts that are too long for theirs, such as the
/// names of some VMs, reach beyond it, and the rest of their rows is on the next line.
pub(crate) struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The number of columns of texts. The numbers are to the right of them.
    texts: usize,
    has_tail: bool,
}

/// A line of a table: cells, and a text that begins at the column behind them.
struct Line<'a> {
    cells: Vec<&'a str>,
    long: Option<(usize, &'a str)>,
}

impl Table {
    /// Creates a table with these headings, of which the first `texts` are of texts.
    pub(crate) fn new(texts: usize, headings: &[&str]) -> Self {
        Self {
            headings: headings.iter().map(|&heading| heading.into()).collect(),
            rows: Vec::new(),
            texts,
            has_tail: false,
        }
    }

    /// Makes the last column one of texts. Those that do not fit beside the row are below it.
    pub(crate) fn with_tail(mut self) -> Self {
        self.has_tail = true;
        self
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Returns the table for a terminal with this number of columns, without blanks at the ends of
    /// its lines.
    pub(crate) fn text(&self, columns: usize) -> String {
        let limits = self.limits(columns);
        let headings = Line {
            cells: self.headings.iter().map(String::as_str).collect(),
            long: None,
        };
        let mut lines = vec![headings];
        for row in &self.rows {
            self.divide(row, &limits, &mut lines);
        }
        let mut widths = vec![0; self.headings.len()];
        for line in &lines {
            for (width, cell) in widths.iter_mut().zip(&line.cells) {
                *width = cell.width().max(*width);
            }
        }
        let lines = lines.iter().map(|line| self.draw(line, &widths, columns));
        lines.collect()
    }

    fn is_text(&self, column: usize) -> bool {
        column < self.texts || self.is_tail(column)
    }

    fn is_tail(&self, column: usize) -> bool {
        self.has_tail && column + 1 == self.headings.len()
    }

    /// Returns the width beyond which a text is too long for each column.
    fn limits(&self, columns: usize) -> Vec<usize> {
        let least: Vec<usize> = self.headings.iter().map(|text| text.width()).collect();
        let mut widths = least.clone();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        let gaps = GAP * widths.len().saturating_sub(1);
        loop {
            let excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(columns);
            let can_shrink = |&column: &usize| {
                self.is_text(column) && widths[column] > least[column] && excess > 0
            };
            let candidates = (0..widths.len()).filter(can_shrink);
            let Some(widest) = candidates.max_by_key(|column| widths[*column]) else {
                return widths;
            };
            widths[widest] = widths[widest].saturating_sub(excess).max(least[widest]);
        }
    }

    /// Divides a row into lines, each of which ends with a text that is too long for its column.
    fn divide<'a>(&self, row: &'a [String], limits: &[usize], lines: &mut Vec<Line<'a>>) {
        let empty = || Line {
            cells: vec![""; row.len()],
            long: None,
        };
        let mut line = empty();
        for (column, (cell, limit)) in row.iter().zip(limits).enumerate() {
            if !self.is_text(column) || cell.width() <= *limit {
                line.cells[column] = cell;
            } else if self.is_tail(column) {
                lines.push(std::mem::replace(&mut line, empty()));
                // Below the first name, or behind the first column.
                line.long = Some((1.min(column), cell));
            } else {
                line.long = Some((column, cell));
                lines.push(std::mem::replace(&mut line, empty()));
            }
        }
        if line.long.is_some() || line.cells.iter().any(|cell| !cell.is_empty()) {
            lines.push(line);
        }
    }

    fn draw(&self, line: &Line<'_>, widths: &[usize], columns: usize) -> String {
        let end = line.long.map_or(widths.len(), |(column, _)| column);
        let mut text = String::new();
        for (column, (cell, width)) in line.cells.iter().zip(widths).enumerate().take(end) {
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            match self.is_text(column) {
                true => text += &format!("{cell}{blanks}"),
                false => text += &format!("{blanks}{cell}"),
            }
            text += &" ".repeat(GAP);
        }
        match line.long {
            Some((_, long)) => paragraph(&text, long, columns),
            None => format!("{}\n", text.trim_end()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(2, &["ID", "NAME", "USED", "PATH"]).with_tail();
        for (name, path) in [("a", "/x"), ("a-long-name", "/x/y")] {
            table.row(["1", name, "20", path].map(Into::into));
        }
        table
    }

    #[test]
    fn a_wide_terminal_has_each_row_on_a_line() {
        assert_eq!(
            table().text(80),
            "ID  NAME         USED  PATH\n\
             1   a              20  /x\n\
             1   a-long-name    20  /x/y\n"
        );
    }

    #[test]
    fn long_texts_reach_beyond_their_columns() {
        assert_eq!(
            table().text(25),
            "ID  NAME  USED  PATH\n\
             1   a       20  /x\n\
             1   a-long-name\n\
            \x20           20  /x/y\n"
        );
        let mut long = Table::new(1, &["NAME", "USED", "PATH"]).with_tail();
        long.row(["a", "7", "/long/path"].map(Into::into));
        assert_eq!(
            long.text(19),
            "NAME  USED  PATH\n\
             a        7\n\
            \x20     /long/path\n"
        );
        assert_eq!(
            long.text(13),
            "NAME  USED  PATH\n\
             a        7\n\
            \x20     /long/p\n\
            \x20     ath\n"
        );
    }
}
