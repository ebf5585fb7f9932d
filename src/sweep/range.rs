//! `range = { from = "1 KiB", to = "1 GiB", factor = 4 }`: evenly spaced numbers and quantities.

use sim_core::units::{Bytes, Rate, Span};

use super::MOST_POINTS;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place};
use crate::scenario::tree::{Node, Value};
use crate::scenario::view::View;

/// What the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Integers,
    Numbers,
    Sizes,
    Rates,
    Times,
}

/// Units of a kind, the largest first, with their factors.
type Units = &'static [(&'static str, u64)];

const BINARY: Units = &[("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const DECIMAL: Units = &[("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1000), ("B", 1)];
const BYTES_PER_S: Units = &[("GB/s", 1_000_000_000), ("MB/s", 1_000_000), ("KB/s", 1000), ("B/s", 1)];
const BITS_PER_S: Units = &[("Gb/s", 1_000_000_000), ("Mb/s", 1_000_000), ("Kb/s", 1000), ("b/s", 1)];
const TIMES: Units = &[("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1000), ("ps", 1)];

/// The values of a range that stands at `place`, at most so many; a fault goes to `out`.
pub(super) fn values(view: &View<'_>, place: &Place, most: usize, out: &mut Diagnostics) -> Option<Vec<Node>> {
    let (from, to) = (view.node("from")?, view.node("to")?);
    let Some((of, first, last)) = ends(from, to) else {
        let fault = Diagnostic::new(Code::WrongType, "`from` and `to` are two numbers, or two quantities of one kind");
        let fault = fault.at(from.place.clone(), from.describe()).related(to.place.clone(), to.describe());
        out.push(fault.help("range = { from = \"1 MiB\", to = \"1 GiB\", factor = 4 }: a size, a rate or a time"));
        return None;
    };
    let given: Vec<&str> = ["step", "factor", "count"].into_iter().filter(|key| view.has(key)).collect();
    let spaced = match given[..] {
        ["step"] => {
            let node = view.node("step")?;
            let Some(step) = size_of(node, of).filter(|step| *step != 0.0) else {
                let fault = Diagnostic::new(Code::WrongType, "`step` is of the kind of `from`, and not zero");
                out.push(fault.at(node.place.clone(), node.describe()));
                return None;
            };
            let step = step.abs() * if last < first { -1.0 } else { 1.0 };
            series(first, last, |n| n.mul_add(step, first))
        }
        ["factor"] => {
            let factor = view.number("factor")?;
            let apart = if last < first { factor < 1.0 } else { factor > 1.0 };
            if first <= 0.0 || last <= 0.0 || factor <= 0.0 || !(apart || first == last) {
                let fault = Diagnostic::new(Code::OutOfRange, "`factor` does not lead from `from` to `to`");
                let node = view.node("factor")?;
                let label = if last < first { "below 1 to go down" } else { "above 1, from a value above zero" };
                out.push(fault.at(node.place.clone(), label));
                return None;
            }
            series(first, last, |n| first * factor.powf(n))
        }
        ["count"] => {
            let count = view.integer::<u32>("count")?;
            let log = view.boolean("log");
            if log && (first <= 0.0 || last <= 0.0) {
                let fault = Diagnostic::new(Code::NotPositive, "`log` takes values above zero");
                out.push(fault.at(place.clone(), "an end is zero or less"));
                return None;
            }
            let share = |n: u32| f64::from(n) / f64::from(count.max(2) - 1);
            let one = |n: u32| match n {
                0 => first,
                n if n + 1 == count => last,
                n if log => first * (last / first).powf(share(n)),
                n => (last - first).mul_add(share(n), first),
            };
            Some((0..count).map(one).collect())
        }
        _ => {
            let fault = Diagnostic::new(Code::MissingKey, "a range has one of `step`, `factor` and `count`");
            let label = if given.is_empty() { "none is given".to_owned() } else { given.join(" and ") + " are given" };
            out.push(fault.at(place.clone(), label).help("range = { from = 2, to = 16, factor = 2 }"));
            return None;
        }
    };
    let Some(spaced) = spaced else {
        let fault = Diagnostic::new(Code::TooLarge, format!("a range of more than {MOST_POINTS} values"));
        out.push(fault.at(place.clone(), "too many"));
        return None;
    };
    let units = units(of, from, to);
    let mut values: Vec<Value> = spaced.into_iter().map(|value| shown(value, of, units)).collect();
    // Whole numbers between close ends come more than once.
    values.dedup_by(|a, b| match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => a == b,
        _ => false,
    });
    if values.len() > most {
        let message = format!("{} values, and the axes before them leave room for {most}", values.len());
        let fault = Diagnostic::new(Code::TooLarge, message).at(place.clone(), "too many");
        out.push(fault.help(format!("a sweep has at most {MOST_POINTS} points; take several, or fewer values")));
        return None;
    }
    Some(values.into_iter().map(|value| Node { value, place: place.clone() }).collect())
}

/// The values from `first` to `last`; the latter only if it is met. `None` if they are too many.
fn series(first: f64, last: f64, at: impl Fn(f64) -> f64) -> Option<Vec<f64>> {
    let mut out = vec![first];
    let slack = (last - first).abs() * 1e-9;
    for n in 1..=MOST_POINTS {
        let next = at(n as f64);
        if (next - last).abs() <= slack.max(last.abs() * 1e-12) {
            if next != first {
                out.push(last);
            }
            return Some(out);
        }
        if !next.is_finite() || (next > last) == (last >= first) {
            return Some(out);
        }
        out.push(next);
    }
    None
}

fn ends(from: &Node, to: &Node) -> Option<(Of, f64, f64)> {
    let kinds = [Of::Integers, Of::Numbers, Of::Sizes, Of::Rates, Of::Times];
    kinds.into_iter().find_map(|of| Some((of, size_of(from, of)?, size_of(to, of)?)))
}

/// A value as a number: itself, bytes, bytes a second or picoseconds.
fn size_of(node: &Node, of: Of) -> Option<f64> {
    match (of, &node.value) {
        (Of::Integers | Of::Numbers, Value::Integer(Some(value))) => Some(*value as f64),
        (Of::Numbers, Value::Float(value)) => Some(*value).filter(|value| value.is_finite()),
        (Of::Sizes, Value::Text(text)) => text.parse::<Bytes>().ok().map(|bytes| bytes.get() as f64),
        (Of::Rates, Value::Text(text)) => text.parse::<Rate>().ok().map(|rate| rate.get() as f64),
        (Of::Times, Value::Text(text)) => text.parse::<Span>().ok().map(|span| span.as_ps() as f64),
        _ => None,
    }
}

/// The units in which values are written: those of the family of the ends.
fn units(of: Of, from: &Node, to: &Node) -> Units {
    let has = |part: &str| [from, to].iter().any(|node| node.as_text().is_some_and(|text| text.contains(part)));
    match of {
        Of::Sizes if ["KB", "kB", "MB", "GB", "TB"].into_iter().any(has) => DECIMAL,
        Of::Sizes => BINARY,
        Of::Rates if has("b/") || has("bit") || has("bps") => BITS_PER_S,
        Of::Rates => BYTES_PER_S,
        _ => TIMES,
    }
}

fn shown(value: f64, of: Of, units: Units) -> Value {
    match of {
        Of::Integers => Value::Integer(Some(value.round() as i64)),
        // 0.1 + 0.2 is 0.3.
        Of::Numbers => Value::Float(format!("{value:.12e}").parse().unwrap_or(value)),
        Of::Sizes | Of::Rates | Of::Times => {
            let bits = units.first().is_some_and(|(name, _)| name.ends_with("b/s"));
            let whole = (value * if bits { 8.0 } else { 1.0 }).round() as u64;
            let fits = |(_, factor): &&(&str, u64)| whole >= *factor && whole.is_multiple_of(*factor);
            let (name, factor) = units.iter().find(fits).copied().unwrap_or(("", 1));
            let name = if name.is_empty() { units.last().map_or("", |(name, _)| name) } else { name };
            Value::Text(format!("{} {name}", whole / factor))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::RANGE;
    use super::super::{cell, parsed};
    use super::*;

    fn of(text: &str) -> Result<String, Code> {
        let (table, mut out) = parsed(&format!("range = {{ {text} }}"));
        let node = table.get("range").unwrap();
        crate::scenario::validate::table(node.as_table().unwrap(), &RANGE, Some(&node.place), &mut out);
        if let Some(fault) = out.list.first() {
            return Err(fault.code);
        }
        match values(&View::new(node.as_table().unwrap(), &RANGE), &node.place, MOST_POINTS, &mut out) {
            Some(list) => Ok(list.iter().map(|n| cell::of_node(n).unwrap()).collect::<Vec<_>>().join(" | ")),
            None => Err(out.list[0].code),
        }
    }

    #[test]
    fn numbers_and_quantities_are_spaced_as_asked() {
        for (text, expected) in [
            ("from = 2, to = 16, factor = 2", "2 | 4 | 8 | 16"),
            ("from = 2, to = 17, factor = 2", "2 | 4 | 8 | 16"),
            ("from = 1, to = 10, step = 3", "1 | 4 | 7 | 10"),
            ("from = 10, to = 1, step = 4", "10 | 6 | 2"),
            ("from = 16, to = 2, factor = 0.5", "16 | 8 | 4 | 2"),
            ("from = 0.1, to = 0.5, step = 0.1", "0.1 | 0.2 | 0.3 | 0.4 | 0.5"),
            ("from = 1, to = 4, count = 2", "1 | 4"),
            ("from = 1, to = 4, count = 1", "1"),
            ("from = 1, to = 3, count = 9", "1 | 2 | 3"),
            ("from = 1, to = 100, count = 3, log = true", "1 | 10 | 100"),
            ("from = \"1 KiB\", to = \"1 MiB\", factor = 32", "1 KiB | 32 KiB | 1 MiB"),
            ("from = \"512 B\", to = \"2 KiB\", factor = 2", "512 B | 1 KiB | 2 KiB"),
            ("from = \"1 KB\", to = \"3 KB\", step = \"500 B\"", "1 KB | 1500 B | 2 KB | 2500 B | 3 KB"),
            (
                "from = \"100 Gb/s\", to = \"400 Gb/s\", step = \"100 Gb/s\"",
                "100 Gb/s | 200 Gb/s | 300 Gb/s | 400 Gb/s",
            ),
            ("from = \"25 GB/s\", to = \"50 GB/s\", count = 2", "25 GB/s | 50 GB/s"),
            ("from = \"500 ns\", to = \"2 us\", factor = 2", "500 ns | 1 us | 2 us"),
            ("from = 7, to = 7, step = 1", "7"),
            ("from = \"1 GiB\", to = \"1 GiB\", factor = 2", "1 GiB"),
        ] {
            assert_eq!(of(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, code) in [
            ("from = 1, to = \"2 B\", step = 1", Code::WrongType),
            ("from = \"1 B\", to = \"2 s\", count = 2", Code::WrongType),
            ("from = 1, to = 2", Code::MissingKey),
            ("from = 1, to = 2, step = 1, count = 2", Code::MissingKey),
            ("from = 1, to = 2, step = 0", Code::WrongType),
            ("from = 1, to = 2, step = \"1 B\"", Code::WrongType),
            ("from = 1, to = 8, factor = 0.5", Code::OutOfRange),
            ("from = 0, to = 8, factor = 2", Code::OutOfRange),
            ("from = 1, to = 1e9, step = 1", Code::TooLarge),
            ("from = 0, to = 8, count = 3, log = true", Code::NotPositive),
            ("from = 1, to = 8, count = 0", Code::OutOfRange),
            ("from = 1, to = 8, cuont = 3", Code::UnknownKey),
            ("to = 8, count = 3", Code::MissingKey),
        ] {
            assert_eq!(of(text), Err(code), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for of in [Of::Sizes, Of::Rates, Of::Times] {
            for units in [BINARY, DECIMAL, BYTES_PER_S, BITS_PER_S, TIMES] {
                for (name, _) in units {
                    let node = |text: String| Node {
                        value: Value::Text(text),
                        place: parsed("a = 1").0.entries[0].node.place.clone(),
                    };
                    let _ = size_of(&node(format!("3 {name}")), of);
                }
            }
        }
        let (table, _) = parsed("a = \"1 GB/s\"");
        let node = &table.entries[0].node;
        for value in [1.0, 999.0, 1e3, 1.5e6, 4e9, 12_345_678.0] {
            for (of, units) in [
                (Of::Sizes, BINARY),
                (Of::Sizes, DECIMAL),
                (Of::Rates, BYTES_PER_S),
                (Of::Rates, BITS_PER_S),
                (Of::Times, TIMES),
            ] {
                if of == Of::Rates && value < 1e3 {
                    continue;
                }
                let again = Node { value: shown(value, of, units), place: node.place.clone() };
                assert_eq!(size_of(&again, of), Some(value), "{:?}", again.value);
            }
        }
    }
}
