// SPDX-License-Identifier: GPL-2.0-only

//! The guest's side of a get.

use super::frame::Frame;
use ddabi::request::Run;
use ddcore::host::get::{Outcome, Target, from_ssd};
use ddcore::host::session::TierKind;

/// The memory of a guest that gets a page. Pages have no data.
#[derive(Default)]
pub(super) struct Reader {
    /// The tier that had the page.
    pub(super) tier: Option<TierKind>,
}

impl Target<Frame> for Reader {
    fn may_retain(&mut self, _run: &Run) -> bool {
        false
    }

    fn retained(&mut self, _run: &Run) {}

    fn fetch(&mut self, _runs: impl Iterator<Item = (Run, usize)>, _pages: &mut [Option<Frame>]) {}

    fn write(&mut self, _page: &Frame, _gfn: u64) -> bool {
        true
    }

    fn settled(&mut self, _run: &Run, outcome: Outcome<'_>) {
        if let Outcome::Given { owners, .. } = outcome {
            self.tier = Some(match from_ssd(owners) {
                0 => TierKind::Memory,
                _ => TierKind::Ssd,
            });
        }
    }
}
