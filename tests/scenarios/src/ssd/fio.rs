// SPDX-License-Identifier: GPL-2.0-only

//! The reports of fio, in JSON.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use crate::stage::ratio;

/// The output of fio.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    jobs: Vec<Job>,
}

#[derive(Debug, Deserialize)]
struct Job {
    read: Direction,
    write: Direction,
}

#[derive(Debug, Deserialize)]
struct Direction {
    total_ios: u64,
    io_bytes: u64,
    /// Milliseconds.
    runtime: u64,
    lat_ns: Latency,
}

#[derive(Debug, Deserialize)]
struct Latency {
    mean: f64,
}

impl Report {
    /// Parses the output, which may begin with remarks.
    pub(super) fn of(output: &str) -> Result<Self> {
        let start = output
            .find('{')
            .with_context(|| format!("no report: {output}"))?;
        serde_json::from_str(&output[start..]).context("fio's report")
    }

    fn job(&self) -> Result<&Job> {
        self.jobs.first().context("a job of fio")
    }

    /// Returns the mean time of a read in microseconds.
    pub(super) fn read_us(&self) -> Result<f64> {
        Ok(self.job()?.read.lat_ns.mean / 1000.0)
    }

    /// Returns the number of reads.
    pub(super) fn reads(&self) -> Result<u64> {
        Ok(self.job()?.read.total_ios)
    }

    /// Returns the MiB that were written in a second.
    pub(super) fn write_mib_per_s(&self) -> Result<f64> {
        let write = &self.job()?.write;
        ensure!(write.runtime > 0, "fio wrote nothing");
        Ok(ratio(write.io_bytes, 1 << 20) * 1000.0 / write.runtime as f64)
    }
}
