//! The schemas of files, in the documentation.

use crate::repository;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// Asserts that a schema in `docs/` (JSON Schema: types, fields and enumerations only) is that of `complete`, a TOML file with
/// every field: it knows exactly these fields.
///
/// # Panics
/// If it has a field more or less, or a field has another type.
pub fn assert_same_fields(complete: &str, schema: &str) {
    let path = repository().join("docs").join(schema);
    let root = fs::read_to_string(path).expect("a readable schema");
    let root: Value = serde_json::from_str(&root).expect("a schema in JSON");
    let file = toml::from_str(complete).expect("a TOML file");
    let (mut seen, mut known) = (BTreeSet::new(), BTreeSet::new());
    check(&file, &root, &root, "", &mut seen);
    collect(&root, &root, "", &mut known);
    assert_eq!(
        seen, known,
        "left: fields of the complete file; right: of {schema}"
    );
}

/// Resolves a reference of the schema.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|path| path.strip_prefix('#')) {
        Some(path) => root
            .pointer(path)
            .unwrap_or_else(|| panic!("{path} is not there")),
        None => schema,
    }
}

/// Checks a value against its schema; records the fields seen.
fn check(value: &Value, schema: &Value, root: &Value, at: &str, seen: &mut BTreeSet<String>) {
    let schema = resolved(schema, root);
    let of_type = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        other => panic!("{at}: a type {other}"),
    };
    match &schema["type"] {
        Value::String(name) => assert!(of_type(name), "{at}: {value} is no {name}"),
        Value::Array(_) => {
            let mut names = items(&schema["type"]).filter_map(Value::as_str);
            assert!(names.any(of_type), "{at}: {value} is none of {}", schema["type"]);
        }
        _ => assert!(items(&schema["enum"]).any(|one| one == value), "{at}: {value}"),
    }
    if !schema["items"].is_null() {
        items(value).for_each(|item| check(item, &schema["items"], root, at, seen));
    }
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    for required in items(&schema["required"]).filter_map(Value::as_str) {
        assert!(value.get(required).is_some(), "{at}: {required} is missing");
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let at = format!("{at}/{name}");
        let own = properties
            .get(name)
            .unwrap_or_else(|| panic!("the schema has no {at}"));
        check(value, own, root, &at, seen);
        seen.insert(at);
    }
}

/// Collects every field of a schema.
fn collect(schema: &Value, root: &Value, at: &str, known: &mut BTreeSet<String>) {
    let schema = resolved(schema, root);
    if !schema["items"].is_null() {
        collect(&schema["items"], root, at, known);
    }
    for (name, own) in schema["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}/{name}");
        collect(own, root, &at, known);
        known.insert(at);
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
