// SPDX-License-Identifier: GPL-2.0

//! The file's tables: which keys there are and what they may say.

use super::{
    Amount, Config, Container, Endpoint, Figure, Kind, Name, Offload, Origin, Pattern, Priority,
    Reclaim, Selector, Size, Source, Store, Target,
    reader::{MANY, Reader, Value},
    value::{Class, PolicyName},
};
use crate::discovery::Runtime;
use ddabi::{
    NAME_LEN,
    pool::{DEFAULT_WEIGHT, MAX_POOLS, MAX_WEIGHT},
};
use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};
use toml::de::DeTable;

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

const TOP_KEYS: [&str; 12] = [
    "cgroup_root",
    "container",
    "default_pool_weight",
    "default_weight",
    "floors_percent",
    "interval_s",
    "margin_percent",
    "max_step_percent",
    "metrics",
    "offload",
    "reclaim",
    "status_socket",
];
const CONTAINER_KEYS: [&str; 26] = [
    "cache_ceiling",
    "cache_floor",
    "cgroup",
    "class",
    "containerd",
    "docker",
    "lxc",
    "manage_memory",
    "memory_ceiling",
    "memory_floor",
    "memory_weight",
    "most_cgroups",
    "name",
    "offload",
    "pod",
    "pod_container",
    "podman",
    "policy",
    "priority",
    "reclaim",
    "ssd_weight",
    "store",
    "target",
    "unit",
    "user_unit",
    "weight",
];
/// The keys that say which cgroups a container is; one of them must be there.
const SELECTORS: [&str; 8] = [
    "cgroup",
    "unit",
    "user_unit",
    "docker",
    "podman",
    "containerd",
    "pod",
    "lxc",
];
const TARGET_KEYS: [&str; 8] = [
    "hit_ratio",
    "io_pressure",
    "latency_ms",
    "memory_pressure",
    "percentile",
    "refault_rate",
    "source",
    "throughput",
];
const SOURCE_KEYS: [&str; 8] = [
    "command",
    "every_s",
    "file",
    "http",
    "kind",
    "metric",
    "scale",
    "timeout_s",
];
const RECLAIM_KEYS: [&str; 4] = ["chunk", "enabled", "free_percent", "pressure_percent"];
const OFFLOAD_KEYS: [&str; 6] = [
    "enabled",
    "io_pressure_percent",
    "period_s",
    "pressure_percent",
    "refaults_per_s",
    "step_percent",
];

pub(super) fn config(text: &str) -> Result<Config, Vec<Problem>> {
    let mut reader = Reader::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let at = error.span().unwrap_or_default();
        reader.problem(at, error.message());
    }
    let mut config = Config::default();
    if reader.problems.is_empty() {
        config = top(&mut reader, table.get_ref());
    }
    reader.problems.sort();
    match reader.problems.as_slice() {
        [] => Ok(config),
        _ => Err(reader.problems),
    }
}

