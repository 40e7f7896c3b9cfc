// SPDX-License-Identifier: GPL-2.0-only

//! JSON schema of what `--json` prints.

use crate::{
    advice::AdviceReport,
    commands::{doctor::DoctorReport, simulate::SimulationReport, support_bundle::BundleReport},
    report::{
        AddedReport, CapacityReport, ContainersReport, CurvesReport, DeviceReport, DevicesReport,
        EventReport, FlushReport, ModeReport, PolicyReport, RemovedReport, SsdSettingsReport,
        StatsReport, StatusReport, StoreReport, VmsReport, WeightsReport,
    },
};
use ddnl::schema::Document;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

/// Returns the schema of each verb.
pub(crate) fn document() -> Value {
    let mut document = Document::default();
    watched::<StatusReport>(&mut document, "status");
    watched::<VmsReport>(&mut document, "vm list");
    document.add::<WeightsReport>("set-weight");
    document.add::<CapacityReport>("set-capacity");
    document.add::<DeviceReport>("ssd add");
    document.add::<DeviceReport>("ssd remove");
    document.add::<DevicesReport>("ssd list");
    document.add::<SsdSettingsReport>("ssd set");
    document.add::<ModeReport>("mode");
    watched::<StatsReport>(&mut document, "stats");
    watched::<CurvesReport>(&mut document, "stats --curve");
    document.add::<FlushReport>("flush");
    document.add::<EventReport>("events");
    document.add::<AdviceReport>("advise");
    document.add::<DoctorReport>("doctor");
    document.add::<BundleReport>("support-bundle");
    // This is the daemon's report, whose fields `policyd schema` describes.
    watched::<Map<String, Value>>(&mut document, "policy");
    document.add::<SimulationReport>("simulate");
    watched::<ContainersReport>(&mut document, "container list");
    document.add::<AddedReport<'_>>("container add");
    document.add::<RemovedReport>("container remove");
    document.add::<WeightsReport>("container set-weight");
    document.add::<PolicyReport<'_>>("container set-policy");
    document.add::<StoreReport<'_>>("container set-store");
    document.finish("ddctl")
}

/// Adds a verb with the option `--watch`, which adds the time to each output.
fn watched<R: JsonSchema>(document: &mut Document, verb: &str) {
    let time = json!({
        "type": "string",
        "description": "Time of the output (RFC 3339); only with --watch.",
    });
    document.add_with::<R>(verb, &json!({ "time": time }));
}
