// SPDX-License-Identifier: GPL-2.0-only

//! `vm`: boots a host and a guest for interactive use.

use std::{
    env,
    io::IsTerminal as _,
    net::Shutdown,
    os::unix::net::UnixStream,
    sync::mpsc::{self, Receiver, Sender},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use ddlab::{
    Accel, Command, Disk, DiskConfig, FileSpec, Format, Guest, GuestConfig, Lab, LabConfig,
    Machine, Running, Throttle, content,
    terminal::{self, End, Size},
};

use crate::{
    cache,
    image::{self, Content},
    package, progress,
    suite::KernelArgs,
    workspace,
};

/// Boot a host with a guest and open a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    kernel: KernelArgs,
    /// Accelerator of the host machine: kvm, tcg or auto
    #[arg(long, default_value = "auto")]
    accel: Accel,
}

/// Name of the guest.
const GUEST: &str = "one";
/// The guest's interactive console in L1.
const GUEST_TERMINAL: &str = "/run/dd/vm/one/terminal";
/// Consoles of L1 and L2 without messages of the kernel.
const HOST_TTY: &str = "/dev/hvc0";
const GUEST_TTY: &str = "/dev/hvc1";
/// Initialisation file of the shells.
const RC: &str = "/run/dd/bashrc";
/// Number of times that Ctrl-] must be pressed to end the session.
const ESCAPES: usize = 3;

const HINTS: &str = "\
This is L1, the KVM host; the guest `one` (L2) runs in it, with a cloud disk's ext4 at /data.
  insmod doubledecker_host.ko capacity_mib=512     load the host's half, here
  l2                                               enter the guest; Ctrl-] leads back
  insmod doubledecker_guest.ko; ddctl container add /small; ddagent enter small cat /data/large | wc -c
                                                   in there, the last one twice: less memory than file
  ddctl status; ddctl stats --watch; ddctl doctor  on both sides
  exit, or Ctrl-] three times, ends both.
";

pub(crate) fn run(args: &Args) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("this needs a terminal to type in");
    }
    package::install_missing()?;
    let _lock = cache::lock("vm.lock")?;
    let artifacts = image::artifacts(&args.kernel, args.accel, Content::ALL)?;
    let config = LabConfig {
        accel: args.accel,
        terminal: true,
        ..LabConfig::new(artifacts, workspace::target().join("vm"))
    };
    let lab = progress::step("boot the host (L1)", || Lab::boot(config))?;
    let guest = progress::step("boot the guest (L2)", || start_guest(&lab))?;
    talk(&lab, &guest)?;
    Ok(true)
}

fn start_guest(lab: &Lab) -> Result<Guest> {
    let disk = create_disk(lab)?;
    let config = GuestConfig::new(GUEST)
        .disk(&disk, Throttle::CLOUD)
        .terminal();
    let guest = lab.start_guest(&config)?;
    guest.mount(&disk.path_in_guest(), "/data", "ext4", "noatime")?;
    guest.cgroup("small", &[("memory.max", "48M")])?;
    Ok(guest)
}

fn create_disk(lab: &Lab) -> Result<Disk> {
    let mut files = content::small_files("tree", 2000, 16 << 10, 2);
    files.push(FileSpec::new("large", 96 << 20, 1));
    lab.create_disk(&DiskConfig {
        name: "data".to_owned(),
        size_mib: 1024,
        format: Format::Ext4,
        files,
    })
}

/// Connects the terminal with a shell in L1, and from there with one in the guest.
fn talk(lab: &Lab, guest: &Guest) -> Result<()> {
    let stream = lab.terminal()?;
    // People pause for longer than tests.
    let host = lab.host().patient(Duration::MAX);
    eprint!("\n{HINTS}\n");
    let _in_guest = Shell::new("L2", GUEST_TTY).repeated().start(guest)?;
    let in_host = Shell::new("L1", HOST_TTY).start(&host)?;
    let ended = watch(in_host, stream.try_clone()?);
    let resize = resizer([(host, HOST_TTY), (guest.machine().clone(), GUEST_TTY)]);
    let end = terminal::attach(&stream, ESCAPES, |size| {
        let _ = resize.send(size);
    });
    eprintln!("\r");
    match end.context("the terminal failed")? {
        End::Left => Ok(()),
        // The shell or L1 has ended; this returns the reason.
        End::Ended => ended.recv_timeout(Duration::from_secs(5)).unwrap_or(Ok(())),
    }
}

/// A shell on a terminal.
struct Shell {
    name: &'static str,
    line: String,
}

impl Shell {
    fn new(name: &'static str, tty: &str) -> Self {
        let line = format!("setsid --ctty --wait bash --rcfile {RC} -i <>{tty} >&0 2>&0");
        Self { name, line }
    }

    /// Restarts the shell whenever it ends.
    fn repeated(mut self) -> Self {
        self.line = format!("while :; do {} || :; done", self.line);
        self
    }

    fn start(self, machine: &Machine) -> Result<Running> {
        let rc = format!(
            "PS1='{}:\\w# '\nl2() {{ ddagent attach {GUEST_TERMINAL}; }}\n",
            self.name
        );
        machine.write_file(RC, rc)?;
        let term = env::var("TERM").unwrap_or_else(|_| "vt100".to_owned());
        let command = Command::shell(self.line)
            .env("TERM", term)
            .cwd("/opt/dd/modules");
        machine.spawn(&command)
    }
}

/// Waits for the end of the shell, and then ends the stream.
fn watch(mut shell: Running, stream: UnixStream) -> Receiver<Result<()>> {
    let (told, ended) = mpsc::channel();
    thread::spawn(move || {
        let end = shell.wait().map(drop);
        let _ = told.send(end);
        let _ = stream.shutdown(Shutdown::Both);
    });
    ended
}

/// Sets the size of terminals, in the background.
fn resizer<const N: usize>(terminals: [(Machine, &'static str); N]) -> Sender<Size> {
    let (sender, sizes) = mpsc::channel::<Size>();
    thread::spawn(move || {
        for (rows, columns) in sizes {
            for (machine, tty) in &terminals {
                let line = format!("stty -F {tty} rows {rows} columns {columns}");
                // A wrong size is only ugly, and the machine may be gone.
                let _ = machine.shell(line);
            }
        }
    });
    sender
}
