// SPDX-License-Identifier: GPL-2.0-only

//! Allocations of a kernel that are made to fail (`Documentation/fault-injection`).

use anyhow::{Context as _, Result, ensure};
use ddlab::Machine;

/// The allocators that can be made to fail, of slabs and of pages.
const KINDS: &str = "failslab fail_page_alloc";
const DIR: &str = "/sys/kernel/debug";
/// Initial value of the counter of random failures, which counts down.
const TIMES: u64 = 1 << 30;
/// Messages of kernels about missing memory, and about checks that were switched off.
const WARNINGS: &str = "vmalloc error|page allocation failure|SLUB: Unable|percpu: allocation \
     failed|kmemleak: Cannot|ODEBUG: Out of memory|KASAN: .*disabled|lockdep.*turning off";

/// The allocations of a machine that can be made to fail.
pub(super) struct Faults<'a> {
    machine: &'a Machine,
}

/// Selects allocations by code among their callers.
#[derive(Clone, Copy)]
pub(super) enum Below {
    /// The code of a module while it is loaded.
    Loading,
    /// The code of the loaded module of this name.
    Module(&'static str),
}

impl<'a> Faults<'a> {
    /// Prepares a machine. No allocation fails yet.
    pub(super) fn new(machine: &'a Machine) -> Result<Self> {
        let there = machine.exec(["test", "-d", &format!("{DIR}/failslab")])?;
        ensure!(
            there.exit.success(),
            "this kernel does not support failing allocations: run \
             `cargo xtask test vm --kernel debug allocations`"
        );
        let faults = Self { machine };
        for (file, value) in [
            ("probability", "0"),
            ("verbose", "0"),
            ("ignore-gfp-wait", "N"),
            ("stacktrace-depth", "32"),
        ] {
            faults.set(file, value)?;
        }
        for (file, value) in [("min-order", "0"), ("ignore-gfp-highmem", "N")] {
            machine.write_file(&format!("{DIR}/fail_page_alloc/{file}"), value)?;
        }
        // Allocations by the search for leaks itself are excluded.
        if let Some((start, end)) = functions(machine, LEAKS)? {
            faults.set("reject-start", &start.to_string())?;
            faults.set("reject-end", &end.to_string())?;
        }
        Ok(faults)
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        let line = format!("for kind in {KINDS}; do echo {value} > {DIR}/$kind/{file}; done");
        self.machine.shell(line).map(drop)
    }

    /// Restricts the failures to these allocations.
    pub(super) fn only(&self, below: Below) -> Result<()> {
        let (start, end) = match below {
            Below::Loading => functions(self.machine, "do_one_initcall")?
                .context("the kernel has no range of addresses for modules")?,
            Below::Module(name) => module(self.machine, name)?,
        };
        self.set("require-start", &start.to_string())?;
        self.set("require-end", &end.to_string())
    }

    /// Makes `percent` of all allocations fail from now on, of all tasks or of those that
    /// [`Faults::mark_workers`] or [`MARKED`] have marked.
    pub(super) fn at_random(&self, percent: u32, marked: bool) -> Result<()> {
        self.set("times", &TIMES.to_string())?;
        self.set("task-filter", if marked { "Y" } else { "N" })?;
        self.set("probability", &percent.to_string())
    }

    /// Marks the kernel's workers, including future ones.
    pub(super) fn mark_workers(&self) -> Result<()> {
        let line = format!(
            "for task in /proc/2 $({WORKERS}); do echo 1 > $task/make-it-fail || :; done 2> /dev/null"
        );
        self.machine.shell(line).map(drop)
    }

    /// Ends the failures. Returns the number of allocations that failed.
    pub(super) fn stop(&self) -> Result<u64> {
        self.set("probability", "0")?;
        self.count()
    }

    /// Returns the number of allocations that failed since [`Faults::at_random`].
    pub(super) fn count(&self) -> Result<u64> {
        let line = format!("for kind in {KINDS}; do cat {DIR}/$kind/times; done");
        let left = self.machine.shell(line)?;
        let left = left.split_whitespace().map(str::parse::<u64>);
        left.map(|left| Ok(TIMES.saturating_sub(left?))).sum()
    }

