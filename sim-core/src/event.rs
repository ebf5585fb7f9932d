//! Events: 16 bytes that carry an instant and a *word* whose value is both the payload and the tie rule.
//!
//! Events of one instant run in ascending order of their words. A word is, from the most significant bit,
//!
//! ```text
//! phase (3 bits) | place (21 bits) | flow (26 bits) | number (14 bits)
//! ```
//!
//! so ties are broken by content (phase, then link, then flow, then the segment's number within its window), never by
//! insertion or by where a record happens to lie. Resources are freed before they are asked for: [`Phase`] lists the
//! order. Events of lanes hold the lane's number in the place of flow and number.

use crate::ids::{FlowId, LaneId, LinkId};
use crate::units::Time;

/// Bits for a link.
pub const LINK_BITS: u32 = 21;
/// Bits for a flow.
pub const FLOW_BITS: u32 = 26;
/// Bits for a segment's number within the window of its flow.
pub const SEGMENT_BITS: u32 = 14;

/// What an event is about, in the order in which events of one instant run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// A port of a network of packets may send, or is told something (freed before asked for).
    Port = 0,
    /// A lane goes on.
    Lane = 2,
    /// A flow may put its next segment on its first link; a queue pair may send.
    Source = 3,
    /// A segment's head has arrived at a link.
    Arrival = 4,
    /// A timer of the driver, or of a network of packets.
    Timer = 5,
    /// The heads of all inputs are at a junction.
    Meeting = 6,
}

/// The word of an event; see the [module](self) for its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word(pub u64);

impl Word {
    /// A word about a segment of a flow at a link.
    #[inline]
    #[must_use]
    pub const fn segment(phase: Phase, link: LinkId, flow: FlowId, number: u32) -> Self {
        Self(
            (phase as u64) << (LINK_BITS + FLOW_BITS + SEGMENT_BITS)
                | (link.0 as u64) << (FLOW_BITS + SEGMENT_BITS)
                | (flow.0 as u64) << SEGMENT_BITS
                | (number & ((1 << SEGMENT_BITS) - 1)) as u64,
        )
    }

    /// A word about a lane (or, with [`Phase::Timer`], about a timer number).
    #[inline]
    #[must_use]
    pub const fn lane(phase: Phase, lane: LaneId) -> Self {
        Self((phase as u64) << (LINK_BITS + FLOW_BITS + SEGMENT_BITS) | lane.0 as u64)
    }

    /// A word about a junction that has all of a segment.
    #[inline]
    #[must_use]
    pub const fn meeting(junction: u32) -> Self {
        Self::lane(Phase::Meeting, LaneId(junction))
    }

    /// What the event is about.
    #[inline]
    #[must_use]
    pub const fn phase(self) -> Phase {
        match self.0 >> (LINK_BITS + FLOW_BITS + SEGMENT_BITS) {
            0 => Phase::Port,
            2 => Phase::Lane,
            3 => Phase::Source,
            4 => Phase::Arrival,
            5 => Phase::Timer,
            _ => Phase::Meeting,
        }
    }

    /// Whether the event is about `phase`.
    #[inline]
    #[must_use]
    pub const fn is(self, phase: Phase) -> bool {
        self.0 >> (LINK_BITS + FLOW_BITS + SEGMENT_BITS) == phase as u64
    }

    /// The link of a segment's word.
    #[inline]
    #[must_use]
    pub const fn link_id(self) -> LinkId {
        LinkId((self.0 >> (FLOW_BITS + SEGMENT_BITS)) as u32 & ((1 << LINK_BITS) - 1))
    }

    /// The flow of a segment's word.
    #[inline]
    #[must_use]
    pub const fn flow_id(self) -> FlowId {
        FlowId((self.0 >> SEGMENT_BITS) as u32 & ((1 << FLOW_BITS) - 1))
    }

    /// The segment's number modulo the window.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0 as u32 & ((1 << SEGMENT_BITS) - 1)
    }

    /// The word with no segment's number in it.
    #[inline]
    #[must_use]
    pub const fn without_number(self) -> u64 {
        match self.phase() {
            Phase::Port | Phase::Source | Phase::Arrival => self.0 >> SEGMENT_BITS << SEGMENT_BITS,
            Phase::Lane | Phase::Timer | Phase::Meeting => self.0,
        }
    }

    /// The lane of a lane's word.
    #[inline]
    #[must_use]
    pub const fn lane_id(self) -> LaneId {
        LaneId(self.0 as u32)
    }
}

/// An event: an instant and a word, compared as one 128-bit number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event(u128);

impl Event {
    /// An event of `word` at `at`.
    #[inline]
    #[must_use]
    pub const fn new(at: Time, word: Word) -> Self {
        Self((at.as_ps() as u128) << 64 | word.0 as u128)
    }

    /// When it is due.
    #[inline]
    #[must_use]
    pub const fn at(self) -> Time {
        Time::from_ps((self.0 >> 64) as u64)
    }

    /// What it says.
    #[inline]
    #[must_use]
    pub const fn word(self) -> Word {
        Word(self.0 as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_parts_and_order_by_them() {
        let w = Word::segment(Phase::Arrival, LinkId(2_000_000), FlowId(60_000_000), 16_383);
        assert_eq!(
            (w.phase(), w.link_id(), w.flow_id(), w.number()),
            (Phase::Arrival, LinkId(2_000_000), FlowId(60_000_000), 16_383)
        );
        assert!(
            Word::segment(Phase::Arrival, LinkId(1), FlowId(9), 9)
                < Word::segment(Phase::Arrival, LinkId(2), FlowId(0), 0)
        );
        assert!(Word::segment(Phase::Port, LinkId(9), FlowId(9), 9) < Word::lane(Phase::Lane, LaneId(0)));
        assert_eq!(Word::lane(Phase::Lane, LaneId(77)).lane_id(), LaneId(77));
        assert_eq!(size_of::<Event>(), 16);
    }
}
