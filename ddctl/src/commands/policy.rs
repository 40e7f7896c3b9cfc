// SPDX-License-Identifier: GPL-2.0-only

//! `ddctl policy`.

use crate::{
    context::Context,
    error::{Error, Kind, Result},
    number::{bytes, rate},
    output::{Frame, printable},
    paragraph::paragraph,
    table::Table,
    watch::{self, Watch},
};
use clap::Args;
use ddconf::size::show_bytes;
use ddnl::schema::{self, SCHEMA_VERSION};
use serde::Deserialize;
use serde_json::Value;
use std::{
    io::{self, BufRead, BufReader, Read},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

/// Show the targets and measurements of containers, as policyd reports them (guest)
///
/// Reads the report of the running daemon. `policyd explain` shows more about each container.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Examples:",
    "\n  ddctl policy",
    "\n  ddctl policy --watch 5",
))]
pub(crate) struct Arguments {
    /// Status socket of policyd
    #[arg(
        long,
        value_name = "SOCKET",
        default_value = "/run/doubledecker/policyd.sock"
    )]
    socket: PathBuf,
    #[command(flatten)]
    watch: Watch,
}

/// The fields of a report that are shown; `docs/users/policyd.md` describes all of them.
#[derive(Deserialize)]
struct Report {
    trouble: Option<String>,
    store_bytes: Option<u64>,
    feasible: Option<bool>,
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    name: String,
    class: String,
    verdict: String,
    share_bytes: Option<u64>,
    need_bytes: Option<u64>,
    goals: Vec<Goal>,
}

#[derive(Deserialize)]
struct Goal {
    figure: String,
    target: f64,
    measured: Option<f64>,
}

pub(crate) fn run(context: &mut Context<'_>, arguments: &Arguments) -> Result<()> {
    watch::show(context, &arguments.watch, |context, _| {
        let path = context.system.file(&arguments.socket.to_string_lossy());
        draw(&path, context.columns())
    })
}

fn draw(path: &Path, columns: usize) -> Result<Frame> {
    let line = read(path).map_err(|error| {
        Error::new(Kind::from(&error), format!("cannot ask policyd: {error}"))
            .hint("`systemctl status doubledecker-policyd` shows whether it runs")
    })?;
    let other = |error: serde_json::Error| {
        let message = format!("policyd sent a report that this version cannot read: {error}");
        Error::new(Kind::Version, message)
    };
    match schema::version_of(&line) {
        SCHEMA_VERSION => {}
        newer => {
            let message = format!("policyd sent a report of version {newer} of the schema");
            return Err(Error::new(Kind::Version, message)
                .hint("install the tools and the daemon of the same release"));
        }
    }
    let json: Value = serde_json::from_str(&line).map_err(other)?;
    let report: Report = serde_json::from_str(&line).map_err(other)?;
    let text = text(&report, columns);
    Ok(Frame::new(text, &json))
}

/// Reads one report from the daemon's socket.
fn read(path: &Path) -> io::Result<String> {
    const PATIENCE: Duration = Duration::from_secs(5);
    /// Maximum length of a report in bytes; a report of 1024 containers is shorter.
    const MAX_BYTES: u64 = 16 << 20;
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_BYTES)).read_line(&mut line)?;
    Ok(line)
}

fn text(report: &Report, columns: usize) -> String {
    let mut text = String::new();
    if let Some(trouble) = &report.trouble {
        text.push_str(&paragraph("", &printable(trouble), columns));
    }
    text.push_str(&match report.store_bytes {
        Some(bytes) => format!("The host gives this VM {}", show_bytes(bytes)),
        None => "No host: weights do not change".into(),
    });
    text.push_str(match report.feasible {
        Some(true) => "; all targets can be met\n",
        Some(false) => "; not all targets can be met\n",
        None => "\n",
    });
    let mut table = Table::new(
        4,
        &[
            "NAME", "CLASS", "VERDICT", "FIGURE", "NOW", "TARGET", "SHARE", "NEED",
        ],
    );
    for one in &report.containers {
        let size = |size: Option<u64>| size.map_or_else(|| "-".into(), bytes);
        let goal = one.goals.first();
        let figure = |value: Option<f64>| value.map_or_else(|| "-".into(), number);
        table.row([
            printable(&one.name),
            printable(&one.class.replace("priority", "prio")),
            printable(&one.verdict.replace('_', " ")),
            goal.map_or_else(
                || "-".into(),
                |goal| printable(&goal.figure.replace('_', " ")),
            ),
            figure(goal.and_then(|goal| goal.measured)),
            figure(goal.map(|goal| goal.target)),
            size(one.share_bytes),
            size(one.need_bytes),
        ]);
        // Each further goal has its own line.
        for goal in one.goals.iter().skip(1) {
            let mut cells = vec![String::new(); 8];
            cells[3] = printable(&goal.figure.replace('_', " "));
            cells[4] = figure(goal.measured);
            cells[5] = figure(Some(goal.target));
            table.row(cells);
        }
    }
    text.push_str(&table.text(columns));
    text
}

/// Formats a number with about three significant digits, in at most six columns.
fn number(number: f64) -> String {
    match number.abs() {
        size if size >= 9_999.5 => rate(number),
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 1.0 => format!("{number:.1}"),
        _ => format!("{number:.3}"),
    }
}
