//! Lines from any bytes, in bounded memory.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read};

use super::Limits;
use super::error::LogError;

/// What the first bytes look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    Json,
    Utf16 { big_endian: bool },
    Archive(&'static str),
}

/// A line without its end.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// From 1.
    pub(super) number: usize,
    pub(super) text: String,
    /// The line was longer than the limit.
    pub(super) cut: bool,
    /// Bytes that were no UTF-8, or NUL.
    pub(super) binary: bool,
}

/// A reader of lines.
#[derive(Debug)]
pub(super) struct Lines<'l, R> {
    input: BufReader<R>,
    limits: &'l Limits,
    number: usize,
    seen: u64,
    buffer: Vec<u8>,
}

impl<'l, R: Read> Lines<'l, R> {
    pub(super) fn new(input: R, limits: &'l Limits) -> Self {
        Self { input: BufReader::with_capacity(64 << 10, input), limits, number: 0, seen: 0, buffer: Vec::new() }
    }

    /// Looks at the beginning without consuming it (but a byte order mark).
    pub(super) fn sniff(&mut self) -> Result<Shape, LogError> {
        let head = self.input.fill_buf().map_err(|e| LogError::io(&e, 1))?;
        if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
            let big_endian = head[0] == 0xfe;
            return Ok(Shape::Utf16 { big_endian });
        }
        if let Some(big_endian) = utf16_without_mark(head) {
            return Ok(Shape::Utf16 { big_endian });
        }
        for (magic, what) in [
            (&[0x1f, 0x8b][..], "compressed by gzip"),
            (b"PK\x03\x04", "a zip archive"),
            (&[0x28, 0xb5, 0x2f, 0xfd], "compressed by zstd"),
            (b"BZh", "compressed by bzip2"),
            (&[0xfd, b'7', b'z', b'X', b'Z'], "compressed by xz"),
        ] {
            if head.starts_with(magic) {
                return Ok(Shape::Archive(what));
            }
        }
        if head.starts_with(&[0xef, 0xbb, 0xbf]) {
            self.input.consume(3);
            self.seen += 3;
        }
        let head = self.input.fill_buf().map_err(|e| LogError::io(&e, 1))?;
        let mut inked = head.iter().copied().filter(|b| !b.is_ascii_whitespace());
        let json = inked.next() == Some(b'{') && matches!(inked.next(), Some(b'"' | b'}') | None);
        Ok(if json { Shape::Json } else { Shape::Text })
    }

    /// Everything that is left.
    pub(super) fn whole(&mut self) -> Result<Vec<u8>, LogError> {
        let mut all = Vec::new();
        let limit = self.limits.whole_bytes;
        let input = &mut self.input;
        input.take(limit.saturating_add(1)).read_to_end(&mut all).map_err(|e| LogError::io(&e, 1))?;
        if all.len() as u64 > limit {
            return Err(LogError::limit(1, &format!("{limit} bytes, the most for JSON and UTF-16")));
        }
        Ok(all)
    }

    /// The next line, or `None` at the end.
    pub(super) fn next_line(&mut self) -> Result<Option<Line>, LogError> {
        self.buffer.clear();
        let mut cut = false;
        let mut any = false;
        let mut ended = false;
        while !ended {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(LogError::io(&e, self.number + 1)),
            };
            if chunk.is_empty() {
                break;
            }
            any = true;
            let end = chunk.iter().position(|b| *b == b'\n');
            let take = end.unwrap_or(chunk.len());
            let room = self.limits.line_bytes.saturating_sub(self.buffer.len());
            self.buffer.extend_from_slice(&chunk[..take.min(room)]);
            cut |= take > room;
            ended = end.is_some();
            let used = take + usize::from(ended);
            self.input.consume(used);
            self.seen += used as u64;
            if self.seen > self.limits.bytes {
                return Err(LogError::limit(self.number + 1, &format!("{} bytes", self.limits.bytes)));
            }
        }
        if !any {
            return Ok(None);
        }
        self.number += 1;
        let text = String::from_utf8_lossy(&self.buffer);
        let binary = matches!(text, Cow::Owned(_)) || self.buffer.contains(&0);
        let text = clean(&text);
        Ok(Some(Line { number: self.number, text, cut, binary }))
    }
}

/// Takes terminal escapes out, and turns non-breaking blanks and control characters (not `\r`) into blanks.
fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.trim_end_matches('\r').chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => {
                if chars.next_if_eq(&'[').is_some() {
                    for c in chars.by_ref() {
                        if ('@'..='~').contains(&c) {
                            break;
                        }
                    }
                }
            }
            '\r' => out.push(c),
            '\u{200b}' | '\u{feff}' => {}
            c if c.is_control() || c.is_whitespace() => out.push(' '),
            // A typographic minus from a word processor.
            '\u{2212}' | '\u{2013}' => out.push('-'),
            c => out.push(c),
        }
    }
    out
}

/// Whether the bytes are UTF-16 without a byte order mark, and which end is first: what is ASCII, as most of a log is, has a zero
/// beside every character.
fn utf16_without_mark(head: &[u8]) -> Option<bool> {
    let head = &head[..head.len().min(SNIFFED)];
    let pairs = head.len() / 2;
    let of_zeros = |at: usize| head.chunks_exact(2).filter(|pair| pair[at] == 0 && pair[1 - at] != 0).count();
    let mostly = |at: usize| pairs >= LEAST_PAIRS && of_zeros(at) * 10 >= pairs * 9;
    match (mostly(0), mostly(1)) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        _ => None,
    }
}

/// Bytes that are looked at, and characters that there must be, to take a text for UTF-16.
const SNIFFED: usize = 512;
const LEAST_PAIRS: usize = 8;

/// UTF-16, with or without a byte order mark, as text; what is malformed becomes a replacement character.
pub(super) fn decode_utf16(bytes: &[u8], big_endian: bool) -> String {
    let units = bytes.chunks_exact(2).map(|pair| {
        let pair = [pair[0], pair[1]];
        if big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    });
    // The mark itself is no text.
    let units = units.enumerate().filter(|(at, unit)| *at > 0 || *unit != 0xfeff).map(|(_, unit)| unit);
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}
