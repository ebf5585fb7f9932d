//! When requests come, and how long they are.

use rand::Rng;
use rand_distr::{Distribution, Exp1, Gamma, StandardNormal};
use sim_core::random;
use sim_core::units::{Span, Time};

/// When requests come, whatever becomes of those before them (open loop).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// All at the beginning.
    AtOnce,
    /// At even distances.
    Even {
        /// Requests per second.
        rate: f64,
    },
    /// Independent of each other.
    Poisson {
        /// Requests per second.
        rate: f64,
    },
    /// At distances by a gamma law: in bursts, the more so the larger the coefficient of variation. One is Poisson's.
    Gamma {
        /// Requests per second.
        rate: f64,
        /// Standard deviation of the distances over their mean.
        variation: f64,
    },
}

impl Arrivals {
    /// The same law at another rate.
    #[must_use]
    pub const fn at(self, rate: f64) -> Self {
        match self {
            Self::AtOnce | Self::Poisson { .. } => Self::Poisson { rate },
            Self::Even { .. } => Self::Even { rate },
            Self::Gamma { variation, .. } => Self::Gamma { rate, variation },
        }
    }

    /// A distance in parts of the mean one.
    fn distance(self, stream: &mut impl Rng) -> f64 {
        match self {
            Self::AtOnce => 0.0,
            Self::Even { .. } => 1.0,
            Self::Poisson { .. } => Exp1.sample(stream),
            Self::Gamma { variation, .. } => {
                let square = (variation * variation).clamp(1e-6, 1e6);
                Gamma::new(1.0 / square, square).map_or(1.0, |law| law.sample(stream))
            }
        }
    }

    const fn rate(self) -> f64 {
        match self {
            Self::AtOnce => f64::INFINITY,
            Self::Even { rate } | Self::Poisson { rate } | Self::Gamma { rate, .. } => rate,
        }
    }
}

/// How many tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// Always as many.
    Fixed(u64),
    /// Log-normal.
    LogNormal {
        /// The mean.
        mean: f64,
        /// Standard deviation over mean.
        variation: f64,
        /// No longer than this.
        most: u64,
    },
    /// These in turn, from the start again after the last.
    List(Vec<u64>),
}

impl Lengths {
    fn draw(&self, number: u64, stream: &mut impl Rng) -> u64 {
        match self {
            Self::Fixed(n) => (*n).max(1),
            Self::LogNormal { mean, variation, most } => {
                let square = (1.0 + variation * variation).ln();
                let normal: f64 = StandardNormal.sample(stream);
                let drawn = (mean.max(1.0).ln() - square / 2.0 + square.sqrt() * normal).exp();
                (drawn.round() as u64).clamp(1, (*most).max(1))
            }
            Self::List(all) => all.get((number % all.len().max(1) as u64) as usize).copied().unwrap_or(1).max(1),
        }
    }

    /// The mean, rounded.
    #[must_use]
    pub fn mean(&self) -> u64 {
        match self {
            Self::Fixed(n) => *n,
            Self::LogNormal { mean, .. } => mean.round() as u64,
            Self::List(all) => {
                let sum: u128 = all.iter().map(|n| u128::from(*n)).sum();
                u64::try_from(sum / all.len().max(1) as u128).unwrap_or(u64::MAX)
            }
        }
    }

    /// The longest that there can be.
    #[must_use]
    pub fn most(&self) -> u64 {
        match self {
            Self::Fixed(n) => *n,
            Self::LogNormal { most, .. } => *most,
            Self::List(all) => all.iter().copied().max().unwrap_or(1),
        }
    }
}

/// What users ask.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// When.
    pub arrivals: Arrivals,
    /// Tokens of prompts.
    pub prompts: Lengths,
    /// Tokens of answers.
    pub outputs: Lengths,
    /// Requests.
    pub count: u64,
    /// The seed of all draws.
    pub seed: u64,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it comes.
    pub at: Time,
    /// Tokens of the prompt, at least one.
    pub prompt: u64,
    /// Tokens of the answer, at least one.
    pub output: u64,
}

impl Demand {
    /// All requests, in order of their arrival. Each draw has a stream by the number of the request, and distances are drawn in parts
    /// of their mean: another rate stretches the same pattern.
    #[must_use]
    pub fn draw(&self) -> Vec<Request> {
        self.draw_until(&|| false).unwrap_or_default()
    }

    /// The same, or nothing if `stop` says so on the way.
    #[must_use]
    pub fn draw_until(&self, stop: &dyn Fn() -> bool) -> Option<Vec<Request>> {
        let mean_us = 1e6 / self.arrivals.rate();
        let mut at = 0.0;
        (0..self.count)
            .map(|number| {
                if number.is_multiple_of(4096) && stop() {
                    return None;
                }
                let stream = |purpose| random::stream(self.seed, purpose, number);
                if number > 0 || !matches!(self.arrivals, Arrivals::Even { .. }) {
                    at += self.arrivals.distance(&mut stream("arrival")) * mean_us;
                }
                Some(Request {
                    at: Time::ZERO + Span::from_us_f64(at),
                    prompt: self.prompts.draw(number, &mut stream("prompt length")),
                    output: self.outputs.draw(number, &mut stream("output length")),
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(arrivals: Arrivals) -> Demand {
        let prompts = Lengths::LogNormal { mean: 1000.0, variation: 1.0, most: 100_000 };
        Demand { arrivals, prompts, outputs: Lengths::List(vec![1, 2, 3]), count: 20_000, seed: 5 }
    }

    #[test]
    fn laws_have_their_means_and_deviations() {
        let laws = [
            (Arrivals::Even { rate: 10.0 }, 0.0),
            (Arrivals::Poisson { rate: 10.0 }, 1.0),
            (Arrivals::Gamma { rate: 10.0, variation: 2.0 }, 2.0),
        ];
        for (law, variation) in laws {
            let all = demand(law).draw();
            let gaps: Vec<f64> = all.windows(2).map(|w| w[1].at.since(w[0].at).as_us() / 1e6).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let square = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            assert!((mean - 0.1).abs() < 0.005, "{law:?}: {mean}");
            assert!((square.sqrt() / mean - variation).abs() < 0.1, "{law:?}: {}", square.sqrt() / mean);
        }
        let all = demand(Arrivals::AtOnce).draw();
        assert!(all.iter().all(|r| r.at == Time::ZERO));
        let mean = all.iter().map(|r| r.prompt as f64).sum::<f64>() / all.len() as f64;
        assert!((mean - 1000.0).abs() < 30.0, "{mean}");
        assert_eq!(all.iter().take(4).map(|r| r.output).collect::<Vec<_>>(), [1, 2, 3, 1]);
    }

    #[test]
    fn another_rate_stretches_the_same_pattern() {
        let (slow, fast) =
            (demand(Arrivals::Poisson { rate: 1.0 }).draw(), demand(Arrivals::Poisson { rate: 4.0 }).draw());
        let (last, early) = (slow[slow.len() - 1], fast[fast.len() - 1]);
        assert!((last.at.since(Time::ZERO).as_us() / early.at.since(Time::ZERO).as_us() - 4.0).abs() < 1e-6);
        assert_eq!((last.prompt, last.output), (early.prompt, early.output));
        assert_eq!(slow, demand(Arrivals::Poisson { rate: 1.0 }).draw());
    }
}
