//! Packets: their records, and the slab that they lie in.
//!
//! A record's place decides nothing: lists are by arrival, and events name links.

use crate::units::Time;

/// No packet, queue pair or link.
pub(super) const NONE: u32 = u32::MAX;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Data,
    /// All before `psn` has arrived.
    Ack,
    /// `psn` is missing.
    Nak,
    /// Marked packets have arrived.
    Notice,
    /// `psn` bytes of payload are to be sent.
    Ask,
    /// `psn` bytes of payload may be sent.
    Grant,
}

/// It met congestion.
pub(super) const MARKED: u8 = 1;
/// It was sent before.
pub(super) const RESENT: u8 = 2;
/// Nodes choose its path.
pub(super) const CHOSEN: u8 = 4;
/// It fills its sender's window: no other follows before an acknowledgement.
pub(super) const LAST: u8 = 8;
/// The room that it would take at the endpoint where it ends is given back already.
pub(super) const FREED: u8 = 16;
/// It goes through a node without a stop: the room of all its packets but the last is given back already.
pub(super) const THROUGH: u8 = 32;

/// A packet, or a unit of several of one message, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// The next one in its list: a queue, a wire or the free list.
    pub(super) next: u32,
    pub(super) qp: u32,
    pub(super) psn: u32,
    /// Where in the arena of routes its next link stands.
    pub(super) at: u32,
    /// When its tail arrives where it goes.
    pub(super) tail: Time,
    /// When its data were sent first on their way, for round trips.
    pub(super) sent: Time,
    /// The link it came over; [`NONE`] where it began.
    pub(super) from: u32,
    pub(super) wire: u32,
    pub(super) kind: Kind,
    pub(super) class: u8,
    pub(super) flags: u8,
    /// Links it has still to cross.
    pub(super) left: u8,
    /// Of an acknowledgement: how many of the packets that it is the first to cover were marked. Of a unit of several: how many
    /// of them are.
    pub(super) marked: u16,
    /// Packets that move as one, `psn` being the first; all but the last are full.
    pub(super) packets: u8,
}

/// All packets that are queued or on a wire.
#[derive(Clone, Debug)]
pub(super) struct Packets {
    records: Vec<Packet>,
    free: u32,
}

impl Default for Packets {
    fn default() -> Self {
        Self { records: Vec::new(), free: NONE }
    }
}

impl Packets {
    #[inline]
    pub(super) fn take(&mut self, packet: Packet) -> u32 {
        if self.free == NONE {
            self.records.push(packet);
            return self.records.len() as u32 - 1;
        }
        let slot = self.free;
        let record = &mut self.records[slot as usize];
        self.free = record.next;
        *record = packet;
        slot
    }

    #[inline]
    pub(super) fn give(&mut self, slot: u32) {
        self.records[slot as usize].next = self.free;
        self.free = slot;
    }

    /// The most packets at once.
    pub(super) fn peak(&self) -> usize {
        self.records.len()
    }

    /// Packets that are not given back.
    pub(super) fn live(&self) -> usize {
        let (mut free, mut at) = (0, self.free);
        while at != NONE {
            free += 1;
            at = self.records[at as usize].next;
        }
        self.records.len() - free
    }
}

impl core::ops::Index<u32> for Packets {
    type Output = Packet;
    #[inline]
    fn index(&self, slot: u32) -> &Packet {
        &self.records[slot as usize]
    }
}

impl core::ops::IndexMut<u32> for Packets {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Packet {
        &mut self.records[slot as usize]
    }
}

/// A list of packets, first in, first out.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE }
    }
}

impl List {
    #[inline]
    pub(super) fn push(&mut self, slot: u32, packets: &mut Packets) {
        packets[slot].next = NONE;
        if self.head == NONE {
            self.head = slot;
        } else {
            packets[self.tail].next = slot;
        }
        self.tail = slot;
    }

    #[inline]
    pub(super) fn pop(&mut self, packets: &Packets) -> u32 {
        let slot = self.head;
        if slot != NONE {
            self.head = packets[slot].next;
        }
        slot
    }
}
