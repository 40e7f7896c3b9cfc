// SPDX-License-Identifier: GPL-2.0-only

//! The packages of a machine: their versions, their daemons, and the files that they leave.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Machine, wait};

use super::{login, walk::Side};

/// Places of files that the packages need not remove: those of the tests
/// (`xtask/src/installed/next.sh`), and what other programs have written about the packages.
const NOT_OURS: [&str; 9] = [
    "/opt/dd",
    "/root/new",
    "/root/old",
    "/tmp",
    "/usr/share/doubledecker-guest-dkms",
    "/usr/share/doubledecker-host-dkms",
    "/var/cache/apt",
    "/var/lib/dpkg/info",
    "/var/log",
];

/// The versions of the installed packages and of the next ones, without Debian's revision.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Versions {
    pub(super) old: String,
    pub(super) new: String,
}

impl Versions {
    /// Reads them from the packages on a machine. The next version must be a later one.
    pub(super) fn of(machine: &Machine) -> Result<Self> {
        let version = |dir: &str| -> Result<String> {
            let deb = format!("/root/{dir}/doubledecker-tools_*.deb");
            let said = login(machine, &format!("dpkg-deb -f {deb} Version"))?;
            Ok(upstream(&said))
        };
        let versions = Self {
            old: version("old")?,
            new: version("new")?,
        };
        let Self { old, new } = &versions;
        login(machine, &format!("dpkg --compare-versions {new} gt {old}"))
            .with_context(|| format!("{new} is not later than {old}"))?;
        Ok(versions)
    }

    /// Returns the version of a machine's loaded module, of the one that the next boot loads, and
    /// of its tools.
    pub(super) fn found(machine: &Machine, module: &str) -> Result<[String; 3]> {
        let loaded = machine.read_text(&format!("/sys/module/{module}/version"))?;
        let built = login(machine, &format!("modinfo -F version {module}"))?;
        let tools = "dpkg-query --show --showformat '${Version}' doubledecker-tools";
        Ok([
            loaded,
            built.trim().to_owned(),
            upstream(&login(machine, tools)?),
        ])
    }
}

/// Returns a package's version without Debian's revision.
fn upstream(version: &str) -> String {
    let version = version.trim();
    let upstream = version.rsplit_once('-').map(|(upstream, _)| upstream);
    upstream.unwrap_or(version).to_owned()
}

/// A daemon that runs.
pub(super) struct Daemon<'a> {
    machine: &'a Machine,
    name: &'static str,
    pid: String,
}

impl<'a> Daemon<'a> {
    /// Returns the daemon of a side, which must run.
    pub(super) fn running(machine: &'a Machine, side: Side) -> Result<Self> {
        let name = match side {
            Side::Host => "ddhostd",
            Side::Guest => "policyd",
        };
        let mut daemon = Self {
            machine,
            name,
            pid: String::new(),
        };
        daemon.pid = daemon.pid_now()?;
        ensure!(daemon.pid != "0", "{name} does not run");
        Ok(daemon)
    }

    fn pid_now(&self) -> Result<String> {
        let ask = format!(
            "systemctl show --value -p MainPID doubledecker-{}",
            self.name
        );
        Ok(login(self.machine, &ask)?.trim().to_owned())
    }

    /// Waits until another process has taken its place, which must execute the installed program
    /// and not a deleted one.
    pub(super) fn has_restarted(&self) -> Result<()> {
        let pid = wait::until(&format!("{} was restarted", self.name), || {
            let pid = self.pid_now()?;
            Ok((pid != "0" && pid != self.pid).then_some(pid))
        })?;
        let program = login(self.machine, &format!("readlink /proc/{pid}/exe"))?;
        ensure!(
            program.trim() == format!("/usr/sbin/{}", self.name),
            "{} executes {program}",
            self.name
        );
        Ok(())
    }
}

/// Returns the paths of the files that the packages have left on a machine's disk.
pub(super) fn left(machine: &Machine) -> Result<Vec<String>> {
    let pruned = NOT_OURS.map(|path| format!("-path {path}")).join(" -o ");
    let names = ["doubledecker", "ddctl", "ddhostd", "policyd"];
    let named = names.map(|name| format!("-iname '*{name}*'")).join(" -o ");
    let find = format!("find / -xdev \\( {pruned} \\) -prune -o \\( {named} \\) -print");
    Ok(login(machine, &find)?.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_is_no_part_of_a_version() {
        assert_eq!(upstream("0.1.0~git7.ab.dirty-1\n"), "0.1.0~git7.ab.dirty");
        assert_eq!(upstream("0.1.0"), "0.1.0");
    }
}
