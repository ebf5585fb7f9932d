//! Constants of the selection model: NCCL 2.30.7 `src/graph/tuning.cc` (`ncclTunerConstantsDefaults`), and what earlier
//! releases had in their place. Latencies in µs, bandwidths in GB/s.

use crate::nccl::algorithm::Algorithm;
use crate::nccl::facts::HostCpu;
use crate::nccl::protocol::Protocol;
use crate::nccl::version::Version;

/// The kind of a hop, for its latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    NvLink,
    Pci,
    Network,
}

/// GPU generations, as the tables' rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Generation {
    Volta,
    Ampere,
    Hopper,
    Blackwell,
}

impl Generation {
    /// The row of a compute capability; Blackwell has one of its own from 2.25 on.
    pub(super) const fn of(compute_cap: u32, version: Version) -> Self {
        match compute_cap {
            0..=79 => Self::Volta,
            80..=89 => Self::Ampere,
            100.. if version.since(25) => Self::Blackwell,
            _ => Self::Hopper,
        }
    }
}

/// The base latency of an algorithm and protocol.
pub(super) fn base_latency(algorithm: Algorithm, protocol: Protocol, version: Version) -> f64 {
    let row = match algorithm {
        Algorithm::Tree if (19..23).contains(&version.minor()) => [6.8, 14.0, 0.0],
        Algorithm::Tree => [6.8, 14.0, 8.4],
        Algorithm::Ring => [6.6, 14.0, 8.4],
        Algorithm::Pat => [8.0, 8.0, 8.0],
        _ => [0.0; 3],
    };
    row[protocol.index()]
}

/// The latency of one hop.
pub(super) fn hop_latency(hop: Hop, algorithm: Algorithm, protocol: Protocol, version: Version) -> f64 {
    // Tree with Simple: 4/6/14 in 2.18, 28 everywhere from 2.19 to 2.22, 4/4/14 after.
    let tree_simple = |now, first| match version.minor() {
        ..=18 => first,
        19..=22 => 28.0,
        _ => now,
    };
    let multicast = if version.since(21) { 25.0 } else { 23.0 };
    let simple = |value| [0.0, 0.0, value];
    let row = match (hop, algorithm) {
        (Hop::NvLink, Algorithm::Tree) => [0.6, 1.25, tree_simple(4.0, 4.0)],
        (Hop::NvLink, Algorithm::Ring) => [0.6, 1.9, 3.4],
        (Hop::NvLink | Hop::Pci, Algorithm::CollNetDirect) => simple(3.7),
        (Hop::NvLink | Hop::Pci, Algorithm::CollNetChain) => simple(2.8),
        (Hop::NvLink, Algorithm::Nvls | Algorithm::NvlsTree) => simple(multicast),
        (Hop::NvLink | Hop::Pci, Algorithm::Pat) => simple(4.0),
        (Hop::Pci, Algorithm::Tree) => [1.0, 1.9, tree_simple(4.0, 6.0)],
        (Hop::Pci, Algorithm::Ring) => [1.0, 2.5, 5.7],
        (Hop::Pci, Algorithm::Nvls | Algorithm::NvlsTree) => [0.0; 3],
        (Hop::Network, Algorithm::Tree) => [5.0, 8.5, tree_simple(14.0, 14.0)],
        (Hop::Network, Algorithm::Ring) => [2.7, 4.0, 14.0],
        (Hop::Network, Algorithm::CollNetDirect) => simple(31.0),
        (Hop::Network, Algorithm::CollNetChain) => simple(30.0),
        (Hop::Network, Algorithm::Nvls) => simple(18.0),
        // 2.28 has 20.9; before it the hop counts as a ring's.
        (Hop::Network, Algorithm::NvlsTree) => simple(if version.since(28) { 20.9 } else { 14.0 }),
        (Hop::Network, Algorithm::Pat) => simple(14.0),
    };
    row[protocol.index()]
}

/// The column of a cap: one node, two, or more.
pub(super) const fn scale(nodes: u32) -> usize {
    match nodes {
        0 | 1 => 0,
        2 => 1,
        _ => 2,
    }
}

/// What all LL channels together reach: by GPU on one node, by host CPU on several.
pub(super) fn ll_total(generation: Generation, cpu: HostCpu, nodes: u32, version: Version) -> f64 {
    if nodes == 1 {
        return match generation {
            Generation::Volta => 39.0,
            Generation::Hopper if version.since(21) => 141.0,
            Generation::Ampere | Generation::Hopper => 87.7,
            Generation::Blackwell => 282.0,
        };
    }
    let amd = match cpu {
        HostCpu::Amd => true,
        HostCpu::Mixed => version.since(24),
        _ => false,
    };
    let row = if amd { [87.7, 22.5, 19.0] } else { [39.0, 39.0, 20.4] };
    row[scale(nodes)]
}

