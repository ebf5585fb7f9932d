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
    Complete(Box<Row>, Layout),
    /// The beginning of one. It counts for nothing, whatever of it can be read: the rest may be what is wrong.
    Damaged {
        /// Byte offset of the damage.
        at: usize,
        message: String,
    },
}

/// What is known about the columns of the rows to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) layout: Layout,
    /// Rows have confirmed it; else only a header or one row says so.
    pub(super) sure: bool,
}

/// Where the rows of a line begin: the byte offsets of their size words. More than one if line ends were lost.
pub(super) fn starts(line: &str) -> Vec<usize> {
    let words = words(line);
    (2..words.len()).filter_map(|i| anchor_at(&words, i).map(|_| words[i - 2].at)).collect()
}

/// Reads a line as a row.
pub(super) fn parse(line: &str, number: usize, expected: Option<Expected>) -> Parsed {
    let words = words(line);
    let Some((anchor, bytes, count, dtype)) = (2..words.len()).find_map(|i| anchor_at(&words, i)) else {
        return Parsed::NotARow;
    };
    let damaged = |at, message| Parsed::Damaged { at, message };
    let (Some(bytes), Some(count)) = (bytes, count) else {
        let word = words[if bytes.is_none() { anchor - 2 } else { anchor - 1 }];
        return damaged(word.at, format!("{} does not fit 64 bits", quoted(word)));
    };
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
        damaged: false,
    };
    let mut layout = Layout::default();
    if let Some(word) = rest.first().filter(|w| is_redop(w.text)) {
        layout.redop = true;
        row.redop = (word.text != "none").then(|| word.text.to_owned());
        rest = &rest[1..];
    }
    // What follows the figures: nothing, a time stamp, or what another process wrote on the same line.
    let figures = rest.iter().take_while(|w| is_figure(w.text)).count();
    if let [date, time, ..] = &rest[figures..] {
        layout.stamp = is_date(date.text) && is_clock(time.text);
    }
    let expected = expected.filter(|e| e.layout.redop == layout.redop);
    let shape = match expected {
        Some(e) if columns(&e.layout) == figures => Some(e.layout),
        Some(e) if e.sure => None,
        _ => by_number(figures),
    };
    let end = words.last().map_or(0, |w| w.at + w.text.len());
    let Some(shape) = shape else {
        return incomplete(rest, figures, end, expected);
    };
    layout = Layout { redop: layout.redop, stamp: layout.stamp, ..shape };
    let Some(halves) = root(&mut row, &layout, &rest[..figures]) else {
        let word = rest[0];
        return damaged(word.at, format!("{} is no root rank (an integer, -1 for none)", quoted(word)));
    };
    let (out, inside) = halves.split_at(half(&layout));
    for (words, place) in [(out, false), (inside, true)] {
        match timing(words, &mut layout) {
            Ok(timing) if place => row.in_place = timing,
            Ok(timing) => row.out_of_place = timing,
            Err(word) => return damaged(word.at, no_figure(word)),
        }
    }
    if row.out_of_place.is_none() && row.in_place.is_none() {
        let at = words[anchor].at;
        return damaged(at, "the row has no time (N/A in both halves)".to_owned());
    }
    if expected.is_some_and(|e| columns(&e.layout) != figures) && !plausible(&row) {
        // Another layout than expected, by chance of the damage.
        return damaged(end, column_message(figures, expected));
    }
    Parsed::Complete(Box::new(row), layout)
}

