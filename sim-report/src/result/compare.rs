//! Results of a comparison with measurements.

use serde::{Deserialize, Serialize};

use super::ParameterResult;
use crate::compare::{Band, Change, Failed, Library, LogComparison, Placement, Row};

/// What `compare` answers. All errors are ratios (0.1 is 10 %), over all rows of all logs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompareResults {
    /// One entry a table of a log.
    pub logs: Vec<CompareLog>,
    /// Mean of |error|; absent if nothing could be compared, as are the other two.
    pub mape: Option<f64>,
    /// Median of |error|.
    pub median_abs_error: Option<f64>,
    /// 90th percentile of |error|.
    pub p90_abs_error: Option<f64>,
    /// How bands stand to a baseline, if one was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Logs that the baseline has and this run has not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Logs, and tables of logs, that could not be compared, or not in full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Failed>,
    /// Share of the rows whose measured time lies in the 90 % interval, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_interval: Option<f64>,
}

/// One table of a log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareLog {
    /// The file's name.
    pub log: String,
    /// The operation, where known.
    pub op: Option<String>,
    /// The number of ranks, where known.
    pub ranks: Option<u32>,
    /// One entry a size and placement.
    pub rows: Vec<CompareRow>,
    /// Small, mid and large messages by themselves.
    pub bands: Vec<Band>,
    /// What the residuals look like, in words.
    pub pattern: Vec<String>,
    /// The version of NCCL that was simulated, and how it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl: Option<Library>,
    /// The timing parameters that the predictions rest on, with their origins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<ParameterResult>,
    /// Damage found in the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A measured row beside its prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareRow {
    /// Size as printed.
    pub bytes: u64,
    /// Out of place or in place.
    pub placement: Placement,
    /// The log's time.
    pub measured_us: f64,
    /// The model's time.
    pub predicted_us: f64,
    /// Lower end of the model's range.
    pub low_us: f64,
    /// Upper end of the model's range.
    pub high_us: f64,
    /// predicted / measured − 1.
    pub error: f64,
    /// True if the row took more than 1.5 times its twin of the other placement.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub outlier: bool,
    /// Type and operator of the elements, where the log has several: `float sum`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
}

impl From<&Row> for CompareRow {
    fn from(row: &Row) -> Self {
        Self {
            bytes: row.bytes.get(),
            placement: row.placement,
            measured_us: row.measured_us,
            predicted_us: row.predicted_us,
            low_us: row.low_us,
            high_us: row.high_us,
            error: row.error(),
            outlier: row.outlier,
            kind: row.kind.clone(),
        }
    }
}

impl From<&[LogComparison]> for CompareResults {
    fn from(logs: &[LogComparison]) -> Self {
        let summary = crate::compare::Summary::of(logs.iter().flat_map(|log| &log.rows));
        Self {
            logs: logs
                .iter()
                .map(|log| CompareLog {
                    log: log.log.clone(),
                    op: log.operation.map(|op| op.name().to_owned()),
                    ranks: log.ranks,
                    rows: log.rows.iter().map(CompareRow::from).collect(),
                    bands: log.bands(),
                    pattern: log.pattern(),
                    nccl: log.library.clone(),
                    parameters: log.parameters.clone(),
                    warnings: log.warnings.clone(),
                })
                .collect(),
            mape: summary.map(|s| s.mape),
            median_abs_error: summary.map(|s| s.median_abs_error),
            p90_abs_error: summary.map(|s| s.p90_abs_error),
            changes: Vec::new(),
            missing: Vec::new(),
            failed: Vec::new(),
            in_interval: None,
        }
    }
}
