//! Choices of a path at nodes: which of the links that lead nearer to an endpoint a packet takes.
//!
//! A queue pair's route is its static choice; a queue pair whose choice is made at nodes keeps the route's first link and
//! takes at every node one of the links that lie on a shortest way to its end. Control packets keep to the routes.

use std::collections::BTreeMap;

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Net;
use super::packet::{CHOSEN, NONE};
use super::spec::{NetSpec, Paths};
use crate::random;
use crate::units::Time;

/// What a link counts for that raises classes, where others count for one: more than any route has links.
const RAISING: u32 = 1 << 16;

/// The links that lead nearer to an endpoint, per node.
#[derive(Clone, Debug, Default)]
pub(super) struct NextHops {
    /// Per endpoint that was asked for: per node, a range of `members`.
    ends: Vec<Vec<(u32, u16)>>,
    /// Per node: its place in `ends`, or [`NONE`].
    of: Vec<u32>,
    members: Vec<u32>,
    /// Per node: where turns and draws of choices stand.
    turns: Vec<u32>,
    draws: Vec<Option<Xoshiro256PlusPlus>>,
}

/// Where the choices of a queue pair stand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flowlet {
    /// When its last packet was at its first node of several links.
    last: Time,
    /// Which of the links that took, by its place.
    hop: u16,
}

impl NextHops {
    /// Works out the links toward `end`: over as few links as there can be that raise classes, then by the number of links.
    pub(super) fn toward(&mut self, end: u32, spec: &NetSpec) {
        let nodes = spec.endpoints.len();
        if self.of.is_empty() {
            (self.of, self.turns, self.draws) = (vec![NONE; nodes], vec![0; nodes], vec![None; nodes]);
        }
        if self.of[end as usize] != NONE {
            return;
        }
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); nodes];
        let mut out: Vec<Vec<u32>> = vec![Vec::new(); nodes];
        for (link, port) in spec.ports.iter().enumerate() {
            into[port.far as usize].push(link as u32);
            out[port.near as usize].push(link as u32);
        }
        let mut costs = vec![1; spec.ports.len()];
        spec.raises.iter().for_each(|link| costs[*link as usize] = RAISING);
        let mut away = vec![NONE; nodes];
        away[end as usize] = 0;
        let mut layers = BTreeMap::from([(0, vec![end])]);
        while let Some((far, layer)) = layers.pop_first() {
            for node in layer {
                // One that is nearer than it was first found to be has been looked at.
                if away[node as usize] != far {
                    continue;
                }
                for link in &into[node as usize] {
                    let (near, there) = (spec.ports[*link as usize].near, far + costs[*link as usize]);
                    if there < away[near as usize] {
                        away[near as usize] = there;
                        // Endpoints do not forward.
                        if !spec.endpoints[near as usize] {
                            layers.entry(there).or_default().push(near);
                        }
                    }
                }
            }
        }
        let mut ranges = Vec::with_capacity(nodes);
        for node in 0..nodes {
            let first = self.members.len() as u32;
            if away[node] != NONE && away[node] > 0 {
                let nearer = |link: &&u32| {
                    let far = spec.ports[**link as usize].far as usize;
                    away[far] != NONE
                        && away[far] + costs[**link as usize] == away[node]
                        && (away[far] == 0 || !spec.endpoints[far])
                };
                self.members.extend(out[node].iter().filter(nearer));
            }
            ranges.push((first, (self.members.len() as u32 - first) as u16));
        }
        self.of[end as usize] = self.ends.len() as u32;
        self.ends.push(ranges);
    }

    /// Links from the near end of `first` to `end`, by choices.
    pub(super) fn length(&self, first: u32, end: u32, spec: &NetSpec) -> usize {
        let (mut links, mut node) = (1, spec.ports[first as usize].far);
        while node != end {
            let (first, count) = self.range(node, end);
            if count == 0 {
                return 0;
            }
            node = spec.ports[self.members[first as usize] as usize].far;
            links += 1;
        }
        links
    }

    #[inline]
    fn range(&self, node: u32, end: u32) -> (u32, u16) {
        self.ends[self.of[end as usize] as usize][node as usize]
    }
}

impl Net {
    /// The next link of a data packet at `node`.
    #[inline]
    pub(super) fn next_link(&mut self, slot: u32, node: u32, now: Time) -> u32 {
        let packet = &self.packets[slot];
        if packet.flags & CHOSEN == 0 {
            return self.routes[packet.at as usize];
        }
        let (qp, class) = (packet.qp, packet.class);
        self.choose(qp, class, node, now)
    }

    #[inline(never)]
    fn choose(&mut self, qp: u32, class: u8, node: u32, now: Time) -> u32 {
        let state = &mut self.qps[qp as usize];
        let (first, count) = self.hops.range(node, state.end_node);
        let hops = first as usize..first as usize + count as usize;
        if count == 1 {
            return self.hops.members[hops.start];
        }
        let classes = self.classes as usize;
        let (ports, queues) = (&self.ports, &self.queues);
        // Held links last; else by what waits and what is being sent.
        let depth = |link: &u32| {
            let port = &ports[*link as usize];
            let serving = if port.free > now { u64::from(port.wire) } else { 0 };
            (port.stopped >> class & 1 != 0, queues[*link as usize * classes + class as usize].bytes + serving)
        };
        let turn = self.hops.turns[node as usize];
        let seed = self.spec.seed;
        let stream = &mut self.hops.draws[node as usize];
        let mut draw = |n: u64| {
            let stream = stream.get_or_insert_with(|| random::stream(seed, "spray", u64::from(node)));
            (((stream.next_u64() >> 32) * n) >> 32) as usize
        };
        let members = &self.hops.members[hops.clone()];
        // Equals by chance: nodes that take turns fall into step and meet behind the next one.
        let mut least = || {
            let least = members.iter().map(depth).min();
            let equals = || members.iter().enumerate().filter(|(_, link)| Some(depth(link)) == least);
            equals().nth(draw(equals().count() as u64)).map_or(0, |(at, _)| at)
        };
        let at = match state.how.paths {
            Paths::Pinned => 0,
            Paths::LeastQueue => least(),
            Paths::RoundRobin => turn as usize % count as usize,
            Paths::Spray => draw(u64::from(count)),
            Paths::Flowlet { gap } => {
                let at = if state.flowlet.last == Time::ZERO || now.since(state.flowlet.last) > gap {
                    least()
                } else {
                    state.flowlet.hop as usize % count as usize
                };
                state.flowlet = Flowlet { last: now, hop: at as u16 };
                at
            }
        };
        self.hops.turns[node as usize] = turn.wrapping_add(1);
        self.hops.members[hops.start + at]
    }
}
