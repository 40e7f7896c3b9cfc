// SPDX-License-Identifier: GPL-2.0-only

//! Keys by which a container of the file selects cgroups.

use crate::{
    config::{Name, Pattern, Selector, value::one_of},
    discovery::Runtime,
};
use ddconf::reader::Section;
use std::{collections::BTreeMap, ops::Range};

/// The keys that select cgroups. An entry must have exactly one.
const SELECTORS: [&str; 8] = [
    "cgroup",
    "unit",
    "user_unit",
    Runtime::Docker.word(),
    Runtime::Podman.word(),
    Runtime::Containerd.word(),
    "pod",
    Runtime::Lxc.word(),
];

pub(super) fn selector(section: &mut Section<'_, '_, '_>, at: &Range<usize>) -> Option<Selector> {
    let given: Vec<&str> = SELECTORS
        .into_iter()
        .filter(|key| section.has(key))
        .collect();
    let of_pods = ["pod_container", "pod_annotations"].map(|key| (key, section.key(key)));
    let Some(key) = given.first().copied() else {
        let message = format!("this container has no {}", one_of(&SELECTORS));
        section.problem(at.clone(), message);
        return None;
    };
    if let Some(second) = given.get(1) {
        let message =
            format!("`{key}` and `{second}` in one container: only one of them is allowed");
        section.problem(at.clone(), message);
    }
    for (key, at) in of_pods {
        if let Some(at) = at.filter(|_| !given.contains(&"pod")) {
            section.problem(at, format!("`{key}` needs `pod`"));
        }
    }
    match key {
        "cgroup" => section.parsed(key, |text| Pattern::parse(text).map(Selector::Cgroup)),
        "unit" => section.parsed(key, Selector::unit),
        "user_unit" => section.parsed(key, Selector::user_unit),
        "pod" => {
            let container: Option<String> = section.get("pod_container");
            let annotations = annotations(section);
            section.parsed(key, |text| {
                Selector::pod(text, container.as_deref(), annotations)
            })
        }
        _ => {
            let runtime = Runtime::from_word(key)?;
            section.parsed(key, |text| {
                Ok(Selector::Runtime(runtime, Name::parse(text)?))
            })
        }
    }
}

/// Reads `pod_annotations`: the values, or globs of values, of annotations.
fn annotations(section: &mut Section<'_, '_, '_>) -> BTreeMap<String, Name> {
    const KEY: &str = "pod_annotations";
    let mut annotations = BTreeMap::new();
    let Some(value) = section.value(KEY) else {
        return annotations;
    };
    let table = value.get_ref().as_table().filter(|table| !table.is_empty());
    let Some(table) = table else {
        let message =
            format!("`{KEY}` is a table, such as {{ \"cache.example.com/class\" = \"gold\" }}");
        section.problem(value.span(), message);
        return annotations;
    };
    for (key, value) in table.iter() {
        let key = key.get_ref().to_string();
        let text = value.get_ref().as_str();
        match text.map(Name::parse) {
            Some(Ok(name)) => drop(annotations.insert(key, name)),
            Some(Err(error)) => section.problem(value.span(), format!("`{key}`: {error}")),
            None => section.problem(value.span(), format!("`{key}` must be a string")),
        }
    }
    annotations
}
