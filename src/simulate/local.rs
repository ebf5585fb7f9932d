//! A call of one rank: no communication, a copy within a GPU.

use sim_collectives::timing::{Key, Timing};
use sim_core::units::{Bytes, Span};

use super::profile;
use crate::scenario::Loaded;

/// The time of a call of one rank out of place: a launch, and every byte read and written once at the peak rate of the GPU's
/// memory. The launch is taken to cost what a kernel's does.
#[must_use]
pub fn local_copy(loaded: &Loaded, bytes: Bytes) -> Span {
    let spec = &loaded.scenario.cluster;
    let gpu = loaded.catalogue.gpu(&spec.node.gpu).ok();
    let mut timing = Timing::builtin(gpu.as_ref().map_or(90, |gpu| gpu.sm), spec.transport.as_str());
    profile::apply(&loaded.scenario.profile, &mut timing);
    let copy = gpu.map_or(0.0, |gpu| 2.0 * bytes.get() as f64 / gpu.memory_rate.as_gbyte() / 1e3);
    timing.span(Key::LaunchKernel) + Span::from_us_f64(copy)
}
