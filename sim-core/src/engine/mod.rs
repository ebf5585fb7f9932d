//! The loop: events in order, and what each does.
//!
//! ```text
//! lane ──post──► flow source ──► link ──► link ──► … ──► receiver ──wakes──► lane
//!                                   └──► junction ──► links …
//! ```
//!
//! A segment costs one event per link that it shares (its head's arrival there; the first link's is the source's turn), a
//! junction one for all inputs, a lane one for a step. Where something ends, whoever waits is told ahead when that will be.

mod ended;
mod finish;
mod junction;
mod lanes;
mod legs;
mod load;
mod open;
mod outages;
mod packets;
mod periods;
mod regions;
mod soon;
mod source;
mod spacing;
mod state;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_open;
#[cfg(test)]
mod tests_outages;
#[cfg(test)]
mod tests_packets;
#[cfg(test)]
mod tests_periods;
#[cfg(test)]
mod tests_regions;
#[cfg(test)]
mod tests_spacing;
#[cfg(test)]
mod tests_together;
mod together;
mod transfer;

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::event::{Phase, Word};
use crate::ids::{LaneId, LinkId};
use crate::network::{LinkSpec, Network};
use crate::outcome::StopReason;
use crate::program::Cost;
use crate::queue::radix::RadixStore;
use crate::queue::{Pending, Store};
use crate::units::{Bytes, Span, Time};

use load::Bases;
pub use load::LoadError;
use periods::{Trace, Watch};
use regions::Regions;
use spacing::SpacedState;
use state::{
    Arrival, BarrierState, ConnState, Fan, Flapping, FlowState, JunctionState, KernelState, LaneState, LinkState,
    Message, OpState, ProgramState, RecvState, Rings, Segment, SendState, Slot,
};

/// Bounds of a run, and what it may share with its surroundings.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most events.
    pub events: u64,
    /// Latest simulated instant.
    pub time: Time,
    /// Set from elsewhere (a signal handler) to stop the run.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// Plays what comes again exactly too, instead of counting it. Nothing that is measured depends on it.
    pub play_all: bool,
    /// The driver loads one program, and until that has ended and come to rest neither another nor a timer. Then a large one
    /// may be played region by region, and notices come when all is over. Nothing that is measured depends on it.
    pub one_program: bool,
    /// The driver loads programs while others run, at any time: what one does may not depend on which others have been loaded
    /// before and have come to rest, nor on links that no other uses so far ([`Engine::go_to`]).
    pub open: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { events: u64::MAX, time: Time::MAX, interrupt: None, play_all: false, one_program: false, open: false }
    }
}

/// What the engine tells its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A kernel has ended an iteration.
    Kernel {
        /// The program, as numbered by [`Engine::load`].
        program: u32,
        /// The kernel's index within its program.
        kernel: u32,
        /// The iteration, from 0.
        iteration: u32,
        /// When it started (before its launch).
        started: Time,
        /// When its last lane ended.
        ended: Time,
    },
    /// All kernels of a program have ended all iterations.
    Program {
        /// The program, as numbered by [`Engine::load`].
        program: u32,
        /// When the last lane ended.
        ended: Time,
    },
    /// A timer is due.
    Timer {
        /// The number it was set with.
        number: u32,
        /// When.
        at: Time,
    },
}

/// Counters of the engine itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// Events handled.
    pub events: u64,
    /// Physical links crossed by segments.
    pub segment_hops: u64,
    /// Payload bytes put on first links (copies made at junctions not counted).
    pub bytes_sent: u64,
    /// Payload bytes that reached a sink.
    pub bytes_delivered: u64,
    /// Payload bytes that junctions took in, and gave out.
    pub bytes_joined: u64,
    /// Payload bytes that junctions gave out.
    pub bytes_forked: u64,
}

