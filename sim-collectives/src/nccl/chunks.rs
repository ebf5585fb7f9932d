//! Buffers, steps, slices and chunks (`src/enqueue.cc`, `calcCollChunking`; `src/init.cc`, `computeBuffSizes`).

use serde::{Deserialize, Serialize};

use super::algorithm::Algorithm;
use super::communicator::Communicator;
use super::knobs::{Knob, Knobs};
use super::operation::Operation;
use super::protocol::Protocol;

/// Slots of a connection (`NCCL_STEPS`).
const STEPS: u32 = 8;
const KIB: u64 = 1 << 10;

/// Buffer bytes of one connection and direction, by protocol, flags included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffers {
    /// LL: 512 KiB.
    pub ll: u64,
    /// LL128: 4,915,200 B.
    pub ll128: u64,
    /// Simple: 4 MiB.
    pub simple: u64,
}

impl Buffers {
    /// NCCL's defaults: 8 lines × 512 threads × 8 steps × 16 B, 120 × 640 × 8 × 8 B, 4 MiB.
    pub const DEFAULT: Self = Self { ll: 512 * KIB, ll128: 4_915_200, simple: 4096 * KIB };

    /// The sizes that the environment variables ask for.
    #[must_use]
    pub fn of(knobs: &Knobs) -> Self {
        let size = |knob, default| knobs.number(knob).and_then(|n| u64::try_from(n).ok()).unwrap_or(default);
        Self {
            ll: size(Knob::LlBuffsize, Self::DEFAULT.ll),
            ll128: size(Knob::Ll128Buffsize, Self::DEFAULT.ll128),
            simple: size(Knob::Buffsize, Self::DEFAULT.simple),
        }
    }

    /// Bytes of the whole buffer.
    #[must_use]
    pub const fn bytes(&self, protocol: Protocol) -> u64 {
        match protocol {
            Protocol::Ll => self.ll,
            Protocol::Ll128 => self.ll128,
            Protocol::Simple => self.simple,
        }
    }

    /// Bytes of one step, an eighth, flags included.
    #[must_use]
    pub const fn step(&self, protocol: Protocol) -> u64 {
        self.bytes(protocol) / STEPS as u64
    }

    /// Data bytes of one step.
    #[must_use]
    pub const fn step_data(&self, protocol: Protocol) -> u64 {
        let (data, wire) = protocol.line();
        self.step(protocol) / wire * data
    }
}

/// How the data of one channel passes through a connection. Sizes are data bytes, without flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunking {
    /// Bytes that one step of the algorithm handles: at most this much moves from one rank to the next before the next
    /// part of the buffer begins.
    pub chunk: u64,
    /// Slices of a full chunk; the receiver can go on after each.
    pub slices: u32,
    /// Bytes of a full slice.
    pub slice: u64,
    /// Least bytes of a slice of a partly filled chunk, until the data ends.
    pub min_slice: u64,
    /// Slots that a slice takes, however full it is.
    pub slice_steps: u32,
    /// Slots of a connection.
    pub steps: u32,
}

impl Chunking {
    /// Slices that the sender can be ahead of the receiver.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.steps / self.slice_steps
    }
}

impl Communicator {
    /// The buffer sizes of its connections.
    #[must_use]
    pub fn buffers(&self) -> Buffers {
        Buffers::of(self.knobs())
    }

