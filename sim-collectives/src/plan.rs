//! A collective call from request to program: what NCCL chooses, or what is forced, and the lanes of it.

use std::sync::Arc;

use sim_core::program::Program;
use sim_core::units::Bytes;
use sim_topology::RouteError;

use crate::algorithms::{self, Cut, Limit, Name, serving};
use crate::call::{Call, ChannelWork, PointToPoint, Routed};
use crate::experts::{Experts, Shares};
use crate::lanes::{Lanes, Work};
use crate::launch::Messages;
use crate::lower::{Lowering, SEGMENT};
use crate::machine::Machine;
use crate::nccl::{Algorithm, Element, NoCandidate, Operation, P2pPlan, Protocol, Tuned, blocks, split};
use crate::timing::{CallShape, Key};

/// Slots of a connection (`NCCL_STEPS`).
const SLOTS: u32 = 8;
/// Slots of a channel's buffer pool, which its network connections for sends and receives share (`NCCL_SHARED_STEPS`).
const SHARED_SLOTS: u32 = 16;

/// Bytes of a chunk of a kernel that works without NCCL's buffers, where it relays.
const RELAY_CHUNK: u64 = 128 << 10;
/// Thread blocks of such a kernel that relay at once.
const RELAY_CHANNELS: u32 = 10;

/// What goes where, in operations that leave it open.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Traffic {
    /// Equally much to everyone.
    #[default]
    Even,
    /// Bytes from each rank to each, row by row.
    Matrix(Arc<[u64]>),
    /// Tokens to experts; the request's size is one copy of a rank's tokens.
    Experts(Experts),
    /// The same to experts of which some are chosen more often than others.
    Uneven(Experts, Shares),
}

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
    pub algorithm: Option<Name>,
    /// Forced protocol.
    pub protocol: Option<Protocol>,
    /// Forced number of channels.
    pub channels: Option<u32>,
    /// The root of operations that have one.
    pub root: u32,
    /// What goes where.
    pub traffic: Traffic,
    /// How often the call is made, back to back.
    pub iterations: u32,
    /// How queue pairs carry it over links of packets ([`Flow::way`](sim_core::program::Flow::way)).
    pub way: u16,
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
            traffic: Traffic::Even,
            iterations: 1,
            way: 0,
        }
    }
}

