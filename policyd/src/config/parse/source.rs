// SPDX-License-Identifier: GPL-2.0-only

//! Sources of targets.

use crate::config::{Endpoint, Figure, Kind, Origin, Source, Target};
use ddconf::reader::{MANY, Section};
use std::{ops::Range, time::Duration};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn source(
    mut section: Section<'_, '_, '_>,
    container: &Range<usize>,
    target: &Target,
) -> Option<Source> {
    let at = section.first().unwrap_or_else(|| container.clone());
    let figure = target.goals().next().map(|(figure, _)| figure);
    // All keys are read before the first error returns, so that all problems are reported.
    let origin = origin(&mut section, &at);
    let metric: String = section.get("metric").unwrap_or_default();
    let kind = section.get("kind");
    let scale = section.number("scale", -MANY..=MANY);
    let timeout = section.number("timeout_s", 0.05..=60.0);
    let every = section.number("every_s", 0.1..=3600.0);
    if section.has("http") && metric.is_empty() && origin.is_some() {
        section.problem(at.clone(), "a source with `http` needs a `metric`");
    }
    if let Err(message) = crate::measure::Metric::parse(&metric) {
        section.problem(at, format!("`metric`: {message}"));
    }
    section.end();
    Some(Source {
        origin: origin?,
        kind: kind.unwrap_or_else(|| usual_kind(&metric)),
        scale: scale.unwrap_or_else(|| usual_scale(&metric, figure)),
        metric,
        timeout: timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs_f64),
        every: every.map(Duration::from_secs_f64),
    })
}

/// Returns the origin of a figure: a URL, a command or a file.
fn origin(section: &mut Section<'_, '_, '_>, at: &Range<usize>) -> Option<Origin> {
    let http = section.parsed("http", Endpoint::parse).map(Origin::Http);
    let command: Option<Vec<String>> = section.get("command");
    let file: Option<String> = section.get("file");
    let given = ["http", "command", "file"].map(|key| usize::from(section.has(key)));
    if given.iter().sum::<usize>() != 1 {
        let message = "a source is one of `http`, `command` and `file`";
        section.problem(at.clone(), message);
        return None;
    }
    let command = command.and_then(|command| program(section, command));
    http.or(command.map(Origin::Command))
        .or(file.map(|file| Origin::File(file.into())))
}

fn program(section: &mut Section<'_, '_, '_>, command: Vec<String>) -> Option<Vec<String>> {
    let at = section.value("command").map_or(0..0, |value| value.span());
    let Some((program, arguments)) = command.split_first() else {
        section.problem(at, "`command` is an empty list");
        return None;
    };
    let shell = arguments.iter().position(|word| is_program_flag(word));
    let script = shell.map_or(&[][..], |shell| &arguments[shell..]);
    let message = if !program.starts_with('/') {
        "`command` is a list that begins with a program's full path"
    } else if program.contains("{}") || script.iter().any(|word| word.contains("{}")) {
        "`{}` must not be in a program or in a shell's script, because the name of a container \
         would become a part of it; read the environment's variable DD_CONTAINER instead, as \"$DD_CONTAINER\""
    } else {
        return Some(command);
    };
    section.problem(at, message);
    None
}

/// Returns whether the argument after this one is a program's text: `-c` of shells and of Python,
/// also among other letters.
fn is_program_flag(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    letters.contains('c') && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Returns the kind of a metric by Prometheus' naming rules.
fn usual_kind(metric: &str) -> Kind {
    let name = metric.split('{').next().unwrap_or_default();
    if name.ends_with("_total") {
        Kind::Counter
    } else if name.ends_with("_bucket") {
        Kind::Histogram
    } else {
        Kind::Gauge
    }
}

/// Returns the default factor: latencies are in milliseconds in the file, and in seconds in
/// Prometheus.
fn usual_scale(metric: &str, figure: Option<Figure>) -> f64 {
    if figure == Some(Figure::Latency) && metric.contains("_seconds") {
        1000.0
    } else {
        1.0
    }
}
