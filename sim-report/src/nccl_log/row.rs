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
///
/// `ended` is false for a last line without an end, whose last word may be cut.
pub(super) fn parse(line: &str, number: usize, ended: bool, expected: Option<Expected>) -> Parsed {
    let words = words(line);
    let Some((anchor, bytes, count, dtype)) = (2..words.len()).find_map(|i| anchor_at(&words, i)) else {
        return Parsed::NotARow;
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
        return incomplete(row, layout, rest, (figures, end, ended), expected);
    };
    layout = Layout { redop: layout.redop, stamp: layout.stamp, ..shape };
    let damaged = |row, layout, at, message| Parsed::Damaged { row, layout, at, message };
    let Some(halves) = root(&mut row, &layout, &rest[..figures]) else {
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
    if expected.is_some_and(|e| columns(&e.layout) != figures) && !plausible(&row) {
        // Another layout than expected, by chance of the damage.
        let message = column_message(figures, expected);
        let row = Row { out_of_place: None, in_place: None, ..row };
        return damaged(row, layout, end, message);
    }
    Parsed::Complete(row, layout)
}

/// A row without the right number of figures: its first half is kept if that is whole and plausible.
fn incomplete(
    mut row: Row,
    seen: Layout,
    rest: &[Word<'_>],
    (figures, end, ended): (usize, usize, bool),
    expected: Option<Expected>,
) -> Parsed {
    let message = match rest.get(figures).filter(|_| expected.is_none_or(|e| figures < columns(&e.layout))) {
        Some(word) => format!("`{}` is no number of the kind that belongs there", super::error::shorten(word.text, 20)),
        None => column_message(figures, expected),
    };
    let at = rest.get(figures).map_or(end, |w| w.at);
    let Some(shape) = expected.map(|e| e.layout).or_else(|| first_half_shape(rest)) else {
        return Parsed::Damaged { row, layout: seen, at, message };
    };
    let mut layout = Layout { redop: seen.redop, stamp: seen.stamp, ..shape };
    // The last word of a cut line may be cut itself.
    let trusted = if ended || figures < rest.len() { figures } else { figures.saturating_sub(1) };
    if figures < columns(&layout)
        && let Some(after) = root(&mut row, &layout, &rest[..trusted])
        && let Some(first) = after.get(..half(&layout))
    {
        row.out_of_place = timing(first, &mut layout).ok().flatten();
        if !plausible(&row) {
            row.out_of_place = None;
        }
    }
    Parsed::Damaged { row, layout, at, message }
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

/// The type word at `i` with a size and a count before it. The size may hang on a label (`[1,0]<stdout>:1024`, `0:8`).
fn anchor_at(words: &[Word<'_>], i: usize) -> Option<(usize, u64, u64, DataType)> {
    let dtype = DataType::from_name(words[i].text)?;
    let count = integer(words[i - 1].text)?;
    let size = words[i - 2].text;
    let size = size.rsplit([':', '>', ']', '#']).next().unwrap_or(size);
    Some((i, integer(size)?, count, dtype))
}

/// A row in all but its type: two integers, a word that is no type and no figure, and then the figures of a row. Where that word
/// is, and what is wrong with it.
pub(super) fn stranger(line: &str) -> Option<(usize, String)> {
    let words = words(line);
    let (_, word) = words.iter().enumerate().skip(2).find(|(i, word)| {
        let size = words[i - 2].text.rsplit([':', '>', ']', '#']).next().unwrap_or_default();
        let figures = words[i + 1..].iter().filter(|w| !is_redop(w.text)).take_while(|w| is_figure(w.text)).count();
        integer(size).is_some()
            && integer(words[i - 1].text).is_some()
            && !is_figure(word.text)
            && figures >= LEAST_FIGURES
    })?;
    let names: Vec<&str> = DataType::ALL.iter().map(|t| t.name()).collect();
    let shown = super::error::shorten(word.text, 20);
    let damage = if word.text.contains('\u{fffd}') { " (it has bytes that are no UTF-8)" } else { "" };
    Some((word.at, format!("`{shown}`{damage} is no type of nccl-tests, which are {}", names.join(", "))))
}

/// Figures after the type that make a line a row with a damaged type, rather than something else.
const LEAST_FIGURES: usize = 7;

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
