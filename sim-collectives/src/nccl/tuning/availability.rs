//! Which algorithms and protocols are offered for an operation (NCCL 2.30.7 `src/graph/tuning.cc`, second half of
//! `ncclTopoTuneModel`, and `src/init.cc`).

use super::{Reason, Setting};
use crate::nccl::algorithm::Algorithm;
use crate::nccl::graph::Graph;
use crate::nccl::knobs::Knob;
use crate::nccl::operation::Operation;
use crate::nccl::path::PathType;
use crate::nccl::protocol::Protocol;
use crate::nccl::version::Version;

/// The graph that the combination runs on, or why it is not offered.
pub(super) fn check<'a>(
    setting: &Setting<'a>,
    operation: Operation,
    algorithm: Algorithm,
    protocol: Protocol,
) -> Result<&'a Graph, Reason> {
    let Setting { facts, knobs, .. } = *setting;
    if operation.is_point_to_point() {
        return Err(Reason::PointToPoint(operation));
    }
    if facts.ranks() <= 1 {
        return Err(Reason::SingleRank);
    }
    implemented(operation, algorithm, protocol, setting.version)?;
    machine(setting, operation, algorithm)?;
    let graph = setting.graphs.of(algorithm).ok_or(Reason::NoGraph)?;
    if algorithm.is_nvls() && graph.channels < 2 {
        return Err(Reason::OneHead);
    }
    // A head multicasts, or reads reduced, its own part only.
    if algorithm == Algorithm::Nvls && operation != Operation::AllReduce && graph.channels < facts.gpus_per_node {
        return Err(Reason::HeadPerGpu);
    }
    if knobs.algorithms().is_some_and(|list| !list.allows(operation, algorithm)) {
        return Err(Reason::Excluded(Knob::Algo));
    }
    match knobs.protocols() {
        Some(list) if !list.allows(operation, protocol) => return Err(Reason::Excluded(Knob::Proto)),
        // Asked for by name, LL128 is used wherever it runs at all.
        Some(list) if list.names(operation) => {}
        _ if protocol == Protocol::Ll128 => ll128(setting, graph)?,
        _ => {}
    }
    Ok(graph)
}

/// Which combinations NCCL has code for.
fn implemented(operation: Operation, algorithm: Algorithm, protocol: Protocol, version: Version) -> Result<(), Reason> {
    use Algorithm::{CollNetChain, CollNetDirect, Nvls, NvlsTree, Pat, Ring, Tree};
    let since = match (operation, algorithm) {
        (Operation::Barrier, _) => return Err(Reason::NotForOperation(operation)),
        (_, Ring) | (Operation::AllReduce, Tree | CollNetDirect | CollNetChain | Nvls | NvlsTree) => 18,
        (Operation::AllGather | Operation::ReduceScatter, Nvls) => 19,
        (Operation::AllGather | Operation::ReduceScatter, CollNetDirect) => 20,
        (Operation::AllGather | Operation::ReduceScatter, Pat) => 23,
        _ => return Err(Reason::NotForOperation(operation)),
    };
    if !version.since(since) {
        return Err(Reason::Since(Version::v2(since)));
    }
    if protocol != Protocol::Simple && !matches!(algorithm, Ring | Tree) {
        return Err(Reason::SimpleOnly);
    }
    Ok(())
}

/// What the algorithm needs of the machine.
fn machine(setting: &Setting<'_>, operation: Operation, algorithm: Algorithm) -> Result<(), Reason> {
    let Setting { facts, knobs, .. } = *setting;
    let offload = || if facts.collnet { Ok(()) } else { Err(Reason::NoOffload) };
    let nic_per_gpu = || {
        let needed = operation != Operation::AllReduce && facts.nodes > 1;
        if needed && facts.nics_per_node < facts.gpus_per_node { Err(Reason::NicPerGpu) } else { Ok(()) }
    };
    match algorithm {
        Algorithm::Tree | Algorithm::Ring => Ok(()),
        Algorithm::CollNetDirect | Algorithm::CollNetChain => {
            if facts.nodes < 2 {
                return Err(Reason::OneNode);
            }
            offload()?;
            nic_per_gpu()
        }
        Algorithm::Nvls | Algorithm::NvlsTree => {
            if knobs.number(Knob::NvlsEnable) == Some(0) {
                return Err(Reason::Excluded(Knob::NvlsEnable));
            }
            if facts.compute_cap < 90 {
                return Err(Reason::ComputeCap(90));
            }
            if !facts.multicast {
                return Err(Reason::NoMulticast);
            }
            match (algorithm, facts.nodes) {
                (Algorithm::NvlsTree, 1) => Err(Reason::OneNode),
                (Algorithm::Nvls, 2..) => offload().and_then(|()| nic_per_gpu()),
                _ => Ok(()),
            }
        }
        Algorithm::Pat => match knobs.number(Knob::PatEnable) {
            Some(0) => Err(Reason::Excluded(Knob::PatEnable)),
            enabled if enabled != Some(1) && facts.gpus_per_node != 1 => Err(Reason::SeveralGpusPerNode),
            _ if facts.nodes == 1 && facts.gpus_per_node == 1 => Err(Reason::OneNode),
            _ if facts.compute_cap < 60 => Err(Reason::ComputeCap(60)),
            _ => Ok(()),
        },
    }
}

/// LL128 relies on 128-byte stores arriving whole, which holds on near paths only.
fn ll128(setting: &Setting<'_>, graph: &Graph) -> Result<(), Reason> {
    let Setting { facts, knobs, .. } = *setting;
    if facts.compute_cap < 70 {
        return Err(Reason::ComputeCap(70));
    }
    if !facts.uniform_compute_cap && facts.compute_cap < 90 {
        return Err(Reason::MixedGpus);
    }
    if graph.type_intra > PathType::Nvb {
        return Err(Reason::PathTooFar("needs NVLink between all GPUs of a node"));
    }
    let through_cpu_link = knobs.number(Knob::Ll128C2c) != Some(0);
    let (farthest, why) = if facts.compute_cap >= 90 && through_cpu_link {
        (PathType::Pxn, "needs NICs at PXN or nearer")
    } else {
        (PathType::Pxb, "needs NICs at PXB or nearer")
    };
    if facts.nodes > 1 && graph.type_inter > farthest {
        return Err(Reason::PathTooFar(why));
    }
    Ok(())
}
