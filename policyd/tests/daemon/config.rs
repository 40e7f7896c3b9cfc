// SPDX-License-Identifier: GPL-2.0-only

use ddabi::pool::{SsdAdmit, Store};
use insta::assert_snapshot;
use policyd::config::{Config, Pattern, Selector};
use std::{fs, path::PathBuf, time::Duration};

fn repository(file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the problems of a file, one per line.
fn problems(text: &str) -> String {
    match Config::parse(text) {
        Ok(config) => format!("{config:#?}"),
        Err(problems) => problems.iter().map(|one| format!("{one}\n")).collect(),
    }
}

/// Formats a configuration without values that are `None`. Groups that fit have one line.
fn compact(config: &Config) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines: Vec<String> = Vec::new();
    for line in format!("{config:#?}").lines() {
        if line.ends_with(": None,") {
            continue;
        }
        lines.push(line.into());
        if !line.trim_start().starts_with(['}', ')', ']']) {
            continue;
        }
        let is_opening = |other: &String| indent(other) == indent(line);
        let at = lines[..lines.len() - 1].iter().rposition(is_opening);
        let at = at.unwrap_or_default();
        let parts: Vec<&str> = lines[at + 1..].iter().map(|part| part.trim()).collect();
        let [parts @ .., end] = parts.as_slice() else {
            continue;
        };
        let joined = format!(
            "{}{}{end}",
            lines[at],
            parts.join(" ").trim_end_matches(',')
        );
        if joined.len() <= 100 {
            lines.truncate(at);
            lines.push(joined);
        }
    }
    lines.join("\n")
}

#[test]
fn keys_without_effect_are_refused() {
    let container = |more: &str| {
        let text = format!("[[container]]\nname = \"a\"\ncgroup = \"/a\"\n{more}\n");
        problems(&text)
    };
    for store in ["", "store = \"mem\"", "store = \"none\""] {
        let name = store.split('"').nth(1).unwrap_or("mem");
        assert_eq!(
            container(&format!("ssd_weight = 3\n{store}")),
            format!("line 4, column 1: `ssd_weight` has no effect with `store = \"{name}\"`\n")
        );
        assert_eq!(
            container(&format!("ssd_admit = \"second\"\n{store}")),
            format!("line 4, column 1: `ssd_admit` has no effect with `store = \"{name}\"`\n")
        );
    }
    for key in [
        "cache_floor = 0.1",
        "priority = 1",
        "target = { hit_ratio = 0.5 }",
    ] {
        let told = container(&format!("store = \"ssd\"\n{key}"));
        assert!(
            told.contains("has no effect with `store = \"ssd\"`"),
            "{key}: {told}"
        );
    }
    for (more, when) in [
        ("", "with `store = \"mem\"`"),
        ("store = \"ssd\"", "with `store = \"ssd\"`"),
        (
            "store = \"hybrid\"",
            "without `target`, `class` or `priority`",
        ),
    ] {
        assert_eq!(
            container(&format!("disk_ms = 4\n{more}")),
            format!("line 4, column 1: `disk_ms` has no effect {when}\n")
        );
    }
    for key in ["cache_floor", "cache_ceiling"] {
        assert_eq!(
            container(&format!("{key} = \"10%\"\nweight = 5")),
            format!(
                "line 4, column 1: `{key}` has no effect without `target`, `class` or `priority`\n"
            )
        );
        let told = container(&format!("{key} = \"10%\"\nclass = \"silver\""));
        assert!(told.starts_with("Config"), "{told}");
    }
    assert_eq!(
        container("policy = \"mru\"\nstore = \"none\""),
        "line 4, column 1: `policy` has no effect with `store = \"none\"`\n"
    );
    assert_eq!(
        container("most_cgroups = 3"),
        "line 4, column 1: `most_cgroups` has no effect on a selector without a glob, which selects \
         one cgroup\n"
    );
    // A pod can have several containers.
    let pod = "[[container]]\nname = \"a\"\npod = \"web-0\"\nmost_cgroups = 3\n";
    assert!(Config::parse(pod).is_ok());
    let told = container("disk_ms = 4\nstore = \"hybrid\"\nclass = \"gold\"");
    assert!(told.contains("disk_ms: Some"), "{told}");
    // Bounds and targets of a container in both tiers apply to the memory tier.
    let both =
        "store = \"hybrid\"\npriority = 1\ncache_floor = \"10%\"\ntarget = { hit_ratio = 0.5 }";
    assert!(container(both).starts_with("Config"), "{}", container(both));
}

