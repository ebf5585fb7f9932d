//! Fitting a few timing parameters to measured times.
//!
//! The residual of a row is ln(predicted / measured), so that 1 % counts alike at all sizes; beyond [`KNEE`] it grows with
//! the square root only, so that a few rows which something else has slowed down don't decide. The sum of squares is made
//! least by Levenberg–Marquardt (MINPACK's, in the crate of that name) within bounds, with differences over simulations:
//! each row is simulated anew only when a parameter changes that its prediction has asked for.
//!
//! What the rows can't tell is not fitted: see [`identify`].

mod bounds;
mod forms;
pub mod identify;
mod rows;
mod solve;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sim_collectives::Request;
use sim_collectives::timing::{Key, Origin};
use sim_core::outcome::StopReason;
use sim_core::units::Span;

use crate::scenario::Loaded;
use crate::simulate::RunError;
pub use bounds::{Bounds, STANDARD, needs};
pub use forms::forms;
pub use identify::{Correlation, Obscure};
use rows::Evidence;

/// The residual from which on a row counts less: 5 %.
pub const KNEE: f64 = 0.05;

/// A table of measurements on its cluster.
#[derive(Debug)]
pub struct Measured<'a> {
    /// What results call it.
    pub name: String,
    /// The cluster that it was measured on: tables of equal names are held out together.
    pub cluster: String,
    /// The cluster's model.
    pub loaded: &'a Loaded,
    /// The GPUs of the ranks, as numbers among all of the cluster.
    pub group: Vec<u32>,
    /// Calls before the timed ones, and timed ones.
    pub calls: (u32, u32),
    /// What was called, and the time of a call.
    pub rows: Vec<(Request, Span)>,
}

/// What to fit, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The parameters, all of which the rows have to tell, or groups of them (`nvls`), of which those are fitted that the rows
    /// can tell; empty for [`STANDARD`] in the same way.
    pub parameters: Vec<String>,
    /// Bounds in place of the usual ones.
    pub bounds: Vec<(String, Bounds)>,
    /// Set from elsewhere to stop.
    pub interrupt: Option<Arc<AtomicBool>>,
}

/// A fitted parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// Which it is.
    pub key: Key,
    /// The value before.
    pub before: f64,
    /// Where that came from.
    pub origin: Origin,
    /// The value that fits best.
    pub value: f64,
    /// Standard error; `None` at a bound.
    pub error: Option<f64>,
    /// 90 % confidence interval, within the bounds.
    pub interval: (f64, f64),
    /// Where it might have gone.
    pub bounds: Bounds,
}

impl Fitted {
    /// Whether the best value lies at a bound.
    #[must_use]
    pub fn at_bound(&self) -> bool {
        self.error.is_none()
    }
}

/// A row with its times before and after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Its table.
    pub table: usize,
    /// Its place there.
    pub place: usize,
    /// As measured.
    pub measured: Span,
    /// With the values before.
    pub before: Span,
    /// With the fitted ones.
    pub after: Span,
}

/// The outcome of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The parameters, in the timing model's order.
    pub parameters: Vec<Fitted>,
    /// What was not fitted, since the rows can't tell it.
    pub left_out: Vec<Obscure>,
    /// Correlations of the fitted values, each pair once, those at bounds left out.
    pub correlations: Vec<Correlation>,
    /// All rows.
    pub rows: Vec<Row>,
    /// Standard deviation of what is left of the residuals.
    pub scatter: f64,
    /// Per cluster its rows, with `after` by the parameters that the other clusters' rows give; empty with one cluster.
    pub held_out: Vec<(String, Vec<Row>)>,
    /// Parameters that predictions of the rows asked for and that were not fitted: with value and origin.
    pub kept: Vec<(Key, f64, Origin)>,
    /// Simulations that it took.
    pub simulations: usize,
}

/// Why nothing was fitted.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// There are no rows, or fewer than parameters.
    #[error("{rows} rows cannot tell {parameters} parameters")]
    Rows {
        /// Rows.
        rows: usize,
        /// Parameters.
        parameters: usize,
    },
    /// A name that no parameter and no group has.
    #[error("unknown timing parameter `{name}`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// Bounds of a parameter that is not fitted, or that are none.
    #[error("the bounds of `{name}` cannot be {} to {}", bounds.low, bounds.high)]
    Bounds {
        /// The parameter.
        name: String,
        /// As given.
        bounds: Bounds,
    },
    /// A parameter that was asked for and that the rows can't tell.
    #[error("the rows cannot tell {}", names(.0))]
    Obscure(Vec<Obscure>),
    /// A parameter that has another built-in value for one table than for another.
    #[error("`{key}` is {} in the model of `{}` and {} in that of `{}`", .tables.0.1, .tables.0.0, .tables.1.1, .tables.1.0)]
    Unlike {
        /// The parameter.
        key: Key,
        /// The two tables and their values.
        tables: Box<((String, f64), (String, f64))>,
    },
    /// A row can't be played.
    #[error("{table}: {error}")]
    Run {
        /// The table's name.
        table: String,
        /// The table's number.
        number: usize,
        /// Why.
        error: Box<RunError>,
    },
    /// A simulation stopped early.
    #[error("{table}: a simulation stopped early")]
    Stopped {
        /// The table's name.
        table: String,
        /// Why.
        reason: StopReason,
    },
}

