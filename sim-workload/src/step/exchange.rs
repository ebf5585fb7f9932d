//! How a call takes tokens to experts and results back, where that is more than an even all-to-all of the library.
//!
//! | kernels | what the library is asked for |
//! |---|---|
//! | sends and receives | an all-to-all of unequal parts: one grouped call, as NCCL has it |
//! | DeepEP's normal | dispatch or combine by `deepep`, with a channel for two processors |
//! | DeepEP's low latency | dispatch or combine by `low_latency` |

use sim_collectives::Request;
use sim_collectives::algorithms::Name;
use sim_collectives::call::Routed;
use sim_collectives::experts::{Experts, Shares};
use sim_collectives::nccl::Operation;
use sim_collectives::plan::Traffic;
use sim_core::units::Bytes;

use crate::experts::{Copies, Kernels, Routing};
use crate::job::Job;
use crate::model::ExpertLayer;

/// How tokens go to experts in a call, or come back.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// What takes them there.
    pub kernels: Kernels,
    /// Whether they come back.
    pub back: bool,
    /// How they are routed.
    pub experts: Experts,
    /// What experts get, where they don't all get as much.
    pub shares: Option<Shares>,
    /// Which copies the library is given.
    pub copies: Copies,
}

/// What a rank of a group sends in a call, the mean of its ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sent {
    /// What the makers of kernels count: what is for the rank itself or its own node, too.
    pub logical: f64,
    /// Over its NICs.
    pub network: f64,
    /// Over the scale-up network, for itself and as a relay of others.
    pub scale_up: f64,
}

/// The exchanges of a job: for each draw of loads one there and one back. None where a call is an even all-to-all.
#[must_use]
pub fn of_job(job: &Job<'_>) -> Vec<Exchange> {
    let Some(layer) = job.model.experts.filter(|_| job.sizes.expert > 1) else { return Vec::new() };
    let choices = &job.choices;
    if choices.kernels == Kernels::Library && job.imbalance.is_none() {
        return Vec::new();
    }
    let experts = experts_of(layer, job.sizes.expert);
    let draws: Vec<Option<Shares>> = match job.imbalance {
        Some(imbalance) => imbalance.draws().iter().map(|draw| Some(draw.shares.clone())).collect(),
        None => vec![None],
    };
    let (kernels, copies) = (choices.kernels, choices.copies);
    let both = |shares: Option<Shares>| {
        [false, true].map(|back| Exchange { kernels, back, experts, shares: shares.clone(), copies })
    };
    draws.into_iter().flat_map(both).collect()
}

/// How tokens are routed to the experts of a layer on `ranks` ranks.
#[must_use]
pub fn experts_of(layer: ExpertLayer, ranks: u64) -> Experts {
    Routing::of(layer, ranks, 1).library()
}

impl Exchange {
    /// Bytes of one copy of a rank's tokens, of a call of `bytes` among `ranks` ranks.
    fn one_copy(&self, bytes: Bytes, ranks: u32) -> u64 {
        let copies = match (self.kernels, self.copies) {
            (Kernels::Library, Copies::Rank) => self.experts.reaches(ranks, 1) * f64::from(ranks),
            _ => f64::from(self.experts.top_k),
        };
        ((bytes.get() as f64 / copies.max(f64::MIN_POSITIVE)).round() as u64).max(1)
    }

    fn routed(&self, bytes: Bytes, nodes: u32, ranks: u32) -> Routed {
        self.experts.routed(self.one_copy(bytes, ranks), nodes, ranks, self.shares.as_ref())
    }

    /// What the library is asked for in a call of `bytes` among `ranks` ranks.
    #[must_use]
    pub fn request(&self, bytes: Bytes, ranks: u32) -> Request {
        let traffic = match &self.shares {
            Some(shares) => Traffic::Uneven(self.experts, shares.clone()),
            None => Traffic::Experts(self.experts),
        };
        let operation = if self.back { Operation::Combine } else { Operation::Dispatch };
        let one = Bytes::new(self.one_copy(bytes, ranks));
        let asked = |name: &str| {
            let algorithm: Option<Name> = name.parse().ok();
            Request { algorithm, traffic: traffic.clone(), ..Request::new(operation, one) }
        };
        match self.kernels {
            Kernels::Normal { processors } => Request { channels: Some((processors / 2).max(1)), ..asked("deepep") },
            Kernels::LowLatency => asked("low_latency"),
            Kernels::Library => {
                let routed = self.routed(bytes, 1, ranks);
                let to = if self.copies == Copies::Rank { routed.to_rank } else { routed.to_experts };
                // What is sent to a rank comes back from it.
                let pair = |from: usize, into: usize| to[if self.back { from } else { into }];
                let matrix = (0..to.len()).flat_map(|from| (0..to.len()).map(move |into| (from, into)));
                let matrix = matrix.map(|(from, into)| pair(from, into)).collect();
                let most = to.iter().sum::<u64>().max(to.iter().copied().max().unwrap_or(0) * u64::from(ranks));
                Request { traffic: Traffic::Matrix(matrix), ..Request::new(Operation::AllToAllV, Bytes::new(most)) }
            }
        }
    }

