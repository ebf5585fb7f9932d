//! What faults leave in a fabric beside changed links and devices.

use std::collections::{BTreeMap, BTreeSet};

use sim_core::ids::LinkId;
use sim_core::outage::Outage;
use sim_core::units::Span;

use crate::device::DeviceId;
use crate::fabric::Fabric;

/// How much slower a GPU is than its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slowness {
    /// The time of its own work in millionths: 1,300,000 is 1.3 times as long.
    pub millionths: u64,
    /// Time by which each of its calls begins late.
    pub delay: Span,
}

/// One fault as it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedFault {
    /// `degraded`, `flapping`, `straggler`, ...
    pub kind: &'static str,
    /// The target as it was written, with `pick` if there was one.
    pub target: String,
    /// What it did, in a few words: `25.0 of 50.0 GB/s`.
    pub what: String,
    /// The links it changed.
    pub links: Vec<LinkId>,
    /// The devices it changed.
    pub devices: Vec<DeviceId>,
}

/// What faults leave in a fabric.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ailments {
    pub(crate) applied: Vec<AppliedFault>,
    pub(crate) outages: BTreeMap<LinkId, Outage>,
    pub(crate) slow: BTreeMap<DeviceId, Slowness>,
    /// What is wrong with a link, in a few words.
    pub(crate) notes: BTreeMap<LinkId, String>,
}

impl Ailments {
    pub(crate) fn is_empty(&self) -> bool {
        self.applied.is_empty() && self.notes.is_empty()
    }
}

impl Fabric {
    /// When a link is down; `None` if it never is, or is dead for good.
    #[must_use]
    pub fn outage_of(&self, link: LinkId) -> Option<Outage> {
        self.ailments.outages.get(&link).copied()
    }

    /// How slow a device is; `None` if it is like its like.
    #[must_use]
    pub fn slowness_of(&self, device: DeviceId) -> Option<Slowness> {
        self.ailments.slow.get(&device).copied()
    }

    /// What is wrong with a link, in a few words; `None` for a sound one.
    #[must_use]
    pub fn ailment_of(&self, link: LinkId) -> Option<&str> {
        self.ailments.notes.get(&link).map(String::as_str)
    }

    /// All links with something wrong that carry data, in order, with what it is.
    pub fn ailing_links(&self) -> impl Iterator<Item = (LinkId, &str)> {
        self.ailments.notes.iter().map(|(link, note)| (*link, note.as_str()))
    }

    /// The NVLink domains with a device or a link inside that a fault has touched; empty for a healthy fabric.
    #[must_use]
    pub fn ailing_domains(&self) -> BTreeSet<u32> {
        let ends = |link: &LinkId| [self.link(*link).from, self.link(*link).to];
        let touched = |fault: &AppliedFault| {
            let links = fault.links.iter().flat_map(ends).collect::<Vec<_>>();
            links.into_iter().chain(fault.devices.iter().copied()).collect::<Vec<_>>()
        };
        let devices = self.ailments.applied.iter().flat_map(touched);
        devices.filter_map(|id| self.domain_of(id)).collect()
    }
}
