//! The bandwidth of an algorithm and protocol (`ncclTopoTuneModel`, NCCL 2.30.7 `src/graph/tuning.cc`).

use super::Setting;
use super::constants::{self, Generation};
use crate::nccl::algorithm::Algorithm;
use crate::nccl::graph::{Graph, Pattern};
use crate::nccl::operation::Operation;
use crate::nccl::protocol::Protocol;

/// Predicted algorithm bandwidth, GB/s: bytes of the call per time beyond the latency.
pub(super) fn bandwidth_gbps(
    setting: &Setting<'_>,
    operation: Operation,
    algorithm: Algorithm,
    protocol: Protocol,
    graph: &Graph,
) -> f64 {
    bus_gbps(setting, operation, algorithm, protocol, graph) * to_algorithm(setting, operation, algorithm)
}

/// What the links carry, GB/s.
fn bus_gbps(
    setting: &Setting<'_>,
    operation: Operation,
    algorithm: Algorithm,
    protocol: Protocol,
    graph: &Graph,
) -> f64 {
    let Setting { facts, version, .. } = *setting;
    let generation = Generation::of(facts.compute_cap, version);
    let nodes = facts.nodes;
    let channels = f64::from(graph.channels);
    let all_reduce = operation == Operation::AllReduce;

    let speed = if algorithm.is_nvls() {
        nvls_channel_gbps(setting, operation, algorithm, graph)
    } else if nodes <= 2 || algorithm.is_collnet() {
        graph.bw_intra
    } else {
        graph.bw_inter
    };
    let bus = channels * speed;
    let ll_total = constants::ll_total(generation, facts.cpu, nodes, version);

    match algorithm {
        Algorithm::Ring => match protocol {
            Protocol::Ll => ll_total.min(bus * ring_ll_share(setting, operation)),
            Protocol::Ll128 => {
                // One GPU per node used to be taken for slower.
                let share = if facts.gpus_per_node == 1 && !version.since(23) { 0.7 } else { 0.92 };
                (share * bus).min(channels * constants::ring_ll128(generation, nodes, version))
            }
            Protocol::Simple => bus,
        },
        Algorithm::Tree => {
            let bus = (0.92 * bus).min(channels * constants::tree(generation, nodes, version));
            let bus = match protocol {
                Protocol::Ll => (bus / 3.8).min(ll_total),
                Protocol::Ll128 => {
                    let share = if nodes == 1 { 7.0 / 9.0 } else { 120.0 / 128.0 };
                    (share * bus).min(channels * constants::tree_ll128(generation, nodes, version))
                }
                Protocol::Simple => bus,
            };
            if graph.pattern == Pattern::Tree { 0.85 * bus } else { bus }
        }
        Algorithm::Pat => bus * if version.since(24) { 0.75 } else { 0.85 },
        Algorithm::CollNetDirect if !all_reduce => facts.ppn() * graph.bw_intra.min(0.9 * graph.bw_inter),
        Algorithm::CollNetDirect => {
            let factor = facts.ppn() / channels;
            let factor = factor - (factor - 1.0) / 2.0;
            bus / factor * if facts.compute_cap >= 90 { 0.85 } else { 1.0 }
        }
        Algorithm::CollNetChain | Algorithm::Nvls | Algorithm::NvlsTree => bus,
    }
}

/// The share of a ring's rate that LL gets: half, a quarter or a third before 2.21.
const fn ring_ll_share(setting: &Setting<'_>, operation: Operation) -> f64 {
    if setting.version.since(21) {
        0.5
    } else if setting.facts.nodes > 1 || matches!(operation, Operation::AllReduce | Operation::Reduce) {
        0.25
    } else {
        1.0 / 3.0
    }
}

/// The speed of one NVLS channel, GB/s.
fn nvls_channel_gbps(setting: &Setting<'_>, operation: Operation, algorithm: Algorithm, graph: &Graph) -> f64 {
    let Setting { facts, version, .. } = *setting;
    let tree = algorithm == Algorithm::NvlsTree;
    if !version.since(28) {
        // The lesser side; trees over more than two nodes send and receive twice.
        let inter = if tree && facts.nodes > 2 { graph.bw_inter / 2.0 } else { graph.bw_inter };
        // All-gather and reduce-scatter are held to 0.9 of the NIC since 2.26.
        let share = if operation == Operation::AllReduce || facts.nodes == 1 || !version.since(26) { 1.0 } else { 0.9 };
        return graph.bw_intra.min(share * inter);
    }
    let generation = Generation::of(facts.compute_cap, version);
    let channels = f64::from(graph.channels);
    let all_reduce = operation == Operation::AllReduce;
    let ppn = facts.ppn();
    let intra = graph.bw_intra * constants::nvls_efficiency(generation) * (channels - 1.0) / channels
        * if all_reduce { 2.0 } else { (ppn - 1.0) / ppn };
    let inter = match (tree, facts.nodes) {
        (true, 2) => 2.0 * graph.bw_inter,
        (false, 2..) if !all_reduce => 0.9 * graph.bw_inter,
        _ => graph.bw_inter,
    };
    let cap = if tree { constants::nvls_tree(generation, facts.nodes, version) } else { f64::INFINITY };
    intra.min(inter).min(cap)
}

/// Algorithm bandwidth over bus bandwidth.
fn to_algorithm(setting: &Setting<'_>, operation: Operation, algorithm: Algorithm) -> f64 {
    let Setting { facts, version, .. } = *setting;
    let ranks = f64::from(facts.ranks());
    let steps = match operation {
        Operation::AllReduce => 2.0 * (ranks - 1.0),
        Operation::AllGather | Operation::ReduceScatter => ranks - 1.0,
        _ => ranks,
    };
    let nodes = f64::from(facts.nodes);
    match algorithm {
        Algorithm::Ring => ranks / steps,
        Algorithm::NvlsTree if !version.since(19) => 0.70 * nodes / (2.0 * (nodes - 1.0)),
        Algorithm::Nvls | Algorithm::NvlsTree if !version.since(28) => 5.0 / 6.0,
        _ if matches!(operation, Operation::AllGather | Operation::ReduceScatter) => 1.0,
        Algorithm::Nvls | Algorithm::NvlsTree => ranks / steps,
        _ => 0.5,
    }
}
