// SPDX-License-Identifier: GPL-2.0

//! Reading the file: every problem with its line, unknown keys with the nearest known one.

use super::{Config, Container, Pattern};
use ddabi::{
    NAME_LEN,
    pool::{DEFAULT_WEIGHT, MAX_WEIGHT, Store},
};
use std::{collections::BTreeMap, fmt, ops::Range, time::Duration};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// What is wrong in a line of the file.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

const TOP_KEYS: [&str; 5] = [
    "cgroup_root",
    "container",
    "default_pool_weight",
    "default_weight",
    "interval_s",
];
const CONTAINER_KEYS: [&str; 4] = ["cgroup", "name", "store", "weight"];

/// Seconds between comparisons: bounds of what makes sense.
const INTERVAL_S: Range<f64> = 0.1..3600.1;

type Value<'a> = Spanned<DeValue<'a>>;

pub(super) fn config(text: &str) -> Result<Config, Vec<Problem>> {
    let mut reader = Reader {
        text,
        problems: Vec::new(),
    };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().unwrap_or_default();
        reader.problem(at, error.message());
    }
    let mut config = Config::default();
    if reader.problems.is_empty() {
        config = reader.top(table.get_ref());
    }
    reader.problems.sort();
    match reader.problems.as_slice() {
        [] => Ok(config),
        _ => Err(reader.problems),
    }
}

