// SPDX-License-Identifier: GPL-2.0

use ddabi::pool::Store;
use insta::assert_snapshot;
use policyd::config::{Config, Pattern};
use std::{fs, path::PathBuf, time::Duration};

fn repository(file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The problems of a file, one a line.
fn problems(text: &str) -> String {
    match Config::parse(text) {
        Ok(config) => format!("{config:#?}"),
        Err(problems) => problems.iter().map(|one| format!("{one}\n")).collect(),
    }
}

#[test]
fn an_empty_file_is_right() {
    assert_eq!(Config::parse("").unwrap(), Config::default());
}

#[test]
fn everything_can_be_said() {
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
    assert_eq!(batch.cgroup, Pattern::parse("/batch-*").unwrap());
    assert_eq!(batch.pool_name("/batch-7.scope"), "batch-batch-7");
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
fn wrong_values_are_told_with_their_lines() {
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
store = "ssd"
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
fn what_is_no_toml_is_told_too() {
    assert_snapshot!(problems("interval_s = \n[[container]\nname = 'a\n"));
    assert_snapshot!(
        "container_as_table",
        problems("[container]\nname = \"a\"\n")
    );
    assert_snapshot!("container_as_number", problems("container = [1]\n"));
}

#[test]
fn the_example_is_right() {
    let config = Config::parse(&repository("policyd/policyd.toml")).unwrap();
    assert!(!config.containers.is_empty());
}

/// What the documentation shows works, and it shows every key.
#[test]
fn the_documentation_is_right() {
    let text = repository("docs/policyd.md");
    let mut examples = 0;
    for block in text.split("```toml\n").skip(1) {
        let example = block.split("```").next().unwrap();
        if let Err(problems) = Config::parse(example) {
            panic!("{problems:?} in\n{example}");
        }
        examples += 1;
    }
    assert!(examples > 0);
    for key in [
        "interval_s",
        "default_weight",
        "default_pool_weight",
        "cgroup_root",
        "name",
        "cgroup",
        "weight",
        "store",
    ] {
        assert!(text.contains(&format!("`{key}`")), "{key}");
    }
}
