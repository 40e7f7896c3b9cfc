// SPDX-License-Identifier: GPL-2.0-only

//! Short forms of numbers.

use ddconf::size::show_pages;

/// Formats pages in at most seven columns: `320.0M`.
pub(super) fn size(pages: u64) -> String {
    let text = show_pages(pages).replace(' ', "");
    match text.strip_suffix("iB") {
        Some(short) => short.into(),
        None => text,
    }
}

/// Formats a rate in at most six columns: `12.3k`.
pub(super) fn rate(rate: f64) -> String {
    match rate {
        rate if rate < 9_999.5 => format!("{rate:.0}"),
        rate if rate < 999_950.0 => format!("{:.1}k", rate / 1e3),
        rate if rate < 999_950_000.0 => format!("{:.1}M", rate / 1e6),
        rate => format!("{:.1}G", rate / 1e9),
    }
}

/// Formats a ratio in percent, or a dash for none.
pub(super) fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), |ratio| format!("{:.1}%", ratio * 100.0))
}
