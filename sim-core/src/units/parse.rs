//! Parsing of quantities such as `400 Gb/s`, `450GBps`, `64 KiB` and `1.5 us`.
//!
//! `b` is bits and `B` is bytes, exactly; `/s` or a trailing `ps` makes a rate. `KB` is 1000 bytes, `KiB` 1024. The
//! blank between number and unit is optional. A bare number is an error: a quantity always names its unit.

use core::fmt;
use core::str::FromStr;

use super::{Bytes, Rate, Span};

/// What is wrong with the text of a quantity, and where.
///
/// `offset` and `len` are byte positions within the text that was parsed, so that a caller who knows where the text
/// stands in a file can point at it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnitError {
    /// The kind of fault.
    pub kind: UnitErrorKind,
    /// First byte of the offending part.
    pub offset: usize,
    /// Length of the offending part in bytes, at least 1.
    pub len: usize,
    /// One sentence: what was found and what was expected.
    pub message: String,
    /// How to mend it, if that can be said.
    pub hint: Option<String>,
}

/// The kinds of fault in a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitErrorKind {
    /// The text is empty.
    Empty,
    /// It does not begin with a number.
    NotANumber,
    /// The number is NaN, infinite or negative.
    NotPositive,
    /// A number without a unit.
    MissingUnit,
    /// The unit is unknown.
    UnknownUnit,
    /// The unit belongs to another kind of quantity (a size where a rate is due).
    WrongKind,
    /// The value does not fit.
    Overflow,
}

/// The kinds of quantity, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Size,
    Rate,
    Time,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size => "a size such as `64 KiB`",
            Self::Rate => "a rate such as `400 Gb/s` or `50 GB/s`",
            Self::Time => "a time such as `1.5 us`",
        })
    }
}

/// A unit: its kind, and its worth in bytes, bytes per second or picoseconds.
struct Unit {
    kind: Kind,
    worth: f64,
}

fn unit(text: &str) -> Option<Unit> {
    let time = |worth| Some(Unit { kind: Kind::Time, worth });
    match text {
        "ps" => return time(1.0),
        "ns" => return time(1e3),
        "us" | "µs" | "μs" => return time(1e6),
        "ms" => return time(1e9),
        "s" => return time(1e12),
        "min" => return time(60e12),
        "h" => return time(3600e12),
        "d" => return time(86_400e12),
        _ => {}
    }
    let (stem, kind) = match text.strip_suffix("/s").or_else(|| text.strip_suffix("ps")) {
        Some(stem) => (stem, Kind::Rate),
        None => (text, Kind::Size),
    };
    let stem = stem.strip_suffix("it").filter(|s| s.ends_with('b')).unwrap_or(stem);
    let (prefix, per_byte) = match stem.strip_suffix('B') {
        Some(prefix) => (prefix, 1.0),
        None => (stem.strip_suffix('b')?, 0.125),
    };
    let scale = match prefix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => return None,
    };
    Some(Unit { kind, worth: scale * per_byte })
}

/// Length of the leading number in `text`.
fn number_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut i = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    while i < bytes.len() && (bytes[i].is_ascii_digit() || bytes[i] == b'.' || bytes[i] == b'_') {
        i += 1;
    }
    if matches!(bytes.get(i), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(i + 1), Some(b'+' | b'-')));
        if bytes.get(i + 1 + sign).is_some_and(u8::is_ascii_digit) {
            i += 1 + sign;
            while bytes.get(i).is_some_and(u8::is_ascii_digit) {
                i += 1;
            }
        }
    }
    i
}

