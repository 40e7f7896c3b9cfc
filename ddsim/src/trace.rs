// SPDX-License-Identifier: GPL-2.0-only

//! Block traces in the common CSV format, `version,time,op,size,lbn`, as libCacheSim distributes
//! them. Sizes are in bytes, blocks have 512 bytes, and operations are SCSI opcodes in hexadecimal.

use crate::page::Page;
use crate::stream::{Access, Kind};
use anyhow::{Context as _, Result, bail};
use ddabi::PAGE_SIZE;
use flate2::read::GzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Bytes of a block.
const BLOCK: u64 = 512;

/// Pages of one "file" of a trace. A disk has no files, so that extents of this size are used
/// instead.
const EXTENT: u64 = 1 << 20;

/// Maximum size of a request in bytes. A trace with larger requests is considered damaged.
const MAX_SIZE: u64 = 1 << 30;

/// Reads a trace, which may be compressed with gzip.
pub fn read(path: &Path) -> Result<Vec<Access>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut file = BufReader::new(file);
    let packed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let text: Box<dyn Read> = match packed {
        true => Box::new(GzDecoder::new(file)),
        false => Box::new(file),
    };
    parse(BufReader::new(text)).with_context(|| format!("{} is not a trace", path.display()))
}

/// Parses a trace. Columns are found by their names.
pub fn parse(text: impl BufRead) -> Result<Vec<Access>> {
    let mut lines = text.lines();
    let head = lines.next().context("the file is empty")??;
    let column = |names: &[&str]| {
        head.split(',')
            .position(|name| names.contains(&name.trim().to_ascii_lowercase().as_str()))
            .with_context(|| format!("the trace has no column {}", names[0]))
    };
    let (op, size, block) = (
        column(&["op"])?,
        column(&["size"])?,
        column(&["lbn", "lba"])?,
    );
    let mut stream = Vec::new();
    for (line, number) in lines.zip(2..) {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        let count = |at: usize| {
            let text = field(at);
            text.parse::<u64>()
                .with_context(|| format!("line {number}: `{text}` is not a number"))
        };
        let (size, block) = (count(size)?, count(block)?);
        let Some(begin) = block.checked_mul(BLOCK) else {
            bail!("line {number}: block {block} is beyond any disk");
        };
        if size > MAX_SIZE {
            bail!("line {number}: a request of {size} bytes is too large");
        }
        let kind = kind(field(op))
            .with_context(|| format!("line {number}: `{}` is neither read nor write", field(op)))?;
        let first = begin / PAGE_SIZE as u64;
        let last = begin.saturating_add(size.max(1) - 1) / PAGE_SIZE as u64;
        stream.extend((first..=last).map(|page| Access {
            page: Page::new((page / EXTENT) as u32, (page % EXTENT) as u32),
            kind,
        }));
    }
    Ok(stream)
}

fn kind(op: &str) -> Option<Kind> {
    match op.to_ascii_lowercase().as_str() {
        // READ(6), (10), (16), (12).
        "8" | "08" | "28" | "88" | "a8" | "r" | "rs" | "read" => Some(Kind::Read),
        "a" | "0a" | "2a" | "8a" | "aa" | "w" | "ws" | "write" => Some(Kind::Write),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_pages() {
        let text = "version,time,op,size,lbn\n1,5,2a,512,15\n1,5,28,8192,12\n\n";
        let stream = parse(text.as_bytes()).unwrap();
        let page = |index| Page::new(0, index);
        assert_eq!(
            stream,
            [
                Access {
                    page: page(1),
                    kind: Kind::Write
                },
                Access::read(page(1)),
                Access::read(page(2)),
                Access::read(page(3)),
            ]
        );
    }

    #[test]
    fn damage_is_reported() {
        let told = |text: &str| format!("{:#}", parse(text.as_bytes()).unwrap_err());
        assert_eq!(told(""), "the file is empty");
        assert_eq!(told("a,b\n"), "the trace has no column op");
        assert!(told("op,size,lbn\nr,x,1\n").starts_with("line 2: `x` is not a number"));
        assert!(told("op,size,lbn\nr,1\n").starts_with("line 2: `` is not a number"));
        assert!(told("op,size,lbn\nzz,1,1\n").contains("neither"));
        assert!(told("op,size,lbn\nr,99999999999,1\n").contains("99999999999"));
        assert!(told(&format!("op,size,lbn\nr,1,{}\n", u64::MAX)).contains("beyond any disk"));
    }
}
