//! The coarse schedule: a graph of computations, collectives and transfers that every workload produces.
//!
//! A collective in it is not unrolled: when it starts it becomes lanes, then a program of the engine, and both are
//! dropped when it ends. Nodes start when all nodes they come after have ended, and not before their own start.

use std::time::{Duration, Instant};

use sim_core::engine::{Engine, Limits, LoadError, Notice};
use sim_core::ids::LinkId;
use sim_core::net::SpecError;
use sim_core::outcome::{Outcome, StopReason};
use sim_core::program::{Cost, Layout, Program, Spacing};
use sim_core::program_builder::{ConnShape, CreditShape, ProgramBuilder};
use sim_core::units::{Bytes, Rate, Span, Time};

use crate::lower::SEGMENT;
use crate::machine::Machine;
use crate::plan::{PlanError, Request};

/// A message between two devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its links.
    pub route: Vec<LinkId>,
    /// Its size.
    pub bytes: Bytes,
    /// When it starts, after the node does.
    pub start: Span,
    /// Time from then to the first byte: what software needs before it copies.
    pub launch: Span,
    /// The rate at which the sender's software copies, if that bounds it.
    pub pace: Option<Rate>,
    /// Copies through buffers: the size of one, of which there are two at each stop, and how many links of the route
    /// come before each stop. A buffer is full before it is sent on.
    pub buffers: Option<(Bytes, Vec<usize>)>,
    /// Parts that follow one another, no more than so many under way; without it all of a message goes at once. What takes turns
    /// with other messages for long needs it where links queue in order of arrival: else the rest of the message stands before them.
    pub window: Option<Window>,
    /// How queue pairs carry it over links of packets ([`Flow::way`](sim_core::program::Flow::way)).
    pub way: u16,
}

impl Message {
    /// A message that needs no software.
    #[must_use]
    pub const fn new(route: Vec<LinkId>, bytes: Bytes, start: Span) -> Self {
        Self { route, bytes, start, launch: Span::ZERO, pace: None, buffers: None, window: None, way: 0 }
    }
}

/// What a message has under way at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The size of a part.
    pub part: Bytes,
    /// Parts under way.
    pub parts: u16,
}

impl Window {
    /// As much as a connection of NCCL has under way: eight parts of a buffer of 4 MiB (`NCCL_BUFFSIZE`, `NCCL_STEPS`; NCCL
    /// src/include/device.h and its documentation).
    pub const NCCL: Self = Self { part: Bytes::new(512 << 10), parts: 8 };
}

/// What a node does.
#[derive(Clone, Debug)]
pub enum Work {
    /// Takes time, and nothing else.
    Compute(Span),
    /// A collective of the communicator with this index.
    Collective {
        /// Index in the list of communicators.
        communicator: usize,
        /// The call.
        request: Request,
    },
    /// Messages that need no software: each goes as soon as it may.
    Transfers(Vec<Message>),
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it does.
    pub work: Work,
    /// Nodes that must have ended.
    pub after: Vec<usize>,
    /// The earliest start, from the beginning of the run.
    pub start: Span,
}

/// The graph.
#[derive(Clone, Debug, Default)]
pub struct StepGraph {
    nodes: Vec<Node>,
}

/// One iteration of one participant of a node: a rank of a collective, a message of a transfer list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The rank, or the message's index.
    pub index: u32,
    /// The iteration.
    pub iteration: u32,
    /// When it started.
    pub started: Time,
    /// When it ended.
    pub ended: Time,
}

/// What happened to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeOutcome {
    /// When it started; `None` if it never did.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// Its participants, in order of their ends.
    pub parts: Vec<Part>,
}

/// What a run of a graph gave.
#[derive(Clone, Debug)]
pub struct Executed {
    /// Per node.
    pub nodes: Vec<NodeOutcome>,
    /// The engine's measurements.
    pub outcome: Outcome,
    /// Time on the clock that the event loop took, without lowering and loading.
    pub wall: Duration,
}