fn quantity(text: &str, expected: Kind) -> Result<f64, UnitError> {
    let error = |kind, offset: usize, len: usize, message: String, hint: Option<String>| {
        Err(UnitError { kind, offset, len: len.max(1), message, hint })
    };
    let lead = text.len() - text.trim_start().len();
    let body = text.trim();
    if body.is_empty() {
        return error(UnitErrorKind::Empty, 0, text.len(), format!("an empty value; expected {expected}"), None);
    }
    let digits = number_len(body);
    let Some(value) = body[..digits].replace('_', "").parse::<f64>().ok() else {
        return error(
            UnitErrorKind::NotANumber,
            lead,
            body.len(),
            format!("`{}` does not begin with a number; expected {expected}", shorten(body)),
            None,
        );
    };
    let tail = &body[digits..];
    let name = tail.trim_start();
    let name_at = lead + digits + (tail.len() - name.len());
    if !value.is_finite() || value < 0.0 || body.starts_with('-') {
        return error(
            UnitErrorKind::NotPositive,
            lead,
            digits,
            format!("`{}` is not a finite number of zero or more", shorten(&body[..digits])),
            None,
        );
    }
    if name.is_empty() {
        let n = &body[..digits];
        let hint = match expected {
            Kind::Rate => format!("write \"{n} Gb/s\" (bits) or \"{n} GB/s\" (bytes)"),
            Kind::Size => format!("write \"{n} B\", \"{n} KiB\" or \"{n} MiB\""),
            Kind::Time => format!("write \"{n} ns\", \"{n} us\" or \"{n} ms\""),
        };
        return error(
            UnitErrorKind::MissingUnit,
            lead,
            digits,
            format!("a bare number: {n} what? Expected {expected}"),
            Some(hint),
        );
    }
    let Some(unit) = unit(name) else {
        return error(
            UnitErrorKind::UnknownUnit,
            name_at,
            name.len(),
            format!("unknown unit `{}`; expected {expected}", shorten(name)),
            spelling_hint(name, expected),
        );
    };
    let bits_for_size = expected == Kind::Size && unit.kind == Kind::Size && name.contains('b');
    if unit.kind != expected || bits_for_size {
        let found = if bits_for_size { "bits".to_owned() } else { unit.kind.to_string() };
        let hint = match (unit.kind, expected) {
            (Kind::Size, Kind::Rate) => Some(format!("add \"/s\": \"{}/s\"", shorten(body))),
            (Kind::Rate, Kind::Size) => Some("a size has no \"/s\"".to_owned()),
            (Kind::Size, Kind::Size) => Some("sizes are in bytes: `B`, not `b`".to_owned()),
            _ => None,
        };
        let message = format!("`{}` is {found}; expected {expected}", shorten(body));
        return error(UnitErrorKind::WrongKind, name_at, name.len(), message, hint);
    }
    let scaled = value * unit.worth;
    if !scaled.is_finite() || scaled >= u64::MAX as f64 {
        return error(
            UnitErrorKind::Overflow,
            lead,
            body.len(),
            format!("`{}` is larger than can be counted", shorten(body)),
            Some(match expected {
                Kind::Time => "the longest time is 2^64 ps, about 213 days".to_owned(),
                _ => "the largest value is 2^64 bytes, about 18 million TB".to_owned(),
            }),
        );
    }
    Ok(scaled)
}

/// A hint for units that people often write otherwise.
fn spelling_hint(name: &str, expected: Kind) -> Option<String> {
    if name.starts_with("GT") {
        return Some("GT/s counts line symbols; give the data rate, e.g. \"63 GB/s\" for PCIe 5.0 x16".to_owned());
    }
    let candidates: &[&str] = match expected {
        Kind::Rate => &["Gb/s", "GB/s", "Gbps", "GBps", "Mb/s", "MB/s", "Tb/s", "TB/s"],
        Kind::Size => &["B", "KB", "KiB", "MB", "MiB", "GB", "GiB"],
        Kind::Time => &["ns", "us", "ms", "s", "min", "h", "d"],
    };
    let folded = name.to_lowercase();
    let alike: Vec<_> = candidates.iter().filter(|c| c.to_lowercase() == folded).copied().collect();
    let list = if alike.is_empty() { candidates.to_vec() } else { alike };
    Some(format!("known here: {} (`b` is bits, `B` is bytes)", list.join(", ")))
}

/// At most 40 characters of a text, for messages.
fn shorten(text: &str) -> String {
    if text.chars().count() <= 40 { text.to_owned() } else { text.chars().take(37).chain("...".chars()).collect() }
}

impl FromStr for Bytes {
    type Err = UnitError;

    /// Parses a size; a fraction of a byte is rounded to the nearest byte.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        quantity(text, Kind::Size).map(|v| Self::new(v.round() as u64))
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    /// Parses a rate of one direction; a rate below [`Rate::MIN`] (zero, too) is an error.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let rate = Self::bytes_per_sec(quantity(text, Kind::Rate)?.round() as u64);
        if rate < Self::MIN {
            return Err(UnitError {
                kind: UnitErrorKind::NotPositive,
                offset: 0,
                len: text.len().max(1),
                message: format!("`{}` is slower than the slowest link, 1 kB/s", shorten(text.trim())),
                hint: Some("to model a dead link leave it out".to_owned()),
            });
        }
        Ok(rate)
    }
}

