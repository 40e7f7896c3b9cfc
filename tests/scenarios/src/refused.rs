// SPDX-License-Identifier: GPL-2.0-only

//! Modules refuse unsupported kernels, and name the reason.

use anyhow::{Result, ensure};
use ddlab::{Context, Machine, Scenario, Target};

use crate::stage::{GUEST, HOST};

/// Runs on a kernel with `PREEMPT_RT`: `cargo xtask test vm refused --flavour rt-amd64`.
pub(crate) const REFUSED: Scenario = Scenario {
    name: "refused",
    about: "both modules and ddctl doctor refuse kernels with PREEMPT_RT, and name the reason",
    quick: false,
    run,
};

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let lab = context.lab()?;
    let version = lab.host().read_text("/proc/sys/kernel/version")?;
    ensure!(
        version.contains("PREEMPT_RT"),
        "this shows something on kernels of --flavour rt-amd64 only"
    );
    // The module that the host module is linked against. KVM itself runs on such kernels only on
    // processors with a constant time stamp counter, which emulated ones do not have.
    lab.host().shell("modprobe kvm")?;
    is_refused(lab.host(), HOST)?;
    is_refused(lab.host(), GUEST)?;
    Ok(Vec::new())
}

fn is_refused(machine: &Machine, module: &str) -> Result<()> {
    ensure!(
        machine.load_module(module, &[]).is_err(),
        "{module} was loaded"
    );
    let log = machine.exec_ok(["dmesg"])?;
    ensure!(
        log.contains(&format!(
            "{module}: kernels with PREEMPT_RT are not supported"
        )),
        "{module} did not report the reason:\n{log}"
    );
    let output = machine.exec(["ddctl", "doctor"])?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        !output.exit.success() && said.contains("PREEMPT_RT"),
        "ddctl doctor does not report it:\n{said}"
    );
    Ok(())
}
