// SPDX-License-Identifier: GPL-2.0-only

//! Tests of the use of a container's name in sources. Other users choose the name, so it is never
//! trusted.

use crate::source::{figure_of, is_never_asked};
use policyd::config::Config;
use std::fs;
use tempfile::TempDir;

/// Names that cgroups may have.
const WILD: [&str; 8] = [
    "-n",
    "..",
    ".hidden",
    "a b",
    "a;touch x",
    "$(reboot)",
    "--config=x",
    "a/../../b",
];

#[test]
fn only_plain_names_become_arguments() {
    let source = "command = [\"/bin/echo\", \"7\", \"{}\"]";
    for name in ["web", "a.b-c_d:8", "getty@tty1", "9"] {
        assert_eq!(figure_of(source, name), Some(7.0), "{name}");
        assert!(!is_never_asked(source, name), "{name}");
    }
    for name in WILD {
        assert!(is_never_asked(source, name), "{name}");
    }
}

#[test]
fn any_name_is_passed_in_the_environment() {
    for name in WILD {
        let source = format!(
            "command = [\"/bin/sh\", \"-c\", \"test \\\"$DD_CONTAINER\\\" = '{name}' && echo 3\"]"
        );
        assert_eq!(figure_of(&source, name), Some(3.0), "{name}");
    }
    let source = "command = [\"/bin/sh\", \"-c\", \"test $DD_CGROUP = /web && echo 4\"]";
    assert_eq!(figure_of(source, "x"), Some(4.0));
}

#[test]
fn a_name_cannot_leave_its_directory() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().display();
    fs::create_dir(directory.path().join("below")).unwrap();
    fs::write(directory.path().join("figure"), "5\n").unwrap();
    fs::write(directory.path().join("below/web_1"), "6\n").unwrap();
    let source = format!("file = \"{path}/below/{{}}/figure\"");
    assert!(is_never_asked(&source, ".."));
    // Pods are called `pod/container`.
    let source = format!("file = \"{path}/below/{{}}\"");
    assert_eq!(figure_of(&source, "web/1"), Some(6.0));
}

#[test]
fn a_name_is_a_value_in_a_metric() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("figure");
    fs::write(&path, "9\nops{name=\"a\\\"b\"} 4\n").unwrap();
    let source = format!(
        "file = \"{}\", metric = \"ops{{name=\\\"{{}}\\\"}}\"",
        path.display()
    );
    assert_eq!(figure_of(&source, "a\"b"), Some(4.0));
}

#[test]
fn names_are_not_inserted_into_shell_programs() {
    let problems = |command: &str| {
        let file = format!(
            "[[container]]\nname = \"{{}}\"\nunit = \"web*\"\n[container.target]\n\
             throughput = 5\nsource = {{ command = [{command}] }}\n"
        );
        match Config::parse(&file) {
            Ok(_) => String::new(),
            Err(problems) => problems.iter().map(ToString::to_string).collect(),
        }
    };
    for command in [
        "\"/bin/sh\", \"-c\", \"cat /run/figures/{}\"",
        "\"/bin/bash\", \"-ec\", \"cat /run/figures/{}\"",
        "\"/usr/bin/env\", \"python3\", \"-c\", \"print('{}')\"",
        "\"/bin/{}\"",
    ] {
        let text = problems(command);
        assert!(text.starts_with("line 6, column "), "{command}: {text}");
        assert!(text.contains("DD_CONTAINER"), "{command}: {text}");
    }
    assert_eq!(problems("\"/bin/sh\", \"-c\", \"cat /run/x\""), "");
    assert_eq!(problems("\"/usr/bin/rate\", \"--name={}\""), "");
}
