//! Programs that have ended while others run.
//!
//! When nothing runs, everything is dropped. Where there is always something that runs, as where calls of a long step overlap, the
//! records of programs that have ended would pile up: those before the first that still runs are dropped now and then, and what is
//! left moves to the front. Records keep their order, and with it events of one instant.

use super::Engine;
use super::load::Bases;
use super::state::{Ends, MANY, NONE, Ring};
use crate::event::{Phase, Word};
use crate::ids::{FlowId, LaneId};
use crate::program::{Credit, Sink, Slice};
use crate::queue::Store;

/// Flows below which nothing is dropped; tests drop as early as they can.
const LEAST: usize = if cfg!(test) { 1 } else { 1 << 10 };

fn back(index: &mut u32, by: usize) {
    if *index < MANY {
        *index -= by as u32;
    }
}

fn back_range(range: &mut Slice, by: usize) {
    // An empty one can lie anywhere.
    *range = range.start.saturating_sub(by as u32)..range.end.saturating_sub(by as u32);
}

impl Bases {
    /// The same, where so much before it has been dropped.
    fn less(self, by: Self) -> Self {
        Self {
            routes: self.routes - by.routes,
            flows: self.flows - by.flows,
            spaced: self.spaced - by.spaced,
            conns: self.conns - by.conns,
            senders: self.senders - by.senders,
            receivers: self.receivers - by.receivers,
            junctions: self.junctions - by.junctions,
            wide: self.wide - by.wide,
            fans: self.fans - by.fans,
            recv_ends: self.recv_ends - by.recv_ends,
            send_ends: self.send_ends - by.send_ends,
            costs: self.costs - by.costs,
            layouts: self.layouts - by.layouts,
            ops: self.ops - by.ops,
            lanes: self.lanes - by.lanes,
            barriers: self.barriers - by.barriers,
            kernels: self.kernels - by.kernels,
            kernel_lanes: self.kernel_lanes - by.kernel_lanes,
        }
    }
}

impl<S: Store> Engine<S> {
    /// Drops the records of programs that have ended, where they are the most part.
    pub(super) fn drop_ended(&mut self) {
        let most = LEAST.max(2 * self.left_flows);
        let other = !self.is_told_series() || self.net.is_some() || self.timers > 0;
        if other || self.flows.len() <= most || !self.pending.is_between() {
            return;
        }
        let ended = |pair: &&[(u32, Bases)]| {
            let [(program, at), (_, next)] = pair else { return false };
            self.programs[*program as usize].running == 0
                && self.flows[at.flows..next.flows].iter().all(|flow| !flow.active && flow.oldest == flow.next)
                && self.junctions[at.junctions..next.junctions].iter().all(|junction| junction.waiting.is_empty())
        };
        let count = self.begun.windows(2).take_while(ended).count();
        if count > 0 {
            let bases = self.begun[count].1;
            self.begun.drain(..count);
            for (_, begun) in &mut self.begun {
                *begun = begun.less(bases);
            }
            self.drop_before(&bases);
        }
        self.left_flows = self.flows.len();
    }

    fn drop_before(&mut self, at: &Bases) {
        self.give_rings(at);
        self.routes.drain(..at.routes);
        self.flows.drain(..at.flows);
        self.spaced.drain(..at.spaced);
        self.conns.drain(..at.conns);
        self.senders.drain(..at.senders);
        self.receivers.drain(..at.receivers);
        self.junctions.drain(..at.junctions);
        self.wide.drain(..at.wide);
        self.fans.drain(..at.fans);
        self.recv_ends.drain(..at.recv_ends);
        self.send_ends.drain(..at.send_ends);
        self.costs.drain(..at.costs);
        self.layouts.drain(..at.layouts);
        self.ops.drain(..at.ops);
        self.lanes.drain(..at.lanes);
        self.watch_fewer(at.lanes);
        self.barriers.drain(..at.barriers);
        self.kernels.drain(..at.kernels);
        self.kernel_lanes.drain(..at.kernel_lanes);
        self.move_flows(at);
        self.move_ends(at);
        self.move_lanes(at);
        self.move_pending(at);
        // What was to be fetched for them is no more.
        self.pending.soon().clear();
        self.forget_states();
    }

    /// Slots and arrivals of connections that are dropped are for others.
    fn give_rings(&mut self, at: &Bases) {
        for conn in &self.conns[..at.conns] {
            self.slots.give(conn.slots);
        }
        let mut last = NONE;
        for receiver in &self.receivers[..at.receivers] {
            // Those of a connection lie side by side, behind the first.
            if receiver.conn != last && receiver.conn != NONE {
                let places = receiver.ring;
                self.arrivals.give(Ring { base: places.base, mask: (places.capacity() << places.shift) - 1 });
            }
            last = receiver.conn;
        }
    }

