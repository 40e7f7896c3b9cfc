// SPDX-License-Identifier: GPL-2.0-only

//! Several processes change and read the same files, in every way there is, and
//! compare every byte they read with what all of them wrote.
//!
//! What a file must hold is in a [`Model`], which the processes share: whoever
//! wants to read a file locks its model, whoever wants to change it locks it
//! alone. Readers that look at nothing go on without any lock.

mod between;
mod change;
mod deck;
mod disturb;
mod grow;
mod looped;
mod model;
mod reader;
mod special;
mod worker;

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::Result;
use ddhelper::kind::Kind;
use serde::Serialize;

pub(crate) use disturb::{DisturbArguments, disturb};
use model::Model;
use reader::Way;
use worker::Worker;

/// Longest file in bytes.
const LONGEST: usize = 1 << 20;

/// Name of the model of the boot loader's inode, with which files swap their content.
const BOOT: &str = "boot";

/// What a process works on.
#[derive(Debug, clap::Args)]
pub(crate) struct TortureArguments {
    /// Directory of the files
    #[arg(long)]
    dir: PathBuf,
    /// Directory (of tmpfs) with a model of each file, made by `torture-models`
    #[arg(long)]
    models: PathBuf,
    /// What its choices follow from
    #[arg(long)]
    seed: u64,
    /// Reads to compare, unless there is a file `stop` beside the models before
    #[arg(long)]
    checks: u64,
    /// Bytes of a block of the filesystem
    #[arg(long)]
    block: u64,
    /// The files are on an overlay: an open file may be another one after a write
    #[arg(long)]
    overlay: bool,
    /// The filesystem has checksums of metadata
    #[arg(long)]
    metadata_csum: bool,
    /// Try operations that only some filesystems offer, too
    #[arg(long)]
    special: bool,
}

/// What came of it, as JSON.
#[derive(Debug, Default, Serialize)]
struct Tally {
    /// Reads that were compared.
    checks: u64,
    /// Bytes that were compared.
    bytes: u64,
    /// Changes that were made.
    changes: u64,
    /// Reads that were compared, and reads that the filesystem refused, by way.
    ways: BTreeMap<Way, Count>,
    /// Changes the filesystem does not offer.
    refused: u64,
    /// Operations that not all filesystems offer: how often each succeeded.
    done: BTreeMap<Kind, u64>,
    /// How often the filesystem did not know one.
    not_offered: BTreeMap<Kind, u64>,
    /// One line for each page that was wrong, at most a few.
    wrong: Vec<String>,
}

/// What came of one way to read.
#[derive(Debug, Default, Serialize)]
struct Count {
    compared: u64,
    refused: u64,
}

/// Makes models of `files` files that are not there; nobody's memory limit
/// counts them if nobody's process runs this.
pub(crate) fn models(dir: &std::path::Path, files: u32) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    (0..files).try_for_each(|file| Model::make(&dir.join(file.to_string())))?;
    Model::make(&dir.join(BOOT))?;
    for lock in ["gate", "quiet"] {
        std::fs::File::create(dir.join(lock))?;
    }
    Ok(())
}

/// Changes and compares; prints what came of it.
pub(crate) fn torture(arguments: &TortureArguments) -> Result<()> {
    let tally = Worker::new(arguments)?.work()?;
    println!("{}", serde_json::to_string(&tally)?);
    Ok(())
}
