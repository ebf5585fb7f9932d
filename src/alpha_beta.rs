//! The α-β model of a link: what a message costs, and what it would have to be.
//!
//! T(n) = α + n/β, with α the fixed cost in seconds and β the rate of one direction in bytes per second. All functions
//! are closed forms in `f64`; nothing here is simulated.

/// A link by its two numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlphaBeta {
    /// Fixed cost of a transfer, seconds.
    pub alpha: f64,
    /// Rate of one direction, bytes per second.
    pub beta: f64,
}

impl AlphaBeta {
    /// Time of a message of `bytes`, seconds.
    #[must_use]
    pub fn time(&self, bytes: f64) -> f64 {
        self.alpha + bytes / self.beta
    }

    /// Rate that a message of `bytes` achieves, bytes per second.
    #[must_use]
    pub fn achieved(&self, bytes: f64) -> f64 {
        bytes / self.time(bytes)
    }

    /// The size αβ that achieves half the rate, bytes.
    #[must_use]
    pub fn half_bandwidth(&self) -> f64 {
        self.alpha * self.beta
    }

    /// The size that achieves `rate`, bytes: αβ·f/(1 − f) with f = rate/β. `None` if the link never gets there.
    #[must_use]
    pub fn size_for(&self, rate: f64) -> Option<f64> {
        (rate < self.beta).then(|| self.half_bandwidth() * rate / (self.beta - rate))
    }

    /// The share of a message's time that does not depend on its size, 0 to 1.
    #[must_use]
    pub fn fixed_share(&self, bytes: f64) -> f64 {
        self.alpha / self.time(bytes)
    }

    /// All-reduce of `bytes` over a ring of `ranks`: 2(n−1) steps of S/n each. Seconds.
    #[must_use]
    pub fn ring(&self, bytes: f64, ranks: u32) -> f64 {
        let n = f64::from(ranks);
        2.0 * (n - 1.0) * self.time(bytes / n)
    }

    /// All-reduce in one step: every rank sends all of its data to each other rank over its one link. Seconds.
    #[must_use]
    pub fn one_shot(&self, bytes: f64, ranks: u32) -> f64 {
        self.alpha + (f64::from(ranks) - 1.0) * bytes / self.beta
    }

    /// All-reduce in two steps: direct reduce-scatter, then direct all-gather. Seconds.
    #[must_use]
    pub fn two_shot(&self, bytes: f64, ranks: u32) -> f64 {
        let n = f64::from(ranks);
        2.0 * (self.alpha + (n - 1.0) * bytes / (n * self.beta))
    }

    /// The size below which one-shot is faster than two-shot, bytes; `None` with one or two ranks, where it always is.
    #[must_use]
    pub fn one_shot_two_shot(&self, ranks: u32) -> Option<f64> {
        let n = f64::from(ranks);
        (ranks > 2).then(|| self.half_bandwidth() / ((n - 1.0) * (1.0 - 2.0 / n)))
    }

    /// The size below which one-shot is faster than a ring, bytes; `None` with one or two ranks, where it always is.
    #[must_use]
    pub fn one_shot_ring(&self, ranks: u32) -> Option<f64> {
        let n = f64::from(ranks);
        (ranks > 2).then(|| self.half_bandwidth() * (2.0 * (n - 1.0) - 1.0) / ((n - 1.0) * (1.0 - 2.0 / n)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NVLINK: AlphaBeta = AlphaBeta { alpha: 1e-6, beta: 450e9 };

    #[test]
    fn crossovers_are_where_the_times_meet() {
        for ranks in [3, 4, 8, 16, 72] {
            let size = NVLINK.one_shot_two_shot(ranks).unwrap();
            assert!((NVLINK.one_shot(size, ranks) / NVLINK.two_shot(size, ranks) - 1.0).abs() < 1e-12);
            let size = NVLINK.one_shot_ring(ranks).unwrap();
            assert!((NVLINK.one_shot(size, ranks) / NVLINK.ring(size, ranks) - 1.0).abs() < 1e-12);
        }
        assert_eq!(NVLINK.one_shot_ring(2), None);
    }

    proptest! {
        #[test]
        fn the_rate_is_an_identity(alpha in 1e-9f64..1e-3, beta in 1e6f64..1e13, bytes in 1f64..1e13) {
            let link = AlphaBeta { alpha, beta };
            let other_form = beta / (1.0 + alpha * beta / bytes);
            prop_assert!((link.achieved(bytes) / other_form - 1.0).abs() < 1e-12);
            prop_assert!((link.achieved(link.half_bandwidth()) / (beta / 2.0) - 1.0).abs() < 1e-12);
        }

        #[test]
        fn sizes_answer_rates(alpha in 1e-9f64..1e-3, beta in 1e6f64..1e13, fraction in 0.001f64..0.999) {
            let link = AlphaBeta { alpha, beta };
            let size = link.size_for(beta * fraction).unwrap();
            prop_assert!((size / (link.half_bandwidth() * fraction / (1.0 - fraction)) - 1.0).abs() < 1e-9);
            prop_assert!((link.achieved(size) / (beta * fraction) - 1.0).abs() < 1e-9);
            prop_assert_eq!(link.size_for(beta), None);
        }
    }
}
