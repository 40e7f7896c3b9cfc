// SPDX-License-Identifier: GPL-2.0-only

//! Signs of life, which end a test without deadlines by the clock.
//!
//! The machine that runs the tests is shared and may be slow, so that a test does not fail for
//! being slow. It fails if a machine makes no progress for longer than its [`Patience`]:
//!
//! - nothing changes: there is no console output, no heartbeat of its agent, and no processor time
//!   of its VMM (L1's is measured here, a guest's by L1's agent);
//! - the VMM uses processor time without a heartbeat: the machine spins where its agent cannot run;
//! - its kernel reports an oops, a lockup or a stall on the console;
//! - its process ends;
//! - a single request takes longer than its limit, which is generous.

mod problem;
mod progress;
mod watch;

use std::{
    collections::HashMap,
    fmt, fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{LazyLock, Mutex, MutexGuard, Weak},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use ddagent::protocol::Exit;
use regex::Regex;

pub use self::progress::Patience;
use self::{problem::Problem, progress::Progress, watch::Watch};
use crate::console;

/// Messages of a kernel after which waiting for it is pointless.
static FATAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        "Kernel panic|Oops: |kernel BUG at|KVM internal error|soft lockup|blocked for more than|detected stalls|self-detected stall",
    )
    .expect("this is valid")
});
/// Number of lines of a console in an error.
const EXCERPT: usize = 50;

/// The process of L1.
pub(crate) trait Emulator: fmt::Debug + Send + Sync {
    /// Returns the processor time used so far.
    fn work(&self) -> Duration;
    /// Returns how it ended, or `None` while it runs.
    fn end(&self) -> Option<String>;
}

/// Signs of life of all machines of a lab. Machines are identified by the name of their VM, L1 by
/// `None`.
#[derive(Debug)]
pub(crate) struct Vitals {
    /// Factor for all patience: how much slower the machines' kernel is.
    pub(crate) pace: u32,
    /// Directory of the console logs.
    dir: PathBuf,
    /// The reference is weak, so that the process ends when the lab drops it, however many threads
    /// still wait for its machines.
    emulator: Weak<dyn Emulator>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    patience: Patience,
    signs: HashMap<Option<String>, Signs>,
    watch: Watch,
}

/// Signs of life of one machine.
#[derive(Clone, Debug)]
struct Signs {
    progress: Progress,
    /// Length of its console at its start. The content before belongs to a predecessor.
    born: usize,
    /// Length of the part of its console that was judged already.
    judged: usize,
    exit: Option<Exit>,
}

impl Vitals {
    pub(crate) fn new(dir: &Path, emulator: Weak<dyn Emulator>, pace: u32) -> Self {
        let vitals = Self {
            pace,
            dir: dir.to_owned(),
            emulator,
            state: Mutex::new(State {
                patience: Patience::default(),
                signs: HashMap::new(),
                watch: Watch::new(Instant::now()),
            }),
        };
        vitals.born(None);
        vitals
    }

    pub(crate) fn set_patience(&self, patience: Patience) {
        self.state().patience = patience;
    }

    /// Returns the path of a machine's console log.
    pub(crate) fn console_path(&self, vm: Option<&str>) -> PathBuf {
        self.dir.join(match vm {
            None => "l1.console.log".to_owned(),
            Some(name) => format!("l2-{name}.console.log"),
        })
    }

    /// Records that a machine begins to boot. The existing content of its console belongs to a
    /// predecessor.
    pub(crate) fn born(&self, vm: Option<&str>) {
        let len = fs::metadata(self.console_path(vm)).map_or(0, |file| file.len());
        let mut state = self.state();
        let now = state.watch.look(Instant::now());
        let vm = vm.map(str::to_owned);
        let judged = state.signs.get(&vm).map_or(0, |sign| sign.judged);
        let sign = Signs {
            progress: Progress::new(now, len, Duration::ZERO),
            born: usize::try_from(len).unwrap_or(usize::MAX),
            judged,
            exit: None,
        };
        state.signs.insert(vm, sign);
    }

    /// Records a heartbeat of an agent.
    pub(crate) fn heartbeat(&self, vm: Option<&str>) {
        let work = self.work_of(vm);
        self.with(vm, |sign, now| {
            if let Some(work) = work {
                sign.progress.work(now, work);
            }
            sign.progress.beat(now);
        });
    }

    /// Returns the processor time of a machine if it is known here, which is L1's.
    fn work_of(&self, vm: Option<&str>) -> Option<Duration> {
        let emulator = self.emulator.upgrade().filter(|_| vm.is_none())?;
        Some(emulator.work())
    }

    /// Records the processor time of a VM's VMM, as reported by L1.
    pub(crate) fn work(&self, vm: &str, spent: Duration) {
        self.with(Some(vm), |sign, now| sign.progress.work(now, spent));
    }

