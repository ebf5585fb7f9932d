//! The network of packets under the engine: who hands it messages, and where what it delivers goes.
//!
//! Words of the network name its ports and queue pairs. Where the engine has words of the same phase, a port's number is behind
//! those of all links, so that an event of the engine comes before one of the network at the same instant.

use std::collections::{HashMap, VecDeque};

use super::Engine;
use super::state::{NONE, Segment};
use crate::event::{FLOW_BITS, LINK_BITS, Phase, SEGMENT_BITS, Word};
use crate::ids::{FlowId, LinkId};
use crate::net::spec::FlowSpec;
use crate::net::{Drain, Effect, Net, NetOutcome, NetPlan, Schedule, SpecError};
use crate::outcome::StopReason;
use crate::queue::{Pending, Store};
use crate::rate_control::RateSpec;
use crate::recorder::LinkCounters;
use crate::units::{Bytes, Rate, Span, Time};

/// The number in a Timer word's place of the link: an endpoint looks whether it takes more.
const DRAIN: u32 = 16;

/// Segments in flight on the last leg of a flow beyond which its endpoint takes no more; well below what can be numbered.
const MOST_ONWARD: u32 = 1 << (SEGMENT_BITS - 1);

/// The flows of a queue pair: the one that ends in it, and the one that goes on from it, or [`NONE`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    pub(super) flow: u32,
    pub(super) onward: u32,
}

/// What queue pairs have in common that can stand in for each other: their ports, their room, whether they go onward,
/// and what they do.
type Kind = (Box<[u32]>, u64, bool, u16);

impl Leg {
    const NOWHERE: Self = Self { flow: NONE, onward: NONE };
}

/// A network of packets and what the engine knows of it.
#[derive(Debug)]
pub(super) struct Wired {
    net: Net,
    /// The port of each link, or [`NONE`]; the link, rate and other direction of each port.
    ports: Vec<u32>,
    links: Vec<LinkId>,
    rates: Vec<Rate>,
    twins: Vec<u32>,
    overhead: u64,
    mtu: u32,
    /// What queue pairs do, by the way in which a flow is carried.
    ways: Vec<(FlowSpec, RateSpec)>,
    fetch: u64,
    drain: Option<Drain>,
    /// Of each queue pair.
    pub(super) legs: Vec<Leg>,
    /// Of each: its last port, and the class in which its packets take it.
    last_ports: Vec<(u32, u8)>,
    /// Queue pairs that serve no flow, by the ports that they go over and what they are fed with, in order.
    free: HashMap<Kind, VecDeque<u32>>,
    kinds: Vec<Kind>,
    /// Classes of each port that the endpoint behind it holds.
    held: Vec<u16>,
    failed: bool,
}

/// Puts events of the network among those of the engine.
struct Behind<'a, S> {
    pending: &'a mut Pending<S>,
    links: usize,
}

const fn of_ports(phase: Phase) -> bool {
    matches!(phase, Phase::Arrival | Phase::Source)
}

/// The same word, its link `by` further.
const fn moved(word: Word, by: usize) -> Word {
    Word(word.0 + ((by as u64) << (FLOW_BITS + SEGMENT_BITS)))
}

impl<S: Store> Schedule for Behind<'_, S> {
    #[inline]
    fn at(&mut self, time: Time, word: Word) {
        let word = if of_ports(word.phase()) { moved(word, self.links) } else { word };
        self.pending.push(time, word);
    }

    #[inline]
    fn in_order(&mut self, lane: u8, time: Time, word: Word) {
        let word = if of_ports(word.phase()) { moved(word, self.links) } else { word };
        self.pending.push_in_order(lane, time, word);
    }
}

impl Wired {
    fn new(plan: NetPlan, links: usize) -> Result<Self, SpecError> {
        let mut ports = vec![NONE; links];
        for (port, link) in plan.links.iter().enumerate() {
            ports[link.index()] = port as u32;
        }
        Ok(Self {
            ports,
            rates: plan.spec.ports.iter().map(|port| port.rate).collect(),
            twins: plan.spec.ports.iter().map(|port| port.twin).collect(),
            overhead: u64::from(plan.spec.overhead),
            mtu: plan.spec.mtu,
            held: vec![0; plan.links.len()],
            links: plan.links,
            ways: core::iter::once((plan.flow, plan.rate)).chain(plan.others).collect(),
            fetch: plan.fetch.get(),
            drain: plan.drain,
            legs: Vec::new(),
            last_ports: Vec::new(),
            free: HashMap::new(),
            kinds: Vec::new(),
            failed: false,
            net: Net::new(plan.spec)?,
        })
    }

