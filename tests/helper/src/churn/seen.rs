// SPDX-License-Identifier: GPL-2.0-only

//! What a read saw, in few words.

use serde::{Deserialize, Serialize};

use super::PAGE;

/// What a step of kind `Read` (or `Orphan`) saw.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Seen {
    /// Number of the step.
    pub step: u32,
    /// Length of the file; none when it was not there.
    pub len: Option<u64>,
    /// Eight hex digits a page: its digest.
    pub pages: String,
}

impl Seen {
    /// What a step saw.
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

    /// The digests of its pages; none when they are malformed.
    #[must_use]
    pub fn digests(&self) -> Option<Vec<u32>> {
        self.pages
            .as_bytes()
            .chunks(8)
            .map(|digits| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
            .collect()
    }
}

/// Digest of each page of a content; the last page may be short.
///
/// Fast where everything is emulated. Pages are not forged here, so nothing
/// cryptographic is needed.
pub fn digests(content: &[u8]) -> impl Iterator<Item = u32> {
    content.chunks(PAGE).map(|page| {
        let mut state = page.len() as u64;
        for word in page.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            state = (state ^ u64::from_le_bytes(bytes)).wrapping_mul(0x9fb2_1c65_1e98_df25);
            state ^= state >> 29;
        }
        // The upper half is the better mixed one.
        (state >> 32) as u32
    })
}
