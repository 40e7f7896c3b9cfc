// SPDX-License-Identifier: GPL-2.0

//! Jobs that take as long as the kernel reclaims, beside the daemon's loop.

use crate::{
    engine::{Failure, Job},
    hands::Hands,
};
use std::{future::pending, path::Path, sync::Arc, time::Duration};
use tokio::{task::JoinSet, time::timeout};
use tracing::warn;

/// How they go.
type Ended = (Job, Result<u64, Failure>);

/// Jobs under way.
pub(super) struct Jobs {
    hands: Arc<Hands>,
    running: JoinSet<Ended>,
}

/// How long the end waits for the kernel.
const PATIENCE: Duration = Duration::from_secs(5);

impl Jobs {
    pub(super) fn new(hands: Hands) -> Self {
        Self {
            hands: Arc::new(hands),
            running: JoinSet::new(),
        }
    }

    pub(super) fn begin(&mut self, job: Job) {
        let hands = Arc::clone(&self.hands);
        self.running.spawn_blocking(move || {
            let result = hands.perform(&job);
            (job, result)
        });
    }

    /// Waits for the next one to end. Nothing is lost if the future is dropped.
    pub(super) async fn ended(&mut self) -> Ended {
        loop {
            match self.running.join_next().await {
                Some(Ok(ended)) => return ended,
                Some(Err(error)) => warn!("a job failed: {error}"),
                None => pending().await,
            }
        }
    }

    /// Puts back everything that was changed.
    pub(super) async fn undo(&mut self) {
        let all = async { while self.running.join_next().await.is_some() {} };
        if timeout(PATIENCE, all).await.is_err() {
            warn!("the kernel still reclaims; limits are put back meanwhile");
        }
        let hands = Arc::clone(&self.hands);
        let undone = tokio::task::spawn_blocking(move || hands.restore());
        if timeout(PATIENCE, undone).await.is_err() {
            warn!("limits are not put back yet; `policyd restore` does it");
        }
    }

    /// Works below another root from now on.
    pub(super) async fn move_to(&mut self, root: &Path) {
        self.undo().await;
        self.hands = Arc::new(self.hands.at(root));
    }
}
