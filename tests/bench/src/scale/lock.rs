// SPDX-License-Identifier: GPL-2.0-only

//! Locks that measure how long they are held.

use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use cpu_time::ThreadTime;
use ddcore::host::heap;
use serde::Serialize;

/// Whether holders are timed, which takes longer than most of them hold a lock.
static WATCHING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread holds a lock that is timed.
    static NESTED: Cell<bool> = const { Cell::new(false) };
}

/// The longest time for which a lock was held while holders were timed.
static LONGEST: Mutex<Hold> = Mutex::new(Hold {
    ns: 0,
    lock: "none",
});

/// The time for which a lock was held.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Hold {
    /// Nanoseconds of processor time, so that other programs of the machine do not count.
    pub(super) ns: u64,
    /// The data that the lock protects.
    pub(super) lock: &'static str,
}

/// Runs `work`. Returns the longest time for which it held a lock.
pub(super) fn longest(work: impl FnOnce()) -> Hold {
    let longest = || LONGEST.lock().expect("no thread panics");
    longest().ns = 0;
    WATCHING.store(true, Relaxed);
    work();
    WATCHING.store(false, Relaxed);
    *longest()
}

/// Returns the name of what a lock protects, from the name of its type.
fn name<T>() -> &'static str {
    let path = std::any::type_name::<T>();
    let path = path.split('<').find(|part| !part.ends_with("Vec"));
    let name = path.and_then(|path| path.rsplit("::").next());
    name.map_or("lock", |name| name.trim_end_matches('>'))
}

/// A lock of the host.
pub(super) struct Watched<T>(Mutex<T>);

impl<T> heap::Lock<T> for Watched<T> {
    fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    #[inline]
    fn lock(&self) -> impl DerefMut<Target = T> {
        Holder::new(self.0.lock().expect("no thread panics"))
    }

    fn try_lock(&self) -> Option<impl DerefMut<Target = T>> {
        self.0.try_lock().ok().map(Holder::new)
    }

    fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect("no thread panics")
    }
}

/// Holds a lock.
struct Holder<'a, T> {
    guard: MutexGuard<'a, T>,
    since: Option<ThreadTime>,
}

impl<'a, T> Holder<'a, T> {
    #[inline]
    fn new(guard: MutexGuard<'a, T>) -> Self {
        // Timing a lock takes longer than holding it. A lock that is taken under another is
        // therefore not timed; otherwise the outer one would seem to be held longer than it is.
        let is_timed = WATCHING.load(Relaxed) && !NESTED.replace(true);
        let since = is_timed.then(ThreadTime::now);
        Self { guard, since }
    }
}

impl<T> Drop for Holder<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(since) = self.since {
            let ns = since.elapsed().as_nanos() as u64;
            NESTED.set(false);
            let mut longest = LONGEST.lock().expect("no thread panics");
            if longest.ns < ns {
                *longest = Hold {
                    ns,
                    lock: name::<T>(),
                };
            }
        }
    }
}

impl<T> Deref for Holder<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Holder<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
