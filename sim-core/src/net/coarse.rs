//! Whether units of several packets may be used where that is left to the network: only as long as nothing can be marked,
//! paused, dropped or lack a credit, so that units and single packets do the same.
//!
//! It is so if every port that data go over is fed by links of no more than its own rate together, and if what can stand
//! before it (a unit of each of these links, and all control packets that have been seen to come, since they take wire that
//! data could have had) is less than what anything begins at. What is found otherwise, or happens nevertheless, ends it.

use super::Net;
use super::spec::{CreditSpec, FlowControlSpec, Marking, Paths};
use crate::rate_control::RateControl as _;
use crate::units::Bytes;

/// Why packets move alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Paths are chosen at nodes.
    Paths,
    /// A controller goes by delays, telemetry or grants.
    RateControl,
    /// Links lose packets, or devices pause ports.
    Faults,
    /// Links of more than its rate feed a port.
    Meet {
        /// The port.
        port: u32,
    },
    /// What can stand before a port is enough to mark, pause or drop.
    Room {
        /// The port.
        port: u32,
    },
    /// The buffer behind a link is smaller than what is under way on it.
    Credits {
        /// The port.
        port: u32,
    },
    /// Something was marked, held or dropped.
    Happened,
}

/// What is known of the load.
#[derive(Clone, Debug, Default)]
pub(super) struct Coarse {
    /// Per port: the links over which data come to it.
    inputs: Vec<Vec<u32>>,
    /// Per port: bytes of control packets that may pass it.
    control: Vec<u64>,
    pub(super) bound: Option<Bound>,
}

impl Net {
    /// The most packets that move as one at present.
    #[inline]
    pub(super) fn grain(&self) -> u32 {
        if !self.spec.only_if_free {
            return self.spec.grain;
        }
        let nothing = self.coarse.bound.is_none() && self.totals.marks + self.totals.drops == 0;
        if nothing { self.spec.grain } else { 1 }
    }

    /// Units in force, and why packets move alone where units were left to the network.
    pub(super) fn grain_in_force(&self) -> (u32, Option<Bound>) {
        let happened = self.spec.only_if_free && self.spec.grain > 1 && self.grain() == 1;
        (self.grain(), self.coarse.bound.or(happened.then_some(Bound::Happened)))
    }

    /// Something is held.
    pub(super) fn is_held_back(&mut self) {
        if self.spec.only_if_free {
            self.coarse.bound.get_or_insert(Bound::Happened);
        }
    }

    /// A queue pair is there from now on.
    pub(super) fn consider(&mut self, qp: u32) {
        if !self.spec.only_if_free || self.coarse.bound.is_some() {
            return;
        }
        let links = self.ports.len();
        self.coarse.inputs.resize(links, Vec::new());
        self.coarse.control.resize(links, 0);
        let state = &self.qps[qp as usize];
        let facts = state.rate.facts();
        let faulty = |port: &super::spec::PortSpec| port.lose_every != 0 || port.lose_per_2_32 != 0;
        if state.how.paths != Paths::Pinned {
            self.coarse.bound = Some(Bound::Paths);
        } else if facts.reads_telemetry || facts.asks_for_grants || facts.slows_down && !facts.hears_marks {
            self.coarse.bound = Some(Bound::RateControl);
        } else if !self.spec.storms.is_empty() || self.spec.ports.iter().any(faulty) {
            self.coarse.bound = Some(Bound::Faults);
        }
        let route = self.route_of(qp);
        for pair in route.windows(2) {
            let inputs = &mut self.coarse.inputs[pair[1] as usize];
            if !inputs.contains(&pair[0]) {
                inputs.push(pair[0]);
            }
        }
        let bound = route.into_iter().find_map(|port| self.binds(port, qp));
        self.coarse.bound = self.coarse.bound.or(bound);
    }

    /// A message of so many packets is announced: what its acknowledgements and credits take of wires.
    pub(super) fn consider_message(&mut self, qp: u32, packets: u32) {
        if !self.spec.only_if_free || self.coarse.bound.is_some() {
            return;
        }
        let state = &self.qps[qp as usize];
        let answers = u64::from(packets.div_ceil(state.how.ack_every.max(1)) + 1) * u64::from(self.spec.control_size);
        let first = state.back as usize;
        let back = self.routes[first..first + usize::from(state.back_hops)].to_vec();
        for port in &back {
            self.coarse.control[*port as usize] += answers;
        }
        let mut ports = back;
        if let FlowControlSpec::Credits(CreditSpec { wire, .. }) = self.spec.flow_control {
            for port in self.route_of(qp) {
                let twin = self.ports[port as usize].twin;
                self.coarse.control[twin as usize] += u64::from(packets) * u64::from(wire);
                ports.push(twin);
            }
        }
        self.coarse.bound = ports.into_iter().find_map(|port| self.binds(port, qp));
    }

    /// Nothing is under way.
    pub(super) fn forget_control(&mut self) {
        self.coarse.control.fill(0);
    }

    fn route_of(&self, qp: u32) -> Vec<u32> {
        let state = &self.qps[qp as usize];
        self.routes[state.route as usize..][..usize::from(state.hops)].to_vec()
    }

    /// Whether something could bind at a port, for data of the class of a queue pair.
    fn binds(&self, port: u32, qp: u32) -> Option<Bound> {
        let (spec, class) = (&self.spec.ports[port as usize], self.qps[qp as usize].how.class);
        let unit = u64::from(self.spec.grain * self.spec.full());
        if let FlowControlSpec::Credits(credits) = &self.spec.flow_control {
            // A credit comes back behind a packet of the other direction.
            let cost = spec.rate.ps_per_byte();
            let packets = cost.cost(Bytes::new(2 * u64::from(self.spec.full()) + u64::from(credits.wire)));
            let round = spec.latency + spec.latency + credits.release + packets;
            if cost.bytes_in(round).get() + unit > credits.buffer.get() {
                return Some(Bound::Credits { port });
            }
        }
        let inputs = &self.coarse.inputs[port as usize];
        if inputs.is_empty() {
            return None;
        }
        let rate: u64 = inputs.iter().map(|input| self.spec.ports[*input as usize].rate.get()).sum();
        if rate > spec.rate.get() {
            return Some(Bound::Meet { port });
        }
        let all = &self.spec.ports;
        let node = all.iter().filter(|other| other.far == spec.near).count() as u64;
        let queue = inputs.len() as u64 * unit + self.coarse.control[port as usize];
        let marks = match self.spec.classes[usize::from(class)].marking {
            Marking::Off => u64::MAX,
            Marking::Red { kmin, .. } => u64::from(kmin),
            Marking::Root { threshold, .. } => u64::from(threshold),
        };
        let holds = self.scheme.room(spec.near, class, node * 2 * unit);
        (queue >= marks.min(holds) || 2 * unit >= holds).then_some(Bound::Room { port })
    }
}
