//! Where congestion began, and which queue pairs it held up that do not go there.

use std::collections::BTreeMap;

use super::flow_control::Scheme;
use super::spec::{FlowControlSpec, Marking, Paths};
use super::{FlowOutcome, Net, NetOutcome};
use crate::units::{Span, Time};

/// A flow that was held up by congestion elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its place in [`NetOutcome::flows`].
    pub flow: u32,
    /// How long ports of its route were held while it had something on its way.
    pub held: Span,
    /// How long it had something on its way.
    pub busy: Span,
    /// The port and class where the congestion began that held it up, if there is one behind the ports that were held.
    pub root: Option<(u32, u8)>,
}

/// Since when a queue pair has something on its way, and how long ports of its route had been held until then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Life {
    from: Time,
    held: Span,
}

/// Of a node and class: the most that a port queued over time, and whether it held what feeds it.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    most: u64,
    asked: bool,
}

/// A queue pair is a victim if ports of its route were held for more than one part in so many of its time, and a port is no
/// root if it was held for more than that of the time in which it queued something.
const SHARE: u64 = 20;

impl Net {
    fn held_on_route(&self, qp: u32, now: Time) -> Span {
        let state = &self.qps[qp as usize];
        let route = &self.routes[state.route as usize..][..usize::from(state.hops)];
        let classes = self.with_classes(route, state.how.class);
        let held = classes.map(|(link, class)| self.held_until(link, class, now).as_ps());
        Span::from_ps(held.fold(0, u64::saturating_add))
    }

    /// A queue pair that had nothing on its way has something now.
    pub(super) fn life_begins(&mut self, qp: u32, now: Time) {
        self.lives[qp as usize] = Life { from: now, held: self.held_on_route(qp, now) };
        let outcome = &mut self.qps[qp as usize].outcome;
        if outcome.busy == Span::ZERO {
            outcome.started_at = now;
        }
    }

    /// All that it had on its way has arrived.
    pub(super) fn life_ends(&mut self, qp: u32, now: Time) {
        let (busy, held) = self.life(qp, now);
        let outcome = &mut self.qps[qp as usize].outcome;
        (outcome.busy, outcome.behind_held) = (outcome.busy + busy, outcome.behind_held + held);
    }

    fn life(&self, qp: u32, now: Time) -> (Span, Span) {
        let life = self.lives[qp as usize];
        let held = self.held_on_route(qp, now).as_ps().saturating_sub(life.held.as_ps());
        (now.since(life.from), Span::from_ps(held))
    }

    /// What a queue pair has measured until `now`.
    pub(super) fn flow_outcome(&self, qp: u32, now: Time) -> FlowOutcome {
        let mut state = self.qps[qp as usize].clone();
        state.count_wait(now);
        let mut outcome = state.outcome;
        if state.una < state.end {
            let (busy, held) = self.life(qp, now);
            (outcome.busy, outcome.behind_held) = (outcome.busy + busy, outcome.behind_held + held);
        }
        outcome
    }

    /// Whether congestion began at a port: it queued more than it should, and was not held itself; or its far end is an
    /// endpoint that held it.
    fn is_root(&self, outcome: &NetOutcome, nodes: &[Node], link: u32, class: u8) -> bool {
        let port = &self.ports[link as usize];
        let counters = &outcome.ports[link as usize][usize::from(class)];
        if port.last && counters.held > Span::ZERO && !matches!(self.scheme, Scheme::Credits(_)) {
            return true;
        }
        let queued = counters.observed_ns() - counters.histogram[0];
        if port.endpoint || queued == 0 || counters.held.as_ps() / 1_000 > queued / SHARE {
            return false;
        }
        if let Marking::Red { kmin, .. } = self.spec.classes[usize::from(class)].marking
            && counters.peak > u64::from(kmin)
        {
            return true;
        }
        match &self.spec.flow_control {
            FlowControlSpec::Unlimited => false,
            FlowControlSpec::Credits(credits) => {
                counters.peak > self.spec.lanes.get(usize::from(class)).unwrap_or(&credits.buffer).get() / 2
            }
            FlowControlSpec::Shared(_) => {
                // Its node held what feeds it, and no other port there queued twice as much.
                let node = nodes[port.near as usize * usize::from(self.classes) + usize::from(class)];
                counters.drops > 0 || node.asked && node.most / 2 <= counters.byte_ns
            }
        }
    }

