//! An algorithm on ideal ports: every rank has one port of rate β in each direction, a message between any two takes
//! α + m/β, and nothing else costs time. This is the world of closed forms (LogP-like models, the α-β calculator), where
//! an algorithm's steps and bytes show without a machine's peculiarities.

use sim_core::engine::{Engine, Limits, Notice};
use sim_core::ids::LinkId;
use sim_core::network::{LinkSpec, Network};
use sim_core::outcome::Outcome;
use sim_core::program::{Cost, Layout, Spacing};
use sim_core::program_builder::{ConnShape, CreditShape, ProgramBuilder};
use sim_core::units::{Bytes, Rate, Span, Time};

use crate::algorithms::Algorithm;
use crate::call::Call;
use crate::lanes::{LaneOp, LaneSink, Peers};
use crate::nccl::Operation;

/// The two numbers of all ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Time between any two ranks.
    pub alpha: Span,
    /// Rate of a port in one direction.
    pub beta: Rate,
}

/// What a call took on ideal ports.
#[derive(Clone, Debug)]
pub struct Played {
    /// The time until the last rank is done.
    pub time: Span,
    /// Bytes out of each rank's port, and into it.
    pub bytes: Vec<(u64, u64)>,
    /// The engine's measurements.
    pub outcome: Outcome,
}

/// Plays a call once; `None` if it is larger than the engine can number.
#[must_use]
pub fn play(algorithm: &dyn Algorithm, operation: Operation, call: &Call, ports: Ports) -> Option<Played> {
    let ranks = call.group.ranks();
    // Out at an even number, with α; in at the odd one after it.
    let port = |out| LinkSpec::ideal(ports.beta, if out { ports.alpha } else { Span::ZERO });
    let network = Network::new((0..ranks).flat_map(|_| [port(true), port(false)]).collect());
    let mut sink = Sink::new(ranks);
    algorithm.write(operation, call, &mut sink);
    let mut engine = <Engine>::new(&network, Bytes::new(1 << 30), Limits::default());
    engine.load(sink.builder.finish(), Time::ZERO).ok()?;
    let mut end = Time::ZERO;
    let reason = engine.run(|_, notice| {
        if let Notice::Program { ended, .. } = notice {
            end = end.max(ended);
        }
    });
    let outcome = engine.finish(reason);
    let bytes = |link: u32| outcome.links[link as usize].payload;
    let bytes = (0..ranks).map(|r| (bytes(2 * r), bytes(2 * r + 1))).collect();
    Some(Played { time: end.since(Time::ZERO), bytes, outcome })
}

/// Lowers lanes to ideal ports.
struct Sink {
    builder: ProgramBuilder,
    cost: u32,
    /// First send end and first receive end of every connection.
    ends: Vec<(u32, u32)>,
}

impl Sink {
    fn new(ranks: u32) -> Self {
        let mut builder = ProgramBuilder::new();
        for _ in 0..ranks {
            builder.kernel(Span::ZERO, Span::ZERO);
        }
        let cost = builder.cost(Cost::default());
        Self { builder, cost, ends: Vec::new() }
    }
}

/// Messages are not cut, so that nothing is sent on before all of it is there.
const SHAPE: ConnShape<'static> = ConnShape {
    segment: Bytes::new(1 << 30),
    latency: Span::ZERO,
    credit: CreditShape::After(Span::ZERO),
    spacing: Spacing::NONE,
};

const fn out(rank: u32) -> LinkId {
    LinkId(2 * rank)
}

const fn into(rank: u32) -> LinkId {
    LinkId(2 * rank + 1)
}

impl LaneSink for Sink {
    fn connect(&mut self, peers: Peers, _channel: u32, slots: u16) -> u32 {
        let mut meet = |from: &[u32], to: &[u32]| {
            let ins: Vec<[LinkId; 1]> = from.iter().map(|r| [out(*r)]).collect();
            let outs: Vec<[LinkId; 1]> = to.iter().map(|r| [into(*r)]).collect();
            let ins: Vec<&[LinkId]> = ins.iter().map(|l| &l[..]).collect();
            let outs: Vec<&[LinkId]> = outs.iter().map(|l| &l[..]).collect();
            let (send, recv) = self.builder.connect_junction(&ins, &outs, slots, &SHAPE);
            (send.start, recv.start)
        };
        let ends = match peers {
            Peers::Reduce { from, to } => meet(&from, &[to]),
            Peers::Multicast { from, to } => meet(&[from], &to),
            Peers::Network { from, to } => meet(&from, &to),
            Peers::Pair { from, to, .. } => {
                let ends = self.builder.connect(&[&[out(from), into(to)]], false, slots, &SHAPE);
                (ends.send, ends.recv)
            }
            Peers::Local { .. } => {
                let ends = self.builder.connect(&[], false, slots, &SHAPE);
                (ends.send, ends.recv)
            }
        };
        self.ends.push(ends);
        self.ends.len() as u32 - 1
    }

    fn layout(&mut self, layout: Layout) -> u32 {
        self.builder.layout(layout)
    }

    fn lane(&mut self, rank: u32, _channel: u32, layout: u32, ops: &[LaneOp]) {
        let (ends, cost) = (&self.ends, self.cost);
        self.builder.lane(rank, layout, |lane| {
            for op in ops.iter().filter(|op| op.repeat > 0 || op.after.is_some()) {
                let recv: Vec<u32> = op.recv.iter().map(|e| ends[e.connection as usize].1 + e.side).collect();
                let send: Vec<u32> = op.send.iter().map(|e| ends[e.connection as usize].0 + e.side).collect();
                lane.step(&recv, &send, cost, op.repeat, op.chunk, op.stride);
                lane.spanning(op.span);
                if let Some(barrier) = op.after {
                    lane.after_barrier(barrier);
                }
            }
        });
    }

    fn barrier(&mut self, lanes: u32) -> u32 {
        self.builder.barrier(lanes)
    }
}
