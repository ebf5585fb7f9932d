//! Networks of packets: ports with queues per class, shared buffers with pauses or drops, credits, marks, and queue pairs
//! that send, acknowledge and recover.
//!
//! [`Net`] holds the state and is called with the events that it scheduled; it knows of no engine. [`PacketRun`] drives a
//! network alone. A data packet takes two events a hop, its arrival and the service of the port behind it; a control
//! packet, which goes before all data and is never held, takes one.
//!
//! Ties are decided as everywhere (see [`crate::event`]): services of ports by link, then what ports are told, queue
//! pairs that may go on, arrivals by the link crossed (the word names the link alone; its packets arrive in the order in
//! which they left), timers.

mod arbiter;
pub mod coarse;
mod counters;
mod drain;
mod feed;
mod flow_control;
mod grants;
mod in_order;
mod loss;
mod marking;
mod observe;
mod packet;
mod paths;
pub mod plan;
mod port;
mod qp;
mod receive;
mod recovery;
mod roots;
mod run;
mod send;
mod signals;
pub mod spec;
mod stall;
mod telemetry;
pub mod unit;

#[cfg(test)]
pub(crate) mod tests;

pub use counters::{FlowOutcome, NetOutcome, OCTAVES, PortCounters, Totals, octave};
pub use observe::{FlowSeries, PortSeries, Series};
pub use plan::{Drain, NetPlan};
pub use roots::Victim;
pub use run::PacketRun;

use crate::event::{Phase, Word};
use crate::ids::{FlowId, LinkId};
use crate::queue::{Pending, Store};
use crate::units::Time;

use flow_control::Scheme;
use marking::Draws;
use packet::Packets;
use port::Port;
use qp::Qp;
use signals::Told;
use spec::{MarkAt, Marking, NetSpec};

/// Where a network puts its events.
pub trait Schedule {
    /// An event of `word` at `time`.
    fn at(&mut self, time: Time, word: Word);

    /// The same; events of one `lane` are told mostly in order of their times.
    fn in_order(&mut self, lane: u8, time: Time, word: Word);
}

impl<S: Store> Schedule for Pending<S> {
    // Called from many places.
    #[inline(never)]
    fn at(&mut self, time: Time, word: Word) {
        self.push(time, word);
    }

    #[inline]
    fn in_order(&mut self, lane: u8, time: Time, word: Word) {
        self.push_in_order(lane, time, word);
    }
}

/// What a network tells whoever drives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// All of the next message of a queue pair has arrived.
    Delivered {
        /// The queue pair.
        qp: u32,
        /// When.
        at: Time,
    },
    /// A packet that was not there yet has arrived, at a queue pair that passes on what it receives.
    Taken {
        /// The queue pair.
        qp: u32,
        /// Payload.
        bytes: u32,
        /// Messages that it completes; each is a `Delivered`, too.
        ends: u16,
    },
    /// A queue pair that is fed has room again.
    Room {
        /// The queue pair.
        qp: u32,
    },
    /// The sender knows that all of the next message has arrived.
    Acknowledged {
        /// The queue pair.
        qp: u32,
        /// When.
        at: Time,
    },
    /// The queue pair has given up.
    Failed {
        /// The queue pair.
        qp: u32,
    },
}

