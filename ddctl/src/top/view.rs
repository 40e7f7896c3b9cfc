// SPDX-License-Identifier: GPL-2.0-only

//! Drawing a state.

mod bar;
mod footer;
mod header;
mod help;
mod table;
mod theme;

use super::state::State;
use ratatui::{
    Frame,
    layout::{Constraint, Layout},
};
use theme::Theme;

/// Draws a state on a terminal of any size. The rows give way first if there is little space.
pub(crate) fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let theme = Theme::new(state.colour);
    let head = header::lines(state, &theme, usize::from(frame.area().width));
    let height = u16::try_from(head.len()).unwrap_or(u16::MAX);
    let areas: [_; 3] = Layout::vertical([
        Constraint::Length(height),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let [head_area, rows, foot] = areas;
    frame.render_widget(ratatui::text::Text::from(head), head_area);
    let shown = table::draw(frame, rows, state, &theme);
    footer::draw(frame, foot, state, &theme, &shown);
    if state.help {
        help::draw(frame, &theme);
    }
}
