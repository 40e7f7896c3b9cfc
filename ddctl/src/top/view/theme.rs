// SPDX-License-Identifier: GPL-2.0-only

//! Styles, with and without colours.

use ratatui::style::{Color, Modifier, Style};

/// Styles of the display. Without colours, bold, dim and inverted text distinguishes the parts.
pub(super) struct Theme {
    /// Titles and the heading of the column that sorts.
    pub(super) strong: Style,
    /// Headings, and facts that matter less.
    pub(super) faint: Style,
    /// The selected row, and the line of keys.
    pub(super) selected: Style,
    /// Messages that need attention.
    pub(super) alarm: Style,
    /// Pages in use within the entitlement.
    pub(super) within: Style,
    /// Pages in use above the entitlement.
    pub(super) above: Style,
    /// Sparklines.
    pub(super) spark: Style,
}

impl Theme {
    pub(super) fn new(colour: bool) -> Self {
        let plain = Style::new();
        let paint = |color| if colour { plain.fg(color) } else { plain };
        Self {
            strong: paint(Color::Cyan).add_modifier(Modifier::BOLD),
            faint: plain.add_modifier(Modifier::DIM),
            selected: plain.add_modifier(Modifier::REVERSED),
            alarm: paint(Color::Red).add_modifier(Modifier::BOLD),
            within: paint(Color::Green),
            above: paint(Color::Yellow),
            spark: paint(Color::Cyan),
        }
    }
}
