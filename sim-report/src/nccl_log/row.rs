//! One row: found by its type word, whatever stands before it, and read by the number of its columns.

use sim_core::units::Bytes;

use super::types::{Check, DataType, Layout, Row, Spread, Timing};

/// A word of a line and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'t> {
    pub(super) text: &'t str,
    /// Byte offset in the line.
    pub(super) at: usize,
}

/// The words of a line; `|` separates too, for rows that were made a Markdown table.
pub(super) fn words(line: &str) -> Vec<Word<'_>> {
    let separator = |c: char| c.is_whitespace() || c == '|';
    let mut out = Vec::new();
    let mut rest = line;
    let mut at = 0;
    loop {
        let trimmed = rest.trim_start_matches(separator);
        at += rest.len() - trimmed.len();
        if trimmed.is_empty() {
            return out;
        }
        let len = trimmed.find(separator).unwrap_or(trimmed.len());
        out.push(Word { text: &trimmed[..len], at });
        at += len;
        rest = &trimmed[len..];
    }
}

/// What a line is, seen as a row.
#[derive(Debug)]
pub(super) enum Parsed {
    /// No row at all.
    NotARow,
    /// A complete row.
    Complete(Row, Layout),
    /// The beginning of one; the row holds what could be read (its first half, or nothing).
    Damaged {
        row: Row,
        layout: Layout,
        /// Byte offset of the damage.
        at: usize,
        message: String,
    },
}

/// Reads a line as a row.
///
/// `expected` are the columns of the table's rows so far; `ended` is false for a last line without an end, whose last
/// word may be cut.
pub(super) fn parse(line: &str, number: usize, ended: bool, expected: Option<&Layout>) -> Parsed {
    let words = words(line);
    let Some((anchor, bytes, count, dtype)) = anchor(&words) else { return Parsed::NotARow };
    let mut layout = Layout::default();
    let mut rest = &words[anchor + 1..];
    let mut row = Row {
        bytes: Bytes::new(bytes),
        count,
        dtype,
        redop: None,
        root: None,
        out_of_place: None,
        in_place: None,
        line: number,
    };
    if let Some(word) = rest.first().filter(|w| is_redop(w.text)) {
        layout.redop = true;
        row.redop = (word.text != "none").then(|| word.text.to_owned());
        rest = &rest[1..];
    }
    let damaged = |row, layout, at, message| Parsed::Damaged { row, layout, at, message };
    if let [.., date, time] = rest
        && is_date(date.text)
        && is_clock(time.text)
    {
        layout.stamp = true;
        rest = &rest[..rest.len() - 2];
    }
    let expected = expected.filter(|e| e.redop == layout.redop);
    let matched = match expected {
        Some(e) if columns(e) == rest.len() => Some(*e),
        // A shorter row than its neighbours is damaged, never another layout.
        Some(e) if rest.len() < columns(e) => None,
        _ => by_number(rest.len()),
    };
    let Some(shape) = matched else {
        let shape = expected.copied().or_else(|| first_half_shape(rest));
        let end = words.last().map_or(0, |w| w.at + w.text.len());
        let (want, message) = match expected {
            Some(e) => (
                Some(columns(e)),
                format!("the row has {} columns after type and redop, its table has {}", rest.len(), columns(e)),
            ),
            None => {
                (None, format!("the row has {} columns after type and redop; known layouts have 8 to 19", rest.len()))
            }
        };
        let longer = want.is_some_and(|want| rest.len() > want);
        let mut at = end;
        if let Some(shape) = shape {
            layout = Layout { redop: layout.redop, stamp: layout.stamp, ..shape };
            let trusted = if ended || longer { rest } else { &rest[..rest.len().saturating_sub(1)] };
            if let Some(after) = root(&mut row, &layout, trusted)
                && after.len() >= half(&layout)
            {
                match timing(&after[..half(&layout)], &mut layout) {
                    Ok(timing) => row.out_of_place = timing,
                    Err(bad) => at = bad.at,
                }
            }
        }
        return damaged(row, layout, at, message);
    };
    layout = Layout { redop: layout.redop, stamp: layout.stamp, ..shape };
    let Some(halves) = root(&mut row, &layout, rest) else {
        let word = rest[0];
        return damaged(row, layout, word.at, format!("`{}` is no root rank (an integer, -1 for none)", word.text));
    };
    let (out, inside) = halves.split_at(half(&layout));
    for (words, place) in [(out, false), (inside, true)] {
        match timing(words, &mut layout) {
            Ok(timing) if place => row.in_place = timing,
            Ok(timing) => row.out_of_place = timing,
            Err(word) => {
                let message = format!("`{}` is no number of the kind that belongs there", word.text);
                return damaged(row, layout, word.at, message);
            }
        }
    }
    if row.out_of_place.is_none() && row.in_place.is_none() {
        let at = words[anchor].at;
        return damaged(row, layout, at, "the row has no time (N/A in both halves)".to_owned());
    }
    Parsed::Complete(row, layout)
}

