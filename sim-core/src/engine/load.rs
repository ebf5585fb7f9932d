//! Taking a program in: its arenas are appended to the engine's, with every index moved by what is there already.

use std::collections::VecDeque;

use super::legs::Cut;
use super::spacing::SpacedState;
use super::state::{
    Arrival, BarrierState, ConnState, FlowState, JunctionState, KernelState, LaneState, MANY, Message, NONE, OpState,
    Places, ProgramState, RecvState, Ring, Segment, SendState, Slot,
};
use super::{Engine, Notice};
use crate::event::{FLOW_BITS, LINK_BITS, Phase, Word};
use crate::ids::LaneId;
use crate::net::SpecError;
use crate::program::{Conn, Credit, Flow, Kernel, Lane, Op, OpKind, Program, Sender, Sink, Slice};
use crate::queue::Store;
use crate::units::{Span, Time};

/// Why a program can't be loaded: a width of the event's word is exceeded, or a route does not fit the network of packets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// More links than the event word can number.
    #[error("{0} links are more than the {max} that the engine can number", max = 1u64 << LINK_BITS)]
    Links(usize),
    /// More flows than the event word can number.
    #[error("{0} flows at once are more than the {max} that the engine can number", max = 1u64 << FLOW_BITS)]
    Flows(usize),
    /// A route of more links than a segment can count.
    #[error("a route of {0} links is longer than the 250 that a segment can count")]
    Route(usize),
    /// A route that comes to the network of packets a second time.
    #[error("flow {flow} goes over the network of packets twice; what relays it in between has to receive and send it")]
    TwoNetworks {
        /// Index of the flow in the program.
        flow: usize,
    },
    /// A junction that is reached over the network of packets.
    #[error("flow {flow} joins a junction to others over the network of packets, which has none in its switches")]
    Junction {
        /// Index of the flow in the program.
        flow: usize,
    },
    /// A flow for which no queue pair can be opened.
    #[error("flow {flow}: {fault}")]
    QueuePair {
        /// Index of the flow in the program.
        flow: usize,
        /// Why.
        fault: SpecError,
    },
}

/// Where the parts of a program begin in the engine's arenas.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bases {
    pub(super) routes: usize,
    pub(super) flows: usize,
    pub(super) spaced: usize,
    pub(super) conns: usize,
    pub(super) senders: usize,
    pub(super) receivers: usize,
    pub(super) junctions: usize,
    pub(super) wide: usize,
    pub(super) fans: usize,
    pub(super) recv_ends: usize,
    pub(super) send_ends: usize,
    pub(super) costs: usize,
    pub(super) layouts: usize,
    pub(super) ops: usize,
    pub(super) lanes: usize,
    pub(super) barriers: usize,
    pub(super) kernels: usize,
    pub(super) kernel_lanes: usize,
}

/// Appends without a copy where there is nothing yet.
fn append<T>(to: &mut Vec<T>, mut from: Vec<T>) {
    if to.is_empty() {
        *to = from;
    } else {
        to.append(&mut from);
    }
}

/// No more than a first program needs, which is often the only one; where more come, each would copy all before it.
fn make_room<T>(list: &mut Vec<T>, more: usize) {
    if list.is_empty() { list.reserve_exact(more) } else { list.reserve(more) }
}

fn moved(range: &Slice, by: usize) -> Slice {
    range.start + by as u32..range.end + by as u32
}

