//! Figures over errors, in bands of size, and thresholds on them.

use serde::{Deserialize, Serialize};
use sim_core::units::Bytes;

use super::Row;

/// Figures over the errors of some rows. All are ratios: 0.1 is 10 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Rows.
    pub count: usize,
    /// Median of the error.
    pub median_error: f64,
    /// Mean of |error|.
    pub mape: f64,
    /// Median of |error|.
    pub median_abs_error: f64,
    /// 90th percentile of |error|.
    pub p90_abs_error: f64,
}

impl Summary {
    /// The figures of these rows; `None` without a row.
    pub fn of<'r>(rows: impl IntoIterator<Item = &'r Row>) -> Option<Self> {
        let mut signed: Vec<f64> = rows.into_iter().map(Row::error).collect();
        signed.sort_by(f64::total_cmp);
        let mut sizes: Vec<f64> = signed.iter().map(|e| e.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        Some(Self {
            count: signed.len(),
            median_error: quantile(&signed, 0.5)?,
            mape: sizes.iter().sum::<f64>() / sizes.len() as f64,
            median_abs_error: quantile(&sizes, 0.5)?,
            p90_abs_error: quantile(&sizes, 0.9)?,
        })
    }
}

/// The `q`-quantile of sorted values, interpolated linearly between neighbours; `None` if there are none.
pub(super) fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (at - below as f64))
}

/// A range of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BandName {
    /// Up to 64 KiB: latency.
    Small,
    /// Up to 64 MiB: pipelines filling.
    Mid,
    /// Above: bandwidth.
    Large,
}

impl BandName {
    /// The band of a size.
    #[must_use]
    pub fn of(bytes: Bytes) -> Self {
        if bytes <= Bytes::kib(64) {
            Self::Small
        } else if bytes <= Bytes::mib(64) {
            Self::Mid
        } else {
            Self::Large
        }
    }

    /// `small`, `mid` or `large`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Mid => "mid",
            Self::Large => "large",
        }
    }
}

/// The figures of a band.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// Which.
    pub band: BandName,
    /// Its rows.
    pub count: usize,
    /// Median of the error.
    pub median_error: f64,
    /// Median of |error|.
    pub median_abs_error: f64,
    /// 90th percentile of |error|.
    pub p90_abs_error: f64,
}

pub(super) fn bands(rows: &[Row]) -> Vec<Band> {
    [BandName::Small, BandName::Mid, BandName::Large]
        .into_iter()
        .filter_map(|band| {
            let s = Summary::of(rows.iter().filter(|row| BandName::of(row.bytes) == band))?;
            Some(Band {
                band,
                count: s.count,
                median_error: s.median_error,
                median_abs_error: s.median_abs_error,
                p90_abs_error: s.p90_abs_error,
            })
        })
        .collect()
}

/// Limits that a comparison must keep; those that are `None` aren't checked. Ratios: 0.1 is 10 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    /// Most of the mean of |error|.
    pub max_mape: Option<f64>,
    /// Most of the median of |error|.
    pub max_median_abs_error: Option<f64>,
    /// Most of the 90th percentile of |error|.
    pub max_p90_abs_error: Option<f64>,
}

/// A threshold that was not kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{metric} is {} but at most {} is allowed", percent(*value), percent(*limit))]
pub struct Missed {
    /// `mape`, `median_abs_error` or `p90_abs_error`.
    pub metric: String,
    /// What it is.
    pub value: f64,
    /// What it may be.
    pub limit: f64,
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}

impl Thresholds {
    /// The thresholds that `summary` misses. A value that is not a number misses.
    #[must_use]
    pub fn check(&self, summary: &Summary) -> Vec<Missed> {
        [
            ("mape", summary.mape, self.max_mape),
            ("median_abs_error", summary.median_abs_error, self.max_median_abs_error),
            ("p90_abs_error", summary.p90_abs_error, self.max_p90_abs_error),
        ]
        .into_iter()
        .filter_map(|(metric, value, limit)| {
            let limit = limit?;
            (value.is_nan() || value > limit).then(|| Missed { metric: metric.to_owned(), value, limit })
        })
        .collect()
    }
}