/// Without a page at the host, no get can be a hit, and none has a latency.
#[test]
fn targets_that_can_never_be_met_are_refused() {
    let container = |keys: &str, target: &str| {
        problems(&format!(
            "[[container]]\nname = \"a\"\ncgroup = \"/a\"\n{keys}\n[container.target]\n{target}\n"
        ))
    };
    let source = "source = { file = \"/x\" }";
    for (keys, cause, advice) in [
        (
            "store = \"none\"",
            "`store = \"none\"`",
            "use another `store`",
        ),
        (
            "cache_ceiling = 0",
            "`cache_ceiling` of 0",
            "raise the ceiling",
        ),
        (
            "cache_ceiling = \"0%\"",
            "`cache_ceiling` of 0",
            "raise the ceiling",
        ),
    ] {
        assert_eq!(
            container(keys, "io_pressure = 5\nhit_ratio = 0.5"),
            format!(
                "line 7, column 1: `hit_ratio` can never be met with {cause}, because the host \
                 keeps no page of the container: {advice}, or remove this target\n"
            )
        );
        assert_eq!(
            container(keys, "latency_ms = 2"),
            format!(
                "line 6, column 1: `latency_ms` without a `source` is the latency of gets at the \
                 host, and with {cause} there are none: name a `source`, or {advice}\n"
            )
        );
        // Guest memory can meet these.
        for target in [
            format!("latency_ms = 2\n{source}"),
            format!("throughput = 2\n{source}"),
            "refault_rate = 2\nmemory_pressure = 3\nio_pressure = 4".into(),
        ] {
            let told = container(keys, &target);
            assert!(told.starts_with("Config"), "{keys} {target}: {told}");
        }
    }
    // Pages of both tiers can be on SSDs, and a small ceiling is a ceiling.
    for keys in [
        "store = \"hybrid\"\ncache_ceiling = 0",
        "cache_ceiling = \"1M\"",
        "cache_ceiling = \"1%\"",
    ] {
        let told = container(keys, "hit_ratio = 0.5");
        assert!(told.starts_with("Config"), "{keys}: {told}");
    }
}

#[test]
fn the_weight_in_the_ssd_tier_is_the_weight_unless_it_is_given() {
    let container = |more: &str| {
        let text = format!("[[container]]\nname = \"a\"\ncgroup = \"/a\"\nweight = 7\n{more}\n");
        let config = Config::parse(&text).unwrap();
        let one = &config.containers[0];
        (one.store, one.weight, one.ssd_weight)
    };
    assert_eq!(container("store = \"ssd\""), (Store::Ssd, 7, 7));
    assert_eq!(container("store = \"hybrid\""), (Store::Hybrid, 7, 7));
    let both = "store = \"hybrid\"\nssd_weight = 0";
    assert_eq!(container(both), (Store::Hybrid, 7, 0));
    let text =
        "[[container]]\nname = \"a\"\ncgroup = \"/a\"\nstore = \"ssd\"\nssd_weight = 10001\n";
    assert_eq!(
        problems(text),
        "line 5, column 14: `ssd_weight` must be a whole number from 0 to 10000\n"
    );
}

#[test]
fn admission_to_ssds_is_all_or_second() {
    let admit = |more: &str| {
        let text =
            format!("[[container]]\nname = \"a\"\ncgroup = \"/a\"\nstore = \"ssd\"\n{more}\n");
        let config = Config::parse(&text);
        config.map(|config| config.containers[0].ssd_admit)
    };
    assert_eq!(admit("").unwrap(), None);
    assert_eq!(admit("ssd_admit = \"all\"").unwrap(), Some(SsdAdmit::All));
    assert_eq!(
        admit("ssd_admit = \"second\"").unwrap(),
        Some(SsdAdmit::Second)
    );
    let text =
        "[[container]]\nname = \"a\"\ncgroup = \"/a\"\nstore = \"ssd\"\nssd_admit = \"third\"\n";
    assert_eq!(
        problems(text),
        "line 5, column 13: `ssd_admit`: unknown admission to SSDs `third`, expected `all` or `second`\n"
    );
}

#[test]
fn a_duplicate_key_is_reported_with_both_lines() {
    let text = "[offload]\nenabled = true\n[[container]]\nname = \"a\"\nname = \"b\"\n\
                cgroup = \"/a\"\noffload = true\n[container.target]\nhit_ratio = 0.5\n\
                [container.target]\nhit_ratio = 0.4\n[offload]\n";
    assert_eq!(
        problems(text),
        "line 5, column 1: `name` is in line 4 already\n\
         line 10, column 12: `[container.target]` is in line 8 already\n\
         line 11, column 1: `hit_ratio` is in line 9 already\n\
         line 12, column 2: `[offload]` is in line 1 already\n"
    );
}

