// SPDX-License-Identifier: GPL-2.0-only

//! The version of the JSON that tools and daemons print, and (feature `schema`) documents that
//! describe it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[cfg(feature = "schema")]
pub use document::{Document, close};

/// Version of the schemas. It rises when a field is removed, is renamed or changes its meaning; a
/// new field does not change it.
pub const SCHEMA_VERSION: u32 = 1;

/// The field that has the version in each object.
const FIELD: &str = "schema_version";

/// Adds the version of the schema to a JSON object.
pub fn versioned(mut json: Value) -> Value {
    if let Some(fields) = json.as_object_mut() {
        fields.insert(FIELD.into(), json!(SCHEMA_VERSION));
    }
    json
}

/// Returns the version of the schema that a JSON object names. Daemons before this field had
/// version 1.
pub fn version_of(json: &str) -> u32 {
    #[derive(Deserialize)]
    struct Object {
        #[serde(default)]
        schema_version: Option<u32>,
    }
    let object = serde_json::from_str::<Object>(json).ok();
    object.and_then(|it| it.schema_version).unwrap_or(1)
}

/// A report with the version of the schema, which is serialized without a copy of the report.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Versioned<'a, R> {
    schema_version: u32,
    #[serde(flatten)]
    report: &'a R,
}

impl<'a, R> Versioned<'a, R> {
    /// Adds the version to a report, which must be a structure or a map.
    pub fn new(report: &'a R) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            report,
        }
    }
}

#[cfg(feature = "schema")]
mod document {
    use super::{FIELD, SCHEMA_VERSION};
    use crate::program_error::{ErrorReport, WarningReport};
    use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
    use serde_json::{Map, Value, json};

    /// A document with the schema of what each verb of a program prints.
    #[derive(Debug)]
    pub struct Document {
        generator: SchemaGenerator,
        verbs: Map<String, Value>,
    }

    /// Changes a schema so that it refuses fields that it does not list, which it allows to
    /// readers. Tests find fields without a description with it.
    pub fn close(schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                fields.values_mut().for_each(close);
                if fields.get("properties").is_some_and(Value::is_object) {
                    fields.insert("unevaluatedProperties".into(), json!(false));
                }
            }
            Value::Array(items) => items.iter_mut().for_each(close),
            _ => {}
        }
    }

    impl Default for Document {
        fn default() -> Self {
            let settings = SchemaSettings::draft2020_12().for_serialize();
            Self {
                generator: settings.into_generator(),
                verbs: Map::new(),
            }
        }
    }

    impl Document {
        /// Adds a verb that prints a report.
        pub fn add<R: JsonSchema>(&mut self, verb: &str) {
            self.add_with::<R>(verb, &json!({}));
        }

        /// Adds a verb that prints a report with further properties, which may be absent.
        pub fn add_with<R: JsonSchema>(&mut self, verb: &str, further: &Value) {
            let mut schema = R::json_schema(&mut self.generator).to_value();
            if let Some(fields) = schema.as_object_mut() {
                let properties = fields.entry("properties").or_insert_with(|| json!({}));
                if let Some(properties) = properties.as_object_mut() {
                    properties.insert(FIELD.into(), json!({ "const": SCHEMA_VERSION }));
                    properties.extend(further.as_object().cloned().unwrap_or_default());
                }
                let required = fields.entry("required").or_insert_with(|| json!([]));
                if let Some(required) = required.as_array_mut() {
                    required.push(json!(FIELD));
                }
            }
            self.verbs.insert(verb.into(), schema);
        }

        /// Returns the document of a program: an object of schemas by the names of verbs, and
        /// `error` and `warning`.
        pub fn finish(mut self, program: &str) -> Value {
            self.add::<ErrorReport<'_>>("error");
            self.add::<WarningReport<'_>>("warning");
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": format!("JSON of {program}"),
                "description": "Output of each verb with --json. `error` and `warning` are lines \
                                of the standard error.",
                "version": SCHEMA_VERSION,
                "verbs": self.verbs,
                "$defs": self.generator.take_definitions(true),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Report {
        size: u64,
    }

    #[test]
    fn the_version_is_a_field_of_each_object() {
        let expected = json!({ "size": 7, "schema_version": 1 });
        let report = Report { size: 7 };
        assert_eq!(versioned(json!(report)), expected);
        assert_eq!(json!(Versioned::new(&report)), expected);
        assert_eq!(versioned(json!([1])), json!([1]));
        assert_eq!(version_of("{\"schema_version\":2,\"size\":7}"), 2);
        assert_eq!((version_of("{\"size\":7}"), version_of("x")), (1, 1));
    }
}
