//! The table of latencies and bandwidths that NCCL fills once per communicator.

mod availability;
mod bandwidth;
mod constants;
mod latency;

use core::fmt;

use serde::{Deserialize, Serialize};

use super::algorithm::Algorithm;
use super::communicator::Communicator;
use super::facts::{Facts, HostCpu};
use super::graph::Graphs;
use super::knobs::{Knob, Knobs};
use super::operation::Operation;
use super::protocol::Protocol;
use super::version::Version;

/// What the model thinks an algorithm and protocol cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Time of an empty call, µs.
    pub latency_us: f64,
    /// Bytes of the call per time beyond that, GB/s.
    pub bandwidth_gbps: f64,
}

/// Why an algorithm and protocol are not offered for an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is one rank only; the call is a local copy.
    SingleRank,
    /// The operation is made of sends and receives.
    PointToPoint(Operation),
    /// NCCL has no such implementation of the operation.
    NotForOperation(Operation),
    /// NCCL has no such implementation of the algorithm.
    SimpleOnly,
    /// The search found no graph for the algorithm.
    NoGraph,
    /// It came with a later release.
    Since(Version),
    /// An environment variable excludes it.
    Excluded(Knob),
    /// It needs GPUs of this compute capability.
    ComputeCap(u32),
    /// LL128 needs GPUs that are alike.
    MixedGpus,
    /// LL128 needs better paths between GPUs, or between GPU and NIC.
    PathTooFar(&'static str),
    /// It needs NVSwitch multicast.
    NoMulticast,
    /// It needs at least two heads.
    OneHead,
    /// It needs every GPU to be a head.
    HeadPerGpu,
    /// It exists between nodes only.
    OneNode,
    /// Across nodes it needs reduction in the network.
    NoOffload,
    /// It needs one NIC for every GPU.
    NicPerGpu,
    /// It needs one GPU per node.
    SeveralGpusPerNode,
    /// The NVSwitch cannot reduce the element type with that operator.
    Element,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SingleRank => f.write_str("one rank only: a local copy"),
            Self::PointToPoint(op) => write!(f, "{op} is made of sends and receives"),
            Self::NotForOperation(op) => write!(f, "not implemented for {op}"),
            Self::SimpleOnly => f.write_str("runs with Simple only"),
            Self::NoGraph => f.write_str("the search found no graph for it"),
            Self::Since(version) => write!(f, "since NCCL {version}"),
            Self::Excluded(knob) => write!(f, "excluded by {}", knob.name()),
            Self::ComputeCap(cap) => {
                write!(f, "needs compute capability {}.{} or later on every GPU", cap / 10, cap % 10)
            }
            Self::MixedGpus => f.write_str("needs GPUs of equal compute capability, or all 9.0 or later"),
            Self::PathTooFar(which) => f.write_str(which),
            Self::NoMulticast => f.write_str("needs NVSwitch multicast (NVLS)"),
            Self::OneHead => f.write_str("needs at least two head GPUs"),
            Self::HeadPerGpu => f.write_str("needs every GPU of the domain to be a head, 32 at most"),
            Self::OneNode => f.write_str("exists between nodes only"),
            Self::NoOffload => {
                f.write_str("across nodes needs in-network reduction (SHARP) with NCCL_COLLNET_ENABLE=1")
            }
            Self::NicPerGpu => f.write_str("across nodes needs a NIC for every GPU"),
            Self::SeveralGpusPerNode => f.write_str("needs one GPU per node, or NCCL_PAT_ENABLE=1"),
            Self::Element => f.write_str("the NVSwitch cannot reduce this element type and operator"),
        }
    }
}

/// Cost, or the reason for none, of every algorithm and protocol for one operation.
#[derive(Clone, Debug, PartialEq)]
pub struct CostTable {
    operation: Operation,
    entries: [[Result<Cost, Reason>; 3]; 7],
}

impl CostTable {
    /// The operation that the table is for.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    /// The cost of `algorithm` with `protocol`.
    ///
    /// # Errors
    /// Why it is not offered.
    pub fn get(&self, algorithm: Algorithm, protocol: Protocol) -> Result<Cost, &Reason> {
        self.entries[algorithm.index()][protocol.index()].as_ref().copied()
    }

    /// All entries in NCCL's order.
    pub fn entries(&self) -> impl Iterator<Item = (Algorithm, Protocol, Result<Cost, &Reason>)> {
        Algorithm::ALL.into_iter().flat_map(move |a| Protocol::ALL.into_iter().map(move |p| (a, p, self.get(a, p))))
    }
}

/// The table of `operation`, as the communicator computed it when it was built.
#[must_use]
pub fn cost_table(comm: &Communicator, operation: Operation) -> CostTable {
    fill(&Setting::of(comm), operation)
}

/// What the formulas look at.
pub(super) struct Setting<'a> {
    pub(super) facts: &'a Facts,
    pub(super) graphs: &'a Graphs,
    pub(super) version: Version,
    pub(super) knobs: &'a Knobs,
    pub(super) net_overhead_us: f64,
}

impl<'a> Setting<'a> {
    fn of(comm: &'a Communicator) -> Self {
        Self::new(comm.facts(), comm.graphs(), comm.version(), comm.knobs())
    }

    pub(super) fn new(facts: &'a Facts, graphs: &'a Graphs, version: Version, knobs: &'a Knobs) -> Self {
        // 1 µs, 2 µs on AMD; the variable is in ns.
        let default = if facts.cpu == HostCpu::Amd { 2.0 } else { 1.0 };
        let net_overhead_us = knobs.number(Knob::NetOverhead).map_or(default, |ns| ns as f64 / 1000.0);
        Self { facts, graphs, version, knobs, net_overhead_us }
    }
}

/// Computes the table of `operation`.
pub(super) fn fill(setting: &Setting<'_>, operation: Operation) -> CostTable {
    let entry = |algorithm, protocol| {
        let graph = availability::check(setting, operation, algorithm, protocol)?;
        Ok(Cost {
            latency_us: latency::latency_us(setting, operation, algorithm, protocol, graph),
            bandwidth_gbps: bandwidth::bandwidth_gbps(setting, operation, algorithm, protocol, graph),
        })
    };
    let entries = Algorithm::ALL.map(|algorithm| Protocol::ALL.map(|protocol| entry(algorithm, protocol)));
    CostTable { operation, entries }
}

/// Bandwidth of a tree by size: small messages do not reach the table's.
pub(super) fn size_correction(
    setting: &Setting<'_>,
    operation: Operation,
    algorithm: Algorithm,
    protocol: Protocol,
    bytes: u64,
) -> f64 {
    match algorithm {
        Algorithm::Tree if operation == Operation::AllReduce => constants::tree_correction(protocol, bytes, 23),
        Algorithm::NvlsTree
            if setting.version.since(29) && setting.facts.compute_cap >= 100 && setting.facts.cpu.is_x86() =>
        {
            constants::tree_correction(protocol, bytes, 24)
        }
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests;
