// SPDX-License-Identifier: GPL-2.0

//! `bench policyd`: what the daemon costs with many containers.

use std::{
    fs::{self, File, OpenOptions},
    io::{Seek as _, Write as _},
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use ddlab::{Target, report};
use serde_json::json;

use crate::{progress, workspace};

/// Part of a core that it may take at most, in percent.
const MOST_CPU: f64 = 1.0;
/// Memory that it may have at most, in MiB.
const MOST_MEMORY: f64 = 20.0;
/// How long it may take to begin, on any machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often counters go on.
const TICK: Duration = Duration::from_secs(1);
/// The kernel's unit of processor time in `/proc`, the same on every kernel of x86-64.
const USER_HZ: u64 = 100;

/// What policyd costs with many containers, on this machine
///
/// Runs the daemon, with its default interval, on a tree of files that look like those of cgroups
/// and change every second. There is no module: what its answers cost is in `cargo bench --package
/// policyd`. Leaves target/bench-policyd/result.json.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many
    #[arg(long, default_value_t = 200)]
    containers: u64,
    /// How many seconds are measured, after ten to begin with
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    progress::step("build policyd", build)?;
    let dir = tempfile::tempdir()?;
    let mut tree = Tree::new(&dir.path().join("cgroup"), args.containers)?;
    let daemon = Daemon::start(dir.path())?;
    tree.live(Duration::from_secs(10))?;
    let (begin, before) = (Instant::now(), daemon.processor()?);
    tree.live(Duration::from_secs(args.seconds))?;
    let (took, used) = (begin.elapsed(), daemon.processor()? - before);
    let memory = daemon.memory_mib()?;

    let cpu = used.as_secs_f64() / took.as_secs_f64() * 100.0;
    let name = |what: &str| format!("policyd with {} containers: {what}", args.containers);
    let targets = [
        Target::at_most(name("processor"), MOST_CPU, cpu, "% of a core"),
        Target::at_most(name("most memory"), MOST_MEMORY, memory, "MiB"),
    ];
    let result = json!({
        "containers": args.containers,
        "measured_s": took.as_secs_f64(),
        "processor_percent": cpu,
        "memory_mib": memory,
        "targets": targets,
    });
    let folder = workspace::target().join("bench-policyd");
    fs::create_dir_all(&folder)?;
    let path = folder.join("result.json");
    let text = format!("{result:#}\n");
    fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    match args.json {
        true => print!("{text}"),
        false => println!("{}", report::table(&targets)),
    }
    Ok(match targets.iter().all(|target| target.met) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn build() -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(workspace::top());
    let status = command
        .args(["build", "--quiet", "--release", "--package", "policyd"])
        .status()
        .context("cannot run cargo")?;
    match status.success() {
        true => Ok(()),
        false => bail!("policyd was not built ({status})"),
    }
}

/// Files as the kernel's, of containers that read.
struct Tree {
    stats: Vec<File>,
    pressures: Vec<File>,
    tick: u64,
}

impl Tree {
    fn new(root: &Path, containers: u64) -> Result<Self> {
        let (mut stats, mut pressures) = (Vec::new(), Vec::new());
        for number in 0..containers {
            let cgroup = root.join(format!("c/{number}"));
            fs::create_dir_all(&cgroup)?;
            fs::write(cgroup.join("memory.current"), "1073741824\n")?;
            let open = |name: &str| {
                let mut options = OpenOptions::new();
                options.create(true).truncate(false).write(true);
                options.open(cgroup.join(name))
            };
            stats.push(open("memory.stat")?);
            pressures.extend([open("memory.pressure")?, open("io.pressure")?]);
        }
        let mut tree = Self {
            stats,
            pressures,
            tick: 0,
        };
        tree.write()?;
        Ok(tree)
    }

    /// Lets counters go on for so long.
    fn live(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            thread::sleep(TICK);
            self.tick += 1;
            self.write()?;
        }
        Ok(())
    }

    /// Numbers are of one length, so that no reader ever finds a part of a file.
    fn write(&mut self) -> Result<()> {
        let tick = self.tick;
        // What a container has beside these, as many lines as the kernel writes.
        let others: String = (0..50)
            .map(|at| format!("other_{at:02} {tick:012}\n"))
            .collect();
        for (number, file) in (1..).zip(&mut self.stats) {
            let refaults: u64 = number * tick;
            file.rewind()?;
            write!(
                file,
                "anon 268435456\nfile 805306368\nshmem 0\n{others}\
                 workingset_refault_anon 0\nworkingset_refault_file {refaults:012}\n"
            )?;
        }
        for (number, file) in (1..).zip(&mut self.pressures) {
            let total: u64 = number * tick * 1_000;
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

/// The daemon, until it is dropped.
struct Daemon {
    child: Child,
    proc: PathBuf,
}

impl Daemon {
    /// Starts it, and waits until it has seen everything once.
    fn start(dir: &Path) -> Result<Self> {
        let file = dir.join("policyd.toml");
        let path = |name: &str| dir.join(name).display().to_string();
        fs::write(
            &file,
            format!(
                "cgroup_root = {:?}\nstatus_socket = {:?}\n[[container]]\nname = \"c\"\n\
                 cgroup = \"/c/*\"\nclass = \"silver\"\n\
                 target = {{ refault_rate = 100, io_pressure = 5 }}\n",
                path("cgroup"),
                path("socket")
            ),
        )?;
        let address = dir.join("notify");
        let manager = UnixDatagram::bind(&address)?;
        manager.set_read_timeout(Some(PATIENCE))?;
        let child = Command::new(workspace::target().join("release/policyd"))
            .args(["run", "--config"])
            .arg(&file)
            .env("NOTIFY_SOCKET", &address)
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start policyd")?;
        let proc = PathBuf::from(format!("/proc/{}", child.id()));
        let daemon = Self { child, proc };
        let mut buffer = [0; 4096];
        loop {
            let length = manager
                .recv(&mut buffer)
                .context("policyd does not begin")?;
            let text = String::from_utf8_lossy(&buffer[..length]);
            if text.lines().any(|line| line == "READY=1") {
                return Ok(daemon);
            }
        }
    }

    /// Time of processors that all its threads have had.
    fn processor(&self) -> Result<Duration> {
        let text = fs::read_to_string(self.proc.join("stat"))?;
        // The name before may hold anything.
        let (_, fields) = text.rsplit_once(')').context("no stat")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks =
            |at: usize| -> Result<u64> { Ok(fields.get(at).context("a short stat")?.parse()?) };
        let ticks = ticks(11)? + ticks(12)?;
        Ok(Duration::from_millis(ticks * 1000 / USER_HZ))
    }

    /// The most memory it has had.
    fn memory_mib(&self) -> Result<f64> {
        let text = fs::read_to_string(self.proc.join("status"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        let kib: f64 = kib.context("no VmHWM")?.parse()?;
        Ok(kib / 1024.0)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
