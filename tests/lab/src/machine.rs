// SPDX-License-Identifier: GPL-2.0-only

//! A machine of the lab, used through its agent.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use ddagent::protocol::{Answer, Op, Output, Sum};

use crate::{command::Command, console, link::Link, read::ReadSpec, running::Running};

/// Default limit of a request, far more than any request needs.
const LIMIT: Duration = Duration::from_secs(900);

/// Name of the host module.
pub const HOST_MODULE: &str = "doubledecker_host";
/// Name of the guest module.
pub const GUEST_MODULE: &str = "doubledecker_guest";

/// Directory of the modules in images, below `/opt/dd`.
pub const MODULES: &str = "modules";

/// Returns the directory of modules that were built with patches of `tests/mutations`, below
/// `/opt/dd`. It has only the modules that the patches change.
#[must_use]
pub fn mutated_modules(patches: &[&str]) -> String {
    format!("mutated-modules/{}", patches.join("+"))
}

/// Directory of the kernel's selftests below `/opt/dd`, for scenarios that need them.
pub const SELFTESTS: &str = "selftests";

/// Directory of the kernel and the initial filesystem of an installed guest, below `/opt/dd`.
pub const INSTALLED: &str = "boot/installed";
/// That of its former kernel.
pub const FORMER: &str = "boot/former";

/// The control file of kernels with `DEBUG_KMEMLEAK`.
const LEAKS: &str = "/sys/kernel/debug/kmemleak";

/// L1 or a guest. Cloning is cheap, and requests of several threads run concurrently.
#[derive(Clone)]
pub struct Machine {
    link: Arc<Link>,
    vm: Option<String>,
    limit: Duration,
}

impl Machine {
    pub(crate) fn new(link: Arc<Link>, vm: Option<String>) -> Self {
        Self {
            link,
            vm,
            limit: LIMIT,
        }
    }

    /// Returns the same machine with another limit for each request.
    #[must_use]
    pub fn patient(&self, limit: Duration) -> Self {
        Self {
            limit,
            ..self.clone()
        }
    }