    fn move_flows(&mut self, at: &Bases) {
        for flow in &mut self.flows {
            flow.route -= at.routes as u32;
            flow.lone.route = flow.lone.route.saturating_sub(at.routes as u32);
            if flow.segments.base != NONE {
                let mut number = flow.oldest;
                while number != flow.next {
                    self.segments.items[flow.segments.at(number)].route -= at.routes as u32;
                    number = number.wrapping_add(1);
                }
            }
            match &mut flow.sink {
                Sink::Receiver(r) => *r -= at.receivers as u32,
                Sink::Junction(j) => *j -= at.junctions as u32,
                Sink::Credit(s) => *s -= at.senders as u32,
            }
            back(&mut flow.wide, at.wide);
            back(&mut flow.spaced, at.spaced);
        }
        let mut i = 0;
        while let Some(count) = self.wide.get(i).map(|count| *count as usize) {
            self.wide[i + 1..][..count].iter_mut().for_each(|junction| *junction -= at.junctions as u32);
            i += 1 + count;
        }
        for junction in &mut self.junctions {
            back_range(&mut junction.outputs, at.flows);
            back(&mut junction.fan, at.fans);
        }
        self.fans.iter_mut().for_each(|fan| fan.receiver -= at.receivers as u32);
    }

    fn move_ends(&mut self, at: &Bases) {
        for conn in &mut self.conns {
            back_range(&mut conn.senders, at.senders);
            if let Credit::Message { flow, .. } = &mut conn.credit {
                *flow -= at.flows as u32;
            }
        }
        for sender in &mut self.senders {
            back(&mut sender.conn, at.conns);
            back_range(&mut sender.flows, at.flows);
            back(&mut sender.signals, at.receivers);
            back(&mut sender.waiter, at.lanes);
        }
        for receiver in &mut self.receivers {
            back(&mut receiver.conn, at.conns);
            back(&mut receiver.waiter, at.lanes);
        }
        self.recv_ends.iter_mut().for_each(|end| *end -= at.receivers as u32);
        self.send_ends.iter_mut().for_each(|end| *end -= at.senders as u32);
    }

    fn move_lanes(&mut self, at: &Bases) {
        // One end is kept in place, of several the first in the list, of none nothing.
        let ends = |ends: Ends, of_one: usize, of_list: usize| match ends.count {
            0 => ends.at.saturating_sub(of_list as u32),
            1 => ends.at - of_one as u32,
            _ => ends.at - of_list as u32,
        };
        for op in &mut self.ops {
            op.recv = ends(op.recv(), at.receivers, at.recv_ends);
            op.send = ends(op.send(), at.senders, at.send_ends);
            op.cost -= at.costs as u32;
            back(&mut op.barrier, at.barriers);
        }
        for lane in &mut self.lanes {
            back_range(&mut lane.ops, at.ops);
            lane.pc = lane.pc.saturating_sub(at.ops as u32);
            lane.layout -= at.layouts as u32;
            lane.kernel -= at.kernels as u32;
        }
        self.barriers.iter_mut().for_each(|barrier| back_range(&mut barrier.lanes, at.lanes));
        self.kernels.iter_mut().for_each(|kernel| back_range(&mut kernel.lanes, at.kernel_lanes));
        self.kernel_lanes.iter_mut().for_each(|lane| *lane -= at.lanes as u32);
        for (program, _) in &self.begun {
            back_range(&mut self.programs[*program as usize].kernels, at.kernels);
        }
    }

    fn move_pending(&mut self, at: &Bases) {
        for event in self.pending.drain() {
            let word = event.word();
            let lane =
                |by: usize| word.lane_id().0.checked_sub(by as u32).map(|id| Word::lane(word.phase(), LaneId(id)));
            let word = match word.phase() {
                // A wake that another has overtaken may be of a lane that is no more.
                Phase::Lane => lane(at.lanes),
                Phase::Meeting => lane(at.junctions),
                Phase::Source | Phase::Arrival => {
                    let flow = word.flow_id().0.checked_sub(at.flows as u32);
                    flow.map(|flow| Word::segment(word.phase(), word.link_id(), FlowId(flow), word.number()))
                }
                _ => Some(word),
            };
            if let Some(word) = word {
                self.pending.push(event.at(), word);
            }
        }
    }
}
