//! What keeps the buffers of a packet network from overflowing.
//!
//! A scheme sees a packet enter a node (`admit`), leave it (`release`) and leave a port for the buffer behind it
//! (`depart`); it may hold a port (`may_send`). What it tells upstream it returns as a [`Signal`] to a port. To add one:
//! a new file, a variant of [`Scheme`] and its lines below.

mod credits;
mod shared;

pub(super) use credits::Credits;
pub(super) use shared::Shared;

use super::spec::{FlowControlSpec, NetSpec};
use crate::units::Span;

/// Where a packet is: the link it came over, the node that is at its end, its class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) node: u32,
    pub(super) from: u32,
    pub(super) class: u8,
}

/// What a port is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tell {
    /// Stop the class.
    Pause,
    /// The class may go on.
    Resume,
    /// So many blocks of the buffer behind it were freed in all, modulo the counter.
    Credit(u16),
}

/// Something to tell the port that feeds a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signal {
    pub(super) port: u32,
    pub(super) class: u8,
    pub(super) tell: Tell,
    /// Bytes that it takes on the wire of the other direction.
    pub(super) wire: u32,
    /// When it takes effect, counted from now; `None`: when it has arrived and `extra` is over.
    pub(super) acts_after: Option<Span>,
    pub(super) extra: Span,
}

/// What became of a packet at a node.
#[derive(Clone, Copy, Debug)]
pub(super) enum Admit {
    Keep(Option<Signal>),
    /// No room. `fault`: its class is lossless, so the headroom is too small.
    Drop {
        fault: bool,
    },
}

/// The schemes.
#[derive(Clone, Debug)]
pub(super) enum Scheme {
    Unlimited,
    Shared(Shared),
    Credits(Credits),
}

impl Scheme {
    pub(super) fn new(spec: &NetSpec) -> Self {
        match &spec.flow_control {
            FlowControlSpec::Unlimited => Self::Unlimited,
            FlowControlSpec::Shared(shared) => Self::Shared(Shared::new(*shared, spec)),
            FlowControlSpec::Credits(credits) => Self::Credits(Credits::new(*credits, spec)),
        }
    }

    /// A packet of `wire` bytes is at a node, and will join an egress queue of `queue` bytes.
    #[inline(always)]
    pub(super) fn admit(&mut self, at: Place, wire: u32, queue: u64) -> Admit {
        match self {
            Self::Unlimited => Admit::Keep(None),
            Self::Shared(s) => s.admit(at, wire, queue),
            Self::Credits(s) => {
                s.admit(at, wire);
                Admit::Keep(None)
            }
        }
    }

    /// Its tail has left.
    #[inline(always)]
    pub(super) fn release(&mut self, at: Place, wire: u32) -> Option<Signal> {
        match self {
            Self::Unlimited => None,
            Self::Shared(s) => s.release(at, wire),
            Self::Credits(s) => Some(s.release(at, wire)),
        }
    }

    /// Whether the far end of a link asks for a pause of a class.
    pub(super) fn is_asking(&self, link: u32, class: u8) -> bool {
        matches!(self, Self::Shared(s) if s.is_asking(link, class))
    }

    /// How many bytes an input, or an egress queue, may have before it is paused or dropped, if so many of the node are in use.
    pub(super) fn room(&self, node: u32, class: u8, used: u64) -> u64 {
        match self {
            Self::Unlimited | Self::Credits(_) => u64::MAX,
            Self::Shared(s) => s.room(node, class, used),
        }
    }

    /// The most bytes of a link and class in the buffer at its far end, and the most of them in headroom.
    pub(super) fn peaks_of(&self, link: u32, class: u8) -> (u64, u64) {
        match self {
            Self::Unlimited => (0, 0),
            Self::Shared(s) => s.peaks_of(link, class),
            Self::Credits(s) => (s.peak_of(link, class), 0),
        }
    }

    /// Whether a packet may leave `port`.
    #[inline]
    pub(super) fn may_send(&self, port: u32, class: u8, wire: u32) -> bool {
        match self {
            Self::Unlimited | Self::Shared(_) => true,
            Self::Credits(s) => s.may_send(port, class, wire),
        }
    }

    /// A packet leaves `port`.
    #[inline]
    pub(super) fn depart(&mut self, port: u32, class: u8, wire: u32) {
        if let Self::Credits(s) = self {
            s.depart(port, class, wire);
        }
    }

    /// Whether a packet's room is free as soon as it begins to leave.
    #[inline]
    pub(super) fn frees_at_start(&self) -> bool {
        matches!(self, Self::Shared(s) if s.frees_at_start())
    }

    /// Whether endpoints account for what they take, too.
    #[inline]
    pub(super) fn counts_endpoints(&self) -> bool {
        matches!(self, Self::Credits(_))
    }
}
