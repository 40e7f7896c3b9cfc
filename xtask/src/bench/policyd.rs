// SPDX-License-Identifier: GPL-2.0-only

//! `bench policyd`: measures the daemon with many containers.

use std::{
    fs::{self, File, OpenOptions},
    io::{Seek as _, Write as _},
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use ddlab::{Target, report, usage};
use serde_json::{Value, json};

use crate::{tools, workspace};

/// Maximum processor time, in percent of a core.
const MAX_CPU: f64 = 1.0;
/// Maximum memory in MiB.
const MAX_MEMORY: f64 = 20.0;
/// Time allowed for the daemon's start, on any machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Interval between two changes of the counters.
const TICK: Duration = Duration::from_secs(1);
/// Seconds before the measurement: two looks of the daemon.
const BEGIN: u64 = 10;

/// Measure policyd with many containers, on this machine
///
/// Runs the daemon, with its default interval, on a tree of files that look like those of cgroups
/// and change every second; then again while other containers are created and removed. There is no
/// module: `cargo bench --package policyd` measures decisions about its answers. Writes
/// target/bench-policyd/result.json.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Numbers of containers, one run for each
    #[arg(long, value_delimiter = ',', default_values_t = [200, 1000])]
    containers: Vec<u64>,
    /// Number of containers that are created and removed in the second part
    #[arg(long, default_value_t = 1000)]
    churn: u64,
    /// Seconds of each part, after ten seconds for the start
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<bool> {
    let program = tools::build(&["policyd"])?.join("policyd");
    let mut targets = Vec::new();
    let mut runs = Vec::new();
    for count in &args.containers {
        let (quiet, churn) = measure(&program, *count, args)?;
        let name = |what: &str| format!("policyd with {count} containers: {what}");
        let coming =
            |what: &str| format!("{what} while {} more are created and removed", args.churn);
        let unit = "% of a core";
        let (processor, memory) = (coming("processor"), coming("most memory"));
        targets.extend([
            Target::at_most(name("processor"), MAX_CPU, quiet.percent, unit),
            Target::at_most(name("most memory"), MAX_MEMORY, quiet.mib, "MiB"),
            Target::at_most(name(&processor), MAX_CPU, churn.percent, unit),
            Target::at_most(name(&memory), MAX_MEMORY, churn.mib, "MiB"),
        ]);
        runs.push(json!({
            "containers": count,
            "measured_s": quiet.seconds,
            "processor_percent": quiet.percent,
            "memory_mib": quiet.mib,
            "churn_measured_s": churn.seconds,
            "churn_processor_percent": churn.percent,
            "churn_memory_mib": churn.mib,
        }));
    }
    let result = json!({ "churn": args.churn, "runs": runs, "targets": targets });
    let path = workspace::target().join("bench-policyd/result.json");
    report::write_json(&path, &result)?;
    match args.json {
        true => println!("{result:#}"),
        false => println!("{}", report::table(&targets)),
    }
    Ok(targets.iter().all(|target| target.met))
}

/// Measures the daemon with this number of containers, first alone, and then while others are
/// created and removed.
fn measure(program: &Path, containers: u64, args: &Args) -> Result<(Cost, Cost)> {
    let dir = tempfile::tempdir()?;
    let mut tree = Tree::new(&dir.path().join("cgroup"), containers)?;
    let daemon = Daemon::start(program, dir.path())?;
    tree.live(BEGIN, 0)?;
    daemon.knows(containers)?;
    let quiet = daemon.cost(|| tree.live(args.seconds, 0))?;
    let churn = daemon.cost(|| tree.live(args.seconds, args.churn))?;
    tree.settle()?;
    daemon.knows(containers)?;
    Ok((quiet, churn))
}

/// The files of a cgroup of a container that reads, like the kernel's.
struct Cgroup {
    folder: PathBuf,
    number: u64,
    stat: File,
    pressures: [File; 2],
}

impl Cgroup {
    fn new(root: &Path, number: u64, tick: u64) -> Result<Self> {
        let folder = root.join(format!("c/{number}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("memory.current"), "1073741824\n")?;
        let open = |name: &str| {
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).write(true);
            options.open(folder.join(name))
        };
        let mut cgroup = Self {
            stat: open("memory.stat")?,
            pressures: [open("memory.pressure")?, open("io.pressure")?],
            folder,
            number,
        };
        cgroup.write(tick)?;
        Ok(cgroup)
    }

    /// Writes the files. Numbers have a fixed length, so that a reader never finds a part of a
    /// file.
    fn write(&mut self, tick: u64) -> Result<()> {
        // The other lines of a container, as many as the kernel writes.
        let others: String = (0..50)
            .map(|at| format!("other_{at:02} {tick:012}\n"))
            .collect();
        let refaults = self.number * tick;
        self.stat.rewind()?;
        write!(
            self.stat,
            "anon 268435456\nfile 805306368\nshmem 0\n{others}\
             workingset_refault_anon 0\nworkingset_refault_file {refaults:012}\n"
        )?;
        let total = refaults * 1_000;
        for file in &mut self.pressures {
            file.rewind()?;
            for kind in ["some", "full"] {
                writeln!(
                    file,
                    "{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={total:012}"
                )?;
            }
        }
        Ok(())
    }
}

/// Cgroups that stay, and cgroups that are removed again.
struct Tree {
    root: PathBuf,
    lasting: Vec<Cgroup>,
    passing: Vec<Cgroup>,
    tick: u64,
    /// Number of cgroups created so far.
    numbers: u64,
}

impl Tree {
    fn new(root: &Path, containers: u64) -> Result<Self> {
        let lasting = (0..containers).map(|number| Cgroup::new(root, number, 0));
        Ok(Self {
            root: root.into(),
            lasting: lasting.collect::<Result<_>>()?,
            passing: Vec::new(),
            tick: 0,
            numbers: containers,
        })
    }

    /// Advances the counters for `seconds` seconds, in which `churn` more cgroups appear; each is
    /// removed a second later.
    fn live(&mut self, seconds: u64, churn: u64) -> Result<()> {
        let last = self.numbers + churn;
        for left in (0..seconds).rev() {
            thread::sleep(TICK);
            self.tick += 1;
            self.settle()?;
            let come = (last - self.numbers) / (left + 1);
            for number in self.numbers..self.numbers + come {
                let cgroup = Cgroup::new(&self.root, number, self.tick)?;
                self.passing.push(cgroup);
            }
            self.numbers += come;
            for cgroup in &mut self.lasting {
                cgroup.write(self.tick)?;
            }
        }
        Ok(())
    }

    /// Removes the cgroups that do not stay.
    fn settle(&mut self) -> Result<()> {
        for cgroup in self.passing.drain(..) {
            fs::remove_dir_all(cgroup.folder)?;
        }
        Ok(())
    }
}

/// Resources that the daemon used.
struct Cost {
    seconds: f64,
    /// Processor time in percent of a core.
    percent: f64,
    /// Maximum memory so far.
    mib: f64,
}

/// The running daemon. It ends when the value is dropped.
struct Daemon {
    program: PathBuf,
    socket: PathBuf,
    child: Child,
    proc: PathBuf,
}

impl Daemon {
    /// Starts the daemon, and waits until it has measured all containers once.
    fn start(program: &Path, dir: &Path) -> Result<Self> {
        let file = dir.join("policyd.toml");
        let path = |name: &str| dir.join(name).display().to_string();
        fs::write(
            &file,
            format!(
                "cgroup_root = {:?}\nstatus_socket = {:?}\n[[container]]\nname = \"c\"\n\
                 cgroup = \"/c/*\"\nmost_cgroups = 1023\nclass = \"silver\"\n\
                 target = {{ refault_rate = 100, io_pressure = 5 }}\n",
                path("cgroup"),
                path("socket")
            ),
        )?;
        let address = dir.join("notify");
        let manager = UnixDatagram::bind(&address)?;
        manager.set_read_timeout(Some(PATIENCE))?;
        let child = Command::new(program)
            .args(["run", "--config"])
            .arg(&file)
            .env("NOTIFY_SOCKET", &address)
            // The daemon of this machine, if there is one, is not disturbed.
            .env("RUNTIME_DIRECTORY", dir)
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start policyd")?;
        let proc = PathBuf::from(format!("/proc/{}", child.id()));
        let daemon = Self {
            program: program.into(),
            socket: dir.join("socket"),
            child,
            proc,
        };
        let mut buffer = [0; 4096];
        loop {
            let length = manager
                .recv(&mut buffer)
                .context("policyd does not report that it is ready")?;
            let text = String::from_utf8_lossy(&buffer[..length]);
            if text.lines().any(|line| line == "READY=1") {
                return Ok(daemon);
            }
        }
    }

    /// Waits until the daemon reports that it has measured this number of containers and no others.
    /// The figures of a daemon that does nothing would be worthless.
    fn knows(&self, containers: u64) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let output = Command::new(&self.program)
                .args(["explain", "--json", "--socket"])
                .arg(&self.socket)
                .output()?;
            let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let known = report["containers"].as_array();
            let known = known.map_or(&[][..], Vec::as_slice);
            let measured = |one: &Value| one["memory_bytes"].as_u64() > Some(0);
            if known.len() as u64 == containers && known.iter().all(measured) {
                return Ok(());
            }
            if Instant::now() > end {
                bail!(
                    "policyd has measured {} of {containers} containers",
                    known.len()
                );
            }
            thread::sleep(TICK);
        }
    }

    /// Returns the resources that the daemon uses while `work` runs.
    fn cost(&self, work: impl FnOnce() -> Result<()>) -> Result<Cost> {
        let (begin, before) = (Instant::now(), self.processor()?);
        work()?;
        let seconds = begin.elapsed().as_secs_f64();
        let used = self.processor()?.saturating_sub(before).as_secs_f64();
        Ok(Cost {
            seconds,
            percent: used / seconds * 100.0,
            mib: self.memory_mib()?,
        })
    }

    /// Returns the processor time of all its threads.
    fn processor(&self) -> Result<Duration> {
        let text = fs::read_to_string(self.proc.join("stat"))?;
        usage::processor_time(&text).context("the line of stat is too short")
    }

    /// Returns the maximum memory so far.
    fn memory_mib(&self) -> Result<f64> {
        let text = fs::read_to_string(self.proc.join("status"))?;
        usage::peak_mib(&text).context("no VmHWM")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
