// SPDX-License-Identifier: GPL-2.0-only

//! Names of pools.

use crate::NAME_LEN;

/// The name of a pool as the modules keep and list it: printable ASCII, for the administrator only.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Name {
    bytes: [u8; NAME_LEN],
    len: usize,
}

impl Name {
    /// The name of the default pool.
    pub const DEFAULT: Self = Self::new(b"default");

    /// Returns a name of the first [`NAME_LEN`] bytes. Bytes that are not printable ASCII become
    /// question marks.
    pub const fn new(text: &[u8]) -> Self {
        let mut name = Self {
            bytes: [0; NAME_LEN],
            len: 0,
        };
        while name.len < text.len() && name.len < NAME_LEN {
            let byte = text[name.len];
            let printable = byte.is_ascii_graphic() || byte == b' ';
            name.bytes[name.len] = if printable { byte } else { b'?' };
            name.len += 1;
        }
        name
    }

    /// Returns the bytes of the name.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
