//! What the rows can tell: before a fit, which parameters; after it, how well.
//!
//! With J the derivatives of ln(time) by the parameters, each on the scale of its own value, and rows that scatter by
//! [`SCATTER`], the covariance of the parameters is `SCATTER² (JᵀJ)⁻¹`. A parameter whose standard error would be too large a part
//! of its own value is one that the rows can't tell: because they hardly depend on it, or because something else changes
//! them in the same way.

use nalgebra::{DMatrix, DVector};
use sim_collectives::spread::Z90;
use sim_collectives::timing::Key;
use sim_core::units::Span;

use super::bounds::needs;
use super::rows::Evidence;
use super::solve::{Solved, derivatives};
use super::{FitError, Fitted};

/// Scatter of rows about the best model: what repeated runs show, and what no model of a few values follows.
pub const SCATTER: f64 = 0.05;

/// The largest standard error of a parameter that was asked for by name, as a part of its own value.
pub const MOST: f64 = 1.0;

/// The same for one that nobody asked for: it is left as it was rather than known worse than before.
pub const MOST_UNASKED: f64 = 0.3;

/// Correlations from which on two parameters are said to be hard to tell apart.
pub const HARD: f64 = 0.9;

/// A parameter that the rows can't tell.
#[derive(Clone, Debug, PartialEq)]
pub struct Obscure {
    /// Which it is.
    pub key: Key,
    /// Most that a doubling of it changes any row, as a part of its time; about.
    pub effect: f64,
    /// The parameter whose changes look most like its own, if that is why, and how much alike (−1 to 1).
    pub like: Option<(Key, f64)>,
    /// Rows that would tell.
    pub needs: &'static str,
}

impl Obscure {
    /// The reason in words.
    #[must_use]
    pub fn reason(&self) -> String {
        match &self.like {
            _ if self.effect == 0.0 => "no row depends on it".to_owned(),
            Some((other, alike)) => format!("its effect looks like that of {other} ({alike:+.2})"),
            None => format!("doubling it changes no row by more than about {:.1} %", self.effect * 100.0),
        }
    }
}

/// How two fitted values depend on each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Correlation {
    /// One parameter.
    pub a: Key,
    /// The other.
    pub b: Key,
    /// −1 to 1.
    pub value: f64,
}

/// What is known of fitted values.
pub(super) struct Known {
    pub(super) parameters: Vec<Fitted>,
    pub(super) correlations: Vec<Correlation>,
    pub(super) scatter: f64,
}

fn logarithm(predicted: Span, measured: Span) -> f64 {
    (predicted.as_us() / measured.as_us()).ln()
}

/// `(JᵀJ)⁻¹`, with a ridge that is far below what counts as told, so that it is there in any case.
fn inverse(j: &DMatrix<f64>) -> DMatrix<f64> {
    let n = j.ncols();
    let normal = j.transpose() * j + DMatrix::identity(n, n) * (SCATTER * 1e-3).powi(2);
    let svd = normal.svd(true, true);
    svd.pseudo_inverse(1e-15).unwrap_or_else(|_| DMatrix::identity(n, n) * f64::MAX.sqrt())
}

/// Those of `keys` that `rows` can't tell at the values before, the worst first.
pub(super) fn obscure(
    evidence: &Evidence<'_>,
    keys: &[Key],
    rows: &[usize],
    most: impl Fn(Key) -> f64,
) -> Result<Vec<Obscure>, FitError> {
    if keys.is_empty() || rows.is_empty() {
        return Ok(Vec::new());
    }
    let mut start = evidence.start();
    for key in keys {
        let bounds = evidence.bounds(*key);
        let value = start[key].clamp(bounds.low, bounds.high);
        start.insert(*key, value);
    }
    let (_, j) = derivatives(evidence, keys, &start, rows, logarithm)?;
    let covariance = inverse(&j);
    let error = |i: usize| SCATTER * covariance[(i, i)].max(0.0).sqrt();
    let mut found: Vec<(f64, Obscure)> = Vec::new();
    for (i, key) in keys.iter().copied().enumerate().filter(|(i, key)| error(*i) > most(*key)) {
        let alone = SCATTER / j.column(i).norm();
        let alike = |k: usize| {
            let product = j.column(i).norm() * j.column(k).norm();
            if product > 0.0 { j.column(i).dot(&j.column(k)) / product } else { 0.0 }
        };
        let others = (0..keys.len()).filter(|k| *k != i);
        let nearest = others.max_by(|a, b| alike(*a).abs().total_cmp(&alike(*b).abs()));
        let like = nearest.filter(|_| alone <= most(key)).map(|k| (keys[k], alike(k)));
        let effect = j.column(i).amax();
        found.push((error(i), Obscure { key, effect, like, needs: needs(key) }));
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    Ok(found.into_iter().map(|f| f.1).collect())
}

/// The factor of a standard error for a 90 % interval: Student's t, by its expansion about the normal (Fisher and Cornish;
/// within 1 % from three degrees of freedom on).
#[must_use]
pub fn t90(freedom: usize) -> f64 {
    let v = freedom.max(1) as f64;
    let (z3, z5, z7) = (Z90.powi(3), Z90.powi(5), Z90.powi(7));
    let first = (z3 + Z90) / 4.0 / v;
    let second = (5.0 * z5 + 16.0 * z3 + 3.0 * Z90) / 96.0 / v.powi(2);
    let third = (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * Z90) / 384.0 / v.powi(3);
    Z90 + first + second + third
}

/// Standard errors and correlations at the best values.
pub(super) fn errors(
    evidence: &Evidence<'_>,
    keys: &[Key],
    solved: &Solved,
    rows: &[usize],
) -> Result<Known, FitError> {
    let values = &solved.values;
    let free: Vec<Key> = keys.iter().copied().filter(|key| !evidence.bounds(*key).ends_at(values[key])).collect();
    let (residuals, j) = derivatives(evidence, &free, values, rows, super::solve::residual)?;
    let freedom = rows.len().saturating_sub(keys.len()).max(1);
    let scatter = (residuals.norm_squared() / freedom as f64).sqrt();
    let covariance = if free.is_empty() { DMatrix::zeros(0, 0) } else { inverse(&j) };
    let deviation: DVector<f64> = covariance.diagonal().map(|v: f64| v.max(0.0).sqrt());
    let mut correlations = Vec::new();
    for a in 0..free.len() {
        for b in a + 1..free.len() {
            let value = covariance[(a, b)] / (deviation[a] * deviation[b]);
            correlations.push(Correlation { a: free[a], b: free[b], value: value.clamp(-1.0, 1.0) });
        }
    }
    let parameters = keys.iter().map(|key| {
        let ((before, origin), bounds, value) = (evidence.parameter(*key), evidence.bounds(*key), values[key]);
        let place = free.iter().position(|k| k == key);
        let error = place.map(|i| scatter * deviation[i] * bounds.scale(value));
        let half = error.map_or(0.0, |e| e * t90(freedom));
        let interval = ((value - half).max(bounds.low), (value + half).min(bounds.high));
        Fitted { key: *key, before, origin, value, error, interval, bounds }
    });
    Ok(Known { parameters: parameters.collect(), correlations, scatter })
}

#[cfg(test)]
mod tests {
    use super::t90;

    #[test]
    fn quantiles_of_students_t() {
        // Tables: 0.95 quantile.
        for (freedom, value) in [(3, 2.353), (5, 2.015), (10, 1.812), (30, 1.697), (1000, 1.646)] {
            assert!((t90(freedom) / value - 1.0).abs() < 0.01, "{freedom}: {}", t90(freedom));
        }
    }
}
