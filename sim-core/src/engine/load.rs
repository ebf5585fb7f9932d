//! Taking a program in: its arenas are appended to the engine's, with every index moved by what is there already.

use super::state::{
    BarrierState, ConnState, FlowState, JunctionState, KernelState, LaneState, MANY, Message, NONE, OpState,
    ProgramState, RecvState, Ring, Segment, SendState, Slot,
};
use super::{Engine, Notice};
use crate::event::{FLOW_BITS, LINK_BITS, Phase, Word};
use crate::ids::LaneId;
use crate::program::{Credit, OpKind, Program, Sink, Slice};
use crate::queue::Store;
use crate::units::Time;

/// Why a program can't be loaded: a width of the event's word is exceeded.
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
}

fn moved(range: &Slice, by: usize) -> Slice {
    range.start + by as u32..range.end + by as u32
}

impl<S: Store> Engine<S> {
    /// Loads `program`, to start at `start` (or now, if that is past), and returns its number.
    ///
    /// # Errors
    /// If the program, with what runs already, is larger than the engine can number.
    pub fn load(&mut self, program: &Program, start: Time) -> Result<u32, LoadError> {
        if self.live == 0 && self.moving == 0 {
            self.forget();
        }
        if self.links.len() >> LINK_BITS != 0 {
            return Err(LoadError::Links(self.links.len()));
        }
        let flows = self.flows.len() + program.flows.len();
        if flows >> FLOW_BITS != 0 {
            return Err(LoadError::Flows(flows));
        }
        if let Some(flow) = program.flows.iter().find(|f| f.route.len() > 250) {
            return Err(LoadError::Route(flow.route.len()));
        }
        let start = start.max(self.now());
        let number = self.programs.len() as u32;
        let first_kernel = self.kernels.len();
        self.load_transport(program);
        self.find_series(program);
        self.load_lanes(program, number);
        self.programs.push(ProgramState {
            kernels: first_kernel as u32..self.kernels.len() as u32,
            running: program.kernels.len() as u32,
            iterations: program.iterations.max(1),
            floor: program.launch_floor,
            end: start,
        });
        self.live += 1;
        if program.kernels.is_empty() {
            self.live -= 1;
            self.notices.push(Notice::Program { program: number, ended: start });
        }
        for (i, kernel) in program.kernels.iter().enumerate() {
            self.start_kernel((first_kernel + i) as u32, start + kernel.start);
        }
        Ok(number)
    }

    /// Drops everything of programs that have ended; nothing of theirs is in flight.
    fn forget(&mut self) {
        self.routes.clear();
        self.flows.clear();
        self.segments.clear();
        self.messages.clear();
        self.conns.clear();
        self.slots.clear();
        self.senders.clear();
        self.receivers.clear();
        self.parts.clear();
        self.junctions.clear();
        self.recv_ends.clear();
        self.send_ends.clear();
        self.costs.clear();
        self.layouts.clear();
        self.ops.clear();
        self.lanes.clear();
        self.barriers.clear();
        self.kernels.clear();
        self.kernel_lanes.clear();
        self.rates.clear();
        for link in &mut self.links {
            link.feeder = NONE;
            link.series = false;
        }
    }

    /// Finds the links that only one other feeds, over all programs that are loaded.
    fn find_series(&mut self, program: &Program) {
        for flow in &program.flows {
            let route = &program.routes[flow.route.start as usize..flow.route.end as usize];
            let mut feeder = MANY;
            for link in route {
                let state = &mut self.links[link.index()];
                state.feeder = if state.feeder == NONE || state.feeder == feeder { feeder } else { MANY };
                feeder = link.0;
            }
        }
        for i in 0..self.links.len() {
            let feeder = self.links[i].feeder;
            // A queued port decides late, so what it feeds can't be crossed ahead.
            let virtual_feeder = self.links.get(feeder as usize).is_some_and(|l| !l.queued);
            self.links[i].series = virtual_feeder && !self.links[i].queued;
        }
    }

