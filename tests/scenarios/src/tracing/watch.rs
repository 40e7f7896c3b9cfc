// SPDX-License-Identifier: GPL-2.0-only

//! Tracers that are attached to the same functions.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Machine, Running, wait};

use super::hooks::{Function, TRACEFS};

const SIGINT: i32 = 2;

/// A way to trace functions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Tracer {
    /// The function tracer.
    Function,
    /// The function graph tracer, which also sees functions return.
    Graph,
    /// A kprobe and a kretprobe on each function.
    Probes,
    /// BPF programs at entry and exit of each function.
    Bpf,
}

/// A running tracer.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    machine: &'a Machine,
    tracer: Tracer,
    bpftrace: Option<Running>,
}

impl Tracer {
    /// Attaches it to all these functions.
    pub(super) fn start<'a>(
        self,
        machine: &'a Machine,
        functions: &[Function],
    ) -> Result<Watch<'a>> {
        let mut watch = Watch {
            machine,
            tracer: self,
            bpftrace: None,
        };
        match self {
            Self::Function | Self::Graph => watch.trace(functions)?,
            Self::Probes => watch.probe(functions)?,
            Self::Bpf => watch.bpftrace = Some(bpf(machine, functions)?),
        }
        Ok(watch)
    }

    /// Returns its buffer, and the kernel's name for it.
    fn instance(self) -> (String, &'static str) {
        let name = match self {
            Self::Graph => "function_graph",
            _ => "function",
        };
        (format!("{TRACEFS}/instances/{name}"), name)
    }
}

impl Watch<'_> {
    /// Detaches it. It must have seen calls.
    pub(super) fn stop(mut self) -> Result<()> {
        let seen = match self.tracer {
            Tracer::Function | Tracer::Graph => self.stop_trace()?,
            Tracer::Probes => self.stop_probes()?,
            Tracer::Bpf => self.stop_bpf()?,
        };
        ensure!(seen > 0, "{:?} saw no call", self.tracer);
        Ok(())
    }

    fn trace(&self, functions: &[Function]) -> Result<()> {
        let (dir, name) = self.tracer.instance();
        let names: Vec<&str> = functions.iter().map(|one| one.name.as_str()).collect();
        self.machine.shell(format!(
            "mkdir {dir}
            echo 128 > {dir}/buffer_size_kb
            echo '{}' > {dir}/set_ftrace_filter
            echo {name} > {dir}/current_tracer",
            names.join(" ")
        ))?;
        Ok(())
    }

    fn stop_trace(&self) -> Result<u64> {
        let (dir, _) = self.tracer.instance();
        let stats = self.machine.shell(format!(
            "cat {dir}/per_cpu/cpu*/stats
            echo nop > {dir}/current_tracer
            rmdir {dir}"
        ))?;
        let values = stats.lines().filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            ["overrun", "entries"]
                .contains(&name)
                .then(|| value.trim().parse::<u64>().ok())?
        });
        Ok(values.sum())
    }

    fn probe(&self, functions: &[Function]) -> Result<()> {
        let line = |Function { name, .. }: &Function| {
            format!("p:dd/p_{name} {name}\nr:dd/r_{name} {name}\n")
        };
        let lines: String = functions.iter().map(line).collect();
        self.machine.shell(format!(
            "printf '{lines}' > {TRACEFS}/kprobe_events
            echo 1 > {TRACEFS}/events/dd/enable"
        ))?;
        Ok(())
    }

    fn stop_probes(&self) -> Result<u64> {
        let profile = self
            .machine
            .read_text(&format!("{TRACEFS}/kprobe_profile"))?;
        self.machine.shell(format!(
            "echo 0 > {TRACEFS}/events/dd/enable
            : > {TRACEFS}/kprobe_events
            : > {TRACEFS}/trace"
        ))?;
        // Event, hits, misses.
        let hits = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
        Ok(profile.lines().filter_map(hits).sum())
    }

    fn stop_bpf(&mut self) -> Result<u64> {
        let mut bpftrace = self.bpftrace.take().context("bpftrace was not started")?;
        ensure!(
            bpftrace.poll()?.is_none(),
            "bpftrace ended: {}",
            bpftrace.output()?
        );
        bpftrace.kill(SIGINT)?;
        bpftrace.wait()?;
        let output = bpftrace.output()?;
        let count = |name: &str| -> Result<u64> {
            let lines = output.lines();
            let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            let value = values
                .next()
                .with_context(|| format!("no {name}: {output}"))?;
            Ok(value.trim().parse()?)
        };
        let (entries, exits) = (count("@entries")?, count("@exits")?);
        ensure!(exits > 0, "there were {entries} entries and no exit");
        Ok(entries)
    }
}

fn bpf(machine: &Machine, functions: &[Function]) -> Result<Running> {
    let probes = |kind: &str| {
        let one = |function: &Function| {
            let module = function.module.as_deref().unwrap_or("vmlinux");
            format!("{kind}:{module}:{}", function.name)
        };
        functions.iter().map(one).collect::<Vec<_>>().join(",")
    };
    // The output is read once all probes are attached.
    let program = format!(
        "BEGIN {{ printf(\"begun\\n\"); }} {} {{ @entries = count(); }} {} {{ @exits = count(); }}",
        probes("fentry"),
        probes("fexit"),
    );
    let mut running = machine.spawn(&Command::new(["bpftrace", "-e", &program]))?;
    wait::until("bpftrace is attached", || {
        let output = running.output()?;
        ensure!(running.poll()?.is_none(), "bpftrace ended: {output}");
        Ok(output.contains("begun").then_some(()))
    })?;
    Ok(running)
}
