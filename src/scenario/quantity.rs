//! Quantities in a tree: texts with units, with the diagnostics that belong to them.

use sim_core::units::{Bytes, Rate, Span, UnitError, UnitErrorKind};

use super::tree::{Node, Value};
use crate::diagnostic::{Code, Diagnostic, Place, Sources, shorten};

/// A length of cable in metres.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metres(pub f64);

impl core::str::FromStr for Metres {
    type Err = UnitError;

    /// Parses `3 m`, `50 cm`, `2 km`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let body = text.trim();
        let lead = text.len() - text.trim_start().len();
        let split = body.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(body.len());
        let (number, unit) = body.split_at(split);
        let error = |kind, message: String, hint: Option<String>| {
            Err(UnitError { kind, offset: lead.min(text.len()), len: body.len().max(1), message, hint })
        };
        let Ok(value) = number.parse::<f64>() else {
            let message = format!("`{}` does not begin with a number above zero; expected a length", shorten(body));
            return error(UnitErrorKind::NotANumber, message, Some("write \"3 m\"".to_owned()));
        };
        let scale = match unit.trim() {
            "m" => 1.0,
            "cm" => 0.01,
            "km" => 1000.0,
            "" => {
                let message = format!("a bare number: {number} what? Expected a length such as `3 m`");
                return error(UnitErrorKind::MissingUnit, message, Some(format!("write \"{number} m\"")));
            }
            other => {
                let message = format!("unknown unit `{}`; expected a length such as `3 m`", shorten(other));
                return error(UnitErrorKind::UnknownUnit, message, Some("known here: m, cm, km".to_owned()));
            }
        };
        let metres = value * scale;
        if metres > 100_000.0 {
            return error(UnitErrorKind::Overflow, "longer than 100 km".to_owned(), None);
        }
        Ok(Self(metres))
    }
}

/// The code of a fault in a quantity.
pub(crate) fn code_of(kind: UnitErrorKind) -> Code {
    match kind {
        UnitErrorKind::Empty | UnitErrorKind::NotANumber | UnitErrorKind::NotPositive => Code::NotPositive,
        UnitErrorKind::MissingUnit => Code::MissingUnit,
        UnitErrorKind::UnknownUnit | UnitErrorKind::WrongKind => Code::BadUnit,
        UnitErrorKind::Overflow => Code::Overflow,
    }
}

/// The finding about a faulty quantity whose text is at `place`.
pub(crate) fn diagnose(key: &str, error: &UnitError, text: &str, place: &Place, sources: &Sources) -> Diagnostic {
    let code = code_of(error.kind);
    let title = match code {
        Code::MissingUnit => "unit missing".to_owned(),
        Code::BadUnit if error.kind == UnitErrorKind::UnknownUnit => format!("unknown unit in `{key}`"),
        Code::BadUnit => format!("`{key}` has a unit of another kind"),
        Code::Overflow => format!("`{key}` is too large"),
        _ => format!("`{key}` is not a number above zero"),
    };
    Diagnostic::new(code, title)
        .at(part(error, text, place, sources), error.message.clone())
        .maybe_help(error.hint.clone())
}

/// The most bytes of a size: 1 PiB. Steps, chunks and times of what is larger leave the widths in which they are counted.
pub const MOST_BYTES: Bytes = Bytes::new(1 << 50);

/// The finding about a size above [`MOST_BYTES`].
pub(crate) fn too_large(key: &str, place: Place) -> Diagnostic {
    Diagnostic::new(Code::Overflow, format!("`{key}` is too large")).at(place, "more than 1 PiB")
}

/// The place of the faulty part of a text; of all of it where the text is written with escapes.
fn part(error: &UnitError, text: &str, place: &Place, sources: &Sources) -> Place {
    let written = &sources.text(place.source)[sources.clip(place)];
    let Some(lead) = written.find(text).filter(|lead| *lead <= 3 && !text.is_empty()) else { return place.clone() };
    let start = place.span.start + lead + error.offset.min(text.len());
    Place {
        source: place.source,
        span: start..(start + error.len).min(place.span.start + lead + text.len()).max(start),
    }
}

/// A size.
pub(crate) fn size(node: &Node) -> Option<Bytes> {
    node.as_text()?.parse().ok()
}

/// A time.
pub(crate) fn time(node: &Node) -> Option<Span> {
    node.as_text()?.parse().ok()
}

/// A length.
pub(crate) fn length(node: &Node) -> Option<Metres> {
    node.as_text()?.parse().ok()
}

/// A rate of one direction; `{ both_directions = … }` is halved.
pub(crate) fn rate(node: &Node) -> Option<Rate> {
    match &node.value {
        Value::Text(text) => text.parse().ok(),
        Value::Table(table) => {
            let both: Rate = table.get("both_directions")?.as_text()?.parse().ok()?;
            Some(Rate::bytes_per_sec(both.get() / 2))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        assert_eq!("3 m".parse(), Ok(Metres(3.0)));
        assert_eq!("50cm".parse(), Ok(Metres(0.5)));
        let kind = |t: &str| t.parse::<Metres>().unwrap_err().kind;
        assert_eq!(kind("3"), UnitErrorKind::MissingUnit);
        assert_eq!(kind("3 ft"), UnitErrorKind::UnknownUnit);
        assert_eq!(kind("-3 m"), UnitErrorKind::NotANumber);
        assert_eq!(kind(""), UnitErrorKind::NotANumber);
        assert_eq!(kind("1e9 m"), UnitErrorKind::UnknownUnit);
        assert_eq!(kind("999999999 m"), UnitErrorKind::Overflow);
    }
}
