//! Credits: a port sends a packet only if the buffer behind it has room, which it knows from two counters of twelve bits
//! (InfiniBand Architecture Specification, volume 1, section 7.9): blocks sent in all (FCTBS) and the limit that the far
//! end advertised last (FCCL), both modulo 4,096 and in blocks of 64 B.

use super::{Place, Signal, Tell};
use crate::net::spec::{CreditSpec, MOST_CLASSES, NetSpec};

const BLOCK: u32 = 64;
const MODULUS: u16 = 1 << 12;

/// A link and class.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// Near end: blocks sent, and the limit as last heard.
    sent: u16,
    limit: u16,
    /// Far end: blocks freed.
    freed: u16,
    /// Bytes in the buffer.
    held: u32,
    peak: u32,
    /// Blocks sent and freed, without a modulus.
    all_sent: u64,
    all_freed: u64,
}

/// Credits of all links.
#[derive(Clone, Debug)]
pub(in crate::net) struct Credits {
    spec: CreditSpec,
    classes: usize,
    /// Advertised blocks of a link, by class.
    blocks: [u16; MOST_CLASSES],
    /// Wire bytes of a full packet.
    full: u32,
    lanes: Vec<Lane>,
}

/// Blocks of a packet, or of a unit of packets of which all but the last are of `full` bytes.
#[inline]
const fn blocks(wire: u32, full: u32) -> u16 {
    if wire <= full {
        return (wire.div_ceil(BLOCK)) as u16 & (MODULUS - 1);
    }
    ((wire / full) * full.div_ceil(BLOCK) + (wire % full).div_ceil(BLOCK)) as u16 & (MODULUS - 1)
}

impl Credits {
    pub(in crate::net) fn new(spec: CreditSpec, net: &NetSpec) -> Self {
        let room = |class: usize| {
            let buffer = net.lanes.get(class).unwrap_or(&spec.buffer);
            (buffer.get() / u64::from(BLOCK)).min(u64::from(MODULUS / 2)) as u16
        };
        let blocks = core::array::from_fn(room);
        let classes = net.classes.len();
        let lane = |at: usize| Lane { limit: blocks[at % classes], ..Lane::default() };
        let lanes = (0..net.ports.len() * classes).map(lane).collect();
        Self { spec, classes, blocks, full: net.full(), lanes }
    }

    #[inline]
    fn lane(&self, link: u32, class: u8) -> usize {
        link as usize * self.classes + class as usize
    }

    #[inline]
    pub(in crate::net) fn may_send(&self, port: u32, class: u8, wire: u32) -> bool {
        let lane = &self.lanes[self.lane(port, class)];
        lane.limit.wrapping_sub(lane.sent).wrapping_sub(blocks(wire, self.full)) & (MODULUS - 1) <= MODULUS / 2
    }

    /// How many full packets may leave `port` one after the other.
    pub(in crate::net) fn room(&self, port: u32, class: u8) -> u32 {
        let lane = &self.lanes[self.lane(port, class)];
        let free = lane.limit.wrapping_sub(lane.sent) & (MODULUS - 1);
        if free > MODULUS / 2 { 0 } else { u32::from(free / blocks(self.full, self.full).max(1)) }
    }

    #[inline]
    pub(super) fn depart(&mut self, port: u32, class: u8, wire: u32) {
        let at = self.lane(port, class);
        let lane = &mut self.lanes[at];
        lane.sent = (lane.sent + blocks(wire, self.full)) & (MODULUS - 1);
        lane.all_sent += u64::from(blocks(wire, self.full));
        let most = u64::from(self.blocks[class as usize]);
        debug_assert!(lane.all_sent - lane.all_freed <= most, "more blocks sent than advertised");
    }

    #[inline]
    pub(super) fn admit(&mut self, at: Place, wire: u32) {
        let at = self.lane(at.from, at.class);
        let lane = &mut self.lanes[at];
        lane.held += wire;
        lane.peak = lane.peak.max(lane.held);
    }

    #[inline]
    pub(super) fn release(&mut self, at: Place, wire: u32) -> Signal {
        let index = self.lane(at.from, at.class);
        let lane = &mut self.lanes[index];
        lane.held -= wire;
        lane.freed = (lane.freed + blocks(wire, self.full)) & (MODULUS - 1);
        lane.all_freed += u64::from(blocks(wire, self.full));
        let limit = (lane.freed + self.blocks[at.class as usize]) & (MODULUS - 1);
        let (tell, wire) = (Tell::Credit(limit), self.spec.wire);
        Signal { port: at.from, class: at.class, tell, wire, acts_after: None, extra: self.spec.release }
    }

    /// A limit has come back.
    #[inline]
    pub(in crate::net) fn advertised(&mut self, port: u32, class: u8, limit: u16) {
        let at = self.lane(port, class);
        self.lanes[at].limit = limit;
    }

    pub(super) fn peak_of(&self, link: u32, class: u8) -> u64 {
        u64::from(self.lanes[self.lane(link, class)].peak)
    }

    /// The most bytes that a buffer held.
    pub(in crate::net) fn peak(&self) -> u64 {
        u64::from(self.lanes.iter().map(|lane| lane.peak).max().unwrap_or(0))
    }

    /// Blocks sent and not freed, over all links.
    pub(in crate::net) fn outstanding(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.all_sent - lane.all_freed).sum()
    }
}
