// SPDX-License-Identifier: GPL-2.0

//! Signs of life: how a harness without wall-clock deadlines still ends.
//!
//! The machine under the tests is shared and may be slow, so a test does not
//! fail for being slow. It fails when a machine makes no progress:
//!
//! - nothing moves for [`STILL`]: no console output, no heartbeat of its agent,
//!   no processor time of its emulator;
//! - the emulator burns [`SPINNING`] of processor time without a heartbeat: the
//!   machine spins where its agent cannot run;
//! - its kernel reports an oops, a lockup or a stall on the console;
//! - its process ends;
//! - a single request takes longer than its limit, which is generous.

use std::{
    collections::HashMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use ddagent::protocol::Exit;
use regex::Regex;

use crate::{console, process::Process};

/// How long everything may stand still.
pub const STILL: Duration = Duration::from_secs(120);
/// How much processor time may pass without a heartbeat.
pub const SPINNING: Duration = Duration::from_secs(300);
/// Kernel clock ticks per second in `/proc` (a userspace ABI constant).
const TICKS_PER_S: u64 = 100;

/// What a kernel says when waiting for it has become pointless.
static FATAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        "Kernel panic|Oops: |kernel BUG at|soft lockup|blocked for more than|detected stalls|self-detected stall",
    )
    .expect("this is valid")
});

/// Signs of all machines of a lab. The key is the VM's name, none for L1.
#[derive(Debug)]
pub(crate) struct Vitals {
    /// Directory of the console logs.
    dir: PathBuf,
    emulator: Arc<Process>,
    signs: Mutex<HashMap<Option<String>, Sign>>,
    work: Mutex<Work>,
}

/// Signs of one machine.
#[derive(Clone, Debug)]
struct Sign {
    heartbeat: Instant,
    /// The emulator's processor time at that heartbeat, in ticks.
    heartbeat_ticks: u64,
    console: Instant,
    console_len: u64,
    /// Length of the console that was judged already.
    judged: u64,
    exit: Option<Exit>,
}

/// The emulator's processor time, and when it last moved.
#[derive(Debug)]
struct Work {
    ticks: u64,
    moved: Instant,
}

impl Vitals {
    pub(crate) fn new(dir: &Path, emulator: Arc<Process>) -> Self {
        let vitals = Self {
            dir: dir.to_owned(),
            emulator,
            signs: Mutex::default(),
            work: Mutex::new(Work {
                ticks: 0,
                moved: Instant::now(),
            }),
        };
        vitals.born(None);
        vitals
    }

    /// The console log of a machine.
    pub(crate) fn console_path(&self, vm: Option<&str>) -> PathBuf {
        self.dir.join(match vm {
            None => "l1.console.log".to_owned(),
            Some(name) => format!("l2-{name}.console.log"),
        })
    }

    /// A machine begins to boot.
    pub(crate) fn born(&self, vm: Option<&str>) {
        let ticks = self.emulator.cpu_ticks();
        let len = fs::metadata(self.console_path(vm)).map_or(0, |file| file.len());
        let mut signs = self.signs.lock().expect("no panic holds this lock");
        let judged = signs
            .get(&vm.map(str::to_owned))
            .map_or(0, |sign| sign.judged);
        signs.insert(
            vm.map(str::to_owned),
            Sign {
                heartbeat: Instant::now(),
                heartbeat_ticks: ticks,
                console: Instant::now(),
                console_len: len,
                judged,
                exit: None,
            },
        );
    }

    /// An agent reported.
    pub(crate) fn heartbeat(&self, vm: Option<&str>) {
        let ticks = self.emulator.cpu_ticks();
        self.with(vm, |sign| {
            sign.heartbeat = Instant::now();
            sign.heartbeat_ticks = ticks;
        });
    }

