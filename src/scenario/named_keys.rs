//! Keys of a scenario under a name: reference clusters and presets of the transport, built in or the scenario's own.

use sim_topology::{Catalogue, UnknownName};

use super::cluster::advice;
use super::tree::{self, Node, Table};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, shorten};

/// A kind of such rows.
pub(super) struct Kind {
    /// Its word in messages, its table under `[catalogue]`, and what its texts are called.
    pub(super) word: &'static str,
    /// The code of an unknown name.
    pub(super) unknown: Code,
    /// The name and keys of a built-in row.
    pub(super) builtin: fn(&Catalogue, &str) -> Builtin,
}

/// What the catalogue has.
pub(super) type Builtin = Result<(String, toml::Table), UnknownName>;

/// The keys of the row called `name`: of a row of the scenario's own, else of a built-in one. `node` is where it is named;
/// `chain` has the names of the rows that are like it.
pub(super) fn keys(
    kind: &Kind,
    table: &Table,
    (name, node): (&str, &Node),
    chain: &mut Vec<String>,
    diagnostics: &mut Diagnostics,
) -> Option<Table> {
    let folded = name.trim().to_lowercase();
    let own = table.get("catalogue").and_then(|c| c.as_table()?.get(kind.word)?.as_table());
    let row = own.and_then(|rows| rows.entries.iter().find(|row| row.key.trim().to_lowercase() == folded));
    // A row of a built-in name that is like it means the built-in one.
    let row = row.filter(|_| chain.last() != Some(&folded));
    if let Some(row) = row.and_then(|row| row.node.as_table()) {
        if chain.contains(&folded) {
            let message = format!("{} `{}` is like itself", kind.word, shorten(name));
            let fault = Diagnostic::new(Code::Cycle, message);
            diagnostics.push(fault.at(node.place.clone(), "closes the circle"));
            return None;
        }
        chain.push(folded);
        let mut own = row.clone();
        for key in ["title", "note"] {
            own.remove(key);
        }
        let Some(like) = own.remove("like") else { return Some(own) };
        // Another type than text is for validation to refuse.
        let Some(other) = like.node.as_text() else { return Some(own) };
        let mut below = keys(kind, table, (other, &like.node), chain, diagnostics)?;
        below.lay(own);
        return Some(below);
    }
    match (kind.builtin)(Catalogue::builtin(), name) {
        Ok((name, keys)) => {
            let text = keys.to_string();
            let source = diagnostics.sources.add(format!("{} {name}", kind.word), text.clone());
            Some(tree::parse(source, &text, diagnostics))
        }
        Err(error) => {
            let fault = Diagnostic::new(kind.unknown, format!("unknown {} `{}`", kind.word, shorten(name)));
            let fault = fault.at(node.place.clone(), "not in the catalogue").help(advice(&error));
            diagnostics.push(fault.help(format!("`fabricsim catalog` lists them under `{}`", kind.word)));
            None
        }
    }
}
