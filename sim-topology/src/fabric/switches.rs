//! Minimal paths between leaves, worked out per destination leaf when first asked for.
//!
//! A path is legal by its steps: in tiers it goes up and then down, never up again (no valley); in a dragonfly it crosses
//! at most one link between groups. Either way two states are enough: before the turn and after it. For each destination
//! leaf a vector holds, per switch and state, the fewest links left and the number of such paths; the next links are
//! found by looking at a switch's own links. Dead links are left out.

use std::collections::VecDeque;
use std::sync::OnceLock;

use sim_core::ids::LinkId;

use super::routing::Step;
use crate::device::Link;

/// The links between switches, and what was worked out of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SwitchRoutes {
    first_switch: u32,
    /// The first link between switches; the two directions of a cable follow each other from here on.
    first_link: u32,
    /// `start[switch]..start[switch + 1]` are its links.
    start: Vec<u32>,
    out: Vec<Next>,
    /// NIC ports on the leaves before each leaf.
    ordinals: Vec<u32>,
    /// The live links into each switch; worked out when first asked for.
    live: OnceLock<Live>,
    tables: Vec<OnceLock<Table>>,
}

/// Where live links come from, side by side: a search against the links reads nothing else.
#[derive(Clone, Debug)]
struct Live {
    start: Box<[u32]>,
    into: Box<[(u32, Step)]>,
}

#[derive(Clone, Copy, Debug)]
struct Next {
    link: LinkId,
    switch: u32,
    step: Step,
}

/// Towards one leaf, by `switch * 2 + state`.
#[derive(Clone, Debug)]
struct Table {
    /// Links left, `u8::MAX` where the leaf is not reached.
    hops: Box<[u8]>,
    paths: Box<[u32]>,
}

/// Whether the turn is behind.
const BEFORE: usize = 0;

impl SwitchRoutes {
    /// For `switches` network switches from device number `first_switch`, `leaves` of them leaves and first.
    ///
    /// `cables` are the ends of each cable as switch numbers and its step from the first to the second; cable `i` is the
    /// links `first_link + 2 i` and `+ 1`. `ports` are the NIC ports of each leaf.
    pub(super) fn new(
        first_switch: u32,
        first_link: u32,
        switches: u32,
        ports: &[u32],
        cables: &[(u32, u32, Step)],
    ) -> Self {
        let n = switches as usize;
        let mut start = vec![0u32; n + 1];
        for &(from, to, _) in cables {
            start[from as usize + 1] += 1;
            start[to as usize + 1] += 1;
        }
        for i in 0..n {
            start[i + 1] += start[i];
        }
        let mut place = start.clone();
        let mut out = vec![Next { link: LinkId(0), switch: 0, step: Step::Local }; cables.len() * 2];
        for (link, &(from, to, step)) in (first_link..).step_by(2).zip(cables) {
            for (from, to, step, link) in [(from, to, step, link), (to, from, step.back(), link + 1)] {
                out[place[from as usize] as usize] = Next { link: LinkId(link), switch: to, step };
                place[from as usize] += 1;
            }
        }
        let mut ordinals = Vec::with_capacity(ports.len());
        let mut before = 0;
        for ports in ports {
            ordinals.push(before);
            before += ports;
        }
        let tables = ports.iter().map(|_| OnceLock::new()).collect();
        Self { first_switch, first_link, start, out, ordinals, live: OnceLock::new(), tables }
    }

    /// Forgets what was worked out; after links or devices have died or come back.
    pub(super) fn forget(&mut self) {
        self.live = OnceLock::new();
        for table in &mut self.tables {
            *table = OnceLock::new();
        }
    }

    fn out(&self, switch: u32) -> &[Next] {
        &self.out[self.start[switch as usize] as usize..self.start[switch as usize + 1] as usize]
    }

    /// Links between groups of a dragonfly.
    pub(super) fn between_groups(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.out.iter().filter(|next| next.step == Step::Global).map(|next| next.link)
    }

    fn back(&self, link: LinkId) -> LinkId {
        LinkId(self.first_link + ((link.0 - self.first_link) ^ 1))
    }

    fn table(&self, links: &[Link], leaf: u32) -> &Table {
        self.tables[leaf as usize].get_or_init(|| self.work_out(links, leaf))
    }

    fn live(&self, links: &[Link]) -> &Live {
        self.live.get_or_init(|| {
            let mut start = vec![0];
            let mut into = Vec::with_capacity(self.out.len());
            for switch in 0..self.start.len() as u32 - 1 {
                let works = |next: &&Next| links[self.back(next.link).index()].alive;
                into.extend(self.out(switch).iter().filter(works).map(|next| (next.switch, next.step.back())));
                start.push(into.len() as u32);
            }
            Live { start: start.into(), into: into.into() }
        })
    }