/// A row without the right number of figures.
fn incomplete(rest: &[Word<'_>], figures: usize, end: usize, expected: Option<Expected>) -> Parsed {
    let message = match rest.get(figures).filter(|_| expected.is_none_or(|e| figures < columns(&e.layout))) {
        Some(word) => no_figure(*word),
        None => column_message(figures, expected),
    };
    Parsed::Damaged { at: rest.get(figures).map_or(end, |w| w.at), message }
}

fn no_figure(word: Word<'_>) -> String {
    format!("{} is no number of the kind that belongs there", quoted(word))
}

/// A word of a log in a message: short, whatever its length.
fn quoted(word: Word<'_>) -> String {
    format!("`{}`", super::error::shorten(word.text, 20))
}

fn column_message(figures: usize, expected: Option<Expected>) -> String {
    match expected {
        Some(e) => format!("{figures} figures after type and redop, where the table has {}", columns(&e.layout)),
        None => format!("{figures} figures after type and redop, where known layouts have 8 to 19"),
    }
}

/// True unless size over time contradicts algbw by more than any convention does (a factor of two for the scaled
/// one, a thousand for milliseconds).
fn plausible(row: &Row) -> bool {
    [row.out_of_place, row.in_place].into_iter().flatten().all(|t| {
        if row.bytes.get() > 0 && t.time_us <= 0.0 {
            return false;
        }
        let algbw = row.bytes.get() as f64 / t.time_us / 1e3;
        let ratio = algbw / t.algbw;
        (algbw < 0.1 && t.algbw < 0.2) || (0.4..=2.6).contains(&ratio) || (900.0..=1100.0).contains(&ratio)
    })
}

/// A figure of a half: a number, N/A, a percentage.
fn is_figure(word: &str) -> bool {
    matches!(word, "N/A" | "-nan") || word.trim_end_matches('%').parse::<f64>().is_ok()
}

/// The type word at `i` with a size and a count before it, `None` where they are digits of too large a number. The size may
/// hang on a label (`[1,0]<stdout>:1024`, `0:8`).
fn anchor_at(words: &[Word<'_>], i: usize) -> Option<(usize, Option<u64>, Option<u64>, DataType)> {
    let dtype = DataType::from_name(words[i].text)?;
    let (size, count) = (unlabelled(words[i - 2].text), words[i - 1].text);
    (digits(size) && digits(count)).then(|| (i, integer(size), integer(count), dtype))
}

/// A size without the label that it may hang on.
fn unlabelled(word: &str) -> &str {
    word.rsplit([':', '>', ']', '#']).next().unwrap_or(word)
}

/// Whether a line is the beginning of a row that was cut before its figures: one or two integers, and perhaps the first letters of
/// a type.
pub(super) fn is_stump(line: &str) -> bool {
    let words = words(line);
    let type_begins = |text: &str| {
        let names = DataType::ALL.map(DataType::name);
        names.iter().any(|name| name.starts_with(text))
    };
    match words.as_slice() {
        [size] => digits(unlabelled(size.text)),
        [size, count] => digits(unlabelled(size.text)) && digits(count.text),
        [size, count, of] => digits(unlabelled(size.text)) && digits(count.text) && type_begins(of.text),
        _ => false,
    }
}

/// A row in all but its type: two integers, a word that is no type and no figure, and then the figures of a row. Where that word
/// is, and what is wrong with it.
pub(super) fn stranger(line: &str) -> Option<(usize, String)> {
    let words = words(line);
    let (_, word) = words.iter().enumerate().skip(2).find(|(i, word)| {
        let size = unlabelled(words[i - 2].text);
        let figures = words[i + 1..].iter().filter(|w| !is_redop(w.text)).take_while(|w| is_figure(w.text)).count();
        digits(size) && digits(words[i - 1].text) && !is_figure(word.text) && figures >= LEAST_FIGURES
    })?;
    let names: Vec<&str> = DataType::ALL.iter().map(|t| t.name()).collect();
    let shown = super::error::shorten(word.text, 20);
    let damage = if word.text.contains('\u{fffd}') { " (it has bytes that are no UTF-8)" } else { "" };
    Some((word.at, format!("`{shown}`{damage} is no type of nccl-tests, which are {}", names.join(", "))))
}

/// No time (us), no rate (GB/s) and no count of a log is larger: that is eleven days.
const MOST: f64 = 1e12;

/// Figures after the type that make a line a row with a damaged type, rather than something else.
const LEAST_FIGURES: usize = 7;

/// An unsigned integer of digits only.
pub(super) fn integer(text: &str) -> Option<u64> {
    digits(text).then(|| text.parse().ok()).flatten()
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
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
        word.text.parse::<f64>().ok().filter(|x| (0.0..=MOST).contains(x)).ok_or(word)
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