#[test]
fn floors_that_exceed_the_whole_are_refused() {
    let two = |second: &str| {
        problems(&format!(
            "[[container]]\nname = \"a\"\ncgroup = \"/a\"\nclass = \"gold\"\n\
             cache_floor = \"90%\"\n\
             [[container]]\nname = \"b\"\ncgroup = \"/b\"\nclass = \"gold\"\n\
             cache_floor = \"{second}\"\n"
        ))
    };
    assert_eq!(
        two("90%"),
        "line 6, column 1: `cache_floor` of this container and of those before it are 180% of the VM's \
         share together\n"
    );
    assert!(two("10%").starts_with("Config"));
}

#[test]
fn chunks_that_are_too_small_are_refused() {
    for chunk in ["0", "\"1023K\""] {
        assert_eq!(
            problems(&format!("[reclaim]\nchunk = {chunk}\n")),
            "line 2, column 9: `chunk` must be at least \"1M\"\n"
        );
    }
    assert_eq!(
        problems("[reclaim]\nchunk = \"50\"\n"),
        "line 2, column 9: `chunk`: `50` has no unit: write it like 512M or 2G\n"
    );
    let config = Config::parse("[reclaim]\nchunk = \"1MB\"\n").unwrap();
    assert_eq!(config.reclaim.chunk, 1 << 20);
}

#[test]
fn directories_of_runtimes_are_lists_of_absolute_paths() {
    let told = |line: &str| problems(&format!("[runtimes]\n{line}\n"));
    for wrong in ["\"/srv/docker\"", "[\"/srv/docker\", 1]", "{}"] {
        let line = format!("docker = {wrong}");
        let message =
            "line 2, column 10: `docker` is a list of directories, such as [\"/srv/docker\"]\n";
        assert_eq!(told(&line), message);
    }
    assert_eq!(
        told("podman = [\"/a\", \"srv/storage\"]"),
        "line 2, column 10: `podman`: `srv/storage` is not an absolute path\n"
    );
    assert_eq!(
        told("crio = []"),
        "line 2, column 8: `crio` is an empty list; without this key the usual directories are read\n"
    );
    assert_eq!(
        told("contianerd = [\"/a\"]"),
        "line 2, column 1: unknown key `contianerd` in [runtimes]; did you mean `containerd`?\n"
    );
    assert_eq!(
        problems("runtimes = 1\n"),
        "line 1, column 12: `runtimes` is a table of keys and values\n"
    );
    let config = Config::parse("[runtimes]\ndocker = [\"/srv/docker\", \"/x\"]\n").unwrap();
    let given = ["/srv/docker", "/x"].map(PathBuf::from);
    assert_eq!(config.runtimes.docker, given);
    let usual = Config::default().runtimes;
    assert_eq!(config.runtimes.containerd, usual.containerd);
}

#[test]
fn annotations_are_a_table_of_values() {
    let told = |more: &str| problems(&format!("[[container]]\nname = \"a\"\n{more}\n"));
    let table = "`pod_annotations` is a table, such as { \"cache.example.com/class\" = \"gold\" }";
    for wrong in ["{}", "\"gold\"", "[\"a\"]"] {
        assert_eq!(
            told(&format!("pod = \"*\"\npod_annotations = {wrong}")),
            format!("line 4, column 19: {table}\n")
        );
    }
    assert_eq!(
        told("pod = \"*\"\npod_annotations = { a = 1, b = \"\", c = \"[\" }"),
        "line 4, column 25: `a` must be a string\n\
         line 4, column 32: `b`: a name may not be empty\n\
         line 4, column 40: `c`: error parsing glob '[': unclosed character class; missing ']'\n"
    );
    assert_eq!(
        told("docker = \"a\"\npod_annotations = { a = \"b\" }"),
        "line 4, column 1: `pod_annotations` needs `pod`\n"
    );
    // Entries for the same pods and other values are no twins.
    let entry = |value: &str| {
        format!(
            "[[container]]\nname = \"{{}}\"\npod = \"*\"\npod_annotations = {{ a = \"{value}\" }}\n"
        )
    };
    assert!(Config::parse(&format!("{}{}", entry("b"), entry("c"))).is_ok());
    let twins = problems(&format!("{}{}", entry("b"), entry("b")));
    let message = "cgroup `pod */*/* a=b` is taken by the container in line 1";
    assert!(twins.contains(message), "{twins}");
}

