// SPDX-License-Identifier: GPL-2.0-only

//! State of the display.

use super::{
    history::{Histories, History},
    order::Order,
    reading::{Reading, Row},
};
use crate::error::Error;
use ddnl::printable;

/// State of the display.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The last reading.
    pub(super) reading: Reading,
    /// The reason why there is no newer reading, if there is one.
    pub(super) trouble: Option<String>,
    /// Note about a change, until the next key.
    pub(super) note: Option<String>,
    /// Number and name of the VM whose containers are shown.
    pub(super) vm: Option<(u32, String)>,
    /// Rates of the rows that are shown.
    pub(super) histories: Histories,
    /// Rates of all rows together.
    pub(super) total: History,
    /// Order of the rows.
    pub(super) order: Order,
    /// Text that the names of rows contain.
    pub(super) filter: String,
    /// Whether keys are added to the filter.
    pub(super) typing: bool,
    /// Whether the keys are explained.
    pub(super) help: bool,
    /// Whether colours are used.
    pub(super) colour: bool,
    /// Number of the selected row.
    selected: Option<u32>,
    /// Number of rows above the first that is shown.
    offset: usize,
    /// Number of rows that fit on the terminal.
    pub(super) height: usize,
}

impl State {
    /// Creates a state that shows a first reading.
    pub(crate) fn new(reading: Reading, colour: bool) -> Self {
        let mut state = Self {
            colour,
            ..Self::default()
        };
        state.total = History::new(reading.total);
        state.histories.add(rows_of(&reading), None);
        state.reading = reading;
        state
    }

    /// Returns the VM whose containers are to be read.
    pub(crate) fn wanted_vm(&self) -> Option<u32> {
        self.vm.as_ref().map(|(id, _)| *id)
    }

    /// Takes the next reading, or the reason why there is none.
    pub(crate) fn update(&mut self, reading: Result<Reading, Error>) {
        let reading = match reading {
            Ok(reading) => reading,
            Err(error) => {
                self.trouble = Some(printable(error.message()).into_owned());
                return;
            }
        };
        let elapsed = reading.at.checked_sub(self.reading.at);
        let seconds = elapsed.map_or(0.0, |elapsed| elapsed.as_secs_f64());
        self.trouble = None;
        if let (Some((_, name)), None) = (&self.vm, &reading.containers) {
            self.note = Some(format!("VM {name} has gone"));
            self.leave();
        }
        // The first reading of other rows has no rates.
        let same = self.reading.containers.is_some() == reading.containers.is_some();
        if !same {
            self.histories.clear();
        }
        self.total.add(reading.total, seconds);
        self.histories.add(rows_of(&reading), Some(seconds));
        self.reading = reading;
    }

    /// Returns all rows that pass the filter, in order.
    pub(super) fn rows(&self) -> Vec<&Row> {
        let filter = self.filter.to_lowercase();
        // Most of the time there is no filter, and letters of all names need not be changed.
        let passes = |row: &&Row| filter.is_empty() || row.name.to_lowercase().contains(&filter);
        let mut rows: Vec<&Row> = rows_of(&self.reading).iter().filter(passes).collect();
        self.order.sort(&mut rows, &self.histories);
        rows
    }

    /// Returns the rows that are shown, of which the one with this index is selected, and the
    /// number of all rows that pass the filter.
    pub(super) fn visible(&mut self, height: usize) -> (Vec<Row>, Option<usize>, usize) {
        self.height = height;
        let rows = self.rows();
        let count = rows.len();
        let selected = position(&rows, self.selected);
        // The selected row stays on the terminal, and no line stays empty while there are rows.
        let mut offset = self.offset.min(count.saturating_sub(height));
        if let Some(selected) = selected {
            let least = (selected + 1).saturating_sub(height);
            offset = offset.clamp(least, selected.max(least));
        }
        let shown = rows.into_iter().skip(offset).take(height);
        let shown = shown.cloned().collect();
        self.offset = offset;
        let selected = selected.and_then(|selected| selected.checked_sub(offset));
        (shown, selected, count)
    }

    /// Returns the number of rows above those that are shown.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// Moves the selection by a number of rows.
    pub(super) fn select(&mut self, step: isize) {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let selected = position(&rows, self.selected).unwrap_or_default();
        let target = selected.saturating_add_signed(step).min(last);
        self.selected = rows.get(target).map(|row| row.id);
    }

    /// Shows the containers of the selected VM. Returns whether there is one.
    pub(super) fn enter(&mut self) -> bool {
        let vms = self.vm.is_none() && self.reading.containers.is_none();
        let rows = self.rows();
        let Some(at) = position(&rows, self.selected).filter(|_| vms) else {
            return false;
        };
        self.vm = Some((rows[at].id, rows[at].name.clone()));
        self.show_other_rows();
        true
    }

    /// Shows the VMs again.
    pub(super) fn leave(&mut self) {
        let vm = self.vm.take();
        self.show_other_rows();
        self.selected = vm.map(|(id, _)| id);
    }

    /// Forgets filter and position, which belong to the rows that are left.
    fn show_other_rows(&mut self) {
        self.filter.clear();
        self.selected = None;
        self.offset = 0;
    }
}

fn rows_of(reading: &Reading) -> &[Row] {
    reading.containers.as_deref().unwrap_or(&reading.vms)
}

/// Returns the index of the selected row. The first row is selected until another one is chosen.
fn position(rows: &[&Row], id: Option<u32>) -> Option<usize> {
    let chosen = rows.iter().position(|row| Some(row.id) == id);
    chosen.or((!rows.is_empty()).then_some(0))
}