    fn load_transport(&mut self, program: &Program) {
        let (routes, flows) = (self.routes.len(), self.flows.len());
        let (senders, receivers) = (self.senders.len(), self.receivers.len());
        let (conns, junctions) = (self.conns.len(), self.junctions.len());
        self.routes.extend_from_slice(&program.routes);
        for flow in &program.flows {
            self.flows.push(FlowState {
                lone: Segment::default(),
                current: Message::default(),
                route: flow.route.start + routes as u32,
                segment: flow.segment.get().clamp(1, 1 << 30) as u32,
                segments: Ring::EMPTY,
                next: 0,
                oldest: 0,
                messages: Ring::EMPTY,
                first: 0,
                posted: 0,
                sink: match flow.sink {
                    Sink::Receiver(r) => Sink::Receiver(r + receivers as u32),
                    Sink::Junction(j) => Sink::Junction(j + junctions as u32),
                    Sink::Credit(s) => Sink::Credit(s + senders as u32),
                },
                delivered: 0,
                rate: NONE,
                turn: 0,
                turns: 1,
                hops: flow.route.len() as u8,
                active: false,
                waits: false,
            });
        }
        for sender in &program.senders {
            let range = moved(&sender.flows, flows);
            if !sender.split {
                for (turn, flow) in range.clone().enumerate() {
                    self.flows[flow as usize].turn = turn as u16;
                    self.flows[flow as usize].turns = range.len() as u16;
                }
            }
            self.senders.push(SendState {
                conn: NONE,
                flows: range,
                split: sender.split,
                latency: sender.latency,
                signals: sender.signals.map_or(NONE, |r| r + receivers as u32),
                posted: 0,
                waiter: NONE,
            });
        }
        for &parts in &program.receivers {
            self.receivers.push(RecvState {
                conn: NONE,
                arrived: 0,
                consumed: 0,
                waiter: NONE,
                parts: parts.max(1),
                unordered: false,
                ring: Ring::EMPTY,
            });
        }
        for (i, conn) in program.conns.iter().enumerate() {
            let slots = 1u32 << conn.slots.max(1).ilog2();
            let ring = self.slots.take(slots);
            for k in 0..slots {
                self.slots.items[ring.at(k)] = Slot::default();
            }
            let senders = moved(&conn.senders, senders);
            let receivers = moved(&conn.receivers, receivers);
            let flows_of_conn: usize = senders.clone().map(|s| self.senders[s as usize].flows.len()).sum();
            for s in senders.clone() {
                self.senders[s as usize].conn = (conns + i) as u32;
            }
            for r in receivers.clone() {
                let receiver = &mut self.receivers[r as usize];
                receiver.conn = (conns + i) as u32;
                // In-switch reduction delivers one flow however many senders there are.
                receiver.unordered = receiver.parts > 1 || (flows_of_conn > 1 && senders.len() == 1);
                if receiver.unordered {
                    receiver.ring = self.parts.take(slots.max(2));
                    for k in 0..receiver.ring.capacity() {
                        self.parts.items[receiver.ring.at(k)] = 0;
                    }
                }
            }
            let credit = match conn.credit {
                Credit::Message { flow, bytes, delay } => Credit::Message { flow: flow + flows as u32, bytes, delay },
                after @ Credit::After(_) => after,
            };
            self.conns.push(ConnState { senders, receivers: receivers.len() as u32, slots: ring, credit, credited: 0 });
        }
        for junction in &program.junctions {
            self.junctions.push(JunctionState {
                inputs: junction.inputs.max(1),
                outputs: moved(&junction.outputs, flows),
                first: 0,
                waiting: std::collections::VecDeque::new(),
            });
        }
        self.recv_ends.extend(program.recv_ends.iter().map(|r| r + receivers as u32));
        self.send_ends.extend(program.send_ends.iter().map(|s| s + senders as u32));
    }

    fn load_lanes(&mut self, program: &Program, number: u32) {
        let senders = self.senders.len() - program.senders.len();
        let receivers = self.receivers.len() - program.receivers.len();
        let (recv_ends, send_ends) =
            (self.recv_ends.len() - program.recv_ends.len(), self.send_ends.len() - program.send_ends.len());
        let (costs, layouts, ops) = (self.costs.len(), self.layouts.len(), self.ops.len());
        let (lanes, barriers, kernels) = (self.lanes.len(), self.barriers.len(), self.kernels.len());
        self.costs.extend_from_slice(&program.costs);
        self.layouts.extend_from_slice(&program.layouts);
        // Barriers of a program stand before the step that they guard.
        let ends = |range: &Slice, arena: &[u32], base: usize, moved_by: usize| {
            let count = range.len() as u16;
            let at = if count == 1 { arena[range.start as usize] + moved_by as u32 } else { range.start + base as u32 };
            (at, count)
        };
        for op in &program.ops {
            let OpKind::Step { recv, send, cost } = &op.kind;
            let (recv, recvs) = ends(recv, &program.recv_ends, recv_ends, receivers);
            let (send, sends) = ends(send, &program.send_ends, send_ends, senders);
            self.ops.push(OpState {
                recv,
                send,
                recvs,
                sends,
                barrier: op.barrier.map_or(NONE, |b| b + barriers as u32),
                cost: cost + costs as u32,
                repeat: op.repeat,
                chunk: op.chunk,
                stride: op.stride,
            });
        }
        self.lanes.extend(program.lanes.iter().map(|lane| {
            let layout = lane.layout as usize + layouts;
            LaneState {
                ops: moved(&lane.ops, ops),
                layout: layout as u32,
                kernel: NONE,
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
        self.barriers.extend(program.barriers.iter().map(|b| BarrierState {
            lanes: moved(b, lanes),
            here: 0,
            latest: Time::ZERO,
        }));
        // The lanes of each kernel, in order: a counting sort.
        let first = self.kernel_lanes.len();
        let mut ends = vec![0u32; program.kernels.len()];
        for lane in &program.lanes {
            ends[lane.kernel as usize] += 1;
        }
        let mut sum = first as u32;
        for (kernel, count) in program.kernels.iter().zip(&mut ends) {
            let lanes = sum..sum + *count;
            sum = lanes.end;
            *count = lanes.start;
            self.kernels.push(KernelState {
                lanes,
                launch: kernel.launch,
                program: number,
                running: 0,
                iteration: 0,
                started: Time::ZERO,
                end: Time::ZERO,
            });
        }
        self.kernel_lanes.resize(sum as usize, 0);
        for (i, lane) in program.lanes.iter().enumerate() {
            let place = &mut ends[lane.kernel as usize];
            self.kernel_lanes[*place as usize] = (lanes + i) as u32;
            *place += 1;
            self.lanes[lanes + i].kernel = (kernels + lane.kernel as usize) as u32;
        }
    }

    /// Starts the next iteration of a kernel at `at`.
    pub(super) fn start_kernel(&mut self, index: u32, at: Time) {
        let kernel = &mut self.kernels[index as usize];
        kernel.started = at;
        kernel.end = at + kernel.launch;
        kernel.running = kernel.lanes.len() as u32;
        let (lanes, begin) = (kernel.lanes.clone(), kernel.end);
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
