//! A collective call from request to program: what NCCL chooses, or what is forced, and the lanes of it.

use sim_core::program::Program;
use sim_core::units::{Bytes, Span};
use sim_topology::RouteError;

use crate::algorithms;
use crate::call::{Call, ChannelWork, PointToPoint};
use crate::lanes::Lanes;
use crate::lower::{Lowering, SEGMENT};
use crate::machine::Machine;
use crate::nccl::{Algorithm, Element, NoCandidate, Operation, P2pPlan, Protocol, launch, split};
use crate::timing::CallShape;

/// Slots of a connection (`NCCL_STEPS`).
const SLOTS: u32 = 8;
/// Slots of a channel's buffer pool, which its network connections for sends and receives share (`NCCL_SHARED_STEPS`).
const SHARED_SLOTS: u32 = 16;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// The size column of nccl-tests: the buffer, or for gathers and scatters the whole of all ranks.
    pub bytes: Bytes,
    /// Bytes of an element.
    pub element: Element,
    /// Forced algorithm, by name.
    pub algorithm: Option<Algorithm>,
    /// Forced protocol.
    pub protocol: Option<Protocol>,
    /// Forced number of channels.
    pub channels: Option<u32>,
    /// The root of operations that have one.
    pub root: u32,
    /// How often the call is made, back to back.
    pub iterations: u32,
}

impl Request {
    /// A sum of floats, chosen by NCCL, once.
    #[must_use]
    pub fn new(operation: Operation, bytes: Bytes) -> Self {
        Self {
            operation,
            bytes,
            element: Element::default(),
            algorithm: None,
            protocol: None,
            channels: None,
            root: 0,
            iterations: 1,
        }
    }
}

/// What will be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// The protocol.
    pub protocol: Protocol,
    /// Channels that carry data.
    pub channels: u32,
    /// The call.
    pub call: Call,
    operation: Operation,
    threads: u32,
}