impl<S: Store> Engine<S> {
    /// Loads `program`, to start at `start` (or now, if that is past), and returns its number.
    ///
    /// # Errors
    /// If the program, with what runs already, is larger than the engine can number.
    pub fn load(&mut self, program: Program, start: Time) -> Result<u32, LoadError> {
        if self.live == 0 && self.moving == 0 && self.forget_net() {
            self.forget();
        } else {
            self.drop_ended();
        }
        if self.links.len() >> LINK_BITS != 0 {
            return Err(LoadError::Links(self.links.len()));
        }
        // With a network of packets a flow may have a second leg.
        let legs = 1 + usize::from(self.net.is_some());
        let flows = self.flows.len() + legs * program.flows.len();
        if flows >> FLOW_BITS != 0 {
            return Err(LoadError::Flows(flows));
        }
        if let Some(flow) = program.flows.iter().find(|f| f.route.len() > 250) {
            return Err(LoadError::Route(flow.route.len()));
        }
        let start = start.max(self.now());
        let number = self.programs.len() as u32;
        let cuts = self.cut_routes(&program, number)?;
        let first_kernel = self.kernels.len();
        let starts: Vec<Span> = program.kernels.iter().map(|k| k.start).collect();
        let (iterations, floor) = (program.iterations.max(1), program.launch_floor);
        self.find_series(&program, &cuts);
        self.load_parts(program, number, &cuts);
        self.programs.push(ProgramState {
            kernels: first_kernel as u32..self.kernels.len() as u32,
            running: starts.len() as u32,
            iterations,
            floor,
            end: start,
        });
        self.live += 1;
        self.whole = false;
        self.watch_anew();
        if starts.is_empty() {
            self.live -= 1;
            self.notices.push(Notice::Program { program: number, ended: start });
        }
        for (i, after) in starts.into_iter().enumerate() {
            self.start_kernel((first_kernel + i) as u32, start + after);
        }
        Ok(number)
    }

    /// Drops everything of programs that have ended; nothing of theirs is in flight.
    fn forget(&mut self) {
        self.begun.clear();
        self.left_flows = 0;
        self.routes.clear();
        self.flows.clear();
        self.segments.clear();
        self.messages.clear();
        self.conns.clear();
        self.slots.clear();
        self.senders.clear();
        self.receivers.clear();
        self.arrivals.clear();
        self.junctions.clear();
        self.wide.clear();
        self.fans.clear();
        self.recv_ends.clear();
        self.send_ends.clear();
        self.costs.clear();
        self.layouts.clear();
        self.ops.clear();
        self.watch_fewer(self.lanes.len());
        self.lanes.clear();
        self.barriers.clear();
        self.kernels.clear();
        self.kernel_lanes.clear();
        self.spaced.clear();
        if !self.is_told_series() {
            for link in &mut self.links {
                link.feeder = NONE;
                link.series = false;
            }
        }
    }

    /// Whether the links that only one other feeds are those that the network names: what is not loaded yet may come to any other.
    pub(super) const fn is_told_series(&self) -> bool {
        self.limits.open && !self.limits.one_program
    }

    /// Finds the links that only one other feeds, over all programs that are loaded. Links that carry packets are not among
    /// them, nor is the first one behind.
    fn find_series(&mut self, program: &Program, cuts: &[Cut]) {
        if self.is_told_series() {
            return;
        }
        let links = &mut self.links;
        Self::each_leg(program, cuts, |leg| {
            let mut feeder = MANY;
            for link in &program.routes[leg.start as usize..leg.end as usize] {
                let state = &mut links[link.index()];
                state.feeder = if state.feeder == NONE || state.feeder == feeder { feeder } else { MANY };
                feeder = link.0;
            }
        });
        for link in links {
            link.series = link.feeder < MANY;
        }
    }

    /// Appends the parts of a program, each dropped as soon as it is taken over, so that a large one is not held twice.
    fn load_parts(&mut self, program: Program, number: u32, cuts: &[Cut]) {
        let at = Bases {
            routes: self.routes.len(),
            flows: self.flows.len(),
            spaced: self.spaced.len(),
            conns: self.conns.len(),
            senders: self.senders.len(),
            receivers: self.receivers.len(),
            junctions: self.junctions.len(),
            wide: self.wide.len(),
            fans: self.fans.len(),
            recv_ends: self.recv_ends.len(),
            send_ends: self.send_ends.len(),
            costs: self.costs.len(),
            layouts: self.layouts.len(),
            ops: self.ops.len(),
            lanes: self.lanes.len(),
            barriers: self.barriers.len(),
            kernels: self.kernels.len(),
            kernel_lanes: self.kernel_lanes.len(),
        };
        self.begun.push((number, at));
        let Program {
            routes,
            flows,
            conns,
            senders,
            receivers,
            junctions,
            recv_ends,
            send_ends,
            costs,
            layouts,
            ops,
            lanes,
            barriers,
            kernels,
            iterations: _,
            launch_floor: _,
        } = program;
        append(&mut self.routes, routes);
        self.load_flows(flows, &at);
        self.load_ends(senders, receivers, &at);
        self.load_legs(cuts, at.flows);
        self.load_conns(conns, &at);
        self.junctions.extend(junctions.into_iter().map(|junction| JunctionState {
            inputs: junction.inputs.max(1),
            outputs: moved(&junction.outputs, at.flows),
            first: 0,
            fan: NONE,
            messages: 0,
            waiting: VecDeque::new(),
        }));
        append(&mut self.costs, costs);
        append(&mut self.layouts, layouts);
        append(&mut self.recv_ends, recv_ends.into_iter().map(|r| r + at.receivers as u32).collect());
        append(&mut self.send_ends, send_ends.into_iter().map(|s| s + at.senders as u32).collect());
        self.load_ops(ops, &at);
        self.load_lanes(&lanes, &at);
        self.barriers.extend(barriers.into_iter().map(|b| BarrierState {
            lanes: moved(&b, at.lanes),
            here: 0,
            latest: Time::ZERO,
        }));
        self.load_kernels(&kernels, &lanes, number, &at);
        self.put_together(at.flows, at.lanes, at.ops, at.junctions);
    }

