//! The JSON Schema (draft 2020-12) of scenarios, made from the tables of keys.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::keys::{KeySpec, Kind, ROOT, TableSpec, Unit};

/// The schema version that this build writes and reads.
pub const SCHEMA: i64 = 1;

/// The JSON Schema of a scenario file, for editors and validators.
#[must_use]
pub fn json_schema() -> Value {
    let mut definitions = Map::new();
    for spec in all_tables().into_iter().skip(1) {
        definitions.insert(spec.name.to_owned(), object(spec, None));
    }
    let mut schema = object(&ROOT, Some("fabricsim scenario"));
    if let Value::Object(map) = &mut schema {
        map.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        map.insert("$id".to_owned(), json!(format!("{}/scenario.schema.json", env!("CARGO_PKG_REPOSITORY"))));
        map.insert("$defs".to_owned(), Value::Object(definitions));
    }
    schema
}

/// Every table of a scenario, the scenario itself first, each before those inside it.
#[must_use]
pub fn all_tables() -> Vec<&'static TableSpec> {
    fn visit(spec: &'static TableSpec, seen: &mut BTreeSet<&'static str>, out: &mut Vec<&'static TableSpec>) {
        if !seen.insert(spec.name) {
            return;
        }
        out.push(spec);
        for key in spec.keys {
            inner(&key.kind, seen, out);
        }
    }
    fn inner(kind: &'static Kind, seen: &mut BTreeSet<&'static str>, out: &mut Vec<&'static TableSpec>) {
        match kind {
            Kind::Table(spec) | Kind::Tables(spec) | Kind::Part(spec) | Kind::NamedOrTable(_, _, spec) => {
                visit(spec, seen, out);
            }
            Kind::Variants(variants) => variants.iter().for_each(|(_, spec)| visit(spec, seen, out)),
            Kind::List(of) | Kind::Map(of) => inner(of, seen, out),
            _ => {}
        }
    }
    let mut out = Vec::new();
    visit(&ROOT, &mut BTreeSet::new(), &mut out);
    out
}

fn object(spec: &TableSpec, title: Option<&str>) -> Value {
    let mut properties = Map::new();
    for key in spec.keys {
        properties.insert(key.name.to_owned(), property(key, spec));
    }
    let required: Vec<&str> = spec.keys.iter().filter(|k| k.required).map(|k| k.name).collect();
    let mut map = Map::new();
    map.insert("title".to_owned(), json!(title.unwrap_or(spec.name)));
    map.insert("description".to_owned(), json!(spec.doc));
    map.insert("type".to_owned(), json!("object"));
    map.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        map.insert("required".to_owned(), json!(required));
    }
    map.insert("additionalProperties".to_owned(), json!(false));
    Value::Object(map)
}

fn property(key: &KeySpec, table: &TableSpec) -> Value {
    let mut value = of_kind(&key.kind);
    if let Value::Object(map) = &mut value {
        // A variant's own `kind` can only be its own name.
        if key.name == "kind"
            && let Some(own) = variant_name(table)
        {
            map.remove("enum");
            map.insert("const".to_owned(), json!(own));
        }
        map.insert("description".to_owned(), json!(key.doc));
        if let Some(default) = key.default {
            map.insert("default".to_owned(), default_value(&key.kind, default));
        }
    }
    value
}

/// `collective` for the table `workload.collective`, if the table is a variant.
fn variant_name(table: &TableSpec) -> Option<&'static str> {
    ROOT.keys.iter().find_map(|key| match key.kind {
        Kind::Variants(variants) => variants.iter().find(|(_, spec)| spec.name == table.name).map(|(name, _)| *name),
        _ => None,
    })
}

/// The default as a JSON value of the key's type.
fn default_value(kind: &Kind, default: &str) -> Value {
    match kind {
        Kind::Integer(..) | Kind::IntegerOr(..) | Kind::Number(..) | Kind::Boolean => {
            serde_json::from_str(default).unwrap_or(json!(default))
        }
        _ => json!(default),
    }
}