    /// The port of a link, or [`NONE`] where it carries no packets.
    pub(super) fn port(&self, link: LinkId) -> u32 {
        self.ports[link.index()]
    }

    /// A queue pair, perhaps one that served another flow, over links of the network, fed in segments of `segment` bytes, that
    /// does what `way` says.
    pub(super) fn open(
        &mut self,
        route: &[LinkId],
        (segment, way): (u64, u16),
        onward: bool,
        name: (u32, u32),
    ) -> Result<u32, SpecError> {
        let forth: Vec<u32> = route.iter().map(|link| self.port(*link)).collect();
        let back: Vec<u32> = forth.iter().rev().map(|port| self.twins[*port as usize]).collect();
        let (Some(first), Some(last)) = (forth.first(), forth.last()) else { return Err(SpecError::Route) };
        let room = self.fetch.max(segment.saturating_mul(2));
        let kind: Kind = (forth.clone().into_boxed_slice(), room, onward, way);
        // As with a communication library, queue pairs outlive a program: the next one finds them, and their rates, as they are.
        if let Some(free) = self.free.get_mut(&kind)
            && let Some(qp) = free.front().copied()
            && self.net.serve_flow(qp, name.0, name.1)
        {
            free.pop_front();
            return Ok(qp);
        }
        let line = self.rates[*first as usize];
        let hops = u8::try_from(forth.len()).map_err(|_| SpecError::Route)?;
        let (flow, rate) = self.ways.get(usize::from(way)).ok_or(SpecError::NoWay(way))?;
        let qp = self.net.open(&forth, &back, *flow, rate.at(line, hops))?;
        self.net.feed(qp, room, onward);
        self.net.serve_flow(qp, name.0, name.1);
        self.legs.push(Leg::NOWHERE);
        self.last_ports.push((*last, self.net.last_class(qp)));
        self.kinds.push(kind);
        Ok(qp)
    }

    /// Bytes that have arrived by queue pairs at whose end nothing follows.
    fn bytes_delivered(&self) -> u64 {
        let here = self.legs.iter().enumerate().filter(|(_, leg)| leg.flow != NONE && leg.onward == NONE);
        here.map(|(qp, _)| self.net.bytes_taken(qp as u32)).sum()
    }

    /// Whether an event is the network's.
    fn owns(&self, word: Word) -> bool {
        match word.phase() {
            Phase::Port => true,
            Phase::Arrival | Phase::Source => word.link_id().index() >= self.ports.len(),
            Phase::Timer => word.link_id() != LinkId(0),
            Phase::Lane | Phase::Meeting => false,
        }
    }
}

impl<S: Store> Engine<S> {
    /// Lets the links that `plan` names carry packets; before the first program is loaded.
    ///
    /// # Errors
    /// If the plan is not consistent, comes too late, or names links that are not there or are down at times.
    pub fn set_net(&mut self, plan: NetPlan) -> Result<(), SpecError> {
        let (links, ports) = (plan.links.len(), plan.spec.ports.len());
        let ascending = plan.links.windows(2).all(|pair| pair[0] < pair[1]);
        let there = plan.links.last().is_none_or(|last| last.index() < self.links.len());
        // Both kinds of number have to find place in a word.
        let few = self.links.len() + ports <= 1 << LINK_BITS;
        if links != ports || !ascending || !there || !few {
            return Err(SpecError::Links { links, ports });
        }
        if !self.programs.is_empty() {
            return Err(SpecError::Late);
        }
        if let Some(LinkId(link)) = plan.links.iter().find(|link| self.links[link.index()].flaps) {
            return Err(SpecError::Outage(*link));
        }
        self.net = Some(Box::new(Wired::new(plan, self.links.len())?));
        Ok(())
    }

    /// What the network of packets measured so far; `None` if there is none.
    #[must_use]
    pub fn net_outcome(&mut self) -> Option<NetOutcome> {
        let now = self.now();
        self.net.as_mut().map(|wired| wired.net.outcome(now))
    }

    /// Whether something in the network of packets is to be sent or not acknowledged.
    pub(super) fn net_is_busy(&self) -> bool {
        self.net.as_ref().is_some_and(|wired| wired.net.is_busy())
    }

