// SPDX-License-Identifier: GPL-2.0-only

//! The part of `ddctl`'s output that the demo reads.

use anyhow::{Context as _, Result};
use ddlab::Machine;
use serde::Deserialize;
use serde_json::Value;

/// `ddctl stats --json` on the host.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Stats {
    #[serde(default)]
    pub(crate) vms: Vec<Vm>,
}

/// A VM.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Vm {
    pub(crate) name: Option<String>,
    pub(crate) weight: u32,
    pub(crate) used_pages: u64,
    pub(crate) entitlement_pages: u64,
    #[serde(default)]
    pub(crate) containers: Vec<Pool>,
}

/// A container, or the default pool.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) weight: u32,
    pub(crate) used_pages: u64,
    pub(crate) entitlement_pages: u64,
    pub(crate) stats: Option<Counters>,
}

/// Counters of a pool.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct Counters {
    pub(crate) puts: u64,
    pub(crate) gets: u64,
    pub(crate) misses: u64,
    pub(crate) evictions: u64,
    pub(crate) get_batches: u64,
    pub(crate) put_batches: u64,
}

/// Queries the host module.
pub(crate) fn stats(host: &Machine) -> Result<Stats> {
    let text = run(host, &["stats", "--json"])?;
    serde_json::from_str(&text).context("the output of ddctl stats --json has another form")
}

/// Returns the bytes of the host's index.
pub(crate) fn index_bytes(host: &Machine) -> Result<u64> {
    number(
        &json(host, &["status", "--json"])?,
        "/host/counters/index_bytes",
    )
}

/// Returns the bytes of a guest's map and of its containers' histories.
pub(crate) fn map_and_history(guest: &Machine) -> Result<u64> {
    let status = json(guest, &["status", "--json"])?;
    let list = json(guest, &["container", "list", "--json"])?;
    let containers = list["containers"].as_array();
    let containers = containers.context("ddctl container list --json has no containers")?;
    let history = containers
        .iter()
        .map(|one| number(one, "/admission/history_bytes"));
    Ok(number(&status, "/guest/counters/map_bytes")? + history.sum::<Result<u64>>()?)
}

fn json(machine: &Machine, arguments: &[&str]) -> Result<Value> {
    serde_json::from_str(&run(machine, arguments)?)
        .context("the output of ddctl --json has another form")
}

fn number(value: &Value, path: &str) -> Result<u64> {
    let found = value.pointer(path).and_then(Value::as_u64);
    found.with_context(|| format!("ddctl --json has no {path}"))
}

/// Runs `ddctl` with some arguments.
pub(crate) fn run(machine: &Machine, arguments: &[&str]) -> Result<String> {
    machine.exec_ok([&["ddctl"], arguments].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_prints_is_read() {
        let text = r#"{"vms":[{"id":1,"pid":9,"weight":100,"used_pages":5,"entitlement_pages":7,
            "pools":2,"stats":{"gets":1},"vmm":"qemu","name":"shop","uuid":null,"hit_ratio":null,
            "containers":[{"vm":1,"id":1,"name":"web","weight":60,"store":"mem",
            "used_pages":5,"entitlement_pages":7,"hit_ratio":0.5,"stats":{"weight":60,"puts":9,
            "gets":8,"hits":4,"misses":4,"evictions":0,"get_batches":2,"put_batches":1,
            "get_latency":[0,1]}}]}]}"#;
        let stats: Stats = serde_json::from_str(text).unwrap();
        assert_eq!(stats.vms[0].name.as_deref(), Some("shop"));
        let pool = &stats.vms[0].containers[0];
        assert_eq!(pool.stats.map(|stats| stats.get_batches), Some(2));
        assert!(serde_json::from_str::<Stats>("{}").unwrap().vms.is_empty());
    }
}
