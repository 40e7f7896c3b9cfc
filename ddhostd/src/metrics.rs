// SPDX-License-Identifier: GPL-2.0-only

//! The report as a page for Prometheus.

use crate::report::{Counters, Report, VmReport};
use ddabi::PAGE_SIZE;
use ddnl::printable;
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use std::{collections::BTreeMap, fmt, sync::atomic::AtomicU64};

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
type Counts = Family<Labels, Counter>;

/// Counters of the module that fall, too.
const GAUGES: [&str; 1] = ["index_bytes"];

/// The report as text.
pub fn page(report: &Report) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("ddhostd");
    host(&mut registry, report);
    vms(&mut registry, &report.vms);
    let mut page = String::new();
    encode(&mut page, &registry)?;
    Ok(page)
}

fn host(registry: &mut Registry, report: &Report) {
    let truth = |is_so: bool| f64::from(u8::from(is_so));
    let mut gauge = |name: &str, help: &str, value: f64| {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    };
    let healthy = "Whether everything that the file says is in force";
    gauge("healthy", healthy, truth(report.healthy));
    let module = "Whether the host module is loaded";
    gauge("module", module, truth(report.tier.is_some()));
    gauge("vms", "Registered VMs", report.vms.len() as f64);
    let Some(tier) = &report.tier else {
        return;
    };
    for (name, help, pages) in [
        (
            "capacity",
            "Capacity of the memory tier",
            tier.capacity_pages,
        ),
        (
            "limit",
            "Part of the capacity that the host can spare",
            tier.limit_pages,
        ),
        ("used", "Part of the memory tier in use", tier.used_pages),
        (
            "floor",
            "Part of the memory tier that is kept when the host runs short of memory",
            tier.floor_pages,
        ),
    ] {
        gauge(&format!("{name}_bytes"), help, bytes(pages));
    }
    for (name, value) in &tier.counters {
        let help = format!("The module's counter {name}");
        if GAUGES.contains(&name.as_str()) {
            gauge(name, &help, *value as f64);
        }
    }
    for (name, value) in &tier.counters {
        if !GAUGES.contains(&name.as_str()) {
            let counter = Counter::<u64>::default();
            counter.inc_by(*value);
            let help = format!("The module's counter {name}");
            registry.register(name, help, counter);
        }
    }
}

fn vms(registry: &mut Registry, vms: &[VmReport]) {
    type Of = fn(&VmReport) -> f64;
    let gauges: [(&str, &str, Of); 5] = [
        ("weight", "Weight of a VM", |vm| vm.weight.into()),
        ("ssd_weight", "Weight of a VM in the SSD tier", |vm| {
            vm.ssd_weight.into()
        }),
        ("file_weight", "Weight that the file gives a VM", |vm| {
            vm.file_weight.into()
        }),
        (
            "used_bytes",
            "Part of the memory tier that a VM uses",
            |vm| bytes(vm.used_pages),
        ),
        (
            "entitlement_bytes",
            "Part of the memory tier that a VM is entitled to",
            |vm| bytes(vm.entitlement_pages),
        ),
    ];
    for (name, help, of) in gauges {
        let values = Gauges::default();
        for vm in vms {
            values.get_or_create(&labels(vm)).set(of(vm));
        }
        registry.register(format!("vm_{name}"), help, values);
    }
    let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
    for vm in vms {
        let counters: &Counters = &vm.counters;
        for (name, value) in counters {
            let counts = counts.entry(name).or_default();
            counts.get_or_create(&labels(vm)).inc_by(*value);
        }
    }
    for (name, counts) in counts {
        let help = format!("Sum of the counter {name} over the containers of a VM");
        registry.register(format!("vm_{name}"), help, counts);
    }
}

fn bytes(pages: u64) -> f64 {
    pages as f64 * PAGE_SIZE as f64
}

fn labels(vm: &VmReport) -> Labels {
    vec![
        ("vm", vm.id.to_string()),
        ("name", printable(&vm.label()).into_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Rule, Tier};

    #[test]
    fn an_empty_report_is_a_page() {
        let page = page(&Report::default()).unwrap();
        assert!(page.contains("ddhostd_module 0.0\n"), "{page}");
        assert!(page.ends_with("# EOF\n"), "{page}");
        assert!(!page.contains("capacity_bytes"), "{page}");
    }

    #[test]
    fn the_host_and_vms_are_told() {
        let counters = |name: &str, value| Counters::from([(name.to_owned(), value)]);
        let mut host = counters("calls", 7);
        host.extend(counters("index_bytes", 9));
        let report = Report {
            healthy: true,
            tier: Some(Tier {
                capacity_pages: 2,
                counters: host,
                ..Tier::default()
            }),
            vms: vec![VmReport {
                id: 3,
                pid: None,
                uid: None,
                name: Some("a\u{1b}b".into()),
                uuid: None,
                cgroup: None,
                weight: 60,
                ssd_weight: 60,
                file_weight: 70,
                file_ssd_weight: 70,
                rule: Rule::Allow,
                used_pages: 1,
                entitlement_pages: 2,
                counters: counters("hits", 5),
            }],
            ..Report::default()
        };
        let page = page(&report).unwrap();
        for line in [
            "ddhostd_healthy 1.0",
            "ddhostd_capacity_bytes 8192.0",
            "ddhostd_calls_total 7",
            "ddhostd_index_bytes 9.0",
            "ddhostd_vm_weight{vm=\"3\",name=\"a\\\\u{1b}b\"} 60.0",
            "ddhostd_vm_file_weight{vm=\"3\",name=\"a\\\\u{1b}b\"} 70.0",
            "ddhostd_vm_used_bytes{vm=\"3\",name=\"a\\\\u{1b}b\"} 4096.0",
            "ddhostd_vm_hits_total{vm=\"3\",name=\"a\\\\u{1b}b\"} 5",
        ] {
            assert!(page.lines().any(|one| one == line), "{line} in {page}");
        }
    }
}