    /// Fails if the kernel reported missing memory, or has switched its checks off.
    pub(super) fn unsaid(&self) -> Result<()> {
        let line = format!("dmesg | grep -E '{WARNINGS}' || :");
        let said = self.machine.shell(line)?;
        ensure!(said.is_empty(), "{} said {said}", self.machine.name());
        Ok(())
    }
}

/// Prints the directories of the kernel's workers.
const WORKERS: &str = "grep -l ^kworker /proc/[0-9]*/comm | sed s,/comm,,";

/// The beginning of a shell line whose allocations fail like those of the workers.
pub(super) const MARKED: &str = "echo 1 > /proc/self/make-it-fail; exec";

/// Neighbouring functions that allocate for the leak detector whenever a task allocates.
const LEAKS: &str = "__alloc_object|__create_object";

/// Returns the addresses from the first of some functions to the end of the last, if they exist.
fn functions(machine: &Machine, names: &str) -> Result<Option<(u64, u64)>> {
    let line = format!("grep -E -A9 ' ({names})$' /proc/kallsyms || :");
    let symbols = machine.shell(line)?;
    let symbols = symbols.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((address, words.nth(1)?))
    });
    let symbols: Vec<(u64, &str)> = symbols.collect();
    let found = symbols
        .iter()
        .filter(|(_, name)| names.split('|').any(|one| one == *name));
    let found = found.map(|(address, _)| *address);
    let (Some(start), Some(last)) = (found.clone().min(), found.max()) else {
        return Ok(None);
    };
    let after = symbols.iter().map(|(address, _)| *address);
    let end = after.filter(|address| *address > last).min();
    Ok(end.map(|end| (start, end)))
}

/// Returns the first and the last address of a module.
fn module(machine: &Machine, name: &str) -> Result<(u64, u64)> {
    let modules = machine.read_text("/proc/modules")?;
    let fields = modules
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let mut found = fields.filter(|fields| fields[0] == name);
    match found.next().as_deref() {
        Some([_, size, _, _, _, start, ..]) => {
            let start = u64::from_str_radix(start.trim_start_matches("0x"), 16)?;
            Ok((start, start + size.parse::<u64>()?))
        }
        _ => anyhow::bail!("{} has no module {name}", machine.name()),
    }
}

/// Tasks whose n-th allocation fails.
pub(super) struct Tasks<'a> {
    machine: &'a Machine,
    nth: u32,
    dirs: String,
}

impl<'a> Tasks<'a> {
    /// Returns the threads of a process.
    pub(super) fn threads(machine: &'a Machine, pid: u32, nth: u32) -> Result<Self> {
        Self::new(machine, &format!("ls -d /proc/{pid}/task/*"), nth)
    }

    /// Returns the kernel's workers.
    pub(super) fn workers(machine: &'a Machine, nth: u32) -> Result<Self> {
        Self::new(machine, WORKERS, nth)
    }

    fn new(machine: &'a Machine, list: &str, nth: u32) -> Result<Self> {
        // A task that has ended in between is left out.
        let line = format!(
            "for task in $({list}); do echo {nth} 2> /dev/null > $task/fail-nth && echo $task || :; done"
        );
        let dirs = machine.shell(line)?.replace('\n', " ");
        Ok(Self { machine, nth, dirs })
    }

    /// Ends the failures, and returns their result.
    pub(super) fn end(self) -> Result<Starved> {
        let line = format!(
            "for task in {}; do cat $task/fail-nth 2> /dev/null || :; \
             echo 0 2> /dev/null > $task/fail-nth || :; done",
            self.dirs
        );
        let left = self.machine.shell(line)?;
        let left = left.split_whitespace().map(str::parse::<u32>);
        let left: Vec<u32> = left.collect::<Result<_, _>>()?;
        Ok(match left.iter().min() {
            Some(0) => Starved::Once,
            Some(left) if *left < self.nth => Starved::TooFew,
            _ => Starved::Never,
        })
    }
}

/// Result for tasks whose n-th allocation should fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Starved {
    /// It failed.
    Once,
    /// There were fewer allocations.
    TooFew,
    /// No task allocated anything.
    Never,
}
