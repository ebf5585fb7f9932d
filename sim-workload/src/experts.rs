//! Tokens to experts: how many ranks and nodes a token goes to, what is sent, by which kernels, how uneven it is.
//!
//! How many different ranks and nodes have an expert of a token: [`sim_collectives::experts`].

mod loads;

use sim_collectives::experts::Experts;
use sim_core::units::Bytes;

pub use loads::{Draw, Imbalance, Loads};

use crate::model::ExpertLayer;

/// What an element of a token takes: its own bytes, and a scale for a block of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Bytes of an element.
    pub width: u64,
    /// Bytes of a scale, and elements that share it.
    pub scale: Option<(u64, u64)>,
}

impl Payload {
    /// Two bytes, no scale.
    pub const BF16: Self = Self { width: 2, scale: None };
    /// One byte, and an fp32 scale for 128 (DeepSeek-V3).
    pub const FP8: Self = Self { width: 1, scale: Some((4, 128)) };

    /// Bytes of one token of `hidden` elements.
    #[must_use]
    pub const fn token(&self, hidden: u64) -> Bytes {
        let scales = match self.scale {
            Some((bytes, block)) => hidden.div_ceil(block) * bytes,
            None => 0,
        };
        Bytes::new(hidden * self.width + scales)
    }
}

/// Which copies of a token are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Copies {
    /// One for each expert.
    #[default]
    Every,
    /// One for each rank that holds an expert of the token.
    Rank,
}

/// What takes tokens to experts and results back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Kernels {
    /// Sends and receives of the library, grouped in one call.
    #[default]
    Library,
    /// DeepEP's kernels for training and prefill, on so many processors of the GPU: over the network once to each node of a token, to the
    /// GPU there on the sender's rail, which hands it on over the scale-up network.
    Normal {
        /// Processors that they take while they run; two for a channel.
        processors: u32,
    },
    /// DeepEP's kernels for decoding: to each expert's rank directly, and no processor is taken while messages are under way.
    LowLatency,
}

/// Where the experts of a layer lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Experts E.
    pub experts: u64,
    /// Experts of a token K.
    pub top_k: u64,
    /// Ranks e.
    pub ranks: u64,
    /// Nodes N that the ranks are on.
    pub nodes: u64,
    /// Groups of experts, and the most of them that a token goes to; the groups are the nodes where they are not said.
    pub limit: Option<(Option<u64>, u64)>,
}

impl Routing {
    /// The experts of `layer` on `ranks` ranks of `nodes` nodes.
    #[must_use]
    pub fn of(layer: ExpertLayer, ranks: u64, nodes: u64) -> Self {
        let limit = layer.groups.map(|(groups, top)| (Some(groups), top));
        Self { experts: layer.experts, top_k: layer.top_k, ranks, nodes, limit }
    }

    /// As the library of collectives knows them.
    #[must_use]
    pub fn library(&self) -> Experts {
        Experts {
            experts: number(self.experts),
            top_k: number(self.top_k),
            top_nodes: self.limit.map(|(_, top)| number(top)),
            groups: self.limit.and_then(|(groups, _)| groups).map(number),
        }
    }

    /// Expected number of different ranks that a token goes to.
    #[must_use]
    pub fn ranks_of_token(&self) -> f64 {
        self.library().reaches(number(self.ranks), number(self.nodes)) * self.ranks.max(1) as f64
    }

    /// Expected number of different nodes that a token goes to.
    #[must_use]
    pub fn nodes_of_token(&self) -> f64 {
        self.library().reaches(number(self.nodes), number(self.nodes)) * self.nodes.max(1) as f64
    }

    /// Bytes that a rank sends for `tokens` tokens, itself included.
    #[must_use]
    pub fn sent(&self, tokens: u64, hidden: u64, payload: Payload, copies: Copies) -> Bytes {
        let token = payload.token(hidden).get();
        match copies {
            Copies::Every => Bytes::new(tokens * self.top_k * token),
            Copies::Rank => Bytes::new((tokens as f64 * self.ranks_of_token() * token as f64).round() as u64),
        }
    }

    /// Bytes that leave a rank's node for `tokens` tokens when each other node gets a copy once.
    #[must_use]
    pub fn leaves_node(&self, tokens: u64, hidden: u64, payload: Payload) -> Bytes {
        let others = self.nodes_of_token() * (self.nodes.max(1) - 1) as f64 / self.nodes.max(1) as f64;
        Bytes::new((tokens as f64 * others * payload.token(hidden).get() as f64).round() as u64)
    }