/// What one LL128 channel of a ring reaches.
pub(super) fn ring_ll128(generation: Generation, nodes: u32, version: Version) -> f64 {
    let row = match generation {
        Generation::Volta | Generation::Ampere => [20.0; 3],
        Generation::Hopper => [36.7; 3],
        Generation::Blackwell if version.since(29) => [40.0; 3],
        Generation::Blackwell if version.since(28) => [73.4, 34.6, 73.4],
        Generation::Blackwell => [73.4; 3],
    };
    row[scale(nodes)]
}

/// What one LL128 channel of a tree reaches.
pub(super) fn tree_ll128(generation: Generation, nodes: u32, version: Version) -> f64 {
    let row = match generation {
        Generation::Volta | Generation::Ampere => [20.0; 3],
        Generation::Hopper => [36.7, 36.7, 29.0],
        Generation::Blackwell if version.since(28) => [55.6, 31.67, 20.0],
        Generation::Blackwell => [73.4, 73.4, 58.0],
    };
    row[scale(nodes)]
}

/// What one channel of a tree reaches with any protocol.
pub(super) fn tree(generation: Generation, nodes: u32, version: Version) -> f64 {
    let row = match generation {
        Generation::Volta => [26.5, 18.5, 10.0],
        Generation::Ampere => [24.0, 23.6, 17.8],
        Generation::Hopper => [38.7, 41.4, 36.0],
        Generation::Blackwell if version.since(28) => [70.0, 42.8, 24.0],
        Generation::Blackwell => [77.4, 82.8, 72.0],
    };
    row[scale(nodes)]
}

/// What one channel of an NVLS tree reaches; the caps came with 2.28.
pub(super) fn nvls_tree(generation: Generation, nodes: u32, version: Version) -> f64 {
    if !version.since(28) {
        return f64::INFINITY;
    }
    let row = match generation {
        Generation::Volta => [26.5, 18.5, 10.0],
        Generation::Ampere => [24.0, 23.6, 17.8],
        Generation::Hopper => [f64::INFINITY, 57.7, 45.5],
        Generation::Blackwell if version.since(30) => [f64::INFINITY, 96.0, 80.0],
        Generation::Blackwell => [f64::INFINITY, 96.0, 43.8],
    };
    row[scale(nodes)]
}

/// The share of the NVLink rate that NVLS gets.
pub(super) const fn nvls_efficiency(generation: Generation) -> f64 {
    match generation {
        Generation::Volta | Generation::Ampere => 0.0,
        Generation::Hopper => 0.85,
        Generation::Blackwell => 0.74,
    }
}

/// Correction of a tree's bandwidth by log2(bytes / 64), from 64 B on.
const TREE_CORRECTION: [[f64; 24]; 3] = [
    [
        1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0,
        1.0, 1.0,
    ],
    [
        1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0,
        1.0, 1.0,
    ],
    [
        0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9,
        0.9, 0.9,
    ],
];

/// The correction for `bytes`, over the first `entries` of the table; 1 outside.
pub(super) fn tree_correction(protocol: Protocol, bytes: u64, entries: usize) -> f64 {
    let Some(k) = (bytes / 64).checked_ilog2() else { return 1.0 };
    let row = &TREE_CORRECTION[protocol.index()];
    row[..entries.min(row.len())].get(k as usize).copied().unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_correction_covers_64_bytes_to_its_last_entry() {
        assert_eq!(tree_correction(Protocol::Simple, 63, 23), 1.0);
        assert_eq!(tree_correction(Protocol::Simple, 64, 23), 0.9);
        assert_eq!(tree_correction(Protocol::Ll, 64 << 12, 23), 0.4);
        assert_eq!(tree_correction(Protocol::Simple, 64 << 22, 23), 0.9);
        assert_eq!(tree_correction(Protocol::Simple, 64 << 23, 23), 1.0);
        assert_eq!(tree_correction(Protocol::Simple, 64 << 23, 24), 0.9);
    }

    #[test]
    fn trees_with_simple_change_with_the_version() {
        let hop = |minor| hop_latency(Hop::Pci, Algorithm::Tree, Protocol::Simple, Version::v2(minor));
        assert_eq!([hop(18), hop(19), hop(22), hop(23)], [6.0, 28.0, 28.0, 4.0]);
    }
}
