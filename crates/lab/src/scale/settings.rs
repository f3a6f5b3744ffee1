//! What a scaling experiment was asked to measure, as fields: of the plan, for all steps, and of a step's shape.

use crate::document::as_json;
use corelane_report::diff::Fields;
use serde::Serialize;
use serde_json::Value;

/// Fields of plans that do not change what a step measures: they select steps, whose shapes contain the selected value,
/// or repeat them, or follow from other fields.
const OF_SELECTION: [&str; 21] = [
    "active",
    "answers",
    "bed.connections",
    "connections",
    "descriptor_limit",
    "left_out",
    "max_steal",
    "metadata",
    "models",
    "modes",
    "object_bytes",
    "placements",
    "quick",
    "rounds",
    "seed",
    "servers",
    "skew",
    "steering.generation",
    "steps",
    "traffics",
    "write_bytes",
];

/// The fields of a plan that all steps have in common.
pub(crate) fn of_plan(plan: &Value) -> Fields {
    let mut fields = Fields::new();
    flatten("", plan, &mut fields);
    fields.retain(|name, _| !OF_SELECTION.contains(&name.as_str()));
    fields
}

/// The fields of a step's shape.
pub(crate) fn of_shape(shape: &impl Serialize) -> Fields {
    let mut fields = Fields::new();
    flatten("", &as_json(shape), &mut fields);
    fields
}

/// Adds every value, that of a nested object as `outer.inner`.
fn flatten(outer: &str, value: &Value, fields: &mut Fields) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                let dot = if outer.is_empty() { "" } else { "." };
                flatten(&format!("{outer}{dot}{name}"), value, fields);
            }
        }
        Value::String(text) => drop(fields.insert(outer.to_owned(), text.clone())),
        other => drop(fields.insert(outer.to_owned(), other.to_string())),
    }
}