/// Bytes of a barrier: one element.
const BARRIER: Bytes = Bytes::new(4);

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
        let name = request.algorithm.and_then(|name| serving::resolve(name, &self.situation(request)));
        let library = name.map_or(Ok(None), |name| name.as_str().parse::<Algorithm>().map(Some));
        let request = &Request { algorithm: name, ..request.clone() };
        match (name.and_then(|name| algorithms::by_name(name.as_str())), library) {
            (Some(own), Err(_)) => match own.cut() {
                Cut::Messages => self.plan_messages(request, own.name()),
                Cut::Whole(_) => self.plan_whole(request, own.name()),
                Cut::Nccl => self.plan_channels(request, Algorithm::Ring, own.name()),
            },
            (_, library) => self.plan_library(request, library.ok().flatten()),
        }
    }

    /// What a serving engine's rule looks at.
    fn situation(&self, request: &Request) -> serving::Situation<'_> {
        let facts = self.comm.facts();
        serving::Situation {
            operation: request.operation,
            bytes: request.bytes.get(),
            element: request.element.datatype.bytes(),
            sm: facts.compute_cap,
            nvlink: self.joined(),
            group: &self.group,
        }
    }

    /// Whether NVLink joins every two of the group's GPUs, directly or through switches: rings and cube meshes do not. Engines'
    /// kernels are for eight GPUs at most.
    fn joined(&self) -> bool {
        let others = |at: usize| self.gpus[at + 1..].iter();
        self.gpus.len() <= 8
            && self.gpus.iter().enumerate().all(|(at, a)| others(at).all(|b| self.fabric.nvlinks(*a, *b) > 0))
    }

    /// NCCL's choice, or one of its algorithms.
    fn plan_library(&self, request: &Request, forced: Option<Algorithm>) -> Result<Plan, PlanError> {
        use Operation::{AllReduce, Barrier, Gather, Scatter, SendRecv};
        match request.operation {
            // Frameworks make a barrier of an all-reduce of one element.
            Barrier => {
                let flag = Request { operation: AllReduce, bytes: BARRIER, ..request.clone() };
                self.plan_library(&flag, forced)
            }
            SendRecv => self.plan_messages(request, "sendrecv"),
            Gather => self.plan_messages(request, "gather"),
            Scatter => self.plan_messages(request, "scatter"),
            operation if operation.is_point_to_point() => self.plan_messages(request, "pairwise"),
            _ => {
                let tuned = self.tuned(request, forced);
                let (algorithm, protocol) = match tuned {
                    Some(tuned) => (tuned.algorithm, tuned.protocol),
                    None => self.choose(request, forced)?,
                };
                let channels = request.channels.or(tuned.and_then(|tuned| tuned.channels));
                let channels =
                    channels.map(|most| if request.channels.is_some() { most } else { most.min(self.most(algorithm)) });
                let request = Request { protocol: Some(protocol), channels, ..request.clone() };
                self.plan_channels(&request, algorithm, algorithm.name())
            }
        }
    }

    /// A call that is divided over channels as NCCL does it for `algorithm`, run by the one called `name`.
    fn plan_channels(&self, request: &Request, algorithm: Algorithm, name: &str) -> Result<Plan, PlanError> {
        let n = u64::from(self.ranks());
        let bytes = request.bytes.get();
        let protocol = request.protocol.unwrap_or(Protocol::Simple);
        let per_rank = match request.operation {
            Operation::AllGather | Operation::ReduceScatter => bytes / n,
            _ => bytes,
        };
        let blocks = blocks(&self.comm, algorithm, protocol, bytes);
        let most = request.channels.unwrap_or(blocks.channels).max(1);
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
        let call = Call { channels, ..self.call(request) };
        self.finish_plan(request, name, protocol, blocks.threads, call)
    }

    /// A kernel that works on all of the data at once.
    fn plan_whole(&self, request: &Request, name: &str) -> Result<Plan, PlanError> {
        let n = u64::from(self.ranks());
        let bytes = match request.operation {
            Operation::AllGather | Operation::ReduceScatter | Operation::AllToAll => request.bytes.get() / n,
            Operation::Barrier => BARRIER.get(),
            _ => request.bytes.get(),
        };
        let relays = matches!(request.operation, Operation::Dispatch | Operation::Combine);
        let count = if relays { request.channels.unwrap_or(RELAY_CHANNELS) } else { 1 };
        let chunk = if relays { RELAY_CHUNK } else { bytes.max(1) };
        let work = |channel| ChannelWork { channel, bytes, chunk, slices: 1, min_slice: 0, slots: SLOTS as u16 };
        let call = Call { channels: (0..count.max(1)).map(work).collect(), ..self.call(request) };
        self.finish_plan(request, name, Protocol::Simple, 512, call)
    }

    /// What all calls have in common.
    fn call(&self, request: &Request) -> Call {
        let nodes = self.group.nodes();
        let routed = |experts: &Experts, shares: Option<&Shares>| {
            experts.routed(request.bytes.get(), nodes.len() as u32, self.ranks(), shares)
        };
        let routed = match &request.traffic {
            Traffic::Experts(experts) => routed(experts, None),
            Traffic::Uneven(experts, shares) => routed(experts, Some(shares)),
            Traffic::Even | Traffic::Matrix(_) => Routed::default(),
        };
        Call {
            group: self.group.clone(),
            channels: Vec::new(),
            root: request.root.min(self.ranks() - 1),
            second_tree: (self.comm.channels() / 2).max(1),
            heads: self.comm.graphs().collnet.as_ref().map_or(1, |graph| graph.channels),
            p2p: PointToPoint::default(),
            routed,
        }
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
            let gathers = matches!(request.operation, Operation::AllGather | Operation::ReduceScatter);
            let why = match name {
                "nvls" if gathers && call.group.nodes().len() > 1 => {
                    Some("every GPU has to be a head with a NIC, 32 a node at most, and nodes of equal size")
                }
                "nvls" if gathers => Some("every GPU of the domain has to be a head, and there are 32 at most"),
                "collnet_direct" if gathers => Some("every GPU has to be a head with a NIC, and nodes of equal size"),
                _ => None,
            };
            return Err(unable(why.map(str::to_owned)));
        }
        let used = if algorithm.cut() == Cut::Messages { call.p2p.parts() } else { call.channels.len() as u32 };
        Ok(Plan { algorithm: algorithm.name(), protocol, channels: used, call, operation: request.operation, threads })
    }

    /// What the tuner asks for, where nothing is forced.
    fn tuned(&self, request: &Request, forced: Option<Algorithm>) -> Option<Tuned> {
        let free = forced.is_none() && request.protocol.is_none() && self.ranks() > 1;
        let file = self.tuner.as_ref().filter(|_| free)?;
        file.tuned(&self.comm, request.operation, request.bytes.get(), request.element)
    }

    /// Channels of the communicator for an algorithm.
    fn most(&self, algorithm: Algorithm) -> u32 {
        if algorithm.is_nvls() { self.comm.nvls().channels } else { self.comm.channels() }
    }

    /// The forced algorithm and protocol, with NCCL's preference for what is left open.
    fn choose(&self, request: &Request, forced: Option<Algorithm>) -> Result<(Algorithm, Protocol), PlanError> {
        let (operation, bytes) = (request.operation, request.bytes.get());
        if self.ranks() == 1 {
            return Ok((Algorithm::Ring, Protocol::Simple));
        }
        if forced.is_none() && request.protocol.is_none() {
            let choice = self.comm.choose_of(operation, bytes, request.element)?;
            return Ok((choice.algorithm, choice.protocol));
        }
        let fits = |a: Algorithm, p: Protocol| forced.is_none_or(|f| f == a) && request.protocol.is_none_or(|f| f == p);
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
        let (algorithm, protocol) = (forced.unwrap_or(Algorithm::Ring), request.protocol.unwrap_or(Protocol::Simple));
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
            return unable(if operation == Operation::AllReduce {
                "between nodes it needs switches that reduce (SHARP) and NCCL_COLLNET_ENABLE=1; nvls_tree does not"
            } else {
                "between nodes it needs switches that reduce (SHARP), NCCL_COLLNET_ENABLE=1, and a NIC for every GPU"
            });
        }
        if algorithm == Algorithm::NvlsTree && nodes == 1 {
            return unable("it joins several nodes; inside one it is nvls");
        }
        if algorithm.is_collnet() && !self.comm.facts().collnet {
            return unable("it needs switches that reduce (SHARP), NCCL_COLLNET_ENABLE=1 and at least two nodes");
        }
        Ok((algorithm, protocol))
    }

    /// Sends and receives.
    fn plan_messages(&self, request: &Request, name: &str) -> Result<Plan, PlanError> {
        use Operation::{AllToAll, Combine, Dispatch, Gather, Scatter, SendRecv};
        let n = u64::from(self.ranks());
        let call = self.call(request);
        let matrix = match &request.traffic {
            Traffic::Matrix(matrix) => matrix.to_vec(),
            Traffic::Uneven(..) if call.routed.is_uneven() => {
                let to = &call.routed.to_rank;
                // What is sent to a rank comes back from it.
                let row =
                    |from: usize| (0..to.len()).map(move |at| to[if request.operation == Combine { from } else { at }]);
                (0..to.len()).flat_map(row).collect()
            }
            _ => Vec::new(),
        };
        let message = match request.operation {
            _ if !matrix.is_empty() => matrix.iter().copied().max().unwrap_or(0),
            AllToAll | Operation::AllToAllV | Gather | Scatter => request.bytes.get() / n,
            Dispatch | Combine => call.routed.to_rank.first().copied().unwrap_or(0),
            _ => request.bytes.get(),
        };
        let plan = self.comm.p2p();
        let nodes = self.group.nodes().len() as u32;
        let per_node = self.ranks() / nodes.max(1);
        // A shift by one rank is not an all-to-all: only the neighbour counts.
        let ranges = plan.part_ranges(message);
        let part = ranges.first().map_or(message, |(_, bytes)| *bytes);
        let parts = if part == 0 { 1 } else { message.div_ceil(part) as u32 };
        let ll = plan.uses_ll(message, nodes == 1);
        let step = match nodes {
            1 if ll => plan.ll_step,
            1 => plan.step,
            _ => plan.network_step(message),
        };
        // A batch over the network is the peers of one node.
        let batch = P2pPlan::BATCH.min(if nodes > 1 { per_node.max(1) } else { P2pPlan::BATCH });
        let peers = if request.operation == SendRecv { 1 } else { batch };
        let rounds = if request.operation == SendRecv { 2 } else { n as u32 };
        let call = Call {
            p2p: PointToPoint {
                message,
                matrix,
                part,
                channels: request.channels.unwrap_or(plan.channels).max(parts).max(1),
                first_channel: (0..rounds).map(|r| plan.first_channel(r)).collect(),
                step,
                slots: if nodes > 1 { (SHARED_SLOTS / peers).min(SLOTS) as u16 } else { SLOTS as u16 },
                batch,
                relay: plan.relays(),
            },
            ..call
        };
        let protocol = request.protocol.unwrap_or(if ll { Protocol::Ll } else { Protocol::Simple });
        self.finish_plan(request, name, protocol, 640, call)
    }
}

