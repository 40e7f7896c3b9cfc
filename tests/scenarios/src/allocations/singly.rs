// SPDX-License-Identifier: GPL-2.0-only

//! One allocation after the other fails: those of administrators' commands in the task that
//! executes them, those of calls in the threads of the VMM, and those of the search for a host in
//! the guest's workers.

use std::fmt;

use anyhow::{Context as _, Result, ensure};
use ddlab::{Guest, GuestConfig, Machine, Target, wait};
use serde::Deserialize;

use super::{
    CAPACITY_MIB,
    faults::{Below, Faults, Starved, Tasks},
};
use crate::{
    accounting, ddctl,
    site::Site,
    stage::{self, GUEST, HOST, Stage},
    vmm,
};

/// The container that always exists, and the one that is added and removed repeatedly.
const OLD: &str = "old";
const NEW: &str = "new";
const WEIGHT: u32 = 100;
/// Number of consecutive allocations that fail before some are left out, for slow operations.
const DENSE: u32 = 24;
/// Number of consecutive rounds without an allocation after which no more allocations are expected.
const IDLE: u32 = 3;

/// Runs the selected parts of this half of the scenario.
pub(super) fn run(stage: &Stage<'_>, parts: &[&str], quick: bool) -> Result<Vec<Target>> {
    let dense = if quick { DENSE / 8 } else { DENSE };
    let wanted = |part| parts.contains(&part);
    let host = stage.host();
    let faults = Faults::new(host)?;
    let mut sums = Vec::new();
    if wanted("modules") {
        sums.push(loading(host, &faults, HOST, dense)?);
    }
    let guest = stage.lab.start_guest(&GuestConfig::new("one"))?;
    let inside = Faults::new(&guest)?;
    if wanted("modules") {
        sums.push(loading(&guest, &inside, GUEST, dense)?);
    }
    stage.load_host(CAPACITY_MIB)?;
    stage::attach(&guest)?;
    stage::container(&guest, OLD, "16M", WEIGHT)?;
    guest.cgroup(NEW, &[])?;
    inside.only(Below::Module(GUEST))?;
    let pair = Pair {
        stage,
        faults: &faults,
        guest: &guest,
        pid: ddctl::vm(&ddctl::vms(host)?, "one")?
            .pid
            .context("the guest's VMM has ended")?,
        dense,
    };
    if wanted("guest") {
        sums.extend(pair.in_guest()?);
    }
    if wanted("host") {
        sums.extend(pair.at_host()?);
    }
    if wanted("calls") {
        sums.extend(pair.calls()?);
    }
    for faults in [&faults, &inside] {
        faults.unsaid()?;
    }
    accounting::check(host)?;
    guest.unload_module(GUEST)?;
    let left = ddctl::host(host)?.used_pages;
    ensure!(left == 0, "{left} pages are left");
    guest.shutdown()?;
    host.unload_module(HOST)?;
    let failed: u32 = sums.iter().map(|sum| sum.failed).sum();
    let touched = sums.iter().filter(|sum| sum.failed > 0).count();
    let target = Target::at_least(
        "allocations: operations whose allocations failed one at a time",
        sums.len() as f64,
        touched as f64,
        "",
    );
    Ok(vec![target.detail(format!("{failed} allocations in all"))])
}

/// Results of an operation whose allocations failed one at a time.
struct Sum {
    what: String,
    /// Number of allocations that failed.
    failed: u32,
    /// Number of times that the operation was then refused.
    refused: u32,
    /// The last failed allocation, counted from 1.
    last: u32,
}

impl Sum {
    fn new(what: &str) -> Self {
        Self {
            what: what.to_owned(),
            failed: 0,
            refused: 0,
            last: 0,
        }
    }

    fn add(&mut self, nth: u32, refused: bool) {
        self.failed += 1;
        self.refused += u32::from(refused);
        self.last = nth;
    }

    /// Prints the result and returns it.
    fn say(self) -> Self {
        eprintln!("    allocations: {self}");
        self
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            failed,
            refused,
            last,
        } = self;
        write!(
            to,
            "{what}: {failed} of the first {last} allocations failed, one at a time; it was refused \
             {refused} times, and done the others"
        )
    }
}

/// Returns the number after `nth`: the next one at first, then with increasing gaps.
const fn next(nth: u32, dense: u32) -> u32 {
    nth + 1 + nth / dense
}

/// Calls `attempt` with the number of the allocation that must fail, from the first one on, until
/// it returns `None` because there are fewer. Otherwise it returns whether the operation was
/// refused.
fn one_by_one(
    what: &str,
    dense: u32,
    mut attempt: impl FnMut(u32) -> Result<Option<bool>>,
) -> Result<Sum> {
    let mut sum = Sum::new(what);
    let mut nth = 1;
    while let Some(refused) = attempt(nth)? {
        sum.add(nth, refused);
        nth = next(nth, dense);
    }
    Ok(sum.say())
}

