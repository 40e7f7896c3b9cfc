// SPDX-License-Identifier: GPL-2.0-only

//! Short forms of numbers.

use ddconf::size::{show_bytes, show_pages};

/// Formats pages in at most seven columns: `320.0M`.
pub(crate) fn size(pages: u64) -> String {
    short(&show_pages(pages))
}

/// Formats bytes in at most seven columns: `320.0M`.
pub(crate) fn bytes(bytes: u64) -> String {
    short(&show_bytes(bytes))
}

/// Formats a count in at most six columns: `163.8k`.
pub(crate) fn count(count: u64) -> String {
    rate(count as f64)
}

fn short(size: &str) -> String {
    let text = size.replace(' ', "");
    let mut text = text.strip_suffix("iB").unwrap_or(&text).to_owned();
    // Four digits and two decimals: the last of them is left out.
    if text.len() > 7 {
        text.remove(text.len() - 2);
    }
    text
}

/// Formats a rate in at most six columns: `12.3k`.
pub(crate) fn rate(rate: f64) -> String {
    match rate {
        rate if rate < 9_999.5 => format!("{rate:.0}"),
        rate if rate < 999_950.0 => format!("{:.1}k", rate / 1e3),
        rate if rate < 999_950_000.0 => format!("{:.1}M", rate / 1e6),
        rate if rate < 999_950_000_000.0 => format!("{:.1}G", rate / 1e9),
        rate => format!("{:.1}T", rate / 1e12),
    }
}

/// Formats a ratio in percent, or a dash for none.
pub(crate) fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".into(), |ratio| format!("{:.1}%", ratio * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0, 9_999, 10_000, 163_840].map(count),
            ["0", "9999", "10.0k", "163.8k"]
        );
        assert_eq!(
            [999_949, 999_950, 2_000_000_000].map(count),
            ["999.9k", "1.0M", "2.0G"]
        );
        assert_eq!(
            [0, 1, 81_920, 1 << 18].map(size),
            ["0", "4K", "320.0M", "1.00G"]
        );
        assert_eq!(
            [(1 << 28) - 2561, 1_000 << 28].map(size),
            ["1023.9G", "1000.0T"]
        );
        assert_eq!(percent(Some(0.755)), "75.5%");
        assert_eq!(percent(None), "-");
    }
}