    /// A VM wrote to its console.
    pub(crate) fn console(&self, vm: &str, data: &[u8]) {
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.console_path(Some(vm)));
        // A full disk must not end the reader thread; the judge will see less.
        let _ = file.and_then(|mut file| file.write_all(data));
        self.with(Some(vm), |sign| {
            sign.console = Instant::now();
            sign.console_len += data.len() as u64;
        });
    }

    /// A VM's process ended.
    pub(crate) fn exited(&self, vm: &str, exit: Exit) {
        self.with(Some(vm), |sign| sign.exit = Some(exit));
    }

    /// Fails when waiting for `vm` is pointless.
    pub(crate) fn check(&self, vm: Option<&str>) -> Result<()> {
        self.check_one(None)?;
        match vm {
            Some(_) => self.check_one(vm),
            None => Ok(()),
        }
    }

    fn check_one(&self, vm: Option<&str>) -> Result<()> {
        match self.trouble(vm) {
            None => Ok(()),
            Some(trouble) => {
                let path = self.console_path(vm);
                let log = read_lossy(&path);
                bail!(
                    "{} {trouble}\nlast lines of {}:\n{}",
                    vm.map_or_else(|| "L1".to_owned(), |name| format!("guest {name}")),
                    path.display(),
                    console::tail(&log, 25)
                );
            }
        }
    }

    fn trouble(&self, vm: Option<&str>) -> Option<String> {
        if vm.is_none() {
            if let Some(status) = self.emulator.exit() {
                return Some(format!("ended unexpectedly ({status})"));
            }
        }
        let (ticks, idle) = self.work();
        let log = read_lossy(&self.console_path(vm));
        let sign = self.look_at(vm, log.len() as u64)?;
        if let Some(exit) = sign.exit {
            return Some(format!("ended unexpectedly ({exit:?})"));
        }
        let judged = usize::try_from(sign.judged).unwrap_or(usize::MAX);
        if let Some(found) = FATAL.find(log.get(judged..).unwrap_or_default()) {
            return Some(format!("is unwell: {}", found.as_str()));
        }
        let silent = sign.heartbeat.elapsed();
        if silent > STILL && sign.console.elapsed() > STILL && idle > STILL {
            return Some(format!("stands still for {} s", silent.as_secs()));
        }
        let burnt = ticks.saturating_sub(sign.heartbeat_ticks) / TICKS_PER_S;
        if silent > STILL && burnt > SPINNING.as_secs() {
            return Some(format!(
                "spins: no heartbeat in {burnt} s of processor time"
            ));
        }
        None
    }

    /// The emulator's processor time and how long it has not moved.
    fn work(&self) -> (u64, Duration) {
        let ticks = self.emulator.cpu_ticks();
        let mut work = self.work.lock().expect("no panic holds this lock");
        if work.ticks != ticks {
            *work = Work {
                ticks,
                moved: Instant::now(),
            };
        }
        (ticks, work.moved.elapsed())
    }

    /// The machine's signs, after noting that its log is `len` long now.
    fn look_at(&self, vm: Option<&str>, len: u64) -> Option<Sign> {
        let mut signs = self.signs.lock().expect("no panic holds this lock");
        let sign = signs.get_mut(&vm.map(str::to_owned))?;
        if sign.console_len != len {
            sign.console_len = len;
            sign.console = Instant::now();
        }
        Some(sign.clone())
    }

    /// Bad lines in the consoles since the last judgement, each with the log
    /// it is from.
    pub(crate) fn judge(&self, allowed: &[Regex]) -> Vec<String> {
        let machines: Vec<Option<String>> = {
            let signs = self.signs.lock().expect("no panic holds this lock");
            signs.keys().cloned().collect()
        };
        let mut found = Vec::new();
        for vm in machines {
            let path = self.console_path(vm.as_deref());
            let log = read_lossy(&path);
            let mut since = 0;
            self.with(vm.as_deref(), |sign| {
                since = usize::try_from(sign.judged).unwrap_or(usize::MAX);
                sign.judged = log.len() as u64;
            });
            let fresh = log.get(since..).unwrap_or_default();
            let name = vm.as_deref().unwrap_or("L1");
            found.extend(
                console::complaints(fresh, allowed)
                    .into_iter()
                    .map(|line| format!("{name}: {line}")),
            );
        }
        found
    }

    fn with(&self, vm: Option<&str>, change: impl FnOnce(&mut Sign)) {
        let mut signs = self.signs.lock().expect("no panic holds this lock");
        if let Some(sign) = signs.get_mut(&vm.map(str::to_owned)) {
            change(sign);
        }
    }
}

/// A log as text. Kernels write ASCII; each stray byte becomes one `?`, so that
/// offsets stay what they are in the file.
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
