//! Building a [`Program`] part by part, with the ranges kept right.

use crate::ids::LinkId;
use crate::program::{
    Conn, Cost, Credit, Flow, Junction, Kernel, Lane, Layout, Op, OpKind, Program, Sender, Sink, Slice, Spacing,
};
use crate::units::{Bytes, Span};

/// Builds a program.
#[derive(Debug, Default)]
pub struct ProgramBuilder {
    program: Program,
    way: u16,
}

/// A send end and a receive end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Index of the send end.
    pub send: u32,
    /// Index of the receive end.
    pub recv: u32,
}

impl ProgramBuilder {
    /// An empty program of one iteration.
    #[must_use]
    pub fn new() -> Self {
        Self { program: Program { iterations: 1, ..Program::default() }, way: 0 }
    }

    /// The program.
    #[must_use]
    pub fn finish(self) -> Program {
        self.program
    }

    /// Runs every kernel `iterations` times, its starts at least `floor` apart.
    pub fn iterate(&mut self, iterations: u32, floor: Span) {
        self.program.iterations = iterations;
        self.program.launch_floor = floor;
    }

    /// How queue pairs carry the flows that are added from now on ([`Flow::way`]).
    pub const fn carried(&mut self, way: u16) {
        self.way = way;
    }

    fn flow(&mut self, route: &[LinkId], sink: Sink, segment: Bytes, spacing: Spacing) -> u32 {
        let start = self.program.routes.len() as u32;
        self.program.routes.extend_from_slice(route);
        let end = self.program.routes.len() as u32;
        self.program.flows.push(Flow { route: start..end, sink, segment, spacing, way: self.way });
        self.program.flows.len() as u32 - 1
    }

    /// A connection from one sender to one receiver over `routes` (one flow each; none signals a lane on the same
    /// device). Messages are split over the flows or take turns. A clear-to-send, where there is one, travels
    /// `credit.route`.
    pub fn connect(&mut self, routes: &[&[LinkId]], split: bool, slots: u16, spec: &ConnShape<'_>) -> Ends {
        let p = &self.program;
        let ends = Ends { send: p.senders.len() as u32, recv: p.receivers.len() as u32 };
        let first = p.flows.len() as u32;
        for route in routes {
            self.flow(route, Sink::Receiver(ends.recv), spec.segment, spec.spacing);
        }
        let flows = first..self.program.flows.len() as u32;
        let parts = if split { flows.len().max(1) as u16 } else { 1 };
        let credit = match spec.credit {
            CreditShape::After(span) => Credit::After(span),
            CreditShape::ClearToSend { route, bytes, delay } => {
                let flow = self.flow(route, Sink::Credit(ends.send), bytes, Spacing::NONE);
                Credit::Message { flow, bytes, delay }
            }
        };
        let signals = routes.is_empty().then_some(ends.recv);
        self.program.senders.push(Sender { flows, split, latency: spec.latency, signals });
        self.program.receivers.push(parts);
        self.program.conns.push(Conn {
            senders: ends.send..ends.send + 1,
            receivers: ends.recv..ends.recv + 1,
            slots,
            credit,
        });
        ends
    }

    /// A connection in which the equal messages of all `inputs` meet at a junction and leave as one over every output:
    /// in-switch reduction with one output, multicast with one input. Returns the send ends and the receive ends.
    pub fn connect_junction(
        &mut self,
        inputs: &[&[LinkId]],
        outputs: &[&[LinkId]],
        slots: u16,
        spec: &ConnShape<'_>,
    ) -> (Slice, Slice) {
        let inputs: Vec<(&[LinkId], usize)> = inputs.iter().map(|route| (*route, 0)).collect();
        let outputs = outputs.iter().enumerate().map(|(i, route)| (*route, Onward::Receiver(i))).collect();
        self.connect_meetings(&inputs, &[outputs], slots, spec)
    }

    /// A connection whose inputs meet in several places: each input is a route and the meeting at its end, each meeting
    /// has its outputs, which go on to other meetings or to receivers. Reduction and multicast over a tree of switches.
    /// Receivers are numbered from 0 without gaps. Returns the send ends and the receive ends.
    pub fn connect_meetings(
        &mut self,
        inputs: &[(&[LinkId], usize)],
        meetings: &[Vec<(&[LinkId], Onward)>],
        slots: u16,
        spec: &ConnShape<'_>,
    ) -> (Slice, Slice) {
        let p = &self.program;
        let (send, recv, junction) = (p.senders.len() as u32, p.receivers.len() as u32, p.junctions.len() as u32);
        let mut meet = vec![0u16; meetings.len()];
        for (route, meeting) in inputs {
            meet[*meeting] += 1;
            let flow = self.flow(route, Sink::Junction(junction + *meeting as u32), spec.segment, spec.spacing);
            let sender = Sender { flows: flow..flow + 1, split: false, latency: spec.latency, signals: None };
            self.program.senders.push(sender);
        }
        let mut outputs = Vec::with_capacity(meetings.len());
        for onward in meetings {
            let first = self.program.flows.len() as u32;
            for (route, onward) in onward {
                let sink = match onward {
                    Onward::Receiver(i) => {
                        self.program.receivers.push(1);
                        Sink::Receiver(recv + *i as u32)
                    }
                    Onward::Meeting(i) => {
                        meet[*i] += 1;
                        Sink::Junction(junction + *i as u32)
                    }
                };
                self.flow(route, sink, spec.segment, Spacing::NONE);
            }
            outputs.push(first..self.program.flows.len() as u32);
        }
        let junctions = meet.into_iter().zip(outputs).map(|(inputs, outputs)| Junction { inputs, outputs });
        self.program.junctions.extend(junctions);
        let senders = send..self.program.senders.len() as u32;
        let receivers = recv..self.program.receivers.len() as u32;
        let credit = match spec.credit {
            CreditShape::After(span) | CreditShape::ClearToSend { delay: span, .. } => Credit::After(span),
        };
        self.program.conns.push(Conn { senders: senders.clone(), receivers: receivers.clone(), slots, credit });
        (senders, receivers)
    }