    /// Chunks and slices for the portion of one channel: `portion` is that channel's share of the whole call in bytes
    /// (for all-gather and reduce-scatter the per-rank share times the number of ranks). `channels` matters for CollNet
    /// alone, which looks at the whole call: give it `portion` × `channels` bytes in all.
    #[must_use]
    pub fn chunking(
        &self,
        operation: Operation,
        algorithm: Algorithm,
        protocol: Protocol,
        portion: u64,
        channels: u32,
    ) -> Chunking {
        let step = self.buffers().step_data(protocol);
        let ring = algorithm == Algorithm::Ring && protocol == Protocol::Simple;
        // Chains move one step at a time.
        let chain = matches!(operation, Operation::Broadcast | Operation::Reduce);
        let (slices, slice_steps) = if ring && !chain { (2, 2) } else { (1, 1) };
        let full = step.saturating_mul(u64::from(slices * slice_steps));
        let chunk = self.reduced_chunk(operation, algorithm, protocol, portion, channels, full);
        let grain = protocol.grain();
        let chunk = (chunk / grain * grain).max(grain);
        let slice = chunk / u64::from(slices);
        let min_slice = if slices > 1 { slice / 32 } else { slice.min(grain) };
        Chunking { chunk, slices, slice, min_slice, slice_steps, steps: STEPS }
    }

    fn reduced_chunk(
        &self,
        operation: Operation,
        algorithm: Algorithm,
        protocol: Protocol,
        portion: u64,
        channels: u32,
        full: u64,
    ) -> u64 {
        let facts = self.facts();
        let nodes = facts.nodes;
        let ppn = facts.ppn();
        let log_nodes = f64::from(nodes.max(1).ilog2());
        let depth = ppn - 1.0 + log_nodes;
        let plan = self.nvls();
        let heads = u64::from(plan.heads);
        match (algorithm, protocol) {
            (Algorithm::Tree, Protocol::Ll128) => {
                let steps = 1.0 + log_nodes + 0.1 * ppn;
                halve(portion, full, 1, &[(steps * 64.0 / ppn, 128 * KIB), (steps * 16.0 / ppn, 32 * KIB)])
            }
            (Algorithm::Tree, Protocol::Simple) => {
                halve(portion, full, 1, &[(depth * 8.0, 128 * KIB), (depth * 4.0, 64 * KIB), (depth, 32 * KIB)])
            }
            (Algorithm::Nvls, _) => {
                let mut start = full.min(plan.chunk);
                let all_reduce = self.table(Operation::AllReduce).get(Algorithm::Nvls, Protocol::Simple);
                let slow = all_reduce.map_or(f64::INFINITY, |cost| cost.bandwidth_gbps) < 150.0;
                if nodes > 1 && slow {
                    start = start.min(32 * KIB);
                }
                cap(portion, start, heads, &[(64, 64 * KIB), (8, 32 * KIB), (2, 16 * KIB)])
            }
            (Algorithm::NvlsTree, _) => {
                let start = full.min(plan.chunk).min(plan.tree_chunk);
                cap(portion, start, heads, &[(32, 256 * KIB), (16, 128 * KIB), (4, 64 * KIB), (1, 32 * KIB)])
            }
            (Algorithm::Pat, _) => {
                let ahead = if operation == Operation::ReduceScatter { 16 } else { 32 };
                let mut chunk = full;
                while chunk.saturating_mul(ahead) > portion && chunk > 64 * KIB {
                    chunk /= 2;
                }
                chunk
            }
            (Algorithm::CollNetDirect, _) => {
                let depth = if facts.gpus_per_node > 1 { 2.0 } else { 1.0 };
                let parts = u64::from(channels.max(1)) * self.graphs().collnet.map_or(1, |g| u64::from(g.channels));
                let whole = portion.saturating_mul(u64::from(channels.max(1)));
                let steps = [(depth * 64.0, 128 * KIB), (depth * 8.0, 64 * KIB), (depth * 8.0, 32 * KIB)];
                halve(whole, full, parts, &steps)
            }
            (Algorithm::CollNetChain, _) => {
                let steps = [(depth * 64.0, 128 * KIB), (depth * 8.0, 64 * KIB), (depth, 32 * KIB)];
                halve(portion, full.min(256 * KIB), 1, &steps)
            }
            (Algorithm::Ring, _) | (Algorithm::Tree, Protocol::Ll) => full,
        }
    }
}