    /// Records console output of a VM.
    pub(crate) fn console(&self, vm: &str, data: &[u8]) {
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.console_path(Some(vm)));
        // A full disk must not end the reader thread; the verdict is then based on less output.
        let _ = file.and_then(|mut file| file.write_all(data));
    }

    /// Returns how many times a text was on the console of L1, or of VMs of this name.
    pub(crate) fn count(&self, vm: Option<&str>, text: &str) -> usize {
        read_lossy(&self.console_path(vm)).matches(text).count()
    }

    /// Records the end of a VM's process.
    pub(crate) fn exited(&self, vm: &str, exit: Exit) {
        self.with(Some(vm), |sign, _| sign.exit = Some(exit));
    }

    /// Returns whether a VM is known to have ended. Its last messages are in its log then, and
    /// another one of its name may start.
    pub(crate) fn has_ended(&self, vm: &str) -> bool {
        let ended = self.with(Some(vm), |sign, _| sign.exit.is_some());
        ended.unwrap_or(true)
    }

    /// Fails if waiting for `vm` is pointless, with the end of its console.
    pub(crate) fn check(&self, vm: Option<&str>) -> Result<()> {
        self.check_one(None)?;
        match vm {
            Some(_) => self.check_one(vm),
            None => Ok(()),
        }
    }

    fn check_one(&self, vm: Option<&str>) -> Result<()> {
        let path = self.console_path(vm);
        let log = read_lossy(&path);
        let Some(problem) = self.problem(vm, &log) else {
            return Ok(());
        };
        let name = vm.map_or_else(|| "L1".to_owned(), |name| format!("guest {name}"));
        let (place, excerpt) = match &problem {
            Problem::Unwell { at, .. } => ("from", console::from(&log, *at, EXCERPT)),
            _ => ("the end of", console::tail(&log, EXCERPT)),
        };
        bail!("{name} {problem}\n{place} {}:\n{excerpt}", path.display());
    }

    fn problem(&self, vm: Option<&str>, log: &str) -> Option<Problem> {
        let work = self.work_of(vm);
        let patience = self.state().patience.times(self.pace);
        let (sign, now) = self.with(vm, |sign, now| {
            sign.progress.console(now, log.len() as u64);
            if let Some(work) = work {
                sign.progress.work(now, work);
            }
            (sign.clone(), now)
        })?;
        let seen = sign.judged.max(sign.born);
        if let Some(found) = FATAL.find(log.get(seen..).unwrap_or_default()) {
            return Some(Problem::Unwell {
                what: found.as_str().to_owned(),
                at: seen + found.start(),
            });
        }
        let end = match vm {
            None => match self.emulator.upgrade() {
                Some(emulator) => emulator.end().map(|how| self.with_last_words(how)),
                None => Some("the lab is gone".to_owned()),
            },
            Some(_) => sign.exit.map(|exit| exit.to_string()),
        };
        match end {
            Some(how) => Some(Problem::Ended(how)),
            None => sign.progress.stuck(now, patience).map(Problem::Stall),
        }
    }

    /// Adds the emulator's last output to the reason of its end, if there is any.
    fn with_last_words(&self, end: String) -> String {
        let log = read_lossy(&self.dir.join("l1.emulator.log"));
        match console::tail(&log, EXCERPT).trim() {
            "" => end,
            words => format!("{end}: {words}"),
        }
    }

    /// Returns the bad lines in the consoles since the last call, each with the name of its log.
    pub(crate) fn judge(&self, allowed: &[Regex]) -> Vec<String> {
        let machines: Vec<Option<String>> = self.state().signs.keys().cloned().collect();
        let mut found = Vec::new();
        for vm in machines {
            let log = read_lossy(&self.console_path(vm.as_deref()));
            let since = self.with(vm.as_deref(), |sign, _| {
                std::mem::replace(&mut sign.judged, log.len())
            });
            let fresh = log.get(since.unwrap_or(0)..).unwrap_or_default();
            let name = vm.as_deref().unwrap_or("L1");
            found.extend(
                console::complaints(fresh, allowed)
                    .into_iter()
                    .map(|line| format!("{name}: {line}")),
            );
        }
        found
    }

    fn with<T>(
        &self,
        vm: Option<&str>,
        change: impl FnOnce(&mut Signs, Duration) -> T,
    ) -> Option<T> {
        let mut state = self.state();
        let now = state.watch.look(Instant::now());
        let sign = state.signs.get_mut(&vm.map(str::to_owned))?;
        Some(change(sign, now))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with this lock")
    }
}

/// Reads a log as text. Kernels write ASCII; each other byte becomes one `?`, so that offsets
/// remain those of the file.
fn read_lossy(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    bytes
        .into_iter()
        .map(|byte| {
            if byte.is_ascii() {
                char::from(byte)
            } else {
                '?'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