fn names(list: &[Obscure]) -> String {
    let names: Vec<String> = list.iter().map(|o| format!("`{}`", o.key)).collect();
    names.join(", ")
}

/// Fits parameters to the rows of these tables.
///
/// # Errors
/// If names or bounds are wrong, the rows can't tell what is asked for, or can't be played.
pub fn fit(tables: &[Measured<'_>], options: &Options) -> Result<Outcome, FitError> {
    let mut evidence = Evidence::new(tables, options)?;
    let all: Vec<usize> = (0..evidence.rows.len()).collect();
    let before = evidence.times(&evidence.start(), &all)?;
    let keys = evidence.choose(options)?;
    let (keys, left_out) = tellable(&mut evidence, keys, &all, &options.parameters)?;
    let solved = solve::solve(&evidence, &keys, &all)?;
    let after = evidence.times(&solved.values, &all)?;
    let known = identify::errors(&evidence, &keys, &solved, &all)?;
    let row = |(i, (before, after)): (usize, (&Span, &Span))| evidence.row(i, *before, *after);
    let rows: Vec<Row> = before.iter().zip(&after).enumerate().map(row).collect();

    let mut clusters: Vec<&str> = tables.iter().map(|t| t.cluster.as_str()).collect();
    clusters.sort_unstable();
    clusters.dedup();
    let mut held_out = Vec::new();
    for cluster in clusters.iter().filter(|_| clusters.len() > 1) {
        let (own, others): (Vec<usize>, Vec<usize>) =
            all.iter().partition(|i| tables[evidence.rows[**i].table].cluster == *cluster);
        let keys = or_nothing(tellable(&mut evidence, keys.clone(), &others, &[]))?;
        let values = match solve::solve(&evidence, &keys, &others) {
            Ok(solved) => solved.values,
            // The others alone can't tell anything.
            Err(FitError::Rows { .. } | FitError::Obscure(_)) => evidence.start(),
            Err(error) => return Err(error),
        };
        let after = evidence.times(&values, &own)?;
        let rows = own.iter().zip(after).map(|(i, after)| evidence.row(*i, before[*i], after)).collect();
        held_out.push(((*cluster).to_owned(), rows));
    }
    let kept = evidence.asked_for().filter(|p| !keys.contains(&p.key)).map(|p| (p.key, p.value, p.origin));
    Ok(Outcome {
        kept: kept.collect(),
        parameters: known.parameters,
        left_out,
        correlations: known.correlations,
        rows,
        scatter: known.scatter,
        held_out,
        simulations: evidence.simulations(),
    })
}

/// What rows can tell, if anything; other failures stay failures.
fn or_nothing(told: Result<(Vec<Key>, Vec<Obscure>), FitError>) -> Result<Vec<Key>, FitError> {
    match told {
        Ok((keys, _)) => Ok(keys),
        Err(FitError::Rows { .. } | FitError::Obscure(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Those of `keys` that the rows can tell. All of `named` have to be.
fn tellable(
    evidence: &mut Evidence<'_>,
    mut keys: Vec<Key>,
    rows: &[usize],
    named: &[String],
) -> Result<(Vec<Key>, Vec<Obscure>), FitError> {
    let mut left_out = Vec::new();
    let by_name = |key: Key| named.iter().any(|n| n == key.name());
    loop {
        let most = |key: Key| if by_name(key) { identify::MOST } else { identify::MOST_UNASKED };
        let found = identify::obscure(evidence, &keys, rows, most)?;
        if found.is_empty() {
            break;
        }
        // One at a time: without it, others may be clear.
        let Some(worst) = found.iter().find(|o| !by_name(o.key)) else { return Err(FitError::Obscure(found)) };
        keys.retain(|key| *key != worst.key);
        left_out.push(worst.clone());
    }
    if rows.len() <= keys.len() {
        return Err(FitError::Rows { rows: rows.len(), parameters: keys.len() });
    }
    if keys.is_empty() {
        return Err(if left_out.is_empty() {
            FitError::Rows { rows: rows.len(), parameters: 0 }
        } else {
            FitError::Obscure(left_out)
        });
    }
    Ok((keys, left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_out_clusters_do_not_hide_what_went_wrong() {
        assert!(or_nothing(Err(FitError::Rows { rows: 1, parameters: 2 })).unwrap().is_empty());
        assert!(or_nothing(Err(FitError::Obscure(Vec::new()))).unwrap().is_empty());
        let stopped = FitError::Stopped { table: "x".to_owned(), reason: StopReason::EventLimit };
        assert!(matches!(or_nothing(Err(stopped)), Err(FitError::Stopped { .. })));
        let error = Box::new(RunError::NotModelled("x".to_owned()));
        let failed = FitError::Run { table: "x".to_owned(), number: 0, error };
        assert!(matches!(or_nothing(Err(failed)), Err(FitError::Run { .. })));
    }
}
