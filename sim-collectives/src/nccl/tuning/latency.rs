//! The latency of an algorithm and protocol (`ncclTopoTuneModel`, NCCL 2.30.7 `src/graph/tuning.cc`).

use super::Setting;
use super::constants::{Hop, base_latency, hop_latency};
use crate::nccl::algorithm::Algorithm;
use crate::nccl::facts::HostCpu;
use crate::nccl::graph::Graph;
use crate::nccl::operation::Operation;
use crate::nccl::path::PathType;
use crate::nccl::protocol::Protocol;

/// floor(log2 n), 0 for 0.
fn log2i(n: u32) -> f64 {
    f64::from(n.checked_ilog2().unwrap_or(0))
}

/// Predicted latency, µs.
pub(super) fn latency_us(
    setting: &Setting<'_>,
    operation: Operation,
    algorithm: Algorithm,
    protocol: Protocol,
    graph: &Graph,
) -> f64 {
    let Setting { facts, version, .. } = *setting;
    let nodes = f64::from(facts.nodes);
    let ranks = f64::from(facts.ranks());
    let ppn = facts.ppn();
    let hop = |hop, algorithm| hop_latency(hop, algorithm, protocol, version);

    let intra_hop = if graph.type_intra == PathType::Nvl { Hop::NvLink } else { Hop::Pci };
    let power_pci = facts.cpu == HostCpu::Power
        && intra_hop == Hop::Pci
        && algorithm == Algorithm::Tree
        && protocol == Protocol::Simple;
    let intra = if power_pci { hop(Hop::Pci, Algorithm::Ring) } else { hop(intra_hop, algorithm) };

    // A flush, one small read, follows each received slice of Simple.
    let nic = facts.nic_latency_us * if protocol == Protocol::Simple { 2.0 } else { 1.0 };
    let like = if facts.gpus_per_node == 1 && version.since(23) { Algorithm::Tree } else { algorithm };
    let inter = hop(Hop::Network, like) + nic;

    let base = base_latency(algorithm, protocol, version);
    match algorithm {
        Algorithm::Ring if matches!(operation, Operation::Broadcast | Operation::Reduce) => {
            let kind = if facts.nodes == 1 { intra_hop } else { Hop::Network };
            if graph.same_channels {
                base + hop(kind, Algorithm::Ring)
            } else {
                let like = if protocol == Protocol::Simple { Algorithm::Tree } else { Algorithm::Ring };
                base + ranks * hop(kind, like)
            }
        }
        Algorithm::Ring => {
            let all_reduce = operation == Operation::AllReduce;
            let steps = (ranks - 1.0) * if all_reduce { 2.0 } else { 1.0 };
            let network_steps = match (facts.nodes, all_reduce) {
                (1, _) => 0.0,
                (_, false) => nodes - 1.0,
                (_, true) if version.since(23) => 2.0 * (nodes - 1.0),
                (_, true) => (2.0 * nodes).min(steps),
            };
            let overhead = match (facts.nodes, protocol) {
                (1, _) => 0.0,
                (_, Protocol::Simple) => 3.0 * setting.net_overhead_us,
                _ => setting.net_overhead_us,
            };
            base + (steps - network_steps) * intra.max(overhead) + network_steps * inter
        }
        Algorithm::Tree => base + 2.0 * ((ppn - 1.0) * intra + log2i(facts.nodes) * inter),
        Algorithm::CollNetDirect => 2.0 * ((ppn - 1.0).min(1.0) * intra + 0.4 * (ppn - 1.0)) + inter,
        Algorithm::CollNetChain => 2.0 * (ppn - 1.0) * intra + inter,
        Algorithm::Nvls => intra + if facts.nodes > 1 { inter } else { 0.0 },
        Algorithm::NvlsTree => intra + 2.0 * log2i(facts.nodes) * inter,
        Algorithm::Pat => base + log2i(facts.nodes) * inter / 3.5 + 2.8 * ranks,
    }
}
