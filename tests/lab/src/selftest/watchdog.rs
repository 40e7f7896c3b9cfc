// SPDX-License-Identifier: GPL-2.0-only

//! Requests to guests that die or hang fail soon, with the reason.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::{Command, Context, Guest, GuestConfig, Lab, Patience, Scenario, Target};

/// Shorter than the patience of other tests, because the guest is idle.
const PATIENCE: Duration = Duration::from_secs(8);
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// Crashes one guest and stops another one. Requests to both must fail with the reason.
pub const WATCHDOG: Scenario = Scenario {
    name: "watchdog",
    about: "a guest that panics or hangs is noticed, with the end of its console",
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
    Ok(Vec::new())
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
