// SPDX-License-Identifier: GPL-2.0-only

//! The operations on a map and their frequency in a random test.

use crate::segments::file;
use ddabi::key::{FileKey, MAX_INDEX};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Walk {
    Range(FileKey, u64, u64),
    Filesystem(u32),
    All,
}

impl Walk {
    pub(crate) fn covers(self, file: FileKey, index: u64) -> bool {
        match self {
            Self::Range(of, first, last) => {
                of.same_inode(&file) && (of != file || (first..=last).contains(&index))
            }
            Self::Filesystem(filesystem) => file.filesystem == filesystem,
            Self::All => true,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Put(FileKey, u64, u32),
    /// Finishes the pages of a put in two parts, each with a result of its own.
    Finish {
        put: usize,
        split: u32,
        stored: [bool; 2],
    },
    /// Finishes pages that may not have a put in flight, as a faulty caller could do.
    Stray(FileKey, u64),
    Invalidate(FileKey, u64, u64),
    Forget(FileKey),
    Claim(FileKey, u64, u32),
    /// Claims pages that the host may keep. Their read is finished like a put.
    ClaimRetained(FileKey, u64, u32),
    Notice(FileKey, u64, u32),
    Lookup(FileKey, u64, u32),
    Reclaim(u32),
    Grow {
        files: bool,
        adopt: u32,
    },
    Begin(Walk),
    Step(u32),
}

fn files() -> impl Strategy<Value = FileKey> {
    let generations = prop_oneof![12 => Just(1), 1 => Just(2), 1 => Just(3)];
    (1..3_u32, 1..5_u64, generations).prop_map(|(filesystem, inode, generation)| FileKey {
        generation,
        ..file(filesystem, inode)
    })
}

fn indices() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0..20_u64,
        8 => 100..600_u64,
        1 => MAX_INDEX - 200..MAX_INDEX + 3,
        1 => Just(u64::MAX - 3),
    ]
}

fn pages() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..9_u32, 3 => 9..70_u32, 1 => 70..400_u32]
}

fn walks() -> impl Strategy<Value = Walk> {
    prop_oneof![
        4 => (files(), indices(), indices()).prop_map(|(file, a, b)| Walk::Range(file, a, b)),
        2 => (files(), indices()).prop_map(|(file, a)| Walk::Range(file, a, u64::MAX)),
        1 => (1..3_u32).prop_map(Walk::Filesystem),
        1 => Just(Walk::All),
    ]
}

pub(crate) fn ops() -> impl Strategy<Value = Op> {
    let run = || (files(), indices(), pages());
    prop_oneof![
        12 => run().prop_map(|(file, index, pages)| Op::Put(file, index, pages)),
        10 => (any::<usize>(), pages(), any::<[bool; 2]>(), any::<bool>()).prop_map(
            |(put, split, stored, all)| Op::Finish { put, split, stored: stored.map(|s| s | all) }
        ),
        1 => (files(), indices()).prop_map(|(file, index)| Op::Stray(file, index)),
        2 => (files(), indices(), indices()).prop_map(|(file, a, b)| Op::Invalidate(file, a, b)),
        1 => files().prop_map(Op::Forget),
        4 => run().prop_map(|(file, index, pages)| Op::Claim(file, index, pages)),
        3 => run().prop_map(|(file, index, pages)| Op::ClaimRetained(file, index, pages)),
        2 => run().prop_map(|(file, index, pages)| Op::Notice(file, index, pages)),
        3 => run().prop_map(|(file, index, pages)| Op::Lookup(file, index, pages)),
        1 => (0..4_u32).prop_map(Op::Reclaim),
        1 => (any::<bool>(), 0..9_u32).prop_map(|(files, adopt)| Op::Grow { files, adopt }),
        1 => walks().prop_map(Op::Begin),
        4 => (0..4_u32).prop_map(Op::Step),
    ]
}
