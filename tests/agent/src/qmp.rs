// SPDX-License-Identifier: GPL-2.0-only

//! A VMM's control socket.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::net::UnixStream,
    path::Path,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Gives one command (JSON); its answer.
///
/// # Errors
///
/// Fails if there is no VMM, or it refuses.
pub fn command(socket: &Path, command: &str) -> Result<Value> {
    let stream = UnixStream::connect(socket)?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let mut ask = |text: &str| -> Result<Value> {
        (&stream).write_all(format!("{text}\n").as_bytes())?;
        loop {
            let line = lines.next().context("the VMM hung up")??;
            let mut message: Value = serde_json::from_str(&line)?;
            // The greeting and events are nothing to us.
            if let Some(error) = message.get("error") {
                bail!("the VMM refused: {error}");
            }
            if let Some(answer) = message.get_mut("return") {
                return Ok(answer.take());
            }
        }
    };
    ask(r#"{"execute":"qmp_capabilities"}"#)?;
    ask(command)
}
