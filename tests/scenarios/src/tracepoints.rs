// SPDX-License-Identifier: GPL-2.0-only

//! The tracepoints of both modules agree exactly with the counters, the examples of
//! `docs/users/tracepoints.md` work, and a module can be unloaded while its events are on.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, FileSpec, Guest, Machine, ReadSpec, Running, wait};

use crate::{
    accounting,
    ddctl::{self, GuestCounters, PoolStats},
    recorders::Recorders,
    stage::{self, GUEST, HOST, Stage},
    triggers::Sums,
};

const PAGE: &str = include_str!("../../../docs/users/tracepoints.md");
const EVENTS: &str = "/sys/kernel/tracing/events";
const SIGINT: i32 = 2;
/// The file with the types of a kernel (BTF).
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Sums over the events of a host, and over those of a guest: event, key and fields, of which the
/// kernel adds up two at most.
const OF_HOST: &[(&str, &str, &str)] = &[
    ("dd_put", "vm", "pages,stored"),
    ("dd_put_refused", "vm", "pages"),
    ("dd_get", "vm", "pages,memory_pages"),
    ("dd_evict", "vm", "pages"),
    ("dd_flush", "vm", "pages"),
];
const OF_GUEST: &[(&str, &str, &str)] = &[
    ("dd_put", "pool", "pages,stored"),
    ("dd_get", "pool", "pages,hits"),
    ("dd_invalidate", "filesystem", "pages"),
];

/// Reads, drops, refuses, evicts and truncates pages of `file`, which is at `path` in the guest
/// `name`, and compares events with counters. With `records`, perf and trace-cmd record them too.
pub(crate) fn count(
    stage: &Stage<'_>,
    (guest, name): (&Guest, &str),
    (path, file): (&str, &FileSpec),
    reader: &str,
    records: bool,
) -> Result<()> {
    let host = stage.host();
    // bpftrace needs the kernel's types, which kernels with checks are built without.
    let shown = match host.exec(["test", "-e", TYPES])?.exit.success() {
        true => Some([Shown::start(host, HOST)?, Shown::start(guest, GUEST)?]),
        false => None,
    };
    let histograms = Histograms::of_page(host)?;
    let sums = [
        Sums::start(host, HOST, OF_HOST)?,
        Sums::start(guest, GUEST, OF_GUEST)?,
    ];
    let recorders = match records {
        true => Some(Recorders::start(host, PAGE)?),
        false => None,
    };
    let before = (totals(stage, name)?, ddctl::counters(guest)?);

    let read = || stage::read(guest, &ReadSpec::new(path).cgroup(reader), file);
    read()?;
    guest.drop_caches(false)?;
    read()?;
    // Its pages are at the host when it is truncated.
    guest.drop_caches(false)?;
    guest.exec_ok(["truncate", "-s", "1M", path])?;
    wait::until("the host frees the truncated pages", || {
        Ok((sums[0].of("dd_flush", "pages")? > 0).then_some(()))
    })?;
    // The host drops all pages of the VM, and refuses others.
    ddctl::run(host, &format!("set-weight {name} 0"))?;
    guest.read(&ReadSpec::new(path).cgroup(reader))?;
    guest.drop_caches(false)?;
    ddctl::run(host, &format!("set-weight {name} 100"))?;

    let pools = totals(stage, name)? - before.0;
    let counted = ddctl::counters(guest)? - before.1;
    let [of_host, of_guest] = sums;
    host_agrees(&of_host, &pools)?;
    guest_agrees(&of_guest, &counted)?;
    if let Some(recorders) = recorders {
        recorders.end(&of_host)?;
    }
    drop((of_host, of_guest));

    let texts = histograms.end()?;
    for word in ["memory", "off", "weight"] {
        ensure!(
            texts.contains(word),
            "no {word} in the histograms:\n{texts}"
        );
    }
    let Some([on_host, in_guest]) = shown else {
        return Ok(());
    };
    let refused = host.unload_module(HOST);
    ensure!(
        refused.is_err(),
        "the host module was unloaded although bpftrace was attached"
    );
    let text = on_host.end()?;
    ensure!(text.contains("@get_ns[memory]"), "{text}");
    is(&text, "@refused[", refusals(&pools))?;
    is(&text, "@evicted[", pools.evictions)?;
    let text = in_guest.end()?;
    ensure!(text.contains("@guest_ns[hit]"), "{text}");
    ensure!(text.contains("@invalid[truncate]"), "{text}");
    is(&text, "@invalid[", counted.invalidated)
}

