// SPDX-License-Identifier: GPL-2.0-only

//! Frees pages of ended sessions in the background, so that no vCPU waits for that.
//!
//! Until they are freed, the pages count as used. Therefore a guest cannot occupy more memory than
//! the tier has by registering repeatedly, and [`Teardowns`] bounds the memory of its ended
//! sessions.

use crate::ffi::queue;
use crate::memory::gfp_nowarn;
use crate::vm::session::Session;
use ddcore::host::walk::{drain, shards_of_task};
use ddcore::host::Session as _;
use kernel::alloc::AllocError;
use kernel::prelude::*;
use kernel::sync::atomic::{ordering::Relaxed, Atomic};
use kernel::sync::Arc;

/// Number of pages that are freed synchronously, which takes less than a millisecond.
pub(super) const FEW: u64 = 2048;

/// Number of tasks that free the pages of a session in parallel.
const TASKS: usize = 4;

/// Maximum number of ended sessions of a VM whose pages are freed in the background. The pages of
/// further sessions are freed by the vCPU that ends them.
const MAX_SESSIONS: u32 = 2;

/// Number of ended sessions of a VM whose pages are being freed in the background.
pub(crate) struct Teardowns(Atomic<u32>);

impl Teardowns {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self(Atomic::new(0)), gfp_nowarn())?)
    }

    /// Frees all pages of a session that has ended.
    pub(crate) fn add(this: &Arc<Self>, session: &Arc<Session>) {
        let pages = session.used() + session.state().ssd();
        let teardown = match pages > FEW && this.0.load(Relaxed) < MAX_SESSIONS {
            true => Teardown::new(this, session).ok(),
            false => None,
        };
        for task in 0..TASKS {
            let shards = shards_of_task(task, TASKS, session.shards.len());
            let spawned = teardown.as_ref().is_some_and(|one| {
                let (one, shards) = (one.clone(), shards.clone());
                queue::spawn(gfp_nowarn(), move || _ = drain(&*one.session, shards))
            });
            if !spawned {
                drain(&**session, shards);
            }
        }
    }
}

/// An ended session whose pages are being freed. It counts as a teardown until the last task drops
/// it.
struct Teardown {
    teardowns: Arc<Teardowns>,
    session: Arc<Session>,
}

impl Teardown {
    fn new(teardowns: &Arc<Teardowns>, session: &Arc<Session>) -> Result<Arc<Self>, AllocError> {
        teardowns.0.add(1, Relaxed);
        let this = Self {
            teardowns: teardowns.clone(),
            session: session.clone(),
        };
        Arc::new(this, gfp_nowarn())
    }
}

impl Drop for Teardown {
    fn drop(&mut self) {
        self.teardowns.0.fetch_sub(1, Relaxed);
    }
}
