// SPDX-License-Identifier: GPL-2.0-only

//! Programs of which one allocation fails, on kernels that support it
//! (`Documentation/fault-injection`).

use std::{
    env, fs,
    io::Read as _,
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use serde_json::json;

/// Runs a program whose `nth` allocation fails, counted from 1 among those that the kernel's
/// filters select. Prints its exit code, its output, and the remainder of the number, which is
/// absent if an allocation failed.
pub(crate) fn starve(nth: u32, argv: &[String]) -> Result<()> {
    // The number is kept by a thread across exec, and is not inherited by children.
    let mut child = Command::new(env::current_exe()?)
        .arg("starved")
        .arg(nth.to_string())
        .args(argv)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut said = String::new();
    let pipe = child
        .stderr
        .take()
        .context("the program has no standard error")?;
    { pipe }.read_to_string(&mut said)?;
    // A process that has ended can be queried until it is reaped.
    let wait = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(Pid::from_child(&child)), wait)?;
    let left = fs::read_to_string(format!("/proc/{}/fail-nth", child.id()))?;
    let left: u32 = left.trim().parse()?;
    let code = child.wait()?.code();
    println!("{}", json!({"left": left, "code": code, "said": said}));
    Ok(())
}

/// Executes a program whose `nth` allocation fails in place of this one.
pub(crate) fn starved(nth: u32, argv: &[String]) -> Result<()> {
    let (program, arguments) = argv.split_first().context("no program was named")?;
    fs::write("/proc/thread-self/fail-nth", nth.to_string())
        .context("this kernel does not support failing allocations")?;
    Err(Command::new(program).args(arguments).exec().into())
}
