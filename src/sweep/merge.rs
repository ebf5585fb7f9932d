//! The shards of a sweep, put together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::parquet::Rows;
use super::rows::{records, whole};
use super::{POINT, SWEEP_ID};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, counted, shorten};

/// How many missing points are named.
const NAMED: usize = 8;

/// A file of rows, read.
#[derive(Clone, Debug)]
pub struct Part {
    path: PathBuf,
    table: Rows,
}

impl Part {
    /// Reads a file of rows: Parquet if it is called so, else CSV. A last line that was cut off is left out.
    ///
    /// # Errors
    /// If it can't be read, or has no rows of a sweep.
    pub fn read(path: &Path) -> Result<Self, Box<Diagnostic>> {
        let shown = shorten(&path.display().to_string());
        let bytes = std::fs::read(path).map_err(|error| {
            let why = match error.kind() {
                std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
                std::io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
                _ => error.to_string(),
            };
            Diagnostic::new(Code::Unreadable, format!("cannot read `{shown}`: {why}"))
        })?;
        let table = if path.extension().is_some_and(|ending| ending == "parquet") {
            Rows::from_parquet(bytes).map_err(|error| {
                let fault = Diagnostic::new(Code::Unreadable, format!("cannot read `{shown}` as Parquet: {error}"));
                fault.help("a sweep that was interrupted has its rows in a file that ends in `.partial.csv`: go on with it by `--resume`")
            })?
        } else {
            Rows::from_csv(&bytes)
        };
        let is_of_a_sweep = table.header.first().is_some_and(|name| name == POINT)
            && table.header.last().is_some_and(|name| name == SWEEP_ID);
        if !is_of_a_sweep {
            let fault = Diagnostic::new(Code::OtherSweep, format!("`{shown}` has no rows of a sweep"));
            let fault = fault.note(format!("the first column is `{POINT}`, the last `{SWEEP_ID}`"));
            return Err(Box::new(fault.help("give the files that `fabricsim sweep --shard i/n` wrote")));
        }
        Ok(Self { path: path.to_owned(), table })
    }
}

/// All rows of a sweep, in order.
///
/// # Errors
/// If the parts are of several sweeps, contradict each other, or leave points out.
pub fn merge(parts: Vec<Part>) -> Result<Rows, Diagnostics> {
    let mut out = Diagnostics::new();
    let mut header: Option<(Vec<String>, PathBuf)> = None;
    let mut id: Option<(String, PathBuf)> = None;
    let mut rows: BTreeMap<usize, (Vec<String>, PathBuf)> = BTreeMap::new();
    let named = |path: &Path| format!("`{}`", shorten(&path.display().to_string()));
    for Part { path, table } in parts {
        match &header {
            None => header = Some((table.header.clone(), path.clone())),
            Some((names, first)) if *names != table.header => {
                let message = format!("{} and {} have other columns", named(first), named(&path));
                out.push(Diagnostic::new(Code::OtherSweep, message).help("give shards of one sweep"));
                continue;
            }
            Some(_) => {}
        }
        for row in table.rows {
            let own = row.last().cloned().unwrap_or_default();
            let point = row.first().and_then(|cell| cell.parse::<usize>().ok());
            let (Some(point), true) = (point, row.len() == table.header.len()) else {
                let message = format!("{} has a row that is none", named(&path));
                out.push(Diagnostic::new(Code::OtherSweep, message).note(shorten(&row.join(","))));
                break;
            };
            match &id {
                None => id = Some((own, path.clone())),
                Some((known, first)) if *known != own => {
                    let message = format!("{} and {} are of two sweeps", named(first), named(&path));
                    let fault = Diagnostic::new(Code::OtherSweep, message);
                    let fault = fault.note(format!("{} and {}", shorten(known), shorten(&own)));
                    out.push(fault.help("grid, columns, scenario and version of fabricsim must be the same"));
                    break;
                }
                Some(_) => {}
            }
            if let Some((known, first)) = rows.get(&point) {
                if *known != row {
                    let message =
                        format!("point {point} is in {} and in {}, and not the same", named(first), named(&path));
                    out.push(Diagnostic::new(Code::OtherSweep, message));
                    break;
                }
                continue;
            }
            rows.insert(point, (row, path.clone()));
        }
    }
    if out.has_errors() {
        return Err(out);
    }
    let id = id.map(|(id, _)| id).unwrap_or_default();
    let all: usize = id.rsplit('/').next().and_then(|count| count.parse().ok()).unwrap_or(0);
    let missing: Vec<usize> = (0..all).filter(|point| !rows.contains_key(point)).collect();
    if all == 0 || !missing.is_empty() {
        let mut list: Vec<String> = missing.iter().take(NAMED).map(usize::to_string).collect();
        if missing.len() > NAMED {
            list.push("…".to_owned());
        }
        let message = match all {
            0 => "the files have no rows".to_owned(),
            _ => format!("{} of {all} missing: {}", counted(missing.len(), "point"), list.join(", ")),
        };
        let fault = Diagnostic::new(Code::MissingRows, message);
        out.push(fault.help("give all shards; one that was interrupted goes on by `--resume`"));
        return Err(out);
    }
    let header = header.map(|(header, _)| header).unwrap_or_default();
    Ok(Rows { header, rows: rows.into_values().map(|(row, _)| row).collect() })
}

impl Rows {
    /// The table as CSV.
    #[must_use]
    pub fn to_csv(&self) -> Vec<u8> {
        let rows = core::iter::once(&self.header).chain(&self.rows);
        rows.flat_map(|cells| super::rows::line(cells)).collect()
    }

    /// The table in a CSV file, without a last line that was cut off.
    #[must_use]
    pub fn from_csv(bytes: &[u8]) -> Self {
        let mut list = records(whole(bytes));
        Self { header: list.next().unwrap_or_default(), rows: list.collect() }
    }
}