    /// Names roots and victims.
    pub(super) fn find_roots(&self, outcome: &mut NetOutcome) {
        let held = |outcome: &NetOutcome, link: u32, class: u8| outcome.ports[link as usize][usize::from(class)].held;
        let all = || (0..self.ports.len() as u32).flat_map(|link| (0..self.classes).map(move |class| (link, class)));
        if !all().any(|(link, class)| held(outcome, link, class) > Span::ZERO) && outcome.totals.drops == 0 {
            return;
        }
        let classes = usize::from(self.classes);
        let mut nodes = vec![Node::default(); self.spec.endpoints.len() * classes];
        for (link, class) in all() {
            let (port, counters) = (&self.ports[link as usize], &outcome.ports[link as usize][usize::from(class)]);
            let near = &mut nodes[port.near as usize * classes + usize::from(class)];
            near.most = near.most.max(counters.byte_ns);
            nodes[port.far as usize * classes + usize::from(class)].asked |= counters.asked > 0;
        }
        outcome.roots = all().filter(|(link, class)| self.is_root(outcome, &nodes, *link, *class)).collect();
        let mut leaving: Vec<Vec<u32>> = vec![Vec::new(); self.spec.endpoints.len()];
        for (link, port) in self.ports.iter().enumerate() {
            leaving[port.near as usize].push(link as u32);
        }
        let mut behind: BTreeMap<(u32, u8), Option<(u32, u8)>> = BTreeMap::new();
        for (flow, FlowOutcome { qp, behind_held: held_for, busy, .. }) in outcome.flows.iter().copied().enumerate() {
            let (route, how) = (&outcome.routes[qp as usize], &self.qps[qp as usize].how);
            let is_root = |place: &(u32, u8)| outcome.roots.binary_search(place).is_ok();
            let route: Vec<(u32, u8)> = self.with_classes(route, how.class).collect();
            let late = held_for.as_ps() > busy.as_ps() / SHARE;
            if !late || how.paths != Paths::Pinned || route.iter().any(is_root) {
                continue;
            }
            let Some(first) = route.iter().copied().max_by_key(|&(link, class)| (held(outcome, link, class), link))
            else {
                continue;
            };
            // What a held port waits for is held itself or a root: along those to the root that queued most.
            let root = *behind.entry(first).or_insert_with(|| {
                let mut seen = vec![false; self.ports.len()];
                let mut ahead = vec![first];
                let mut found: Vec<(u32, u8)> = Vec::new();
                while let Some((link, class)) = ahead.pop() {
                    let class = class + u8::from(self.ports[link as usize].raises);
                    for next in &leaving[self.ports[link as usize].far as usize] {
                        if core::mem::replace(&mut seen[*next as usize], true) {
                            continue;
                        }
                        if is_root(&(*next, class)) {
                            found.push((*next, class));
                        } else if class < self.classes && held(outcome, *next, class) > Span::ZERO {
                            ahead.push((*next, class));
                        }
                    }
                }
                let queued = |&(link, class): &(u32, u8)| outcome.ports[link as usize][usize::from(class)].byte_ns;
                found.into_iter().max_by_key(|place| (queued(place), core::cmp::Reverse(*place)))
            });
            // Without a root elsewhere it is held up by its own way: too few credits, a circle.
            if root.is_some() {
                outcome.victims.push(Victim { flow: flow as u32, held: held_for, busy, root });
            }
        }
    }
}