/// Output of `ddhelper starve`.
#[derive(Deserialize)]
struct Attempt {
    left: u32,
    code: Option<i32>,
    said: String,
}

/// Runs a program repeatedly while its first allocation fails, then its second, and so on. `check`
/// gets each time whether the program succeeded, and restores the initial state.
fn each(
    machine: &Machine,
    what: &str,
    program: &str,
    dense: u32,
    mut check: impl FnMut(bool) -> Result<()>,
) -> Result<Sum> {
    one_by_one(what, dense, |nth| {
        let line = format!("ddhelper starve {nth} {program}");
        let said = machine.exec_ok(line.split(' ').map(str::to_owned))?;
        let attempt: Attempt = serde_json::from_str(&said).with_context(|| said.clone())?;
        let done = attempt.code == Some(0);
        let Attempt { said, .. } = attempt;
        check(done).with_context(|| {
            format!("{what}: allocation {nth} failed, and the program printed: {said}")
        })?;
        if attempt.left > 0 {
            ensure!(done, "{what}: failed although no allocation did: {said}");
            return Ok(None);
        }
        Ok(Some(!done))
    })
}

/// Loads a module, and unloads it if that succeeded.
fn loading(machine: &Machine, faults: &Faults<'_>, module: &str, dense: u32) -> Result<Sum> {
    // The first load makes allocations that are not repeated later.
    machine.load_module(module, &[])?;
    machine.unload_module(module)?;
    faults.only(Below::Loading)?;
    let what = format!("load {module}");
    let program = format!("insmod /opt/dd/modules/{module}.ko");
    each(machine, &what, &program, dense, |done| {
        ensure!(
            machine.has_module(module)? == done,
            "insmod's result does not agree with the list of modules"
        );
        if done {
            machine.unload_module(module)?;
        }
        Ok(())
    })
}

/// A host and a guest that are connected.
struct Pair<'a> {
    stage: &'a Stage<'a>,
    /// Failures in the host.
    faults: &'a Faults<'a>,
    guest: &'a Guest,
    /// Process id of the VMM.
    pid: u32,
    /// See [`next`].
    dense: u32,
}

