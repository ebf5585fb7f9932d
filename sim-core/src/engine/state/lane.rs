//! Where lanes, kernels and programs stand.

use crate::program::Slice;
use crate::units::{Span, Time};

/// Up to a few ends of an operation: one is kept in place, several are a range of an arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// The end, or the first index in the arena.
    pub(crate) at: u32,
    pub(crate) count: u16,
}

/// An operation: see [`crate::program::Op`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpState {
    pub(crate) recv: u32,
    pub(crate) send: u32,
    pub(crate) recvs: u16,
    pub(crate) sends: u16,
    /// Waited for before the first repetition; [`NONE`] without one.
    pub(crate) barrier: u32,
    pub(crate) cost: u32,
    pub(crate) repeat: u32,
    pub(crate) chunk: u32,
    /// The stride of an operation that repeats, the span of one that does not.
    pub(crate) stride_or_span: u32,
}

impl OpState {
    /// Chunks of one repetition.
    pub(crate) const fn span(&self) -> u32 {
        if self.repeat > 1 { 1 } else { self.stride_or_span }
    }

    pub(crate) const fn recv(&self) -> Ends {
        Ends { at: self.recv, count: self.recvs }
    }

    pub(crate) const fn send(&self) -> Ends {
        Ends { at: self.send, count: self.sends }
    }
}

/// Where a lane stands.
#[derive(Clone, Debug)]
pub(crate) struct LaneState {
    /// Bytes of the present chunk that are left, and the size of its slices.
    pub(crate) left: u64,
    pub(crate) slice: u64,
    pub(crate) busy_until: Time,
    /// When the next event for this lane is due; [`Time::MAX`] if none is.
    pub(crate) wake: Time,
    pub(crate) ops: Slice,
    pub(crate) layout: u32,
    pub(crate) kernel: u32,
    pub(crate) loops: u32,
    pub(crate) pc: u32,
    pub(crate) repetition: u32,
    pub(crate) chunk: u32,
    pub(crate) turn: u32,
    pub(crate) done: bool,
    /// The barrier of the present operation is behind it.
    pub(crate) passed: bool,
}

/// Lanes of a barrier that have come.
#[derive(Clone, Debug)]
pub(crate) struct BarrierState {
    pub(crate) lanes: Slice,
    pub(crate) here: u32,
    pub(crate) latest: Time,
}

/// Where a kernel stands.
#[derive(Clone, Debug)]
pub(crate) struct KernelState {
    /// Its lanes, a range of `Engine::kernel_lanes`.
    pub(crate) lanes: Slice,
    pub(crate) launch: Span,
    pub(crate) program: u32,
    /// Lanes that run.
    pub(crate) running: u32,
    pub(crate) iteration: u32,
    pub(crate) started: Time,
    pub(crate) end: Time,
}

/// Where a program stands.
#[derive(Clone, Debug)]
pub(crate) struct ProgramState {
    pub(crate) kernels: Slice,
    pub(crate) running: u32,
    pub(crate) iterations: u32,
    pub(crate) floor: Span,
    pub(crate) end: Time,
}
