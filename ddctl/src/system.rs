// SPDX-License-Identifier: GPL-2.0-only

//! Access to the modules, files, clock and terminal, through a trait that tests implement too.

use ddnl::{EventSource, GuestControl, HostControl, Result, Side, blocking};
use raw_cpuid::{CpuId, native_cpuid::cpuid_count};
use rustix::{
    process::{Pid, Signal, kill_process},
    termios::tcgetwinsize,
};
use std::{
    ffi::OsString,
    io::{self, IsTerminal, stdout},
    path::PathBuf,
    sync::LazyLock,
    thread,
    time::{Duration, Instant, SystemTime},
};

/// The parts of the machine that ddctl uses.
pub trait System {
    /// Connects to the host module.
    fn host(&self) -> Result<Box<dyn HostControl>>;
    /// Connects to the guest module.
    fn guest(&self) -> Result<Box<dyn GuestControl>>;
    /// Subscribes to the events of a module.
    fn events(&self, side: Side) -> Result<Box<dyn EventSource>>;
    /// Returns the path under which the file with this absolute path is opened.
    fn file(&self, path: &str) -> PathBuf;
    /// Returns the time of day.
    fn now(&self) -> SystemTime;
    /// Returns the time since a fixed moment. Unlike the time of day it never steps.
    fn uptime(&self) -> Duration;
    /// Sleeps.
    fn sleep(&self, duration: Duration);
    /// Sends SIGHUP to a process.
    fn hang_up(&self, pid: Pid) -> io::Result<()>;
    /// Returns the signatures of the hypervisors that CPUID shows, none on bare metal.
    fn hypervisors(&self) -> Vec<String>;
    /// Returns whether the output is a terminal.
    fn terminal(&self) -> bool;
    /// Returns the number of columns of the terminal that the output is, if it is one.
    fn columns(&self) -> Option<u16>;
    /// Returns the value of an environment variable.
    fn variable(&self, name: &str) -> Option<OsString>;
}

/// The first leaf of CPUID that is a hypervisor's.
const HYPERVISORS: u32 = 0x4000_0000;

/// The machine that ddctl runs on.
#[derive(Clone, Copy, Debug)]
pub struct Machine;

impl System for Machine {
    fn host(&self) -> Result<Box<dyn HostControl>> {
        Ok(Box::new(blocking::HostClient::open()?))
    }

    fn guest(&self) -> Result<Box<dyn GuestControl>> {
        Ok(Box::new(blocking::GuestClient::open()?))
    }

    fn events(&self, side: Side) -> Result<Box<dyn EventSource>> {
        Ok(Box::new(blocking::Events::open(side)?))
    }

    fn file(&self, path: &str) -> PathBuf {
        path.into()
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn uptime(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }

    fn sleep(&self, duration: Duration) {
        thread::sleep(duration);
    }

    fn hang_up(&self, pid: Pid) -> io::Result<()> {
        Ok(kill_process(pid, Signal::HUP)?)
    }

    fn hypervisors(&self) -> Vec<String> {
        let features = CpuId::new().get_feature_info();
        if !features.is_some_and(|features| features.has_hypervisor()) {
            return Vec::new();
        }
        // A VMM can show the interfaces of several hypervisors, each at its own leaf.
        let signature = |leaf| {
            let registers = cpuid_count(leaf, 0);
            let words = [registers.ebx, registers.ecx, registers.edx];
            let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            let text = String::from_utf8(bytes).ok()?;
            let text = text.trim_end_matches('\0');
            let is_signature = registers.eax >= leaf && text.len() > 4 && text.is_ascii();
            is_signature.then(|| text.to_owned())
        };
        let leaves = (HYPERVISORS..HYPERVISORS + 0x1000).step_by(0x100);
        let mut signatures: Vec<String> = leaves.filter_map(signature).collect();
        signatures.dedup();
        signatures
    }

    fn terminal(&self) -> bool {
        stdout().is_terminal()
    }

    fn columns(&self) -> Option<u16> {
        // Some terminals, such as serial lines, do not know their size.
        let size = tcgetwinsize(stdout()).ok()?;
        Some(size.ws_col).filter(|columns| *columns > 0)
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }
}
