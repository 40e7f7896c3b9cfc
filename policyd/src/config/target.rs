// SPDX-License-Identifier: GPL-2.0-only

//! Targets of containers, and the sources of their figures.

use schemars::JsonSchema;
use serde::Deserialize;
use std::{net::SocketAddr, path::PathBuf, time::Duration};

/// The target of a container. If it has several figures, the worst one counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    /// The least operations a second, as the source reports them.
    pub throughput: Option<f64>,
    /// The longest latency in milliseconds, as the source reports it, or else of gets at the host.
    pub latency_ms: Option<f64>,
    /// The percentile of the latency, above 0 and up to 100.
    pub percentile: f64,
    /// The least part of the requested pages that the store returns, 0 to 1.
    pub hit_ratio: Option<f64>,
    /// The most refaults of file pages a second.
    pub refault_rate: Option<f64>,
    /// The highest memory pressure (PSI some), in percent of time.
    pub memory_pressure: Option<f64>,
    /// The highest I/O pressure (PSI some), in percent of time.
    pub io_pressure: Option<f64>,
    /// The source of throughput or latency.
    pub source: Option<Source>,
}

/// The source of an application's figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The program, file or page that is read.
    pub origin: Origin,
    /// The metric's name and the labels that it must have. If it is empty, the first number is
    /// taken.
    pub metric: String,
    /// The kind of the number.
    pub kind: Kind,
    /// Factor by which the number is multiplied.
    pub scale: f64,
    /// The longest time for an answer.
    pub timeout: Duration,
    /// Time between two questions; the daemon's interval if absent.
    pub every: Option<Duration>,
}

/// A program, file or page that has figures.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// A program and its arguments; its output is read.
    Command(Vec<String>),
    /// A file.
    File(PathBuf),
    /// A page in Prometheus' text format.
    Http(Endpoint),
}

/// Location of a page. Host names are not accepted, because a small static program has no resolver.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// Address and port.
    pub address: SocketAddr,
    /// The path, which begins with a slash.
    pub path: String,
}

/// The kind of a number.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A counter, whose rate a second is the figure.
    Counter,
    /// The figure itself.
    Gauge,
    /// Buckets of a Prometheus histogram. The percentile is computed from their increase.
    Histogram,
}

impl Endpoint {
    /// Parses `http://ADDRESS[:PORT][/PATH]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("http://").ok_or_else(|| {
            format!("`{text}` must begin with `http://`; a local exporter needs no TLS")
        })?;
        let (host, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/metrics"),
        };
        if path.contains(|c: char| c.is_control() || c == ' ') {
            return Err(format!("`{path}` is not a valid path"));
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
                format!("`{host}` is not an IP address with a port; names are not resolved")
            })?;
        Ok(Self {
            address,
            path: path.into(),
        })
    }
}

impl Target {
    /// Returns whether it has no figure.
    pub fn is_empty(&self) -> bool {
        self.goals().next().is_none()
    }

    /// Returns the figures of the target and their values.
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

/// A measured figure.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, serde::Serialize,
)]
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
    /// Returns its name in messages, and its unit.
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

    /// Returns whether a larger value is better.
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
