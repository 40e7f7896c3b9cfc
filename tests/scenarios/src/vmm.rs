// SPDX-License-Identifier: GPL-2.0-only

//! VMMs and their control sockets.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Command, Guest, Machine, wait};
use serde_json::{Value, json};

/// A VMM of L1, used through its control socket.
pub(crate) struct Vmm<'a> {
    host: &'a Machine,
    socket: String,
}

impl<'a> Vmm<'a> {
    /// Returns the VMM of a guest.
    pub(crate) fn new(host: &'a Machine, guest: &Guest) -> Self {
        let socket = guest.qmp_path();
        Self { host, socket }
    }

    /// Executes a command and returns its answer.
    pub(crate) fn ask(&self, command: &Value) -> Result<Value> {
        let command = command.to_string();
        let answer = self
            .host
            .exec_ok(["ddhelper", "qmp", &self.socket, &command])?;
        Ok(serde_json::from_str(&answer)?)
    }

    /// Migrates its guest to another VMM, which listens at `uri`, as fast as possible and with a
    /// part of its memory at the end.
    pub(crate) fn migrate(&self, uri: &str) -> Result<()> {
        let limits = json!({"max-bandwidth": 1_u64 << 40, "downtime-limit": 20_000});
        self.ask(&json!({"execute": "migrate-set-parameters", "arguments": limits}))?;
        self.ask(&json!({"execute": "migrate", "arguments": {"uri": uri}}))?;
        wait::until("the guest is migrated", || {
            let answer = self.ask(&json!({"execute": "query-migrate"}))?;
            ensure!(answer["status"] != "failed", "{answer}");
            Ok((answer["status"] == "completed").then_some(()))
        })
    }

    /// Starts a job and waits for its end.
    pub(crate) fn job(&self, command: &str, arguments: &Value) -> Result<()> {
        let mut arguments = arguments.clone();
        arguments["job-id"] = json!(command);
        self.ask(&json!({"execute": command, "arguments": arguments}))?;
        let job = wait::until(command, || {
            let jobs = self.ask(&json!({"execute": "query-jobs"}))?;
            let jobs = jobs.as_array().context("a list of jobs")?;
            let job = jobs.iter().find(|job| job["id"] == command);
            Ok(job.filter(|job| job["status"] == "concluded").cloned())
        })?;
        ensure!(job["error"].is_null(), "{command}: {}", job["error"]);
        self.ask(&json!({"execute": "job-dismiss", "arguments": {"id": command}}))
            .map(drop)
    }
}

const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;

/// Stops the VMM of a guest at any point; `pid` is its process in the host.
pub(crate) fn freeze(host: &Machine, guest: &Guest, pid: u32) -> Result<()> {
    guest.signal(SIGSTOP)?;
    wait::until("the VMM stands still", || {
        let status = host.read_text(&format!("/proc/{pid}/status"))?;
        Ok(status.contains("T (stopped)").then_some(()))
    })
}

/// Lets the VMM continue.
pub(crate) fn thaw(guest: &Guest) -> Result<()> {
    guest.signal(SIGCONT)
}

/// Makes an empty disk image that can contain snapshots, by a VMM without a VM.
pub(crate) fn make_image(host: &Machine, path: &str, bytes: u64) -> Result<()> {
    let socket = "/run/dd/images";
    let line = format!(
        "qemu-system-x86_64 -M none -nodefaults -display none -qmp unix:{socket},server=on,wait=off"
    );
    let mut process = host.spawn(&Command::new(line.split_whitespace()))?;
    let vmm = Vmm {
        host,
        socket: socket.to_owned(),
    };
    wait::until("the VMM answers", || {
        Ok(vmm.ask(&json!({"execute": "query-status"})).ok())
    })?;
    let file = json!({"driver": "file", "filename": path, "size": 0});
    vmm.job("blockdev-create", &json!({"options": file}))?;
    let file = json!({"driver": "file", "node-name": "file", "filename": path});
    vmm.ask(&json!({"execute": "blockdev-add", "arguments": file}))?;
    let image = json!({"driver": "qcow2", "file": "file", "size": bytes});
    vmm.job("blockdev-create", &json!({"options": image}))?;
    vmm.ask(&json!({"execute": "quit"}))?;
    process.wait().map(drop)
}
