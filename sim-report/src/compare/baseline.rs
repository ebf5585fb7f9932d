//! A stored state of the errors, against which later ones are held: has the model got worse on these logs?

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use super::{BandName, LogComparison};

/// The version of the form.
const SCHEMA: u32 = 1;

/// The errors of some logs by band, as they were once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Version of this form.
    pub schema: u32,
    /// The program that found them.
    pub tool_version: String,
    /// By log ([`key`]) and band (`small`, `mid`, `large`).
    pub logs: BTreeMap<String, BTreeMap<String, BaselineBand>>,
}

/// The figures of a band; ratios, 0.1 is 10 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineBand {
    /// Rows.
    pub count: usize,
    /// Median of the error.
    pub median_error: f64,
    /// Median of |error|.
    pub median_abs_error: f64,
}

/// How a band of a log stands to its baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The log.
    pub log: String,
    /// The band.
    pub band: String,
    /// As it was; absent if it was not in the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<BaselineBand>,
    /// As it is; absent if the log has no such rows now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<BaselineBand>,
    /// Worse by more than the tolerance, or without its like.
    pub worse: bool,
}

/// The name by which a baseline knows a log: its path without what makes no difference (`./`, doubled separators, `a/..`), with
/// `/` between the parts. It is a matter of the text alone: the same file by an absolute path is another log.
#[must_use]
pub fn key(log: &str) -> String {
    let path = Path::new(log);
    let mut root = "";
    let mut parts: Vec<String> = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::RootDir => root = "/",
            // Above the root is the root; above a prefix that climbs, one more step.
            Component::ParentDir => match parts.last().map(String::as_str) {
                None if root.is_empty() => parts.push("..".to_owned()),
                None => {}
                Some("..") => parts.push("..".to_owned()),
                Some(_) => drop(parts.pop()),
            },
            Component::Normal(_) | Component::Prefix(_) => {
                parts.push(component.as_os_str().to_string_lossy().into_owned());
            }
        }
    }
    format!("{root}{}", parts.join("/"))
}

impl Baseline {
    /// The state of these comparisons.
    pub fn of<'l>(logs: impl IntoIterator<Item = &'l LogComparison>, tool_version: impl Into<String>) -> Self {
        let rounded = |ratio: f64| (ratio * 1e6).round() / 1e6;
        let band = |b: super::Band| {
            let (median_error, median_abs_error) = (rounded(b.median_error), rounded(b.median_abs_error));
            (b.band.name().to_owned(), BaselineBand { count: b.count, median_error, median_abs_error })
        };
        let logs = logs.into_iter().map(|log| (key(&log.log), log.bands().into_iter().map(band).collect())).collect();
        Self { schema: SCHEMA, tool_version: tool_version.into(), logs }
    }

    /// Whether this program can read it.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.schema == SCHEMA
    }

    /// The logs that it has and `now` has not.
    #[must_use]
    pub fn missing(&self, now: &Self) -> Vec<String> {
        self.logs.keys().filter(|log| !now.logs.contains_key(*log)).cloned().collect()
    }

    /// Holds `now` against it. A band is worse if its median |error| has grown by more than `tolerance` (a ratio: 0.01 is a point
    /// of percent), if its number of rows has changed, and if the baseline doesn't have it. Logs that are not in `now` at all
    /// are told by [`missing`](Self::missing).
    #[must_use]
    pub fn compare(&self, now: &Self, tolerance: f64) -> Vec<Change> {
        let none = BTreeMap::new();
        let mut out = Vec::new();
        for (log, bands) in &now.logs {
            let before = self.logs.get(log).unwrap_or(&none);
            for band in [BandName::Small, BandName::Mid, BandName::Large].map(BandName::name) {
                let (before, now) = (before.get(band).copied(), bands.get(band).copied());
                let worse = match (before, now) {
                    (None, None) => continue,
                    (Some(b), Some(n)) => {
                        let most = b.median_abs_error + tolerance + 1e-6;
                        // What is not a number is worse.
                        b.count != n.count || n.median_abs_error.is_nan() || n.median_abs_error > most
                    }
                    _ => true,
                };
                out.push(Change { log: log.clone(), band: band.to_owned(), before, now, worse });
            }
        }
        out
    }
}

impl core::fmt::Display for Change {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let percent = |b: &BaselineBand| format!("{:.1} %", b.median_abs_error * 100.0);
        write!(f, "{}, {}: ", self.log, self.band)?;
        match (&self.before, &self.now) {
            (Some(b), Some(n)) if b.count != n.count => {
                write!(f, "{} rows in the baseline, {} now", b.count, n.count)
            }
            (Some(b), Some(n)) => write!(f, "median |error| was {}, is {}", percent(b), percent(n)),
            (None, Some(n)) => write!(f, "median |error| is {}, and the baseline has no such band", percent(n)),
            (Some(_), None) | (None, None) => write!(f, "no rows now"),
        }
    }
}