fn top(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Config {
    reader.check_keys(table, &TOP_KEYS, "");
    let mut config = Config::default();
    if let Some(seconds) = reader.number(table, "interval_s", 0.1..=3600.0) {
        config.interval = Duration::from_secs_f64(seconds);
    }
    if let Some(value) = table.get("cgroup_root") {
        config.cgroup_root = reader
            .string(value, "cgroup_root")
            .unwrap_or_default()
            .into();
        if !config.cgroup_root.is_absolute() {
            reader.problem(value.span(), "`cgroup_root` must be an absolute path");
        }
    }
    if let Some(value) = table.get("default_pool_weight") {
        config.default_pool_weight = reader.whole(value, "default_pool_weight", MAX_WEIGHT);
    }
    let default_weight = table
        .get("default_weight")
        .and_then(|value| reader.whole(value, "default_weight", MAX_WEIGHT))
        .unwrap_or(DEFAULT_WEIGHT);
    if let Some(part) = reader.percent(table, "max_step_percent", 1.0..=100.0) {
        config.max_step = part;
    }
    if let Some(part) = reader.percent(table, "floors_percent", 0.0..=50.0) {
        config.floors = part;
    }
    if let Some(part) = reader.percent(table, "margin_percent", 0.0..=50.0) {
        config.margin = part;
    }
    if table.contains_key("status_socket") {
        config.status_socket = reader
            .parsed(table, "status_socket", |text| {
                let path = PathBuf::from(text);
                match text {
                    "" => Ok(None),
                    _ if path.is_absolute() => Ok(Some(path)),
                    _ => Err("must be an absolute path, or empty for none".into()),
                }
            })
            .flatten();
    }
    config.metrics = reader.parsed(table, "metrics", |text| {
        text.parse()
            .map_err(|_| format!("`{text}` is no address with a port, such as 127.0.0.1:9469"))
    });
    if let Some(below) = reader.table(table, "reclaim") {
        config.reclaim = reclaim(reader, below);
    }
    if let Some(below) = reader.table(table, "offload") {
        config.offload = offload(reader, below);
    }
    if let Some(value) = table.get("container") {
        config.containers = containers(reader, value, default_weight);
    }
    config
}

fn reclaim(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Reclaim {
    reader.check_keys(table, &RECLAIM_KEYS, " in [reclaim]");
    let usual = Reclaim::default();
    Reclaim {
        enabled: reader.get(table, "enabled").unwrap_or(true),
        pressure: reader
            .number(table, "pressure_percent", 0.0..=100.0)
            .unwrap_or(usual.pressure),
        free: reader
            .percent(table, "free_percent", 0.0..=90.0)
            .unwrap_or(usual.free),
        chunk: reader
            .get(table, "chunk")
            .map_or(usual.chunk, |Size(bytes)| bytes.max(LEAST_CHUNK)),
    }
}

/// Less is not worth a system call.
const LEAST_CHUNK: u64 = 1 << 20;

fn offload(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Offload {
    reader.check_keys(table, &OFFLOAD_KEYS, " in [offload]");
    let usual = Offload::default();
    let period = reader.number(table, "period_s", 1.0..=3600.0);
    Offload {
        enabled: reader.get(table, "enabled").unwrap_or(true),
        period: period.map_or(usual.period, Duration::from_secs_f64),
        step: reader
            .percent(table, "step_percent", 0.01..=10.0)
            .unwrap_or(usual.step),
        pressure: reader
            .number(table, "pressure_percent", 0.001..=100.0)
            .unwrap_or(usual.pressure),
        io_pressure: reader
            .number(table, "io_pressure_percent", 0.001..=100.0)
            .unwrap_or(usual.io_pressure),
        refaults: reader
            .number(table, "refaults_per_s", 0.1..=MANY)
            .unwrap_or(usual.refaults),
    }
}

fn containers(reader: &mut Reader<'_>, value: &Value<'_>, default_weight: u32) -> Vec<Container> {
    let Some(items) = value.get_ref().as_array() else {
        reader.problem(
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
            reader.problem(item.span(), "a container is a table of keys and values");
            continue;
        };
        let Some(container) = container(reader, item, table, default_weight) else {
            continue;
        };
        let line = reader.line(&item.span());
        let selector = container.selector.text();
        let mut twins = vec![("cgroup", selector, &mut cgroups)];
        if !container.selector.is_glob() {
            // Those of a glob differ by what is added to them.
            twins.push(("name", container.name.clone(), &mut names));
        }
        for (what, text, seen) in twins {
            if let Some(first) = seen.insert(text.clone(), line) {
                let message = format!("{what} `{text}` is taken by the container in line {first}");
                reader.problem(item.span(), message);
            }
        }
        containers.push(container);
    }
    containers
}

fn container(
    reader: &mut Reader<'_>,
    item: &Value<'_>,
    table: &DeTable<'_>,
    default_weight: u32,
) -> Option<Container> {
    reader.check_keys(table, &CONTAINER_KEYS, " in [[container]]");
    let name = table.get("name");
    if name.is_none() {
        reader.problem(item.span(), "this container has no `name`");
    }
    let name = name.and_then(|value| self::name(reader, value));
    let selector = selector(reader, item, table);
    let weight = match table.get("weight") {
        Some(value) => reader.whole(value, "weight", MAX_WEIGHT),
        None => Some(default_weight),
    };
    let ssd_weight = table
        .get("ssd_weight")
        .and_then(|value| reader.whole(value, "ssd_weight", MAX_WEIGHT));
    let memory_weight = table
        .get("memory_weight")
        .and_then(|value| reader.whole(value, "memory_weight", MAX_WEIGHT));
    let most_cgroups = table
        .get("most_cgroups")
        .and_then(|value| reader.whole(value, "most_cgroups", MAX_POOLS - 1));
    let target = reader
        .table(table, "target")
        .and_then(|below| target(reader, item, below));
    // Everything is read before anything is given up, so that all problems are told.
    let store = reader.get(table, "store").unwrap_or(Store::Mem);
    let policy = reader.get(table, "policy").map(|PolicyName(policy)| policy);
    let priority = priority(reader, table);
    let cache_floor = reader.get(table, "cache_floor");
    let cache_ceiling = reader.get(table, "cache_ceiling");
    let memory_floor = reader.get(table, "memory_floor");
    let memory_ceiling = reader.get(table, "memory_ceiling");
    let manage_memory = reader.get(table, "manage_memory").unwrap_or(false);
    let reclaim = reader.get(table, "reclaim").unwrap_or(true);
    let offload = reader.get(table, "offload");
    let usual_most = match &selector {
        Some(Selector::UserUnit { .. }) => MOST_OF_USERS,
        _ => USUAL_MOST,
    };
    let container = Container {
        name: name?,
        selector: selector?,
        most_cgroups: most_cgroups.unwrap_or(usual_most),
        weight: weight?,
        ssd_weight: ssd_weight.or(weight)?,
        store,
        policy,
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
    };
    check_bounds(reader, item, table, &container);
    Some(container)
}

/// Nearly all pools that the module takes.
const USUAL_MOST: u32 = 1000;
/// Any user can make units: what these are has few of the pools.
const MOST_OF_USERS: u32 = 64;

/// What is right by itself and makes no sense together.
fn check_bounds(
    reader: &mut Reader<'_>,
    item: &Value<'_>,
    table: &DeTable<'_>,
    container: &Container,
) {
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
            reader.problem(item.span(), message);
        }
    }
    for key in ["memory_ceiling", "memory_floor"] {
        if let Some((key, _)) = table
            .get_key_value(key)
            .filter(|_| !container.manage_memory)
        {
            let name = key.get_ref();
            reader.problem(
                key.span(),
                format!("`{name}` does nothing without `manage_memory = true`"),
            );
        }
    }
    if container.store == Store::None {
        for key in ["cache_floor", "cache_ceiling"] {
            if let Some((key, _)) = table.get_key_value(key) {
                let name = key.get_ref();
                reader.problem(
                    key.span(),
                    format!("`{name}` does nothing with `store = \"none\"`"),
                );
            }
        }
    }
}

fn selector(reader: &mut Reader<'_>, item: &Value<'_>, table: &DeTable<'_>) -> Option<Selector> {
    let mut given = SELECTORS.iter().filter(|key| table.contains_key(**key));
    let Some(key) = given.next() else {
        let message = "this container has no `cgroup`, `unit`, `user_unit`, `docker`, `podman`, \
                       `containerd`, `pod` or `lxc`";
        reader.problem(item.span(), message);
        return None;
    };
    if let Some(second) = given.next() {
        let message = format!("`{key}` and `{second}` in one container; which one is it?");
        reader.problem(item.span(), message);
    }
    if let Some((key, _)) = table
        .get_key_value("pod_container")
        .filter(|_| !table.contains_key("pod"))
    {
        reader.problem(key.span(), "`pod_container` needs `pod`");
    }
    match *key {
        "cgroup" => reader.parsed(table, key, |text| {
            Pattern::parse(text).map(Selector::Cgroup)
        }),
        "unit" => reader.parsed(table, key, Selector::unit),
        "user_unit" => reader.parsed(table, key, Selector::user_unit),
        "pod" => {
            let container: Option<String> = reader.get(table, "pod_container");
            reader.parsed(table, key, |text| Selector::pod(text, container.as_deref()))
        }
        _ => {
            let runtime = Runtime::from_word(key)?;
            reader.parsed(table, key, |text| {
                Ok(Selector::Runtime(runtime, Name::parse(text)?))
            })
        }
    }
}

fn priority(reader: &mut Reader<'_>, table: &DeTable<'_>) -> Option<Priority> {
    let class: Option<Class> = reader.get(table, "class");
    let number = table
        .get("priority")
        .and_then(|value| reader.whole(value, "priority", Priority::MAX));
    if let Some((key, _)) = table
        .get_key_value("priority")
        .filter(|_| table.contains_key("class"))
    {
        reader.problem(key.span(), "`priority` and `class` say the same; give one");
    }
    number.map(Priority).or_else(|| class.map(Into::into))
}

fn name(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<String> {
    let name = reader.string(value, "name")?;
    let message = if name.is_empty() {
        "`name` is empty".into()
    } else if name.len() > NAME_LEN {
        format!("`name` has {} bytes, {NAME_LEN} are possible", name.len())
    } else if name.contains(char::is_control) {
        "`name` has control characters".into()
    } else {
        return Some(name);
    };
    reader.problem(value.span(), message);
    None
}

fn target(reader: &mut Reader<'_>, item: &Value<'_>, table: &DeTable<'_>) -> Option<Target> {
    const LEAST: f64 = 1e-6;
    reader.check_keys(table, &TARGET_KEYS, " in [container.target]");
    let mut any = |key: &str| reader.number(table, key, LEAST..=MANY);
    let target = Target {
        throughput: any("throughput"),
        latency_ms: any("latency_ms"),
        refault_rate: any("refault_rate"),
        percentile: reader
            .number(table, "percentile", 1.0..=99.999)
            .unwrap_or(DEFAULT_PERCENTILE),
        hit_ratio: reader.number(table, "hit_ratio", 0.01..=0.999),
        memory_pressure: reader.number(table, "memory_pressure", 0.01..=100.0),
        io_pressure: reader.number(table, "io_pressure", 0.01..=100.0),
        source: None,
    };
    let below = reader.table(table, "source");
    let source = below.and_then(|below| source(reader, item, below, &target));
    let at = table
        .keys()
        .next()
        .map_or_else(|| item.span(), |key| key.span());
    let wrong = if !GOALS.iter().any(|key| table.contains_key(*key)) {
        Some(
            "a target needs one of throughput, latency_ms, hit_ratio, refault_rate, \
              memory_pressure and io_pressure",
        )
    } else if target.throughput.is_some() && !table.contains_key("source") {
        Some("`throughput` needs a `source` that tells it")
    } else if target.throughput.is_some() && target.latency_ms.is_some() {
        Some("one source cannot tell `throughput` and `latency_ms`; give one of them")
    } else if below.is_some() && target.throughput.is_none() && target.latency_ms.is_none() {
        Some("`source` tells `throughput` or `latency_ms`, and neither is asked for")
    } else if table.contains_key("percentile") && target.latency_ms.is_none() {
        Some("`percentile` belongs to `latency_ms`")
    } else {
        None
    };
    if let Some(message) = wrong {
        reader.problem(at, message);
    }
    Some(Target { source, ..target })
}

/// The keys of a target that are goals.
const GOALS: [&str; 6] = [
    "hit_ratio",
    "io_pressure",
    "latency_ms",
    "memory_pressure",
    "refault_rate",
    "throughput",
];
/// What latencies are usually promised for.
const DEFAULT_PERCENTILE: f64 = 99.0;

fn source(
    reader: &mut Reader<'_>,
    item: &Value<'_>,
    table: &DeTable<'_>,
    target: &Target,
) -> Option<Source> {
    reader.check_keys(table, &SOURCE_KEYS, " in the source");
    let http = reader.parsed(table, "http", Endpoint::parse);
    let command: Option<Vec<String>> = reader.get(table, "command");
    let file: Option<String> = reader.get(table, "file");
    let given = ["http", "command", "file"];
    let given = given.iter().filter(|key| table.contains_key(**key)).count();
    let at = table
        .keys()
        .next()
        .map_or_else(|| item.span(), |key| key.span());
    if given != 1 {
        reader.problem(at, "a source is one of `http`, `command` and `file`");
        return None;
    }
    let metric: String = reader.get(table, "metric").unwrap_or_default();
    if http.is_some() && metric.is_empty() {
        reader.problem(at.clone(), "a source with `http` needs a `metric`");
    }
    if let Err(message) = crate::measure::Metric::parse(&metric) {
        reader.problem(at.clone(), format!("`metric`: {message}"));
    }
    let figure = target.goals().next().map(|(figure, _)| figure);
    let origin = match (http, command, file) {
        (Some(endpoint), ..) => Origin::Http(endpoint),
        (_, Some(command), _) => Origin::Command(program(reader, table, command)?),
        (_, _, Some(file)) => Origin::File(file.into()),
        _ => return None,
    };
    let kind = reader
        .get(table, "kind")
        .unwrap_or_else(|| usual_kind(&metric));
    let scale = reader.number(table, "scale", -MANY..=MANY);
    Some(Source {
        origin,
        kind,
        scale: scale.unwrap_or_else(|| usual_scale(&metric, figure)),
        metric,
        timeout: reader
            .number(table, "timeout_s", 0.05..=60.0)
            .map_or(DEFAULT_TIMEOUT, Duration::from_secs_f64),
        every: reader
            .number(table, "every_s", 0.1..=3600.0)
            .map(Duration::from_secs_f64),
    })
}

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(2);

fn program(
    reader: &mut Reader<'_>,
    table: &DeTable<'_>,
    command: Vec<String>,
) -> Option<Vec<String>> {
    let at = table.get("command").map_or(0..0, |value| value.span());
    let Some((program, arguments)) = command.split_first() else {
        reader.problem(at, "`command` is an empty list");
        return None;
    };
    let shell = arguments.iter().position(|word| is_program_flag(word));
    let script = shell.map_or(&[][..], |shell| &arguments[shell..]);
    let message = if !program.starts_with('/') {
        "`command` is a list that begins with a program's full path"
    } else if program.contains("{}") || script.iter().any(|word| word.contains("{}")) {
        "`{}` is no part of a program or of a shell's script: whoever names a container would \
         write it; read the environment's variable DD_CONTAINER instead, as \"$DD_CONTAINER\""
    } else {
        return Some(command);
    };
    reader.problem(at, message);
    None
}

/// Whether what follows a word is a program text: `-c` of shells and of Python, also among other
/// letters.
fn is_program_flag(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    letters.contains('c') && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// What Prometheus' naming rules say.
fn usual_kind(metric: &str) -> Kind {
    let name = metric.split('{').next().unwrap_or_default();
    if name.ends_with("_total") {
        Kind::Counter
    } else if name.ends_with("_bucket") {
        Kind::Histogram
    } else {
        Kind::Gauge
    }
}

/// Latencies are in milliseconds here and in seconds there.
fn usual_scale(metric: &str, figure: Option<Figure>) -> f64 {
    if figure == Some(Figure::Latency) && metric.contains("_seconds") {
        1000.0
    } else {
        1.0
    }
}
