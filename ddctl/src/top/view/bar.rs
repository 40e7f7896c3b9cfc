// SPDX-License-Identifier: GPL-2.0-only

//! Bars and sparklines of one line.

use super::theme::Theme;
use ratatui::text::{Line, Span};

/// Blocks from one eighth to eight eighths, from the bottom.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns a bar of `used` against `entitled`, in which `width` columns stand for `whole`: `█` is
/// use within the entitlement, `▓` is use above it, and `░` is entitlement that is not used.
pub(super) fn share(
    theme: &Theme,
    width: usize,
    used: u64,
    entitled: u64,
    whole: u64,
) -> Line<'static> {
    let columns = |pages: u64| {
        let scaled = u128::from(pages) * width as u128 * 2 / u128::from(whole.max(1));
        // Half a column counts as one, and a page is never invisible.
        let columns = usize::try_from(scaled.div_ceil(2)).unwrap_or(width);
        columns.max(usize::from(pages > 0)).min(width)
    };
    let (used, entitled) = (columns(used), columns(entitled));
    let within = used.min(entitled);
    Line::from(vec![
        Span::styled("█".repeat(within), theme.within),
        Span::styled("▓".repeat(used - within), theme.above),
        Span::styled("░".repeat(entitled - within), theme.faint),
        Span::raw(" ".repeat(width - used.max(entitled))),
    ])
}

/// Returns values as blocks, of which the largest value is a whole one. The line is filled from
/// the left with blanks.
pub(super) fn sparkline(values: impl Iterator<Item = u32>, width: usize) -> String {
    let values: Vec<u32> = values.collect();
    let most = values.iter().copied().max().unwrap_or_default().max(1);
    let block = |value: &u32| {
        let level = u64::from(*value) * 7 / u64::from(most);
        match value {
            0 => ' ',
            _ => LEVELS[usize::try_from(level).unwrap_or_default().min(7)],
        }
    };
    let blocks: String = values.iter().map(block).collect();
    let blank = width.saturating_sub(values.len());
    format!("{}{blocks}", " ".repeat(blank))
}
