//! Diagnostics as SARIF 2.1.0, the format that code-scanning services read.

use serde_json::{Value, json};

use super::{Code, Diagnostics, Place, Severity};

/// The SARIF log of one run.
#[must_use]
pub fn sarif(diagnostics: &Diagnostics) -> Value {
    let mut codes: Vec<Code> = diagnostics.list.iter().map(|d| d.code).collect();
    codes.sort();
    codes.dedup();
    let rules: Vec<Value> = codes
        .iter()
        .map(|code| {
            json!({
                "id": code.id(),
                "shortDescription": { "text": code.entry().title },
                "fullDescription": { "text": code.entry().page },
                "defaultConfiguration": { "level": level(code.severity()) },
            })
        })
        .collect();
    let results: Vec<Value> = diagnostics
        .list
        .iter()
        .map(|d| {
            let mut text = d.message.clone();
            for more in core::iter::once(&d.label).chain(&d.help).chain(&d.notes).filter(|t| !t.is_empty()) {
                text.push_str(". ");
                text.push_str(more);
            }
            let locations: Vec<Value> = d.place.iter().map(|p| location(diagnostics, p)).collect();
            let related: Vec<Value> = d
                .related
                .iter()
                .map(|(place, label)| {
                    let mut value = location(diagnostics, place);
                    value["message"] = json!({ "text": label });
                    value
                })
                .collect();
            json!({
                "ruleId": d.code.id(),
                "ruleIndex": codes.iter().position(|c| *c == d.code),
                "level": level(d.severity()),
                "message": { "text": text },
                "locations": locations,
                "relatedLocations": related,
            })
        })
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "fabricsim",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

fn location(diagnostics: &Diagnostics, place: &Place) -> Value {
    let sources = &diagnostics.sources;
    let (start, end) = (sources.position(place), sources.end_position(place));
    json!({ "physicalLocation": {
        "artifactLocation": { "uri": sources.name(place.source).replace('\\', "/") },
        "region": {
            "startLine": start.line,
            "startColumn": start.column,
            "endLine": end.line,
            "endColumn": end.column,
        },
    }})
}
