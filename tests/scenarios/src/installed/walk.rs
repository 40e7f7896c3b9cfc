// SPDX-License-Identifier: GPL-2.0-only

//! Sections of the page about installation as lists of commands. The page is read when this crate
//! is compiled, so that the page and the test cannot differ.

use anyhow::{Context as _, Result, bail};

/// The page.
const PAGE: &str = include_str!("../../../../docs/users/install.md");
/// Titles of its sections, each of which lasts up to the next one.
const QUICK_START: &str = "Quick start";
const UPGRADE: &str = "Upgrade, downgrade, remove";
/// The command that ends the installation.
pub(super) const REBOOT: &str = "systemctl reboot";

/// A machine that has the packages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// A KVM host.
    Host,
    /// A VM.
    Guest,
}

impl Side {
    /// Both of them.
    pub(super) const BOTH: [Self; 2] = [Self::Host, Self::Guest];
}

/// A command of the page.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Step {
    /// The machine, or `None` for both.
    pub(super) side: Option<Side>,
    pub(super) command: String,
}

impl Step {
    /// Returns whether it is typed on a machine.
    pub(super) fn is_for(&self, side: Side) -> bool {
        self.side.is_none_or(|own| own == side)
    }

    /// Returns on how many machines it is typed.
    pub(super) fn machines(&self) -> usize {
        Side::BOTH
            .into_iter()
            .filter(|&side| self.is_for(side))
            .count()
    }
}

/// Returns the commands of the quick start in their order.
pub(super) fn quick_start() -> Result<Vec<Step>> {
    Ok(blocks(PAGE, QUICK_START)?.concat())
}

/// The commands for machines on which the packages are installed, in the order of the page.
pub(super) struct Upgrade {
    /// Installs the next version.
    pub(super) upgrade: Vec<Step>,
    /// Loads the modules of the installed version.
    pub(super) reload: Vec<Step>,
    /// Installs the former version, and loads its modules.
    pub(super) downgrade: Vec<Step>,
    /// Stops and removes everything.
    pub(super) remove: Vec<Step>,
}

impl Upgrade {
    /// Reads the page.
    pub(super) fn of_page() -> Result<Self> {
        let blocks = blocks(PAGE, UPGRADE)?;
        let Ok([upgrade, reload, downgrade, remove]) = <[_; 4]>::try_from(blocks) else {
            bail!("the section about upgrades has not four blocks of commands");
        };
        Ok(Self {
            upgrade,
            reload,
            downgrade,
            remove,
        })
    }
}

/// Returns the commands of the page that come before the reboot, for one machine. They install the
/// kernel and the packages.
///
/// # Errors
///
/// Fails if the page has no quick start, or no reboot.
pub fn installation(side: Side) -> Result<Vec<String>> {
    let steps = quick_start()?;
    let end = reboot(&steps)?;
    let own = steps[..end].iter().filter(|step| step.is_for(side));
    Ok(own.map(|step| step.command.clone()).collect())
}

/// Returns the position of the reboot.
pub(super) fn reboot(steps: &[Step]) -> Result<usize> {
    let at = steps.iter().position(|step| step.command == REBOOT);
    at.context("the quick start has no reboot")
}

/// Reads the blocks of shell commands of a section.
fn blocks(page: &str, title: &str) -> Result<Vec<Vec<Step>>> {
    let (_, section) = page
        .split_once(&format!("\n## {title}\n"))
        .with_context(|| format!("the page has no section {title}"))?;
    let section = section.split("\n## ").next().unwrap_or(section);
    section.split("```").skip(1).step_by(2).map(steps).collect()
}

/// Reads the commands of a block. A line without a prompt is for both machines.
fn steps(block: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    for line in block.lines() {
        if line == "sh" || line.is_empty() {
            continue;
        }
        let (side, command) = match line.split_once("# ") {
            Some(("host", command)) => (Some(Side::Host), command),
            Some(("guest", command)) => (Some(Side::Guest), command),
            Some(("both", command)) => (None, command),
            _ => (None, line),
        };
        // A remark follows two blanks.
        let command = command.trim_start();
        let command = command.split("  #").next().unwrap_or(command).trim_end();
        if command.ends_with('\\') {
            bail!("the page continues a line: {line}");
        }
        let command = command.to_owned();
        steps.push(Step { side, command });
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_become_steps() {
        let page = "# Page\n```sh\nno\n```\n\n## Quick start\n\nText `code`:\n\n```sh\n\
            echo 'a # b'\nhost#  one a   # remark\nguest# two\nboth# three\n```\n\n## Next\n\
            ```sh\nno\n```\n";
        let steps = blocks(page, QUICK_START).unwrap().concat();
        let found: Vec<_> = steps
            .iter()
            .map(|step| (step.side, step.command.as_str(), step.machines()))
            .collect();
        assert_eq!(
            found,
            [
                (None, "echo 'a # b'", 2),
                (Some(Side::Host), "one a", 1),
                (Some(Side::Guest), "two", 1),
                (None, "three", 2),
            ]
        );
    }

    #[test]
    fn pages_without_the_section_or_with_long_lines_are_refused() {
        assert!(blocks("# Page\n", QUICK_START).is_err());
        let long = "# Page\n\n## Quick start\n\n```sh\na \\\nb\n```\n";
        assert!(blocks(long, QUICK_START).is_err());
    }

    #[test]
    fn the_page_upgrades_reloads_goes_back_and_removes() {
        let page = Upgrade::of_page().unwrap();
        for side in Side::BOTH {
            let has = |block: &[Step], text: &str| {
                let own = block.iter().filter(|step| step.is_for(side));
                own.filter(|step| step.command.contains(text)).count()
            };
            assert_eq!(has(&page.upgrade, "apt install ./"), 1);
            assert_eq!(has(&page.reload, "modprobe -r"), 1);
            assert_eq!(
                has(&page.downgrade, "apt install --allow-downgrades ./old/"),
                1
            );
            assert_eq!(has(&page.downgrade, "modprobe -r"), 1);
            assert_eq!(has(&page.remove, "modprobe -r"), 1);
            assert_eq!(has(&page.remove, "apt remove doubledecker-"), 1);
        }
    }

    #[test]
    fn the_page_installs_one_side_on_each_machine() {
        for (side, own, other) in [
            (Side::Host, "host-dkms", "guest-dkms"),
            (Side::Guest, "guest-dkms", "host-dkms"),
        ] {
            let commands = installation(side).unwrap().join("\n");
            assert!(commands.contains("linux-image-amd64"), "{commands}");
            assert!(commands.contains(own) && !commands.contains(other));
            assert!(!commands.contains(REBOOT));
        }
    }
}
