// SPDX-License-Identifier: GPL-2.0-only

//! The lines with perf and trace-cmd that `docs/users/tracepoints.md` shows, all at once.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Machine, Running, wait};

use crate::triggers::Sums;

/// The command during which the lines of the document record.
const WHILE: &str = "sleep 10";
/// Directory of the recordings and of the files below.
const PLACE: &str = "/run/recorders";
/// Replaces [`WHILE`]: reports that the recording has begun, and waits for its end.
const WAIT: &str = "#!/bin/sh\necho > \"$1.begun\"\nread _ < \"$1.end\"\n";

/// Lines of the document that are running.
pub(crate) struct Recorders<'a> {
    machine: &'a Machine,
    lines: Vec<Recorder>,
}

struct Recorder {
    line: &'static str,
    place: String,
    running: Running,
}

impl<'a> Recorders<'a> {
    /// Starts the lines of a page on a host, and waits until all of them record.
    pub(crate) fn start(machine: &'a Machine, page: &'static str) -> Result<Self> {
        machine.exec_ok(["mkdir", PLACE])?;
        machine.write_file(&format!("{PLACE}/wait"), WAIT)?;
        machine.exec_ok(["chmod", "+x", &format!("{PLACE}/wait")])?;
        let start = |(number, line): (usize, &'static str)| {
            let place = format!("{PLACE}/{number}");
            machine.exec_ok(["mkdir", &place])?;
            machine.exec_ok(["mkfifo", &format!("{place}/this.end")])?;
            let command = line.replace(WHILE, &format!("{PLACE}/wait {place}/this"));
            Ok(Recorder {
                line,
                running: machine.spawn(&Command::shell(command).cwd(&place))?,
                place,
            })
        };
        let mut lines = lines(page)
            .enumerate()
            .map(start)
            .collect::<Result<Vec<_>>>()?;
        for Recorder {
            line,
            place,
            running,
        } in &mut lines
        {
            let begun = format!("{place}/this.begun");
            wait::until(&format!("{line:?} records"), || {
                let exit = running.poll()?;
                ensure!(exit.is_none(), "{line} ended: {}", running.output()?);
                let begun = machine.exec(["test", "-e", &begun])?;
                Ok(begun.exit.success().then_some(()))
            })?;
        }
        Ok(Self { machine, lines })
    }

    /// Ends them, and compares what they print with sums of the same time.
    pub(crate) fn end(self, sums: &Sums<'_>) -> Result<()> {
        for Recorder {
            line,
            place,
            mut running,
        } in self.lines
        {
            self.machine.shell(format!("echo > {place}/this.end"))?;
            let exit = running.wait()?;
            let output = running.output()?;
            ensure!(exit.success(), "{line} failed ({exit}): {output}");
            let program = line.split_whitespace().take(2).collect::<Vec<_>>();
            match program[..] {
                ["perf", "stat"] => counted(&output, sums),
                ["perf", "record"] => evictions(&output, sums),
                ["trace-cmd", "record"] => reported(&output),
                _ => anyhow::bail!("nothing is known about {line}"),
            }
            .with_context(|| format!("{line} printed {output}"))?;
        }
        self.machine.exec_ok(["rm", "-r", PLACE]).map(drop)
    }
}

/// `perf stat` counts each event.
fn counted(output: &str, sums: &Sums<'_>) -> Result<()> {
    for event in ["dd_put", "dd_put_refused", "dd_get", "dd_evict"] {
        let name = format!("doubledecker_host:{event}");
        let words = |line: &str| {
            let mut words = line.split_whitespace();
            let (count, event) = (words.next()?, words.next()?);
            (event == name).then(|| count.replace(',', ""))
        };
        let count = output.lines().find_map(words);
        let count: u64 = count.with_context(|| format!("no {name}"))?.parse()?;
        let seen = sums.of(event, "hitcount")?;
        ensure!(count == seen && seen > 0, "{count} {event} of {seen}");
    }
    Ok(())
}

/// `perf script` prints each eviction with its fields.
fn evictions(output: &str, sums: &Sums<'_>) -> Result<()> {
    let events = output
        .lines()
        .filter(|line| line.contains(" doubledecker_host:dd_evict: "));
    let mut pages = 0;
    for event in events {
        pages += field(event, "pages")?;
        ensure!(event.contains(" tier=memory reason=weight"), "{event}");
    }
    let seen = sums.of("dd_evict", "pages")?;
    ensure!(pages == seen && seen > 0, "{pages} pages of {seen}");
    Ok(())
}

/// `trace-cmd report` prints the events of both systems. Records of exits can be lost.
fn reported(output: &str) -> Result<()> {
    for (event, names) in [
        ("dd_put:", "pages"),
        ("dd_get:", "memory_pages"),
        ("dd_evict:", "pages"),
    ] {
        let line = output.lines().find(|line| line.contains(event));
        field(line.with_context(|| format!("no {event}"))?, names)?;
    }
    ensure!(output.contains("kvm_exit:"), "no kvm_exit");
    Ok(())
}

/// Returns the value of a field in a line of an event.
fn field(line: &str, name: &str) -> Result<u64> {
    let named = |word: &str| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
    let value = line.split_whitespace().find_map(named);
    value.with_context(|| format!("no {name} in {line}"))
}

/// Returns the lines of a page that record for a while.
fn lines(page: &'static str) -> impl Iterator<Item = &'static str> {
    let lines = page.lines().filter_map(|line| line.strip_prefix("# "));
    lines.filter(|line| line.contains(WHILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../docs/users/tracepoints.md");

    #[test]
    fn all_lines_of_the_page_are_known() {
        let programs = lines(PAGE).map(|line| line.split(" -").next().unwrap());
        let programs: Vec<_> = programs.collect();
        assert_eq!(programs, ["perf stat", "perf record", "trace-cmd record"]);
        let shown = PAGE.matches("perf ").count() + PAGE.matches("trace-cmd ").count();
        // `perf script` and `trace-cmd report` end two of the lines.
        assert_eq!(shown, 5, "an example is not tried");
    }

    #[test]
    fn fields_are_found() {
        let line =
            "ddagent 1 [0] 5.1: doubledecker_host:dd_evict: vm=1 pool=2 pages=64 tier=memory";
        assert_eq!(field(line, "pages").unwrap(), 64);
        assert!(field(line, "page").is_err() && field(line, "memory_pages").is_err());
    }
}