/// Why a graph could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// A collective can't be run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// It is larger than the engine can number.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The part of the network that carries packets is not described consistently.
    #[error(transparent)]
    Packets(#[from] SpecError),
    /// A node comes after one that does not exist, or after itself.
    #[error("node {node} comes after node {after}, which is not before it")]
    Order {
        /// The node.
        node: usize,
        /// What it names.
        after: usize,
    },
}

impl StepGraph {
    /// Adds a node and returns its index.
    ///
    /// # Errors
    /// If it comes after a node that is not there yet: a graph is written in order, so it has no cycles.
    pub fn add(&mut self, node: Node) -> Result<usize, ExecuteError> {
        let index = self.nodes.len();
        if let Some(after) = node.after.iter().find(|a| **a >= index) {
            return Err(ExecuteError::Order { node: index, after: *after });
        }
        self.nodes.push(node);
        Ok(index)
    }

    /// The nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Plays the graph over the fabric of `machines` (which all share one), or over `network` where it has none.
    ///
    /// # Errors
    /// If a collective of it can't be run.
    pub fn execute(
        &self,
        network: &sim_core::network::Network,
        mtu: Bytes,
        machines: &[&Machine<'_>],
        limits: Limits,
    ) -> Result<Executed, ExecuteError> {
        let mut run = Run {
            graph: self,
            machines,
            mtu,
            waiting: self.nodes.iter().map(|n| n.after.len()).collect(),
            ready: self.nodes.iter().map(|n| Time::ZERO + n.start).collect(),
            followers: vec![Vec::new(); self.nodes.len()],
            of_program: Vec::new(),
            nodes: vec![NodeOutcome::default(); self.nodes.len()],
            error: None,
            lowering: Duration::ZERO,
        };
        for (i, node) in self.nodes.iter().enumerate() {
            for after in &node.after {
                run.followers[*after].push(i);
            }
        }
        let limits = Limits { one_program: self.nodes.len() == 1, ..limits };
        let mut engine = Engine::new(network, mtu, limits);
        if let Some(plan) = network.packets() {
            engine.set_net(plan.clone())?;
        }
        for i in 0..self.nodes.len() {
            if run.waiting[i] == 0 {
                run.schedule(&mut engine, i);
            }
        }
        let clock = Instant::now();
        let reason = engine.run(|engine, notice| run.hear(engine, notice));
        let Run { nodes, error, lowering, .. } = run;
        let wall = clock.elapsed().saturating_sub(lowering);
        match error {
            Some(error) => Err(error),
            None => Ok(Executed { nodes, outcome: engine.finish(reason), wall }),
        }
    }
}

struct Run<'a> {
    graph: &'a StepGraph,
    machines: &'a [&'a Machine<'a>],
    mtu: Bytes,
    waiting: Vec<usize>,
    ready: Vec<Time>,
    followers: Vec<Vec<usize>>,
    of_program: Vec<usize>,
    nodes: Vec<NodeOutcome>,
    error: Option<ExecuteError>,
    /// Time spent on making and loading programs.
    lowering: Duration,
}

impl Run<'_> {
    /// All that the node comes after has ended: a timer starts it when it may.
    fn schedule(&self, engine: &mut Engine, node: usize) {
        engine.set_timer(self.ready[node], node as u32 * 2);
    }

    fn hear(&mut self, engine: &mut Engine, notice: Notice) {
        if self.error.is_some() {
            return;
        }
        match notice {
            Notice::Timer { number, at } if number % 2 == 0 => self.begin(engine, number as usize / 2, at),
            Notice::Timer { number, at } => self.end(engine, number as usize / 2, at),
            Notice::Kernel { program, kernel, iteration, started, ended } => {
                let node = self.of_program[program as usize];
                self.nodes[node].parts.push(Part { index: kernel, iteration, started, ended });
            }
            // The node ends when its last part does, which can be after this is known.
            Notice::Program { program, ended } => {
                let node = self.of_program[program as usize];
                engine.set_timer(ended.max(engine.now()), node as u32 * 2 + 1);
            }
        }
    }

    fn begin(&mut self, engine: &mut Engine, node: usize, at: Time) {
        let clock = Instant::now();
        self.start(engine, node, at);
        self.lowering += clock.elapsed();
    }

    fn start(&mut self, engine: &mut Engine, node: usize, at: Time) {
        self.nodes[node].started = Some(at);
        let program = match &self.graph.nodes[node].work {
            Work::Compute(span) => return engine.set_timer(at + *span, node as u32 * 2 + 1),
            Work::Collective { communicator, request } => {
                let machine = self.machines[*communicator];
                let program = machine.plan(request).and_then(|plan| plan.program(machine, request.iterations));
                program.map(|mut program| {
                    program.flows.iter_mut().for_each(|flow| flow.way = request.way);
                    program
                })
            }
            Work::Transfers(messages) => Ok(transfers(messages, self.mtu)),
        };
        let loaded = program.map_err(ExecuteError::from).and_then(|p| Ok(engine.load(p, at)?));
        match loaded {
            Ok(number) => {
                self.of_program.resize(number as usize + 1, usize::MAX);
                self.of_program[number as usize] = node;
            }
            Err(error) => self.error = Some(error),
        }
    }

    fn end(&mut self, engine: &mut Engine, node: usize, at: Time) {
        self.nodes[node].ended = Some(at);
        for follower in core::mem::take(&mut self.followers[node]) {
            self.waiting[follower] -= 1;
            self.ready[follower] = self.ready[follower].max(at);
            if self.waiting[follower] == 0 {
                self.schedule(engine, follower);
            }
        }
    }
}

