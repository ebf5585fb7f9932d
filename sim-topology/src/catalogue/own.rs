//! Rows of a user's own: laid upon the built-in ones, and told apart from them ever after.

use core::fmt;

use serde::Serialize;

use super::Catalogue;
use super::table::UnknownName;

/// A row as a user states it. Its figures have the keys, units and types of the embedded data.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnRow {
    /// The kind: `gpu`, `switch`, ...
    pub kind: String,
    /// The row's name: a new one, or the name or an alias of a row to change.
    pub name: String,
    /// The row that gives the figures which this one does not state.
    pub like: Option<String>,
    /// What it is, in a few words.
    pub title: Option<String>,
    /// A remark on the figures.
    pub note: Option<String>,
    /// The figures.
    pub figures: toml::Table,
}

/// What one row of a user's own came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Which of the rows given.
    #[serde(skip)]
    pub index: usize,
    /// The kind of row.
    pub kind: &'static str,
    /// Its name in the catalogue.
    pub name: String,
    /// Whether the row is new, rather than a built-in one that was changed.
    pub added: bool,
    /// The row that gave what was not stated, if that was another one.
    pub like: Option<String>,
    /// The figures that are other than they were in that row, or in the built-in row of the same name.
    pub figures: Vec<ChangedFigure>,
}

/// One figure that a user stated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedFigure {
    /// The key with its unit cut off.
    pub name: String,
    /// Its unit, as far as it has one.
    pub unit: Option<&'static str>,
    /// The value before; `None` if there was none.
    pub from: Option<String>,
    /// The value now.
    pub to: String,
}

/// Figures named in a sentence at most.
const SHOWN: usize = 3;

impl fmt::Display for ChangedFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The shape of a node is no matter for a line.
        let short = |text: &str| {
            if text.chars().count() <= 24 { text.to_owned() } else { "...".to_owned() }
        };
        write!(f, "{} ", self.name.strip_prefix("node.").unwrap_or(&self.name))?;
        if let Some(from) = &self.from {
            write!(f, "{} -> ", short(from))?;
        }
        write!(f, "{}", short(&self.to))?;
        self.unit.map_or(Ok(()), |unit| write!(f, " {unit}"))
    }
}

impl fmt::Display for Change {
    /// In one phrase: `switch qm9700 (latency 230 -> 300 ns)`, `gpu my-h100 (like h100-sxm; memory 3350 -> 3000 GB/s)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)?;
        let mut parts: Vec<String> = self.like.iter().map(|like| format!("like {like}")).collect();
        if self.added && self.like.is_none() {
            parts.push("new".to_owned());
        } else {
            let mut figures: Vec<String> = self.figures.iter().take(SHOWN).map(ToString::to_string).collect();
            if self.figures.len() > SHOWN {
                figures.push(format!("{} more", self.figures.len() - SHOWN));
            }
            if figures.is_empty() {
                figures.push("as it was".to_owned());
            }
            parts.push(figures.join(", "));
        }
        write!(f, " ({})", parts.join("; "))
    }
}

/// Why a row of a user's own cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {index}: {fault}")]
pub struct OwnRowError {
    /// Which of the rows given.
    pub index: usize,
    /// What is wrong with it.
    pub fault: OwnRowFault,
}

/// What is wrong with a row of a user's own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnRowFault {
    /// There is no such kind of row.
    #[error("{0}")]
    UnknownKind(UnknownName),
    /// There is no row of the name in `like`.
    #[error("{0}")]
    UnknownLike(UnknownName),
    /// Rows are like each other in a circle; their names, the first again at the end.
    #[error("`like` runs in a circle: {}", .0.join(" is like "))]
    Cycle(Vec<String>),
    /// Another row of those given means the same one: its index.
    #[error("row {0} is of the same name")]
    Twice(usize),
    /// A figure is missing or is of another type than its key takes.
    #[error("{0}")]
    Data(String),
}

impl Catalogue {
    /// This catalogue with a user's rows laid upon it, whatever their order.
    ///
    /// # Errors
    /// All rows that cannot be taken, each with the reason.
    pub fn with_rows(&self, rows: &[OwnRow]) -> Result<Self, Vec<OwnRowError>> {
        let mut errors = Vec::new();
        // By the names that the catalogue has for them, so that `h100` means `h100-sxm`.
        let rows: Vec<OwnRow> = rows
            .iter()
            .map(|row| {
                let folded = row.name.trim().to_lowercase();
                OwnRow { name: self.canonical(&row.kind, &folded).unwrap_or(folded), ..row.clone() }
            })
            .collect();
        let find = |kind: &str, name: &str| rows.iter().position(|row| row.kind == kind && row.name == name);
        for (index, row) in rows.iter().enumerate() {
            if let Some(first) = find(&row.kind, &row.name).filter(|first| *first < index) {
                errors.push(OwnRowError { index, fault: OwnRowFault::Twice(first) });
            }
        }
        // What a row is like: one of those given, or one that is there. A built-in row like itself is just itself.
        let base = |row: &OwnRow| -> Option<(String, Option<usize>)> {
            let like = row.like.as_ref()?.trim().to_lowercase();
            let like = self.canonical(&row.kind, &like).unwrap_or(like);
            let own = find(&row.kind, &like);
            (like != row.name || self.canonical(&row.kind, &like).is_none()).then_some((like, own))
        };
        let mut out = self.clone();
        let mut done = vec![false; rows.len()];
        let mut failed = vec![false; rows.len()];
        for index in 0..rows.len() {
            // The rows that must come first, the last of them first to be laid.
            let mut chain: Vec<usize> = Vec::new();
            let mut at = Some(index);
            while let Some(next) = at.filter(|next| !done[*next]) {
                if let Some(from) = chain.iter().position(|seen| *seen == next) {
                    let mut names: Vec<String> = chain[from..].iter().map(|i| rows[*i].name.clone()).collect();
                    names.push(rows[next].name.clone());
                    errors.push(OwnRowError { index: next, fault: OwnRowFault::Cycle(names) });
                    for i in chain.drain(..) {
                        (done[i], failed[i]) = (true, true);
                    }
                    break;
                }
                chain.push(next);
                at = base(&rows[next]).and_then(|(_, own)| own);
            }
            for next in chain.into_iter().rev() {
                done[next] = true;
                let (like, own) = base(&rows[next]).unzip();
                // What is like a row that could not be taken would only repeat its fault.
                if own.flatten().is_some_and(|own| failed[own]) {
                    failed[next] = true;
                    continue;
                }
                match out.put(&rows[next], like.as_deref()) {
                    Ok(change) => out.changes.push(Change { index: next, ..change }),
                    Err(fault) => {
                        failed[next] = true;
                        errors.push(OwnRowError { index: next, fault });
                    }
                }
            }
        }
        errors.sort_by_key(|e| e.index);
        if errors.is_empty() { Ok(out) } else { Err(errors) }
    }
}