impl FromStr for Span {
    type Err = UnitError;

    /// Parses a time; a fraction of a picosecond is rounded to the nearest one.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        quantity(text, Kind::Time).map(|v| Self::from_ps(v.round() as u64))
    }
}

/// Parses a size as nccl-tests does in `-b`, `-e`, `-f`: a bare number is bytes, `K`, `M`, `G`, `T` are binary.
/// Full units (`64 KiB`, `1 MB`) are accepted too.
///
/// # Errors
/// As [`Bytes::from_str`], except that a missing unit is bytes.
pub fn nccl_size(text: &str) -> Result<Bytes, UnitError> {
    let trimmed = text.trim();
    let (stem, suffix) = match trimmed.chars().last() {
        Some(c @ ('K' | 'k' | 'M' | 'm' | 'G' | 'g' | 'T' | 't')) => (&trimmed[..trimmed.len() - 1], c),
        _ => (trimmed, ' '),
    };
    let unit = match suffix.to_ascii_uppercase() {
        'K' => "KiB",
        'M' => "MiB",
        'G' => "GiB",
        'T' => "TiB",
        _ => "B",
    };
    if number_len(stem) == stem.len() { format!("{stem}{unit}").parse() } else { trimmed.parse() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn accepted() {
        for (text, gbyte) in [
            ("400 Gb/s", 50.0),
            ("400Gbps", 50.0),
            ("50 GB/s", 50.0),
            ("50GBps", 50.0),
            ("3.35 TB/s", 3350.0),
            ("100Gbit/s", 12.5),
            ("8e2 Mb/s", 0.1),
        ] {
            assert_eq!(text.parse::<Rate>().unwrap(), Rate::from_gbyte_f64(gbyte), "{text}");
        }
        assert_eq!("64 KiB".parse::<Bytes>().unwrap(), Bytes::kib(64));
        assert_eq!("64KB".parse::<Bytes>().unwrap(), Bytes::new(64_000));
        assert_eq!("1.5 us".parse::<Span>().unwrap(), Span::from_ns(1500));
        assert_eq!("1.5µs".parse::<Span>().unwrap(), Span::from_ns(1500));
        for (text, minutes) in [("90 min", 90), ("1.5 h", 90), ("100h", 6000), ("30 d", 43_200)] {
            assert_eq!(text.parse::<Span>().unwrap(), Span::from_us(minutes * 60_000_000), "{text}");
        }
        assert_eq!(nccl_size("8G").unwrap(), Bytes::gib(8));
        assert_eq!(nccl_size("8").unwrap(), Bytes::new(8));
        assert_eq!(nccl_size("64 KiB").unwrap(), Bytes::kib(64));
    }

    #[test]
    fn refused_with_position() {
        use UnitErrorKind::*;
        let kind = |e: UnitError| (e.kind, e.offset, e.len);
        assert_eq!(kind("400".parse::<Rate>().unwrap_err()), (MissingUnit, 0, 3));
        assert_eq!(kind("400 GB".parse::<Rate>().unwrap_err()), (WrongKind, 4, 2));
        assert_eq!(kind("400 Gb".parse::<Bytes>().unwrap_err()), (WrongKind, 4, 2));
        assert_eq!(kind("400 qps".parse::<Rate>().unwrap_err()), (UnknownUnit, 4, 3));
        assert_eq!(kind("NaN GB/s".parse::<Rate>().unwrap_err()), (NotANumber, 0, 8));
        assert_eq!(kind("-1 us".parse::<Span>().unwrap_err()), (NotPositive, 0, 2));
        assert_eq!(kind("1e30 GB".parse::<Bytes>().unwrap_err()), (Overflow, 0, 7));
        assert_eq!(kind("1e999 s".parse::<Span>().unwrap_err()), (NotPositive, 0, 5));
        assert_eq!(kind("0 GB/s".parse::<Rate>().unwrap_err()).0, NotPositive);
        assert_eq!(kind(" ".parse::<Bytes>().unwrap_err()).0, Empty);
    }

    proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,24}") {
            let _ = text.parse::<Rate>();
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Span>();
            let _ = nccl_size(&text);
        }

        #[test]
        fn points_inside_the_text(text in "[0-9.e+-]{0,6} ?[a-zA-Zµ/]{0,5}") {
            if let Err(e) = text.parse::<Rate>() {
                prop_assert!(e.offset + e.len <= text.len().max(1));
            }
        }
    }
}
