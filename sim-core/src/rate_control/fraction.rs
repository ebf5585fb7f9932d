//! Shares between 0 and 1 (and ratios a little above) in 32.32 fixed point.

use core::fmt;

/// A non-negative number in 32.32 fixed point; α, gains and factors of controllers.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fraction(u64);

impl Fraction {
    /// 0.
    pub const ZERO: Self = Self(0);
    /// 1.
    pub const ONE: Self = Self(1 << 32);

    /// `n / d`, rounded down, saturating; 0 if `d` is 0.
    #[must_use]
    pub const fn ratio(n: u64, d: u64) -> Self {
        if d == 0 {
            return Self::ZERO;
        }
        Self::saturated(((n as u128) << 32) / d as u128)
    }

    /// From 2⁻³² parts.
    pub(super) const fn saturated(raw: u128) -> Self {
        Self(if raw > u64::MAX as u128 { u64::MAX } else { raw as u64 })
    }

    /// In 2⁻³² parts.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// That share of `value`, rounded down, saturating.
    #[inline]
    #[must_use]
    pub const fn of(self, value: u64) -> u64 {
        Self::saturated((self.0 as u128 * value as u128) >> 32).0
    }

    /// The product, rounded down.
    #[must_use]
    pub const fn times(self, other: Self) -> Self {
        Self(self.of(other.0))
    }

    /// What is left of 1, or 0.
    #[must_use]
    pub const fn rest(self) -> Self {
        Self(Self::ONE.0.saturating_sub(self.0))
    }

    /// The sum, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, or 0.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The `n`-th power by squaring, each product rounded down.
    #[must_use]
    pub const fn power(self, mut n: u64) -> Self {
        let (mut base, mut out) = (self, Self::ONE);
        while n > 0 && out.0 > 0 {
            if n & 1 == 1 {
                out = out.times(base);
            }
            base = base.times(base);
            n >>= 1;
        }
        out
    }

    /// A step of an exponentially weighted mean: `(1 − gain) · self + gain · sample`.
    #[must_use]
    pub const fn toward(self, sample: Self, gain: Self) -> Self {
        gain.rest().times(self).plus(gain.times(sample))
    }

    /// For display and results.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / (1u64 << 32) as f64
    }
}

impl fmt::Debug for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_f64())
    }
}
