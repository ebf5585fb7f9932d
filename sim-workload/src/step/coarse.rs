//! Carries calls by closed forms, each as if it were alone: for bounds, and for a quick look at many placements.
//!
//! A call takes no less: a word's way between the members that are farthest apart (twice for an all-reduce), and what has to pass
//! the narrower of two places at the rate of its links. Of `n` members, `m` in each of `k` NVLink domains, with `S` bytes as
//! [`messages`](crate::messages) count them:
//!
//! | operation | over a GPU's own links in its domain | over the NICs of a domain's members together |
//! |---|---|---|
//! | all-reduce | `S` where switches reduce, else `2S(m−1)/m` | `2S(k−1)/k` |
//! | all-gather, reduce-scatter | `S(n−1)/n − S(k−1)/(km)` | `S(k−1)/k` |
//! | all-to-all | `S(m−1)/n` | `mS(n−m)/n` |
//! | send | `S` | `S` |
//!
//! Software, protocols, headers, and all that shares links come on top.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use sim_core::units::{Bytes, Rate, Span, Time};
use sim_topology::{DeviceId, Fabric, Route, RouteRequest};

use super::calls::Calls;
use super::carrier::{Carrier, CarryError, End, Start};
use super::plan::Call;
use crate::messages::Operation;

/// What of a communicator its calls depend on.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Members in all, and in the smallest domain; domains.
    members: u64,
    inside: u64,
    domains: u64,
    /// Between two of a domain; `None` where there are no two.
    near: Option<Path>,
    /// Between domains, the rate of all NICs of the members of one; `None` if there is one domain.
    far: Option<Path>,
    /// Whether switches of a domain reduce.
    reduces: bool,
}

#[derive(Clone, Copy, Debug)]
struct Path {
    latency: Span,
    rate: Rate,
}

/// Carries calls by closed forms.
#[derive(Debug)]
pub struct Coarse<'a> {
    calls: Calls<'a>,
    ways: Vec<Option<Way>>,
    spans: FxHashMap<(u32, u32), Span>,
    ends: BinaryHeap<Reverse<End>>,
}

fn path_of(fabric: &Fabric, from: DeviceId, to: DeviceId) -> Result<(Path, Route), String> {
    let route = fabric.route(&RouteRequest::auto(from, to)).map_err(|e| e.to_string())?;
    let links = || route.links.iter().map(|link| fabric.link(*link));
    let name = |device| &fabric.device(device).name;
    let none = || format!("there is no link between {} and {}", name(from), name(to));
    let rate = links().map(|link| link.rate).min().ok_or_else(none)?;
    Ok((Path { latency: links().map(|link| link.latency).sum(), rate }, route))
}

impl Way {
    fn of(fabric: &Fabric, ranks: &[u32]) -> Result<Self, String> {
        let gpu = |rank: &u32| {
            let known = fabric.gpus().get(*rank as usize).copied();
            known.ok_or_else(|| format!("GPU {rank} does not exist: the fabric has {}", fabric.gpus().len()))
        };
        let gpus: Vec<DeviceId> = ranks.iter().map(gpu).collect::<Result<_, _>>()?;
        // By domain, in the order in which they come.
        let mut domains: Vec<(Option<u32>, Vec<DeviceId>)> = Vec::new();
        for gpu in &gpus {
            let domain = fabric.domain_of(*gpu);
            match domains.iter_mut().find(|(known, _)| *known == domain) {
                Some((_, members)) => members.push(*gpu),
                None => domains.push((domain, vec![*gpu])),
            }
        }
        let widest =
            |best: Option<Path>, path: Path| {
                Some(best.map_or(path, |best| Path {
                    latency: best.latency.max(path.latency),
                    rate: best.rate.max(path.rate),
                }))
            };
        let (mut near, mut far) = (None, None);
        for (_, members) in domains.iter().filter(|(_, members)| members.len() > 1) {
            near = widest(near, path_of(fabric, members[0], members[1])?.0);
        }
        for (i, (_, members)) in domains.iter().enumerate().filter(|_| domains.len() > 1) {
            let next = &domains[(i + 1) % domains.len()].1;
            let (path, route) = path_of(fabric, members[0], next[0])?;
            let cable = route.links.iter().map(|link| fabric.link(*link)).find(|link| link.class.is_network());
            let port = cable.map_or(path.rate, |link| link.rate);
            let mut nics: Vec<DeviceId> = members.iter().flat_map(|gpu| fabric.nics_of(*gpu)).copied().collect();
            nics.sort_unstable();
            nics.dedup();
            let ports = (nics.len() as u64).max(1) * u64::from(fabric.ports_per_nic().max(1));
            // From one to one what is narrow on the way counts, too.
            let one = if gpus.len() == 2 { path.rate } else { port };
            let rate = Rate::bytes_per_sec(one.get().saturating_mul(ports));
            far = widest(far, Path { latency: path.latency, rate });
        }
        let switched = |(domain, _): &(Option<u32>, _)| domain.is_some_and(|d| fabric.nvswitch_of(d).is_some());
        Ok(Self {
            members: gpus.len() as u64,
            inside: domains.iter().map(|(_, members)| members.len()).min().unwrap_or(1) as u64,
            domains: domains.len() as u64,
            near,
            far,
            reduces: domains.iter().all(switched),
        })
    }

