// SPDX-License-Identifier: GPL-2.0-only

//! Pictures of the documents, which tests draw and compare.

use std::{env, fs, path::Path};

/// Set to write the pictures instead of comparing them.
const WRITE: &str = "DD_WRITE_PICTURES";

/// Compares a picture with the one of this name in `docs/pictures`.
///
/// # Panics
///
/// Panics if they differ.
pub fn assert(name: &str, drawn: &str) {
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let path = Path::new(top).join("docs/pictures").join(name);
    if env::var_os(WRITE).is_some() {
        fs::write(&path, drawn).expect("the directory of pictures can be written");
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == drawn,
        "docs/pictures/{name} shows another state; look at the new one after running this test \
         with {WRITE}=1"
    );
}