    /// Breadth-first from the leaf, against the links.
    fn work_out(&self, links: &[Link], leaf: u32) -> Table {
        let size = (self.start.len() - 1) * 2;
        let mut hops = vec![u8::MAX; size];
        let mut paths = vec![0u32; size];
        let mut queue = VecDeque::new();
        let live = self.live(links);
        for state in 0..2 {
            let at = leaf as usize * 2 + state;
            (hops[at], paths[at]) = (0, 1);
            queue.push_back((leaf, state));
        }
        while let Some((to, after)) = queue.pop_front() {
            let here = to as usize * 2 + after;
            let (far, ways) = (hops[here].saturating_add(1), paths[here]);
            let into = live.start[to as usize] as usize..live.start[to as usize + 1] as usize;
            for &(switch, step) in &live.into[into] {
                for before in 0..2 {
                    if step.take(before) != Some(after) {
                        continue;
                    }
                    let there = switch as usize * 2 + before;
                    if hops[there] == u8::MAX && far < u8::MAX {
                        hops[there] = far;
                        queue.push_back((switch, before));
                    }
                    // A switch is left only after all switches nearer to the leaf have been.
                    if hops[there] == far {
                        paths[there] = paths[there].saturating_add(ways);
                    }
                }
            }
        }
        Table { hops: hops.into(), paths: paths.into() }
    }

    /// The links of a switch that are on minimal paths, with the state after them.
    fn nexts<'a>(
        &'a self,
        links: &'a [Link],
        table: &'a Table,
        at: u32,
        state: usize,
    ) -> impl Iterator<Item = (Next, usize)> + 'a {
        let here = table.hops[at as usize * 2 + state];
        self.out(at).iter().filter_map(move |next| {
            let after = next.step.take(state)?;
            let near = table.hops[next.switch as usize * 2 + after].checked_add(1) == Some(here);
            (near && here != u8::MAX && links[next.link.index()].alive).then_some((*next, after))
        })
    }

    /// Minimal paths and their length in links; `None` if `to` is not reached. Both are leaves, as device numbers.
    pub(crate) fn minimal(&self, links: &[Link], from: u32, to: u32) -> Option<(u32, u32)> {
        let table = self.table(links, to - self.first_switch);
        let at = (from - self.first_switch) as usize * 2 + BEFORE;
        (table.hops[at] != u8::MAX).then(|| (table.paths[at], u32::from(table.hops[at])))
    }

    /// Appends the links of minimal path `k` (counted from 0, less than their number) from leaf to leaf.
    pub(crate) fn append(&self, links: &[Link], from: u32, to: u32, mut k: u32, route: &mut Vec<LinkId>) {
        let (mut at, leaf) = (from - self.first_switch, to - self.first_switch);
        let table = self.table(links, leaf);
        let mut state = BEFORE;
        while at != leaf {
            let mut taken = None;
            for (next, after) in self.nexts(links, table, at, state) {
                let behind = table.paths[next.switch as usize * 2 + after];
                if k < behind {
                    taken = Some((next, after));
                    break;
                }
                k -= behind;
            }
            let Some((next, after)) = taken else { return };
            route.push(next.link);
            (at, state) = (next.switch, after);
        }
    }

    /// Appends the links of the path that a static table for the destination takes. `position` is the NIC port's place on
    /// its leaf.
    ///
    /// At the source's leaf the uplink of that number; at a spine the link up of the destination leaf's number (d-mod-k:
    /// each tier takes the next digit of the destination); on the way down the mirror image. Parallel links are told
    /// apart by what is left of the number.
    pub(crate) fn append_static(&self, links: &[Link], from: u32, to: u32, position: u64, route: &mut Vec<LinkId>) {
        let leaf = to - self.first_switch;
        let (mut rest, mut width) = (position, 0);
        self.append_by(links, from, to, route, |step, fan, n| {
            let n64 = n as u64;
            let pick = match step {
                _ if width == 0 => {
                    width = n64;
                    rest % n64
                }
                Step::Up => (rest + u64::from(leaf)) % n64,
                _ if fan > 1 => position % width * n64 / width % n64,
                _ => rest % n64,
            };
            rest /= fan as u64;
            pick as usize
        });
    }

    /// Appends the links of the path that min-hop tables take: every switch deals the NIC ports in turn over the links on
    /// minimal paths to them.
    pub(crate) fn append_dealt(&self, links: &[Link], from: u32, to: u32, position: u64, route: &mut Vec<LinkId>) {
        let number = u64::from(self.ordinals[(to - self.first_switch) as usize]) + position;
        self.append_by(links, from, to, route, |_, _, n| (number % n as u64) as usize);
    }

    /// Walks from leaf to leaf; `pick` says which of the next links to take, from the first one's step, the number of
    /// different switches and the number of links.
    fn append_by(
        &self,
        links: &[Link],
        from: u32,
        to: u32,
        route: &mut Vec<LinkId>,
        mut pick: impl FnMut(Step, usize, usize) -> usize,
    ) {
        let (mut at, leaf) = (from - self.first_switch, to - self.first_switch);
        let table = self.table(links, leaf);
        let mut state = BEFORE;
        let mut nexts: Vec<(Next, usize)> = Vec::new();
        let mut switches: Vec<u32> = Vec::new();
        while at != leaf {
            nexts.clear();
            nexts.extend(self.nexts(links, table, at, state));
            let Some((first, _)) = nexts.first() else { return };
            switches.clear();
            switches.extend(nexts.iter().map(|(next, _)| next.switch));
            switches.sort_unstable();
            switches.dedup();
            let index = pick(first.step, switches.len(), nexts.len());
            let Some(&(next, after)) = nexts.get(index) else { return };
            route.push(next.link);
            (at, state) = (next.switch, after);
        }
    }
}