fn of_kind(kind: &Kind) -> Value {
    const NUMBER: &str = r"^\s*[+]?[0-9][0-9_]*(\.[0-9_]+)?([eE][+-]?[0-9]+)?\s*";
    let text = |unit: &str| json!({ "type": "string", "pattern": format!("{NUMBER}{unit}\\s*$") });
    match kind {
        Kind::Text | Kind::Named(..) => json!({ "type": "string" }),
        Kind::NamedOrTable(_, _, spec) => {
            json!({ "oneOf": [{ "type": "string" }, { "$ref": format!("#/$defs/{}", spec.name) }] })
        }
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Integer(low, high) => bounds("integer", json!(low), json!(high), *low == i64::MIN, *high == i64::MAX),
        Kind::IntegerOr(low, high, words) => {
            json!({ "oneOf": [of_kind(&Kind::Integer(*low, *high)), of_kind(&Kind::Choice(words))] })
        }
        Kind::Number(low, high) => bounds("number", json!(low), json!(high), false, *high == f64::MAX),
        Kind::PerTier(low, high) => {
            let one = of_kind(&Kind::Number(*low, *high));
            json!({ "oneOf": [one, { "type": "array", "items": one, "minItems": 1, "maxItems": 2 }] })
        }
        Kind::Size(_) => text("([kKMGT]i?)?B"),
        Kind::Rate => json!({ "oneOf": [
            text("([kKMGT]i?)?(B|b|bit)(/s|ps)"),
            {
                "type": "object",
                "properties": { "both_directions": text("([kKMGT]i?)?(B|b|bit)(/s|ps)") },
                "required": ["both_directions"],
                "additionalProperties": false,
            },
        ]}),
        Kind::Time => text("(ps|ns|us|µs|μs|ms|s|min|h|d)"),
        Kind::Length => text("(cm|m|km)"),
        Kind::Choice(words) => json!({ "type": "string", "enum": words }),
        Kind::Device => json!({ "oneOf": [{ "type": "integer", "minimum": 0 }, { "type": "string" }] }),
        Kind::Ranks => {
            let range = json!({ "type": "string", "pattern": r"^\s*[0-9]+\s*(-\s*[0-9]+\s*)?(/\s*[0-9]+\s*)?$" });
            let rank = json!({ "type": "integer", "minimum": 0, "maximum": 10_000_000 });
            json!({ "oneOf": [range, { "type": "array", "items": { "oneOf": [rank, range] } }] })
        }
        Kind::List(of) => json!({ "type": "array", "items": of_kind(of) }),
        Kind::Table(spec) => json!({ "$ref": format!("#/$defs/{}", spec.name) }),
        Kind::Tables(spec) => json!({ "type": "array", "items": { "$ref": format!("#/$defs/{}", spec.name) } }),
        Kind::Variants(variants) => {
            let refs: Vec<Value> =
                variants.iter().map(|(_, spec)| json!({ "$ref": format!("#/$defs/{}", spec.name) })).collect();
            json!({ "type": "array", "items": { "oneOf": refs } })
        }
        Kind::Map(of) => json!({ "type": "object", "additionalProperties": of_kind(of) }),
        Kind::Part(spec) => {
            let mut part = object(spec, None);
            if let Value::Object(map) = &mut part {
                map.remove("required");
            }
            part
        }
        Kind::Designs => json!({ "type": "array", "items": {
            "type": "object",
            "properties": { "name": { "type": "string" } },
            "required": ["name"],
        } }),
        Kind::Figure(unit) => {
            let (low, high) = unit.bounds();
            let number = json!({ "type": "number", "minimum": low, "maximum": high });
            let quantity = match unit {
                Unit::GBps | Unit::Gbit => Kind::Rate,
                Unit::Nanoseconds => Kind::Time,
                Unit::Bytes => Kind::Size(true),
            };
            json!({ "anyOf": [number, of_kind(&quantity)] })
        }
        Kind::Scalar => json!({ "type": ["string", "number", "boolean"] }),
        Kind::Any(_) => json!({}),
    }
}

fn bounds(kind: &str, low: Value, high: Value, no_low: bool, no_high: bool) -> Value {
    let mut map = Map::new();
    map.insert("type".to_owned(), json!(kind));
    if !no_low {
        map.insert("minimum".to_owned(), low);
    }
    if !no_high {
        map.insert("maximum".to_owned(), high);
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_has_its_definition() {
        let schema = json_schema();
        let text = schema.to_string();
        for part in text.split("\"#/$defs/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(schema["$defs"].get(name).is_some(), "{name}");
        }
        assert_eq!(schema["properties"]["nodes"]["type"], "integer");
        assert_eq!(schema["$defs"]["workload.transfer"]["properties"]["kind"]["const"], "transfer");
        assert_eq!(schema["$defs"]["software"]["properties"]["graph"]["default"], false);
    }

    #[test]
    fn keys_are_snake_case_and_documented() {
        for table in all_tables() {
            for key in table.keys {
                // The one unit that is not: `B` is bytes and `b` is bits.
                let name = key.name.strip_suffix("_GBps").unwrap_or(key.name);
                let snake = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
                assert!(snake, "{}", key.name);
                assert!(key.doc.ends_with('.'), "{}.{}: {}", table.name, key.name, key.doc);
                assert!(!(key.required && key.default.is_some()), "{}.{}", table.name, key.name);
            }
        }
    }
}