/// The mutable world: one run, one thread.
#[derive(Debug)]
pub struct Engine<S: Store = RadixStore> {
    pending: Pending<S>,
    limits: Limits,
    mtu: Bytes,
    links: Vec<LinkState>,
    /// Links that are down at times, by number.
    flapping: Vec<Flapping>,
    /// Timers of the driver that are pending.
    timers: u32,
    routes: Vec<LinkId>,
    flows: Vec<FlowState>,
    /// What keeps messages of flows apart.
    spaced: Vec<SpacedState>,
    segments: Rings<Segment>,
    messages: Rings<Message>,
    conns: Vec<ConnState>,
    slots: Rings<Slot>,
    senders: Vec<SendState>,
    receivers: Vec<RecvState>,
    arrivals: Rings<Arrival>,
    junctions: Vec<JunctionState>,
    /// Of flows that stand for several: their number, then the junctions where they end.
    wide: Vec<u32>,
    /// Outputs of junctions that are one link to a receive end.
    fans: Vec<Fan>,
    recv_ends: Vec<u32>,
    send_ends: Vec<u32>,
    costs: Vec<Cost>,
    layouts: Vec<crate::program::Layout>,
    ops: Vec<OpState>,
    lanes: Vec<LaneState>,
    barriers: Vec<BarrierState>,
    kernels: Vec<KernelState>,
    kernel_lanes: Vec<u32>,
    programs: Vec<ProgramState>,
    /// Programs whose records are there, and where these begin; how many flows were left when some were last dropped.
    begun: Vec<(u32, Bases)>,
    left_flows: usize,
    /// Programs that run, and flows with something to send or in flight.
    live: u32,
    moving: u32,
    notices: Vec<Notice>,
    engine: EngineCounters,
    trace: Trace,
    watch: Watch,
    /// The last instant at which something happened.
    latest: Time,
    /// What is due from this instant on is left for later.
    horizon: Time,
    /// Whether to go on region by region, the regions while that is done, and when they told what.
    apart: bool,
    /// What is loaded can't be cut in regions.
    whole: bool,
    regions: Option<Box<Regions<S>>>,
    told: Vec<Time>,
    /// The most events that were pending in all regions at the beginning of a window.
    peak_apart: usize,
    /// The network of packets, where there is one.
    net: Option<Box<packets::Wired>>,
    /// Whether every flow has its own record and events, for tests.
    plain: bool,
}

fn link_states(network: &Network, mtu: Bytes) -> Vec<LinkState> {
    let state = |(i, spec): (usize, &LinkSpec)| {
        let series = network.is_in_series(LinkId::new(i));
        LinkState { series, ..LinkState::new(spec, mtu) }
    };
    network.links().iter().enumerate().map(state).collect()
}

fn flapping(links: &[LinkSpec]) -> Vec<Flapping> {
    let down = |(i, l): (usize, &LinkSpec)| Some(Flapping { link: i as u32, outage: l.outage?, held: Span::ZERO });
    links.iter().enumerate().filter_map(down).collect()
}

impl<S: Store> Engine<S> {
    /// An engine at time 0 over `network`, in which packets are of `mtu` bytes.
    #[must_use]
    pub fn new(network: &Network, mtu: Bytes, limits: Limits) -> Self {
        let links = network.links();
        let mtu = Bytes::new(mtu.get().clamp(1, 1 << 20));
        Self {
            pending: Pending::default(),
            limits,
            mtu,
            links: link_states(network, mtu),
            flapping: flapping(links),
            timers: 0,
            routes: Vec::new(),
            flows: Vec::new(),
            spaced: Vec::new(),
            segments: Rings::default(),
            messages: Rings::default(),
            conns: Vec::new(),
            slots: Rings::default(),
            senders: Vec::new(),
            receivers: Vec::new(),
            arrivals: Rings::default(),
            junctions: Vec::new(),
            wide: Vec::new(),
            fans: Vec::new(),
            recv_ends: Vec::new(),
            send_ends: Vec::new(),
            costs: Vec::new(),
            layouts: Vec::new(),
            ops: Vec::new(),
            lanes: Vec::new(),
            barriers: Vec::new(),
            kernels: Vec::new(),
            kernel_lanes: Vec::new(),
            programs: Vec::new(),
            begun: Vec::new(),
            left_flows: 0,
            live: 0,
            moving: 0,
            notices: Vec::new(),
            engine: EngineCounters::default(),
            trace: Trace::default(),
            watch: Watch::default(),
            latest: Time::ZERO,
            horizon: Time::MAX,
            apart: false,
            whole: false,
            regions: None,
            told: Vec::new(),
            peak_apart: 0,
            net: None,
            plain: false,
        }
    }

    /// The present instant.
    #[must_use]
    pub fn now(&self) -> Time {
        self.pending.now()
    }

    /// Asks for a [`Notice::Timer`] at `at`.
    pub fn set_timer(&mut self, at: Time, number: u32) {
        self.timers += 1;
        self.forget_states();
        self.pending.push(at, Word::lane(Phase::Timer, LaneId(number)));
    }

