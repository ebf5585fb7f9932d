//! Quantities with units: simulated time, sizes and rates.
//!
//! Every quantity is an integer, so no floating point can decide an order of events:
//!
//! * [`Time`] (an instant) and [`Span`] (a duration) count **picoseconds** in a `u64`. The largest value is
//!   2⁶⁴ ps, about 213 days of simulated time.
//! * [`Bytes`] counts bytes.
//! * [`Rate`] counts bytes per second, **one direction** of a link.
//! * [`PsPerByte`] is the inverse of a rate in 32.32 fixed point; it is what the event loop multiplies with.
//!
//! Text forms are parsed by [`parse`]: `"400 Gb/s"`, `"450 GB/s"`, `"64 KiB"`, `"1.5 us"`.

mod display;
pub mod parse;

use core::ops::{Add, AddAssign, Mul, Sub, SubAssign};

use serde::{Deserialize, Serialize};

pub use parse::{UnitError, UnitErrorKind};

/// An instant of simulated time in picoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(u64);

/// A length of simulated time in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(u64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(u64);

/// A data rate in bytes per second, one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(u64);

/// Serialisation cost in picoseconds per byte, 32.32 fixed point.
///
/// Rounded **up** from the rate, and the product with a size is rounded up again to a whole picosecond, so a link
/// never sends faster than it is told. The error is below 2⁻³² ps per byte plus 1 ps per segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PsPerByte(u64);

const PS_PER_SECOND: u128 = 1_000_000_000_000;

impl Time {
    /// The start of a run.
    pub const ZERO: Self = Self(0);
    /// The last representable instant; used as "never".
    pub const MAX: Self = Self(u64::MAX);

    /// An instant `ps` picoseconds after the start.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Picoseconds since the start.
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Microseconds since the start, for display and results.
    #[must_use]
    pub fn as_us(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The span since `earlier`, zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// `ps` picoseconds.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// `ns` nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns * 1_000)
    }

    /// `us` microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000_000)
    }

    /// The span at `millionths` of a million of it: 1,300,000 is 1.3 times as long. Rounded up, saturating.
    #[must_use]
    pub const fn scaled(self, millionths: u64) -> Self {
        Self(scale(self.0, millionths))
    }

    /// A span of `us` microseconds, rounded to the nearest picosecond; negative or non-finite values give zero.
    #[must_use]
    pub fn from_us_f64(us: f64) -> Self {
        Self((us * 1e6).round() as u64)
    }

    /// Picoseconds.
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Nanoseconds, for display and results.
    #[must_use]
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Microseconds, for display and results.
    #[must_use]
    pub fn as_us(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds, for display and results.
    #[must_use]
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// `n` bytes.
    #[must_use]
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// `n` KiB (1024 bytes).
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// `n` MiB (1024² bytes).
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` GiB (1024³ bytes).
    #[must_use]
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Rate {
    /// The slowest rate that a link may have, 1 kB/s; below it [`PsPerByte`] would overflow.
    pub const MIN: Self = Self(1_000);

    /// `n` bytes per second.
    #[must_use]
    pub const fn bytes_per_sec(n: u64) -> Self {
        Self(n)
    }

    /// `n` gigabits per second (10⁹ bits).
    #[must_use]
    pub const fn gbit(n: u64) -> Self {
        Self(n * 125_000_000)
    }

    /// `n` gigabytes per second (10⁹ bytes).
    #[must_use]
    pub const fn gbyte(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }

    /// A rate of `gb` GB/s, rounded to the nearest byte per second; negative or non-finite values give zero.
    #[must_use]
    pub fn from_gbyte_f64(gb: f64) -> Self {
        Self((gb * 1e9).round() as u64)
    }

    /// Bytes per second.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Gigabytes per second, for display and results.
    #[must_use]
    pub fn as_gbyte(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The cost of a byte at this rate. Rates below [`Rate::MIN`] cost what `MIN` costs.
    #[must_use]
    pub const fn ps_per_byte(self) -> PsPerByte {
        let rate = if self.0 < Self::MIN.0 { Self::MIN.0 } else { self.0 };
        PsPerByte((PS_PER_SECOND << 32).div_ceil(rate as u128) as u64)
    }

    /// Time to serialise `size` at this rate, rounded up to a whole picosecond.
    ///
    /// ```
    /// # use sim_core::units::*;
    /// assert_eq!(Rate::gbit(400).time_for(Bytes::kib(64)), Span::from_ps(1_310_720));
    /// ```
    #[must_use]
    pub const fn time_for(self, size: Bytes) -> Span {
        self.ps_per_byte().cost(size)
    }
}

