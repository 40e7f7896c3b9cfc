// SPDX-License-Identifier: GPL-2.0-only

//! What a get does with its runs.

use super::*;
use crate::host::heap;
use crate::host::segments::tests::{host, put, Flash, Owned};
use alloc::vec::Vec;

/// Pages of a run.
const PAGES: u16 = 2;

/// Frames from this one on cannot be written.
const FAULTS: u64 = 100;

/// A guest, with the results of its runs.
#[derive(Default)]
struct Guest {
    outcomes: Vec<(bool, &'static str)>,
    written: usize,
    fetched: usize,
    /// Number of runs that may stay in the SSD tier.
    allowance: usize,
}

impl Target<Owned> for Guest {
    fn may_retain(&mut self, _run: &Run) -> bool {
        self.allowance > 0
    }

    fn retained(&mut self, _run: &Run) {
        self.allowance -= 1;
    }

    fn fetch(&mut self, runs: impl Iterator<Item = (Run, usize)>, pages: &mut [Option<Owned>]) {
        self.fetched += 1;
        for (run, at) in runs {
            for page in pages[at..at + usize::from(run.pages)].iter_mut().flatten() {
                *page = page.frame();
            }
        }
    }

    fn write(&mut self, page: &Owned, gfn: u64) -> bool {
        assert!(!page.is_placed(), "a page that was not read");
        self.written += 1;
        gfn < FAULTS
    }

    fn settled(&mut self, _run: &Run, outcome: Outcome<'_>) {
        self.outcomes.push(match outcome {
            Outcome::Given { owners, .. } if owners.len() != usize::from(PAGES) => panic!(),
            Outcome::Given { is_retained, .. } => (is_retained, "given"),
            Outcome::Missed => (false, "missed"),
            Outcome::Refused(_) => (false, "refused"),
            Outcome::Deferred => (false, "deferred"),
        });
    }
}

fn run(number: u64, gfn: u64) -> Run {
    Run {
        index: number * 8,
        gfn,
        pages: PAGES,
        ..Run::default()
    }
}

/// Gets the runs with these numbers and frames.
fn get(
    (host, session): (&heap::Host<Flash>, &heap::Session<Flash>),
    runs: &[(u64, u64, Frames)],
    retained: Option<usize>,
) -> (Found, Guest) {
    let mut frames = [Frames::Untold; MAX_RUNS];
    for (state, (.., frames)) in frames.iter_mut().zip(runs) {
        *state = *frames;
    }
    let placed = runs.iter().enumerate();
    let placed = placed.map(|(at, (number, gfn, _))| (run(*number, *gfn), at * usize::from(PAGES)));
    let mut guest = Guest {
        allowance: retained.unwrap_or(0),
        ..Guest::default()
    };
    let mut carried = Carried::new();
    let states = (&mut frames, retained.is_some());
    let found = load((host, session), placed, states, &mut carried, &mut guest);
    assert!(carried.pages.iter().all(Option::is_none));
    (found, guest)
}

/// The guest has removed the pages of the runs from its presence map, except of those of which it
/// is not told anything, or that it repeats.
#[test]
fn the_state_of_the_frames_decides_what_happens_to_a_run() {
    let (host, vm) = host(4);
    let session = &vm.session;
    let states = [
        (Frames::Ready, 0, "given", 0),
        (Frames::Ready, FAULTS, "missed", 0),
        (Frames::Tracked, 0, "refused", 0),
        (Frames::Absent, 0, "refused", 0),
        (Frames::Reading, 0, "deferred", 1),
        (Frames::Untold, 0, "refused", 1),
    ];
    for (frames, gfn, outcome, left) in states {
        put(session, run(0, 0), false);
        let (found, guest) = get((&host, session), &[(0, gfn, frames)], None);
        assert_eq!(guest.outcomes, [(false, outcome)], "{frames:?}");
        let is_taken = frames == Frames::Ready;
        assert_eq!(found.taken.memory > 0, is_taken, "{frames:?}");
        assert!(!found.is_on_ssd && guest.fetched == 0);
        assert_eq!(session.used(), left * u64::from(PAGES), "{frames:?}");
        assert_eq!(host.tier.used(), session.used(), "{frames:?}");
    }
}

/// Pages of the SSD tier are read once for the whole get, before any run is written.
#[test]
fn pages_of_the_ssd_tier_are_read_before_they_are_written() {
    let (host, vm) = host(4);
    let session = &vm.session;
    put(session, run(0, 0), false);
    (1..3).for_each(|number| put(session, run(number, 0), true));
    let runs = [0, 1, 2, 3].map(|number| (number, 0, Frames::Ready));
    let (found, guest) = get((&host, session), &runs, None);
    let [given, missed] = [(false, "given"), (false, "missed")];
    assert_eq!(guest.outcomes, [given, given, given, missed]);
    assert_eq!((guest.fetched, found.is_on_ssd), (1, true));
    assert_eq!((found.taken.memory, found.taken.ssd), (2, 4));
    assert!(session.is_empty());
    assert_eq!(session.own.borrow().live(), 0);
}

/// A run that stays leaves the index if it could not be written.
#[test]
fn runs_of_the_ssd_tier_stay_while_the_guest_has_an_allowance() {
    let (host, vm) = host(4);
    let session = &vm.session;
    (0..4).for_each(|number| put(session, run(number, 0), number < 3));
    let runs = [(0, 0), (1, FAULTS), (2, 0), (3, 0)];
    let runs = runs.map(|(number, gfn)| (number, gfn, Frames::Ready));
    let (found, guest) = get((&host, session), &runs, Some(2));
    let given = (false, "given");
    let expected = [(true, "given"), (false, "missed"), given, given];
    assert_eq!((&guest.outcomes[..], guest.allowance), (&expected[..], 0));
    assert_eq!(guest.fetched, 1);
    assert_eq!((found.taken.memory, found.taken.ssd), (2, 2));
    assert_eq!((session.state().ssd(), session.used()), (2, 0));
    assert_eq!(session.own.borrow().live(), 2);
    // Without pages to be taken, those that stay are read as well.
    let (found, guest) = get((&host, session), &runs[..1], Some(9));
    assert_eq!(guest.outcomes, [(true, "given")]);
    assert_eq!((found.taken.total(), found.is_on_ssd), (0, true));
    assert_eq!((guest.fetched, guest.written), (1, 2));
    // The guest does not remember pages that stay.
    let (_, guest) = get((&host, session), &runs[..1], None);
    assert_eq!(guest.outcomes, [given]);
    assert!(session.is_empty());
}
