//! What is decided at run time: queued ports and their flow control, rates, windows and paths of managed flows.

use super::Engine;
use super::state::{ManagedState, NONE, Segment};
use crate::event::{Phase, Word};
use crate::flow_control::{Admission, AnyFlowControl, Signal};
use crate::ids::{FlowId, LinkId};
use crate::path_choice::AnyPathChoice;
use crate::queue::Store;
use crate::rate_control::{Ack, RateControl};
use crate::units::{Bytes, Span, Time};

/// The word of a signal of the flow control to `port`; that of a service of the port has flow 0.
pub(super) const fn signal_word(port: LinkId) -> Word {
    Word::segment(Phase::Port, port, FlowId(1), 0)
}

impl<S: Store> Engine<S> {
    /// Puts a flow control on the queued links.
    pub fn set_flow_control(&mut self, scheme: AnyFlowControl) {
        self.flow_control = scheme;
    }

    /// A segment's head is at a queued port.
    pub(super) fn enqueue(&mut self, link: LinkId, flow: u32, number: u32, now: Time) {
        self.ports[link.index()].queue.push_back((flow, number, now));
        self.call_port(link, now);
    }

    /// Makes sure that the port is served when its link is free, unless it waits for a signal.
    fn call_port(&mut self, link: LinkId, now: Time) {
        let free = self.links[link.index()].free;
        let port = &mut self.ports[link.index()];
        if !port.scheduled && !port.blocked && !port.queue.is_empty() {
            port.scheduled = true;
            self.pending.push(free.max(now), Word::segment(Phase::Port, link, FlowId(0), 0));
        }
    }

    /// A queued port may send.
    pub(super) fn serve_port(&mut self, link: LinkId, now: Time) {
        let port = &mut self.ports[link.index()];
        port.scheduled = false;
        let Some(&(flow, number, head_in)) = port.queue.front() else { return };
        let state = &self.flows[flow as usize];
        let (last_hop, segment) = (state.hops, *self.segment(state, number));
        let wire = self.wire(link, &segment);
        let scheme = self.flow_control.scheme();
        if scheme.ask(link, wire, now) == Admission::Wait {
            self.ports[link.index()].blocked = true;
            return;
        }
        scheme.on_depart(link, wire, now);
        self.ports[link.index()].queue.pop_front();
        let free = self.cross(link, flow, number, segment, head_in, now);
        self.leave_buffer(&segment, free);
        // An endpoint takes what arrives at once.
        if segment.hop + 1 == last_hop {
            let arrived = free + self.links[link.index()].latency;
            let signal = self.flow_control.scheme().on_release(link, wire, arrived);
            self.send_signal(signal, arrived);
        }
        self.call_port(link, now);
        if segment.hop == 0 {
            self.next_turn(flow, free, now);
        }
    }

    /// The buffer that a segment held behind the link it came over is free when its tail has gone, at `free`.
    pub(super) fn leave_buffer(&mut self, segment: &Segment, free: Time) {
        if segment.hop == 0 {
            return;
        }
        let from = self.routes[segment.route as usize + segment.hop as usize - 1];
        if self.links[from.index()].queued {
            let held = self.wire(from, segment);
            let signal = self.flow_control.scheme().on_release(from, held, free);
            self.send_signal(signal, free);
        }
    }

    fn wire(&self, link: LinkId, segment: &Segment) -> Bytes {
        let overhead = u64::from(self.links[link.index()].overhead);
        Bytes::new(u64::from(segment.bytes) + u64::from(segment.packets) * overhead)
    }

    fn send_signal(&mut self, signal: Option<Signal>, from: Time) {
        if let Some(Signal { port, after, value }) = signal {
            // Signals to a port arrive in the order in which they were sent.
            let signals = &mut self.ports[port.index()].signals;
            let at = signals.back().map_or(Time::ZERO, |(at, _)| *at).max(from + after);
            signals.push_back((at, value));
            self.pending.push(at, signal_word(port));
        }
    }

    /// A signal of the flow control is at a port.
    pub(super) fn signal_arrived(&mut self, port: LinkId, now: Time) {
        if let Some((_, value)) = self.ports[port.index()].signals.pop_front() {
            self.flow_control.scheme().on_signal(port, value, now);
            self.ports[port.index()].blocked = false;
            self.call_port(port, now);
        }
    }

