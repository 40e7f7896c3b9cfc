// SPDX-License-Identifier: GPL-2.0-only

//! The quick start of the documents as a list of commands. The page is read when this crate is
//! compiled, so that the page and the test cannot differ.

use anyhow::{Context as _, Result, bail};

/// The page.
const PAGE: &str = include_str!("../../../../docs/users/install.md");
/// Its section, up to the next one.
const SECTION: &str = "\n## Quick start\n";
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
        [Side::Host, Side::Guest]
            .into_iter()
            .filter(|&side| self.is_for(side))
            .count()
    }
}

/// Returns the commands of the page in their order.
pub(super) fn quick_start() -> Result<Vec<Step>> {
    steps(PAGE)
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

/// Reads the blocks of shell commands of the section. A line without a prompt is for both machines.
fn steps(page: &str) -> Result<Vec<Step>> {
    let (_, section) = page
        .split_once(SECTION)
        .context("the page has no quick start")?;
    let section = section.split("\n## ").next().unwrap_or(section);
    let blocks = section.split("```").skip(1).step_by(2);
    let mut steps = Vec::new();
    for line in blocks.flat_map(str::lines) {
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
            bail!("the quick start continues a line: {line}");
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
        let steps = steps(page).unwrap();
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
    fn pages_without_a_quick_start_or_with_long_lines_are_refused() {
        assert!(steps("# Page\n").is_err());
        assert!(steps("# Page\n\n## Quick start\n\n```sh\na \\\nb\n```\n").is_err());
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
