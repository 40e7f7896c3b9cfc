// SPDX-License-Identifier: GPL-2.0-only

//! Checks of the module: whether it is loaded, its version, and its link to the other side.

use super::Examination;
use ddabi::{ABI_VERSION, genl::LinkState};
use ddnl::{Error, GuestStatus, HostStatus, Result, Side};

pub(super) fn examine(examination: &mut Examination<'_>) {
    match examination.side {
        Side::Guest => {
            let status = examination
                .system
                .guest()
                .and_then(|mut guest| guest.status());
            if let Some(status) = module(examination, status, |status| &status.module_version) {
                link(examination, &status);
            }
        }
        Side::Host => {
            let status = examination.system.host().and_then(|mut host| host.status());
            if let Some(status) = module(examination, status, |status| &status.module_version) {
                tier(examination, &status);
            }
        }
    }
}

/// Reports whether the module answered, and returns its status.
fn module<T>(
    examination: &mut Examination<'_>,
    status: Result<T>,
    version: fn(&T) -> &Option<String>,
) -> Option<T> {
    match status {
        Ok(status) => {
            let version = version(&status).as_deref().unwrap_or("of unknown version");
            let name = examination.side.module();
            examination.ok("module", format!("{name} {version}, ABI {ABI_VERSION}"));
            Some(status)
        }
        Err(error) => {
            let advice = match &error {
                Error::NotLoaded { side } => loading(examination, *side),
                error => error
                    .advice()
                    .unwrap_or_else(|| "see the kernel log".into()),
            };
            examination.fail("module", error.to_string(), &advice);
            None
        }
    }
}

/// Returns how to load a module that is installed for this kernel, or is not.
fn loading(examination: &Examination<'_>, side: Side) -> String {
    let (name, release) = (
        side.module(),
        examination.read("/proc/sys/kernel/osrelease"),
    );
    let list = examination.read(&format!("/lib/modules/{}/modules.dep", release.trim()));
    let file = format!("/{name}.ko");
    let is_it = |line: &str| {
        line.split(':')
            .next()
            .is_some_and(|path| path.contains(&file))
    };
    if list.lines().any(is_it) {
        return format!("run `modprobe {name}`");
    }
    format!(
        "it is not installed for this kernel: install the package {}-dkms, or build it, and run \
         `modprobe {name}`",
        name.replace('_', "-")
    )
}

fn link(examination: &mut Examination<'_>, status: &GuestStatus) {
    match status.state {
        LinkState::Attached => examination.ok("host", "attached"),
        LinkState::Alone => examination.warn(
            "host",
            "no host answers: nothing is cached",
            "run `modprobe doubledecker_host` on the KVM host; the guest finds it within seconds",
        ),
        LinkState::Refused => examination.fail(
            "host",
            "the host refuses this guest, or the kernel does not let the module attach",
            "see the kernel log for the reason, and compare the versions of both modules",
        ),
    }
}

fn tier(examination: &mut Examination<'_>, status: &HostStatus) {
    if status.capacity == 0 {
        examination.warn(
            "capacity",
            "the memory tier has no capacity: nothing is cached",
            "run `ddctl set-capacity 25%`",
        );
    } else {
        examination.ok("capacity", ddconf::size::show_pages(status.capacity));
    }
    let counters = &status.counters;
    if counters.refused_unsupported > 0 {
        examination.warn(
            "guests",
            format!(
                "{} calls with another ABI version were refused",
                counters.refused_unsupported
            ),
            "install the doubledecker_guest of this release in all VMs",
        );
    }
}
