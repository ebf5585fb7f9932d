//! Credits: a port sends only what the buffer at the far end has room for; room that is freed comes back after the
//! reverse link's delay. One lane, counted in wire bytes.

use super::{Admission, FlowControl, Signal};
use crate::ids::LinkId;
use crate::units::{Bytes, Span, Time};

/// Buffers of equal size behind every link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credits {
    buffer: Bytes,
    delay: Span,
    /// Bytes of each link's far buffer that are taken, as the port knows it.
    taken: Vec<u64>,
}

impl Credits {
    /// A buffer of `buffer` bytes behind each of `links` links; a credit takes `delay` to come back.
    #[must_use]
    pub fn new(links: usize, buffer: Bytes, delay: Span) -> Self {
        Self { buffer, delay, taken: vec![0; links] }
    }
}

impl FlowControl for Credits {
    fn ask(&mut self, port: LinkId, wire: Bytes, _now: Time) -> Admission {
        let taken = self.taken[port.index()];
        // A segment larger than the buffer may pass through an empty one.
        if taken == 0 || taken + wire.get() <= self.buffer.get() { Admission::Go } else { Admission::Wait }
    }

    fn on_depart(&mut self, port: LinkId, wire: Bytes, _now: Time) {
        self.taken[port.index()] += wire.get();
    }

    fn on_release(&mut self, from: LinkId, wire: Bytes, _now: Time) -> Option<Signal> {
        Some(Signal { port: from, after: self.delay, value: wire.get() })
    }

    fn on_signal(&mut self, port: LinkId, value: u64, _now: Time) {
        self.taken[port.index()] -= value.min(self.taken[port.index()]);
    }
}
