// SPDX-License-Identifier: GPL-2.0-only

//! The result of a read in compact form.

use serde::{Deserialize, Serialize};

use super::PAGE;

/// Result of a step of kind `Read` (or `Orphan`).
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ReadResult {
    /// Number of the step.
    pub step: u32,
    /// Length of the file; `None` if it did not exist.
    pub len: Option<u64>,
    /// Digests of the pages, eight hex digits each.
    pub pages: String,
}

impl ReadResult {
    /// Returns the result of a step.
    #[must_use]
    pub fn new(step: u32, content: Option<&[u8]>) -> Self {
        Self {
            step,
            len: content.map(|content| content.len() as u64),
            pages: content
                .into_iter()
                .flat_map(digests)
                .map(|digest| format!("{digest:08x}"))
                .collect(),
        }
    }

    /// Returns the digests of its pages, or `None` if they are malformed.
    #[must_use]
    pub fn digests(&self) -> Option<Vec<u32>> {
        self.pages
            .as_bytes()
            .chunks(8)
            .map(|digits| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
            .collect()
    }
}

/// Returns a digest of each page of a content. The last page may be short.
///
/// The digest is fast under emulation. It need not be cryptographic, because pages are not forged
/// here.
pub fn digests(content: &[u8]) -> impl Iterator<Item = u32> {
    content.chunks(PAGE).map(|page| {
        let mut state = page.len() as u64;
        for word in page.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            state = (state ^ u64::from_le_bytes(bytes)).wrapping_mul(0x9fb2_1c65_1e98_df25);
            state ^= state >> 29;
        }
        // The upper half is mixed better.
        (state >> 32) as u32
    })
}
