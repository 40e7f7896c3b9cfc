// SPDX-License-Identifier: GPL-2.0-only

//! The container of the quick start: nginx, a service of systemd, with less memory than the file
//! that it serves.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Guest, Running, wait};

use super::{as_typed, login};
use crate::{
    ddctl,
    stage::{pages, percent},
};

/// Length of the file.
pub(super) const LEN: u64 = 48 << 20;
/// The command of the page that shows the container.
pub(super) const WATCH: &str = "ddctl stats --watch";
/// The command of the page that enrols it.
#[cfg(test)]
pub(super) const ENROL: &str = "ddctl container add /system.slice/nginx.service --name web";
/// Its name there.
pub(super) const NAME: &str = "web";
/// Limit of its memory, which lasts over reboots.
const LIMIT: &str = "systemctl set-property nginx.service MemoryMax=20M";
/// A visitor, who reads the whole file.
const VISIT: &str = "curl --silent --show-error --fail http://localhost/shop | cksum";
/// Most visits until pages come from the host.
const VISITS: usize = 10;

/// The shop in a guest.
pub(super) struct Shop<'a> {
    guest: &'a Guest,
}

impl<'a> Shop<'a> {
    /// Limits its memory.
    pub(super) fn open(guest: &'a Guest) -> Result<Self> {
        login(guest, LIMIT)?;
        Ok(Self { guest })
    }

    /// Returns the shop in a guest in which it was opened before.
    pub(super) fn of(guest: &'a Guest) -> Self {
        Self { guest }
    }

    /// Reads the file once. Returns its checksum.
    pub(super) fn visit(&self) -> Result<String> {
        login(self.guest, VISIT)
    }

    /// Returns the number of its pages that the host has returned. Other containers have hits, too.
    fn hits(&self) -> Result<u64> {
        let containers = ddctl::containers(self.guest)?;
        let stats = ddctl::container(&containers, NAME)?.stats;
        Ok(stats.context("the guest has no host")?.hits)
    }

    /// Executes the command that shows the containers until the screen has puts and hits of this
    /// one, while visitors come. Returns the hit ratio on the screen, in percent.
    pub(super) fn watched(&self, command: &str) -> Result<f64> {
        let content = self.visit()?;
        let screen = self.guest.spawn(&as_typed(command))?;
        for _ in 0..VISITS {
            ensure!(self.visit()? == content, "the file has changed");
            if let Some(row) = self.shown(&screen)? {
                screen.kill(SIGINT)?;
                eprintln!("    {}# {command}\n{}", self.guest.name(), row.text);
                return Ok(row.ratio);
            }
        }
        let output = screen.output()?;
        Err(anyhow::anyhow!("no hits on the screen:\n{output}"))
    }

    /// Returns a row of the screen with hits, which must appear after the visit that caused them.
    fn shown(&self, screen: &Running) -> Result<Option<Row>> {
        let seen = screen.output()?.len();
        // The next screen includes the visit.
        wait::until("the screen is shown again", || {
            let now = screen.output()?;
            Ok((now.len() > seen && now.ends_with('\n')).then_some(()))
        })?;
        Ok(Row::with_hits(&screen.output()?))
    }

    /// Lets visitors come until the host returns pages. Returns the percentage of the file's pages
    /// that it returned in one visit.
    pub(super) fn served(&self, when: &str) -> Result<f64> {
        let content = self.visit()?;
        // The first visit only fills the cache.
        let before = self.hits().with_context(|| when.to_owned())?;
        ensure!(self.visit()? == content, "the file has changed");
        let served = percent(self.hits()? - before, pages(LEN));
        eprintln!("    {when}, the host returned {served:.1} % of the file");
        Ok(served)
    }
}

const SIGINT: i32 = 2;

/// A row of the container with hits, on a screen of `ddctl stats --watch`.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    /// The screen.
    text: String,
    /// Hit ratio in percent.
    ratio: f64,
}

impl Row {
    /// Returns the last row of the screens in which puts and hits are counted.
    fn with_hits(output: &str) -> Option<Self> {
        let screens = output.split("\n\n");
        screens.filter_map(Self::of_screen).last()
    }

    fn of_screen(screen: &str) -> Option<Self> {
        let mut lines = screen.lines();
        let head: Vec<&str> = lines
            .find(|line| line.trim_start().starts_with("NAME"))?
            .split_whitespace()
            .collect();
        let row: Vec<&str> = lines
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .find(|row| row.first() == Some(&NAME))?;
        let column = |name: &str| Some(*row.get(head.iter().position(|one| *one == name)?)?);
        let is_some = |name: &str| column(name).is_some_and(|rate| rate != "0");
        if !(is_some("PUTS/S") && is_some("HITS/S")) {
            return None;
        }
        let ratio = column("HIT")?.strip_suffix('%')?.parse().ok()?;
        Some(Self {
            text: screen.to_owned(),
            ratio,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_screen_with_hits_counts() {
        let head = "NAME       WEIGHT    USED  ENTITLED    HIT    GETS    PUTS";
        let output = format!(
            "2027-01-15T08:00:00Z\n{head}  REFUSED  EVICTED\nweb 60 3M 6M - 0 5 0 0\n\n\
             2027-01-15T08:00:02Z\n{head}  PUTS/S  HITS/S\ndefault 100 7M 1M 5.0% 3 5 1 1\n\
             web 60 3M 6M 75.5% 7 5 10 20\n\n\
             2027-01-15T08:00:04Z\n{head}  PUTS/S  HITS/S\nweb 60 3M 6M 80.0% 7 5 0 0\n"
        );
        let row = Row::with_hits(&output).unwrap();
        assert!((row.ratio - 75.5).abs() < 1e-9 && row.text.contains("08:00:02"));
        assert!(Row::with_hits("").is_none());
    }
}