    /// Queue pairs serve no flow any more, if all has arrived; whether that is so.
    pub(super) fn forget_net(&mut self) -> bool {
        let Some(wired) = self.net.as_deref_mut() else { return true };
        if !wired.net.has_arrived() {
            return false;
        }
        self.engine.bytes_delivered += wired.bytes_delivered();
        for (qp, leg) in wired.legs.iter_mut().enumerate().filter(|(_, leg)| leg.flow != NONE) {
            *leg = Leg::NOWHERE;
            wired.free.entry(wired.kinds[qp].clone()).or_default().push_back(qp as u32);
        }
        true
    }

    /// An event of the engine or of the network; why the run stops, if it does.
    pub(super) fn handle_with_net(&mut self, now: Time, word: Word) -> Option<StopReason> {
        self.pending.soon().clear();
        let links = self.links.len();
        let wired = self.net.as_deref_mut()?;
        if wired.owns(word) {
            if word.phase() == Phase::Timer && word.link_id() == LinkId(DRAIN) {
                self.look_at_backlog(word.flow_id().0, now);
                return None;
            }
            let word = if of_ports(word.phase()) { Word(word.0 - moved(Word(0), links).0) } else { word };
            wired.net.handle(now, word, &mut Behind { pending: &mut self.pending, links });
        } else {
            self.handle(now, word);
        }
        while !self.net.as_deref_mut()?.net.effects().is_empty() {
            self.hear_net(now);
        }
        let wired = self.net.as_deref()?;
        if wired.failed {
            return Some(StopReason::GaveUp);
        }
        if wired.net.is_deadlocked() {
            return Some(StopReason::Deadlock);
        }
        wired.net.is_stuck().then_some(StopReason::NoProgress)
    }

    /// What the network tells.
    fn hear_net(&mut self, now: Time) {
        let Some(wired) = self.net.as_deref_mut() else { return };
        let mut effects = core::mem::take(wired.net.effects());
        for effect in effects.drain(..) {
            match effect {
                Effect::Taken { qp, bytes, ends } => self.go_onward(qp, bytes, ends, now),
                Effect::Delivered { qp, at } => {
                    let leg = self.leg(qp);
                    if leg.onward == NONE {
                        self.deliver_message(leg.flow, at, now);
                    }
                }
                Effect::Room { qp } => {
                    let flow = self.leg(qp).flow;
                    let link = self.routes[self.flows[flow as usize].route as usize];
                    self.pending.push(now, Word::segment(Phase::Source, link, FlowId(flow), 0));
                }
                Effect::Failed { .. } => {
                    if let Some(wired) = self.net.as_deref_mut() {
                        wired.failed = true;
                    }
                }
                Effect::Acknowledged { .. } => {}
            }
        }
        // What the network has told meanwhile comes next; if that is nothing, the list's room can be used again.
        if let Some(wired) = self.net.as_deref_mut()
            && wired.net.effects().is_empty()
        {
            *wired.net.effects() = effects;
        }
    }

    fn leg(&self, qp: u32) -> Leg {
        self.net.as_ref().and_then(|wired| wired.legs.get(qp as usize)).copied().unwrap_or(Leg::NOWHERE)
    }

    /// Whether the endpoint takes a segment of `bytes` from a flow, which has `left` of the message to send; if so, it is on its
    /// way, and if not, the flow is woken when it does.
    pub(super) fn endpoint_takes(&mut self, qp: u32, bytes: u32, left: u64, now: Time) -> bool {
        let Some(wired) = self.net.as_deref_mut() else { return true };
        let takes = wired.net.has_room(qp);
        if takes {
            wired.net.ask(qp, bytes, left, now);
        }
        takes
    }

    /// A segment will be at the endpoint where its flow ends, its head at `head`.
    pub(super) fn reach_endpoint(&mut self, qp: u32, segment: &Segment, head: Time, now: Time) {
        let links = self.links.len();
        if let Some(wired) = self.net.as_deref_mut() {
            let schedule = &mut Behind { pending: &mut self.pending, links };
            wired.net.read(qp, segment.bytes, head, segment.tail, now, schedule);
        }
    }

