//! Diagnostics as GitHub workflow commands: `::error file=…,line=…,col=…,title=…::message`.

use core::fmt::Write as _;

use super::{Diagnostics, Severity};

/// One line a finding.
#[must_use]
pub fn github(diagnostics: &Diagnostics) -> String {
    let mut out = String::new();
    for d in &diagnostics.list {
        let level = match d.severity() {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let mut properties = Vec::new();
        if let Some(place) = &d.place {
            let (start, end) = (diagnostics.sources.position(place), diagnostics.sources.end_position(place));
            properties.push(format!("file={}", property(diagnostics.sources.name(place.source))));
            properties.push(format!("line={},endLine={}", start.line, end.line));
            if start.line == end.line {
                properties.push(format!("col={},endColumn={}", start.column, end.column));
            }
        }
        properties.push(format!("title={}", property(&format!("{} {}", d.code, d.message))));
        let mut body = if d.label.is_empty() { d.message.clone() } else { d.label.clone() };
        for help in &d.help {
            body.push_str("\nhelp: ");
            body.push_str(help);
        }
        for note in &d.notes {
            body.push_str("\nnote: ");
            body.push_str(note);
        }
        // Writing to a String cannot fail.
        let _ = writeln!(out, "::{level} {}::{}", properties.join(","), data(&body));
    }
    out
}

/// Escapes the text after the `::`.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
