// SPDX-License-Identifier: GPL-2.0-only

//! Progress messages: the running steps and their time.

use std::{
    fs,
    io::{IsTerminal as _, Read as _, Seek as _, SeekFrom},
    path::Path,
    process::{Command, Stdio},
    sync::LazyLock,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// The running steps, with a line for each.
static STEPS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Runs a step that may take long, with a message before and after.
pub(crate) fn step<T>(what: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let terminal = std::io::stderr().is_terminal();
    let bar = terminal.then(|| spinner(what));
    if !terminal {
        eprintln!("{what} ...");
    }
    let done = run();
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let end = if done.is_ok() { "done" } else { "FAILED" };
    STEPS.suspend(|| eprintln!("{what}: {end} ({:.1} s)", start.elapsed().as_secs_f64()));
    done
}

fn spinner(what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
        .unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = STEPS.add(
        ProgressBar::new_spinner()
            .with_style(style)
            .with_message(what.to_owned()),
    );
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Runs a command whose output goes to `log`. On failure the error contains the end of the output.
pub(crate) fn quiet(command: &mut Command, log: &Path) -> Result<()> {
    if let Some(dir) = log.parent() {
        fs::create_dir_all(dir)?;
    }
    let file = fs::File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    let status = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    if !status.success() {
        bail!(
            "{:?} failed ({status}); the end of {}:\n{}",
            command.get_program(),
            log.display(),
            tail(log)
        );
    }
    Ok(())
}

fn tail(log: &Path) -> String {
    let read = || {
        let mut file = fs::File::open(log)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(6000)))?;
        let mut end = Vec::new();
        file.read_to_end(&mut end)?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&end).into_owned())
    };
    read().unwrap_or_default()
}