/// A fault of a network's description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// There is no class, or there are too many.
    #[error("{0} classes; there may be 1 to {most}", most = spec::MOST_CLASSES)]
    Classes(usize),
    /// A port names a node or twin that is not there.
    #[error("port {0} names a node or a twin that is not there")]
    Port(usize),
    /// The lower threshold is above the upper one.
    #[error("thresholds {low} and {high} are in the wrong order")]
    Thresholds {
        /// The lower one.
        low: u64,
        /// The upper one.
        high: u64,
    },
    /// A buffer is smaller than one packet.
    #[error("a buffer of {have} bytes can't hold one packet: it needs {need}")]
    Buffer {
        /// What there is.
        have: u64,
        /// What one packet takes.
        need: u64,
    },
    /// What is set aside for inputs is more than the buffer.
    #[error(
        "headroom and reserve of all inputs take {aside} bytes of a buffer of {size}; at most {most} bytes of headroom an input fit"
    )]
    Aside {
        /// What is set aside.
        aside: u64,
        /// The buffer.
        size: u64,
        /// The largest headroom that fits.
        most: u64,
    },
    /// A queue pair's route is empty, too long, or begins elsewhere than at an endpoint.
    #[error("the route of a queue pair is empty, too long or does not join two endpoints")]
    Route,
    /// A queue pair whose packets may overtake each other takes each gap for a loss.
    #[error("paths that reorder packets need a receiver that keeps what comes early (selective recovery)")]
    Reorders,
    /// A queue pair that waits for grants, where no receiver grants.
    #[error("a queue pair waits for grants that no receiver gives (`NetSpec::grants`)")]
    NoGrants,
    /// Asks and grants wait in a class whose packets may be dropped, and are not sent again.
    #[error(
        "asks and grants would wait as packets of class {0}, which may be dropped, and are not sent again: let control packets go before all data"
    )]
    GrantsDropped(u8),
    /// Units of no packet, or of too many.
    #[error("units of {0} packets; they may be of 1 to {most}", most = spec::MOST_PACKETS)]
    Grain(u32),
    /// A class that is not there.
    #[error("there is no class {0}")]
    NoClass(u8),
    /// A flow is carried in a way that the plan does not know.
    #[error("a flow is carried in way {0}, which the plan does not know")]
    NoWay(u16),
    /// The links that ports stand for are not as many as the ports, not in ascending order, or not there.
    #[error("{links} links for {ports} ports, or links that are not there or not in ascending order")]
    Links {
        /// Links that are named.
        links: usize,
        /// Ports of the network.
        ports: usize,
    },
    /// Programs are loaded already.
    #[error("a network of packets has to be there before the first program")]
    Late,
    /// A link that is down at times can't be a port.
    #[error("link {0} is down at times, which ports of packets can't be")]
    Outage(u32),
}

/// A network of packets.
#[derive(Clone, Debug)]
pub struct Net {
    spec: NetSpec,
    ports: Vec<Port>,
    queues: Vec<arbiter::ClassQueue>,
    inputs: arbiter::InputQueues,
    groups: arbiter::Groups,
    packets: Packets,
    scheme: Scheme,
    draws: Draws,
    told: Vec<Told>,
    qps: Vec<Qp>,
    messages: Vec<qp::Messages>,
    feeds: Vec<feed::Feed>,
    telemetry: telemetry::Telemetry,
    granting: grants::Granting,
    coarse: coarse::Coarse,
    /// Queue pairs with something that is not acknowledged.
    busy: u32,
    /// Queue pairs with something that has not arrived.
    expecting: u32,
    /// What queue pairs measured for flows that are no more.
    past: Vec<FlowOutcome>,
    routes: Vec<u32>,
    hops: paths::NextHops,
    counters: Vec<PortCounters>,
    /// Per queue: ticks at each octave of depth.
    histograms: Vec<[u64; OCTAVES]>,
    /// Hops of control packets that queued as data.
    control_queued: u64,
    observer: observe::Observer,
    lives: Vec<roots::Life>,
    totals: Totals,
    stall: stall::Stall,
    effects: Vec<Effect>,
    classes: u8,
    /// Some ports raise the class of what crosses their links.
    raising: bool,
    /// A class marks by what packets find before them.
    marks_early: bool,
}

/// The number in a Port word's place of the flow.
const SERVICE: u32 = 0;
const SIGNAL: u32 = 1;
const EXPIRY: u32 = 2;
/// The number in a Timer word's place of the link.
const RATE_TIMER: u32 = 1;
const TIMEOUT: u32 = 2;
const STALL: u32 = 3;
/// A notice that was put off.
const NOTICE: u32 = 4;
/// The end of a storm.
const STORM: u32 = 5;

#[inline]
const fn word(phase: Phase, link: u32, flow: u32) -> Word {
    Word::segment(phase, LinkId(link), FlowId(flow), 0)
}

