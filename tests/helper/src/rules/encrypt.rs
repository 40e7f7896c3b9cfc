// SPDX-License-Identifier: GPL-2.0-only

//! The host gets no page of an encrypted file, also when its key is removed and comes back. Files
//! beside it are not affected.

use std::{
    fs::{self, File},
    path::Path,
};

use anyhow::{Context as _, Result, ensure};

use super::kept::{Kept, run, xfs_io};

const PAGES: usize = 64;
/// The key, which is fixed, because the test needs no secrecy.
const KEY: [u8; 64] = [7; 64];

pub(super) fn encrypt(dir: &Path) -> Result<u64> {
    let plain = Kept::create(dir, "encrypt", PAGES)?;
    let secrets = dir.join("secrets");
    fs::create_dir(&secrets)?;
    let mut key = String::new();
    let mut sum = plain.stays("FS_IOC_ADD_ENCRYPTION_KEY", || {
        key = add_key(dir)?;
        Ok(())
    })?;
    sum += plain.stays("FS_IOC_SET_ENCRYPTION_POLICY", || {
        xfs_io(&secrets, &format!("set_encpolicy -v 2 {key}")).map(drop)
    })?;
    let secret = Kept::create(&secrets, "secret", PAGES)?;
    sum += secret.leaves("it was read", || Ok(()))?;
    let path = secret.path.clone();
    drop(secret);

    sum += plain.stays("FS_IOC_REMOVE_ENCRYPTION_KEY", || {
        let said = xfs_io(dir, &format!("rm_enckey {key}"))?;
        ensure!(!said.contains("busy"), "xfs_io: {said}");
        Ok(())
    })?;
    ensure!(File::open(&path).is_err(), "the file needs no key");
    add_key(dir)?;
    let secret = Kept::open(&path, PAGES)?;
    Ok(sum + secret.leaves("its key came back", || Ok(()))?)
}

/// Adds the key and returns its name.
fn add_key(dir: &Path) -> Result<String> {
    let said = run(
        "xfs_io",
        &["-c", "add_enckey", &dir.to_string_lossy()],
        &KEY,
    )?;
    let name = said.split_whitespace().last();
    Ok(name.context("the key has no name")?.to_owned())
}
