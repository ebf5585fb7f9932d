//! Messages that come to a queue pair bit by bit, over links of its host: what may be sent of them, and when.
//!
//! A message is announced when the first of its bytes sets out, and each piece of it is told ahead: its first byte is at the
//! endpoint at `head` and its last at `tail`, evenly in between. A packet may leave when all of it is there. The endpoint reads
//! no further ahead of what it sends than its room allows; whoever feeds it asks before each piece, and is woken if told to wait.

use std::collections::VecDeque;

use super::qp::{Message, State};
use super::{Effect, Net, Schedule};
use crate::units::Time;

/// A piece of a message on its way to the endpoint.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The packets that are whole with it end here.
    end: u32,
    /// The message it is of: first packet and bytes; and how many of these come before it.
    first: u32,
    total: u64,
    before: u64,
    /// When its first byte is there, and picoseconds per byte from there on in 32.32 fixed point.
    head: Time,
    slope: u64,
    tail: Time,
}

/// What a queue pair is fed with.
#[derive(Clone, Debug, Default)]
pub(super) struct Feed {
    /// Bytes that may have been asked for and not sent.
    room: u64,
    asked: u64,
    told: u64,
    sent: u64,
    /// Whoever feeds it waits for room.
    waits: bool,
    /// Bytes of the last announced message that were not asked for.
    unasked: u64,
    /// The message whose pieces are told: its first packet, and how many bytes of it were told.
    first: u32,
    within: u64,
    pieces: VecDeque<Piece>,
}

impl Piece {
    /// When packet `psn`, which ends in it, is there.
    fn there(&self, psn: u32, mtu: u32) -> Time {
        let upto = (u64::from(psn - self.first + 1) * u64::from(mtu)).min(self.total);
        let after = u128::from(upto.saturating_sub(self.before)) * u128::from(self.slope);
        let at = Time::from_ps(self.head.as_ps().saturating_add(u64::try_from(after >> 32).unwrap_or(u64::MAX)));
        at.min(self.tail)
    }
}

impl Net {
    /// From now on the messages of a queue pair come by [`ask`](Self::ask) and [`read`](Self::read); of what was asked for at most
    /// `room` bytes are not sent, beside the piece that was asked for last. What it delivers is passed on packet by packet if it
    /// goes `onward`.
    pub(crate) fn feed(&mut self, qp: u32, room: u64, onward: bool) {
        let state = &mut self.qps[qp as usize];
        state.fed = true;
        state.readable = 0;
        state.onward = onward;
        self.feeds.resize_with(self.qps.len(), Feed::default);
        self.feeds[qp as usize].room = room;
    }

    /// A queue pair serves a flow from now on, which is so named in the outcome; false, and it does not, if what it sent for another
    /// is not acknowledged.
    pub(crate) fn serve_flow(&mut self, qp: u32, program: u32, flow: u32) -> bool {
        let state = &mut self.qps[qp as usize];
        let free = state.una >= state.end;
        if free {
            if state.end > 0 {
                self.past.push(state.outcome);
                state.before += state.outcome.payload;
            }
            state.outcome = super::FlowOutcome { qp, program, flow, ..super::FlowOutcome::default() };
        }
        free
    }

    /// Asks whether a queue pair takes a piece; if not, [`Effect::Room`] will say when.
    #[inline]
    pub(crate) fn has_room(&mut self, qp: u32) -> bool {
        let feed = &mut self.feeds[qp as usize];
        feed.waits = feed.asked - feed.sent >= feed.room;
        !feed.waits
    }

    /// A piece of `bytes` sets out to a queue pair, of a message of which `left` bytes, with these, have not.
    pub(crate) fn ask(&mut self, qp: u32, bytes: u32, left: u64, now: Time) {
        let feed = &mut self.feeds[qp as usize];
        let begins = feed.unasked == 0;
        feed.asked += u64::from(bytes);
        feed.unasked = left - u64::from(bytes);
        if begins {
            self.announce(qp, left, now);
        }
    }

