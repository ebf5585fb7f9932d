//! Minimal paths between leaves: for each switch and destination leaf, the links that lead on.

use std::collections::VecDeque;

use sim_core::ids::LinkId;

/// Next links towards each leaf, with the number of minimal paths behind them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SwitchRoutes {
    first_switch: u32,
    leaves: u32,
    /// `start[switch * leaves + leaf]..start[.. + 1]` are the entries of that pair.
    start: Vec<u32>,
    next: Vec<Next>,
    /// Minimal paths of each pair.
    paths: Vec<u32>,
    /// Links of each pair's minimal paths, `u8::MAX` where there is none.
    hops: Vec<u8>,
    /// Different switches among the next ones of each pair.
    fan: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Next {
    link: LinkId,
    switch: u32,
}

impl SwitchRoutes {
    /// Tables for `switches` network switches from device number `first_switch`, leaves first.
    ///
    /// `links` are the links between them: number, and the two ends as device numbers.
    pub(crate) fn new(first_switch: u32, switches: u32, leaves: u32, links: &[(LinkId, u32, u32)]) -> Self {
        let n = switches as usize;
        let mut out: Vec<Vec<Next>> = vec![Vec::new(); n];
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); n];
        for &(link, from, to) in links {
            let (from, to) = (from - first_switch, to - first_switch);
            out[from as usize].push(Next { link, switch: to });
            into[to as usize].push(from);
        }
        let pairs = n * leaves as usize;
        let mut hops = vec![u8::MAX; pairs];
        let mut paths = vec![0u32; pairs];
        for leaf in 0..leaves {
            let at = |switch: u32| switch as usize * leaves as usize + leaf as usize;
            let mut queue = VecDeque::from([leaf]);
            hops[at(leaf)] = 0;
            paths[at(leaf)] = 1;
            while let Some(to) = queue.pop_front() {
                for &from in &into[to as usize] {
                    if hops[at(from)] == u8::MAX {
                        hops[at(from)] = hops[at(to)].saturating_add(1);
                        queue.push_back(from);
                    }
                    // A switch is left only after all switches nearer to the leaf have been.
                    if hops[at(from)] == hops[at(to)].saturating_add(1) {
                        paths[at(from)] = paths[at(from)].saturating_add(paths[at(to)]);
                    }
                }
            }
        }
        let mut start = Vec::with_capacity(pairs + 1);
        let mut next: Vec<Next> = Vec::new();
        let mut fan = Vec::with_capacity(pairs);
        for switch in 0..switches {
            for leaf in 0..leaves {
                start.push(next.len() as u32);
                let index = |s: u32| s as usize * leaves as usize + leaf as usize;
                let here = hops[index(switch)];
                let first = next.len();
                if here != u8::MAX {
                    let nearer = |n: &&Next| hops[index(n.switch)].checked_add(1) == Some(here);
                    next.extend(out[switch as usize].iter().filter(nearer));
                }
                let mut different: Vec<u32> = next[first..].iter().map(|n| n.switch).collect();
                different.sort_unstable();
                different.dedup();
                fan.push(different.len() as u32);
            }
        }
        start.push(next.len() as u32);
        Self { first_switch, leaves, start, next, paths, hops, fan }
    }

    fn pair(&self, switch: u32, leaf: u32) -> usize {
        switch as usize * self.leaves as usize + leaf as usize
    }

    fn nexts(&self, switch: u32, leaf: u32) -> &[Next] {
        let pair = self.pair(switch, leaf);
        &self.next[self.start[pair] as usize..self.start[pair + 1] as usize]
    }

    /// Minimal paths and their length in links; `None` if `to` is not reached. Both are leaves, as device numbers.
    pub(crate) fn minimal(&self, from: u32, to: u32) -> Option<(u32, u32)> {
        let pair = self.pair(from - self.first_switch, to - self.first_switch);
        (self.hops[pair] != u8::MAX).then(|| (self.paths[pair], u32::from(self.hops[pair])))
    }

    /// Appends the links of minimal path `k` (counted from 0, less than their number) from leaf to leaf.
    pub(crate) fn append(&self, from: u32, to: u32, mut k: u32, links: &mut Vec<LinkId>) {
        let (mut at, leaf) = (from - self.first_switch, to - self.first_switch);
        while at != leaf {
            let before = at;
            for next in self.nexts(at, leaf) {
                let behind = self.paths[self.pair(next.switch, leaf)];
                if k < behind {
                    links.push(next.link);
                    at = next.switch;
                    break;
                }
                k -= behind;
            }
            if at == before {
                return;
            }
        }
    }

    /// Appends the links of the path that static routing towards `place` takes: at each switch the link of that number,
    /// then what is left of the number picks among parallel links further on.
    pub(crate) fn append_static(&self, from: u32, to: u32, place: u64, links: &mut Vec<LinkId>) {
        let (mut at, leaf, mut place) = (from - self.first_switch, to - self.first_switch, place);
        while at != leaf {
            let nexts = self.nexts(at, leaf);
            let Some(next) = nexts.get((place % nexts.len().max(1) as u64) as usize) else { return };
            place /= u64::from(self.fan[self.pair(at, leaf)].max(1));
            links.push(next.link);
            at = next.switch;
        }
    }
}
