//! Ports that wait for each other in a circle.

use super::{Net, STALL, Schedule, word};
use crate::event::Phase;
use crate::units::Time;

/// What is known of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Stall {
    /// A look is scheduled.
    called: bool,
    /// (Port, class) and the packets it had sent, as the last look found the circle.
    suspect: Vec<(u32, u8, u64)>,
    /// Packets that had been sent at the last look.
    sent: u64,
    /// The circle, from the lowest link on.
    pub(super) cycle: Vec<(u32, u8)>,
    /// Nothing has arrived for as long as was allowed.
    pub(super) stuck: bool,
}

impl Net {
    /// A port is held: the network will be looked through.
    pub(super) fn call_stall_check(&mut self, now: Time, s: &mut impl Schedule) {
        if !self.stall.called {
            self.stall.called = true;
            s.at(now + self.spec.stall_check, word(Phase::Timer, STALL, 0));
        }
    }

    /// Looks for a circle of held ports of which none has sent since the last look.
    ///
    /// A held port P waits for the ports Q at its far node that queue packets that came over P. What waits for no other
    /// held port can go on sooner or later and is taken out, until nothing changes; what is left holds a circle.
    pub(super) fn check_stall(&mut self, now: Time, s: &mut impl Schedule) {
        self.stall.called = false;
        // Where nothing has moved since the last look and there is no circle, none comes about before a port is held anew.
        let sent = self.queues.iter().map(|queue| queue.tally.packets).sum();
        let moves = core::mem::replace(&mut self.stall.sent, sent) != sent;
        let mut held: Vec<(u32, u8)> = Vec::new();
        for link in 0..self.ports.len() as u32 {
            let port = &self.ports[link as usize];
            let mask = port.ready & port.stopped;
            held.extend((0..self.classes).filter(|class| mask >> class & 1 != 0).map(|class| (link, class)));
        }
        if held.is_empty() {
            self.stall.suspect.clear();
            if moves && self.ports.iter().any(|port| port.stopped != 0) {
                self.call_stall_check(now, s);
            }
            return;
        }
        // Edges: for every held Q, the inputs of what it queues.
        let mut edges: Vec<((u32, u8), (u32, u8))> = Vec::new();
        for &(link, class) in &held {
            let node = self.ports[link as usize].near;
            for from in self.queued_from(link, class) {
                let came = (from, self.room(super::flow_control::Place { node, from, class }).class);
                if held.binary_search(&came).is_ok() {
                    edges.push((came, (link, class)));
                }
            }
        }
        let mut left = held.clone();
        loop {
            let before = left.len();
            let kept = left.clone();
            left.retain(|p| edges.iter().any(|(a, b)| a == p && kept.binary_search(b).is_ok()));
            if left.len() == before {
                break;
            }
        }
        let sent = |&(link, class): &(u32, u8)| (link, class, self.queues[self.queue_at(link, class)].tally.packets);
        let now_suspect: Vec<_> = left.iter().map(sent).collect();
        if !left.is_empty() && now_suspect == self.stall.suspect {
            // Walk along edges from the lowest port until one comes again.
            let mut walk = vec![left[0]];
            while let Some((_, next)) =
                edges.iter().find(|(a, b)| a == walk.last().unwrap_or(&left[0]) && left.binary_search(b).is_ok())
            {
                if let Some(at) = walk.iter().position(|p| p == next) {
                    walk.drain(..at);
                    break;
                }
                walk.push(*next);
            }
            let lowest = (0..walk.len()).min_by_key(|i| walk[*i]).unwrap_or(0);
            walk.rotate_left(lowest);
            self.stall.cycle = walk;
            return;
        }
        let suspects = !now_suspect.is_empty();
        self.stall.suspect = now_suspect;
        if moves || suspects {
            self.call_stall_check(now, s);
        }
    }

    /// The links over which the packets came that a port queues, sorted.
    fn queued_from(&self, link: u32, class: u8) -> Vec<u32> {
        let queue = &self.queues[self.queue_at(link, class)];
        let mut out = Vec::new();
        if self.ports[link as usize].endpoint {
            return out;
        }
        self.inputs.for_each(queue, &self.packets, |slot| out.push(self.packets[slot].from));
        out.sort_unstable();
        out.dedup();
        out
    }
}
