// SPDX-License-Identifier: GPL-2.0-only

//! Several processes change and read the same files in all ways, and compare every byte they read
//! with the content that all of them wrote.
//!
//! The expected content of a file is in a [`Model`], which the processes share. A process that
//! reads a file locks its model shared, and one that changes it locks it exclusively. Readers that
//! check nothing take no lock.

mod between;
mod change;
mod deck;
mod disturb;
mod grow;
mod looped;
mod model;
mod reader;
mod special;
mod swapped;
mod worker;

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::Result;
use ddhelper::kind::Kind;
use serde::Serialize;

pub(crate) use disturb::{DisturbArguments, disturb};
use model::Model;
use reader::Way;
pub(crate) use special::ATOMIC;
use worker::Worker;

/// Maximum size of a file in bytes.
const MAX_LEN: usize = 1 << 20;

/// Name of the model of the boot loader's inode, with which files swap their content.
const BOOT: &str = "boot";

/// The files of a process.
#[derive(Debug, clap::Args)]
pub(crate) struct TortureArguments {
    /// Directory of the files
    #[arg(long)]
    dir: PathBuf,
    /// Directory (of tmpfs) with a model of each file, made by `torture-models`
    #[arg(long)]
    models: PathBuf,
    /// Seed of its choices
    #[arg(long)]
    seed: u64,
    /// Number of reads to compare, unless the file `stop` appears beside the models before
    #[arg(long)]
    checks: u64,
    /// Bytes of a block of the filesystem
    #[arg(long)]
    block: u64,
    /// The files are on an overlay, where an open file may be another one after a write
    #[arg(long)]
    overlay: bool,
    /// The filesystem has checksums of metadata
    #[arg(long)]
    metadata_csum: bool,
    /// Also try operations that only some filesystems offer
    #[arg(long)]
    special: bool,
}

/// The results, printed as JSON.
#[derive(Debug, Default, Serialize)]
struct Tally {
    /// Number of compared reads.
    checks: u64,
    /// Number of compared bytes.
    bytes: u64,
    /// Number of changes.
    changes: u64,
    /// Numbers of reads that were compared, and that the filesystem refused, by way.
    ways: BTreeMap<Way, Count>,
    /// Number of changes that the filesystem does not offer.
    refused: u64,
    /// Number of successes of each operation that not all filesystems offer.
    done: BTreeMap<Kind, u64>,
    /// Number of times that the filesystem did not know such an operation.
    not_offered: BTreeMap<Kind, u64>,
    /// One line for each wrong page, for a few of them.
    wrong: Vec<String>,
}

/// Results of one way to read.
#[derive(Debug, Default, Serialize)]
struct Count {
    compared: u64,
    refused: u64,
}

/// Makes the models of `files` files that do not exist. Their memory is charged to the cgroup of
/// the process that runs this.
pub(crate) fn models(dir: &std::path::Path, files: u32) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    (0..files).try_for_each(|file| Model::make(&dir.join(file.to_string())))?;
    Model::make(&dir.join(BOOT))?;
    for lock in ["gate", "quiet"] {
        std::fs::File::create(dir.join(lock))?;
    }
    Ok(())
}

/// Changes and compares, and prints the results.
pub(crate) fn torture(arguments: &TortureArguments) -> Result<()> {
    let tally = Worker::new(arguments)?.work()?;
    println!("{}", serde_json::to_string(&tally)?);
    Ok(())
}
