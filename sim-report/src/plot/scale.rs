//! Ticks at round numbers, and their labels.

use sim_core::units::Bytes;

use super::Scale;

/// An axis: its range in the chart's own coordinates, and labelled ticks in them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) ticks: Vec<(f64, String)>,
}

impl Scale {
    /// The coordinate of a value; `None` where the scale has none (zero on a logarithm).
    pub(super) fn place(self, value: f64) -> Option<f64> {
        match self {
            Self::Linear => value.is_finite().then_some(value),
            Self::Bytes | Self::Log => (value > 0.0 && value.is_finite()).then(|| self.log(value)),
        }
    }

    fn log(self, value: f64) -> f64 {
        if self == Self::Bytes { value.log2() } else { value.log10() }
    }

    /// An axis over values between `low` and `high`.
    pub(super) fn axis(self, low: f64, high: f64) -> Axis {
        match self {
            Self::Linear => linear(low, high),
            Self::Bytes => bytes(self.log(low), self.log(high)),
            Self::Log => decades(self.log(low), self.log(high)),
        }
    }
}

fn linear(low: f64, high: f64) -> Axis {
    let low = low.min(0.0);
    let high = if high > low { high } else { low + 1.0 };
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough).unwrap_or(10.0 * power);
    let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
    let decimals = (-(step.log10() + 1e-9).floor()).clamp(0.0, 6.0) as usize;
    let decimals = if (step / power - 2.5).abs() < 1e-9 { decimals + 1 } else { decimals };
    let ticks = (first..=last).map(|i| i as f64 * step).map(|v| (v, format!("{v:.decimals$}"))).collect();
    Axis { from: first as f64 * step, to: last as f64 * step, ticks }
}

fn bytes(low: f64, high: f64) -> Axis {
    let (from, to) = padded(low, high, 0.5);
    // At most about thirteen labels.
    let step = [1, 2, 4, 5, 10].into_iter().find(|s| (to - from) / f64::from(*s) <= 13.0).unwrap_or(10);
    let first = (from.ceil().max(0.0) as i32).div_euclid(step) * step;
    let ticks = (0..64)
        .map(|i| first + i * step)
        .filter(|e| (0..64).contains(e) && (from..=to).contains(&f64::from(*e)))
        .map(|e| (f64::from(e), Bytes::new(1u64 << e).to_string()))
        .collect();
    Axis { from, to, ticks }
}

fn decades(low: f64, high: f64) -> Axis {
    let (from, to) = (low.floor(), if high.ceil() > low.floor() { high.ceil() } else { low.floor() + 1.0 });
    let ticks = (from as i32..=to as i32).map(|e| (f64::from(e), power_of_ten(e))).collect();
    Axis { from, to, ticks }
}

fn power_of_ten(exponent: i32) -> String {
    match exponent {
        0..=5 => 10f64.powi(exponent).to_string(),
        -4..0 => format!("{:.*}", exponent.unsigned_abs() as usize, 10f64.powi(exponent)),
        _ => format!("1e{exponent}"),
    }
}

fn padded(low: f64, high: f64, by: f64) -> (f64, f64) {
    (low - by, high + by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn round_numbers() {
        let labels = |axis: Axis| axis.ticks.into_iter().map(|(_, l)| l).collect::<Vec<_>>();
        assert_eq!(labels(Scale::Linear.axis(0.0, 470.0)), ["0", "100", "200", "300", "400", "500"]);
        assert_eq!(labels(Scale::Linear.axis(0.0, 0.9)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(Scale::Log.axis(0.5, 2000.0)), ["0.1", "1", "10", "100", "1000", "10000"]);
        let sizes = labels(Scale::Bytes.axis(8.0, (8u64 << 30) as f64));
        assert_eq!(sizes.first().map(String::as_str), Some("16 B"));
        assert!(sizes.len() <= 14, "{sizes:?}");
    }

    proptest! {
        #[test]
        fn ticks_lie_on_the_axis(low in 0.001f64..1e6, more in 0.0f64..1e12) {
            for scale in [Scale::Linear, Scale::Bytes, Scale::Log] {
                let axis = scale.axis(low, low + more);
                prop_assert!(axis.from < axis.to);
                prop_assert!(axis.ticks.len() <= 24, "{scale:?} {}", axis.ticks.len());
                for value in [low, low + more] {
                    let at = scale.place(value).unwrap();
                    prop_assert!(axis.from - 1e-9 <= at && at <= axis.to + 1e-9);
                }
            }
        }
    }
}
