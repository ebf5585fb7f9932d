//! The least sum of squares within bounds.

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::{DMatrix, DVector, Dyn, Owned};
use sim_collectives::timing::Key;
use sim_core::units::Span;

use super::bounds::Bounds;
use super::rows::{Evidence, Values};
use super::{FitError, KNEE};

/// Relative change of a parameter over which differences are taken.
const STEP: f64 = 0.01;

/// The best values, all others as they were.
pub(super) struct Solved {
    pub(super) values: Values,
}

/// The residual of a row: the logarithm of its ratio, which beyond [`KNEE`] counts by its root.
pub(super) fn residual(predicted: Span, measured: Span) -> f64 {
    let plain = (predicted.as_us() / measured.as_us()).ln() / KNEE;
    plain.signum() * KNEE * (2.0 * ((1.0 + plain * plain).sqrt() - 1.0)).sqrt()
}

/// Residuals of `rows`, and their derivatives by the parameters on the scale of [`Bounds::scale`].
pub(super) fn derivatives(
    evidence: &Evidence<'_>,
    keys: &[Key],
    values: &Values,
    rows: &[usize],
    of: impl Fn(Span, Span) -> f64,
) -> Result<(DVector<f64>, DMatrix<f64>), FitError> {
    let at = |values: &Values, rows: &[usize]| -> Result<Vec<f64>, FitError> {
        let times = evidence.times(values, rows)?;
        Ok(times.iter().zip(rows).map(|(time, row)| of(*time, evidence.rows[*row].measured)).collect())
    };
    let here = at(values, rows)?;
    let mut matrix = DMatrix::zeros(rows.len(), keys.len());
    for (column, key) in keys.iter().copied().enumerate() {
        let (bounds, value) = (evidence.bounds(key), values[&key]);
        let scale = bounds.scale(value);
        // Towards the inside.
        let step = if value + STEP * scale <= bounds.high { STEP } else { -STEP };
        let mut moved = values.clone();
        moved.insert(key, value + step * scale);
        let concerned: Vec<usize> = (0..rows.len()).filter(|i| evidence.asks(rows[*i], key)).collect();
        let there = at(&moved, &concerned.iter().map(|i| rows[*i]).collect::<Vec<_>>())?;
        for (i, there) in concerned.iter().zip(there) {
            matrix[(*i, column)] = (there - here[*i]) / step;
        }
    }
    Ok((DVector::from_vec(here), matrix))
}

/// The parameters as angles, by which any number is within the bounds: `low + (high − low)(1 + sin u)/2`.
fn value_of(bounds: Bounds, angle: f64) -> f64 {
    (bounds.low + (bounds.high - bounds.low) * f64::midpoint(1.0, angle.sin())).clamp(bounds.low, bounds.high)
}

/// The angle of a value, at least 2 % of the range from the ends, where nothing would move it.
fn angle_of(bounds: Bounds, value: f64) -> f64 {
    let part = ((value - bounds.low) / (bounds.high - bounds.low)).clamp(0.02, 0.98);
    (2.0 * part - 1.0).asin()
}

struct Problem<'a, 'w> {
    evidence: &'a Evidence<'w>,
    keys: &'a [Key],
    rows: &'a [usize],
    angles: DVector<f64>,
    fault: core::cell::RefCell<Option<FitError>>,
}

impl Problem<'_, '_> {
    fn values(&self) -> Values {
        let mut values = self.evidence.start();
        for (key, angle) in self.keys.iter().zip(self.angles.iter()) {
            values.insert(*key, value_of(self.evidence.bounds(*key), *angle));
        }
        values
    }

    fn keep<T>(&self, result: Result<T, FitError>) -> Option<T> {
        result.map_err(|fault| *self.fault.borrow_mut() = Some(fault)).ok()
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_, '_> {
    type ParameterStorage = Owned<f64, Dyn>;
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;

    fn set_params(&mut self, x: &DVector<f64>) {
        self.angles.copy_from(x);
    }

    fn params(&self) -> DVector<f64> {
        self.angles.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let times = self.keep(self.evidence.times(&self.values(), self.rows))?;
        let list = times.iter().zip(self.rows).map(|(time, row)| residual(*time, self.evidence.rows[*row].measured));
        Some(DVector::from_iterator(self.rows.len(), list))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let values = self.values();
        let (_, mut matrix) = self.keep(derivatives(self.evidence, self.keys, &values, self.rows, residual))?;
        for (column, key) in self.keys.iter().enumerate() {
            let bounds = self.evidence.bounds(*key);
            let by_angle = (bounds.high - bounds.low) / 2.0 * self.angles[column].cos();
            matrix.column_mut(column).scale_mut(by_angle / bounds.scale(values[key]));
        }
        Some(matrix)
    }
}

/// The values of `keys` that fit `rows` best.
pub(super) fn solve(evidence: &Evidence<'_>, keys: &[Key], rows: &[usize]) -> Result<Solved, FitError> {
    if keys.is_empty() || rows.len() < keys.len() {
        return Err(FitError::Rows { rows: rows.len(), parameters: keys.len().max(1) });
    }
    let angles = keys.iter().map(|key| angle_of(evidence.bounds(*key), evidence.parameter(*key).0));
    let angles = DVector::from_iterator(keys.len(), angles);
    let problem = Problem { evidence, keys, rows, angles, fault: core::cell::RefCell::default() };
    let (problem, _) = LevenbergMarquardt::new()
        .with_stepbound(0.3)
        .with_ftol(2e-3)
        .with_xtol(3e-3)
        .with_patience(3)
        .minimize(problem);
    let mut values = problem.values();
    if let Some(fault) = problem.fault.into_inner() {
        return Err(fault);
    }
    for key in keys {
        let (bounds, value) = (evidence.bounds(*key), values[key]);
        // What is at an end is there exactly.
        if bounds.ends_at(value) {
            let low = value - bounds.low < bounds.high - value;
            values.insert(*key, if low { bounds.low } else { bounds.high });
        }
    }
    Ok(Solved { values })
}
