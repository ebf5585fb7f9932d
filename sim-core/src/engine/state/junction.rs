//! What the loop knows of a junction.

use std::collections::VecDeque;

use crate::program::Slice;
use crate::units::Time;

/// A junction: the segments that are not complete yet.
#[derive(Clone, Debug)]
pub(crate) struct JunctionState {
    pub(crate) inputs: u16,
    pub(crate) outputs: Slice,
    pub(crate) first: u32,
    /// Where all outputs are one link to a receive end: the first index of them in the arena of [`Fan`]; or [`NONE`].
    pub(crate) fan: u32,
    /// Messages that have left over a fan.
    pub(crate) messages: u32,
    pub(crate) waiting: VecDeque<Meeting>,
}

/// An output of a junction that is one link to a receive end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fan {
    pub(crate) link: u32,
    pub(crate) receiver: u32,
}

/// A segment at a junction, as far as it is there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meeting {
    /// Inputs whose part is on its way to the junction with nothing before it.
    pub(crate) here: u16,
    pub(crate) last: bool,
    pub(crate) bytes: u32,
    pub(crate) packets: u32,
    /// The latest arrival of a head and of a tail.
    pub(crate) head: Time,
    pub(crate) tail: Time,
}
