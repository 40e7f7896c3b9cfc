// SPDX-License-Identifier: GPL-2.0-only

//! The JSON of every verb, and its schema.

use crate::world::World;
use ddnl::{Event, schema::close};
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path};

fn schema() -> Value {
    serde_json::from_str(&World::new().outcome("schema").out).unwrap()
}

/// Returns a schema of one verb together with the definitions that it refers to.
fn of(document: &Value, verb: &str) -> Value {
    let mut schema = document["verbs"][verb].clone();
    assert!(schema.is_object(), "no schema of `{verb}`");
    schema["$defs"] = document["$defs"].clone();
    schema
}

fn validate(schema: &Value, output: &Value, verb: &str) {
    let validator = jsonschema::draft202012::new(schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(output)
        .map(|error| format!("{} at {}", error, error.instance_path))
        .collect();
    assert!(errors.is_empty(), "{verb}: {errors:#?}\n{output:#}");
}

/// Validates an output, and that the schema lists each of its fields.
fn check(document: &Value, verb: &str, text: &str) {
    let mut output: Value =
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{verb}: {error}: {text}"));
    let mut schema = of(document, verb);
    validate(&schema, &output, verb);
    let fields = output.as_object_mut().unwrap();
    assert_eq!(
        fields.remove("schema_version").as_ref(),
        Some(&document["version"])
    );
    fields.remove("time");
    if verb != "policy" {
        let required = schema["required"].as_array_mut().unwrap();
        required.retain(|name| name != "schema_version" && name != "time");
        let properties = schema["properties"].as_object_mut().unwrap();
        properties.retain(|name, _| name != "schema_version" && name != "time");
        if properties.is_empty() {
            schema.as_object_mut().unwrap().remove("properties");
        }
        close(&mut schema);
        validate(&schema, &output, verb);
    }
}

#[test]
fn the_file_in_docs_is_the_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ddctl.schema.json");
    let printed = World::new().outcome("schema").out;
    let kept = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == printed,
        "write the output of `ddctl schema` into docs/ddctl.schema.json"
    );
}

#[test]
fn every_output_follows_the_schema() {
    let document = schema();
    let host = World::host();
    host.file("/dev/nvme0n1", "");
    let guest = World::guest();
    let mut seen = BTreeSet::new();
    let mut run = |world: &World, verb: &'static str, rest: &str| {
        let outcome = world.outcome(&format!("{verb} {rest} --json"));
        assert!(outcome.err.is_empty(), "{verb}: {}", outcome.err);
        check(&document, verb, &outcome.out);
        seen.insert(verb);
    };
    run(&host, "status", "");
    run(&guest, "status", "--watch --count 1");
    run(&host, "vm list", "");
    run(&host, "vm list", "--watch --count 1");
    run(&host, "stats", "");
    run(&guest, "stats", "");
    run(&guest, "stats --curve", "--watch --count 1");
    run(&host, "set-weight", "web mail 70 --ssd 20");
    run(&guest, "set-weight", "nginx 70");
    run(&host, "set-capacity", "1G");
    run(&host, "ssd add", "/dev/nvme0n1 --write-budget 20M");
    run(&host, "ssd list", "");
    run(
        &host,
        "ssd set",
        "--deadline 50 --wait host --index-memory 64M",
    );
    run(&host, "ssd remove", "0");
    run(&host, "mode", "");
    run(&host, "mode", "fifo");
    run(&host, "flush", "web/nginx");
    run(&guest, "flush", "--all");
    run(&guest, "container list", "");
    run(&guest, "container add", "/system.slice/db.service");
    run(&guest, "container set-weight", "db.service 5");
    run(&guest, "container set-policy", "db.service s3");
    run(&guest, "container set-store", "db.service ssd");
    run(&guest, "container remove", "db.service");
    run(&host, "advise", "");
    run(&guest, "advise", "");
    run(&host, "doctor", "");
    run(&host, "support-bundle", "/bundle.tar.gz");
    crate::policy::daemon(&guest, crate::policy::REPORT);
    run(&guest, "policy", "");
    host.file("/trace.csv", &crate::simulate::looping(500));
    run(&host, "simulate", "/trace.csv");
    host.events.replace(vec![Event {
        kind: 1,
        vm: Some(2),
        pid: None,
        pool: Some(5),
        name: Some("db".into()),
    }]);
    run(&host, "events", "--count 1");
    seen.extend(["error", "warning"]);
    let listed: BTreeSet<&str> = document["verbs"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(seen, listed);
}

/// With `--json`, errors are lines of JSON on the standard error, and the output is empty.
#[test]
fn errors_follow_the_schema() {
    let document = schema();
    let host = World::host();
    let mut lines = Vec::new();
    for line in [
        "flush nobody --json",
        "--json mode lifo",
        "set-weight web 10001 --json",
        "frobnicate --json",
        "container list --json",
        "set-capacity 9G --json",
    ] {
        let outcome = host.outcome(line);
        assert_eq!(outcome.out, "", "{line}");
        check(&document, "error", &outcome.err);
        let json: Value = serde_json::from_str(&outcome.err).unwrap();
        assert_eq!(json["error"]["exit_code"], outcome.code, "{line}");
        lines.push(format!(
            "$ ddctl {line}\n{}= {}\n",
            outcome.err, outcome.code
        ));
    }
    insta::assert_snapshot!(lines.join("\n"));
    // A word after `--` is not an option.
    assert!(
        host.outcome("flush nobody -- --json")
            .err
            .starts_with("error:")
    );
}