#[test]
fn an_empty_file_is_valid() {
    assert_eq!(Config::parse("").unwrap(), Config::default());
}

#[test]
fn all_keys_are_accepted() {
    let config = Config::parse(
        r#"
        interval_s = 2.5
        default_weight = 70
        default_pool_weight = 10
        cgroup_root = "/mnt/cgroup"

        [[container]]
        name = "web"
        cgroup = "/web.slice"
        weight = 10_000
        store = "mem"

        [[container]]
        name = "batch"
        cgroup = "/batch-*"
        store = "none"
        "#,
    )
    .unwrap();
    assert_eq!(config.interval, Duration::from_millis(2500));
    assert_eq!(config.cgroup_root, PathBuf::from("/mnt/cgroup"));
    assert_eq!(config.default_pool_weight, Some(10));
    let [web, batch] = &config.containers[..] else {
        panic!("{config:?}");
    };
    assert_eq!((web.weight, web.store), (10_000, Store::Memory));
    assert_eq!((batch.weight, batch.store), (70, Store::None));
    let pattern = Pattern::parse("/batch-*").unwrap();
    assert_eq!(batch.selector, Selector::Cgroup(pattern));
    assert_eq!(batch.pool_name("/batch-7.scope"), "batch-batch-7");
}

#[test]
fn valid_targets_are_accepted() {
    let text = r#"
        max_step_percent = 10
        margin_percent = 8
        metrics = "127.0.0.1:19469"
        status_socket = ""
        [reclaim]
        pressure_percent = 5
        chunk = "20M"
        [offload]
        enabled = false
        period_s = 10
        [[container]]
        name = "web"
        unit = "nginx"
        class = "gold"
        store = "mem"
        cache_floor = "10%"
        cache_ceiling = "2G"
        manage_memory = true
        memory_floor = "64M"
        memory_ceiling = "1G"
        offload = true
        [container.target]
        latency_ms = 20
        percentile = 99.9
        source = { http = "http://localhost:9113/metrics", metric = "t_seconds_bucket{vhost=\"a\"}" }
        [[container]]
        name = "redis"
        docker = "redis-*"
        priority = 250
        reclaim = false
        [container.target]
        throughput = 5000
        source = { command = ["/usr/bin/redis-rate", "{}"], timeout_s = 0.5, every_s = 10 }
        [[container]]
        name = "shop"
        pod = "shop/*"
        pod_container = "php"
        class = "bronze"
        target = { hit_ratio = 0.5, memory_pressure = 3 }
        "#;
    let config = Config::parse(text).unwrap();
    assert!(config.is_controlled() && config.offloads() && config.reclaim.enabled);
    assert_snapshot!(compact(&config));
}

#[test]
fn invalid_targets_are_reported_with_their_lines() {
    assert_snapshot!(problems(
        r#"
metrics = "everywhere"
max_step_percent = 0
status_socket = "run/x"
reclaim = true
[offload]
step = 3
[[container]]
name = "a"
unit = "a/b"
class = "platinum"
priority = 1
[[container]]
name = "b"
cgroup = "/b"
docker = "b"
memory_floor = "1G"
store = "none"
cache_floor = "5%"
[container.target]
throughput = 0
percentile = 99
[[container]]
name = "c"
cgroup = "/c"
pod_container = "x"
cache_floor = "50%"
cache_ceiling = "40%"
[container.target]
throughput = 10
latency_ms = 5
source = { http = "https://web/", command = ["x"], metrc = "y" }
[[container]]
name = "d"
cgroup = "/d"
[container.target]
hit_ratio = 80
source = { command = ["redis-cli", "info"] }
[[container]]
name = "e"
cgroup = "/e"
cache_floor = "5 apples"
[container.target]
throughput = 10
source = { http = "http://web:80/", kind = "guage" }
"#
    ));
}

#[test]
fn the_first_container_that_matches_counts() {
    let config = Config::parse(
        "[[container]]\nname = \"one\"\ncgroup = \"/a/1\"\n\
         [[container]]\nname = \"all\"\ncgroup = \"/a/*\"\n",
    )
    .unwrap();
    let name = |cgroup| config.container(cgroup).map(|one| one.name.as_str());
    assert_eq!(name("/a/1"), Some("one"));
    assert_eq!(name("/a/2"), Some("all"));
    assert_eq!(name("/a"), None);
}

