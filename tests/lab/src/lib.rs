// SPDX-License-Identifier: GPL-2.0-only

//! Boots KVM hosts with guests and talks to their agents.
//!
//! A [`Lab`] is one emulated (or, where the machine can nest, virtualised) KVM host, *L1*, with any
//! number of guests, *L2*, inside. Both run the same kernel, the same read-only root image and the
//! same agent as PID 1, so that a [`Machine`] is used in the same way for both. [`Scenario`]s use a
//! [`Context`], which boots the lab when it is first needed.
//!
//! No wait is endless: see [`vitals`] for the signs of life.

mod accel;
mod artifacts;
mod command;
pub mod console;
pub mod content;
pub mod ddctl;
mod disk;
mod guest;
mod lab;
mod link;
mod machine;
mod median;
mod process;
mod read;
pub mod report;
mod running;
mod scenario;
pub mod selftest;
pub mod vitals;
pub mod wait;
mod wire;
mod work;

pub use accel::Accel;
pub use artifacts::{Artifacts, Installation, Installed, Qemu, SecureBoot};
pub use command::Command;
pub use content::FileSpec;
pub use ddagent::{
    protocol::{Exit, Output, ReadMode, Sum},
    terminal, usage,
};
pub use disk::{Disk, DiskConfig, Format, HostCache, Throttle};
pub use guest::{COMPLETE, Guest, GuestConfig, GuestDisk, System};
pub use lab::{Lab, LabConfig};
pub use machine::{
    FORMER, GUEST_MODULE, HOST_MODULE, INSTALLED, MODULES, Machine, SELFTESTS, mutated_modules,
};
pub use median::median;
pub use process::Process;
pub use read::ReadSpec;
pub use report::Target;
pub use running::Running;
pub use scenario::{Context, Provoked, Scenario, Verdict};
pub use vitals::Patience;
