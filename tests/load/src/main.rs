// SPDX-License-Identifier: GPL-2.0-only

//! Generates the load of a file server and prints one JSON object for each interval.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::Parser;
use ddload::{End, Load};

/// Generate the load of a file server
///
/// Prints one JSON object per line: when the files exist, for every interval, and at the end.
#[derive(Debug, Parser)]
#[command(name = "ddload", version)]
struct Cli {
    #[command(flatten)]
    load: Load,
    /// End after SECONDS
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "operations")]
    seconds: Option<Duration>,
    /// End after COUNT requests, all threads together
    #[arg(long, value_name = "COUNT")]
    operations: Option<u64>,
    /// Print a line every SECONDS
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    interval: Duration,
    /// Enter the cgroup at PATH, below /sys/fs/cgroup or absolute, first
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Only create the files
    #[arg(long)]
    prepare: bool,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    if let Some(path) = &cli.cgroup {
        enter(path)?;
    }
    if cli.prepare {
        let ready = ddload::prepare(&cli.load)?;
        return print(&ddload::Line::Ready(ready));
    }
    let end = match (cli.seconds, cli.operations) {
        (Some(time), _) => End::Time(time),
        (None, Some(count)) => End::Operations(count),
        (None, None) => End::Never,
    };
    ddload::run(&cli.load, end, cli.interval, print)
}

fn print(line: &ddload::Line) -> Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let mut out = io::stdout().lock();
    // Each line is written at once, so that a reader never sees a part of it.
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

fn enter(path: &Path) -> Result<()> {
    let procs = Path::new("/sys/fs/cgroup").join(path).join("cgroup.procs");
    fs::write(&procs, "0").with_context(|| format!("cannot enter {}", procs.display()))
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 => {
            Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
        }
        _ => Err("expected a number of seconds above zero".to_owned()),
    }
}
