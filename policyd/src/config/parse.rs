// SPDX-License-Identifier: GPL-2.0-only

//! The tables of the file: their keys, and the values that these accept.

mod container;
mod contradiction;
mod roots;
mod selector;
mod source;
mod target;

use super::{Config, Offload, Reclaim, Size};
use ddabi::pool::{DEFAULT_WEIGHT, MAX_WEIGHT};
use ddconf::{
    Problem,
    address::{POLICYD_PORT, address},
    reader::{MANY, Reader, Section},
};
use std::{path::PathBuf, time::Duration};
use toml::de::DeTable;

pub(super) fn config(text: &str) -> Result<Config, Vec<Problem>> {
    ddconf::parse(text, top)
}

fn top(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Config {
    let mut section = reader.section(table, "");
    let mut config = Config::default();
    if let Some(seconds) = section.number("interval_s", 0.1..=3600.0) {
        config.interval = Duration::from_secs_f64(seconds);
    }
    if let Some(at) = section.value("cgroup_root").map(|value| value.span()) {
        config.cgroup_root = section.string("cgroup_root").unwrap_or_default().into();
        if !config.cgroup_root.is_absolute() {
            section.problem(at, "`cgroup_root` must be an absolute path");
        }
    }
    config.default_pool_weight = section.whole("default_pool_weight", MAX_WEIGHT);
    let default_weight = section.whole("default_weight", MAX_WEIGHT);
    if let Some(part) = section.percent("max_step_percent", 1.0..=100.0) {
        config.max_step = part;
    }
    if let Some(part) = section.percent("floors_percent", 0.0..=50.0) {
        config.floors = part;
    }
    if let Some(part) = section.percent("margin_percent", 0.0..=50.0) {
        config.margin = part;
    }
    if section.has("status_socket") {
        config.status_socket = section.parsed("status_socket", socket).flatten();
    }
    config.metrics = section.parsed("metrics", |text| address(text, POLICYD_PORT));
    if let Some(below) = section.table("runtimes") {
        let below = section.reader.section(below, " in [runtimes]");
        config.runtimes = Box::new(roots::roots(below));
    }
    if let Some(below) = section.table("reclaim") {
        config.reclaim = reclaim(section.reader.section(below, " in [reclaim]"));
    }
    if let Some(below) = section.table("offload") {
        config.offload = offload(section.reader.section(below, " in [offload]"));
    }
    if let Some(value) = section.value("container") {
        let weight = default_weight.unwrap_or(DEFAULT_WEIGHT);
        config.containers = container::all(section.reader, value, weight);
    }
    section.end();
    config
}

/// Parses the path of a socket. An empty text stands for none.
fn socket(text: &str) -> Result<Option<PathBuf>, String> {
    let path = PathBuf::from(text);
    match text {
        "" => Ok(None),
        _ if path.is_absolute() => Ok(Some(path)),
        _ => Err("must be an absolute path, or empty for none".into()),
    }
}

fn reclaim(mut section: Section<'_, '_, '_>) -> Reclaim {
    let usual = Reclaim::default();
    let reclaim = Reclaim {
        enabled: section.get("enabled").unwrap_or(true),
        pressure: section
            .number("pressure_percent", 0.0..=100.0)
            .unwrap_or(usual.pressure),
        free: section
            .percent("free_percent", 0.0..=90.0)
            .unwrap_or(usual.free),
        chunk: section
            .get("chunk")
            .map_or(usual.chunk, |Size(bytes)| bytes),
    };
    if let Some(value) = section.value("chunk") {
        if reclaim.chunk < MIN_CHUNK {
            section.problem(value.span(), "`chunk` must be at least \"1M\"");
        }
    }
    section.end();
    reclaim
}

/// The smallest chunk: less is not worth a system call.
const MIN_CHUNK: u64 = 1 << 20;

fn offload(mut section: Section<'_, '_, '_>) -> Offload {
    let usual = Offload::default();
    let period = section.number("period_s", 1.0..=3600.0);
    let offload = Offload {
        enabled: section.get("enabled").unwrap_or(true),
        period: period.map_or(usual.period, Duration::from_secs_f64),
        step: section
            .percent("step_percent", 0.01..=10.0)
            .unwrap_or(usual.step),
        pressure: section
            .number("pressure_percent", 0.001..=100.0)
            .unwrap_or(usual.pressure),
        io_pressure: section
            .number("io_pressure_percent", 0.001..=100.0)
            .unwrap_or(usual.io_pressure),
        refaults: section
            .number("refaults_per_s", 0.1..=MANY)
            .unwrap_or(usual.refaults),
    };
    section.end();
    offload
}
