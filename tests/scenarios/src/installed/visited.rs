// SPDX-License-Identifier: GPL-2.0-only

//! The shop while an administrator's command takes minutes.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use ddlab::{Machine, Running};

use super::{as_typed, shop::Shop};

/// The longest time without output of a command. depmod is silent for minutes on an emulated
/// machine.
const SILENCE: Duration = Duration::from_secs(900);

/// The shop, to which visitors come.
pub(super) struct Visited<'a> {
    shop: Shop<'a>,
    /// What each of them must read.
    content: String,
    visits: Cell<u64>,
}

impl<'a> Visited<'a> {
    pub(super) fn new(shop: Shop<'a>) -> Result<Self> {
        let content = shop.visit()?;
        Ok(Self {
            shop,
            content,
            visits: Cell::new(0),
        })
    }

    pub(super) fn shop(&self) -> &Shop<'a> {
        &self.shop
    }

    /// Returns the number of visits so far.
    pub(super) fn visits(&self) -> u64 {
        self.visits.get()
    }

    /// Executes a command, which must succeed. Visitors come until it ends, one at least. Its lines
    /// are printed when they come, with the seconds since its start, so that a hang is seen.
    pub(super) fn during(&self, machine: &Machine, dir: &str, command: &str) -> Result<()> {
        let name = machine.name();
        eprintln!("    {name}# {command}");
        let mut running = machine.spawn(&as_typed(command).cwd(dir))?;
        let mut lines = Lines::default();
        let (start, mut heard) = (Instant::now(), Instant::now());
        loop {
            let content = self.shop.visit().with_context(|| command.to_owned())?;
            ensure!(content == self.content, "the file has changed");
            self.visits.set(self.visits.get() + 1);
            // The state is asked first, so that no output comes after the last look.
            let exit = running.poll()?;
            for line in lines.read(&running)? {
                eprintln!("    {name} {:4} s: {line}", start.elapsed().as_secs());
                heard = Instant::now();
            }
            if let Some(exit) = exit {
                ensure!(exit.success(), "{name}: {command}: {exit}");
                return Ok(());
            }
            ensure!(
                heard.elapsed() < SILENCE,
                "{name}: {command} has printed nothing for {} s",
                SILENCE.as_secs()
            );
        }
    }
}

/// The output of a program, line by line.
#[derive(Default)]
struct Lines {
    seen: u64,
    rest: Vec<u8>,
}

impl Lines {
    fn read(&mut self, running: &Running) -> Result<Vec<String>> {
        let news = running.output_from(self.seen)?;
        Ok(self.split(&news))
    }

    /// Returns the lines that more output completes.
    fn split(&mut self, news: &[u8]) -> Vec<String> {
        self.seen += news.len() as u64;
        self.rest.extend(news);
        let Some(end) = self.rest.iter().rposition(|&byte| byte == b'\n') else {
            return Vec::new();
        };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        let text = String::from_utf8_lossy(&whole);
        text.lines().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_complete() {
        let mut lines = Lines::default();
        assert_eq!(lines.split(b"one\ntw"), ["one"]);
        assert_eq!(lines.split(b""), [""; 0]);
        assert_eq!(lines.split(b"o\nthree\n"), ["two", "three"]);
        assert_eq!(lines.seen, 14);
    }
}
