// SPDX-License-Identifier: GPL-2.0-only

//! Owners of containers, who change limits while policyd does as well.

use anyhow::{Context as _, Result, ensure};
use ddlab::{Guest, wait};

use super::{CEILING, CEILING_BYTES, file};
use crate::service::{FILE_PATH, UNIT_NAME};

/// The containers, and the last action of each owner.
pub(super) struct Owners<'a> {
    guest: &'a Guest,
    /// The id of podman's container.
    id: String,
}

/// The last values that owners set, in bytes.
const TWO_MAX: &str = "262144000";
const TWO_HIGH: &str = "157286400";
const THREE_MAX: &str = "41943040";
const GOLD_MAX: &str = "136314880";

impl<'a> Owners<'a> {
    pub(super) fn new(guest: &'a Guest) -> Result<Self> {
        let id = guest.exec_ok(["podman", "inspect", "--format", "{{.Id}}", "gold"])?;
        Ok(Self {
            guest,
            id: id.trim().to_owned(),
        })
    }

    pub(super) fn podman_id(&self) -> &str {
        &self.id
    }

    /// Waits until policyd's ceiling is in force in all files in which no owner has set a stricter
    /// value.
    pub(super) fn limited(&self, when: &str) -> Result<()> {
        for name in ["one", "two", "gold"] {
            self.becomes(name, "memory.max", CEILING_BYTES, when)?;
        }
        self.says("three", "memory.max", THREE_MAX, when)
    }

    /// policyd removes its limits, owners change theirs, policyd sets its own again, and owners
    /// change them once more.
    pub(super) fn round(&self, round: u32) -> Result<()> {
        let when = format!("in round {round}");
        self.reload("")?;
        self.becomes("one", "memory.max", "max", &when)?;
        let max = format!("{}M", 200 + round);
        self.set("two", &[("MemoryMax", &max), ("MemoryHigh", "150M")])?;
        self.update(&format!("{}m", 110 + round))?;
        self.reload(CEILING)?;
        self.limited(&when)?;
        self.set("two", &[("MemoryMax", &format!("{}M", 220 + round))])?;
        self.update(&format!("{}m", 120 + round))?;
        let mib = |mib: u32| (u64::from(mib) << 20).to_string();
        // policyd decides several times in between, and must leave these values to their owners.
        for _ in 0..3 {
            self.guest.shell("sleep 1")?;
            self.says("two", "memory.max", &mib(220 + round), &when)?;
            self.says("gold", "memory.max", &mib(120 + round), &when)?;
        }
        Ok(())
    }

    /// Owners change limits for the last time, while policyd's are in force.
    pub(super) fn last_words(&self) -> Result<()> {
        self.set("two", &[("MemoryMax", "250M"), ("MemoryHigh", "150M")])?;
        self.update("130m")
    }

    /// Checks that each limit is the last one of its owner, or the one before policyd was started.
    pub(super) fn have_what_they_set(&self, when: &str) -> Result<()> {
        for (name, max, high) in [
            ("one", "max", "max"),
            ("two", TWO_MAX, TWO_HIGH),
            ("three", THREE_MAX, "max"),
            ("gold", GOLD_MAX, "max"),
        ] {
            self.says(name, "memory.max", max, when)?;
            self.says(name, "memory.high", high, when)?;
            self.says(name, "memory.low", "0", when)?;
        }
        let journal = "/run/doubledecker/limits.json";
        let left = self
            .guest
            .shell(format!("cat {journal} 2> /dev/null || true"))?;
        ensure!(
            left.is_empty(),
            "{when}, the journal of limits is not empty: {left}"
        );
        Ok(())
    }

    fn reload(&self, limit: &str) -> Result<()> {
        self.guest.write_file(FILE_PATH, file(limit))?;
        self.guest
            .exec_ok(["systemctl", "reload", UNIT_NAME])
            .map(drop)
    }

    fn set(&self, name: &str, properties: &[(&str, &str)]) -> Result<()> {
        let unit = format!("{name}.service");
        let mut words = vec!["systemctl".to_owned(), "set-property".into(), unit];
        words.extend(
            properties
                .iter()
                .map(|(key, value)| format!("{key}={value}")),
        );
        self.guest.exec_ok(words).map(drop)
    }

    fn update(&self, memory: &str) -> Result<()> {
        let words = ["podman", "update", "--memory", memory, "gold"];
        self.guest.exec_ok(words).map(drop)
    }

    fn path(&self, name: &str, file: &str) -> String {
        let cgroup = match name {
            "gold" => format!("machine.slice/libpod-{}.scope", self.id),
            unit => format!("shop.slice/{unit}.service"),
        };
        format!("/sys/fs/cgroup/{cgroup}/{file}")
    }

    fn becomes(&self, name: &str, file: &str, value: &str, when: &str) -> Result<()> {
        let path = self.path(name, file);
        let mut seen = String::new();
        wait::until(&format!("{file} of {name} is {value} {when}"), || {
            seen = self.guest.read_text(&path)?;
            Ok((seen == value).then_some(()))
        })
        .with_context(|| format!("the limit is {seen}"))
    }

    fn says(&self, name: &str, file: &str, value: &str, when: &str) -> Result<()> {
        let seen = self.guest.read_text(&self.path(name, file))?;
        ensure!(
            seen == value,
            "{file} of {name} is {seen}, not {value}, {when}"
        );
        Ok(())
    }
}