    // Kept apart so that a profile can be taken of the loop alone.
    /// Runs until nothing is left to do or a limit is met; `driver` hears every [`Notice`] and may load more programs.
    ///
    /// Iterations of kernels that come again exactly are not played unless [`Limits::play_all`] is set; their notices come
    /// together when the loop goes on behind them, so a driver that loads a program at a [`Notice::Kernel`] should set it.
    #[inline(never)]
    pub fn run(&mut self, mut driver: impl FnMut(&mut Self, Notice)) -> StopReason {
        let mut heard = Vec::new();
        loop {
            // What the driver loads may end at once.
            while !self.notices.is_empty() {
                core::mem::swap(&mut heard, &mut self.notices);
                for notice in heard.drain(..) {
                    driver(self, notice);
                }
            }
            if let Some(stop) = self.go_on() {
                return stop;
            }
        }
    }

    /// Goes on until there is something to tell, or all that is due before the horizon is done: then there is no reason to stop.
    #[inline]
    fn go_on(&mut self) -> Option<StopReason> {
        while self.notices.is_empty() {
            if self.watch.due && self.pending.is_between() {
                self.look();
                if !self.notices.is_empty() {
                    continue;
                }
            }
            if self.apart && self.pending.is_between() {
                if let Some(stop) = self.play_apart() {
                    return Some(stop);
                }
                continue;
            }
            // What is left of a network of packets alone (timers, notices) does not keep a run alive.
            let idle = self.is_idle();
            let next = if idle { None } else { self.pending.pop_before(self.horizon) };
            let Some((now, word)) = next else {
                if !idle && !self.pending.is_empty() {
                    return None;
                }
                return Some(match self.live {
                    0 => StopReason::Finished,
                    // A lane that is busy until the end of time is not blocked by another.
                    _ if self.lanes.iter().any(|l| l.busy_until == Time::MAX) => StopReason::TimeLimit,
                    // Packets that wait at a port that is held for ever.
                    _ if self.net_is_busy() => StopReason::NoProgress,
                    _ => StopReason::Deadlock,
                });
            };
            if now > self.limits.time || now == Time::MAX {
                return Some(StopReason::TimeLimit);
            }
            if self.is_void(now, word) {
                continue;
            }
            if self.engine.events >= self.limits.events {
                return Some(StopReason::EventLimit);
            }
            self.count(now, word);
            if self.engine.events.is_multiple_of(1 << 16)
                && self.limits.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
            {
                return Some(StopReason::Interrupted);
            }
            if self.net.is_some() {
                if let Some(stop) = self.handle_with_net(now, word) {
                    return Some(stop);
                }
                continue;
            }
            if !self.pending.soon().is_empty() {
                self.fetch_soon();
            }
            self.handle(now, word);
        }
        None
    }

    /// Whether nothing is left to do.
    fn is_idle(&self) -> bool {
        self.live == 0 && self.moving == 0 && self.timers == 0 && !self.net_is_busy()
    }

    /// Whether nothing happens: the event is a lane's wake that an earlier one has overtaken, or a turn that is put off.
    #[inline]
    fn is_void(&mut self, now: Time, word: Word) -> bool {
        match word.phase() {
            Phase::Lane => self.lanes.get(word.lane_id().index()).is_none_or(|lane| lane.wake != now),
            Phase::Source if !self.spaced.is_empty() => self.is_early(now, word),
            _ => false,
        }
    }

    #[inline]
    fn count(&mut self, now: Time, word: Word) {
        self.engine.events += 1;
        self.latest = self.latest.max(now);
        self.trace.add(now, word);
    }

    #[inline]
    fn handle(&mut self, now: Time, word: Word) {
        match word.phase() {
            Phase::Arrival => self.arrive(word.link_id(), word.flow_id().0, word.number(), now),
            Phase::Source => self.source(word.flow_id().0, now),
            Phase::Lane => self.run_lane(word.lane_id().0, now),
            Phase::Meeting => self.meet(word.lane_id().0, now),
            // Only a network of packets has ports.
            Phase::Port => {}
            Phase::Timer => self.driver_timer(Notice::Timer { number: word.lane_id().0, at: now }),
        }
    }

    fn driver_timer(&mut self, notice: Notice) {
        self.timers -= 1;
        self.notices.push(notice);
    }

    /// A hash of the trajectory so far: of the instant and content of every event.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.trace.hash()
    }
}