    /// Returns `L1`, or the guest's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.vm.as_deref().unwrap_or("L1")
    }

    /// Waits until the agent answers.
    pub(crate) fn ping(&self) -> Result<()> {
        self.call(Op::Ping).map(drop)
    }

    /// Runs a program to its end. The caller judges the exit status.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started, or the machine dies.
    pub fn run(&self, command: &Command) -> Result<Output> {
        match self.call(Op::Exec(command.0.clone()))? {
            Answer::Output(output) => Ok(output),
            other => unexpected(&other),
        }
        .with_context(|| format!("{}: {:?}", self.name(), command.0.argv))
    }

    /// Runs a program that must succeed, and returns its standard output.
    ///
    /// # Errors
    ///
    /// Fails if the program fails. The error has its output.
    pub fn run_ok(&self, command: &Command) -> Result<String> {
        let output = self.run(command)?;
        if !output.exit.success() {
            bail!(
                "{}: {:?} failed ({:?})\n{}{}",
                self.name(),
                command.0.argv,
                output.exit,
                output.text(),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(output.text())
    }

    /// Runs a program like [`Machine::run`], given by its arguments.
    ///
    /// # Errors
    ///
    /// See [`Machine::run`].
    pub fn exec<I>(&self, argv: I) -> Result<Output>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.run(&Command::new(argv))
    }

    /// Runs a program like [`Machine::run_ok`], given by its arguments.
    ///
    /// # Errors
    ///
    /// See [`Machine::run_ok`].
    pub fn exec_ok<I>(&self, argv: I) -> Result<String>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.run_ok(&Command::new(argv))
    }

    /// Runs a line of shell like [`Machine::run_ok`].
    ///
    /// # Errors
    ///
    /// See [`Machine::run_ok`].
    pub fn shell(&self, line: impl Into<String>) -> Result<String> {
        self.run_ok(&Command::shell(line))
    }

    /// Starts a program in the background. It ends with its handle, or with the machine at the
    /// latest.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started.
    pub fn spawn(&self, command: &Command) -> Result<Running> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let output = format!("/run/dd/output-{number}");
        let op = Op::Spawn {
            command: command.0.clone(),
            output: output.clone(),
        };
        match self.call(op)? {
            Answer::Spawned { handle, pid } => Ok(Running::new(self.clone(), handle, pid, output)),
            other => unexpected(&other),
        }
    }

    /// Returns the content of a file, also of `/proc` and `/sys`.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read.
    pub fn read_file(&self, path: &str) -> Result<Vec<u8>> {
        self.read_file_from(path, 0)
    }

    pub(crate) fn read_file_from(&self, path: &str, offset: u64) -> Result<Vec<u8>> {
        let op = Op::ReadFile {
            path: path.to_owned(),
            offset,
            limit: u64::MAX,
        };
        match self.call(op)? {
            Answer::Bytes { data } => Ok(data),
            other => unexpected(&other),
        }
    }

    /// Returns the content of a text file, trimmed.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read.
    pub fn read_text(&self, path: &str) -> Result<String> {
        let data = self.read_file(path)?;
        Ok(String::from_utf8_lossy(&data).trim().to_owned())
    }

    /// Writes a file. Its directory must exist.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub fn write_file(&self, path: &str, data: impl Into<Vec<u8>>) -> Result<()> {
        self.call(Op::WriteFile {
            path: path.to_owned(),
            data: data.into(),
            append: false,
        })
        .map(drop)
    }

    /// Mounts a filesystem, after making the mount point.
    ///
    /// # Errors
    ///
    /// Returns the errors of mount(2).
    pub fn mount(&self, source: &str, target: &str, fstype: &str, options: &str) -> Result<()> {
        self.call(Op::Mount {
            source: source.to_owned(),
            target: target.to_owned(),
            fstype: fstype.to_owned(),
            options: options.to_owned(),
        })
        .map(drop)
    }

    /// Makes the agent itself read a file.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read.
    pub fn read(&self, spec: &ReadSpec) -> Result<Sum> {
        match self.call(Op::Read(spec.0.clone()))? {
            Answer::Sum(sum) => Ok(sum),
            other => unexpected(&other),
        }
    }

    /// Returns the blake3 digest of a whole file that is read through the page cache.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read.
    pub fn checksum(&self, path: &str) -> Result<String> {
        let sum = self.read(&ReadSpec::new(path))?;
        sum.digest.context("the agent sent no digest")
    }

    /// Reads all regular files below a directory in the order of their paths. The digest is
    /// comparable with [`crate::content::tree_digest`].
    ///
    /// # Errors
    ///
    /// Fails if one cannot be read.
    pub fn read_tree(&self, path: &str, digest: bool, cgroup: Option<&str>) -> Result<Sum> {
        let op = Op::ReadTree {
            path: path.to_owned(),
            digest,
            cgroup: cgroup.map(str::to_owned),
        };
        match self.call(op)? {
            Answer::Sum(sum) => Ok(sum),
            other => unexpected(&other),
        }
    }

    /// Creates a cgroup (path below the mount, with controllers enabled on the way) and writes its
    /// files in order.
    ///
    /// # Errors
    ///
    /// Returns the errors of the kernel.
    pub fn cgroup(&self, path: &str, set: &[(&str, &str)]) -> Result<()> {
        self.call(Op::Cgroup {
            path: path.to_owned(),
            set: set
                .iter()
                .map(|(file, value)| ((*file).to_owned(), (*value).to_owned()))
                .collect(),
        })
        .map(drop)
    }

    /// Drops clean pages and, with `objects`, dentries and inodes too.
    ///
    /// # Errors
    ///
    /// Fails if the machine is dead.
    pub fn drop_caches(&self, objects: bool) -> Result<()> {
        self.exec_ok(["sync"])?;
        self.write_file("/proc/sys/vm/drop_caches", if objects { "3" } else { "1" })
    }

    /// Loads one of the project's modules with parameters (`name=value`).
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses it, or the image lacks a build that [`crate::Lab::mutate`] asked
    /// for.
    pub fn load_module(&self, name: &str, parameters: &[&str]) -> Result<()> {
        let file = format!("{name}.ko");
        let dir = match self.link.mutations().as_slice() {
            [] => MODULES.to_owned(),
            patches => {
                let mutated = mutated_modules(patches);
                let built = self.exec_ok(["ls", &format!("/opt/dd/{mutated}")])?;
                // A module that the patches do not change is loaded from the usual directory.
                match built.lines().any(|one| one == file) {
                    true => mutated,
                    false => MODULES.to_owned(),
                }
            }
        };
        let argv = ["insmod".to_owned(), format!("/opt/dd/{dir}/{file}")];
        let parameters = parameters.iter().map(|&parameter| parameter.to_owned());
        self.exec_ok(argv.into_iter().chain(parameters)).map(drop)
    }

    /// Unloads a module.
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses.
    pub fn unload_module(&self, name: &str) -> Result<()> {
        self.exec_ok(["rmmod", name]).map(drop)
    }

    /// Returns whether a module is loaded.
    ///
    /// # Errors
    ///
    /// Fails if the machine is dead.
    pub fn has_module(&self, name: &str) -> Result<bool> {
        let loaded = self.read_text("/proc/modules")?;
        Ok(loaded
            .lines()
            .any(|line| line.split(' ').next() == Some(name)))
    }

    /// Fails if the kernel is tainted by more than the modules.
    ///
    /// # Errors
    ///
    /// The error has the mask.
    pub fn check_taint(&self) -> Result<()> {
        let mask: u64 = self.read_text("/proc/sys/kernel/tainted")?.parse()?;
        if console::is_foreign_taint(mask) {
            bail!("{}: the kernel is tainted ({mask:#x})", self.name());
        }
        Ok(())
    }

    /// Returns whether its kernel has checks, which take time and memory.
    pub fn checks_itself(&self) -> bool {
        self.link.vitals.pace > 1
    }

    /// Returns `seconds` times the factor by which its kernel's checks make it slower.
    pub fn at_its_pace(&self, seconds: f64) -> f64 {
        seconds * f64::from(self.link.vitals.pace)
    }

    /// Makes a kernel with kmemleak search for memory without references, and report it on the
    /// console.
    ///
    /// # Errors
    ///
    /// Fails if the machine is dead.
    pub(crate) fn search_leaks(&self) -> Result<()> {
        if !self.checks_itself() {
            return Ok(());
        }
        // The first scan only finds suspects.
        self.shell(format!(
            "test ! -e {LEAKS} || for look in 1 2; do echo scan > {LEAKS}; done"
        ))
        .map(drop)
    }

    pub(crate) fn call(&self, op: Op) -> Result<Answer> {
        self.link
            .call(self.vm.as_deref(), op, self.limit)
            .with_context(|| format!("in {}", self.name()))
    }

    /// Sends a request without waiting for its answer.
    pub(crate) fn tell(&self, op: Op) -> Result<()> {
        self.link.tell(self.vm.as_deref(), op)
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_tuple("Machine").field(&self.name()).finish()
    }
}

pub(crate) fn unexpected<T>(answer: &Answer) -> Result<T> {
    bail!("the agent's answer has another type: {answer:?}")
}
