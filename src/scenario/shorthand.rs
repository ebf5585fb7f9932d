//! `--fault "TARGET KEY=VALUE …"`: a `[[fault]]` in words.

use super::keys::FAULTS;
use super::tree::{self, Entry, Node, Table, Value};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, SourceId, shorten};

/// Keys that only one kind of fault has, by which it is told where it isn't named.
const TELLING: &[(&str, &str)] = &[
    ("down_for", "flapping"),
    ("slowdown", "straggler"),
    ("delay", "straggler"),
    ("swap", "miscabled"),
    ("nics", "nic_map"),
];

/// The fault that the words mean, with every part at its own place; `None` if they can't be read.
pub(super) fn fault(source: SourceId, text: &str, out: &mut Diagnostics) -> Option<Node> {
    let place = |word: &str| {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        Place { source, span: start..start + word.len() }
    };
    let mut words = text.split_whitespace();
    let whole = Place { source, span: 0..text.len() };
    let Some(target) = words.next().filter(|word| !word.contains('=')) else {
        let fault = Diagnostic::new(Code::BadArgument, "`--fault` begins with what it befalls");
        out.push(
            fault.at(whole, "no target").help("--fault \"node0.nic2 factor=0.5\", --fault \"leaf0->spine1 dead\""),
        );
        return None;
    };
    let entry = |key: &str, key_place: Place, value: Value, at: Place| Entry {
        key: key.to_owned(),
        key_place,
        node: Node { value, place: at },
    };
    let mut entries = vec![entry("target", place(target), Value::Text(target.to_owned()), place(target))];
    let mut kind: Option<(String, Place)> = None;
    for word in words {
        // `dead`, `kind=dead` and `kind="dead"` say the same.
        let named = word.strip_prefix("kind=").unwrap_or(word).trim_matches('"');
        match word.split_once('=') {
            Some((key, value)) if !key.is_empty() && key != "kind" => {
                let at = place(value);
                let node = tree::parse_value(source, at.span.start, value)
                    .unwrap_or_else(|| Node { value: Value::Text(value.to_owned()), place: at });
                entries.push(Entry { key: key.to_owned(), key_place: place(key), node });
            }
            _ if FAULTS.iter().any(|(name, _)| *name == named) => kind = Some((named.to_owned(), place(named))),
            _ => {
                let kinds: Vec<&str> = FAULTS.iter().map(|(name, _)| *name).collect();
                let fault = Diagnostic::new(Code::BadArgument, format!("`{}` is no kind of fault", shorten(named)));
                out.push(fault.at(place(word), "a kind, or KEY=VALUE").help(format!("kinds: {}", kinds.join(", "))));
                return None;
            }
        }
    }
    let told = || TELLING.iter().find(|(key, _)| entries.iter().any(|e| e.key == *key)).map(|(_, kind)| *kind);
    let (kind, at) = kind.unwrap_or_else(|| (told().unwrap_or("degraded").to_owned(), whole.clone()));
    entries.insert(0, entry("kind", at.clone(), Value::Text(kind), at));
    Some(Node { value: Value::Table(Table { entries }), place: whole })
}
