//! How unevenly experts are chosen: loads of experts, and which of them holds where in a step.
//!
//! Loads are the same for all tokens of a draw. A step has one draw, so that the same experts are wanted by all micro batches in all layers, or
//! K of them: each micro batch and layer takes one by a hash of the seed and of both numbers, for its forward and its backward pass.
//! So K times as many different messages are simulated as with even loads, however many layers and micro batches there are.

use rand_distr::{Distribution, weighted::WeightedIndex};
use sim_collectives::experts::Shares;
use sim_core::random;

/// How many copies of tokens experts get, in parts of all.
#[derive(Clone, Debug, PartialEq)]
pub struct Loads(Vec<f64>);

impl Loads {
    /// As many for each of `experts`.
    #[must_use]
    pub fn even(experts: u64) -> Self {
        Self(vec![1.0 / experts.max(1) as f64; experts as usize])
    }

    /// The i-th most wanted expert gets a part in proportion to i^−`exponent`; which expert is which place is drawn.
    #[must_use]
    pub fn zipf(experts: u64, exponent: f64, seed: u64) -> Self {
        let mut parts: Vec<f64> = (1..=experts).map(|i| (i as f64).powf(-exponent)).collect();
        let sum: f64 = parts.iter().sum();
        parts.iter_mut().for_each(|p| *p /= sum);
        Self(parts).shuffled(seed)
    }

    /// In proportion to `weights`; even if none is above 0.
    #[must_use]
    pub fn given(weights: &[f64]) -> Self {
        let sum: f64 = weights.iter().sum();
        if sum > 0.0 { Self(weights.iter().map(|w| w / sum).collect()) } else { Self::even(weights.len() as u64) }
    }

    /// One of `ranks` ranks, number `hot`, gets `factor` times the mean, and its experts as much each; the others share the rest.
    #[must_use]
    pub fn hot(experts: u64, ranks: u64, hot: u64, factor: f64) -> Self {
        let ranks = ranks.max(1);
        let each = (experts / ranks).max(1);
        let factor = factor.clamp(0.0, ranks as f64);
        let rest = (ranks as f64 - factor) / ((ranks - 1).max(1)) as f64;
        let part = |e: u64| if e / each == hot { factor } else { rest };
        Self((0..experts).map(|e| part(e) / experts.max(1) as f64).collect())
    }

    /// The same loads, of other experts.
    #[must_use]
    pub fn shuffled(&self, seed: u64) -> Self {
        // Each expert's place by a hash of its number: a shuffle that doesn't depend on a library's.
        let mut order: Vec<(u64, usize)> =
            (0..self.0.len()).map(|i| (random::mix(seed ^ random::mix(i as u64)), i)).collect();
        order.sort_unstable();
        Self(order.into_iter().map(|(_, i)| self.0[i]).collect())
    }

    /// Expert by expert.
    #[must_use]
    pub fn parts(&self) -> &[f64] {
        &self.0
    }

    /// What `copies` copies that are drawn one by one come to.
    #[must_use]
    pub fn drawn(&self, copies: u64, seed: u64) -> Self {
        let Ok(law) = WeightedIndex::new(&self.0) else { return self.clone() };
        let mut stream = random::stream(seed, "expert load", 0);
        let mut counts = vec![0u64; self.0.len()];
        for _ in 0..copies {
            counts[law.sample(&mut stream)] += 1;
        }
        Self(counts.into_iter().map(|n| n as f64 / copies.max(1) as f64).collect())
    }

    /// λ: the load of the most loaded of `ranks` ranks over the mean. Experts lie on ranks in blocks.
    #[must_use]
    pub fn imbalance(&self, ranks: u64) -> f64 {
        let each = (self.0.len() / (ranks.max(1) as usize)).max(1);
        let sums: Vec<f64> = self.0.chunks(each).map(|c| c.iter().sum()).collect();
        let mean = sums.iter().sum::<f64>() / sums.len().max(1) as f64;
        sums.iter().copied().fold(0.0, f64::max) / mean
    }
}

/// Loads of a draw, after what is said of capacities.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    /// What each expert gets, in parts of all copies.
    pub shares: Shares,
    /// What is dropped of all copies.
    pub dropped: f64,
}

/// How uneven the loads of experts are in a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Imbalance {
    draws: Vec<Draw>,
    seed: u64,
}

