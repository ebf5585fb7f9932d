//! Flow control of queued links: whether the segment at the head of a port's queue may leave.
//!
//! A scheme sees three moments of a segment: it asks to leave a port, it leaves, and its tail has left the next port
//! (so the buffer it held there is free). What a scheme wants to tell upstream (credits, XOFF/XON) it returns as a
//! [`Signal`], which the engine delivers after the reverse link's delay. To add one: a new file, a variant of
//! [`AnyFlowControl`] and its lines below.

mod credits;
mod unlimited;

pub use credits::Credits;
pub use unlimited::Unlimited;

use crate::ids::LinkId;
use crate::units::{Bytes, Span, Time};

/// May the segment go?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Yes, now.
    Go,
    /// No; the port is asked again when a [`Signal`] for it arrives.
    Wait,
}

/// A message of the flow control to the port that feeds a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// The port (link) to which it goes.
    pub port: LinkId,
    /// After how long it takes effect there.
    pub after: Span,
    /// Credit returned in bytes, XOFF (0) or XON (1): the scheme's own meaning.
    pub value: u64,
}

/// What a scheme decides.
pub trait FlowControl {
    /// A segment of `wire` bytes at the head of the queue of `port` asks to leave at `now`.
    fn ask(&mut self, port: LinkId, wire: Bytes, now: Time) -> Admission;

    /// It leaves `port` and will occupy the buffer at the far end.
    fn on_depart(&mut self, port: LinkId, wire: Bytes, now: Time);

    /// A segment that came over `from` has left the buffer there at `now`.
    fn on_release(&mut self, from: LinkId, wire: Bytes, now: Time) -> Option<Signal>;

    /// A signal has arrived at `port`.
    fn on_signal(&mut self, port: LinkId, value: u64, now: Time);
}

/// The known schemes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnyFlowControl {
    /// Buffers without bound.
    Unlimited(Unlimited),
    /// Credits of the buffer at the far end.
    Credits(Credits),
}

impl AnyFlowControl {
    /// The scheme within.
    #[inline]
    pub fn scheme(&mut self) -> &mut dyn FlowControl {
        match self {
            Self::Unlimited(s) => s,
            Self::Credits(s) => s,
        }
    }
}

impl Default for AnyFlowControl {
    fn default() -> Self {
        Self::Unlimited(Unlimited)
    }
}
