// SPDX-License-Identifier: GPL-2.0-only

//! A machine with Secure Boot loads the modules when their key was enrolled as the documents
//! describe, and not before. The machine is a host. The guest module is loaded there, too, because
//! the kernel judges signatures in the same way in guests.

use anyhow::{Result, ensure};
use ddlab::{Context, Lab, Machine, Output, Scenario, Target};

use crate::{
    ddctl,
    stage::{GUEST, HOST, Stage},
    tracing::says,
};

/// Runs by name only, because the firmware and the boot loaders are needed nowhere else.
pub(crate) const SECURE_BOOT: Scenario = Scenario {
    name: "secure-boot",
    about: "with Secure Boot the modules load if they are signed with a key that was enrolled",
    quick: false,
    run,
};

/// Where DKMS keeps its key. It is on a disk here, because L1's root forgets everything.
const KEYS: &str = "/var/lib/dkms";
/// The password of the request to enrol a key.
const PASSWORD: &str = "enrol1me";
/// Both modules, and the directory of the unsigned ones.
const MODULES: [&str; 2] = [HOST, GUEST];
const UNSIGNED: &str = "/opt/dd/modules";
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
    let [mok, other] = ["mok", "other"].map(|name| format!("{KEYS}/{name}"));
    sign(host, &mok)?;
    sign(host, &other)?;
    are_refused(host, UNSIGNED, "unsigned module")?;
    are_refused(host, &other, UNKNOWN)?;
    are_refused(host, &mok, UNKNOWN)?;

    // A busy machine may miss the ten seconds for which MokManager waits otherwise.
    host.exec_ok(["mokutil", "--timeout", "-1"])?;
    host.shell(format!(
        "printf '{PASSWORD}\\n{PASSWORD}\\n' | mokutil --import {KEYS}/mok.pub && sync"
    ))?;
    lab.enrol(PASSWORD)?;
    furnish()?;
    is_secure(host)?;
    are_refused(host, UNSIGNED, "unsigned module")?;
    are_refused(host, &other, UNKNOWN)?;
    runs_in_guests(host, &mok)?;
    let loaded = insmod(host, &mok, HOST)?;
    ensure!(loaded.exit.success(), "{HOST} was refused: {loaded:?}");
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

/// Makes a key as DKMS does, and signs the modules with it. They are put into the directory `key`,
/// which has the name of the key's files.
fn sign(host: &Machine, key: &str) -> Result<()> {
    host.shell(format!(
        "mkdir {key}
        openssl req -new -x509 -nodes -days 36500 -subj '/CN=DKMS module signing key' \
            -newkey rsa:2048 -keyout {key}.key -addext extendedKeyUsage=codeSigning \
            -outform DER -out {key}.pub
        for module in {}; do
            sign-file sha256 {key}.key {key}.pub {UNSIGNED}/$module.ko {key}/$module.ko
        done",
        MODULES.join(" ")
    ))
    .map(drop)
}

fn insmod(host: &Machine, dir: &str, module: &str) -> Result<Output> {
    host.exec(["insmod", &format!("{dir}/{module}.ko")])
}

/// The modules in a directory are refused, and `insmod`, the kernel's log and `ddctl doctor` name
/// the reason.
fn are_refused(host: &Machine, dir: &str, what: &str) -> Result<()> {
    for module in MODULES {
        let output = insmod(host, dir, module)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            !output.exit.success() && said.contains("Key was rejected by service"),
            "insmod {dir}/{module}.ko: {output:?}"
        );
        says(host, &format!("Loading of {what} is rejected"))?;
    }
    doctor_says(
        host,
        "warn  signatures  this kernel loads only signed modules",
    )
}

/// The kernel accepts the signature of the guest module, and executes it. The module itself then
/// refuses an emulated host, because KVM does not run that.
fn runs_in_guests(host: &Machine, dir: &str) -> Result<()> {
    let output = insmod(host, dir, GUEST)?;
    if output.exit.success() {
        return host.unload_module(GUEST);
    }
    says(host, "not running under KVM")
}

fn doctor_says(host: &Machine, words: &str) -> Result<()> {
    let said = host.exec(["ddctl", "doctor"])?.text();
    ensure!(
        said.contains(words),
        "ddctl doctor does not say {words:?}:\n{said}"
    );
    Ok(())
}
