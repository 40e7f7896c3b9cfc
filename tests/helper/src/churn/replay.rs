// SPDX-License-Identifier: GPL-2.0-only

//! The verdict about a guest's reads.

use std::{collections::HashMap, fmt};

use super::{Model, Plan, ReadResult, Script, Step, digests, fill};

/// A page with wrong content.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WrongPage {
    /// Number of the step that read it.
    pub at: u32,
    /// The step that read it.
    pub step: Step,
    /// The page; `None` if the length of the file or its existence was wrong.
    pub page: Option<usize>,
    /// The last step that wrote this content there; `None` if no step did.
    pub since: Option<u32>,
}

impl fmt::Display for WrongPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {} ({:?}): ", self.at, self.step)?;
        match (self.page, self.since) {
            (None, _) => f.write_str("another length"),
            (Some(page), None) => write!(f, "page {page} has content that no step wrote"),
            (Some(page), Some(since)) => {
                write!(f, "page {page} has the content that step {since} wrote")
            }
        }
    }
}

/// Executes the steps of a plan on bytes and compares them with the guest's reads.
#[derive(Debug)]
pub struct Replay {
    plan: Plan,
    /// Number of compared pages.
    pub pages: u64,
    /// Pages that were wrong.
    pub wrong: Vec<WrongPage>,
}

impl Replay {
    /// Judges a complete report: the result of each read of the plan, in order.
    ///
    /// # Errors
    ///
    /// Fails if the report is not one of this plan.
    pub fn judge(plan: Plan, report: &[ReadResult]) -> Result<Self, String> {
        let mut replay = Self {
            plan,
            pages: 0,
            wrong: Vec::new(),
        };
        let mut model = Model::new(&plan);
        let mut report = report.iter();
        for (at, step) in (0..).zip(Script::new(plan)) {
            model.apply(&step);
            let Some(expected) = expected(&model, &step) else {
                continue;
            };
            let seen = report
                .next()
                .filter(|seen| seen.step == at)
                .ok_or_else(|| format!("step {at} ({step:?}) is not in the report"))?;
            replay.compare(at, step, expected.as_deref(), seen)?;
        }
        if let Some(more) = report.next() {
            return Err(format!("there is no step {}", more.step));
        }
        replay.explain();
        Ok(replay)
    }

    fn compare(
        &mut self,
        at: u32,
        step: Step,
        expected: Option<&[u8]>,
        seen: &ReadResult,
    ) -> Result<(), String> {
        let theirs = seen
            .digests()
            .ok_or_else(|| format!("the digests of step {at} are malformed"))?;
        let mut wrong = |page, digest: Option<u32>| {
            self.wrong.push(WrongPage {
                at,
                step,
                page,
                // The digest, which explain() replaces by a step.
                since: digest,
            });
        };
        if seen.len != expected.map(|content| content.len() as u64) {
            wrong(None, None);
            return Ok(());
        }
        for (page, (ours, theirs)) in digests(expected.unwrap_or_default())
            .zip(&theirs)
            .enumerate()
        {
            if ours != *theirs {
                wrong(Some(page), Some(*theirs));
            }
        }
        self.pages += theirs.len() as u64;
        Ok(())
    }

    /// Determines since when each wrong page was outdated: replaces its digest by the last step
    /// that wrote the same content there.
    fn explain(&mut self) {
        if self.wrong.is_empty() {
            return;
        }
        let mut last: HashMap<(usize, u32), u32> = HashMap::new();
        let mut wrong = self.wrong.iter_mut().peekable();
        let mut model = Model::new(&self.plan);
        let mut pages = vec![Vec::new(); self.plan.files as usize];
        for (at, step) in (0..).zip(Script::new(self.plan)) {
            while let Some(wrong) = wrong.next_if(|wrong| wrong.at == at) {
                let place = wrong.page.zip(wrong.since);
                wrong.since = place.and_then(|place| last.get(&place).copied());
            }
            model.apply(&step);
            for file in step.changed().into_iter().flatten() {
                let new = digests(model.file(file).unwrap_or_default()).collect();
                let old = std::mem::replace(&mut pages[file as usize], new);
                for (page, digest) in pages[file as usize].iter().enumerate() {
                    if old.get(page) != Some(digest) {
                        last.insert((page, *digest), at);
                    }
                }
            }
        }
    }
}

/// Returns the expected result of a step, if it reads.
fn expected(model: &Model, step: &Step) -> Option<Option<Vec<u8>>> {
    match *step {
        Step::Read { file, .. } => Some(model.file(file).map(<[u8]>::to_vec)),
        Step::Orphan { len, seed } => {
            let mut content = vec![0; usize::try_from(len).ok()?];
            fill(seed, 0, &mut content);
            Some(Some(content))
        }
        _ => None,
    }
}
