//! Where the rows of a sweep go: which file, which form, which share of the points.

use core::fmt;
use core::str::FromStr;
use std::path::{Path, PathBuf};

use super::super::fault::{Exit, Failure};
use super::super::output;
use super::refused;
use crate::diagnostic::{Code, Diagnostic, shorten};
use crate::sweep::Sweep;
use crate::sweep::parquet::Rows;
use crate::sweep::rows;

/// `i/n`: the i-th of n shares, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(i, n)| Some((i.trim().parse().ok()?, n.trim().parse().ok()?)));
        let Some((number, of)) = parts else { return Err("i/n is due, such as 1/8".to_owned()) };
        match (number, of) {
            (_, 0) => Err("there is no share of 0; i/n is due, such as 1/8".to_owned()),
            (0, n) => Err(format!("shares are counted from 1: 1/{n} to {n}/{n}")),
            (i, n) if i > n => Err(format!("there are {n} shares: 1/{n} to {n}/{n}")),
            _ => Ok(Self { number, of }),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl Shard {
    /// The share of so many points.
    pub(super) fn of(self, points: usize) -> Vec<usize> {
        (self.number - 1..points).step_by(self.of).collect()
    }
}

/// The file that was asked for, and the file to which rows are appended: another one if the form can't be appended to.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) out: PathBuf,
    pub(super) rows: PathBuf,
}

/// Whether a path is to be Parquet; a failure if it is neither that nor CSV.
pub(super) fn is_parquet(path: &Path) -> Result<bool, Failure> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => Ok(false),
        Some("parquet") => Ok(true),
        _ => {
            let message = format!("`{}` ends neither in .csv nor in .parquet", shorten(&path.display().to_string()));
            let fault = Diagnostic::new(Code::BadArgument, message).help("the ending says the form: --out sweep.csv");
            Err(Failure::of(Exit::Usage, fault))
        }
    }
}

impl Target {
    pub(super) fn new(out: &Path) -> Result<Self, Failure> {
        let rows =
            if is_parquet(out)? { PathBuf::from(format!("{}.partial.csv", out.display())) } else { out.to_owned() };
        Ok(Self { out: out.to_owned(), rows })
    }

    fn is_parquet(&self) -> bool {
        self.out != self.rows
    }

    /// All files that are written, with the flag.
    pub(super) fn outputs(&self) -> Vec<(&'static str, PathBuf)> {
        let waiting = PathBuf::from(format!("{}.waiting", self.rows.display()));
        let out = self.is_parquet().then(|| ("--out", self.out.clone()));
        out.into_iter().chain([("--out", self.rows.clone()), ("--out", waiting)]).collect()
    }

    /// Whether a Parquet file is there with all the rows; a failure if there is one of something else.
    pub(super) fn is_complete(&self, sweep: &Sweep, points: &[usize], resume: bool) -> Result<bool, Failure> {
        if !self.is_parquet() {
            return Ok(false);
        }
        let empty = self.out.metadata().is_ok_and(|found| found.is_file() && found.len() == 0);
        if !resume || empty || self.out.symlink_metadata().is_err() {
            // A file that is empty counts as missing, if it may be gone on with.
            output::writable(&self.out, resume).map_err(|failure| match failure.diagnostics.list.first() {
                Some(fault) if fault.code == Code::Exists => refused(*rows::exists(&self.out)),
                _ => failure,
            })?;
            return Ok(false);
        }
        let table = self.table()?;
        rows::all_fit(&self.out, &table, sweep, points).map_err(|fault| refused(*fault))?;
        Ok(true)
    }

    /// How many rows of the file say why a point could not be played.
    pub(super) fn failed(&self) -> Result<usize, Failure> {
        Ok(self.table()?.rows.iter().filter(|row| row.iter().rev().nth(1).is_some_and(|cell| !cell.is_empty())).count())
    }

    fn table(&self) -> Result<Rows, Failure> {
        let shown = shorten(&self.out.display().to_string());
        let refuse = |why: String| {
            let fault = Diagnostic::new(Code::OtherSweep, format!("`{shown}` is not of this sweep")).note(why);
            Failure::of(Exit::Usage, fault.help("give another name by `--out`; the file is left as it is"))
        };
        let bytes = std::fs::read(&self.out).map_err(|error| refuse(error.to_string()))?;
        Rows::from_parquet(bytes).map_err(|error| refuse(error.to_string()))
    }

    /// Makes the file that was asked for from the rows, which are all there.
    pub(super) fn complete(&self) -> Result<(), Failure> {
        if !self.is_parquet() {
            return Ok(());
        }
        let bytes = std::fs::read(&self.rows).map_err(Failure::internal)?;
        let parquet = Rows::from_csv(&bytes).to_parquet().map_err(Failure::internal)?;
        let empty = self.out.metadata().is_ok_and(|found| found.is_file() && found.len() == 0);
        output::write(&self.out, &parquet, empty)?;
        std::fs::remove_file(&self.rows).map_err(|error| {
            let message = format!("cannot remove `{}`: {error}", self.rows.display());
            Failure::of(Exit::Usage, Diagnostic::new(Code::Unwritable, message))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_a_partition() {
        for points in [0, 1, 7, 12] {
            for of in [1, 2, 5, 12, 13] {
                let mut all: Vec<usize> = (1..=of).flat_map(|number| Shard { number, of }.of(points)).collect();
                all.sort_unstable();
                assert_eq!(all, (0..points).collect::<Vec<_>>());
            }
        }
        for (text, part) in
            [("0/4", "from 1"), ("5/4", "4 shares"), ("1/0", "share of 0"), ("1", "i/n"), ("a/b", "i/n")]
        {
            assert!(text.parse::<Shard>().unwrap_err().contains(part), "{text}");
        }
        assert_eq!("2/4".parse::<Shard>().unwrap().to_string(), "2/4");
    }
}