/// The type word with a size and a count before it. The size may hang on a label (`[1,0]<stdout>:1024`, `0:8`).
fn anchor(words: &[Word<'_>]) -> Option<(usize, u64, u64, DataType)> {
    (2..words.len()).find_map(|i| {
        let dtype = DataType::from_name(words[i].text)?;
        let count = integer(words[i - 1].text)?;
        let size = words[i - 2].text;
        let size = size.rsplit([':', '>', ']', '#']).next().unwrap_or(size);
        Some((i, integer(size)?, count, dtype))
    })
}

/// An unsigned integer of digits only.
pub(super) fn integer(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

fn is_redop(word: &str) -> bool {
    matches!(word, "sum" | "prod" | "min" | "max" | "avg" | "mulsum" | "all" | "none")
}

fn is_date(word: &str) -> bool {
    word.len() == 10
        && word.bytes().enumerate().all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() })
}

fn is_clock(word: &str) -> bool {
    word.len() >= 8
        && word
            .bytes()
            .enumerate()
            .all(|(i, b)| if i == 2 || i == 5 { b == b':' } else { b.is_ascii_digit() || b == b'.' })
}

/// Columns of one half.
fn half(layout: &Layout) -> usize {
    4 + usize::from(layout.copybw) + 4 * usize::from(layout.spread)
}

fn columns(layout: &Layout) -> usize {
    usize::from(layout.root) + 2 * half(layout)
}

/// The layout that has this many columns after type, redop and without a time stamp.
fn by_number(n: usize) -> Option<Layout> {
    let (copybw, spread) = match n / 2 {
        4 => (false, false),
        5 => (true, false),
        8 => (false, true),
        9 => (true, true),
        _ => return None,
    };
    Some(Layout { root: n % 2 == 1, copybw, spread, ..Layout::default() })
}

/// For a row that is cut: the plainest layout, with a root if the first column can be one and a time follows.
fn first_half_shape(rest: &[Word<'_>]) -> Option<Layout> {
    let root = rest.first().is_some_and(|w| w.text == "-1") || (rest.len() > 5 && integer(rest[0].text).is_some());
    (rest.len() >= 4).then_some(Layout { root, ..Layout::default() })
}

/// Takes the root column off, if the layout has one.
fn root<'w, 't>(row: &mut Row, layout: &Layout, rest: &'w [Word<'t>]) -> Option<&'w [Word<'t>]> {
    if !layout.root {
        return Some(rest);
    }
    let (first, rest) = rest.split_first()?;
    let value: i64 = first.text.parse().ok()?;
    row.root = u32::try_from(value).ok();
    (value >= -1).then_some(rest)
}

/// Reads the columns of a half; `Ok(None)` if all say N/A, `Err` with the word that is no number.
fn timing<'t>(words: &[Word<'t>], layout: &mut Layout) -> Result<Option<Timing>, Word<'t>> {
    let Some(first) = words.first() else { return Ok(None) };
    if words.iter().all(|w| w.text == "N/A") {
        return Ok(None);
    }
    let number = |i: usize| {
        let word = words.get(i).copied().unwrap_or(*first);
        word.text.parse::<f64>().ok().filter(|x| x.is_finite() && *x >= 0.0).ok_or(word)
    };
    // Bandwidths of a time that was printed as zero are infinite.
    let bandwidth = |i: usize| match words.get(i).map(|w| w.text) {
        Some("inf" | "nan" | "-nan") => Ok(0.0),
        _ => number(i),
    };
    let last = words.len() - 1;
    let copybw_at = 3;
    let wrong_at = 3 + usize::from(layout.copybw);
    let wrong = match words.get(wrong_at).map(|w| w.text) {
        Some("N/A") => Check::NotChecked,
        Some(text) => match integer(text) {
            Some(n) => Check::Wrong(n),
            None => check_with_exponent(text, number(wrong_at)?, layout),
        },
        None => return Err(words[last]),
    };
    let spread = if layout.spread {
        let i = wrong_at + 1;
        Some(Spread {
            min_us: number(i)?,
            max_us: number(i + 1)?,
            p99_us: number(i + 2)?,
            cv_percent: percent(words, i + 3)?,
        })
    } else {
        None
    };
    Ok(Some(Timing {
        time_us: number(0)?,
        algbw: bandwidth(1)?,
        busbw: bandwidth(2)?,
        copybw: if layout.copybw { Some(bandwidth(copybw_at)?) } else { None },
        wrong,
        spread,
    }))
}

/// A last column with an exponent: an error of an old layout (`2e-07`, `1e+00`), or a count beyond a million (`1e+06`).
fn check_with_exponent(text: &str, value: f64, layout: &mut Layout) -> Check {
    let exponent = text.split_once(['e', 'E']).and_then(|(_, e)| e.parse::<i32>().ok());
    if layout.redop && layout.root && exponent.is_some_and(|e| (5..19).contains(&e)) {
        return Check::Wrong(value as u64);
    }
    layout.max_error = true;
    Check::MaxError(value)
}

fn percent<'t>(words: &[Word<'t>], i: usize) -> Result<f64, Word<'t>> {
    let word = words.get(i).copied().unwrap_or(words[0]);
    word.text.trim_end_matches('%').parse::<f64>().ok().filter(|x| x.is_finite()).ok_or(word)
}
