// SPDX-License-Identifier: GPL-2.0-only

//! Random operations on a map with very few slots. The map is compared with the model after each
//! operation.

use crate::model::{invalid, run, Model};
use crate::ops::{ops, Op, Walk};
use crate::segments::{map, Map};
use ddabi::key::FileKey;
use ddcore::presence::State::{Absent, Leaving, Present};
use ddcore::presence::{Claim, Cursor, CHUNK_PAGES};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Pages that must not be present after a walk has ended.
type Doomed = BTreeSet<(FileKey, u64)>;

/// The map, its model, the puts in flight, and a walk.
struct Pair {
    map: Map,
    model: Model,
    puts: Vec<(FileKey, u64, u32)>,
    walk: Option<(Walk, Cursor, Doomed)>,
}

impl Pair {
    fn apply(&mut self, op: Op) {
        let Self {
            map,
            model,
            puts,
            walk,
        } = self;
        match op {
            Op::Put(file, index, pages) => {
                let begun = map.begin_put(&file, index, pages);
                assert_eq!(begun, model.begin_put(file, index, pages));
                if begun.is_ok() {
                    puts.push((file, index, pages));
                    if let Some((_, _, doomed)) = walk {
                        doomed
                            .retain(|(f, i)| *f != file || !run(index, pages).any(|put| put == *i));
                    }
                }
            }
            Op::Finish { put, split, stored } if !puts.is_empty() => {
                let (file, index, pages) = puts.swap_remove(put % puts.len());
                let split = split.min(pages);
                let parts = [(index, split), (index + u64::from(split), pages - split)];
                for ((index, pages), stored) in parts.into_iter().zip(stored) {
                    let before = model.pages.len() as u64;
                    let finished = map.finish_put(&file, index, pages, stored);
                    model.finish_put(file, index, pages, stored);
                    let gone = before - model.pages.len() as u64;
                    assert!(finished.present + finished.cancelled <= u64::from(pages));
                    assert!(finished.cancelled == gone || !stored && finished.present == 0);
                }
            }
            Op::Finish { .. } => {}
            Op::Stray(file, index) => {
                if matches!(model.get(model.known(file), index), Absent | Present) {
                    map.finish_put(&file, index, 1, index % 2 == 0);
                }
            }
            Op::Invalidate(file, first, last) => {
                let cleared = map.invalidate(&file, first, last);
                assert_eq!(cleared, model.invalidate(file, first, last));
            }
            Op::Forget(file) => {
                assert_eq!(map.forget_file(&file), model.invalidate(file, 0, u64::MAX));
            }
            Op::Claim(file, index, pages) => {
                let all = pages > 0 && map.peek(&file, index, pages);
                model.renew(file);
                let present = model.notice(file, index, pages);
                let expected = if all {
                    Claim::Ask
                } else {
                    Claim::Miss { present }
                };
                assert_eq!(map.claim(&file, index, pages), expected);
                assert!(!all || present == u64::from(pages));
            }
            Op::ClaimRetained(file, index, pages) => {
                let all = pages > 0 && map.peek(&file, index, pages);
                model.renew(file);
                let claim = map.claim_retained(&file, index, pages);
                if all {
                    assert_eq!(claim, Claim::Ask);
                    run(index, pages).for_each(|index| model.set(file, index, Leaving));
                    puts.push((file, index, pages));
                } else {
                    let present = model.notice(file, index, pages);
                    assert_eq!(claim, Claim::Miss { present });
                }
            }
            Op::Notice(file, index, pages) => {
                assert_eq!(
                    map.notice(&file, index, pages),
                    model.notice(file, index, pages)
                );
            }
            Op::Lookup(file, index, pages) => {
                let run = model.present_run(file, index, pages);
                assert_eq!(map.present_run(&file, index, u64::from(pages)), run);
                assert_eq!(
                    map.peek(&file, index, pages),
                    pages > 0 && run == u64::from(pages)
                );
            }
            Op::Reclaim(max_chunks) => {
                let mut pages = 0;
                let mut chunks = 0;
                let reclaimed = map.reclaim(max_chunks, |file, first, last| {
                    assert_eq!((first % CHUNK_PAGES, last - first), (0, CHUNK_PAGES - 1));
                    let held = model.pages.len();
                    let cleared = model.invalidate(file, first, last);
                    assert!(cleared > 0 && held as u64 - cleared == model.pages.len() as u64);
                    pages += cleared;
                    chunks += 1;
                });
                assert_eq!((reclaimed.chunks, reclaimed.pages), (chunks, pages));
                assert!(chunks <= max_chunks);
                model.dropped += pages;
            }
            Op::Grow { files, adopt } => {
                if files {
                    map.file_slots_mut().grow();
                } else {
                    map.chunk_slots_mut().grow();
                }
                map.adopt(adopt);
                model.file_slots = map.counters().file_slots as usize;
                model.chunk_slots = map.counters().chunk_slots as usize;
            }
            Op::Begin(new) => {
                let counts = |state| matches!(state, Present | Leaving);
                let pages = model.pages.iter();
                let doomed = pages.filter(|((f, i), state)| new.covers(*f, *i) && counts(**state));
                let doomed = doomed.map(|(page, _)| *page).collect();
                *walk = Some((new, Cursor::default(), doomed));
            }
            Op::Step(max_steps) => self.step(max_steps),
        }
    }

    /// Continues the walk. If the result of the map is allowed, the model adopts it.
    fn step(&mut self, max_steps: u32) {
        let Some((walk, mut cursor, doomed)) = self.walk.take() else {
            return;
        };
        let mut cleared = match walk {
            Walk::Range(file, _, _) => self.model.renew(file),
            Walk::Filesystem(_) | Walk::All => 0,
        };
        let map = &mut self.map;
        let step = match walk {
            Walk::Range(f, first, last) => {
                map.invalidate_step(&f, first, last, &mut cursor, max_steps)
            }
            Walk::Filesystem(filesystem) => {
                map.forget_filesystems(|one| one == filesystem, &mut cursor, max_steps)
            }
            Walk::All => map.clear(&mut cursor, max_steps),
        };
        for ((file, index), old) in self.model.pages.clone() {
            let new = map.state(&file, index);
            if new != old {
                assert!(walk.covers(file, index) && new == invalid(old));
                cleared += u64::from(old == Present);
                self.model.set(file, index, new);
            }
        }
        assert_eq!(step.cleared, cleared);
        if !step.done {
            self.walk = Some((walk, cursor, doomed));
            return;
        }
        for (file, index) in doomed {
            assert!(!matches!(self.model.get(file, index), Present | Leaving));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_the_model(
        seed in any::<u64>(),
        slots in (0..3_u32, 0..5_u32),
        ops in prop::collection::vec(ops(), 1..150),
    ) {
        let model = Model {
            file_slots: slots.0 as usize * 4,
            chunk_slots: slots.1 as usize * 4,
            ..Model::default()
        };
        let map = map(slots.0, slots.1, seed);
        let mut pair = Pair { map, model, puts: Vec::new(), walk: None };
        for op in ops {
            pair.apply(op);
            pair.model.compare(&pair.map);
        }
    }
}
