// SPDX-License-Identifier: GPL-2.0-only

//! The kernel module that sends requests (`tests/hostile-module`).

use anyhow::{Context as _, Result};
use ddlab::{GuestConfig, Machine, wait};

use crate::hotplug;

const MODULE: &str = "doubledecker_hostile";

/// Kinds of requests, as the module's parameter names them.
pub(crate) const EVERYTHING: u64 = 0;
/// Valid requests.
pub(crate) const ORDERS: u64 = 2;
/// Sessions and sequence numbers: replayed, jumping, extreme, never assigned.
pub(crate) const NUMBERS: u64 = 4;
/// Registering and leaving repeatedly.
pub(crate) const STORMS: u64 = 5;
/// Pools, and pages in the maximum number of them.
pub(crate) const POOLS: u64 = 6;
/// Frames in memory that is plugged in and unplugged.
const MOVING: u64 = 9;

const MEMORY_MIB: u64 = 512;
/// Memory at the end of the guest's address space, which its kernel does not use.
const ARENA_MIB: u64 = 64;

/// Returns a guest that can load the module.
pub(crate) fn guest(name: &str) -> GuestConfig {
    let base = MEMORY_MIB - ARENA_MIB;
    GuestConfig::new(name)
        .vcpus(2)
        .memory_mib(MEMORY_MIB)
        .kernel_arg(format!("memmap={ARENA_MIB}M${base}M"))
}

/// The module while it is loaded.
pub(crate) struct Fuzzer<'a>(&'a Machine);

/// Its counters; see the module's parameters.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "all of it is printed")]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    pub(crate) unknown: u64,
    pub(crate) given: u64,
    pub(crate) foreign: u64,
    pub(crate) let_in: u64,
    pub(crate) ok: u64,
    pub(crate) stale: u64,
    retry: u64,
    invalid: u64,
    unsupported: u64,
    no_memory: u64,
    no_pool: u64,
    pub(crate) limit: u64,
    stored: u64,
    pub(crate) moved: u64,
}

impl<'a> Fuzzer<'a> {
    /// Starts to send, until it is stopped.
    pub(crate) fn start(guest: &'a Machine, mode: u64, seed: u64) -> Result<Self> {
        Self::load(guest, mode, seed, Vec::new())
    }

    /// Starts to send requests with frames at an address where memory is plugged in and unplugged.
    pub(crate) fn start_moving(guest: &'a Machine, address: u64, seed: u64) -> Result<Self> {
        let moving = vec![
            format!("moving_base={address}"),
            format!("moving_size={}", hotplug::SIZE),
        ];
        Self::load(guest, MOVING, seed, moving)
    }

    fn load(guest: &'a Machine, mode: u64, seed: u64, more: Vec<String>) -> Result<Self> {
        let base = (MEMORY_MIB - ARENA_MIB) << 20;
        let mut parameters = vec![
            format!("base={base}"),
            format!("size={}", ARENA_MIB << 20),
            format!("seed={seed}"),
            format!("requests={}", i64::MAX),
            format!("mode={mode}"),
        ];
        parameters.extend(more);
        let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
        guest.load_module(MODULE, &parameters)?;
        Ok(Self(guest))
    }

    /// Returns the number of requests sent so far.
    pub(crate) fn sent(&self) -> Result<u64> {
        let path = format!("/sys/module/{MODULE}/parameters/sent");
        let sent = self.0.read_text(&path)?;
        sent.parse().with_context(|| format!("{path} is {sent}"))
    }

    /// Returns its counters.
    pub(crate) fn tally(&self) -> Result<Tally> {
        let path = format!("/sys/module/{MODULE}/parameters");
        let text = self.0.shell(format!("cd {path}; grep . *"))?;
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            let value = lines
                .find(|(found, _)| *found == name)
                .map(|(_, text)| text);
            value
                .with_context(|| format!("{MODULE} does not report {name}: {text}"))?
                .parse::<u64>()
                .with_context(|| format!("{name} is not a number: {text}"))
        };
        Ok(Tally {
            sent: value("sent")?,
            unknown: value("unknown")?,
            given: value("given")?,
            foreign: value("foreign")?,
            let_in: value("let_in")?,
            ok: value("ok")?,
            stale: value("stale")?,
            retry: value("retry")?,
            invalid: value("invalid")?,
            unsupported: value("unsupported")?,
            no_memory: value("no_memory")?,
            no_pool: value("no_pool")?,
            limit: value("limit")?,
            stored: value("stored")?,
            moved: value("moved")?,
        })
    }

    /// Waits until it has sent some requests.
    pub(crate) fn sends(&self) -> Result<()> {
        wait::until("the module has sent some requests", || {
            Ok((self.sent()? > 1000).then_some(()))
        })
    }

    /// Stops it.
    pub(crate) fn stop(self) -> Result<()> {
        self.0.unload_module(MODULE)
    }
}
