// SPDX-License-Identifier: GPL-2.0-only

//! Prometheus on this machine, with the shipped jobs and rules.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use ddlab::{Process, wait};
use serde::{Deserialize, de::DeserializeOwned};

const JOBS: &str = include_str!("../../../../packaging/monitoring/prometheus.yml");
const RULES: &str = include_str!("../../../../packaging/monitoring/doubledecker.rules.yml");
/// Settings that the shipped jobs leave to the administrator. The daemons read the counters every
/// five seconds, and machines are slow under emulation.
const GLOBAL: &str = "global:
  scrape_interval: 5s
  scrape_timeout: 5s
  evaluation_interval: 1s
";
/// What replaces each alert's `for:`, so that none is awaited for minutes. One failed scrape is too
/// short for it, as with the shipped durations.
const FOR: &str = "8s";
/// Times over which alerts look back at errors of a device, and what replaces them, so that an
/// alert ends soon after the last error.
const LOOK_BACK: &str = "[1h]";
const SHORT_LOOK_BACK: &str = "[30s]";
/// The longest time of an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Labels of a series or of an alert.
pub(super) type Labels = BTreeMap<String, String>;

/// Points of a series: times in seconds, and values.
pub(super) type Points = Vec<(f64, f64)>;

/// A Prometheus that scrapes a host and a guest. It is killed when it is dropped.
pub(super) struct Prometheus {
    address: SocketAddr,
    process: Process,
    log: PathBuf,
}

/// A series of an answer, with its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) labels: Labels,
    pub(super) value: f64,
}

/// An alert whose condition holds.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Alert {
    pub(super) labels: Labels,
    /// `pending` until the condition has held for the time of the rule, then `firing`.
    pub(super) state: String,
}

impl Prometheus {
    /// Starts `program` in a new directory. `files` are the files with the targets,
    /// by name.
    pub(super) fn start(
        program: &Path,
        directory: &Path,
        files: &[(&str, String)],
    ) -> Result<Self> {
        if directory.exists() {
            fs::remove_dir_all(directory)?;
        }
        fs::create_dir_all(directory)?;
        let write = |name: &str, text: &str| fs::write(directory.join(name), text);
        write("prometheus.yml", &format!("{GLOBAL}{JOBS}"))?;
        write("doubledecker.rules.yml", &shortened(RULES)?)?;
        for (name, text) in files {
            ensure!(JOBS.contains(name), "no job reads {name}");
            write(name, text)?;
        }
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let log = directory.join("prometheus.log");
        let path = |name: &str| directory.join(name).display().to_string();
        let argv = [
            program.display().to_string(),
            format!("--config.file={}", path("prometheus.yml")),
            format!("--storage.tsdb.path={}", path("data")),
            format!("--web.listen-address={address}"),
        ];
        let process = Process::start(&argv, &[], fs::File::create(&log)?)?;
        let this = Self {
            address,
            process,
            log,
        };
        wait::until("Prometheus is ready", || {
            if let Some(exit) = this.process.exit() {
                let log = fs::read_to_string(&this.log)?;
                bail!("Prometheus ended ({exit}):\n{log}");
            }
            // It does not listen at first.
            Ok(this.get("/-/ready").ok().map(drop))
        })?;
        Ok(this)
    }

    /// Returns the series of an expression.
    pub(super) fn query(&self, expression: &str) -> Result<Vec<Sample>> {
        #[derive(Deserialize)]
        struct Data {
            result: Vec<Series>,
        }
        #[derive(Deserialize)]
        struct Series {
            metric: Labels,
            value: (f64, String),
        }
        let data: Data = self.ask(&format!("query?query={}", encoded(expression)))?;
        let samples = data.result.into_iter().map(|series| {
            Ok(Sample {
                labels: series.metric,
                value: series.value.1.parse()?,
            })
        });
        samples.collect()
    }

    /// Returns the series of an expression with their points, whose times and ends are in seconds
    /// since 1970.
    pub(super) fn range(
        &self,
        expression: &str,
        (from, to): (u64, u64),
        step_s: u32,
    ) -> Result<Vec<(Labels, Points)>> {
        #[derive(Deserialize)]
        struct Data {
            result: Vec<Series>,
        }
        #[derive(Deserialize)]
        struct Series {
            metric: Labels,
            values: Vec<(f64, String)>,
        }
        let expression = encoded(expression);
        let data: Data = self.ask(&format!(
            "query_range?query={expression}&start={from}&end={to}&step={step_s}"
        ))?;
        let series = data.result.into_iter().map(|Series { metric, values }| {
            let points = values
                .into_iter()
                .map(|(at, value)| Ok((at, value.parse()?)));
            Ok((metric, points.collect::<Result<_>>()?))
        });
        series.collect()
    }

    /// Returns all alerts that are pending or firing.
    pub(super) fn alerts(&self) -> Result<Vec<Alert>> {
        #[derive(Deserialize)]
        struct Data {
            alerts: Vec<Alert>,
        }
        Ok(self.ask::<Data>("alerts")?.alerts)
    }

    fn ask<T: DeserializeOwned>(&self, what: &str) -> Result<T> {
        #[derive(Deserialize)]
        struct Answer<T> {
            data: T,
        }
        let body = self.get(&format!("/api/v1/{what}"))?;
        let answer: Answer<T> = serde_json::from_str(&body)
            .with_context(|| format!("Prometheus answers {what} with {body}"))?;
        Ok(answer.data)
    }

    /// Returns the body of a page. A request of HTTP/1.0 is answered in one piece.
    fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .context("the answer has no head")?;
        let status = head.lines().next().unwrap_or_default();
        ensure!(status.contains(" 200 "), "GET {path}: {status}\n{body}");
        Ok(body.to_owned())
    }
}

/// Returns rules whose alerts fire soon.
fn shortened(rules: &str) -> Result<String> {
    let mut count = 0;
    let lines = rules.lines().map(|line| {
        let Some((indent, _)) = line.split_once("for: ") else {
            return line.replace(LOOK_BACK, SHORT_LOOK_BACK);
        };
        count += 1;
        format!("{indent}for: {FOR}")
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    ensure!(count > 5, "only {count} rules have durations");
    Ok(text)
}

/// Returns a text as a part of an address.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_fire_soon_in_the_copy() {
        let text = shortened(RULES).unwrap();
        assert_eq!(
            text.matches("alert: ").count(),
            RULES.matches("alert: ").count()
        );
        assert!(text.contains("        for: 8s\n") && !text.contains("for: 5m"));
        assert!(text.contains("read_errors_total[30s]") && !text.contains(LOOK_BACK));
        assert!(shortened("groups: []").is_err());
    }

    #[test]
    fn expressions_are_encoded() {
        assert_eq!(encoded("a_1{b=\"c\"}"), "a%5F1%7Bb%3D%22c%22%7D");
    }
}