/// Collects problems while it reads.
struct Reader<'a> {
    text: &'a str,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn top(&mut self, table: &DeTable<'_>) -> Config {
        self.check_keys(table, &TOP_KEYS, "");
        let mut config = Config::default();
        if let Some(value) = table.get("interval_s") {
            config.interval = self.interval(value).unwrap_or(config.interval);
        }
        if let Some(value) = table.get("cgroup_root") {
            config.cgroup_root = self.string(value, "cgroup_root").unwrap_or_default().into();
            if !config.cgroup_root.is_absolute() {
                self.problem(value.span(), "`cgroup_root` must be an absolute path");
            }
        }
        if let Some(value) = table.get("default_pool_weight") {
            config.default_pool_weight = self.weight(value, "default_pool_weight");
        }
        let default_weight = table
            .get("default_weight")
            .and_then(|value| self.weight(value, "default_weight"))
            .unwrap_or(DEFAULT_WEIGHT);
        if let Some(value) = table.get("container") {
            config.containers = self.containers(value, default_weight);
        }
        config
    }

    fn containers(&mut self, value: &Value<'_>, default_weight: u32) -> Vec<Container> {
        let Some(items) = value.get_ref().as_array() else {
            self.problem(
                value.span(),
                "`container` is a list: begin each one with `[[container]]`",
            );
            return Vec::new();
        };
        let mut containers = Vec::new();
        let mut names = BTreeMap::new();
        let mut cgroups = BTreeMap::new();
        for item in items {
            let Some(table) = item.get_ref().as_table() else {
                self.problem(item.span(), "a container is a table of keys and values");
                continue;
            };
            let Some(container) = self.container(item, table, default_weight) else {
                continue;
            };
            let line = self.line(&item.span());
            let mut twins = vec![("cgroup", container.cgroup.text().to_owned(), &mut cgroups)];
            if !container.cgroup.is_glob() {
                // Those of a glob differ by what is added to them.
                twins.push(("name", container.name.clone(), &mut names));
            }
            for (what, text, seen) in twins {
                if let Some(first) = seen.insert(text.clone(), line) {
                    let message =
                        format!("{what} `{text}` is taken by the container in line {first}");
                    self.problem(item.span(), message);
                }
            }
            containers.push(container);
        }
        containers
    }

    fn container(
        &mut self,
        item: &Value<'_>,
        table: &DeTable<'_>,
        default_weight: u32,
    ) -> Option<Container> {
        self.check_keys(table, &CONTAINER_KEYS, " in [[container]]");
        let name = self.required(item, table, "name");
        let name = name.and_then(|value| self.name(value));
        let cgroup = self.required(item, table, "cgroup");
        let cgroup = cgroup.and_then(|value| self.pattern(value));
        let weight = match table.get("weight") {
            Some(value) => self.weight(value, "weight"),
            None => Some(default_weight),
        };
        let store = match table.get("store") {
            Some(value) => self.store(value),
            None => Some(Store::Memory),
        };
        Some(Container {
            name: name?,
            cgroup: cgroup?,
            weight: weight?,
            store: store?,
        })
    }

    fn required<'t, 'v>(
        &mut self,
        item: &Value<'_>,
        table: &'t DeTable<'v>,
        key: &str,
    ) -> Option<&'t Value<'v>> {
        let value = table.get(key);
        if value.is_none() {
            self.problem(item.span(), format!("this container has no `{key}`"));
        }
        value
    }

    fn name(&mut self, value: &Value<'_>) -> Option<String> {
        let name = self.string(value, "name")?;
        let message = if name.is_empty() {
            "`name` is empty".into()
        } else if name.len() > NAME_LEN {
            format!("`name` has {} bytes, {NAME_LEN} are possible", name.len())
        } else if name.contains(char::is_control) {
            "`name` has control characters".into()
        } else {
            return Some(name);
        };
        self.problem(value.span(), message);
        None
    }

    fn pattern(&mut self, value: &Value<'_>) -> Option<Pattern> {
        let text = self.string(value, "cgroup")?;
        match Pattern::parse(&text) {
            Ok(pattern) => Some(pattern),
            Err(message) => {
                self.problem(value.span(), format!("`cgroup`: {message}"));
                None
            }
        }
    }

    fn store(&mut self, value: &Value<'_>) -> Option<Store> {
        match self.string(value, "store")?.as_str() {
            "mem" => Some(Store::Memory),
            "none" => Some(Store::None),
            other => {
                let message = format!("store `{other}` is not known: there are `mem` and `none`");
                self.problem(value.span(), message);
                None
            }
        }
    }

    fn weight(&mut self, value: &Value<'_>, key: &str) -> Option<u32> {
        let number = value.get_ref().as_integer();
        let number = number
            .and_then(|number| u32::from_str_radix(number.as_str(), number.radix()).ok())
            .filter(|weight| *weight <= MAX_WEIGHT);
        if number.is_none() {
            let message = format!("`{key}` must be a whole number from 0 to {MAX_WEIGHT}");
            self.problem(value.span(), message);
        }
        number
    }

    fn interval(&mut self, value: &Value<'_>) -> Option<Duration> {
        let seconds: Option<f64> = match value.get_ref() {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(number) => number.as_str().parse().ok(),
            _ => None,
        };
        let seconds = seconds.filter(|seconds| INTERVAL_S.contains(seconds));
        if seconds.is_none() {
            self.problem(
                value.span(),
                "`interval_s` must be a number from 0.1 to 3600",
            );
        }
        seconds.map(Duration::from_secs_f64)
    }

    fn string(&mut self, value: &Value<'_>, key: &str) -> Option<String> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.problem(value.span(), format!("`{key}` must be a string"));
        }
        text.map(Into::into)
    }

    /// Refuses unknown keys and names the nearest known one.
    fn check_keys(&mut self, table: &DeTable<'_>, known: &[&str], place: &str) {
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if known.contains(&name) {
                continue;
            }
            let nearest = known
                .iter()
                .max_by(|a, b| {
                    strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b))
                })
                .filter(|nearest| strsim::jaro_winkler(name, nearest) > 0.7);
            let advice = match nearest {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("known are {}", known.join(", ")),
            };
            self.problem(key.span(), format!("unknown key `{name}`{place}; {advice}"));
        }
    }

    fn problem(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.problems.push(Problem {
            line: self.line(&at),
            message: message.into(),
        });
    }

    fn line(&self, at: &Range<usize>) -> usize {
        let before = self.text.as_bytes().get(..at.start).unwrap_or_default();
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }
}
