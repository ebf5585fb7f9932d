//! Why a log could not be used.

use thiserror::Error;

/// A log without a usable row, with the place that comes nearest to one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {message}; expected {expected}")]
pub struct LogError {
    /// The kind of failure.
    pub kind: LogErrorKind,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The line's text, shortened; may be empty.
    pub text: String,
    /// What was seen.
    pub message: String,
    /// What was expected there.
    pub expected: String,
    /// What to do about it, where that can be said.
    pub hint: Option<String>,
}

/// The kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogErrorKind {
    /// Nothing but blanks.
    Empty,
    /// Not text.
    Binary,
    /// Text, but nothing of nccl-tests in it.
    NotALog,
    /// A run of nccl-tests that printed no complete row.
    NoRow,
    /// Rows that are all damaged.
    Damaged,
    /// JSON of another shape.
    Json,
    /// More than a limit allows.
    TooLarge,
    /// The input could not be read.
    Io,
}

/// What every message of a missing row expects.
pub(super) const A_ROW: &str = "a row such as `1024 256 float sum -1 12.3 0.08 0.15 0 12.1 0.08 0.15 0` (size, count, type, redop, root, then time, algbw, busbw, #wrong twice)";

impl LogError {
    /// The message with the place in `file`, the line's text and the hint, several lines without colour.
    ///
    /// ```
    /// let error = sim_report::nccl_log::read(b"1024 256 float sum -1 12.3\n").unwrap_err();
    /// assert!(error.render("night.txt").contains("--> night.txt:1:27"));
    /// ```
    #[must_use]
    pub fn render(&self, file: &str) -> String {
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        let mut out = format!("error: {}\n{gutter}--> {file}:{}:{}\n", self.message, self.line, self.column);
        if !self.text.is_empty() {
            let mark = " ".repeat((self.column - 1).min(self.text.chars().count()));
            out += &format!("{gutter} |\n{number} | {}\n{gutter} | {mark}^\n", self.text);
        }
        out += &format!("{gutter} = expected: {}\n", self.expected);
        if let Some(hint) = &self.hint {
            out += &format!("{gutter} = help: {hint}\n");
        }
        out
    }

    pub(super) fn new(kind: LogErrorKind, line: usize, column: usize, message: impl Into<String>) -> Self {
        Self {
            kind,
            line,
            column,
            text: String::new(),
            message: message.into(),
            expected: A_ROW.to_owned(),
            hint: None,
        }
    }

    pub(super) fn text(mut self, text: &str) -> Self {
        self.text = shorten(text, 120);
        self
    }

    pub(super) fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = expected.into();
        self
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn archive(what: &'static str) -> Self {
        Self::new(LogErrorKind::Binary, 1, 1, format!("the file is {what}"))
            .expected("the text that nccl-tests printed")
            .hint("unpack it first")
    }

    pub(super) fn io(error: &std::io::Error, line: usize) -> Self {
        Self::new(LogErrorKind::Io, line.max(1), 1, format!("the log cannot be read: {error}"))
            .expected("readable input")
    }

    pub(super) fn limit(line: usize, what: &str) -> Self {
        Self::new(LogErrorKind::TooLarge, line.max(1), 1, format!("the log has more than {what}"))
            .expected("at most that much")
            .hint("keep the rows and the lines that begin with `#`: grep -E '^ *[0-9#]' LOG > short.txt")
    }
}

/// At most `max` characters of a text, without control characters.
pub(super) fn shorten(text: &str, max: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let text = text.trim_end();
    if text.chars().count() <= max {
        text.chars().map(clean).collect()
    } else {
        text.chars().take(max.saturating_sub(3)).map(clean).chain("...".chars()).collect()
    }
}
