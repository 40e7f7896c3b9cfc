// SPDX-License-Identifier: GPL-2.0-only

//! Programs in the background.

use anyhow::{Context as _, Result};
use ddagent::protocol::{Answer, Exit, Op};

use crate::machine::{Machine, unexpected};

/// A background program.
#[derive(Debug)]
pub struct Running {
    machine: Machine,
    handle: u64,
    pid: i32,
    output: String,
    ended: bool,
}

impl Running {
    pub(crate) fn new(machine: Machine, handle: u64, pid: i32, output: String) -> Self {
        Self {
            machine,
            handle,
            pid,
            output,
            ended: false,
        }
    }

    /// Returns its process id in its machine.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the same program after its machine was migrated to another one.
    #[must_use]
    pub fn moved(mut self, to: &Machine) -> Self {
        self.machine = to.clone();
        self
    }

    /// Returns how it ended, or `None` while it runs.
    ///
    /// # Errors
    ///
    /// Fails if the machine is dead.
    pub fn poll(&mut self) -> Result<Option<Exit>> {
        let exit = state(self.machine.call(Op::Poll {
            handle: self.handle,
        })?)?;
        self.ended |= exit.is_some();
        Ok(exit)
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// Fails if the machine dies.
    pub fn wait(&mut self) -> Result<Exit> {
        let exit = state(self.machine.call(Op::Wait {
            handle: self.handle,
        })?)?;
        self.ended = true;
        exit.context("the agent stopped waiting")
    }

    /// Sends a signal to it and its children.
    ///
    /// # Errors
    ///
    /// Fails if the machine is dead.
    pub fn kill(&self, signal: i32) -> Result<()> {
        self.machine
            .call(Op::Kill {
                handle: self.handle,
                signal,
            })
            .map(drop)
    }

    /// Returns its output so far, of both streams.
    ///
    /// # Errors
    ///
    /// Fails if the machine is dead.
    pub fn output(&self) -> Result<String> {
        let data = self.output_from(0)?;
        Ok(String::from_utf8_lossy(&data).into_owned())
    }

    /// Returns its output so far without the first `offset` bytes.
    ///
    /// # Errors
    ///
    /// Fails if the machine is dead.
    pub fn output_from(&self, offset: u64) -> Result<Vec<u8>> {
        self.machine.read_file_from(&self.output, offset)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended {
            // The answer is not awaited, because the machine may be dead.
            let _ = self.machine.tell(Op::Kill {
                handle: self.handle,
                signal: 9,
            });
        }
    }
}

fn state(answer: Answer) -> Result<Option<Exit>> {
    match answer {
        Answer::State(exit) => Ok(exit),
        other => unexpected(&other),
    }
}