impl Plan {
    /// Threads of each channel's block.
    #[must_use]
    pub const fn threads(&self) -> u32 {
        self.threads
    }

    /// What bounds a channel, beside the links.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        algorithms::by_name(self.algorithm)?.limit(self.protocol)
    }

    /// Sends and receives of the busiest rank, if the call is made of them.
    #[must_use]
    pub fn messages(&self) -> Messages {
        algorithms::by_name(self.algorithm).map_or(Messages::default(), |algorithm| algorithm.messages(&self.call))
    }

    /// What the cost of a step depends on beside its work.
    fn shape(&self, machine: &Machine<'_>) -> CallShape {
        let facts = machine.comm.facts();
        let planned = if facts.nvlink_total_gbps > 0.0 {
            facts.nvlink_total_gbps / f64::from(self.channels.max(1))
        } else {
            f64::INFINITY
        };
        CallShape {
            protocol: self.protocol,
            threads: self.threads,
            heads: machine.comm.nvls().heads,
            between_nodes: self.call.group.nodes().len() > 1,
            planned_gbps: planned,
        }
    }

    /// What a channel can move, GB/s of data: the rate of its limit, or what slices of the call come to where their first pass
    /// has another rate than the rest. `None` if nothing but the links bounds a channel.
    #[must_use]
    pub fn channel_rate(&self, machine: &Machine<'_>) -> Option<f64> {
        let limit = self.limit()?;
        let value = machine.timing.parameter(limit.parameter).value;
        let planned = machine.comm.facts().nvlink_total_gbps / f64::from(self.channels.max(1));
        let work = match limit.parameter {
            Key::RingLlRate | Key::RingLl128Rate => Some(Work::Ring),
            Key::TreeLlRate | Key::TreeLl128Rate => Some(Work::Tree),
            _ => None,
        };
        match (work, self.call.channels.first()) {
            (Some(work), Some(part)) => {
                let slice = part.chunk.min(part.bytes).div_ceil(u64::from(part.slices.max(1)));
                // Looked at aside: no time rests on what this asks for.
                let timing = machine.timing.clone().watched();
                Some(timing.call(self.shape(machine)).data_rate(work, slice))
            }
            _ if limit.planned && planned > 0.0 => Some(value.min(planned)),
            _ => Some(value),
        }
    }

    /// What a channel moves of a lone message in each direction, GB/s: the steps of its sender, one after the other. `None` for
    /// calls that are no shift by one rank: where several messages share a channel, it depends on which are under way.
    #[must_use]
    pub fn message_rate(&self, machine: &Machine<'_>) -> Option<f64> {
        let p2p = &self.call.p2p;
        (self.operation == Operation::SendRecv && p2p.message > 0).then(|| {
            // Looked at aside: no time rests on what this asks for.
            let timing = machine.timing.clone().watched();
            let slice = p2p.step.min(p2p.part).max(1);
            timing.call(self.shape(machine)).step_rate(Work::PointToPoint { width: 1 }, slice)
        })
    }

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
        let timing = machine.timing.call(self.shape(machine));
        let kernel = match algorithms::by_name(self.algorithm).map(algorithms::Algorithm::cut) {
            Some(Cut::Whole(key)) => machine.timing.span(key),
            _ => machine.launch.kernel_time(&machine.timing),
        };
        let mut lowering = Lowering::new(machine, timing, self.protocol, SEGMENT, kernel);
        if let Some(algorithm) = algorithms::by_name(self.algorithm) {
            algorithm.write(self.operation, &self.call, &mut lowering);
        }
        Ok(lowering.finish(iterations, machine.launch.host_time(self, &machine.timing))?)
    }
}