    /// Tokens that an expert takes with a capacity of `millionths` millionths of its mean load, T·K·e/E: the excess is dropped.
    #[must_use]
    pub fn capacity(&self, tokens: u64, millionths: u64) -> u64 {
        let mean = u128::from(tokens) * u128::from(self.top_k) * u128::from(self.ranks);
        let slots = (mean * u128::from(millionths)).div_ceil(u128::from(self.experts.max(1)) * 1_000_000);
        u64::try_from(slots).unwrap_or(u64::MAX)
    }

    /// Bytes that a rank sends when all experts' places are filled up to their capacity: Cf·T·K·h·w.
    #[must_use]
    pub fn padded(&self, tokens: u64, hidden: u64, payload: Payload, millionths: u64) -> Bytes {
        let copies = u128::from(tokens) * u128::from(self.top_k) * u128::from(millionths);
        let copies = u64::try_from(copies.div_ceil(1_000_000)).unwrap_or(u64::MAX);
        payload.token(hidden) * copies
    }
}

fn number(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_core::units::Rate;

    fn deepseek(ranks: u64, nodes: u64, top_nodes: Option<u64>) -> Routing {
        Routing { experts: 256, top_k: 8, ranks, nodes, limit: top_nodes.map(|top| (None, top)) }
    }

    #[test]
    fn distinct_ranks_of_the_reference() {
        assert_eq!(format!("{:.1}", deepseek(8, 1, None).ranks_of_token()), "5.3");
        assert_eq!(format!("{:.1}", deepseek(64, 8, None).ranks_of_token()), "7.7");
        // Near e·(1 − (1 − 1/e)^K), the draw with replacement.
        for e in [2u64, 8, 32, 64] {
            let n = e as f64;
            let replaced = n * (1.0 - (1.0 - 1.0 / n).powi(8));
            let exact = deepseek(e, 1, None).ranks_of_token();
            assert!(exact >= replaced && exact < replaced * 1.02, "{e}: {exact} {replaced}");
        }
        assert!((deepseek(1, 1, None).ranks_of_token() - 1.0).abs() < 1e-12);
        assert!((deepseek(256, 32, None).ranks_of_token() - 8.0).abs() < 1e-9);
    }

    #[test]
    fn a_limit_of_nodes() {
        let free = deepseek(64, 8, None);
        let bound = deepseek(64, 8, Some(4));
        assert!(free.nodes_of_token() > 5.0);
        assert!(bound.nodes_of_token() <= 4.0 && bound.nodes_of_token() > 3.5);
        assert!(bound.leaves_node(4096, 7168, Payload::FP8) < free.leaves_node(4096, 7168, Payload::FP8));
        assert_eq!(deepseek(8, 1, None).leaves_node(4096, 7168, Payload::FP8), Bytes::ZERO);
    }

    #[test]
    fn three_experts_a_node_keep_both_networks_busy() {
        // NVLink at 160 GB/s forwards what RDMA brings at 50 GB/s: 3.2 copies of each token.
        let (token, tokens) = (Payload::FP8.token(7168), 1 << 20);
        let rdma = Rate::gbyte(50).time_for(token * tokens);
        let nvlink = Rate::gbyte(160).time_for(Bytes::new((token * tokens).get() * 32 / 10));
        assert!(rdma.as_us() / nvlink.as_us() > 0.999_999 && rdma.as_us() / nvlink.as_us() < 1.000_001);
    }

    #[test]
    fn low_latency_dispatch_of_the_reference() {
        // 128 tokens × 8 × 7168 with scales: 7.57 MB; in 77 µs that is 98 GB/s, as printed.
        let bytes = deepseek(8, 1, None).sent(128, 7168, Payload::FP8, Copies::Every);
        assert_eq!(format!("{:.2}", bytes.get() as f64 / 1e6), "7.57");
        assert_eq!(format!("{:.0}", bytes.get() as f64 / 77e-6 / 1e9), "98");
        assert_eq!(Payload::FP8.token(7168), Bytes::new(7168 + 224));
    }

    #[test]
    fn capacities() {
        // 4096 tokens, 8 experts each, from 8 ranks, to 256 experts: 1024 a mean expert.
        let routing = deepseek(8, 1, None);
        assert_eq!(routing.capacity(4096, 1_000_000), 1024);
        assert_eq!(routing.capacity(4096, 1_250_000), 1280);
        let padded = routing.padded(4096, 7168, Payload::BF16, 1_250_000);
        assert_eq!(padded.get() * 4, routing.sent(4096, 7168, Payload::BF16, Copies::Every).get() * 5);
    }
}