impl Net {
    /// A network as described.
    ///
    /// # Errors
    /// If the description is not consistent.
    pub fn new(spec: NetSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let classes = spec.classes.len();
        let links = spec.ports.len();
        Ok(Self {
            ports: in_order::ports(&spec),
            queues: vec![arbiter::ClassQueue::default(); links * classes],
            inputs: arbiter::InputQueues::new(&spec),
            groups: arbiter::Groups::new(&spec),
            packets: Packets::default(),
            scheme: Scheme::new(&spec),
            draws: Draws::new(spec.seed, links),
            told: vec![Told::default(); links],
            qps: Vec::new(),
            messages: Vec::new(),
            feeds: Vec::new(),
            telemetry: telemetry::Telemetry::default(),
            granting: grants::Granting::default(),
            coarse: coarse::Coarse::default(),
            busy: 0,
            expecting: 0,
            past: Vec::new(),
            routes: Vec::new(),
            hops: paths::NextHops::default(),
            counters: vec![PortCounters::default(); links * classes],
            histograms: vec![[0; OCTAVES]; links * classes],
            control_queued: 0,
            observer: observe::Observer::new(&spec),
            lives: Vec::new(),
            totals: Totals::default(),
            stall: stall::Stall::default(),
            effects: Vec::new(),
            classes: classes as u8,
            raising: !spec.raises.is_empty(),
            marks_early: spec
                .classes
                .iter()
                .any(|class| matches!(class.marking, Marking::Red { at: MarkAt::Enqueue, .. })),
            spec,
        })
    }

    /// An event that this network scheduled is due.
    #[inline]
    pub fn handle(&mut self, now: Time, word: Word, s: &mut impl Schedule) {
        if now >= self.observer.due {
            self.look(now);
            while let Some(storm) = self.next_storm(now) {
                self.begin_storm(storm, now, s);
            }
        }
        // Two kinds of event are nearly all, and name a link alone.
        let link = word.link_id().0;
        if word.is(Phase::Arrival) {
            self.arrive(link, now, s);
        } else if word == self::word(Phase::Port, link, SERVICE) {
            self.service(link, now, s);
        } else {
            self.handle_other(now, word, s);
        }
    }

    #[inline(never)]
    fn handle_other(&mut self, now: Time, word: Word, s: &mut impl Schedule) {
        let (link, flow) = (word.link_id().0, word.flow_id().0);
        match word.phase() {
            Phase::Port if flow == SIGNAL => self.signalled(link, now, s),
            Phase::Port if flow == EXPIRY => self.expired(link, now, s),
            Phase::Port => self.drained(link, flow, now, s),
            Phase::Source => self.eligible(flow, now, s),
            Phase::Timer => match link {
                RATE_TIMER => self.rate_timer(flow, now, s),
                TIMEOUT => self.timeout(flow, now, s),
                STORM => self.end_storm(flow, now, s),
                NOTICE => self.send_control(flow, packet::Kind::Notice, 0, 0, now, now, s),
                _ => self.check_stall(now, s),
            },
            Phase::Arrival | Phase::Lane | Phase::Meeting => {}
        }
    }

    /// What has happened since this was last cleared.
    pub fn effects(&mut self) -> &mut Vec<Effect> {
        &mut self.effects
    }

    /// Whether something is to be sent or not acknowledged.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy > 0
    }

    /// Whether all that was announced has arrived.
    pub(crate) fn has_arrived(&self) -> bool {
        self.expecting == 0
    }

    /// When the wire of a port is free.
    pub(crate) fn free_at(&self, port: u32) -> Time {
        self.ports[port as usize].free
    }

    /// Whether a port of a class is in a cycle of ports that wait for each other.
    #[must_use]
    pub fn is_deadlocked(&self) -> bool {
        !self.stall.cycle.is_empty()
    }

    /// Whether nothing has arrived for as long as is allowed ([`NetSpec::no_progress`]).
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.stall.stuck
    }

    #[inline]
    fn queue_at(&self, link: u32, class: u8) -> usize {
        link as usize * self.classes as usize + class as usize
    }
}

#[cfg(test)]
mod sizes {
    #[test]
    fn records_stay_small() {
        assert!(size_of::<super::Port>() <= 128, "{}", size_of::<super::Port>());
        assert_eq!(size_of::<super::packet::Packet>(), 48);
    }
}
