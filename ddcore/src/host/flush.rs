// SPDX-License-Identifier: GPL-2.0-only

//! Flushes of page ranges that a guest no longer needs.

use super::run::discard;
use super::session::Session;
use super::steps::{in_steps, Effort, Part, Work};
use super::walk::STEP;
use crate::index::{Batch, Reason};
use crate::request::Range;
use ddabi::key::{FileKey, MAX_INDEX};
use ddabi::request::{Run, MAX_PAGES};

/// Frees the pages of a range, until `effort` is used up.
pub fn flush<S: Session>(
    session: &S,
    range: &Range,
    batch: &mut Batch,
    effort: &mut Effort,
) -> Part {
    if session.is_empty() {
        // Pages that are put later must not be skipped by a flush of the same range.
        session.with_unfinished(|unfinished| unfinished.forget_flush());
        return Part {
            pages: 0,
            done: true,
        };
    }
    if !effort.is_left() {
        return Part::default();
    }
    match *range {
        Range::Pages { file, first, last } if last - first < u64::from(MAX_PAGES) => {
            // A few pages are looked up one by one.
            let run = Run {
                file,
                index: first,
                pages: (last - first + 1) as u16,
                ..Run::default()
            };
            effort.spend(run.pages.into());
            Part {
                pages: discard(session, batch, &run) as u64,
                done: true,
            }
        }
        Range::Pages { file, first, last } => {
            flush_file(session, range, effort, (&file, (first, last)))
        }
        Range::File(file) => flush_file(session, range, effort, (&file, (0, MAX_INDEX))),
        Range::Filesystem(filesystem) => {
            flush_where(session, range, effort, |file| file.filesystem == filesystem)
        }
        Range::All => flush_where(session, range, effort, |_| true),
    }
}

fn flush_file<S: Session>(
    session: &S,
    range: &Range,
    effort: &mut Effort,
    (file, pages): (&FileKey, (u64, u64)),
) -> Part {
    in_steps(
        session,
        Work::Flush(*range),
        effort,
        |index, cursor, bin| {
            let sink = |removed| bin.add(session, removed);
            index.remove_range(file, pages, cursor, STEP, sink)
        },
    )
}

fn flush_where<S: Session>(
    session: &S,
    range: &Range,
    effort: &mut Effort,
    condemned: impl Fn(&FileKey) -> bool,
) -> Part {
    in_steps(
        session,
        Work::Flush(*range),
        effort,
        |index, cursor, bin| {
            let sink = |removed| bin.add(session, removed);
            index.sweep(cursor, STEP, Reason::Flush, &condemned, sink)
        },
    )
}
