// SPDX-License-Identifier: GPL-2.0-only

//! Containers of the file.

use super::{contradiction, selector::selector, target};
use crate::config::{
    Amount, Container, Priority, Selector, StoreName,
    value::{AdmitName, Class, PolicyName},
};
use ddabi::{
    NAME_LEN,
    pool::{MAX_POOLS, MAX_WEIGHT},
};
use ddconf::reader::{Reader, Section, Value};
use std::{collections::BTreeMap, ops::Range};

/// Parses all containers of the list.
pub(super) fn all(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    default_weight: u32,
) -> Vec<Container> {
    let Some(items) = value.get_ref().as_array() else {
        reader.problem(
            value.span(),
            "`container` is a list: begin each one with `[[container]]`",
        );
        return Vec::new();
    };
    let mut containers = Vec::new();
    let mut places = Vec::new();
    for item in items {
        let Some(table) = item.get_ref().as_table() else {
            reader.problem(item.span(), "a container is a table of keys and values");
            continue;
        };
        let section = reader.section(table, " in [[container]]");
        if let Some(container) = container(section, item.span(), default_weight) {
            containers.push(container);
            places.push(item.span());
        }
    }
    check_twins(reader, &containers, &places);
    check_floors(reader, &containers, &places);
    containers
}

/// Refuses containers with the same selector or the same name.
fn check_twins(reader: &mut Reader<'_>, containers: &[Container], places: &[Range<usize>]) {
    let (mut names, mut cgroups) = (BTreeMap::new(), BTreeMap::new());
    for (container, at) in containers.iter().zip(places) {
        let line = reader.line(at);
        let selector = container.selector.text();
        let mut twins = vec![("cgroup", selector, &mut cgroups)];
        if !container.selector.is_glob() {
            // The containers of a glob have different names, because each gets its own suffix.
            twins.push(("name", container.name.clone(), &mut names));
        }
        for (what, text, seen) in twins {
            if let Some(first) = seen.insert(text.clone(), line) {
                let message = format!("{what} `{text}` is taken by the container in line {first}");
                reader.problem(at.clone(), message);
            }
        }
    }
}

/// Refuses floors that exceed the whole together. The number of cgroups of a glob is not known
/// here, so that it counts once.
fn check_floors(reader: &mut Reader<'_>, containers: &[Container], places: &[Range<usize>]) {
    let mut sum = 0.0;
    for (container, at) in containers.iter().zip(places) {
        let Some(Amount::Part(part)) = container.cache_floor else {
            continue;
        };
        sum += part;
        if sum > 1.0 + ROUNDING {
            let percent = sum * 100.0;
            let message = format!(
                "`cache_floor` of this container and of those before it are {percent:.0}% of the \
                 VM's share together"
            );
            reader.problem(at.clone(), message);
        }
    }
}

/// Tolerance for the sum of parts.
const ROUNDING: f64 = 1e-9;

fn container(
    mut section: Section<'_, '_, '_>,
    at: Range<usize>,
    default_weight: u32,
) -> Option<Container> {
    // All keys are read before the first error returns, so that all problems are reported.
    let name = name(&mut section, &at);
    let selector = selector(&mut section, &at);
    let weight = match section.has("weight") {
        true => section.whole("weight", MAX_WEIGHT),
        false => Some(default_weight),
    };
    let ssd_weight = section.whole("ssd_weight", MAX_WEIGHT);
    let disk_ms = section.number("disk_ms", 0.001..=1000.0);
    let default_max = match &selector {
        Some(Selector::UserUnit { .. }) => MAX_OF_USERS,
        _ => DEFAULT_MAX_CGROUPS,
    };
    let most_cgroups = section.whole("most_cgroups", MAX_POOLS - 1);
    let target = section.table("target").map(|below| {
        let below = section.reader.section(below, " in [container.target]");
        target::target(below, &at)
    });
    let policy = section.get("policy");
    let ssd_admit = section.get("ssd_admit");
    let StoreName(store) = section.get("store").unwrap_or_default();
    let priority = priority(&mut section);
    let cache_floor = section.get("cache_floor");
    let cache_ceiling = section.get("cache_ceiling");
    let memory_floor = section.get("memory_floor");
    let memory_ceiling = section.get("memory_ceiling");
    let memory_weight = section.whole("memory_weight", MAX_WEIGHT);
    let manage_memory = section.get("manage_memory").unwrap_or(false);
    let reclaim = section.get("reclaim").unwrap_or(true);
    let offload = section.get("offload");
    let container = name.zip(selector).zip(weight);
    let container = container.map(|((name, selector), weight)| Container {
        name,
        selector,
        most_cgroups: most_cgroups.unwrap_or(default_max),
        weight,
        ssd_weight: ssd_weight.unwrap_or(weight),
        disk_ms,
        store,
        policy: policy.map(|PolicyName(policy)| policy),
        ssd_admit: ssd_admit.map(|AdmitName(admit)| admit),
        target,
        priority,
        cache_floor,
        cache_ceiling,
        memory_floor,
        memory_ceiling,
        memory_weight,
        manage_memory,
        reclaim,
        offload,
    });
    if let Some(container) = &container {
        contradiction::check(&mut section, &at, container);
    }
    section.end();
    container
}

/// Maximum number of cgroups of a glob by default: nearly all pools that a module accepts.
const DEFAULT_MAX_CGROUPS: u32 = 1000;
/// The most cgroups of users by default. It is small, because each user can create units, and these
/// shall not take all pools.
const MAX_OF_USERS: u32 = 64;

fn priority(section: &mut Section<'_, '_, '_>) -> Option<Priority> {
    let class: Option<Class> = section.get("class");
    let number = section.whole("priority", Priority::MAX);
    let has_class = section.has("class");
    if let Some(at) = section.key("priority").filter(|_| has_class) {
        section.problem(
            at,
            "`priority` and `class` are alternatives; give one of them",
        );
    }
    number.map(Priority).or_else(|| class.map(Into::into))
}

fn name(section: &mut Section<'_, '_, '_>, at: &Range<usize>) -> Option<String> {
    let Some(value) = section.value("name") else {
        section.problem(at.clone(), "this container has no `name`");
        return None;
    };
    let name = section.string("name")?;
    let message = if name.is_empty() {
        "`name` is empty".into()
    } else if name.len() > NAME_LEN {
        format!("`name` has {} bytes, and may have {NAME_LEN}", name.len())
    } else if name.contains(char::is_control) {
        "`name` has control characters".into()
    } else {
        return Some(name);
    };
    section.problem(value.span(), message);
    None
}
