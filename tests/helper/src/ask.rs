// SPDX-License-Identifier: GPL-2.0-only

//! A client of a service. It asks at a steady rate, and publishes the number of answers.

mod service;

use std::{
    convert::Infallible,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use clap::ArgGroup;
use ddhelper::churn::Random;
use ddload::Pace;

use service::Service;

/// Interval between two publications of the number.
const PUBLISH: Duration = Duration::from_millis(250);

/// The questions, the service, and the rate.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("service").required(true).args(["web", "program"]))]
pub(crate) struct AskArguments {
    /// Questions a second
    #[arg(long)]
    rate: f64,
    /// While this file exists, the next question immediately follows the last answer
    #[arg(long)]
    unpaced_while: Option<PathBuf>,
    /// Questions have random numbers below this one
    #[arg(long)]
    of: u64,
    /// Question; `{}` is the number
    #[arg(long)]
    question: String,
    /// Beginning of an answer; `{}` is the number
    #[arg(long, default_value = "")]
    answer: String,
    /// File for the number of answers, in Prometheus' format
    #[arg(long)]
    metrics: PathBuf,
    /// Socket of a web server; questions are paths
    #[arg(long)]
    web: Option<PathBuf>,
    /// Program that answers a line with a line
    #[arg(last = true)]
    program: Vec<String>,
}

/// Asks until it is killed or an answer is wrong.
pub(crate) fn ask(arguments: &AskArguments) -> Result<Infallible> {
    ensure!(
        arguments.rate > 0.0,
        "{} is not a valid rate",
        arguments.rate
    );
    let mut service = match &arguments.web {
        Some(socket) => Service::web(socket)?,
        None => Service::program(&arguments.program)?,
    };
    let answers = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    // An answer may take long, so that the number is published independently.
    let (path, count) = (arguments.metrics.clone(), Arc::clone(&answers));
    thread::spawn(move || publish_for_ever(&path, start, &count));
    let every = Duration::from_secs_f64(1.0 / arguments.rate);
    let mut pace = Pace::new(start, Duration::ZERO, every);
    let mut rng = Random::new(arguments.of);
    loop {
        let unpaced = arguments.unpaced_while.as_ref();
        if !unpaced.is_some_and(|file| file.exists()) {
            thread::sleep(pace.next(Instant::now()));
        }
        let number = rng.below(arguments.of).to_string();
        let question = arguments.question.replace("{}", &number);
        let expected = arguments.answer.replace("{}", &number);
        let answer = service.ask(&question)?;
        ensure!(
            answer.starts_with(expected.as_bytes()),
            "{question:?} was answered by {:?}",
            String::from_utf8_lossy(answer)
        );
        answers.fetch_add(1, Relaxed);
    }
}

fn publish_for_ever(path: &Path, start: Instant, answers: &AtomicU64) {
    loop {
        // A missing new file is reported by its reader.
        if let Err(error) = publish(path, start.elapsed(), answers.load(Relaxed)) {
            eprintln!("{error:#}");
        }
        thread::sleep(PUBLISH);
    }
}

/// Writes the file atomically, so that its reader never sees a part of it.
fn publish(path: &Path, elapsed: Duration, answers: u64) -> Result<()> {
    let new = path.with_extension("new");
    let text = format!(
        "asked_seconds {:.3}\nanswers_total {answers}\n",
        elapsed.as_secs_f64()
    );
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
