// SPDX-License-Identifier: GPL-2.0-only

//! The report as a page for Prometheus.

use crate::{
    config::Figure,
    engine::{Explanation, Report, Verdict},
};
use ddnl::printable;
use prometheus_client::{
    encoding::text::encode,
    metrics::{family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use std::{fmt, sync::atomic::AtomicU64};

type Labels = Vec<(&'static str, String)>;
type Values = Family<Labels, Gauge<f64, AtomicU64>>;

/// The report as text.
pub fn page(report: &Report) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("policyd");
    machine(&mut registry, report);
    type Of = fn(&Explanation) -> Option<f64>;
    let metrics: [(&str, &str, Option<Unit>, Of); 8] = [
        ("weight", "Weight in the memory tier", None, |one| {
            Some(one.weight.into())
        }),
        ("share", "Share of the store", Some(Unit::Bytes), |one| {
            one.share_bytes.map(|bytes| bytes as f64)
        }),
        (
            "used",
            "Part of the store in use",
            Some(Unit::Bytes),
            |one| one.used_bytes.map(|bytes| bytes as f64),
        ),
        (
            "need",
            "Part of the store that would meet the target",
            Some(Unit::Bytes),
            |one| one.need_bytes.map(|bytes| bytes as f64),
        ),
        ("memory", "Guest memory in use", Some(Unit::Bytes), |one| {
            Some(one.memory_bytes as f64)
        }),
        (
            "memory_high",
            "Limit of guest memory",
            Some(Unit::Bytes),
            |one| one.limits.high.map(|bytes| bytes as f64),
        ),
        ("enrolled", "Whether it has a pool", None, |one| {
            Some(f64::from(u8::from(one.enrolled)))
        }),
        (
            "met",
            "Whether its target is met; absent without figures",
            None,
            |one| {
                let measured =
                    !one.goals.is_empty() && one.goals.iter().all(|it| it.is_met().is_some());
                let met = one.goals.iter().all(|it| it.is_met() == Some(true));
                let met = met || one.verdict == Verdict::NotAsked;
                measured.then(|| f64::from(u8::from(met)))
            },
        ),
    ];
    for (name, help, unit, of) in metrics {
        let values = Values::default();
        for one in &report.containers {
            if let Some(value) = of(one) {
                values.get_or_create(&labels(one)).set(value);
            }
        }
        let name = format!("container_{name}");
        match unit {
            Some(unit) => registry.register_with_unit(name, help, unit, values),
            None => registry.register(name, help, values),
        }
    }
    goals(&mut registry, report);
    let mut page = String::new();
    encode(&mut page, &registry)?;
    Ok(page)
}

fn machine(registry: &mut Registry, report: &Report) {
    let memory = &report.memory;
    let metrics = [
        (
            "module",
            "Whether the guest module is there",
            Some(f64::from(u8::from(report.module))),
        ),
        (
            "store_bytes",
            "What the host gives this VM",
            report.store_bytes.map(|it| it as f64),
        ),
        (
            "feasible",
            "Whether all targets can be met",
            report.feasible.map(|it| f64::from(u8::from(it))),
        ),
        (
            "memory_pressure_percent",
            "Time in which some task of this VM waited for memory",
            memory.pressure_percent,
        ),
        (
            "reclaimed_bytes",
            "Reclaimed under pressure since the start",
            Some(memory.reclaimed_bytes as f64),
        ),
        (
            "offloaded_bytes",
            "Pushed out since the start",
            Some(memory.offloaded_bytes as f64),
        ),
    ];
    for (name, help, value) in metrics {
        if let Some(value) = value {
            let gauge = Gauge::<f64, AtomicU64>::default();
            gauge.set(value);
            registry.register(name, help, gauge);
        }
    }
}

fn goals(registry: &mut Registry, report: &Report) {
    let (targets, measured) = (Values::default(), Values::default());
    for one in &report.containers {
        for goal in &one.goals {
            let mut labels = labels(one);
            labels.push(("figure", Figure::key(goal.figure).into()));
            targets.get_or_create(&labels).set(goal.target);
            if let Some(value) = goal.measured {
                measured.get_or_create(&labels).set(value);
            }
        }
    }
    registry.register("container_target", "What a figure should be", targets);
    registry.register("container_measured", "What a figure is", measured);
}

fn labels(one: &Explanation) -> Labels {
    vec![
        ("container", printable(&one.name).into_owned()),
        ("cgroup", printable(&one.cgroup).into_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_report_is_a_page() {
        let page = page(&Report::default()).unwrap();
        assert!(page.contains("policyd_module 0.0\n"), "{page}");
        assert!(page.ends_with("# EOF\n"), "{page}");
        assert!(!page.contains("store_bytes"), "{page}");
    }

    #[test]
    fn labels_have_no_hidden_letters() {
        let labels = |name: &str| {
            let line = serde_json::json!({
                "cgroup": format!("/{name}"), "name": name, "class": "gold", "enrolled": true,
                "verdict": "met", "reason": "", "weight": 1,
                "share_bytes": null, "used_bytes": null, "need_bytes": null,
                "character": "mixed", "goals": [], "memory_bytes": 0, "anon_bytes": 0,
                "limits": {},
            });
            let one: Explanation = serde_json::from_value(line).unwrap();
            let report = Report {
                containers: vec![one],
                ..Report::default()
            };
            (page(&report).unwrap(), report.to_string())
        };
        let (page, text) = labels("a\u{1b}[2J\u{202e}b\u{200b}");
        for text in [&page, &text] {
            assert!(text.contains("u{202e}b"), "{text}");
            let hidden = text
                .chars()
                .find(|one| ddnl::is_hidden(*one) && *one != '\n');
            assert_eq!(hidden, None, "{text:?}");
        }
    }
}
