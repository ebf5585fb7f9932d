//! Results over several seeds, and of several scenarios side by side.

use serde::{Deserialize, Serialize};

use super::TransportTotals;

/// One figure over the seeds of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// What it is: `all_reduce of 64 MiB`, `slowest transfer`.
    pub name: String,
    /// How many seeds gave a time; the others stopped before.
    pub seeds: u64,
    /// Their mean.
    #[serde(default)]
    pub mean_us: f64,
    /// The least.
    pub best_us: f64,
    /// Of 100 values five are no greater.
    pub p5_us: f64,
    /// The middle one.
    pub p50_us: f64,
    /// Of 100 values 95 are no greater.
    pub p95_us: f64,
    /// The greatest.
    pub worst_us: f64,
    /// The seed that gave it.
    pub worst_seed: u64,
}

impl Spread {
    /// Of `values`, each with its seed; percentiles are nearest ranks: the value of rank `⌈p n⌉`. All zero without values.
    #[must_use]
    pub fn of(name: impl Into<String>, values: &[(u64, f64)]) -> Self {
        let mut order: Vec<(f64, u64)> = values.iter().map(|(seed, value)| (*value, *seed)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let rank = |percent: usize| {
            let rank = (order.len() * percent).div_ceil(100).max(1);
            order.get(rank - 1).map_or(0.0, |(value, _)| *value)
        };
        let (worst_us, worst_seed) = order.last().copied().unwrap_or_default();
        Self {
            name: name.into(),
            seeds: values.len() as u64,
            mean_us: order.iter().map(|(value, _)| value).sum::<f64>() / order.len().max(1) as f64,
            best_us: order.first().map_or(0.0, |(value, _)| *value),
            p5_us: rank(5),
            p50_us: rank(50),
            p95_us: rank(95),
            worst_us,
            worst_seed,
        }
    }
}

/// A run over several seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeedsResult {
    /// The first seed, whose run the other results are of.
    pub first: u64,
    /// How many, each one more than the last.
    pub count: u64,
    /// The time of each collective and size, and of the transfers of each workload.
    pub measures: Vec<Spread>,
}

/// Several scenarios side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiffResults {
    /// How many seeds each was played with.
    pub seeds: u64,
    /// The scenarios, in the order in which they were given.
    pub designs: Vec<DesignResult>,
}

/// One of several scenarios.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DesignResult {
    /// Its name.
    pub name: String,
    /// Its file.
    pub scenario: String,
    /// Its transport in a word or two: the preset, or that links are virtual.
    pub transport: String,
    /// The time of each collective and size, and of the transfers of each workload, over the seeds.
    pub measures: Vec<Spread>,
    /// The median of each over the first scenario's of that name; absent where that has none.
    pub ratios: Vec<Option<f64>>,
    /// The busiest link of the network, of the first seed.
    pub busiest_link: String,
    /// Its busy time over the run's time.
    pub utilization: f64,
    /// What its packets came to, over all seeds; absent where links are virtual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub totals: Option<TransportTotals>,
    /// Why it stopped early, if a seed did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let values: Vec<(u64, f64)> = (7..27).zip((1..=20).rev().map(f64::from)).collect();
        let spread = Spread::of("x", &values);
        let all = (spread.best_us, spread.p5_us, spread.p50_us, spread.p95_us, spread.worst_us);
        assert_eq!(all, (1.0, 1.0, 10.0, 19.0, 20.0));
        // The first of the seeds that gave it.
        assert_eq!(spread.worst_seed, 7);
        assert_eq!(Spread::of("x", &[(1, 3.0), (3, 5.0), (4, 5.0)]).worst_seed, 3);
        assert_eq!(Spread::of("x", &[(1, 2.0)]).p95_us, 2.0);
        assert_eq!(Spread::of("x", &[]).worst_us, 0.0);
    }
}