    /// A packet, or a unit of several, goes on over the host's links.
    fn go_onward(&mut self, qp: u32, bytes: u32, ends: u16, now: Time) {
        let flow = self.leg(qp).onward;
        let mtu = self.net.as_deref().map_or(u32::MAX, |wired| wired.mtu);
        let packets = if bytes <= mtu { 1 } else { bytes.div_ceil(mtu) };
        let state = &self.flows[flow as usize];
        if state.oldest == state.next {
            self.moving += 1;
        }
        let segment = Segment { tail: now, route: state.route, bytes, packets, hop: 0, ends };
        let link = self.routes[state.route as usize];
        self.cross(link, flow, NONE, segment, now);
        let state = &self.flows[flow as usize];
        if state.oldest == state.next {
            self.moving -= 1;
        }
        if let Some(at) = self.backlog(qp, true, now) {
            self.hold(qp, true, now);
            self.pending.push(at.max(now), Word::segment(Phase::Timer, LinkId(DRAIN), FlowId(qp), 0));
        }
    }

    /// Where what is behind an endpoint is so far behind that it takes no more (or, having taken none, not yet): until when.
    fn backlog(&self, qp: u32, takes: bool, now: Time) -> Option<Time> {
        let wired = self.net.as_deref()?;
        let (port, class) = wired.last_ports[qp as usize];
        if takes && wired.held[port as usize] >> class & 1 != 0 {
            return None;
        }
        let state = self.flows.get(wired.legs[qp as usize].onward as usize)?;
        let link = &self.links[self.routes[state.route as usize].index()];
        let behind = link.free.since(now);
        let span = |bytes: Bytes| link.cost.cost(bytes);
        if let Some(drain) = wired.drain
            && behind > if takes { span(drain.xoff) } else { span(drain.xon) }
        {
            return Some(Time::from_ps(link.free.as_ps() - span(drain.xon).as_ps().min(behind.as_ps())));
        }
        let many = state.next.wrapping_sub(state.oldest) >= if takes { MOST_ONWARD } else { MOST_ONWARD / 2 };
        many.then(|| now + Span::from_ps(behind.as_ps() / 2).max(Span::from_us(1)))
    }

    /// An endpoint that took no more looks whether it does.
    fn look_at_backlog(&mut self, qp: u32, now: Time) {
        match self.backlog(qp, false, now) {
            Some(at) => {
                let at = at.max(now + Span::from_ps(1));
                self.pending.push(at, Word::segment(Phase::Timer, LinkId(DRAIN), FlowId(qp), 0));
            }
            None => self.hold(qp, false, now),
        }
    }

    /// An endpoint takes no more of the class of a queue pair, or takes more again.
    fn hold(&mut self, qp: u32, stop: bool, now: Time) {
        let links = self.links.len();
        let Some(wired) = self.net.as_deref_mut() else { return };
        let (port, class) = wired.last_ports[qp as usize];
        let held = &mut wired.held[port as usize];
        *held = if stop { *held | 1 << class } else { *held & !(1 << class) };
        wired.net.drain(port, class, stop, now, &mut Behind { pending: &mut self.pending, links });
    }

    /// What links that carry packets counted, and when their wires are free; where bytes are missing, how many were told of and
    /// have not arrived.
    pub(super) fn count_packets(&mut self, outcome: Option<&NetOutcome>, links: &mut [LinkCounters]) -> u64 {
        let (Some(wired), Some(outcome)) = (self.net.as_deref(), outcome) else { return 0 };
        for (port, (link, classes)) in wired.links.iter().zip(&outcome.ports).enumerate() {
            let state = &mut self.links[link.index()];
            state.free = state.free.max(wired.net.free_at(port as u32));
            let counters = &mut links[link.index()];
            let (mut wire, mut data, mut peak) = (0, 0, 0);
            for class in classes {
                wire += class.bytes;
                peak += class.peak;
                // Control packets that wait as data do take the wire, and carry no payload.
                data += class.bytes - class.queued_control_bytes;
                counters.packets += class.packets - class.queued_control;
                counters.wait_bytes += u128::from(class.byte_ns) * 1_000;
            }
            let cost = wired.rates[port].ps_per_byte();
            counters.segments = counters.packets;
            counters.payload = data - counters.packets * wired.overhead;
            counters.busy = cost.cost(Bytes::new(wire));
            counters.longest_wait = cost.cost(Bytes::new(peak));
        }
        let taken: u64 = outcome.flows.iter().map(|flow| flow.payload).sum();
        self.engine.bytes_delivered += wired.bytes_delivered();
        wired.net.bytes_read() - taken
    }
}
