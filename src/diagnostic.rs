//! What fabricsim says about an input it cannot take as it is: a code, a place, a reason and a way out.
//!
//! A [`Diagnostic`] is a value. It is rendered as text with the offending line and a caret, as JSON, as GitHub workflow
//! annotations or as SARIF by the modules below. All diagnostics of a file are collected in [`Diagnostics`] and
//! reported together.

mod codes;
mod files;
mod github;
mod json;
mod sarif;
mod source;
mod text;

#[cfg(test)]
mod tests;

pub use codes::{Code, Entry};
pub use files::Files;
pub use github::github;
pub use json::{JsonDiagnostic, JsonPlace, json};
pub use sarif::sarif;
pub use source::{Place, Position, SourceId, Sources};
pub use text::{Style, text};

use std::collections::BTreeMap;

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The input is used, but probably not as meant.
    Warning,
    /// The input cannot be used.
    Error,
}

/// One finding about an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What kind of finding; `fabricsim explain CODE` has a page on it.
    pub code: Code,
    /// One short phrase that stands alone.
    pub message: String,
    /// Where, if it has a place.
    pub place: Option<Place>,
    /// What is wrong with the marked text.
    pub label: String,
    /// Other places that belong to it, each with a phrase.
    pub related: Vec<(Place, String)>,
    /// What to do.
    pub help: Vec<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// A finding without a place yet.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            place: None,
            label: String::new(),
            related: Vec::new(),
            help: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The same finding at `place`, whose text is marked with `label`.
    #[must_use]
    pub fn at(mut self, place: Place, label: impl Into<String>) -> Self {
        self.place = Some(place);
        self.label = label.into();
        self
    }

    /// The same finding with another place that belongs to it.
    #[must_use]
    pub fn related(mut self, place: Place, label: impl Into<String>) -> Self {
        self.related.push((place, label.into()));
        self
    }

    /// The same finding with advice; an empty text adds nothing.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        let help = help.into();
        if !help.is_empty() {
            self.help.push(help);
        }
        self
    }

    /// The same finding with advice, if there is any.
    #[must_use]
    pub fn maybe_help(self, help: Option<String>) -> Self {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }

    /// The same finding with a remark.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Error or warning: the letter of the code decides.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.code.severity()
    }
}

/// All findings about one job, with the texts they point into.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    /// The texts.
    pub sources: Sources,
    /// The findings, in order of discovery.
    pub list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// No findings, no texts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Findings that consist of this one, without a text.
    #[must_use]
    pub fn of(diagnostic: Diagnostic) -> Self {
        Self { sources: Sources::default(), list: vec![diagnostic] }
    }

    /// Adds a finding, unless the very same one is among the last few: checks that overlap follow each other closely,
    /// and a file of a hundred thousand faults must not take a minute.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if !self.list.iter().rev().take(256).any(|d| *d == diagnostic) {
            self.list.push(diagnostic);
        }
    }

    /// Adds the findings of another job that are not among these, with the texts that they name.
    pub fn absorb(&mut self, other: Self) {
        let mut known: BTreeMap<SourceId, SourceId> = BTreeMap::new();
        let Self { sources, list } = other;
        for mut finding in list {
            let places = finding.place.iter_mut().chain(finding.related.iter_mut().map(|(place, _)| place));
            for place in places {
                place.source = *known.entry(place.source).or_insert_with(|| {
                    let (name, text) = (sources.name(place.source), sources.text(place.source));
                    self.sources.find(name, text).unwrap_or_else(|| self.sources.add(name, text))
                });
            }
            if !self.list.contains(&finding) {
                self.list.push(finding);
            }
        }
    }

    /// Whether an error is among them.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.count(Severity::Error) > 0
    }

    /// How many there are of a severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        self.list.iter().filter(|d| d.severity() == severity).count()
    }

    /// Sorts by place: file by file in order of loading, top to bottom; findings without a place come first.
    pub fn sort(&mut self) {
        self.list.sort_by_key(|d| d.place.as_ref().map(|p| (p.source, p.span.start, p.span.end)));
    }

    /// The warnings as one line each, `W003 file:line:col: message: label`, as JSON results carry them.
    #[must_use]
    pub fn warning_lines(&self) -> Vec<String> {
        self.list.iter().filter(|d| d.severity() == Severity::Warning).map(|d| self.line(d)).collect()
    }

    /// One finding as one line.
    #[must_use]
    pub fn line(&self, diagnostic: &Diagnostic) -> String {
        let place = match &diagnostic.place {
            Some(place) => {
                let at = self.sources.position(place);
                format!(" {}:{}:{}:", self.sources.name(place.source), at.line, at.column)
            }
            None => ":".to_owned(),
        };
        let label = if diagnostic.label.is_empty() { String::new() } else { format!(": {}", diagnostic.label) };
        format!("{}{place} {}{label}", diagnostic.code, diagnostic.message)
    }
}

/// The candidates most like `name`, best first, none that is wildly different.
#[must_use]
pub fn similar<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(name);
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates {
        let other = fold(candidate);
        let score = if other == folded {
            2.0
        } else {
            let mut score = strsim::damerau_levenshtein(&folded, &other) as f64;
            score = 1.0 - score / folded.chars().count().max(other.chars().count()).max(1) as f64;
            if folded.len() >= 3 && (other.starts_with(&folded) || folded.starts_with(&other)) {
                score = score.max(0.7);
            }
            score
        };
        if score >= 0.55 && best.is_none_or(|(b, _)| score > b) {
            best = Some((score, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Spelling variants (`all-to-all`, `AllToAll`, `all_to_all`) look alike after this. Long names are cut: nobody
/// mistypes a hundred letters.
fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).take(100).flat_map(char::to_lowercase).collect()
}

/// `did you mean "x"?` and the whole list, for a name out of a closed set.
#[must_use]
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let list: Vec<&str> = candidates.clone().into_iter().collect();
    let known =
        if list.len() <= 24 { format!("known: {}", list.join(", ")) } else { format!("{} are known", list.len()) };
    match similar(name, candidates) {
        Some(alike) => format!("did you mean `{alike}`? {}", capitalize(&known)),
        None => known,
    }
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

/// `1 GPU`, `2 GPUs`.
#[must_use]
pub(crate) fn counted(n: impl core::fmt::Display, what: &str) -> String {
    let n = n.to_string();
    if n == "1" { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// At most 60 characters of a user's text on one line, for messages.
#[must_use]
pub fn shorten(text: &str) -> String {
    let clean: String = text.chars().take(61).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.chars().count() <= 60 { clean } else { clean.chars().take(57).chain("...".chars()).collect() }
}