/// Why a call can't be run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PlanError {
    /// NCCL offers nothing.
    #[error(transparent)]
    NoCandidate(#[from] NoCandidate),
    /// The algorithm can't do it, or is not modelled.
    #[error("{algorithm} does not do {operation} here{}", why.as_ref().map_or(String::new(), |w| format!(": {w}")))]
    Unable {
        /// The algorithm.
        algorithm: String,
        /// The operation.
        operation: Operation,
        /// The reason.
        why: Option<String>,
    },
    /// A device can't be reached.
    #[error("{0}")]
    Route(#[from] RouteError),
}

impl Machine<'_> {
    /// What NCCL would run for `request`, or what is forced.
    ///
    /// # Errors
    /// If nothing can run it.
    pub fn plan(&self, request: &Request) -> Result<Plan, PlanError> {
        if request.operation.is_point_to_point() {
            return self.plan_messages(request);
        }
        let n = u64::from(self.ranks());
        let bytes = request.bytes.get();
        let per_rank = match request.operation {
            Operation::AllGather | Operation::ReduceScatter => bytes / n,
            _ => bytes,
        };
        let (algorithm, protocol) = self.choose(request)?;
        let launch = launch(&self.comm, algorithm, protocol, bytes);
        let most = request.channels.unwrap_or(launch.channels).max(1);
        let traffic = request.operation.traffic_per_byte(self.ranks());
        let element = request.element.datatype.bytes();
        let parts = split(per_rank, element, traffic, protocol, most);
        let channels: Vec<ChannelWork> = parts
            .parts()
            .map(|part| {
                let whole = if per_rank == bytes { part.bytes } else { part.bytes * n };
                let c = self.comm.chunking(request.operation, algorithm, protocol, whole, parts.channels.max(1));
                ChannelWork {
                    channel: part.channel,
                    bytes: part.bytes,
                    chunk: c.chunk,
                    slices: c.slices,
                    min_slice: c.min_slice,
                    slots: c.in_flight().max(1) as u16,
                }
            })
            .collect();
        let call = Call {
            group: self.group.clone(),
            channels,
            root: request.root.min(self.ranks() - 1),
            second_tree: (self.comm.channels() / 2).max(1),
            p2p: PointToPoint::default(),
        };
        self.finish_plan(request, &algorithm.to_string(), protocol, launch.threads, call)
    }

    fn finish_plan(
        &self,
        request: &Request,
        name: &str,
        protocol: Protocol,
        threads: u32,
        call: Call,
    ) -> Result<Plan, PlanError> {
        let unable =
            |why: Option<String>| PlanError::Unable { algorithm: name.to_owned(), operation: request.operation, why };
        let algorithm = algorithms::by_name(name).ok_or_else(|| unable(Some("it is not modelled yet".into())))?;
        if !algorithm.can(request.operation, &call) {
            return Err(unable(None));
        }
        let used = if request.operation.is_point_to_point() { call.p2p.parts() } else { call.channels.len() as u32 };
        Ok(Plan { algorithm: algorithm.name(), protocol, channels: used, call, operation: request.operation, threads })
    }

    /// The forced algorithm and protocol, with NCCL's preference for what is left open.
    fn choose(&self, request: &Request) -> Result<(Algorithm, Protocol), PlanError> {
        let (operation, bytes) = (request.operation, request.bytes.get());
        if self.ranks() == 1 {
            return Ok((Algorithm::Ring, Protocol::Simple));
        }
        if request.algorithm.is_none() && request.protocol.is_none() {
            let choice = self.comm.choose_of(operation, bytes, request.element)?;
            return Ok((choice.algorithm, choice.protocol));
        }
        let fits = |a: Algorithm, p: Protocol| {
            request.algorithm.is_none_or(|f| f == a) && request.protocol.is_none_or(|f| f == p)
        };
        let offered = self
            .comm
            .candidates_of(operation, bytes, request.element)
            .into_iter()
            .filter(|c| fits(c.algorithm, c.protocol))
            .filter_map(|c| match c.verdict {
                crate::nccl::Verdict::Offered { time_us, .. } => Some((time_us, c.algorithm, c.protocol)),
                crate::nccl::Verdict::NotOffered(_) => None,
            })
            .min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, algorithm, protocol)) = offered {
            return Ok((algorithm, protocol));
        }
        // What NCCL would not offer by default (a tree of a small node, LL128 on a slow path) can still be forced; what
        // the machine or the protocol can't do can't.
        let (algorithm, protocol) =
            (request.algorithm.unwrap_or(Algorithm::Ring), request.protocol.unwrap_or(Protocol::Simple));
        let unable = |why: &str| {
            Err(PlanError::Unable { algorithm: algorithm.to_string(), operation, why: Some(why.to_owned()) })
        };
        let multimem = matches!(algorithm, Algorithm::Nvls | Algorithm::NvlsTree);
        let nodes = self.group.nodes().len();
        if multimem && !self.comm.facts().multicast {
            return unable(
                "it needs NVSwitches that reduce (Hopper or later), NCCL_NVLS_ENABLE, and nodes of equal size",
            );
        }
        if multimem && protocol != Protocol::Simple {
            return unable("it runs with the Simple protocol only");
        }
        if algorithm == Algorithm::Nvls && nodes > 1 {
            return unable("it works inside one NVLink domain; nvls_tree goes on between nodes");
        }
        if algorithm == Algorithm::NvlsTree && nodes == 1 {
            return unable("it joins several nodes; inside one it is nvls");
        }
        Ok((algorithm, protocol))
    }

    fn plan_messages(&self, request: &Request) -> Result<Plan, PlanError> {
        let n = u64::from(self.ranks());
        let (name, message) = match request.operation {
            Operation::AllToAll => ("pairwise", request.bytes.get() / n),
            _ => ("sendrecv", request.bytes.get()),
        };
        let plan = self.comm.p2p();
        let nodes = self.group.nodes().len() as u32;
        let per_node = self.ranks() / nodes.max(1);
        // A shift by one rank is not an all-to-all: only the neighbour counts.
        let ranges = plan.part_ranges(message);
        let part = ranges.first().map_or(message, |(_, bytes)| *bytes);
        let parts = if part == 0 { 1 } else { message.div_ceil(part) as u32 };
        let ll = plan.uses_ll(part, nodes == 1);
        let step = if nodes > 1 { plan.network_step(part) } else { plan.step };
        // A batch over the network is the peers of one node.
        let batch = P2pPlan::BATCH.min(if nodes > 1 { per_node.max(1) } else { P2pPlan::BATCH });
        let peers = if request.operation == Operation::AllToAll { batch } else { 1 };
        let rounds = if request.operation == Operation::AllToAll { n as u32 } else { 2 };
        let call = Call {
            group: self.group.clone(),
            channels: Vec::new(),
            root: 0,
            second_tree: 1,
            p2p: PointToPoint {
                message,
                part,
                channels: request.channels.unwrap_or(plan.channels).max(parts).max(1),
                first_channel: (0..rounds).map(|r| plan.first_channel(r)).collect(),
                step,
                slots: if nodes > 1 { (SHARED_SLOTS / peers).min(SLOTS) as u16 } else { SLOTS as u16 },
                batch,
                relay: plan.pxn_level > 0,
            },
        };
        let protocol = request.protocol.unwrap_or(if ll { Protocol::Ll } else { Protocol::Simple });
        self.finish_plan(request, name, protocol, 640, call)
    }
}

impl Plan {
    /// The lanes of the call, for checks and drawings.
    #[must_use]
    pub fn lanes(&self) -> Lanes {
        let mut lanes = Lanes::new(self.call.group.ranks());
        if let Some(algorithm) = algorithms::by_name(self.algorithm) {
            algorithm.write(self.operation, &self.call, &mut lanes);
        }
        lanes
    }

    /// The engine's program of the call, `iterations` times back to back.
    ///
    /// # Errors
    /// If a device can't be reached.
    pub fn program(&self, machine: &Machine<'_>, iterations: u32) -> Result<Program, PlanError> {
        let facts = machine.comm.facts();
        let planned = if facts.nvlink_total_gbps > 0.0 {
            facts.nvlink_total_gbps / f64::from(self.channels.max(1))
        } else {
            f64::INFINITY
        };
        let timing = machine.timing.call(CallShape {
            protocol: self.protocol,
            threads: self.threads,
            heads: machine.comm.nvls().heads,
            between_nodes: self.call.group.nodes().len() > 1,
            planned_gbps: planned,
        });
        let mut lowering = Lowering::new(machine, timing, self.protocol, SEGMENT);
        if let Some(algorithm) = algorithms::by_name(self.algorithm) {
            algorithm.write(self.operation, &self.call, &mut lowering);
        }
        Ok(lowering.finish(iterations, Span::ZERO)?)
    }
}