    /// What a rank sends in a call of `bytes` among `ranks` ranks on `nodes` nodes, equally many on each (scale-up domains, where
    /// these are of several nodes).
    #[must_use]
    pub fn sent(&self, bytes: Bytes, ranks: u32, nodes: u32) -> Sent {
        let (routed, n) = (self.routed(bytes, nodes, ranks), f64::from(nodes.max(1)));
        let all = |list: &[u64]| list.iter().map(|b| *b as f64).sum::<f64>();
        let inside = f64::from(ranks) / n;
        // Of what goes to all ranks alike from each: to those of other nodes, and to others of the own.
        let direct = |list: &[u64], logical: f64| Sent {
            logical,
            network: all(list) * (n - 1.0) / n,
            scale_up: all(list) * (inside - 1.0) / f64::from(ranks),
        };
        match self.kernels {
            Kernels::Library if self.copies == Copies::Rank => direct(&routed.to_rank, all(&routed.to_rank)),
            Kernels::Library | Kernels::LowLatency => direct(&routed.to_experts, all(&routed.to_experts)),
            Kernels::Normal { .. } => Sent {
                logical: if nodes > 1 { all(&routed.to_node) } else { all(&routed.to_rank) },
                network: all(&routed.to_node) * (n - 1.0) / n,
                // Handed on in the node that it came to, by the relay that has its own part already.
                scale_up: all(&routed.to_rank) * (inside - 1.0) / inside,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experts::Loads;

    fn exchange(kernels: Kernels, shares: Option<Shares>) -> Exchange {
        let experts = Experts { top_nodes: Some(4), groups: Some(8), ..Experts::free(256, 8) };
        Exchange { kernels, back: false, experts, shares, copies: Copies::Every }
    }

    #[test]
    fn a_token_crosses_the_network_once_for_a_node() {
        let bytes = Bytes::mib(8);
        let sent = |kernels| exchange(kernels, None).sent(bytes, 64, 8);
        let (library, normal) = (sent(Kernels::Library), sent(Kernels::Normal { processors: 24 }));
        // All eight copies, seven of eight nodes; or one for each of at most four nodes, 3.6 of them in the mean.
        assert!((library.network / bytes.get() as f64 - 7.0 / 8.0).abs() < 1e-6);
        let copies = normal.network / (bytes.get() as f64 / 8.0);
        assert!(copies > 3.1 && copies <= 3.5, "{copies}");
        // Handed on over NVLink, so that this carries as much in the node as ranks get.
        assert!(normal.scale_up > 4.0 * library.scale_up, "{normal:?} {library:?}");
        assert!((sent(Kernels::LowLatency).network - library.network).abs() < 1.0);
    }

    #[test]
    fn what_goes_to_a_hot_rank_comes_back_from_it() {
        let loads = Loads::hot(256, 8, 2, 1.5);
        let there = exchange(Kernels::Library, Some(Shares::new(loads.parts().iter().copied())));
        let back = Exchange { back: true, ..there.clone() };
        let matrix = |e: &Exchange| match e.request(Bytes::new(8_000_000), 8).traffic {
            Traffic::Matrix(matrix) => matrix,
            _ => panic!(),
        };
        let (to, from) = (matrix(&there), matrix(&back));
        let at = |m: &[u64], a: usize, b: usize| m[a * 8 + b];
        assert_eq!((at(&to, 0, 2), at(&to, 5, 2), at(&to, 0, 1)), (1_500_000, 1_500_000, 928_571));
        assert_eq!((at(&from, 2, 0), at(&from, 2, 5), at(&from, 1, 0)), (1_500_000, 1_500_000, 928_571));
        // Everyone sends as much as before.
        let row = |m: &[u64], r: usize| m[r * 8..][..8].iter().sum::<u64>();
        assert!(row(&to, 4).abs_diff(8_000_000) < 8);
    }
}
