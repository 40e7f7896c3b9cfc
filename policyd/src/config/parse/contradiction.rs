// SPDX-License-Identifier: GPL-2.0-only

//! Values of a container that are valid alone but contradict each other: bounds, keys without
//! effect, and targets that can never be met.

use crate::config::{Amount, Container};
use ddabi::pool::Store;
use ddconf::reader::Section;
use std::ops::Range;

/// Refuses the contradictions of a container.
pub(super) fn check(section: &mut Section<'_, '_, '_>, at: &Range<usize>, container: &Container) {
    check_bounds(section, at, container);
    check_effect(section, container);
    check_targets(section, container);
}

fn check_bounds(section: &mut Section<'_, '_, '_>, at: &Range<usize>, container: &Container) {
    let cache = match (container.cache_floor, container.cache_ceiling) {
        (Some(Amount::Part(floor)), Some(Amount::Part(ceiling))) => floor > ceiling,
        (Some(Amount::Bytes(floor)), Some(Amount::Bytes(ceiling))) => floor > ceiling,
        _ => false,
    };
    let memory = match (container.memory_floor, container.memory_ceiling) {
        (Some(floor), Some(ceiling)) => floor > ceiling,
        _ => false,
    };
    for (wrong, what) in [(cache, "cache"), (memory, "memory")] {
        if wrong {
            let message = format!("`{what}_floor` is above `{what}_ceiling`");
            section.problem(at.clone(), message);
        }
    }
}

/// Refuses keys without effect.
fn check_effect(section: &mut Section<'_, '_, '_>, container: &Container) {
    let unmanaged = (!container.manage_memory, "without `manage_memory = true`");
    let with_store = format!("with `store = \"{}\"`", container.store.name());
    let with_store = with_store.as_str();
    let is_controlled = container.is_controlled();
    let without_need = "without `target`, `class` or `priority`";
    // Targets divide the memory tier, so that a store without memory needs none. The share of a
    // container with a fixed weight is that of its weight.
    let undivided = match container.store.has_memory() {
        true => (!is_controlled, without_need),
        false => (true, with_store),
    };
    let on_ssd = (container.store == Store::Ssd, with_store);
    let off_ssd = (!container.store.has_ssd(), with_store);
    let uncached = (container.store == Store::None, with_store);
    let single = (
        !container.selector.is_glob(),
        "on a selector without a glob, which selects one cgroup",
    );
    // The time of the disk matters only where the weight in the SSD tier is chosen.
    let is_chosen = container.store == Store::Hybrid && is_controlled;
    let when = match container.store {
        Store::Hybrid => without_need,
        _ => with_store,
    };
    for (key, (is_useless, when)) in [
        ("disk_ms", (!is_chosen, when)),
        ("priority", on_ssd),
        ("target", on_ssd),
        ("policy", uncached),
        ("most_cgroups", single),
        ("memory_ceiling", unmanaged),
        ("memory_floor", unmanaged),
        ("cache_ceiling", undivided),
        ("cache_floor", undivided),
        ("ssd_weight", off_ssd),
        ("ssd_admit", off_ssd),
    ] {
        if let Some(at) = section.key(key).filter(|_| is_useless) {
            section.problem(at, format!("`{key}` has no effect {when}"));
        }
    }
}

/// Refuses targets that only pages at the host can meet, for a container that can have none there.
fn check_targets(section: &mut Section<'_, '_, '_>, container: &Container) {
    let Some(cause) = container.uncached() else {
        return;
    };
    let advice = match container.store {
        Store::None => "use another `store`",
        _ => "raise the ceiling",
    };
    let target = section.value("target");
    let Some(target) = target.and_then(|value| value.get_ref().as_table()) else {
        return;
    };
    let place = |key: &str| target.get_key_value(key).map(|(key, _)| key.span());
    if let Some(at) = place("hit_ratio") {
        let message = format!(
            "`hit_ratio` can never be met with {cause}, because the host keeps no page of the \
             container: {advice}, or remove this target"
        );
        section.problem(at, message);
    }
    if let Some(at) = place("latency_ms").filter(|_| place("source").is_none()) {
        let message = format!(
            "`latency_ms` without a `source` is the latency of gets at the host, and with {cause} \
             there are none: name a `source`, or {advice}"
        );
        section.problem(at, message);
    }
}
