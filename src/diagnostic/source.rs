//! The texts that diagnostics point into.

use core::ops::Range;

use super::Files;

/// The number of a text within [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(u32);

/// A range of bytes of one text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The text.
    pub source: SourceId,
    /// The bytes of it; may be empty.
    pub span: Range<usize>,
}

/// Line and column of a byte, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The character within the line, from 1.
    pub column: usize,
}

#[derive(Clone, Debug)]
struct Source {
    name: String,
    text: String,
    /// Where lines begin, but for the first.
    lines: Vec<usize>,
    /// Whether it is a table that a scenario names, rather than keys of a scenario.
    data: bool,
}

/// The texts of a job: files, command-line settings, built-in presets.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    list: Vec<Source>,
    /// Those who go on with these texts read no file twice.
    files: Files,
}

impl Sources {
    /// The files that were read.
    #[must_use]
    pub const fn files(&self) -> &Files {
        &self.files
    }

    /// Adds a text called `name` (a path as the user wrote it, or `--set`).
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> SourceId {
        let id = SourceId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        let text = text.into();
        let lines = text.match_indices('\n').map(|(i, _)| i + 1).collect();
        self.list.push(Source { name: name.into(), text, lines, data: false });
        id
    }

    /// Adds a file that a scenario names and whose content counts as its keys do: measured kernels, rules of a tuner.
    pub fn add_data(&mut self, name: impl Into<String>, text: impl Into<String>) -> SourceId {
        let id = self.add(name, text);
        if let Some(source) = self.list.get_mut(id.0 as usize) {
            source.data = true;
        }
        id
    }

    /// The texts of such files, in the order in which they were added.
    pub fn data(&self) -> impl Iterator<Item = &str> {
        self.list.iter().filter(|source| source.data).map(|source| source.text.as_str())
    }

    /// The text of that name and content, if it is one of these.
    #[must_use]
    pub fn find(&self, name: &str, text: &str) -> Option<SourceId> {
        let at = self.list.iter().position(|source| source.name == name && source.text == text)?;
        u32::try_from(at).ok().map(SourceId)
    }

    /// What the text is called; empty for a number of another job.
    #[must_use]
    pub fn name(&self, id: SourceId) -> &str {
        self.list.get(id.0 as usize).map_or("", |s| &s.name)
    }

    /// What all texts are called, in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|source| source.name.as_str())
    }

    /// The text itself; empty for a number of another job.
    #[must_use]
    pub fn text(&self, id: SourceId) -> &str {
        self.list.get(id.0 as usize).map_or("", |s| &s.text)
    }

    /// How many texts there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The bytes of `place`, brought inside its text and onto character borders.
    #[must_use]
    pub fn clip(&self, place: &Place) -> Range<usize> {
        let text = self.text(place.source);
        let border = |mut at: usize| {
            at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let start = border(place.span.start);
        start..border(place.span.end).max(start)
    }

    /// Line and column where `place` begins.
    #[must_use]
    pub fn position(&self, place: &Place) -> Position {
        self.position_of(place.source, self.clip(place).start)
    }

    /// Line and column where `place` ends (the character after its last).
    #[must_use]
    pub fn end_position(&self, place: &Place) -> Position {
        self.position_of(place.source, self.clip(place).end)
    }

    fn position_of(&self, id: SourceId, at: usize) -> Position {
        let lines = self.list.get(id.0 as usize).map_or(&[][..], |s| &s.lines);
        let number = lines.partition_point(|start| *start <= at);
        let line_start = number.checked_sub(1).map_or(0, |i| lines[i]);
        Position { line: number + 1, column: self.text(id)[line_start..at].chars().count() + 1 }
    }
}
