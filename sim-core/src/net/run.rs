//! A network of packets that runs alone: queue pairs are given messages, and it plays until nothing is left to happen.

use super::spec::{FlowSpec, NetSpec};
use super::{Effect, Net, NetOutcome, SpecError};
use crate::event::Word;
use crate::queue::radix::RadixStore;
use crate::queue::{Pending, Store};
use crate::rate_control::AnyRateControl;
use crate::units::Time;

/// A network and its pending events.
///
/// ```
/// use sim_core::net::PacketRun;
/// use sim_core::net::spec::*;
/// use sim_core::network::Forwarding;
/// use sim_core::rate_control::AnyRateControl;
/// use sim_core::units::{Rate, Span, Time};
///
/// // Two endpoints at a node: links 0 and 1 join endpoint 0 with node 2, links 2 and 3 endpoint 1.
/// let port = |near, far, twin| PortSpec {
///     rate: Rate::gbit(100),
///     latency: Span::from_us(1),
///     near,
///     far,
///     twin,
///     forwarding: Forwarding::StoreAndForward,
///     lose_every: 0,
///     lose_per_2_32: 0,
/// };
/// let spec = NetSpec {
///     overhead: 64,
///     control_size: 64,
///     endpoints: vec![true, true, false],
///     ports: vec![port(0, 2, 1), port(2, 0, 0), port(1, 2, 3), port(2, 1, 2)],
///     ..NetSpec::default()
/// };
/// let mut run = PacketRun::<sim_core::queue::radix::RadixStore>::new(spec).unwrap();
/// let flow = run.open(&[0, 3], &[2, 1], FlowSpec::default(), AnyRateControl::default()).unwrap();
/// run.post(flow, 1 << 20);
/// run.run(Time::MAX);
/// let outcome = run.outcome();
/// // 257 serialisations of 332.8 ns and two links of 1 us; one of its 64-byte acknowledgements is 5.12 ns on each link.
/// assert_eq!(outcome.flows[0].delivered_at, Time::from_ps(257 * 332_800 + 2_000_000));
/// assert_eq!(outcome.flows[0].acked_at, Time::from_ps(257 * 332_800 + 4_000_000 + 2 * 5_120));
/// ```
#[derive(Debug)]
pub struct PacketRun<S = RadixStore> {
    net: Net,
    pending: Pending<S>,
    /// The first event beyond the end of the last call.
    held: Option<(Time, Word)>,
    events: u64,
}

impl<S: Store> PacketRun<S> {
    /// A network as described, at the start of time.
    ///
    /// # Errors
    /// If the description is not consistent.
    pub fn new(spec: NetSpec) -> Result<Self, SpecError> {
        Ok(Self { net: Net::new(spec)?, pending: Pending::default(), held: None, events: 0 })
    }

    /// A queue pair; see [`Net::open`].
    ///
    /// # Errors
    /// If its routes do not join two endpoints, or there is no such class.
    pub fn open(&mut self, route: &[u32], back: &[u32], how: FlowSpec, rate: AnyRateControl) -> Result<u32, SpecError> {
        self.net.open(route, back, how, rate)
    }

    /// A message of `bytes` at the present instant.
    pub fn post(&mut self, qp: u32, bytes: u64) {
        let now = self.pending.now();
        self.net.post(qp, bytes, now, &mut self.pending);
    }

    /// Holds a class of a port for ever; see [`Net::storm`].
    pub fn storm(&mut self, link: u32, class: u8) {
        let now = self.pending.now();
        self.net.storm(link, class, now, &mut self.pending);
    }

    /// Plays up to `until`, or until nothing is left to happen or ports wait for each other in a circle. Whether
    /// anything is pending.
    pub fn run(&mut self, until: Time) -> bool {
        self.run_with(until, |_, _| {})
    }

    /// The same; `told` hears of every effect, and may post through the run it is handed.
    pub fn run_with(&mut self, until: Time, mut told: impl FnMut(&mut Self, Effect)) -> bool {
        while let Some((now, word)) = self.held.take().or_else(|| self.pending.pop()) {
            if now > until {
                self.held = Some((now, word));
                return true;
            }
            self.events += 1;
            // What the queue says to come soon is of no use here, and would pile up.
            self.pending.soon().clear();
            self.net.handle(now, word, &mut self.pending);
            if !self.net.effects().is_empty() {
                for effect in core::mem::take(self.net.effects()) {
                    told(self, effect);
                }
            }
            if self.net.is_deadlocked() || self.net.is_stuck() {
                return true;
            }
        }
        false
    }

    /// The instant of the last event, or of the first one beyond what was asked for.
    #[must_use]
    pub fn now(&self) -> Time {
        self.pending.now()
    }

    /// Events so far.
    #[must_use]
    pub const fn events(&self) -> u64 {
        self.events
    }

    /// Events that are pending.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len() + usize::from(self.held.is_some())
    }

    /// What was measured so far.
    #[must_use]
    pub fn outcome(&mut self) -> NetOutcome {
        let now = self.now();
        self.net.outcome(now)
    }
}