    /// The least that a call takes.
    fn span(&self, call: &Call) -> Span {
        let (n, m, k) = (u128::from(self.members), u128::from(self.inside), u128::from(self.domains));
        let s = u128::from(call.bytes.get());
        if n < 2 {
            return Span::ZERO;
        }
        let (near, far, turns) = match call.operation {
            Operation::AllReduce if self.reduces => (s, 2 * s * (k - 1) / k, 2),
            Operation::AllReduce => (2 * s * (m - 1) / m, 2 * s * (k - 1) / k, 2),
            Operation::AllGather | Operation::ReduceScatter => {
                let (all, network) = (s * (n - 1) / n, s * (k - 1) / k);
                (all.saturating_sub(network.div_ceil(m)), network, 1)
            }
            Operation::AllToAll => (s * (m - 1) / n, m * s * (n - m) / n, 1),
            Operation::Send => (s, s, 1),
        };
        let takes = |path: Path, bytes: u128| {
            path.rate.ps_per_byte().cost(Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)))
        };
        let near_takes = self.near.map_or(Span::ZERO, |path| takes(path, near));
        let far_takes = self.far.map_or(Span::ZERO, |path| takes(path, far));
        let latency = self.far.or(self.near).map_or(Span::ZERO, |path| path.latency);
        latency * turns + near_takes.max(far_takes)
    }
}

impl<'a> Coarse<'a> {
    /// Carries these calls.
    #[must_use]
    pub fn new(calls: Calls<'a>) -> Self {
        let ways = vec![None; calls.communicators().len()];
        Self { calls, ways, spans: FxHashMap::default(), ends: BinaryHeap::new() }
    }

    /// The least that a call of a communicator takes.
    ///
    /// # Errors
    /// If there is no such call, or its members don't reach each other.
    pub fn span(&mut self, communicator: u32, call: u32) -> Result<Span, CarryError> {
        if let Some(span) = self.spans.get(&(communicator, call)) {
            return Ok(*span);
        }
        let fault = |why: String| CarryError::Impossible { what: self.calls.describe(communicator, call), why };
        let of = *self.calls.calls().get(call as usize).ok_or_else(|| fault(format!("there is no call {call}")))?;
        let ranks = self.calls.communicators().get(communicator as usize);
        let ranks = ranks.ok_or_else(|| fault(format!("there is no communicator {communicator}")))?;
        let way = match self.ways[communicator as usize] {
            Some(way) => way,
            None => Way::of(self.calls.fabric(), ranks).map_err(fault)?,
        };
        self.ways[communicator as usize] = Some(way);
        let span = way.span(&of);
        self.spans.insert((communicator, call), span);
        Ok(span)
    }
}

impl Carrier for Coarse<'_> {
    fn start(&mut self, starts: &[Start], at: Time) -> Result<(), CarryError> {
        for start in starts {
            let at = at + self.span(start.communicator, start.call)?.max(Span::from_ps(1));
            let members = self.calls.communicators()[start.communicator as usize].len() as u32;
            let end = |member| Reverse(End { at, token: start.token, member });
            self.ends.extend((0..members).map(end));
        }
        Ok(())
    }

    fn next(&mut self, until: Time) -> Result<Option<Time>, CarryError> {
        Ok(self.ends.peek().map(|Reverse(end)| end.at).filter(|at| *at <= until))
    }

    fn take(&mut self, out: &mut Vec<End>) {
        let Some(now) = self.ends.peek().map(|Reverse(end)| end.at) else { return };
        while let Some(Reverse(end)) = self.ends.peek()
            && end.at == now
        {
            out.push(*end);
            self.ends.pop();
        }
    }
}
