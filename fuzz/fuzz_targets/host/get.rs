// SPDX-License-Identifier: GPL-2.0-only

//! A get, with the results and the remaining pages that are expected of it.

use std::collections::BTreeSet;

use ddabi::key::PageKey;
use ddabi::request::{MAX_RUNS, Run};
use ddcore::host::Session as _;
use ddcore::host::get::{Found, Frames, Outcome, Target, from_ssd};
use ddcore::request::Runs;

use crate::call::is_reachable;
use crate::memory::Frame;
use crate::session::{Registration, Session, keys};

/// A run of a get.
struct Wanted {
    /// The state of its frames, which is [`Frames::Retained`] if its pages are to stay.
    frames: Frames,
    /// Whether all of its pages are found.
    is_whole: bool,
    /// Whether all of its frames can be written.
    is_reachable: bool,
}

/// A get.
pub(crate) struct Get<'a> {
    session: &'a Session,
    runs: Vec<Wanted>,
    /// The pages of the runs that the host is to have now.
    left: BTreeSet<PageKey>,
    /// Number of pages that are taken out of the index.
    taken: usize,
    /// Number of runs that stay, and of those that the engine said to stay.
    stays: usize,
    stay: usize,
    is_fetched: bool,
    settled: usize,
}

impl<'a> Get<'a> {
    /// Computes what a get is expected to do.
    pub(crate) fn expect(
        whole: &'a Registration,
        runs: &Runs<'_>,
        frames: &[Frames; MAX_RUNS],
        may_retain: bool,
    ) -> Self {
        let session = &whole.own;
        let mut get = Self {
            session,
            runs: Vec::new(),
            left: runs.iter().flat_map(|run| session.stored(&run)).collect(),
            taken: 0,
            stays: 0,
            stay: 0,
            is_fetched: false,
            settled: 0,
        };
        for (run, frames) in runs.iter().zip(frames) {
            let can_stay = whole.ssd_share(run.pool) > 0 && whole.places(run.pool) > 0;
            let stays =
                may_retain && *frames == Frames::Ready && can_stay && session.is_on_ssd(&run);
            let frames = if stays { Frames::Retained } else { *frames };
            let mut found = 0;
            if frames == Frames::Ready {
                // Of several runs with a page, the first one gets it.
                found = keys(&run).filter(|key| get.left.remove(key)).count();
            }
            get.taken += found;
            get.stays += usize::from(stays);
            get.runs.push(Wanted {
                frames,
                is_whole: stays || found == usize::from(run.pages),
                is_reachable: (run.gfn..).take(run.pages.into()).all(is_reachable),
            });
        }
        get
    }

    /// Checks the numbers of the whole get.
    pub(crate) fn assert_ended(&self, found: &Found) {
        assert_eq!(found.taken.total(), self.taken);
        assert_eq!(found.is_on_ssd, self.is_fetched);
        assert_eq!(found.is_on_ssd, found.taken.ssd > 0 || self.stays > 0);
        assert_eq!(self.stay, self.stays);
        assert_eq!(self.settled, self.runs.len());
    }
}

impl Target<Frame> for Get<'_> {
    fn may_retain(&mut self, _run: &Run) -> bool {
        true
    }

    fn retained(&mut self, _run: &Run) {
        self.stay += 1;
    }

    fn fetch(&mut self, runs: impl Iterator<Item = (Run, usize)>, pages: &mut [Option<Frame>]) {
        assert!(!self.is_fetched, "pages are read once");
        self.is_fetched = true;
        let end = runs
            .last()
            .map_or(0, |(run, at)| at + usize::from(run.pages));
        assert!(pages[..end].iter().flatten().any(Frame::is_placed));
        assert!(pages[end..].iter().all(Option::is_none));
    }

    fn write(&mut self, page: &Frame, gfn: u64) -> bool {
        assert!(self.is_fetched || !page.is_placed());
        is_reachable(gfn)
    }

    fn settled(&mut self, run: &Run, outcome: Outcome<'_>) {
        let wanted = &self.runs[self.settled];
        self.settled += 1;
        let is_given = wanted.is_whole && wanted.is_reachable;
        match (wanted.frames, outcome) {
            (
                Frames::Ready | Frames::Retained,
                Outcome::Given {
                    owners,
                    is_retained,
                },
            ) => {
                assert!(is_given && owners.len() == usize::from(run.pages));
                assert_eq!(is_retained, wanted.frames == Frames::Retained);
                assert!(!is_retained || from_ssd(owners) == u32::from(run.pages));
            }
            (Frames::Ready | Frames::Retained, Outcome::Missed) => assert!(!is_given),
            (Frames::Reading, Outcome::Deferred) => {}
            (frames, Outcome::Refused(refused)) => {
                assert!(frames == refused && frames != Frames::Ready);
                assert!(frames != Frames::Retained && frames != Frames::Reading);
            }
            (frames, outcome) => panic!("{frames:?}: {outcome:?}"),
        }
        // The guest has removed the pages from its map, unless it was told that they stay, that it
        // has to ask again, or nothing.
        let goes = match wanted.frames {
            Frames::Ready | Frames::Tracked | Frames::Absent => true,
            Frames::Retained => !is_given,
            Frames::Reading | Frames::Untold => false,
        };
        if goes {
            keys(run).for_each(|key| _ = self.left.remove(&key));
        }
        let left = keys(run).filter(|key| self.left.contains(key));
        assert!(self.session.stored(run).eq(left));
    }
}