impl Pair<'_> {
    /// Checks that both sides show the enrolled containers.
    fn shows(&self, new: Option<u32>, old: u32) -> Result<()> {
        let host = self.stage.host();
        let site = Site {
            host,
            guest: self.guest,
        };
        let always = [("default", WEIGHT), (OLD, old)];
        let new = new.map(|weight| (NEW, weight));
        let all: Vec<_> = always.into_iter().chain(new).collect();
        site.shows("after it", &all)
    }

    /// Tests the commands of the guest's administrator.
    fn in_guest(&self) -> Result<Vec<Sum>> {
        let guest = self.guest;
        let run = |line: &str| ddctl::run(guest, line).map(drop);
        let each = |line: &str, check: &mut dyn FnMut(bool) -> Result<()>| {
            let program = format!("ddctl --guest {line}");
            each(
                guest,
                &format!("guest: {line}"),
                &program,
                self.dense,
                check,
            )
        };
        let add = format!("container add {NEW} --weight 70");
        let remove = format!("container remove {NEW}");
        let mut sums = vec![each(&add, &mut |done| {
            self.shows(done.then_some(70), WEIGHT)?;
            if done { run(&remove) } else { Ok(()) }
        })?];
        run(&add)?;
        sums.push(each(&remove, &mut |done| {
            self.shows((!done).then_some(70), WEIGHT)?;
            if done { run(&add) } else { Ok(()) }
        })?);
        run(&remove)?;
        sums.push(each(
            &format!("container set-weight {OLD} 30"),
            &mut |done| {
                self.shows(None, if done { 30 } else { WEIGHT })?;
                run(&format!("container set-weight {OLD} {WEIGHT}"))
            },
        )?);
        sums.push(each(
            &format!("container set-policy {OLD} tinylfu"),
            &mut |_| {
                self.shows(None, WEIGHT)?;
                run(&format!("container set-policy {OLD} adaptive"))
            },
        )?);
        for line in [format!("flush {OLD}"), format!("stats --curve {OLD}")] {
            sums.push(each(&line, &mut |_| self.shows(None, WEIGHT))?);
        }
        Ok(sums)
    }

    /// Tests the commands of the host's administrator.
    fn at_host(&self) -> Result<Vec<Sum>> {
        let host = self.stage.host();
        self.faults.only(Below::Module(HOST))?;
        let run = |line: &str| ddctl::run(host, line).map(drop);
        let each = |line: &str, check: &mut dyn FnMut(bool) -> Result<()>| {
            let program = format!("ddctl --host {line}");
            each(host, &format!("host: {line}"), &program, self.dense, check)
        };
        let weight = |wanted: u32| {
            let vms = ddctl::vms(host)?;
            let weight = ddctl::vm(&vms, "one")?.weight;
            ensure!(weight == wanted, "the VM has weight {weight}");
            Ok(())
        };
        let capacity = |mib: u64| {
            let pages = ddctl::host(host)?.capacity_pages;
            ensure!(pages == stage::pages(mib << 20), "{pages} pages");
            Ok(())
        };
        let mut sums = vec![each("set-weight one 30", &mut |done| {
            weight(if done { 30 } else { WEIGHT })?;
            run(&format!("set-weight one {WEIGHT}"))
        })?];
        sums.push(each("set-capacity 8M", &mut |done| {
            capacity(if done { 8 } else { CAPACITY_MIB })?;
            run(&format!("set-capacity {CAPACITY_MIB}M"))
        })?);
        for line in ["flush one", "stats one"] {
            sums.push(each(line, &mut |_| self.shows(None, WEIGHT))?);
        }
        Ok(sums)
    }

    /// Tests the calls of the guest, and its registration.
    fn calls(&self) -> Result<Vec<Sum>> {
        self.faults.only(Below::Module(HOST))?;
        Ok(vec![
            self.pool_created()?,
            self.session_begun()?,
            self.host_found()?,
        ])
    }

    /// Returns the threads of the VMM.
    fn vmm(&self, nth: u32) -> Result<Tasks<'_>> {
        Tasks::threads(self.stage.host(), self.pid, nth)
    }

    fn pool_created(&self) -> Result<Sum> {
        let guest = self.guest;
        one_by_one("host: a container is added", self.dense, |nth| {
            // A session keeps the memory of its former pools, so that each attempt needs a new
            // session.
            let before = ddctl::counters(guest)?.sessions;
            ddctl::run(guest, "--guest flush --all")?;
            self.attached_after(before)?;
            self.shows(None, WEIGHT)?;
            let tasks = self.vmm(nth)?;
            let argv = ["ddctl", "container", "add", NEW, "--weight", "70"];
            let done = guest.exec(argv)?.exit.success();
            let starved = tasks.end()?;
            self.shows(done.then_some(70), WEIGHT)
                .with_context(|| format!("after allocation {nth} for a pool failed at the host"))?;
            if done {
                ddctl::run(guest, &format!("container remove {NEW}"))?;
            }
            if starved != Starved::Once {
                ensure!(done, "a container is not added with all allocations");
                return Ok(None);
            }
            Ok(Some(!done))
        })
    }

    fn session_begun(&self) -> Result<Sum> {
        let guest = self.guest;
        one_by_one("host: a session begins", self.dense, |nth| {
            let before = ddctl::counters(guest)?.sessions;
            let tasks = self.vmm(nth)?;
            ddctl::run(guest, "--guest flush --all")?;
            // The guest tries again until it has a session.
            self.attached_after(before)?;
            let starved = tasks.end()?;
            self.shows(None, WEIGHT).with_context(|| {
                format!("after allocation {nth} for a session failed at the host")
            })?;
            Ok((starved == Starved::Once).then_some(true))
        })
    }

    /// Loads the host module again, after which the VM registers and the guest attaches its hooks.
    /// An allocation of either side fails.
    fn host_found(&self) -> Result<Sum> {
        let (host, guest) = (self.stage.host(), self.guest);
        let mut sum = Sum::new("host and guest: they find each other");
        let (mut nth, mut idle) = (1, 0);
        loop {
            host.unload_module(HOST)?;
            stage::alone(guest)?;
            let before = ddctl::counters(guest)?.sessions;
            let workers = Tasks::workers(guest, nth)?;
            vmm::freeze(host, guest, self.pid)?;
            self.stage.load_host(CAPACITY_MIB)?;
            self.faults.only(Below::Module(HOST))?;
            let threads = self.vmm(nth)?;
            vmm::thaw(guest)?;
            self.attached_after(before)?;
            let starved = [workers.end()?, threads.end()?];
            self.shows(None, WEIGHT)
                .with_context(|| format!("after allocation {nth} for the first session failed"))?;
            if starved[0] == Starved::Never && idle < IDLE {
                // Another worker runs the job now.
                idle += 1;
                continue;
            }
            if !starved.contains(&Starved::Once) {
                return Ok(sum.say());
            }
            idle = 0;
            for _ in starved.iter().filter(|starved| **starved == Starved::Once) {
                sum.add(nth, true);
            }
            // Attaching hooks takes minutes on kernels with checks.
            nth = next(nth, self.dense / 3);
        }
    }

    /// Waits until the guest has a session after `before` earlier ones.
    fn attached_after(&self, before: u64) -> Result<()> {
        wait::until("the guest has a new session", || {
            let status = ddctl::guest(self.guest)?;
            let new = status.counters.sessions > before && status.state == "attached";
            Ok(new.then_some(()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_gaps_at_first() {
        let mut nth = 1;
        for expected in 2..=DENSE {
            nth = next(nth, DENSE);
            assert_eq!(nth, expected);
        }
        assert_eq!(next(nth, DENSE), nth + 2);
    }
}
