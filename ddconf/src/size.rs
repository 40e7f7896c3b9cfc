// SPDX-License-Identifier: GPL-2.0-only

//! Sizes as people write and read them. Units are powers of 1024: `512M`, `512MB` and `512MiB` are
//! the same.

use ddabi::PAGE_SIZE;
use std::{fmt, str::FromStr};

/// Bytes, or a part of a whole that the reader knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Bytes.
    Bytes(u64),
    /// Percent of the whole, 0 to 100.
    Percent(f64),
}

impl Size {
    /// Returns the size in bytes, given the whole in bytes.
    pub fn bytes(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            // A share of a memory size is far from the limits of either type.
            Self::Percent(percent) => (whole as f64 * percent / 100.0) as u64,
        }
    }

    /// Returns the size in whole pages, given the whole in bytes.
    pub fn pages(self, whole: u64) -> u64 {
        self.bytes(whole) / PAGE_SIZE as u64
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().strip_suffix('%') {
            Some(number) => percent(text, number).map(Self::Percent),
            None => parse(text, "512M, 2G or 25%").map(Self::Bytes),
        }
    }
}

/// Writes it so that it reads back as the same size.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        match *self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Bytes(0) => f.write_str("0"),
            Self::Bytes(bytes) => {
                let whole = |(shift, _): &(u32, &str)| bytes.trailing_zeros() >= *shift;
                match UNITS.into_iter().find(whole) {
                    Some((shift, unit)) => write!(f, "{}{unit}", bytes >> shift),
                    None => write!(f, "{bytes}B"),
                }
            }
        }
    }
}

/// Parses a number of bytes with its unit.
pub fn bytes(text: &str) -> Result<u64, String> {
    parse(text, "512M or 2G")
}

/// 4 PiB, the most memory that x86-64 addresses.
const MAX_BYTES: u64 = 4 << 50;

fn parse(text: &str, examples: &str) -> Result<u64, String> {
    let text = text.trim();
    let bytes = parse_size::Config::new()
        .with_binary()
        .parse_size(text)
        .map_err(|_| format!("`{text}` is not a size: write it like {examples}"))?;
    if bytes > 0 && text.ends_with(|last: char| last.is_ascii_digit()) {
        return Err(format!("`{text}` has no unit: write it like {examples}"));
    }
    if bytes > MAX_BYTES {
        return Err(format!("`{text}` is more than any machine has"));
    }
    Ok(bytes)
}

fn percent(text: &str, number: &str) -> Result<f64, String> {
    match number.trim().parse() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        Ok(percent) if percent > 100.0 => Err(format!("`{text}` is more than the whole")),
        _ => Err(format!(
            "`{text}` is not a size: write it like 512M, 2G or 25%"
        )),
    }
}

/// Formats pages as a person reads them.
pub fn show_pages(pages: u64) -> String {
    show_bytes(pages.saturating_mul(PAGE_SIZE as u64))
}

/// Formats bytes as a person reads them.
pub fn show_bytes(bytes: u64) -> String {
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
            ("1.5 GiB", 393_216),
            ("512MB", 131_072),
            ("8k", 2),
            ("0", 0),
            ("25%", 262_144),
            ("25 %", 262_144),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!(size.pages(4 << 30), pages, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "", "G", "M", "12", "101%", "-1%", "NaN%", "-1", "-1G", "1X", "1..2G", "nan", "1e30",
            "9999T", "5000000T", "∞", "ä",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
            assert!(bytes(text).is_err(), "{text}");
        }
        assert!(bytes("25%").is_err());
    }

    #[test]
    fn sizes_read_back_as_written() {
        for (text, written) in [
            ("8GiB", "8GiB"),
            ("1.5G", "1536MiB"),
            ("12.5%", "12.5%"),
            ("0", "0"),
            ("4100 B", "4100B"),
            ("8K", "8KiB"),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!(size.to_string(), written);
            assert_eq!(written.parse(), Ok(size));
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
