// SPDX-License-Identifier: GPL-2.0-only

//! Jobs that take as long as the kernel needs to reclaim, which run beside the daemon's loop.

use crate::{
    cgroup_writer::CgroupWriter,
    engine::{Failure, Job},
};
use std::{future::pending, path::Path, sync::Arc, time::Duration};
use tokio::{
    task::{JoinSet, spawn_blocking},
    time::{sleep, timeout},
};
use tracing::warn;

/// A job that has ended, and its result.
type Ended = (Job, Result<u64, Failure>);

/// The running jobs.
pub(super) struct Jobs {
    writer: Arc<CgroupWriter>,
    running: JoinSet<Ended>,
    /// The task that tries again to restore limits.
    late: JoinSet<()>,
}

/// The first and the longest pause before limits that could not be restored are tried again.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// The longest time that the daemon waits at its end for running jobs.
const PATIENCE: Duration = Duration::from_secs(5);

impl Jobs {
    pub(super) fn new(writer: CgroupWriter) -> Self {
        Self {
            writer: Arc::new(writer),
            running: JoinSet::new(),
            late: JoinSet::new(),
        }
    }

    pub(super) fn begin(&mut self, job: Job) {
        let writer = Arc::clone(&self.writer);
        self.running.spawn_blocking(move || {
            let result = writer.perform(&job);
            (job, result)
        });
    }

    /// Waits for the end of the next job. No result is lost if the future is dropped.
    pub(super) async fn ended(&mut self) -> Ended {
        loop {
            match self.running.join_next().await {
                Some(Ok(ended)) => return ended,
                Some(Err(error)) => warn!("a job failed: {error}"),
                None => pending().await,
            }
        }
    }

    /// Restores all limits.
    pub(super) async fn undo(&mut self) {
        let all = async { while self.running.join_next().await.is_some() {} };
        if timeout(PATIENCE, all).await.is_err() {
            warn!("the kernel is still reclaiming; limits are restored anyway");
        }
        let writer = Arc::clone(&self.writer);
        let undone = spawn_blocking(move || writer.restore());
        if timeout(PATIENCE, undone).await.is_err() {
            warn!("limits are not restored yet; run `policyd restore`");
        }
    }

    /// Changes the cgroup root.
    pub(super) async fn move_to(&mut self, root: &Path) {
        self.writer.retire();
        self.undo().await;
        self.writer = Arc::new(self.writer.at(root));
        self.undo_late();
    }

    /// Starts a task that tries again to restore limits until all are restored.
    pub(super) fn undo_late(&mut self) {
        let writer = Arc::clone(&self.writer);
        let [mut pause, longest] = AGAIN;
        self.late.abort_all();
        self.late.spawn(async move {
            loop {
                sleep(pause).await;
                let writer = Arc::clone(&writer);
                if let Ok(true) = spawn_blocking(move || writer.restore_owed()).await {
                    return;
                }
                pause = (pause * 2).min(longest);
            }
        });
    }
}
