// SPDX-License-Identifier: GPL-2.0-only

//! A host whose firmware starts signed programs only: shim, which starts GRUB, which starts the
//! kernel. The key of shim's signature is in the firmware, and the keys of the others are in shim
//! and, as a person enrols them at the console, in the firmware's variables.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail};
use ddagent::qmp;
use serde_json::json;

use super::{Lab, LabConfig};
use crate::{artifacts::SecureBoot, wait};

/// The firmware, and its variables with Microsoft's keys, below [`SecureBoot::root`].
const CODE: &str = "usr/share/OVMF/OVMF_CODE_4M.secboot.fd";
const VARIABLES: &str = "usr/share/OVMF/OVMF_VARS_4M.ms.fd";
/// The boot loaders below [`SecureBoot::root`], each with its place in the system partition.
const LOADERS: [(&str, &str); 3] = [
    ("usr/lib/shim/shimx64.efi.signed", "EFI/BOOT/BOOTX64.EFI"),
    ("usr/lib/shim/mmx64.efi.signed", "EFI/BOOT/mmx64.efi"),
    (
        "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed",
        "EFI/BOOT/grubx64.efi",
    ),
];
/// Size of the system partition in sectors.
const SECTORS: &str = "131072";

/// What MokManager shows, each time with the keys that a person presses to enrol a key. The
/// password is typed before the keys of its line.
const DIALOGUE: [(&str, &[&str]); 5] = [
    ("Enroll MOK", &["down", "ret"]),
    ("View key 0", &["down", "ret"]),
    ("Enroll the key(s)?", &["down", "ret"]),
    (PASSWORD, &["ret"]),
    ("Reboot", &["ret"]),
];
const PASSWORD: &str = "Password:";

/// Returns the emulator's arguments.
pub(super) fn arguments(from: &SecureBoot, work: &Path) -> Vec<String> {
    let (code, work) = (from.root.join(CODE), work.display());
    let code = code.display();
    [
        "-machine",
        "smm=on",
        "-global",
        // Without this, the kernel could write the variables by itself.
        "driver=cfi.pflash01,property=secure,value=on",
        "-drive",
        &format!("if=pflash,unit=0,file={code},format=raw,readonly=on,file.locking=off"),
        "-drive",
        &format!("if=pflash,unit=1,file={work}/variables,format=raw"),
        "-drive",
        &format!("if=none,id=esp,file={work}/esp,format=raw,readonly=on"),
        "-device",
        "virtio-blk-pci,drive=esp,serial=esp,bootindex=0",
    ]
    .map(str::to_owned)
    .to_vec()
}

/// Makes the firmware's variables and the system partition.
pub(super) fn furnish(config: &LabConfig, from: &SecureBoot, work: &Path) -> Result<()> {
    let variables = from.root.join(VARIABLES);
    fs::copy(&variables, work.join("variables"))
        .with_context(|| format!("cannot copy {}", variables.display()))?;
    let menu = work.join("grub.cfg");
    let line = config.command_line();
    fs::write(
        &menu,
        format!("linux /vmlinuz {line}\ninitrd /initrd\nboot\n"),
    )?;
    let partition = work.join("esp");
    let mtools = |tool: &str, arguments: &[&str]| {
        let mut command = Command::new(&from.mtools);
        command.args(["-c", tool, "-i"]).arg(&partition);
        let output = command
            .args(arguments)
            .output()
            .context("cannot run mtools")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{tool} failed: {}", said.trim());
        }
        Ok(())
    };
    mtools("mformat", &["-C", "-T", SECTORS, "::"])?;
    mtools("mmd", &["::EFI", "::EFI/BOOT", "::EFI/debian"])?;
    let loaders = LOADERS.map(|(file, to)| (from.root.join(file), to));
    let others = [
        (menu, "EFI/debian/grub.cfg"),
        (config.artifacts.kernel.clone(), "vmlinuz"),
        (config.artifacts.initrd.clone(), "initrd"),
    ];
    for (file, to) in loaders.into_iter().chain(others) {
        mtools("mcopy", &[&file.display().to_string(), &format!("::{to}")])?;
    }
    Ok(())
}

impl Lab {
    /// Restarts L1, and enrols the key for which `mokutil --import` was given this password, which
    /// consists of small letters and digits. A lab does this at most once.
    ///
    /// # Errors
    ///
    /// Fails if MokManager does not show one of the screens of this dialogue, or if L1 does not
    /// boot.
    pub fn enrol(&self, password: &str) -> Result<()> {
        self.restart(|| {
            self.monitor(&json!({"execute": "system_reset"}))?;
            for (text, keys) in DIALOGUE {
                wait::until(&format!("MokManager shows {text:?}"), || {
                    let vitals = &self.host.link().vitals;
                    vitals.check(None)?;
                    Ok((vitals.count(None, text) > 0).then_some(()))
                })?;
                let typed = password.chars().filter(|_| text == PASSWORD);
                for key in typed
                    .map(String::from)
                    .chain(keys.iter().map(|&key| key.into()))
                {
                    self.press(&key)?;
                }
            }
            Ok(())
        })
    }

    /// Presses a key of the keyboard.
    fn press(&self, key: &str) -> Result<()> {
        let keys = json!([{"type": "qcode", "data": key}]);
        self.monitor(&json!({"execute": "send-key", "arguments": {"keys": keys}}))
    }

    fn monitor(&self, command: &serde_json::Value) -> Result<()> {
        qmp::command(&self.work.path().join("qmp"), &command.to_string()).map(drop)
    }
}
