//! No flow control: buffers without bound, a segment at the head of its queue always goes.

use super::{Admission, FlowControl, Signal};
use crate::ids::LinkId;
use crate::units::{Bytes, Time};

/// Buffers without bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unlimited;

impl FlowControl for Unlimited {
    fn ask(&mut self, _port: LinkId, _wire: Bytes, _now: Time) -> Admission {
        Admission::Go
    }

    fn on_depart(&mut self, _port: LinkId, _wire: Bytes, _now: Time) {}

    fn on_release(&mut self, _from: LinkId, _wire: Bytes, _now: Time) -> Option<Signal> {
        None
    }

    fn on_signal(&mut self, _port: LinkId, _value: u64, _now: Time) {}
}