/// The host module is unloaded and loaded again with this capacity. The guest has an event for each
/// step of it, and the time that it took.
pub(crate) fn lose_host(stage: &Stage<'_>, guest: &Guest, capacity_mib: u64) -> Result<()> {
    let events = Sums::start(
        guest,
        GUEST,
        &[
            ("dd_session_end", "vm", "hitcount"),
            ("dd_detach", "latency_ns", "hitcount"),
            ("dd_attach", "error", "latency_ns"),
            ("dd_session_begin", "vm", "pools"),
        ],
    )?;
    stage.host().unload_module(HOST)?;
    // Until the hooks are detached the guest still reports that it is attached.
    stage::alone(guest)?;
    stage.load_host(capacity_mib)?;
    stage::attached(guest)?;
    for event in [
        "dd_session_end",
        "dd_detach",
        "dd_attach",
        "dd_session_begin",
    ] {
        let count = events.of(event, "hitcount")?;
        ensure!(count > 0, "there is no event {event}");
    }
    let took = events.of("dd_attach", "latency_ns")?;
    ensure!(took > 0, "attaching took no time");
    let (pools, known) = (
        events.of("dd_session_begin", "pools")?,
        ddctl::containers(guest)?.len() as u64,
    );
    ensure!(
        pools >= known && known > 0,
        "a session begins with {pools} pools of {known}"
    );
    Ok(())
}

/// A module is unloaded while its events are on, and is loaded again. The host has an event for the
/// end of the VM's session, and for the next one.
pub(crate) fn unload(stage: &Stage<'_>, guest: &Guest) -> Result<()> {
    let events = Sums::start(
        stage.host(),
        HOST,
        &[
            ("dd_vm_unregister", "vm", "pages"),
            ("dd_vm_register", "again", "hitcount"),
        ],
    )?;
    reload(guest)?;
    for event in ["dd_vm_unregister", "dd_vm_register"] {
        let count = events.of(event, "hitcount")?;
        ensure!(count > 0, "there is no event {event}");
    }
    Ok(())
}

fn reload(guest: &Guest) -> Result<()> {
    let all = format!("{EVENTS}/{GUEST}");
    guest.write_file(&format!("{all}/enable"), "1")?;
    guest.unload_module(GUEST)?;
    ensure!(
        !guest.exec(["test", "-e", &all])?.exit.success(),
        "the events of the module are still there"
    );
    stage::attach(guest)?;
    let enabled = guest.read_text(&format!("{all}/enable"))?;
    ensure!(enabled.trim() == "0", "events are {enabled}");
    Ok(())
}

/// Returns the sums of the counters of a VM's pools, once no page moves.
fn totals(stage: &Stage<'_>, name: &str) -> Result<PoolStats> {
    let vms = accounting::check(stage.host())?;
    let pools = ddctl::vm(&vms, name)?.containers.iter();
    let stats = pools.filter_map(|pool| pool.stats);
    Ok(stats.fold(PoolStats::default(), |sum, more| sum + more))
}

fn refusals(pools: &PoolStats) -> u64 {
    pools.put_refused_off
        + pools.put_refused_memory
        + pools.put_refused_device
        + pools.put_refused_fault
        + pools.put_refused_absent
        + pools.put_refused_unproven
}

fn host_agrees(sums: &Sums<'_>, pools: &PoolStats) -> Result<()> {
    for (what, seen, counted) in [
        ("stored pages", sums.of("dd_put", "stored")?, pools.puts),
        (
            "refused pages",
            sums.of("dd_put_refused", "pages")?,
            refusals(pools),
        ),
        ("requested pages", sums.of("dd_get", "pages")?, pools.gets),
        (
            // There is no SSD tier.
            "found pages",
            sums.of("dd_get", "memory_pages")?,
            pools.hits,
        ),
        (
            "evicted pages",
            sums.of("dd_evict", "pages")?,
            pools.evictions,
        ),
    ] {
        same("host", what, seen, counted)?;
    }
    Ok(())
}

fn guest_agrees(sums: &Sums<'_>, counted: &GuestCounters) -> Result<()> {
    for (what, seen, counted) in [
        (
            "put calls",
            sums.of("dd_put", "hitcount")?,
            counted.put_calls,
        ),
        (
            "offered pages",
            sums.of("dd_put", "pages")?,
            counted.put_offered,
        ),
        (
            "stored pages",
            sums.of("dd_put", "stored")?,
            counted.put_stored,
        ),
        (
            "get calls",
            sums.of("dd_get", "hitcount")?,
            counted.get_calls,
        ),
        (
            "requested pages",
            sums.of("dd_get", "pages")?,
            counted.get_asked,
        ),
        ("hits", sums.of("dd_get", "hits")?, counted.get_hits),
        (
            "invalid pages",
            sums.of("dd_invalidate", "pages")?,
            counted.invalidated,
        ),
    ] {
        same("guest", what, seen, counted)?;
    }
    Ok(())
}