impl PsPerByte {
    /// Bytes are free: an infinite rate.
    pub const FREE: Self = Self(0);

    /// The cost of `size` bytes, rounded up to a whole picosecond and saturating at the end of time.
    #[must_use]
    #[inline]
    pub const fn cost(self, size: Bytes) -> Span {
        let ps = (self.0 as u128 * size.0 as u128 + 0xffff_ffff) >> 32;
        Span(if ps > u64::MAX as u128 { u64::MAX } else { ps as u64 })
    }

    /// The cost of a byte of one of `n` parts that are produced in turn.
    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n))
    }

    /// The cost at `millionths` of a million of it: 1,300,000 is 1.3 times as dear. Rounded up, saturating.
    #[must_use]
    pub const fn scaled(self, millionths: u64) -> Self {
        Self(scale(self.0, millionths))
    }

    /// The raw fixed-point value: picoseconds per byte times 2³².
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// [`cost`](Self::cost) for at most 2³² bytes, which can't overflow.
    #[inline]
    pub(crate) const fn cost_of_segment(self, size: Bytes) -> Span {
        debug_assert!(size.0 <= 1 << 32);
        Span(((self.0 as u128 * size.0 as u128 + 0xffff_ffff) >> 32) as u64)
    }

    /// How many whole bytes go out in `span` (saturating); the inverse of [`cost`](Self::cost), rounded down.
    #[must_use]
    pub const fn bytes_in(self, span: Span) -> Bytes {
        if self.0 == 0 {
            return Bytes(u64::MAX);
        }
        let bytes = ((span.0 as u128) << 32) / self.0 as u128;
        Bytes(if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 })
    }

    /// The cost of a byte in picoseconds, for display.
    #[must_use]
    pub fn as_ps(self) -> f64 {
        self.0 as f64 / (1u64 << 32) as f64
    }
}

const fn scale(value: u64, millionths: u64) -> u64 {
    let scaled = (value as u128 * millionths as u128).div_ceil(1_000_000);
    if scaled > u64::MAX as u128 { u64::MAX } else { scaled as u64 }
}

macro_rules! span_like {
    ($type:ident) => {
        impl Add for $type {
            type Output = Self;
            #[inline]
            fn add(self, rhs: Self) -> Self {
                Self(self.0.saturating_add(rhs.0))
            }
        }
        impl AddAssign for $type {
            #[inline]
            fn add_assign(&mut self, rhs: Self) {
                *self = *self + rhs;
            }
        }
        impl Sub for $type {
            type Output = Self;
            #[inline]
            fn sub(self, rhs: Self) -> Self {
                Self(self.0.saturating_sub(rhs.0))
            }
        }
        impl SubAssign for $type {
            #[inline]
            fn sub_assign(&mut self, rhs: Self) {
                *self = *self - rhs;
            }
        }
        impl Mul<u64> for $type {
            type Output = Self;
            #[inline]
            fn mul(self, rhs: u64) -> Self {
                Self(self.0.saturating_mul(rhs))
            }
        }
        impl core::iter::Sum for $type {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self(0), Add::add)
            }
        }
    };
}
span_like!(Span);
span_like!(Bytes);

impl Add<Span> for Time {
    type Output = Self;
    #[inline]
    fn add(self, rhs: Span) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign<Span> for Time {
    #[inline]
    fn add_assign(&mut self, rhs: Span) {
        *self = *self + rhs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_chunks_cost_a_thousand_times_one() {
        let cost = Rate::gbyte(450).ps_per_byte();
        let one = cost.cost(Bytes::kib(64));
        assert_eq!(one, Span::from_ps(145_636));
        assert_eq!((0..1000).map(|_| cost.cost(Bytes::kib(64))).sum::<Span>(), one * 1000);
    }

    #[test]
    fn costs_round_up_and_never_beat_the_rate() {
        for gb in [1, 25, 50, 63, 450, 900] {
            let rate = Rate::gbyte(gb);
            for n in [1u64, 7, 64, 4096, 1 << 20] {
                let exact = n as f64 * 1e12 / rate.get() as f64;
                let got = rate.time_for(Bytes::new(n)).as_ps() as f64;
                assert!(got >= exact - 1e-6 && got <= exact + 1.01, "{gb} GB/s, {n} B: {got} for {exact}");
            }
        }
    }

    #[test]
    fn extreme_values_saturate() {
        assert_eq!(Rate::bytes_per_sec(1).time_for(Bytes::new(u64::MAX)), Span::from_ps(u64::MAX));
        assert_eq!(Time::MAX + Span::from_us(1), Time::MAX);
        assert_eq!(PsPerByte::FREE.cost(Bytes::gib(1)), Span::ZERO);
    }
}
