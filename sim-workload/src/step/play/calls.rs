//! Calls of ranks: members come to them, they begin, and each member's part ends.

use sim_core::units::Time;

use super::super::carrier::{End, Start};
use super::super::outcome::Ran;
use super::super::plan::Stream;
use super::chain::{Chains, NONE};
use super::{ABSENT, Flight, Meeting, Member, Player, Takes};
use crate::experts::Kernels;

impl Player<'_> {
    /// A member of a call has done its part.
    pub fn member_ends(&mut self, end: End) {
        self.now = end.at;
        let (communicator, began, binding, channel, member, takes) = {
            let flight = &mut self.flights[end.token as usize];
            flight.left -= 1;
            let member = flight.members[end.member as usize];
            (flight.communicator, flight.began, flight.binding, flight.channel, member, flight.takes)
        };
        let rank = self.meetings.communicators[communicator as usize].ranks[end.member as usize];
        self.under_way(rank, communicator, takes, false);
        if let Some(channel) = channel.filter(|_| end.member == 1) {
            self.arrive(
                rank,
                channel,
                binding,
                [began, end.at],
                self.flights[end.token as usize].members[0].op,
                communicator,
            );
        } else {
            self.end(rank, member.op, binding, [member.joined, began, end.at], member.own);
            self.chains.release(member.own);
        }
        let flight = &mut self.flights[end.token as usize];
        if flight.left == 0 {
            let made = &mut self.made[flight.call as usize];
            made.0 += 1;
            made.1 += end.at.since(began);
            let members = core::mem::take(&mut flight.members);
            self.pool.push(members);
            self.free.push(end.token);
            self.chains.release(binding);
        }
        self.settle();
    }

    /// `binding`, held, unless it is a kernel.
    pub(super) fn own(&mut self, binding: u32) -> u32 {
        let Some(node) = self.chains.get(binding) else { return NONE };
        if self.op_of(node.rank, node.op).work.is_kernel() {
            return NONE;
        }
        self.chains.hold(binding);
        binding
    }

    pub(super) fn join(&mut self, rank: u32, op: u32, binding: u32, call: u32, (stream, lane): (usize, usize)) {
        let (number, member) = self.meetings.of[rank as usize][stream];
        let own = self.own(binding);
        let size = self.meetings.communicators[number as usize].ranks.len();
        let open = &mut self.open[number as usize][lane];
        // The oldest that this member has not come to.
        let at = open.iter().position(|m| m.members[member as usize].op == u32::MAX).unwrap_or(open.len());
        if at == open.len() {
            let mut members = self.pool.pop().unwrap_or_default();
            members.clear();
            members.resize(size, ABSENT);
            open.push_back(Meeting { members, came: 0, call });
        }
        let meeting = &mut open[at];
        meeting.members[member as usize] = Member { op, joined: self.now, own };
        meeting.came += 1;
        if (meeting.came as usize) < size {
            self.chains.release(binding);
            return;
        }
        let Some(meeting) = open.remove(at) else { return };
        self.depart(number, meeting.call, meeting.members, binding, None);
    }

    /// All have come: the call begins.
    pub(super) fn depart(
        &mut self,
        communicator: u32,
        call: u32,
        members: Vec<Member>,
        binding: u32,
        channel: Option<u32>,
    ) {
        let left = members.len() as u32;
        let exchange = self.plan.calls[call as usize].exchange;
        let takes = match exchange.and_then(|e| self.plan.exchanges.get(e as usize)).map(|e| e.kernels) {
            None | Some(Kernels::Library) => Takes::Messages,
            Some(Kernels::Normal { .. }) => Takes::Processors,
            Some(Kernels::LowLatency) => Takes::Nothing,
        };
        let flight = Flight { communicator, began: self.now, binding, members, left, channel, call, takes };
        let token = self.free.pop().unwrap_or_else(|| {
            self.flights.push(Flight::default());
            self.flights.len() as u32 - 1
        });
        self.flights[token as usize] = flight;
        self.starts.push(Start { communicator, call, token });
        if self.options.slowdown.is_some() {
            for member in 0..left as usize {
                let rank = self.meetings.communicators[communicator as usize].ranks[member];
                self.under_way(rank, communicator, takes, true);
            }
        }
    }

    /// A message from another stage is there.
    fn arrive(&mut self, rank: u32, channel: u32, binding: u32, [began, at]: [Time; 2], op: u32, communicator: u32) {
        let sender = self.meetings.communicators[communicator as usize].ranks[0];
        let node = self.chains.add(Chains::node(binding, sender, op, [began, began, at], NONE));
        self.chains.hold(node);
        let stage = &self.plan.stages[self.ranks[rank as usize].stage as usize];
        let Some(stream) = stage.streams.iter().position(|s| *s == Stream::Receive(channel)) else { return };
        if self.watched[rank as usize] {
            let label = self.label(sender, op);
            self.ran.push(Ran { rank, stream: Stream::Receive(channel), label, from: began, to: at });
        }
        if let Some((op, own, _)) = self.ranks[rank as usize].receiving[stream].take() {
            self.done(rank, op, node);
            self.chains.release(own);
            self.chains.release(node);
        } else {
            self.ranks[rank as usize].arrived[stream].push_back(node);
        }
    }
}