    fn load_flows(&mut self, flows: Vec<Flow>, at: &Bases) {
        make_room(&mut self.flows, flows.len());
        let mut spaced = core::mem::take(&mut self.spaced);
        self.flows.extend(flows.into_iter().map(|flow| FlowState {
            lone: Segment::default(),
            current: Message::default(),
            route: flow.route.start + at.routes as u32,
            segment: flow.segment.get().clamp(1, 1 << 30) as u32,
            segments: Ring::EMPTY,
            next: 0,
            oldest: 0,
            messages: Ring::EMPTY,
            first: 0,
            posted: 0,
            sink: match flow.sink {
                Sink::Receiver(r) => Sink::Receiver(r + at.receivers as u32),
                Sink::Junction(j) => Sink::Junction(j + at.junctions as u32),
                Sink::Credit(s) => Sink::Credit(s + at.senders as u32),
            },
            delivered: 0,
            qp: NONE,
            wide: NONE,
            turn: 0,
            turns: 1,
            hops: flow.route.len() as u8,
            active: false,
            full: false,
            spaced: SpacedState::add(&mut spaced, flow.spacing),
        }));
        self.spaced = spaced;
    }

    fn load_ends(&mut self, senders: Vec<Sender>, receivers: Vec<u16>, at: &Bases) {
        make_room(&mut self.senders, senders.len());
        for sender in senders {
            let range = moved(&sender.flows, at.flows);
            if !sender.split {
                for (turn, flow) in range.clone().enumerate() {
                    self.flows[flow as usize].turn = turn as u16;
                    self.flows[flow as usize].turns = range.len() as u16;
                    self.flows[flow as usize].spaced = self.flows[range.start as usize].spaced;
                }
            }
            self.senders.push(SendState {
                conn: NONE,
                flows: range,
                split: sender.split,
                latency: sender.latency,
                signals: sender.signals.map_or(NONE, |r| r + at.receivers as u32),
                posted: 0,
                waiter: NONE,
                fresh: true,
            });
        }
        make_room(&mut self.receivers, receivers.len());
        self.receivers.extend(receivers.into_iter().map(|parts| RecvState {
            conn: NONE,
            arrived: 0,
            consumed: 0,
            waiter: NONE,
            parts: parts.max(1),
            unordered: false,
            ring: Places::EMPTY,
        }));
    }

    fn load_conns(&mut self, conns: Vec<Conn>, at: &Bases) {
        make_room(&mut self.conns, conns.len());
        for (i, conn) in conns.into_iter().enumerate() {
            let slots = 1u32 << conn.slots.max(1).ilog2();
            let ring = self.slots.take(slots);
            for k in 0..slots {
                self.slots.items[ring.at(k)] = Slot::default();
            }
            let senders = moved(&conn.senders, at.senders);
            let receivers = moved(&conn.receivers, at.receivers);
            let flows: usize = senders.clone().map(|s| self.senders[s as usize].flows.len()).sum();
            for s in senders.clone() {
                self.senders[s as usize].conn = (at.conns + i) as u32;
            }
            let shift = (receivers.len().max(1) as u32).next_power_of_two().trailing_zeros() as u16;
            let places = self.arrivals.take(slots << shift);
            for k in 0..slots << shift {
                self.arrivals.items[places.at(k)] = Arrival::default();
            }
            for (side, r) in receivers.clone().enumerate() {
                let receiver = &mut self.receivers[r as usize];
                receiver.conn = (at.conns + i) as u32;
                // In-switch reduction delivers one flow however many senders there are.
                receiver.unordered = receiver.parts > 1 || (flows > 1 && senders.len() == 1);
                receiver.ring = Places { base: places.base + side as u32, mask: (slots - 1) as u16, shift };
            }
            let credit = match conn.credit {
                Credit::Message { flow, bytes, delay } => {
                    Credit::Message { flow: flow + at.flows as u32, bytes, delay }
                }
                after @ Credit::After(_) => after,
            };
            self.conns.push(ConnState { senders, receivers: receivers.len() as u32, slots: ring, credit, credited: 0 });
        }
    }

