// SPDX-License-Identifier: GPL-2.0-only

//! Sizes as people write and read them. Units are powers of 1024.

use ddabi::PAGE_SIZE;
use std::str::FromStr;

/// A size on the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Size {
    /// Bytes.
    Bytes(u64),
    /// Percent of this machine's memory.
    Percent(f64),
}

impl Size {
    /// Whole pages, given the machine's memory in bytes.
    pub(crate) fn pages(self, memory: u64) -> u64 {
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            // A share of a memory size is far from the limits of either type.
            Self::Percent(percent) => (memory as f64 * percent / 100.0) as u64,
        };
        bytes / PAGE_SIZE as u64
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write it like 512M, 2G or 25%";
        if let Some(percent) = text.strip_suffix('%') {
            return match percent.parse() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Self::Percent(percent)),
                Ok(percent) if percent > 100.0 => {
                    Err("more than 100 % of the memory cannot be given away".into())
                }
                _ => Err(format!("`{text}` is not a size: {example}")),
            };
        }
        let bytes = parse_size::Config::new()
            .with_binary()
            .parse_size(text)
            .map_err(|_| format!("`{text}` is not a size: {example}"))?;
        if bytes > 0 && text.ends_with(|last: char| last.is_ascii_digit()) {
            return Err(format!("`{text}` has no unit: {example}"));
        }
        if bytes >= 1 << 60 {
            return Err(format!("`{text}` is more than any machine has"));
        }
        Ok(Self::Bytes(bytes))
    }
}

/// Pages as a person reads them.
pub(crate) fn show_pages(pages: u64) -> String {
    show_bytes(pages.saturating_mul(PAGE_SIZE as u64))
}

/// Bytes as a person reads them.
pub(crate) fn show_bytes(bytes: u64) -> String {
    const UNITS: [(u32, &str); 3] = [(40, "TiB"), (30, "GiB"), (20, "MiB")];
    for (shift, unit) in UNITS {
        if bytes >= 1 << shift {
            let number = bytes as f64 / (1u64 << shift) as f64;
            let decimals = if shift == 20 { 1 } else { 2 };
            return format!("{number:.decimals$} {unit}");
        }
    }
    match bytes {
        0 => "0".into(),
        1..1024 => format!("{bytes} B"),
        _ => format!("{} KiB", bytes >> 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_units() {
        for (text, pages) in [
            ("512M", 131_072),
            ("2G", 524_288),
            ("1 G", 262_144),
            ("1.5GiB", 393_216),
            ("512MB", 131_072),
            ("8k", 2),
            ("0", 0),
            ("25%", 262_144),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!(size.pages(4 << 30), pages, "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "", "G", "12", "101%", "-1%", "-1G", "1X", "1..2G", "5000000T", "∞",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_for_people() {
        assert_eq!(show_pages(0), "0");
        assert_eq!(show_pages(3), "12 KiB");
        assert_eq!(show_pages(256), "1.0 MiB");
        assert_eq!(show_pages(393_216), "1.50 GiB");
        assert_eq!(show_bytes(3 << 40), "3.00 TiB");
        assert_eq!(show_bytes(7), "7 B");
    }
}