    /// The next piece of what was asked for will be there, its first byte at `head` and its last at `tail`.
    pub(crate) fn read(&mut self, qp: u32, bytes: u32, head: Time, tail: Time, now: Time, s: &mut impl Schedule) {
        self.ask_for(qp, now, s);
        let mtu = u64::from(self.spec.mtu);
        let feed = &mut self.feeds[qp as usize];
        let messages = &self.messages[qp as usize].queue;
        let at = messages.partition_point(|message| message.end <= feed.first);
        let Some(Message { first, end, last }) = messages.get(at).copied() else { return };
        let total = u64::from(end - first - 1) * mtu + u64::from(last);
        let before = feed.within;
        let within = before + u64::from(bytes);
        let whole = if within >= total { end } else { first + (within / mtu) as u32 };
        (feed.first, feed.within) = if within >= total { (end, 0) } else { (first, within) };
        feed.told += u64::from(bytes);
        let state = &mut self.qps[qp as usize];
        if tail <= now && feed.pieces.is_empty() {
            state.readable = whole;
        } else {
            let span = u128::from(tail.since(head).as_ps()) << 32;
            let slope = u64::try_from(span.div_ceil(u128::from(bytes.max(1)))).unwrap_or(u64::MAX);
            feed.pieces.push_back(Piece { end: whole, first, total, before, head, slope, tail });
        }
        if state.state == State::Idle {
            self.go_on(qp, now, s);
        }
    }

    /// When the next packet of a queue pair, which is not known to be there, may leave; what is there by `soon` is known from
    /// then on. `None` where nothing more was told.
    pub(super) fn readable_from(&mut self, qp: u32, soon: Time) -> Option<Time> {
        let (feed, state) = (self.feeds.get_mut(qp as usize)?, &mut self.qps[qp as usize]);
        while let Some(piece) = feed.pieces.front()
            && piece.tail <= soon
        {
            state.readable = piece.end;
            feed.pieces.pop_front();
        }
        if state.nxt < state.readable {
            return Some(Time::ZERO);
        }
        // A piece may hold no end of a packet.
        let piece = feed.pieces.iter().find(|piece| piece.end > state.nxt)?;
        Some(piece.there(state.nxt, self.spec.mtu))
    }

    /// Packets before it are there or have been told of.
    pub(super) fn told_upto(&self, qp: u32) -> u32 {
        let last = self.feeds.get(qp as usize).and_then(|feed| feed.pieces.back());
        last.map_or(self.qps[qp as usize].readable, |piece| piece.end)
    }

    /// When the last of the next `packets` packets is there.
    pub(super) fn tail_of_unit(&self, qp: u32, packets: u32, now: Time) -> Time {
        let state = &self.qps[qp as usize];
        let last = state.nxt + packets;
        if !state.fed || last <= state.readable {
            return now;
        }
        let pieces = &self.feeds[qp as usize].pieces;
        pieces.iter().find(|piece| piece.end >= last).map_or(now, |piece| piece.there(last - 1, self.spec.mtu).max(now))
    }

    /// So many bytes of what was read have left for the first time.
    pub(super) fn feed_sent(&mut self, qp: u32, bytes: u32) {
        let feed = &mut self.feeds[qp as usize];
        feed.sent += u64::from(bytes);
        if feed.waits && feed.asked - feed.sent < feed.room {
            feed.waits = false;
            self.effects.push(Effect::Room { qp });
        }
    }

    /// Bytes that queue pairs were told of by [`read`](Self::read).
    pub(crate) fn bytes_read(&self) -> u64 {
        self.feeds.iter().map(|feed| feed.told).sum()
    }

    /// Bytes that have arrived by a queue pair for the flow that it serves.
    pub(crate) fn bytes_taken(&self, qp: u32) -> u64 {
        self.qps[qp as usize].outcome.payload
    }
}
