// SPDX-License-Identifier: GPL-2.0-only

//! The keys and the signs, over the rows.

use super::theme::Theme;
use ratatui::{
    Frame,
    layout::{Constraint, Flex, Layout},
    widgets::{Block, Clear, Padding, Paragraph},
};

const TEXT: &str = "\
q, Ctrl-C     quit
↑ ↓ PgUp PgDn select a row (also j, k, g, G)
Enter, →      show the containers of the selected VM
Esc, ←        clear the filter, or go back to the VMs
/             show the names that contain a text
s, S          sort by the next or the previous column
N W U E R H   sort by name, weight, use, entitlement, hit ratio, hits/s
i             invert the order

█ used within the entitlement   ░ entitled and not used
▓ used above the entitlement, which others do not need now
USED of a VM is in memory; that of a container includes IN SSD.
HISTORY has hits per second, an update each, the newest at the right.
HIT is the part of the pages requested in the last 60 updates that the
host returned. It is not the part of all reads: near 100% is normal.";

pub(super) fn draw(frame: &mut Frame<'_>, theme: &Theme) {
    let height = u16::try_from(TEXT.lines().count()).unwrap_or(u16::MAX);
    let width = TEXT.lines().map(|line| line.chars().count()).max();
    let width = u16::try_from(width.unwrap_or_default()).unwrap_or(u16::MAX);
    let [area] = Layout::horizontal([Constraint::Length(width + 4)])
        .flex(Flex::Center)
        .areas(frame.area());
    let [area] = Layout::vertical([Constraint::Length(height + 2)])
        .flex(Flex::Center)
        .areas(area);
    let block = Block::bordered()
        .title(" Help ")
        .title_style(theme.strong)
        .padding(Padding::horizontal(1));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(TEXT).block(block), area);
}