    fn load_ops(&mut self, ops: Vec<Op>, at: &Bases) {
        // A lone end is kept in the operation; several stay in the arena.
        let ends = |range: &Slice, arena: &[u32], base: usize| {
            let first = range.start + base as u32;
            (if range.len() == 1 { arena[first as usize] } else { first }, range.len() as u16)
        };
        make_room(&mut self.ops, ops.len());
        for op in ops {
            let OpKind::Step { recv, send, cost } = &op.kind;
            debug_assert!(op.repeat <= 1 || op.span <= 1, "an operation that repeats has one chunk a time");
            let (recv, recvs) = ends(recv, &self.recv_ends, at.recv_ends);
            let (send, sends) = ends(send, &self.send_ends, at.send_ends);
            self.ops.push(OpState {
                recv,
                send,
                recvs,
                sends,
                barrier: op.barrier.map_or(NONE, |b| b + at.barriers as u32),
                cost: cost + at.costs as u32,
                repeat: op.repeat,
                chunk: op.chunk,
                stride_or_span: if op.repeat > 1 { op.stride } else { op.span },
            });
        }
    }

    fn load_lanes(&mut self, lanes: &[Lane], at: &Bases) {
        make_room(&mut self.lanes, lanes.len());
        self.lanes.extend(lanes.iter().map(|lane| {
            let layout = lane.layout as usize + at.layouts;
            LaneState {
                ops: moved(&lane.ops, at.ops),
                layout: layout as u32,
                kernel: (at.kernels + lane.kernel as usize) as u32,
                loops: self.layouts[layout].loops(),
                pc: 0,
                repetition: 0,
                chunk: 0,
                turn: 0,
                left: 0,
                slice: 0,
                busy_until: Time::ZERO,
                wake: Time::MAX,
                done: true,
                passed: false,
            }
        }));
    }

    /// Kernels, and the lanes of each in order: a counting sort.
    fn load_kernels(&mut self, kernels: &[Kernel], lanes: &[Lane], number: u32, at: &Bases) {
        let mut places = vec![0u32; kernels.len()];
        for lane in lanes {
            places[lane.kernel as usize] += 1;
        }
        let mut sum = self.kernel_lanes.len() as u32;
        for (kernel, place) in kernels.iter().zip(&mut places) {
            let range = sum..sum + *place;
            sum = range.end;
            *place = range.start;
            self.kernels.push(KernelState {
                lanes: range,
                launch: kernel.launch,
                program: number,
                running: 0,
                iteration: 0,
                started: Time::ZERO,
                end: Time::ZERO,
            });
        }
        self.kernel_lanes.resize(sum as usize, 0);
        for (i, lane) in lanes.iter().enumerate() {
            let place = &mut places[lane.kernel as usize];
            self.kernel_lanes[*place as usize] = (at.lanes + i) as u32;
            *place += 1;
        }
    }

    /// Starts the next iteration of a kernel at `at`.
    pub(super) fn start_kernel(&mut self, index: u32, at: Time) {
        let kernel = &mut self.kernels[index as usize];
        kernel.started = at;
        kernel.end = at + kernel.launch;
        kernel.running = kernel.lanes.len() as u32;
        let (lanes, begin) = (kernel.lanes.clone(), kernel.end);
        if self.watch.lane == NONE {
            self.watch_another();
        }
        if lanes.is_empty() {
            self.end_kernel(index);
            return;
        }
        for place in lanes {
            let lane = self.kernel_lanes[place as usize];
            self.reset_lane(lane, begin);
            self.pending.push(begin, Word::lane(Phase::Lane, LaneId(lane)));
        }
    }
}
