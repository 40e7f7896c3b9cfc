// SPDX-License-Identifier: GPL-2.0-only

//! A random reader of blocks of all files, with a few popular ones.

use std::{fs::File, io};

use anyhow::{Context as _, Result};
use rand_distr::{Distribution as _, Zipf as Law};

use super::Script;
use crate::{
    io::Io,
    load::Load,
    profile::{BLOCK, EXPONENT},
};

pub(super) struct Zipf {
    files: Vec<File>,
    blocks_per_file: u64,
    law: Law<f64>,
}

impl Zipf {
    pub(super) fn new(load: &Load) -> Result<Self> {
        let sets = load.sets();
        let files = sets[0].files().iter().map(|file| {
            File::open(&file.path).with_context(|| format!("cannot open {}", file.path.display()))
        });
        let files: Vec<File> = files.collect::<Result<_>>()?;
        let blocks_per_file = load.shape().file_size.div_ceil(BLOCK);
        let blocks = blocks_per_file * files.len() as u64;
        Ok(Self {
            files,
            blocks_per_file,
            law: Law::new(blocks as f64, EXPONENT).context("the files are empty")?,
        })
    }

    /// Returns the block of a rank. Popular blocks are scattered, because read-ahead would
    /// otherwise fetch them together.
    fn block(&self, rank: u64) -> u64 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let blocks = self.blocks_per_file * self.files.len() as u64;
        rank.wrapping_mul(ODD) % blocks
    }
}

impl Script for Zipf {
    fn request(&mut self, io: &mut Io) -> io::Result<()> {
        let rank = self.law.sample(&mut io.rng) as u64;
        let block = self.block(rank);
        let file = &self.files[(block / self.blocks_per_file) as usize];
        io.read_at(file, block % self.blocks_per_file * BLOCK, BLOCK)
            .map(drop)
    }
}