/// For each (chunks, floor): halves the chunk while there are fewer than so many and it is above the floor.
fn halve(bytes: u64, start: u64, parts: u64, rules: &[(f64, u64)]) -> u64 {
    let mut chunk = start;
    for &(fewest, floor) in rules {
        while chunk > floor && ((bytes / (parts * chunk).max(1)) as f64) < fewest {
            chunk /= 2;
        }
    }
    chunk
}

/// For each (loops, size): lowers the chunk to the size if the data makes fewer than so many loops over the heads.
fn cap(bytes: u64, start: u64, heads: u64, rules: &[(u64, u64)]) -> u64 {
    let mut chunk = start;
    for &(loops, size) in rules {
        if chunk > size && bytes < loops.saturating_mul(heads).saturating_mul(chunk) {
            chunk = size;
        }
    }
    chunk
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nccl::{Facts, Version};

    fn comm(nodes: u32) -> Communicator {
        Communicator::new(Facts::nvswitch(90, 8, nodes), Version::NEWEST, Knobs::default()).unwrap()
    }

    fn chunk(nodes: u32, algorithm: Algorithm, protocol: Protocol, portion: u64) -> Chunking {
        comm(nodes).chunking(Operation::AllReduce, algorithm, protocol, portion, 16)
    }

    #[test]
    fn ring_chunks_do_not_depend_on_the_size() {
        for portion in [1, 1 << 20, 1 << 30] {
            let simple = chunk(1, Algorithm::Ring, Protocol::Simple, portion);
            assert_eq!((simple.chunk, simple.slices, simple.slice), (2 << 20, 2, 1 << 20));
            assert_eq!((simple.min_slice, simple.in_flight()), (32 << 10, 4));
            assert_eq!(chunk(1, Algorithm::Ring, Protocol::Ll, portion).chunk, 32 << 10);
            assert_eq!(chunk(1, Algorithm::Ring, Protocol::Ll128, portion).chunk, 576_000);
        }
    }

    #[test]
    fn chains_move_one_step() {
        let chain = comm(1).chunking(Operation::Broadcast, Algorithm::Ring, Protocol::Simple, 1 << 30, 16);
        assert_eq!((chain.chunk, chain.slices, chain.in_flight()), (512 << 10, 1, 8));
    }

    #[test]
    fn nvls_chunks_grow_with_the_data() {
        let of = |portion| chunk(1, Algorithm::Nvls, Protocol::Simple, portion).chunk / KIB;
        assert_eq!([of(1 << 30), of(32 << 20), of(4 << 20), of(256 << 10)], [128, 64, 64, 16]);
    }

    #[test]
    fn nvls_tree_chunks_shrink_over_many_nodes() {
        assert_eq!(chunk(2, Algorithm::NvlsTree, Protocol::Simple, 1 << 30).chunk, 128 * KIB);
        assert_eq!(chunk(8, Algorithm::NvlsTree, Protocol::Simple, 1 << 30).chunk, 64 * KIB);
        assert_eq!(chunk(2, Algorithm::NvlsTree, Protocol::Simple, 64 * KIB).chunk, 32 * KIB);
    }

    #[test]
    fn tree_chunks_are_whole_grains() {
        for portion in [1 << 16, 1 << 20, 1 << 24, 1 << 28] {
            let ll128 = chunk(16, Algorithm::Tree, Protocol::Ll128, portion).chunk;
            assert_eq!(ll128 % 1920, 0);
            assert!((16 * KIB..=576_000).contains(&ll128), "{ll128}");
        }
        assert_eq!(chunk(16, Algorithm::Tree, Protocol::Ll128, 1 << 28).chunk, 576_000);
    }

    #[test]
    fn the_buffer_sets_the_chunk() {
        let mut knobs = Knobs::default();
        knobs.set("NCCL_BUFFSIZE", "8388608").unwrap();
        let comm = Communicator::new(Facts::nvswitch(90, 8, 1), Version::NEWEST, knobs).unwrap();
        assert_eq!(comm.chunking(Operation::AllReduce, Algorithm::Ring, Protocol::Simple, 1 << 30, 24).chunk, 4 << 20);
    }
}