    /// A cost; equal ones are shared.
    pub fn cost(&mut self, cost: Cost) -> u32 {
        let known = self.program.costs.iter().rposition(|c| *c == cost);
        known.unwrap_or_else(|| {
            self.program.costs.push(cost);
            self.program.costs.len() - 1
        }) as u32
    }

    /// A layout; the last one is shared if equal.
    pub fn layout(&mut self, layout: Layout) -> u32 {
        if self.program.layouts.last() != Some(&layout) {
            self.program.layouts.push(layout);
        }
        self.program.layouts.len() as u32 - 1
    }

    /// Adds a kernel.
    pub fn kernel(&mut self, launch: Span, start: Span) -> u32 {
        self.program.kernels.push(Kernel { launch, start });
        self.program.kernels.len() as u32 - 1
    }

    /// Adds a lane to `kernel`, with what `fill` puts into it. Returns its number.
    pub fn lane(&mut self, kernel: u32, layout: u32, fill: impl FnOnce(&mut LaneBuilder<'_>)) -> u32 {
        let start = self.program.ops.len() as u32;
        let mut lane = LaneBuilder { program: &mut self.program };
        fill(&mut lane);
        let ops = start..self.program.ops.len() as u32;
        self.program.lanes.push(Lane { ops, layout, kernel });
        self.program.lanes.len() as u32 - 1
    }

    /// A barrier among the next `lanes` lanes to be added.
    pub fn barrier(&mut self, lanes: u32) -> u32 {
        let first = self.program.lanes.len() as u32;
        self.program.barriers.push(first..first + lanes);
        self.program.barriers.len() as u32 - 1
    }
}

/// Where an output of a meeting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// To another meeting.
    Meeting(usize),
    /// To the receiver of this number.
    Receiver(usize),
}

/// How a connection behaves beside its routes.
#[derive(Clone, Copy, Debug)]
pub struct ConnShape<'a> {
    /// Largest segment.
    pub segment: Bytes,
    /// Latency between the sending operation and the first byte on the link.
    pub latency: Span,
    /// How slots come back.
    pub credit: CreditShape<'a>,
    /// How far apart the messages of a flow begin.
    pub spacing: Spacing,
}

/// How slots come back.
#[derive(Clone, Copy, Debug)]
pub enum CreditShape<'a> {
    /// A counter in memory, after this time.
    After(Span),
    /// A message on the reverse path.
    ClearToSend {
        /// The reverse path.
        route: &'a [LinkId],
        /// Its size.
        bytes: Bytes,
        /// Time from the end of the consuming operation to its posting.
        delay: Span,
    },
}

/// Adds operations to a lane.
#[derive(Debug)]
pub struct LaneBuilder<'a> {
    program: &'a mut Program,
}

impl LaneBuilder<'_> {
    /// A step over these receive and send ends, `repeat` times a loop, on chunk `chunk` and then every `stride`-th.
    pub fn step(&mut self, recv: &[u32], send: &[u32], cost: u32, repeat: u32, chunk: u32, stride: u32) {
        let (r, s) = (self.program.recv_ends.len() as u32, self.program.send_ends.len() as u32);
        self.program.recv_ends.extend_from_slice(recv);
        self.program.send_ends.extend_from_slice(send);
        let kind = OpKind::Step { recv: r..r + recv.len() as u32, send: s..s + send.len() as u32, cost };
        self.program.ops.push(Op { kind, repeat, chunk, stride, span: 1, barrier: None });
    }

    /// The last step takes `span` chunks as one message.
    pub fn spanning(&mut self, span: u32) {
        if let Some(op) = self.program.ops.last_mut() {
            op.span = span.max(1);
        }
    }

    /// The last step waits for all lanes of `barrier` first.
    pub fn after_barrier(&mut self, barrier: u32) {
        if let Some(op) = self.program.ops.last_mut() {
            op.barrier = Some(barrier);
        }
    }
}