/// The program of messages without software: each a kernel of its own, that ends when the last byte has arrived.
#[must_use]
pub fn transfers(messages: &[Message], mtu: Bytes) -> Program {
    let mut b = ProgramBuilder::new();
    let free = b.cost(Cost::default());
    for message in messages {
        b.carried(message.way);
        let cost = match message.pace {
            Some(rate) => b.cost(Cost { per_byte: rate.ps_per_byte(), ..Cost::default() }),
            None => free,
        };
        let kernel = b.kernel(Span::ZERO, message.start);
        let total = message.bytes.get();
        let (piece, stops) = match &message.buffers {
            Some((piece, stops)) if !stops.is_empty() => (piece.get().clamp(1, total.max(1)), stops.as_slice()),
            _ => (message.window.map_or(total, |window| window.part.get().clamp(1, total.max(1))), &[][..]),
        };
        let slots = if stops.is_empty() { message.window.map_or(1, |window| window.parts.max(1)) } else { 2 };
        let cut = Layout { chunk: piece, last_chunk: piece, ..Layout::whole(total) };
        let layout = b.layout(if piece == total { Layout::whole(total) } else { cut });
        if message.bytes == Bytes::ZERO || message.route.is_empty() {
            continue;
        }
        let shape = ConnShape {
            segment: segment_of(Bytes::new(piece), mtu),
            latency: message.launch,
            credit: CreditShape::After(Span::ZERO),
            spacing: Spacing::NONE,
        };
        // One leg, or one to each stop and one from the last; a lane at every stop takes a buffer in and sends it on.
        let mut from = 0;
        let mut received: Vec<u32> = Vec::new();
        for to in stops.iter().copied().chain([message.route.len()]) {
            let leg = message.route.get(from..to).unwrap_or_default();
            let shape = if from == 0 { shape } else { ConnShape { latency: Span::ZERO, ..shape } };
            let ends = b.connect(&[leg], false, slots, &shape);
            let cost = if from == 0 { cost } else { free };
            b.lane(kernel, layout, |l| l.step(&received, &[ends.send], cost, 1, 0, 0));
            received = vec![ends.recv];
            from = to;
        }
        b.lane(kernel, layout, |l| l.step(&received, &[], free, 1, 0, 0));
    }
    b.finish()
}

/// The segment of a lone message: small enough for 32 of them, so that a finish time under contention is within a
/// thirty-second of the packets'; whole packets, at most 128 KiB.
fn segment_of(bytes: Bytes, mtu: Bytes) -> Bytes {
    let mtu = mtu.get().max(1);
    let part = (bytes.get() / 32).clamp(mtu, SEGMENT.get().max(mtu));
    Bytes::new(part / mtu * mtu)
}

/// Whether a run that stopped so has a result.
#[must_use]
pub const fn is_complete(reason: StopReason) -> bool {
    matches!(reason, StopReason::Finished)
}
