// SPDX-License-Identifier: GPL-2.0-only

//! JSON schema of what `--json` prints.

use crate::{
    advice::AdviceReport,
    commands::{doctor::DoctorReport, simulate::SimulationReport, support_bundle::BundleReport},
    error::{ErrorReport, WarningReport},
    report::{
        AddedReport, CapacityReport, ContainersReport, CurvesReport, DeviceReport, DevicesReport,
        EventReport, FlushReport, ModeReport, PolicyReport, RemovedReport, SCHEMA_VERSION,
        SsdSettingsReport, StatsReport, StatusReport, StoreReport, VmsReport, WeightsReport,
    },
};
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// Returns the schema: an object of schemas by the names of verbs, and `error` and `warning`.
///
/// The version of the schema is a field of each object. An output of `--watch` has a `time`.
pub(crate) fn document() -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let mut verbs = Map::new();
    {
        let mut add = |name: &str, schema: Schema| {
            verbs.insert(name.into(), versioned(schema.to_value(), name));
        };
        let generator = &mut generator;
        add("status", of::<StatusReport>(generator));
        add("vm list", of::<VmsReport>(generator));
        add("set-weight", of::<WeightsReport>(generator));
        add("set-capacity", of::<CapacityReport>(generator));
        add("ssd add", of::<DeviceReport>(generator));
        add("ssd remove", of::<DeviceReport>(generator));
        add("ssd list", of::<DevicesReport>(generator));
        add("ssd set", of::<SsdSettingsReport>(generator));
        add("mode", of::<ModeReport>(generator));
        add("stats", of::<StatsReport>(generator));
        add("stats --curve", of::<CurvesReport>(generator));
        add("flush", of::<FlushReport>(generator));
        add("events", of::<EventReport>(generator));
        add("advise", of::<AdviceReport>(generator));
        add("doctor", of::<DoctorReport>(generator));
        add("support-bundle", of::<BundleReport>(generator));
        add("policy", of::<Map<String, Value>>(generator));
        add("simulate", of::<SimulationReport>(generator));
        add("container list", of::<ContainersReport>(generator));
        add("container add", of::<AddedReport<'_>>(generator));
        add("container remove", of::<RemovedReport>(generator));
        add("container set-weight", of::<WeightsReport>(generator));
        add("container set-policy", of::<PolicyReport<'_>>(generator));
        add("container set-store", of::<StoreReport<'_>>(generator));
        add("error", of::<ErrorReport>(generator));
        add("warning", of::<WarningReport>(generator));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "JSON of ddctl",
        "description": "Output of each verb with --json. `error` and `warning` are lines of the \
                        standard error.",
        "version": SCHEMA_VERSION,
        "verbs": verbs,
        "$defs": generator.take_definitions(true),
    })
}

/// Returns the schema of a type, whose definitions the generator keeps.
fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
}

/// Adds the fields that every output has.
fn versioned(mut schema: Value, name: &str) -> Value {
    let properties = schema
        .as_object_mut()
        .map(|fields| fields.entry("properties").or_insert_with(|| json!({})));
    if let Some(Value::Object(properties)) = properties {
        properties.insert("schema_version".into(), json!({ "const": SCHEMA_VERSION }));
        if WATCHED.contains(&name) {
            properties.insert(
                "time".into(),
                json!({ "type": "string", "description": "Time of the output (RFC 3339); only with --watch." }),
            );
        }
    }
    match schema.get_mut("required") {
        Some(Value::Array(required)) => required.push(json!("schema_version")),
        _ => schema["required"] = json!(["schema_version"]),
    }
    schema
}

/// Verbs with the option `--watch`.
const WATCHED: [&str; 6] = [
    "status",
    "vm list",
    "stats",
    "stats --curve",
    "policy",
    "container list",
];
