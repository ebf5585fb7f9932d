//! Diagnostics as text: `error[E012]: unit missing` with the line, a caret and advice.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::{Diagnostic, Diagnostics, Place, Severity, SourceId};

/// Whether the text carries colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Letters only.
    Plain,
    /// With terminal colours.
    Coloured,
}

/// All findings, each followed by an empty line, and a closing line with their number if there is more than one.
#[must_use]
pub fn text(diagnostics: &Diagnostics, style: Style) -> String {
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Coloured => Renderer::styled(),
    };
    let mut out = String::new();
    for diagnostic in &diagnostics.list {
        out.push_str(&one(diagnostics, diagnostic, &renderer));
        out.push_str("\n\n");
    }
    let (errors, warnings) = (diagnostics.count(Severity::Error), diagnostics.count(Severity::Warning));
    if errors + warnings > 1 {
        out.push_str(&tally(errors, warnings));
        out.push('\n');
    }
    out
}

/// `2 errors, 1 warning`.
pub(super) fn tally(errors: usize, warnings: usize) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    match (errors, warnings) {
        (e, 0) => count(e, "error"),
        (0, w) => count(w, "warning"),
        (e, w) => format!("{}, {}", count(e, "error"), count(w, "warning")),
    }
}

fn one(all: &Diagnostics, diagnostic: &Diagnostic, renderer: &Renderer) -> String {
    let level = match diagnostic.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code.id());
    let mut group = Group::with_title(title);
    if let Some(place) = &diagnostic.place {
        group = group.element(snippet(all, place.source, diagnostic));
        let mut others: Vec<SourceId> =
            diagnostic.related.iter().map(|(p, _)| p.source).filter(|s| *s != place.source).collect();
        others.dedup();
        for source in others {
            group = group.element(snippet(all, source, diagnostic));
        }
    }
    for help in &diagnostic.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    for note in &diagnostic.notes {
        group = group.element(Level::NOTE.message(note.as_str()));
    }
    renderer.render(&[group])
}

/// The lines around the marks in one text. Only those lines are handed over, so that a long file costs nothing.
fn snippet<'a>(
    all: &'a Diagnostics,
    source: SourceId,
    diagnostic: &'a Diagnostic,
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let text = all.sources.text(source);
    let marks: Vec<_> = diagnostic
        .place
        .iter()
        .map(|p| (p, diagnostic.label.as_str(), AnnotationKind::Primary))
        .chain(diagnostic.related.iter().map(|(p, l)| (p, l.as_str(), AnnotationKind::Context)))
        .filter(|(p, ..)| p.source == source)
        .map(|(p, label, kind)| (first_line(text, all.sources.clip(p)), label, kind))
        .collect();
    let first = marks.iter().map(|(span, ..)| span.start).min().unwrap_or(0);
    let last = marks.iter().map(|(span, ..)| span.end).max().unwrap_or(0);
    let from = text[..first].rfind('\n').map_or(0, |i| i + 1);
    let to = text[last..].find('\n').map_or(text.len(), |i| last + i);
    let mut snippet = Snippet::source(&text[from..to])
        .line_start(all.sources.position(&Place { source, span: from..from }).line)
        .path(all.sources.name(source))
        .fold(true);
    for (span, label, kind) in marks {
        let annotation = kind.span(span.start - from..span.end - from);
        snippet = snippet.annotation(if label.is_empty() { annotation } else { annotation.label(label) });
    }
    snippet
}

/// A mark over several lines is cut to its first: a table is pointed at by its head.
fn first_line(text: &str, span: core::ops::Range<usize>) -> core::ops::Range<usize> {
    let cut = text[span.clone()].find(['\n', '\r']).map_or(span.end, |i| span.start + i);
    span.start..cut
}
