// SPDX-License-Identifier: GPL-2.0-only

//! The agent's process, PID 1 of every test machine.
//!
//! The kernel starts it from the initial filesystem, where it finds the real root and starts itself
//! again there. In the real root it serves the harness. Two other forms run as children, so that
//! work can be charged to a cgroup.

mod boot;
mod cgroup;
mod job;
mod port;
mod read;
mod serve;
mod system;
mod vm;

use std::{
    env,
    io::Write as _,
    os::unix::{net::UnixStream, process::CommandExt as _},
    process,
};

use anyhow::{Context as _, Result, bail};
use ddagent::{protocol::Op, terminal};

/// Path of the agent in the real root.
const SELF: &str = "/opt/dd/bin/ddagent";

fn main() {
    if let Err(error) = run() {
        eprintln!("ddagent: {error:#}");
        if process::id() == 1 {
            system::power_off();
        }
        process::exit(127);
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("serve") => serve::serve(),
        Some("enter") => enter(&arguments[1..]),
        Some("read") => read_for_parent(&arguments[1..]),
        Some("attach") => attach(&arguments[1..]),
        // The kernel passes parameters of its command line that it does not know.
        _ if process::id() == 1 => boot::find_root(),
        _ => bail!("this is PID 1 of a test machine; it does nothing elsewhere"),
    }
}

/// Executes `enter <cgroup> <program> …`: runs the program inside the cgroup.
fn enter(arguments: &[String]) -> Result<()> {
    let [group, program, rest @ ..] = arguments else {
        bail!("enter needs a cgroup and a program");
    };
    cgroup::enter(group)?;
    let error = process::Command::new(program).args(rest).exec();
    Err(error).with_context(|| format!("cannot run {program}"))
}

/// Executes `read <operation as JSON>`: prints the result of the operation.
fn read_for_parent(arguments: &[String]) -> Result<()> {
    let [text] = arguments else {
        bail!("read needs one operation");
    };
    let sum = match serde_json::from_str(text)? {
        Op::Read(read) => read::file(&read)?,
        Op::ReadTree { path, digest, .. } => read::tree(&path, digest)?,
        other => bail!("{other:?} is not a read"),
    };
    println!("{}", serde_json::to_string(&sum)?);
    Ok(())
}

/// Executes `attach <socket>`: connects the terminal with the shell behind the socket. Ctrl-] ends
/// it.
fn attach(arguments: &[String]) -> Result<()> {
    let [socket] = arguments else {
        bail!("attach needs a socket");
    };
    let mut stream =
        UnixStream::connect(socket).with_context(|| format!("cannot connect to {socket}"))?;
    // Earlier output of the shell was lost, so that the prompt is requested again.
    stream.write_all(b"\r")?;
    terminal::attach(&stream, 1, |_| {})?;
    println!();
    Ok(())
}