    /// Whether the window of a managed flow lets `bytes` more out; if not, the source is held until an acknowledgement.
    pub(super) fn window_open(&mut self, flow: u32, bytes: u32) -> bool {
        let managed = &mut self.managed[self.flows[flow as usize].managed as usize];
        let window = managed.rate.window();
        managed.held = managed.outstanding > 0 && managed.outstanding + u64::from(bytes) > window;
        !managed.held
    }

    /// A managed flow sends a segment: books it, and gives it a path.
    pub(super) fn managed_send(&mut self, flow: u32, segment: &mut Segment, now: Time) {
        let index = self.flows[flow as usize].managed as usize;
        let managed = &mut self.managed[index];
        managed.outstanding += u64::from(segment.bytes);
        managed.sent.push_back(now);
        managed.rate.on_send(now, segment.bytes);
        if managed.paths.len() > 1 && !matches!(managed.choice, AnyPathChoice::Pinned(_)) {
            let (links, routes, parting) = (&self.links, &self.routes, managed.parting as usize);
            let backlog = |route: &u32| links[routes[*route as usize + parting].index()].free.since(now);
            let backlogs: Vec<Span> = managed.paths.iter().map(backlog).collect();
            let chosen = managed.choice.choose(now, self.flows[flow as usize].next, &backlogs);
            segment.route = managed.paths[chosen.min(managed.paths.len() - 1)];
        }
        self.arm_timer(flow, index);
    }

    /// A managed flow was given a message of `bytes`.
    pub(super) fn managed_post(&mut self, flow: u32, bytes: u64) {
        let now = self.pending.now();
        let managed = &mut self.managed[self.flows[flow as usize].managed as usize];
        if managed.posted == managed.delivered {
            managed.rate.start(now);
        }
        managed.posted += bytes;
        managed.ends.push_back(managed.posted);
    }

    /// A segment of a managed flow was delivered; returns how many messages that completes. Acknowledgements take no time
    /// here: a transport that sends them as traffic counts them where they arrive.
    pub(super) fn acknowledge(&mut self, flow: u32, bytes: u32, now: Time) -> u32 {
        let index = self.flows[flow as usize].managed as usize;
        let managed = &mut self.managed[index];
        managed.outstanding -= u64::from(bytes).min(managed.outstanding);
        managed.delivered += u64::from(bytes);
        let sent = managed.sent.pop_front().unwrap_or(now);
        let rtt = now.since(sent);
        managed.rate.on_ack(now, &Ack { bytes: u64::from(bytes), packets: 1, rtt, ..Ack::default() });
        if managed.posted == managed.delivered {
            managed.rate.stop(now);
        }
        let mut complete = 0;
        while managed.ends.front().is_some_and(|end| *end <= managed.delivered) {
            managed.ends.pop_front();
            complete += 1;
        }
        if managed.held {
            managed.held = false;
            let link = self.routes[self.flows[flow as usize].route as usize];
            self.pending.push(now, Word::segment(Phase::Source, link, FlowId(flow), 0));
        }
        self.arm_timer(flow, index);
        complete
    }

    /// A timer of a rate controller is due.
    pub(super) fn rate_timer(&mut self, flow: u32, now: Time) {
        // The flow may be of a program that is gone; its timer is void.
        let Some(index) = self.flows.get(flow as usize).map(|f| f.managed) else { return };
        if index == NONE || self.managed[index as usize].timer != now {
            return;
        }
        let managed = &mut self.managed[index as usize];
        managed.timer = Time::MAX;
        managed.rate.on_timer(now);
        self.arm_timer(flow, index as usize);
    }

    fn arm_timer(&mut self, flow: u32, index: usize) {
        let managed: &mut ManagedState = &mut self.managed[index];
        let at = managed.rate.next_timer().max(self.pending.now());
        if at < managed.timer {
            managed.timer = at;
            self.pending.push(at, Word::segment(Phase::Timer, LinkId(1), FlowId(flow), 0));
        }
    }
}