impl Imbalance {
    /// Loads of which each micro batch and layer takes one. With a `capacity` of so many millionths of the mean each expert takes no
    /// more, and what is over is dropped; with `padded` places every expert gets as much as that.
    #[must_use]
    pub fn new(loads: &[Loads], capacity: Option<u64>, padded: bool, seed: u64) -> Self {
        let draw = |loads: &Loads| {
            let most = capacity.map_or(f64::INFINITY, |c| c as f64 / 1e6 / loads.0.len().max(1) as f64);
            let kept: Vec<f64> = loads.0.iter().map(|part| part.min(most)).collect();
            let dropped = (1.0 - kept.iter().sum::<f64>()).max(0.0);
            let full = padded && capacity.is_some();
            let shares = if full { Shares::new(kept.iter().map(|_| most)) } else { Shares::new(kept) };
            Draw { shares, dropped: if dropped < 1e-12 { 0.0 } else { dropped } }
        };
        Self { draws: loads.iter().map(draw).collect(), seed }
    }

    /// All draws.
    #[must_use]
    pub fn draws(&self) -> &[Draw] {
        &self.draws
    }

    /// The draw of a micro batch in a layer.
    #[must_use]
    pub fn of(&self, micro: u64, layer: u64) -> usize {
        let hash = random::mix(random::mix(self.seed ^ random::mix(micro)) ^ layer);
        (hash % self.draws.len().max(1) as u64) as usize
    }

    /// What each of `ranks` ranks gets in a draw, over the mean of even loads without drops.
    #[must_use]
    pub fn of_ranks(&self, draw: usize, ranks: u64) -> Vec<f64> {
        let shares = self.draws[draw].shares.of_holders(usize::try_from(ranks).unwrap_or(1));
        shares.into_iter().map(|share| share * ranks as f64).collect()
    }

    /// λ: what the most loaded of `ranks` ranks gets over the mean of even loads; the mean of all draws, and the largest.
    #[must_use]
    pub fn lambda(&self, ranks: u64) -> (f64, f64) {
        let most = |draw| self.of_ranks(draw, ranks).into_iter().fold(0.0, f64::max);
        let all: Vec<f64> = (0..self.draws.len()).map(most).collect();
        (all.iter().sum::<f64>() / all.len().max(1) as f64, all.iter().copied().fold(0.0, f64::max))
    }

    /// What is dropped of all copies, the mean of all draws.
    #[must_use]
    pub fn dropped(&self) -> f64 {
        self.draws.iter().map(|d| d.dropped).sum::<f64>() / self.draws.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imbalance_follows_the_most_loaded() {
        assert!((Loads::even(256).imbalance(64) - 1.0).abs() < 1e-12);
        let zipf = Loads::zipf(256, 1.0, 7);
        assert_eq!(zipf, Loads::zipf(256, 1.0, 7));
        assert_ne!(zipf, Loads::zipf(256, 1.0, 8));
        // The first of 256 by Zipf's law has 1/H(256) of all, 41.8 times the mean.
        assert!((zipf.imbalance(256) - 256.0 / 6.1243).abs() < 0.01, "{}", zipf.imbalance(256));
        assert!(zipf.imbalance(8) < zipf.imbalance(64));
        // Draws alone: by chance the busiest of 64 has a few percent more.
        let drawn = Loads::even(256).drawn(32_768, 3).imbalance(64);
        assert!(drawn > 1.02 && drawn < 1.3, "{drawn}");
    }

    #[test]
    fn a_hot_rank_has_its_factor_and_draws_move_it() {
        let loads = |hot| Loads::hot(256, 64, hot, 1.5);
        assert!((loads(3).imbalance(64) - 1.5).abs() < 1e-12);
        assert!((loads(3).parts().iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let moved = Imbalance::new(&[loads(3), loads(40)], None, false, 1);
        let at = |draw| moved.of_ranks(draw, 64).iter().position(|f| *f > 1.4);
        assert_eq!((at(0), at(1)), (Some(3), Some(40)));
        assert_eq!(moved.dropped(), 0.0);
        // All draws are taken, as often as chance has it, and again the same ones.
        let taken: Vec<usize> = (0..1000).map(|i| moved.of(i / 10, i % 10)).collect();
        let ones = taken.iter().sum::<usize>();
        assert!((400..600).contains(&ones), "{ones}");
        assert_eq!(taken, (0..1000).map(|i| moved.of(i / 10, i % 10)).collect::<Vec<_>>());
    }

    #[test]
    fn capacities_drop_what_is_over() {
        // One of four experts is wanted by 40 % of all copies and takes 1.2 times the mean, 30 %.
        let loads = Loads::given(&[4.0, 2.0, 2.0, 2.0]);
        let cut = Imbalance::new(core::slice::from_ref(&loads), Some(1_200_000), false, 1);
        assert!((cut.dropped() - 0.1).abs() < 1e-12, "{}", cut.dropped());
        assert!((cut.lambda(4).1 - 1.2).abs() < 1e-12);
        let padded = Imbalance::new(&[loads], Some(1_200_000), true, 1);
        assert!(padded.of_ranks(0, 2).iter().all(|f| (f - 1.2).abs() < 1e-12));
        assert!((padded.dropped() - 0.1).abs() < 1e-12);
    }
}
