// SPDX-License-Identifier: GPL-2.0-only

//! The line below the rows: the keys that do something now, and the position.

use super::{table::Shown, theme::Theme};
use crate::top::state::State;
use ratatui::{Frame, layout::Rect, text::Line};

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, state: &State, theme: &Theme, shown: &Shown) {
    let keys = if state.help {
        "any key closes the help"
    } else if state.typing {
        "type a part of the name   Enter keep   Esc clear"
    } else if state.vm.is_some() {
        "q quit  Esc back  / filter  s sort  i invert  ? help"
    } else if state.reading.containers.is_some() {
        "q quit  / filter  s sort  i invert  ? help"
    } else {
        "q quit  Enter containers  / filter  s sort  i invert  ? help"
    };
    let position = match shown.count {
        0 => String::new(),
        count => format!(
            "{}-{} of {count}",
            shown.first + 1,
            shown.first + shown.rows
        ),
    };
    let width = usize::from(area.width);
    let taken = keys.chars().count() + position.chars().count() + 2;
    let gap = width.saturating_sub(taken).max(1);
    let text = format!(" {keys}{}{position} ", " ".repeat(gap));
    frame.render_widget(Line::styled(text, theme.selected), area);
}