/// Events and counters have the same number of pages or calls, which is not 0.
fn same(machine: &str, what: &str, seen: u64, counted: u64) -> Result<()> {
    ensure!(
        seen == counted && seen > 0,
        "{machine}: events have {seen} {what}, and counters {counted}"
    );
    Ok(())
}

/// The histograms of tracefs that the page shows.
struct Histograms<'a> {
    host: &'a Machine,
    /// The line that changes to the directory, and the line that prints.
    place: &'static str,
    print: &'static str,
    triggers: Vec<&'static str>,
}

impl<'a> Histograms<'a> {
    fn of_page(host: &'a Machine) -> Result<Self> {
        let block = blocks().find(|block| block.starts_with("cd "));
        let lines: Vec<_> = block
            .context("the page shows no histograms")?
            .lines()
            .collect();
        let [place, triggers @ .., print] = &lines[..] else {
            anyhow::bail!("the page shows only {lines:?}");
        };
        host.shell(format!("{place}\n{}", triggers.join("\n")))?;
        Ok(Self {
            host,
            place,
            print,
            triggers: triggers.to_vec(),
        })
    }

    /// Returns what is printed, and ends the histograms as the page says.
    fn end(self) -> Result<String> {
        let text = self.host.shell(format!("{}\n{}", self.place, self.print))?;
        let ends = self.triggers.join("\n").replace("'hist:", "'!hist:");
        self.host.shell(format!("{}\n{ends}", self.place))?;
        Ok(text)
    }
}

/// The programs of bpftrace that the page shows for a module, all at once.
struct Shown(Running);

impl Shown {
    fn start(machine: &Machine, module: &str) -> Result<Self> {
        let programs: Vec<_> = programs().filter(|one| one.contains(module)).collect();
        ensure!(!programs.is_empty(), "the page shows nothing for {module}");
        let all = format!("BEGIN {{ printf(\"begun\\n\"); }} {}", programs.join(" "));
        let mut running = machine.spawn(&Command::new(["bpftrace", "-e", &all]))?;
        wait::until("bpftrace is attached", || {
            let output = running.output()?;
            ensure!(running.poll()?.is_none(), "bpftrace ended: {output}");
            Ok(output.contains("begun").then_some(()))
        })?;
        Ok(Self(running))
    }

    /// Ends it. Returns what it printed.
    fn end(mut self) -> Result<String> {
        self.0.kill(SIGINT)?;
        self.0.wait()?;
        self.0.output()
    }
}

/// Checks the sum over the keys of a map of bpftrace.
fn is(text: &str, map: &str, expected: u64) -> Result<()> {
    let lines = text.lines().filter(|line| line.starts_with(map));
    let values = lines.map(|line| {
        let (_, value) = line.rsplit_once(": ").context("no value")?;
        Ok(value.trim().parse::<u64>()?)
    });
    let sum: u64 = values.sum::<Result<u64>>()?;
    ensure!(
        sum == expected && sum > 0,
        "{map}…] has {sum} pages, and the counters {expected}:\n{text}"
    );
    Ok(())
}

/// Returns the programs of bpftrace in the page.
fn programs() -> impl Iterator<Item = &'static str> {
    let lines = blocks().flat_map(str::lines);
    lines.filter_map(|line| line.strip_prefix("bpftrace -e '")?.strip_suffix('\''))
}

/// Returns the shell commands in the page, block by block.
fn blocks() -> impl Iterator<Item = &'static str> {
    let blocks = PAGE.split("```sh\n").skip(1);
    blocks.filter_map(|block| Some(block.split_once("\n```")?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_programs_for_both_modules() {
        let count = |module| programs().filter(|one| one.contains(module)).count();
        assert_eq!((count(HOST), count(GUEST)), (3, 2));
        assert_eq!(blocks().filter(|block| block.starts_with("cd ")).count(), 1);
    }

    #[test]
    fn maps_are_added_up() {
        let text = "begun\n\n@refused[1, off]: 100\n@refused[2, memory]: 28\n@other[1]: 5\n";
        assert!(is(text, "@refused[", 128).is_ok());
        assert!(is(text, "@refused[", 127).is_err());
        assert!(is(text, "@evicted[", 0).is_err());
    }
}