#[test]
fn unknown_keys_name_the_nearest() {
    assert_snapshot!(problems(
        r#"
intervall_s = 1
defaultweight = 3
frobnicate = true
[containers]
[[container]]
name = "a"
cgroup = "/a"
wieght = 1
colour = "red"
"#
    ));
}

#[test]
fn invalid_values_are_reported_with_their_lines() {
    assert_snapshot!(problems(
        r#"
interval_s = 0
default_weight = 10001
default_pool_weight = -1
cgroup_root = "sys/fs/cgroup"
[[container]]
name = ""
cgroup = "/"
weight = 1.5
store = "tape"
[[container]]
name = 7
cgroup = "/a/../b"
weight = "100"
[[container]]
name = "0123456789012345678901234567890123456789012345678901234567890123456789"
cgroup = "/a[b"
store = true
[[container]]
[[container]]
name = "tab\there"
cgroup = ["/a"]
"#
    ));
}

#[test]
fn twins_are_refused() {
    assert_snapshot!(problems(
        r#"
[[container]]
name = "a"
cgroup = "/a"
[[container]]
name = "a"
cgroup = "/b"
[[container]]
name = "c"
cgroup = "/sys/fs/cgroup/a/"
"#
    ));
    let kinds = "[[container]]\nname = \"{}\"\ncgroup = \"/a/*\"\n\
                 [[container]]\nname = \"{}\"\ncgroup = \"/b/*\"\n";
    assert_eq!(Config::parse(kinds).unwrap().containers.len(), 2);
}

#[test]
fn invalid_toml_is_reported_too() {
    assert_snapshot!(problems("interval_s = \n[[container]\nname = 'a\n"));
    assert_snapshot!(
        "container_as_table",
        problems("[container]\nname = \"a\"\n")
    );
    assert_snapshot!("container_as_number", problems("container = [1]\n"));
}

#[test]
fn the_example_is_valid() {
    let config = Config::parse(&repository("policyd/policyd.toml")).unwrap();
    assert!(!config.containers.is_empty());
}

/// Returns the lines of a block scalar of YAML, the `nth` behind this key.
fn block(file: &str, key: &str, nth: usize) -> String {
    let text = repository(file);
    let (_, text) = text.split_once(key).unwrap();
    let text = text.split(key).nth(nth).unwrap();
    let lines = text.strip_prefix(" |\n").unwrap().lines();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let first = depth(lines.clone().next().unwrap());
    let within = lines.take_while(|line| line.is_empty() || depth(line) >= first);
    within
        .map(|line| format!("{}\n", line.trim_start()))
        .collect()
}

#[test]
fn the_integrations_are_valid() {
    let directory = "packaging/integrations";
    for (file, key, nth, containers) in [
        ("kubernetes/policyd.yaml", "  policyd.toml:", 0, 3),
        ("cloud-init/guest.yaml", "    content:", 0, 1),
        ("ansible/site.yml", "doubledecker_config:", 1, 1),
    ] {
        let text = block(&format!("{directory}/{file}"), key, nth);
        let config = Config::parse(&text).unwrap_or_else(|wrong| panic!("{wrong:?} in\n{text}"));
        assert_eq!(config.containers.len(), containers, "{text}");
    }
}

/// The examples of the documentation are valid, and show each key.
#[test]
fn the_documentation_is_valid() {
    let text = repository("docs/users/policyd.md");
    let mut examples = 0;
    for block in text.split("```toml\n").skip(1) {
        let example = block.split("```").next().unwrap();
        if let Err(problems) = Config::parse(example) {
            panic!("{problems:?} in\n{example}");
        }
        examples += 1;
    }
    assert!(examples > 0);
    for key in keys() {
        assert!(text.contains(&format!("`{key}`")), "{key}");
    }
}

/// Returns all keys, which the messages about unknown keys list.
fn keys() -> Vec<String> {
    let wrong = "zzzzzzzz = 1\n[runtimes]\nzzzzzzzz = 1\n[reclaim]\nzzzzzzzz = 1\n[offload]\nzzzzzzzz = 1\n[[container]]\n\
                 zzzzzzzz = 1\n[container.target]\nzzzzzzzz = 1\nsource = { zzzzzzzz = 1 }\n";
    let problems = Config::parse(wrong).unwrap_err();
    let lists = problems.iter().filter_map(|problem| {
        let (_, list) = problem.message.split_once("known are ")?;
        Some(list.split(", ").map(Into::into).collect::<Vec<String>>())
    });
    let keys: Vec<String> = lists.flatten().collect();
    assert!(keys.len() > 50, "{keys:?}");
    keys
}
