// SPDX-License-Identifier: GPL-2.0-only

//! Tables of figures, for a terminal.

use comfy_table::{CellAlignment, Row, Table, presets};

/// Returns the lines of a table; columns from `figures` on are aligned to the right.
pub(crate) fn lines<R: Into<Row>>(
    head: impl Into<Row>,
    rows: impl IntoIterator<Item = R>,
    figures: usize,
) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(figures) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines = table.lines();
    lines.map(|line| line.trim_end().to_owned()).collect()
}
