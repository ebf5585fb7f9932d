//! Caches that are under way at the same time and share links.
//!
//! A cache alone takes what it takes when nothing else is sent, T, and keeps each link of its way busy for a part of that time. Caches
//! that are under way together are fluids: all go at the same part of their own speed until a link is full, those on it stay there, and
//! the others go on (max–min shares, by progressive filling). So n caches into one NIC take n times as long, and the link
//! of the sender is not idle for others while one waits for its receiver.
//!
//! A cache that goes layer by layer while a step of P makes it, of L layers: from the end of the first layer, `P/L`, to the end of the step
//! all but the last layer may go, as fast as they are made; the last from then on. With nothing else in its way
//! `max(T − P·(L − 1)/L, T/L)` is left at the end of the step.

use std::collections::BTreeMap;
use std::rc::Rc;

use sim_core::units::{Span, Time};

use super::deployment::Load;

/// A cache, or a part of one, that is sent.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Whose it is.
    pub request: usize,
    /// Its tokens.
    pub tokens: u64,
    /// The time that it takes when nothing else is sent.
    pub alone: Span,
    /// What it takes of links.
    pub loads: Rc<[Load]>,
    /// Where layers go as they are made: the end of the first, the end of all, and how many they are.
    pub made: Option<(Time, Time, u64)>,
}

/// A flow under way. Times are picoseconds of its own speed.
#[derive(Debug)]
struct Moving {
    request: usize,
    /// Links by their place in the list of all, with the part of each that it takes at its own speed.
    takes: Vec<(usize, f64)>,
    /// What may go and has not.
    left: f64,
    /// Before this nothing may go.
    from: Time,
    /// What may go from an instant on, if it has not come.
    later: Option<(Time, f64)>,
    /// Part of its own speed.
    rate: f64,
    most: f64,
    fixed: bool,
}

/// All that is under way.
#[derive(Debug, Default)]
pub struct Sharing {
    now: Time,
    flows: Vec<Moving>,
    places: BTreeMap<u32, usize>,
    /// By link: what is left of it, and what flows that are not fixed take of it.
    links: Vec<(f64, f64)>,
}

/// What is less is nothing, in picoseconds or parts of a link.
const NOTHING: f64 = 0.5;
const SLACK: f64 = 1e-9;

impl Sharing {
    /// Adds a flow at `now`, up to which all has been taken on.
    pub fn add(&mut self, flow: &Flow) {
        let alone = (flow.alone.as_ps() as f64).max(1.0);
        let mut takes: Vec<(usize, f64)> = Vec::with_capacity(flow.loads.len());
        for load in flow.loads.iter() {
            let next = self.places.len();
            let place = *self.places.entry(load.link).or_insert(next);
            takes.push((place, (load.ps_per_token * flow.tokens as f64 / alone).min(1.0)));
        }
        self.links.resize(self.places.len(), (1.0, 0.0));
        let (left, from, later) = match flow.made {
            None => (alone, self.now, None),
            Some((first, last, layers)) => {
                let part = alone / layers.max(1) as f64;
                (alone - part, first, Some((last, part)))
            }
        };
        let most = 1.0;
        self.flows.push(Moving { request: flow.request, takes, left, from, later, rate: 0.0, most, fixed: false });
    }

    /// Takes all on to `to`: the requests whose flows have ended, in the order in which they were added.
    pub fn go_to(&mut self, to: Time) -> Vec<usize> {
        let past = to.since(self.now).as_ps() as f64;
        self.now = to;
        let mut ended = Vec::new();
        self.flows.retain_mut(|flow| {
            flow.left = (flow.left - flow.rate * past).max(0.0);
            if flow.left < NOTHING {
                flow.left = 0.0;
            }
            if let Some((_, more)) = flow.later.take_if(|(at, _)| *at <= to) {
                flow.left += more;
            }
            let over = flow.later.is_none() && flow.left == 0.0;
            if over {
                ended.push(flow.request);
            }
            !over
        });
        ended
    }

