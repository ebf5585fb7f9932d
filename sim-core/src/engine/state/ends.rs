//! What the loop knows of connections: their ends and slots.

use super::{NONE, Ring};
use crate::program::{Credit, Slice};
use crate::units::{Span, Time};

/// A sender's end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct SendState {
    pub(crate) conn: u32,
    pub(crate) flows: Slice,
    pub(crate) split: bool,
    pub(crate) latency: Span,
    pub(crate) signals: u32,
    pub(crate) posted: u32,
    pub(crate) waiter: u32,
    /// It has sent nothing in this iteration.
    pub(crate) fresh: bool,
}

/// A place for each message that can be under way to a receive end. Those of all receive ends of a connection lie side by
/// side, since a message comes to all at about the same time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) base: u32,
    pub(crate) mask: u16,
    pub(crate) shift: u16,
}

impl Places {
    pub(crate) const EMPTY: Self = Self { base: NONE, mask: 0, shift: 0 };

    #[inline]
    pub(crate) const fn at(self, number: u32) -> usize {
        self.base as usize + ((number as usize & self.mask as usize) << self.shift)
    }

    #[inline]
    pub(crate) const fn capacity(self) -> u32 {
        if self.base == NONE { 0 } else { self.mask as u32 + 1 }
    }
}

/// A receiver's end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct RecvState {
    pub(crate) conn: u32,
    /// Messages whose arrival is known, and those that were taken.
    pub(crate) arrived: u32,
    pub(crate) consumed: u32,
    pub(crate) waiter: u32,
    /// Parts of a message that must arrive; 1 with a single flow means that arrivals are in order.
    pub(crate) parts: u16,
    /// Whether arrivals of different messages can overtake each other.
    pub(crate) unordered: bool,
    pub(crate) ring: Places,
}

/// A message on its way to a receive end, as far as it is known when it will be there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrival {
    /// When the last of the known parts is there.
    pub(crate) at: Time,
    /// Parts that are known of, where a message has several.
    pub(crate) here: u16,
}

/// A slot of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    /// When it is free for the next use, once `uses` says that it was given back.
    pub(crate) free_at: Time,
    /// How often it was given back.
    pub(crate) uses: u32,
    /// How many receivers have consumed the present message.
    pub(crate) consumed: u32,
}

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnState {
    pub(crate) senders: Slice,
    pub(crate) receivers: u32,
    pub(crate) slots: Ring,
    pub(crate) credit: Credit,
    pub(crate) credited: u32,
}
