//! Caches of prompts from the instances that made them to those that decode: where to, when, and when they are there.

use sim_core::units::{Span, Time};

use super::super::sharing::Flow;
use super::{Event, Sequence, Server, World};

/// A cache on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    from: usize,
    to: usize,
    /// Parts that have not arrived.
    parts: u32,
}

impl World<'_> {
    /// Gives a request room where it is decoded, if there is any.
    fn settle(&mut self, request: usize, from: usize, at: Time) -> bool {
        let limits = self.pools[1].limits;
        let need = self.need(1, request);
        let fits =
            |s: &&(usize, &Server)| s.1.reserved + need <= limits.cache && s.1.sequences < limits.sequences.max(1);
        let all = self.servers.iter().enumerate().filter(|(_, s)| s.pool == 1);
        let Some((to, _)) = all.filter(|s| fits(&s)).min_by_key(|(_, s)| (s.reserved, s.sequences)) else {
            return false;
        };
        self.reserve(to, need, 0, at);
        self.servers[to].sequences += 1;
        self.servers[to].load += need;
        self.under_way.insert(request, UnderWay { from, to, parts: 0 });
        true
    }

    /// Sends caches on to where there is room, first come first served.
    pub(super) fn house(&mut self, at: Time) {
        let mut sends = false;
        while let Some(&(request, from)) = self.homeless.front() {
            if !self.settle(request, from, at) {
                break;
            }
            self.homeless.pop_front();
            self.send(request, self.requests[request].prompt, None, at);
            sends = true;
        }
        if sends {
            self.share();
        }
    }

    /// Sends the layers that a step from one instant to another makes of prompts that have room where they are decoded, or get it now.
    pub(super) fn send_layers(&mut self, server: usize, lane: usize, (at, end): (Time, Time)) {
        let layers = self.pools[0].steps.instance.model.layers;
        let first = at + Span::from_ps(end.since(at).as_ps() / layers.max(1));
        for (sequence, new) in self.servers[server].lanes[lane].step.clone() {
            let request = sequence.index;
            if !self.under_way.contains_key(&request) {
                // Prompts that are done have waited for longer.
                if !self.homeless.is_empty() || !self.settle(request, server, at) {
                    continue;
                }
                if sequence.filled > 0 {
                    self.send(request, sequence.filled, None, at);
                }
            }
            self.send(request, new, Some((first, end, layers)), at);
        }
        self.share();
    }

    /// Sends the cache of so many tokens of a request to where it is decoded.
    fn send(&mut self, request: usize, tokens: u64, made: Option<(Time, Time, u64)>, at: Time) {
        let (Some(handover), Some(way)) = (self.handover, self.under_way.get_mut(&request)) else { return };
        way.parts += 1;
        // Requests go to the ranks that hold them in turn.
        let holder = |pool: usize, server: usize| {
            let data = self.pools[pool].steps.instance.shape.data;
            u32::try_from(server as u64 * data + request as u64 % data).unwrap_or(u32::MAX)
        };
        let (from, to) = (holder(0, way.from), holder(1, way.to - self.pools[0].count.max(1) as usize));
        let whole = self.requests[request].prompt.max(1);
        // What is agreed on once is spread over the parts.
        let alone = u128::from(handover.time(from, to, whole).as_ps()) * u128::from(tokens) / u128::from(whole);
        let alone = Span::from_ps(u64::try_from(alone).unwrap_or(u64::MAX));
        self.go_on(at);
        self.sharing.add(&Flow { request, tokens, alone, loads: handover.loads(from, to), made });
    }

    /// Takes what is under way on to an instant.
    fn go_on(&mut self, at: Time) {
        for request in self.sharing.go_to(at) {
            if let Some(way) = self.under_way.get_mut(&request) {
                way.parts -= 1;
                self.arrived(request, at);
            }
        }
    }

    /// If all of a prompt is made and has arrived, it is decoded from now on, and its room where it was made is free.
    pub(super) fn arrived(&mut self, request: usize, at: Time) {
        let whole = |way: &UnderWay| way.parts == 0 && self.served[request].filled > Time::ZERO;
        let Some(UnderWay { from, to, .. }) = self.under_way.get(&request).copied().filter(whole) else { return };
        self.under_way.remove(&request);
        self.served[request].landed = at;
        self.land(to, request, at);
        self.leave(from, request, at);
        self.wake(from, at);
    }

    pub(super) fn moved(&mut self, at: Time) {
        self.go_on(at);
        self.share();
    }

    fn share(&mut self) {
        self.word += 1;
        if let Some(next) = self.sharing.share() {
            self.push(next, Event::Moved(self.word));
        }
    }

    fn land(&mut self, server: usize, request: usize, at: Time) {
        let s = &mut self.servers[server];
        let prompt = self.requests[request].prompt;
        let lane =
            (0..s.lanes.len()).min_by_key(|&l| s.lanes[l].decoding.len() + s.lanes[l].joining.len()).unwrap_or(0);
        s.lanes[lane].joining.push(Sequence { index: request, filled: prompt, made: 0 });
        self.wake(server, at);
    }
}