    /// Shares the links out anew, and says when something changes next.
    pub fn share(&mut self) -> Option<Time> {
        let now = self.now;
        for flow in &mut self.flows {
            // What is made while it goes can't go faster than it is made.
            flow.most = match flow.later {
                _ if flow.from > now || flow.left == 0.0 => 0.0,
                Some((until, _)) => (flow.left / (until.since(now).as_ps() as f64).max(1.0)).min(1.0),
                None => 1.0,
            };
            flow.rate = 0.0;
            flow.fixed = flow.most == 0.0;
            for &(link, _) in &flow.takes {
                self.links[link] = (1.0, 0.0);
            }
        }
        for flow in self.flows.iter().filter(|flow| !flow.fixed) {
            for &(link, part) in &flow.takes {
                self.links[link].1 += part;
            }
        }
        let mut level = 0.0;
        while self.flows.iter().any(|flow| !flow.fixed) {
            let mut step = f64::INFINITY;
            for flow in self.flows.iter().filter(|flow| !flow.fixed) {
                step = step.min(flow.most - level);
                for &(link, part) in &flow.takes {
                    let (room, taken) = self.links[link];
                    if part > 0.0 {
                        step = step.min(room / taken.max(part));
                    }
                }
            }
            level += step.max(0.0);
            // What all that are not fixed take more.
            let mut seen: Vec<usize> =
                self.flows.iter().filter(|f| !f.fixed).flat_map(|f| f.takes.iter().map(|t| t.0)).collect();
            seen.sort_unstable();
            seen.dedup();
            for link in seen {
                let (room, taken) = &mut self.links[link];
                *room = (*room - *taken * step.max(0.0)).max(0.0);
            }
            for flow in self.flows.iter_mut().filter(|flow| !flow.fixed) {
                flow.rate = level;
                let full = flow.takes.iter().any(|&(link, part)| part > 0.0 && self.links[link].0 < SLACK);
                if full || flow.most - level < SLACK {
                    flow.fixed = true;
                    for &(link, part) in &flow.takes {
                        self.links[link].1 -= part;
                    }
                }
            }
        }
        let next = |flow: &Moving| {
            let end = (flow.rate > 0.0).then(|| now + Span::from_ps((flow.left / flow.rate).round().max(1.0) as u64));
            let begins = (flow.from > now).then_some(flow.from);
            // What is made later goes on from then, whether all before it has gone or not.
            let more = flow.later.map(|(at, _)| at);
            let end = if more.is_some() { None } else { end };
            [end, begins, more].into_iter().flatten().min()
        };
        self.flows.iter().filter_map(next).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(request: usize, us: u64, links: &[(u32, f64)]) -> Flow {
        let alone = Span::from_us(us);
        let loads = links.iter().map(|&(link, part)| Load { link, ps_per_token: part * alone.as_ps() as f64 });
        Flow { request, tokens: 1, alone, loads: loads.collect(), made: None }
    }

    /// Ends of flows that are all added at their starts, in microseconds.
    fn ends(flows: &[(u64, Flow)]) -> Vec<f64> {
        let (mut all, mut out) = (Sharing::default(), vec![0.0; flows.len()]);
        let mut rest: Vec<&(u64, Flow)> = flows.iter().collect();
        loop {
            let due = rest.first().map(|(us, _)| Time::ZERO + Span::from_us(*us));
            let next = all.share();
            let Some(at) = due.into_iter().chain(next).min() else { return out };
            for request in all.go_to(at) {
                out[request] = at.since(Time::ZERO).as_us();
            }
            while rest.first().is_some_and(|(us, _)| Time::ZERO + Span::from_us(*us) <= at) {
                all.add(&rest.remove(0).1);
            }
        }
    }

    #[test]
    fn senders_into_one_receiver_share_its_link() {
        let into = |n: usize| -> Vec<(u64, Flow)> {
            (0..n).map(|i| (0, flow(i, 100, &[(i as u32, 1.0), (99, 1.0)]))).collect()
        };
        assert_eq!(ends(&into(1)), [100.0]);
        assert_eq!(ends(&into(4)), [400.0; 4]);
        // One that comes later: 50 alone, 100 together, 50 alone.
        let late = [(0, flow(0, 100, &[(7, 1.0)])), (50, flow(1, 100, &[(7, 1.0)]))];
        assert_eq!(ends(&late), [150.0, 200.0]);
        // Apart they don't meet; what takes half of a link leaves room for as much.
        assert_eq!(ends(&[(0, flow(0, 100, &[(1, 1.0)])), (0, flow(1, 100, &[(2, 1.0)]))]), [100.0, 100.0]);
        assert_eq!(ends(&[(0, flow(0, 100, &[(1, 0.5)])), (0, flow(1, 100, &[(1, 0.5)]))]), [100.0, 100.0]);
    }

    #[test]
    fn shares_are_max_min() {
        // Two on link 1, of which one also crosses link 2 with two others: thirds there, and two thirds for the first.
        let all = [
            (0, flow(0, 100, &[(1, 1.0)])),
            (0, flow(1, 100, &[(1, 1.0), (2, 1.0)])),
            (0, flow(2, 100, &[(2, 1.0)])),
            (0, flow(3, 100, &[(2, 1.0)])),
        ];
        let found = ends(&all);
        assert!((found[0] - 150.0).abs() < 1e-3 && found[1..].iter().all(|t| (t - 300.0).abs() < 1e-3), "{found:?}");
    }

    #[test]
    fn layers_go_as_they_are_made() {
        // Ten layers made in 1000 µs; the cache alone takes 300, or 3000.
        for (us, end) in [(300, 1030.0), (3000, 100.0 + 3000.0)] {
            let made = Some((Time::ZERO + Span::from_us(100), Time::ZERO + Span::from_us(1000), 10));
            let found = ends(&[(0, Flow { made, ..flow(0, us, &[(1, 1.0)]) })]);
            assert!((found[0] - end).abs() < 1e-3, "{found:?} {end}");
        }
        // Two into one link that has room for both: neither is later.
        let made = Some((Time::ZERO + Span::from_us(100), Time::ZERO + Span::from_us(1000), 10));
        let two = [0, 1].map(|i| (0, Flow { made, ..flow(i, 300, &[(1, 1.0)]) }));
        let found = ends(&two);
        assert!(found.iter().all(|t| (t - 1060.0).abs() < 1e-3), "{found:?}");
    }
}
