//! Work and its speed: [`Flops`] and [`FlopRate`], beside the quantities of `sim_core::units`.

use core::fmt;
use core::ops::{Add, AddAssign, Mul};

use serde::{Deserialize, Serialize};
use sim_core::units::{Bytes, Span};

/// A number of floating-point operations; a multiplication and an addition are two.
///
/// 128 bits: a step of a large model is more than 2⁶⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flops(u128);

/// Floating-point operations per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FlopRate(u64);

impl Flops {
    /// No work.
    pub const ZERO: Self = Self(0);

    /// `n` operations.
    #[must_use]
    pub const fn new(n: u128) -> Self {
        Self(n)
    }

    /// The number of operations.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
    }

    /// 10¹² operations, for display and results.
    #[must_use]
    pub fn as_tera(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

impl FlopRate {
    /// `n` operations per second.
    #[must_use]
    pub const fn per_sec(n: u64) -> Self {
        Self(n)
    }

    /// A rate of `tera` TFLOP/s, rounded to whole operations; negative or non-finite values give zero.
    #[must_use]
    pub fn from_tera(tera: f64) -> Self {
        Self((tera * 1e12).round() as u64)
    }

    /// Operations per second.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// TFLOP/s, for display and results.
    #[must_use]
    pub fn as_tera(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The rate at `millionths` of a million of it, rounded down.
    #[must_use]
    pub const fn scaled(self, millionths: u64) -> Self {
        let scaled = self.0 as u128 * millionths as u128 / 1_000_000;
        Self(if scaled > u64::MAX as u128 { u64::MAX } else { scaled as u64 })
    }

    /// The time for `work`, rounded up to a whole picosecond and saturating. A rate of zero counts as 1 FLOP/s.
    ///
    /// ```
    /// # use sim_workload::units::*;
    /// # use sim_core::units::Span;
    /// assert_eq!(FlopRate::from_tera(500.0).time_for(Flops::new(1_000_000_000_000)), Span::from_us(2_000));
    /// ```
    #[must_use]
    pub const fn time_for(self, work: Flops) -> Span {
        let rate = if self.0 == 0 { 1 } else { self.0 } as u128;
        let ps = match work.0.checked_mul(1_000_000_000_000) {
            Some(product) => product.div_ceil(rate),
            None => (work.0 / rate).saturating_mul(1_000_000_000_000),
        };
        Span::from_ps(if ps > u64::MAX as u128 { u64::MAX } else { ps as u64 })
    }
}

impl Add for Flops {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Flops {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Mul<u64> for Flops {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self(self.0.saturating_mul(u128::from(rhs)))
    }
}

impl core::iter::Sum for Flops {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Flops {
    /// `1.5 GFLOP`, `20676 TFLOP`: decimal multiples up to tera.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0 as f64;
        f.pad(&match n {
            n if n < 1e9 => format!("{:.1} MFLOP", n / 1e6),
            n if n < 1e12 => format!("{:.1} GFLOP", n / 1e9),
            n => format!("{:.1} TFLOP", n / 1e12),
        })
    }
}

impl fmt::Display for FlopRate {
    /// `989.4 TFLOP/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} TFLOP/s", self.as_tera()))
    }
}

/// `millionths` of a million of `bytes`, rounded down.
#[must_use]
pub const fn share_of(bytes: Bytes, millionths: u64) -> Bytes {
    let share = bytes.get() as u128 * millionths as u128 / 1_000_000;
    Bytes::new(if share > u64::MAX as u128 { u64::MAX } else { share as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extreme_values_saturate() {
        assert_eq!(FlopRate::per_sec(0).time_for(Flops::new(u128::MAX)), Span::from_ps(u64::MAX));
        assert_eq!(Flops::new(u128::MAX) + Flops::new(1), Flops::new(u128::MAX));
        assert_eq!(FlopRate::from_tera(f64::NAN), FlopRate::per_sec(0));
    }

    #[test]
    fn times_round_up() {
        assert_eq!(FlopRate::per_sec(3_000_000_000_000).time_for(Flops::new(10)), Span::from_ps(4));
        assert_eq!(Flops::new(20_676_000_000_000_000).to_string(), "20676.0 TFLOP");
        assert_eq!(FlopRate::from_tera(989.4).scaled(500_000).to_string(), "494.7 TFLOP/s");
    }
}
