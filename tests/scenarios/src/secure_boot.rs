// SPDX-License-Identifier: GPL-2.0-only

//! A host with Secure Boot loads the module when its key was enrolled as the documents describe,
//! and not before.

use anyhow::{Result, ensure};
use ddlab::{Context, Lab, Machine, Output, Scenario, Target};

use crate::{
    ddctl,
    stage::{HOST, Stage},
    tracing::says,
};

/// Runs by name only, because the firmware and the boot loaders are needed nowhere else.
pub(crate) const SECURE_BOOT: Scenario = Scenario {
    name: "secure-boot",
    about: "with Secure Boot the host module loads if it is signed with a key that was enrolled",
    quick: false,
    run,
};

/// Where DKMS keeps its key. It is on a disk here, because L1's root forgets everything.
const KEYS: &str = "/var/lib/dkms";
/// The password of the request to enrol a key.
const PASSWORD: &str = "enrol1me";
/// The kernel's name for a module with a signature of a key that it does not know.
const UNKNOWN: &str = "module with unavailable key";
/// The taint of a module from outside of the kernel's tree whose signature is right.
const OUT_OF_TREE: &str = "4096";

fn run(context: &mut Context) -> Result<Vec<Target>> {
    let lab = context.secure_boot_lab()?;
    enrol(lab)?;
    context.end_lab()?;
    Ok(Vec::new())
}

fn enrol(lab: &Lab) -> Result<()> {
    let host = lab.host();
    let disk = Stage { lab }.disk("keys", Vec::new())?;
    let furnish = || -> Result<()> {
        host.mount("securityfs", "/sys/kernel/security", "securityfs", "")?;
        host.mount("efivarfs", "/sys/firmware/efi/efivars", "efivarfs", "")?;
        host.mount(&disk.path_in_host(), KEYS, "ext4", "")
    };
    furnish()?;
    is_secure(host)?;
    sign(host, "mok")?;
    sign(host, "other")?;
    host.shell(format!("cp /opt/dd/modules/{HOST}.ko {KEYS}/unsigned.ko"))?;
    is_refused(host, "unsigned", "unsigned module")?;
    is_refused(host, "other", UNKNOWN)?;
    is_refused(host, "mok", UNKNOWN)?;

    // A busy machine may miss the ten seconds for which MokManager waits otherwise.
    host.exec_ok(["mokutil", "--timeout", "-1"])?;
    host.shell(format!(
        "printf '{PASSWORD}\\n{PASSWORD}\\n' | mokutil --import {KEYS}/mok.pub && sync"
    ))?;
    lab.enrol(PASSWORD)?;
    furnish()?;
    is_secure(host)?;
    is_refused(host, "unsigned", "unsigned module")?;
    is_refused(host, "other", UNKNOWN)?;
    let loaded = insmod(host, "mok")?;
    ensure!(loaded.exit.success(), "mok.ko was refused: {loaded:?}");
    doctor_says(host, "ok    signatures")?;
    let status = ddctl::host(host)?;
    ensure!(status.capacity_pages > 0, "no capacity: {status:?}");
    let taint = host.read_text("/proc/sys/kernel/tainted")?;
    ensure!(taint == OUT_OF_TREE, "the kernel's taint is {taint}");
    Ok(())
}

fn is_secure(host: &Machine) -> Result<()> {
    let state = host.exec_ok(["mokutil", "--sb-state"])?;
    ensure!(state.trim() == "SecureBoot enabled", "{state}");
    says(host, "Kernel is locked down from EFI Secure Boot")
}

/// Makes a key as DKMS does, and signs the host module with it.
fn sign(host: &Machine, name: &str) -> Result<()> {
    host.shell(format!(
        "cd {KEYS}
        openssl req -new -x509 -nodes -days 36500 -subj '/CN=DKMS module signing key' \
            -newkey rsa:2048 -keyout {name}.key -addext extendedKeyUsage=codeSigning \
            -outform DER -out {name}.pub
        sign-file sha256 {name}.key {name}.pub /opt/dd/modules/{HOST}.ko {name}.ko"
    ))
    .map(drop)
}

fn insmod(host: &Machine, module: &str) -> Result<Output> {
    host.exec(["insmod", &format!("{KEYS}/{module}.ko")])
}

/// The module is refused, and `insmod`, the kernel's log and `ddctl doctor` name the reason.
fn is_refused(host: &Machine, module: &str, what: &str) -> Result<()> {
    let output = insmod(host, module)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        !output.exit.success() && said.contains("Key was rejected by service"),
        "insmod {module}.ko: {output:?}"
    );
    says(host, &format!("Loading of {what} is rejected"))?;
    doctor_says(
        host,
        "warn  signatures  this kernel loads only signed modules",
    )
}

fn doctor_says(host: &Machine, words: &str) -> Result<()> {
    let said = host.exec(["ddctl", "doctor"])?.text();
    ensure!(
        said.contains(words),
        "ddctl doctor does not say {words:?}:\n{said}"
    );
    Ok(())
}
