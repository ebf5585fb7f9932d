//! Results of a fit.

use serde::{Deserialize, Serialize};

use crate::compare::Band;

/// What `fit` answers. Errors are ratios: 0.1 is 10 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FitResults {
    /// The fitted parameters.
    pub parameters: Vec<FitParameter>,
    /// Each pair of them once.
    pub correlations: Vec<FitCorrelation>,
    /// Parameters that the rows could not tell.
    pub left_out: Vec<FitLeftOut>,
    /// Other parameters that the predictions rest on, as they were.
    pub kept: Vec<ParameterResult>,
    /// Per table its errors before and after.
    pub logs: Vec<FitLog>,
    /// Per cluster the errors of its rows with the parameters that the other clusters' rows give; empty with one cluster.
    pub held_out: Vec<FitHeldOut>,
    /// Rows.
    pub rows: usize,
    /// Standard deviation of what is left of the residuals.
    pub scatter: f64,
    /// Simulations that it took.
    pub simulations: usize,
}

/// A timing parameter of a prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterResult {
    /// Its name, which ends with its unit.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// `spec`, `measured`, `fitted` or `assumed`.
    pub origin: String,
    /// The source in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
}

impl ParameterResult {
    /// The letter of its origin: S, M, F or A.
    #[must_use]
    pub fn letter(&self) -> char {
        self.origin.chars().next().map_or('A', |c| c.to_ascii_uppercase())
    }
}

/// A fitted parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitParameter {
    /// Its name, which ends with its unit.
    pub name: String,
    /// The value before.
    pub before: f64,
    /// Where that came from.
    pub before_origin: String,
    /// The value now, of origin `fitted`.
    pub value: f64,
    /// Its standard error; absent at a bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
    /// Lower end of the 90 % confidence interval.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// Lower bound.
    pub bound_low: f64,
    /// Upper bound.
    pub bound_high: f64,
    /// Whether the value is at a bound.
    pub at_bound: bool,
}

/// How two fitted values depend on each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitCorrelation {
    /// One parameter.
    pub a: String,
    /// The other.
    pub b: String,
    /// −1 to 1.
    pub correlation: f64,
    /// Above 0.9 either way: they are hard to tell apart.
    pub hard_to_tell: bool,
}

/// A parameter that the rows can't tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitLeftOut {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
    /// Rows that would tell.
    pub needs: String,
}

/// A table's errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitLog {
    /// The table's name.
    pub log: String,
    /// The cluster that it was measured on.
    pub cluster: String,
    /// The operation.
    pub op: String,
    /// Ranks.
    pub ranks: u32,
    /// Before the fit.
    pub before: Vec<Band>,
    /// After it.
    pub after: Vec<Band>,
}

/// A cluster held out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitHeldOut {
    /// Its name.
    pub cluster: String,
    /// Before the fit.
    pub before: Vec<Band>,
    /// By the parameters that the other clusters give.
    pub after: Vec<Band>,
}
