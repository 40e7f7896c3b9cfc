// SPDX-License-Identifier: GPL-2.0-only

//! Requests to guests that die or hang fail soon, with the reason. A lab that a scenario ends by
//! itself is judged as others are.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

use crate::{Command, Context, Guest, GuestConfig, Lab, Patience, Scenario, Target, wait};

/// Shorter than the patience of other tests, because the guest is idle.
const PATIENCE: Duration = Duration::from_secs(8);
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;
/// A line that looks like a kernel's complaint.
const COMPLAINT: &str = "WARNING: on purpose";

/// Crashes one guest and stops another one. Requests to both must fail with the reason. Then L1
/// complains, which must be noticed when the scenario ends the lab.
pub const WATCHDOG: Scenario = Scenario {
    name: "watchdog",
    about: "a guest that panics or hangs, and a complaint of a lab that ends, are noticed",
    quick: true,
    run: watchdog,
};

fn watchdog(context: &mut Context) -> Result<Vec<Target>> {
    context.allow_console(Guest::LAST_WORDS);
    let lab = context.lab()?;
    let panic = panics(lab).context("the guest that panics")?;
    let hang = hangs(lab).context("the guest that hangs")?;
    // The other machines must be unaffected.
    lab.host().exec_ok(["true"])?;
    let again = lab.start_guest(&GuestConfig::new("panics"))?;
    again.exec_ok(["true"])?;
    again.shutdown()?;
    context.say(format!(
        "noticed the panic after {:.1} s, the hang after {:.1} s",
        panic.as_secs_f64(),
        hang.as_secs_f64()
    ));
    is_judged(context).context("the end of a lab")?;
    Ok(Vec::new())
}

/// A lab with a complaint is not ended. The complaint does not count once more when the runner
/// concludes the lab.
fn is_judged(context: &mut Context) -> Result<()> {
    let lab = context.lab()?;
    lab.host()
        .shell(format!("echo '{COMPLAINT}' > /dev/kmsg"))?;
    let console = lab.config().dir.join("l1.console.log");
    wait::until("the console has the complaint", || {
        let log = fs::read(&console)?;
        let has_it = String::from_utf8_lossy(&log).contains(COMPLAINT);
        Ok(has_it.then_some(()))
    })?;
    let error = context.end_lab().err();
    let text = format!("{:#}", error.context("a complaint was not noticed")?);
    ensure!(text.contains(COMPLAINT), "{text}");
    Ok(())
}

fn panics(lab: &Lab) -> Result<Duration> {
    let mut guest = lab.start_guest(&GuestConfig::new("panics"))?;
    let start = Instant::now();
    let text = failure(&guest, "echo c > /proc/sysrq-trigger")?;
    ensure!(
        text.contains("guest panics is unwell: Kernel panic"),
        "{text}"
    );
    ensure!(text.contains("sysrq triggered crash"), "{text}");
    ensure!(text.contains("write_sysrq_trigger"), "{text}");
    let took = start.elapsed();
    // The guest is configured not to restart.
    guest.wait()?;
    ensure!(!guest.is_alive()?);
    Ok(took)
}

fn hangs(lab: &Lab) -> Result<Duration> {
    let guest = lab.start_guest(&GuestConfig::new("hangs"))?;
    guest.exec_ok(["true"])?;
    guest.signal(SIGSTOP)?;
    lab.set_patience(Patience {
        still: PATIENCE,
        ..Patience::default()
    });
    let start = Instant::now();
    let text = failure(&guest, "true")?;
    let took = start.elapsed();
    lab.set_patience(Patience::default());
    ensure!(text.contains("guest hangs stands still"), "{text}");
    ensure!(text.contains("the end of "), "{text}");
    // The guest was only stopped, and must continue to work.
    guest.signal(SIGCONT)?;
    guest.exec_ok(["true"])?;
    Ok(took)
}

/// Returns the error of a command that never ends.
fn failure(guest: &Guest, line: &str) -> Result<String> {
    let error = guest.run(&Command::shell(line)).err();
    let error = error.context("a dead guest answered")?;
    Ok(format!("{error:#}"))
}
