// SPDX-License-Identifier: GPL-2.0-only

//! What a container should reach, and where its figures come from.

use serde::Deserialize;
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// What a container should reach; of several figures the worst counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    /// Operations a second, at least; from the source.
    pub throughput: Option<f64>,
    /// Milliseconds, at most; from the source, or else the time of gets at the host.
    pub latency_ms: Option<f64>,
    /// Which percentile of the latency, above 0 to 100.
    pub percentile: f64,
    /// Share of the asked pages that the store gives, at least, 0 to 1.
    pub hit_ratio: Option<f64>,
    /// Pages a second that come back soon after they were reclaimed, at most.
    pub refault_rate: Option<f64>,
    /// Share of time in which a task waits for memory (PSI some), at most, in percent.
    pub memory_pressure: Option<f64>,
    /// Share of time in which a task waits for I/O (PSI some), at most, in percent.
    pub io_pressure: Option<f64>,
    /// Where throughput or latency come from.
    pub source: Option<Source>,
}

/// Where an application's figure comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// What to ask.
    pub origin: Origin,
    /// The metric's name with the labels it must have; empty: the first number there is.
    pub metric: String,
    /// What the number is.
    pub kind: Kind,
    /// What the number is multiplied with.
    pub scale: f64,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How often it is asked; every interval if absent.
    pub every: Option<Duration>,
}

/// What is asked for figures.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// A program and its arguments; its output is read.
    Command(Vec<String>),
    /// A file.
    File(PathBuf),
    /// A page in Prometheus' text format.
    Http(Endpoint),
}

/// Where a page is. Names are not resolved, for there is no resolver in a small static program.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// Address and port.
    pub address: SocketAddr,
    /// The path, beginning with a slash.
    pub path: String,
}

/// What a number is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It counts up; its rate a second is meant.
    Counter,
    /// It is the figure.
    Gauge,
    /// Buckets of a Prometheus histogram; the percentile is taken from what was added to them.
    Histogram,
}

impl Endpoint {
    /// Reads `http://ADDRESS[:PORT][/PATH]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("http://").ok_or_else(|| {
            format!("`{text}` must begin with `http://`; a local exporter needs no TLS")
        })?;
        let (host, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/metrics"),
        };
        if path.contains(|c: char| c.is_control() || c == ' ') {
            return Err(format!("`{path}` is no path"));
        }
        if path.contains("{}") {
            return Err(
                "`{}` is not replaced in a page's path; select the container's series by \
                        a label in `metric`, where it is"
                    .into(),
            );
        }
        let host = host.replacen("localhost", "127.0.0.1", 1);
        let address = host
            .parse()
            .or_else(|_| format!("{host}:80").parse())
            .map_err(|_| {
                format!("`{host}` is no IP address with a port; names are not resolved")
            })?;
        Ok(Self {
            address,
            path: path.into(),
        })
    }
}

impl Target {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.goals().next().is_none()
    }

    /// The figures that are asked for, with the values they should have.
    pub fn goals(&self) -> impl Iterator<Item = (Figure, f64)> + use<> {
        [
            (Figure::Throughput, self.throughput),
            (Figure::Latency, self.latency_ms),
            (Figure::HitRatio, self.hit_ratio),
            (Figure::RefaultRate, self.refault_rate),
            (Figure::MemoryPressure, self.memory_pressure),
            (Figure::IoPressure, self.io_pressure),
        ]
        .into_iter()
        .filter_map(|(figure, value)| Some((figure, value?)))
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Operations a second.
    Throughput,
    /// Milliseconds.
    Latency,
    /// 0 to 1.
    HitRatio,
    /// Pages a second.
    RefaultRate,
    /// Percent of time.
    MemoryPressure,
    /// Percent of time.
    IoPressure,
}

impl Figure {
    /// Its name for people, and its unit.
    pub const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Throughput => ("throughput", "/s"),
            Self::Latency => ("latency", " ms"),
            Self::HitRatio => ("hit ratio", ""),
            Self::RefaultRate => ("refaults", "/s"),
            Self::MemoryPressure => ("memory pressure", " %"),
            Self::IoPressure => ("I/O pressure", " %"),
        }
    }

    /// Whether more is better.
    pub const fn rises(self) -> bool {
        matches!(self, Self::Throughput | Self::HitRatio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read() {
        let read =
            |text: &str| Endpoint::parse(text).map(|one| format!("{}{}", one.address, one.path));
        let right = |text: &str, to: &str| assert_eq!(read(text).as_deref(), Ok(to));
        right("http://127.0.0.1:9113/metrics", "127.0.0.1:9113/metrics");
        right("http://localhost:1", "127.0.0.1:1/metrics");
        right("http://[::1]:80/a?b=c", "[::1]:80/a?b=c");
        right("http://10.0.0.1/", "10.0.0.1:80/");
        for text in [
            "https://127.0.0.1/",
            "http://web/",
            "127.0.0.1",
            "http://1.2.3.4/a b",
            "http://1.2.3.4/{}",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
