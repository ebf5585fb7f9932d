//! What the host does for a call: it starts one kernel per GPU, and one thread starts those of all its GPUs in turn.
//!
//! Benchmarks make calls back to back, so that the host works on the next while GPUs are at this one. A call takes the GPUs'
//! time or the host's, whichever is longer: the engine starts a kernel no sooner after the last than the host's time.
//! A captured graph needs the host once for many calls.

use sim_core::units::Span;

use crate::call::Group;
use crate::plan::Plan;
use crate::timing::{Key, Timing};

/// How a benchmark starts its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Calls are captured in a CUDA graph.
    pub graph: bool,
    /// GPUs for which one host thread starts kernels (`-g` of nccl-tests).
    pub gpus_per_thread: u32,
}

impl Default for Launch {
    fn default() -> Self {
        Self { graph: false, gpus_per_thread: 1 }
    }
}

impl Launch {
    /// Time of the host for one call of `plan`: the least from the start of a kernel to that of the next on the same GPU.
    #[must_use]
    pub fn host_time(self, plan: &Plan, timing: &Timing) -> Span {
        if self.graph {
            return Span::ZERO;
        }
        let messages = plan.messages();
        let of = |count: u32, key: Key| if count > 0 { timing.ask(key) * f64::from(count) } else { 0.0 };
        let us = timing.ask(Key::LaunchHost)
            + of(messages.local, Key::LaunchMessage)
            + of(messages.remote, Key::NetworkMessage);
        // The thread that serves the network is woken once for all.
        let wake = if messages.remote > 0 { timing.ask(Key::NetworkWake) } else { 0.0 };
        Span::from_us_f64(us * f64::from(self.gpus_per_thread.max(1)) + wake)
    }

    /// Time from the start of one of the library's kernels to its first operation.
    #[must_use]
    pub fn kernel_time(self, timing: &Timing) -> Span {
        let started = timing.span(Key::LaunchKernel);
        if self.graph { timing.span(Key::LaunchGraph).min(started) } else { started }
    }
}

/// Sends and receives of the busiest rank in a call that is made of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Inside its node.
    pub local: u32,
    /// To and from other nodes.
    pub remote: u32,
}

impl Messages {
    /// One to, or from, every other rank of the group, seen from a rank of the smallest node.
    #[must_use]
    pub fn with_all(group: &Group) -> Self {
        let near = group.nodes().iter().map(Vec::len).min().unwrap_or(1) as u32;
        Self { local: near.saturating_sub(1), remote: group.ranks().saturating_sub(near) }
    }
}
