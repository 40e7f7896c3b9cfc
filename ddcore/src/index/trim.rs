// SPDX-License-Identifier: GPL-2.0-only

//! Release of memory: items of the last segments are moved to free places of earlier ones.

use super::bucket::Bucket;
use super::cohort::{Cohort, Members};
use super::file::File;
use super::file_bucket::FileBucket;
use super::leaf::{Leaf, Owner};
use super::segment::{Item, Kind};
use super::spill::Spill;
use super::{Index, Storage};

impl<S: Storage> Index<S> {
    /// Returns whether [`Index::trim`] would release memory.
    pub const fn is_slack(&self) -> bool {
        self.blocks.is_slack()
            || self.spills.is_slack()
            || self.leaves.is_slack()
            || self.cohorts.is_slack()
            || self.files_slack()
    }

    /// Takes up to `steps` numbers out of use, the highest of each kind first. The caller may then
    /// free the segments beyond those that are [needed](Index::needed), which are zeroed again.
    pub fn trim(&mut self, steps: u32) {
        self.settle::<Leaf>();
        self.settle::<Cohort>();
        self.settle::<File>();
        for _ in 0..steps {
            if self.blocks.is_slack() {
                self.drop_bucket();
            } else if self.spills.is_slack() {
                self.drop_spill();
            } else if self.leaves.is_slack() {
                self.drop_leaf();
            } else if self.cohorts.is_slack() {
                self.drop_cohort();
            } else if self.files_slack() {
                self.files_stuck = !self.drop_file();
            } else {
                break;
            }
        }
    }

    /// Returns the number of segments of a kind that are needed.
    pub fn needed(&self, kind: Kind) -> usize {
        match kind {
            Kind::Buckets => self.blocks.segments(Bucket::EACH),
            Kind::Spills => self.spills.segments(Spill::EACH),
            Kind::Files => self.files.segments(File::EACH),
            Kind::FileBuckets => self.files.bucket_segments(FileBucket::EACH),
            Kind::Leaves => self.leaves.segments(Leaf::EACH),
            Kind::Owners => self.leaves.segments(Owner::EACH),
            Kind::Cohorts => self.cohorts.segments(Cohort::EACH),
            Kind::Members => self.cohorts.segments(Members::EACH),
        }
    }

    /// Returns whether unused numbers of files should be released. That is impossible while the
    /// file with the highest number has too large a range of indices to be moved.
    const fn files_slack(&self) -> bool {
        !self.files_stuck && self.files.is_slack()
    }
}
