//! Diagnostics as JSON.

use serde::Serialize;

use super::{Diagnostics, Place, Severity, Sources};

/// A place in JSON: file, and lines and columns from 1.
#[derive(Clone, Debug, Serialize)]
pub struct JsonPlace {
    /// The file as the user wrote it.
    pub file: String,
    /// First line.
    pub line: usize,
    /// First character in that line.
    pub column: usize,
    /// Line of the end.
    pub end_line: usize,
    /// The character after the last.
    pub end_column: usize,
    /// What is wrong with the text there.
    pub label: String,
}

/// One finding in JSON.
#[derive(Clone, Debug, Serialize)]
pub struct JsonDiagnostic {
    /// `E012`, `W003`.
    pub code: &'static str,
    /// `error` or `warning`.
    pub severity: Severity,
    /// One phrase.
    pub message: String,
    /// Where, if it has a place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<JsonPlace>,
    /// Other places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<JsonPlace>,
    /// What to do.
    pub help: Vec<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

fn place(sources: &Sources, place: &Place, label: &str) -> JsonPlace {
    let (start, end) = (sources.position(place), sources.end_position(place));
    JsonPlace {
        file: sources.name(place.source).to_owned(),
        line: start.line,
        column: start.column,
        end_line: end.line,
        end_column: end.column,
        label: label.to_owned(),
    }
}

/// All findings in order.
#[must_use]
pub fn json(diagnostics: &Diagnostics) -> Vec<JsonDiagnostic> {
    let sources = &diagnostics.sources;
    diagnostics
        .list
        .iter()
        .map(|d| JsonDiagnostic {
            code: d.code.id(),
            severity: d.severity(),
            message: d.message.clone(),
            place: d.place.as_ref().map(|p| place(sources, p, &d.label)),
            related: d.related.iter().map(|(p, l)| place(sources, p, l)).collect(),
            help: d.help.clone(),
            notes: d.notes.clone(),
        })
        .collect()
}
