// SPDX-License-Identifier: GPL-2.0-only

//! The policy daemon of a guest and its configuration.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use ddlab::{Command, Machine, Running};

const CONFIG: &str = "/run/policyd.toml";
const SIGHUP: i32 = 1;

/// A running daemon.
#[derive(Debug)]
pub(crate) struct Policyd {
    machine: Machine,
    daemon: Running,
}

impl Policyd {
    /// Starts the daemon with a share for each container. Pages outside of containers are not
    /// cached.
    pub(crate) fn start(machine: &Machine, weights: &[(&str, u32)]) -> Result<Self> {
        machine.write_file(CONFIG, config(weights))?;
        machine.exec_ok(["policyd", "check", CONFIG])?;
        let command = Command::new(["policyd", "run", "--config", CONFIG]);
        let daemon = machine.spawn(&command)?;
        Ok(Self {
            machine: machine.clone(),
            daemon,
        })
    }

    /// Changes the file and makes the daemon read it again.
    pub(crate) fn reload(&mut self, weights: &[(&str, u32)]) -> Result<()> {
        if let Some(exit) = self.daemon.poll()? {
            bail!("policyd ended ({exit:?}):\n{}", self.daemon.output()?);
        }
        self.machine.write_file(CONFIG, config(weights))?;
        self.daemon.kill(SIGHUP)
    }
}

/// Returns the configuration file.
pub(crate) fn config(weights: &[(&str, u32)]) -> String {
    let mut text = "default_pool_weight = 0\n".to_owned();
    for (name, weight) in weights {
        let _ = write!(
            text,
            "\n[[container]]\nname = \"{name}\"\ncgroup = \"/{name}\"\nweight = {weight}\n\
             store = \"mem\"\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_as_the_manual_describes() {
        assert_eq!(
            config(&[("web", 60)]),
            "default_pool_weight = 0\n\n[[container]]\nname = \"web\"\ncgroup = \"/web\"\n\
             weight = 60\nstore = \"mem\"\n"
        );
    }
}
