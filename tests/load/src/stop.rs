// SPDX-License-Identifier: GPL-2.0-only

//! The end of a run, for threads that wait.

use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A flag for which threads can wait.
#[derive(Debug)]
pub(crate) struct Stop {
    /// Read before every request, and therefore outside of the lock.
    flag: AtomicBool,
    lock: Mutex<()>,
    raised: Condvar,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self {
            flag: AtomicBool::new(false),
            lock: Mutex::new(()),
            raised: Condvar::new(),
        }
    }

    /// Stops all threads.
    pub(crate) fn now(&self) {
        let held = self.lock.lock().expect("no thread panics with this lock");
        self.flag.store(true, Ordering::Relaxed);
        drop(held);
        self.raised.notify_all();
    }

    /// Waits. Returns `true` early if the run was stopped.
    pub(crate) fn within(&self, wait: Duration) -> bool {
        if wait.is_zero() {
            return self.flag.load(Ordering::Relaxed);
        }
        let held = self.lock.lock().expect("no thread panics with this lock");
        let running = |(): &mut ()| !self.flag.load(Ordering::Relaxed);
        let waited = self.raised.wait_timeout_while(held, wait, running);
        drop(waited);
        self.flag.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_early() {
        let stop = Stop::new();
        assert!(!stop.within(Duration::from_millis(1)));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| stop.within(Duration::from_secs(600)));
            stop.now();
            assert!(waiter.join().unwrap());
        });
    }
}
