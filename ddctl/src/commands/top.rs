// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl top`.

mod screen;

use crate::{
    context::Context,
    error::{Error, Kind, Result},
    system::System,
    top::{Effect, Monitor},
    value,
};
use clap::Args;
use screen::{Input, Screen};
use signal_hook::low_level::emulate_default_handler;
use std::time::Duration;

/// Show VMs and containers on the whole terminal, and update them
///
/// Shows tiers, hit ratios, bars of use against entitlement and hits per second. On a host it shows
/// VMs, and the containers of a VM after Enter; in a guest, its containers. The key ? explains all
/// keys. If the module is unloaded, it waits until the module is loaded again.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl top",
    "\n  ddctl top --interval 5",
))]
pub(crate) struct Arguments {
    /// Read the module every SECONDS
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = value::seconds)]
    interval: f64,
}

pub(crate) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    if context.json || !context.system.terminal() {
        return Err(Error::new(
            Kind::Usage,
            "`top` draws on a terminal and has no other output",
        )
        .hint("run `ddctl stats --watch`, which takes --json"));
    }
    let mut monitor = Monitor::new(context.system, context.wanted())?;
    let mut screen = Screen::open()?;
    let interval = Duration::from_secs_f64(arguments.interval);
    let signal = watch(context.system, &mut monitor, &mut screen, interval);
    screen.close()?;
    if let Some(signal) = signal? {
        // Ends as if the signal had no handler.
        emulate_default_handler(signal)?;
    }
    Ok(())
}

/// Reads and draws until the user or a signal ends it. Returns the signal.
fn watch(
    system: &dyn System,
    monitor: &mut Monitor<'_>,
    screen: &mut Screen,
    interval: Duration,
) -> Result<Option<i32>> {
    let mut next = system.uptime() + interval;
    loop {
        screen.draw(|frame| monitor.draw(frame))?;
        let pause = next.saturating_sub(system.uptime());
        let effect = match screen.input(pause)? {
            Some(Input::Key(key)) => monitor.press(key),
            Some(Input::Resize) => Effect::Draw,
            Some(Input::Signal(signal)) => return Ok(Some(signal)),
            None => Effect::Read,
        };
        match effect {
            Effect::Draw => {}
            Effect::Quit => return Ok(None),
            Effect::Read => {
                monitor.read();
                next = system.uptime() + interval;
            }
        }
    }
}
