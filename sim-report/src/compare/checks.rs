//! What a comparison is held to, as a list of checks that pass or fail: what JUnit and Markdown show.

use serde::{Deserialize, Serialize};

use super::{Change, LogComparison, Summary, Thresholds, key};

/// A log, or a table of one, that could not be compared, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The log.
    pub log: String,
    /// The id of the finding, which `explain` knows.
    pub code: String,
    /// Why.
    pub message: String,
    /// What else there is to know: the place, what was expected, what to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

/// What comparisons are held to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gates {
    /// Limits over all rows.
    pub thresholds: Thresholds,
    /// How bands stand to a baseline.
    pub changes: Vec<Change>,
    /// Logs of the baseline that this run has not.
    pub missing: Vec<String>,
    /// Logs that could not be compared: none of them passes.
    pub failed: Vec<Failed>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// What it is about: a log, or `all logs`.
    pub subject: String,
    /// What is checked.
    pub name: String,
    /// What it found, in words.
    pub found: String,
    /// Why it failed; absent if it passed or could not be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Why it could not be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// All checks of these comparisons: one a band of each log, one a log that could not be compared or that the baseline misses,
/// and one a threshold.
#[must_use]
pub fn checks(logs: &[LogComparison], gates: &Gates) -> Vec<Check> {
    let mut out = Vec::new();
    for log in logs {
        for band in log.bands() {
            let name = band.band.name();
            let failed = gates.changes.iter().find(|c| c.worse && c.log == key(&log.log) && c.band == name);
            out.push(Check {
                subject: log.log.clone(),
                name: format!("{name} messages"),
                found: format!(
                    "{} rows, median error {:+.1} %, median |error| {:.1} %",
                    band.count,
                    band.median_error * 100.0,
                    band.median_abs_error * 100.0
                ),
                failure: failed.map(ToString::to_string),
                error: None,
            });
        }
    }
    // Bands that are gone have no row above.
    for change in gates.changes.iter().filter(|c| c.worse && c.now.is_none()) {
        out.push(Check {
            subject: change.log.clone(),
            name: format!("{} messages", change.band),
            found: "no rows".to_owned(),
            failure: Some(change.to_string()),
            error: None,
        });
    }
    for log in &gates.missing {
        out.push(Check {
            subject: log.clone(),
            name: "is in this run".to_owned(),
            found: "the baseline has it, this run has not".to_owned(),
            failure: Some(format!("{log}: the baseline has it, and this run has not")),
            error: None,
        });
    }
    for failed in &gates.failed {
        let details: String = failed.details.iter().map(|detail| format!("; {detail}")).collect();
        out.push(Check {
            subject: failed.log.clone(),
            name: "can be compared".to_owned(),
            found: format!("{}: {}{details}", failed.code, failed.message),
            failure: None,
            error: Some(failed.message.clone()),
        });
    }
    if let Some(summary) = Summary::of(logs.iter().flat_map(|log| &log.rows)) {
        let missed = gates.thresholds.check(&summary);
        let limits = [
            ("mape", summary.mape, gates.thresholds.max_mape),
            ("median_abs_error", summary.median_abs_error, gates.thresholds.max_median_abs_error),
            ("p90_abs_error", summary.p90_abs_error, gates.thresholds.max_p90_abs_error),
        ];
        for (name, value, limit) in limits {
            let Some(limit) = limit else { continue };
            out.push(Check {
                subject: "all logs".to_owned(),
                name: name.to_owned(),
                found: format!("{:.1} %, at most {:.1} %", value * 100.0, limit * 100.0),
                failure: missed.iter().find(|m| m.metric == name).map(ToString::to_string),
                error: None,
            });
        }
    }
    out
}
