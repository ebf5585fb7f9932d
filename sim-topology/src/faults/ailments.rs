//! What faults leave in a fabric beside changed links and devices.

use std::collections::{BTreeMap, BTreeSet};

use sim_core::ids::LinkId;
use sim_core::outage::Outage;
use sim_core::units::{Rate, Span};

use super::PauseStorm;
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
    /// Links of the network that lose packets.
    pub(crate) lossy: BTreeMap<LinkId, Lossy>,
    /// Links that the device behind them pauses.
    pub(crate) storms: Vec<(LinkId, PauseStorm)>,
}

/// Packets that a link of the network loses, and what that makes of it where none are played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lossy {
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Rate and latency without losses.
    pub(crate) before: (Rate, Span),
    /// Rate and latency that stand for them.
    pub(crate) after: (Rate, Span),
}

impl Lossy {
    /// Both one after the other.
    pub(crate) fn and(self, next: Self) -> Self {
        let before = self.without(next.before.0, next.before.1);
        Self { loss: 1.0 - (1.0 - self.loss) * (1.0 - next.loss), before, after: next.after }
    }

    /// What the link's rate and latency are without what stands for losses.
    #[must_use]
    pub fn without(&self, rate: Rate, latency: Span) -> (Rate, Span) {
        let whole = u128::from(rate.get()) * u128::from(self.before.0.get()) / u128::from(self.after.0.get().max(1));
        let rate = Rate::bytes_per_sec(u64::try_from(whole).unwrap_or(u64::MAX)).max(Rate::MIN);
        let added = self.after.1.as_ps().saturating_sub(self.before.1.as_ps());
        (rate, Span::from_ps(latency.as_ps().saturating_sub(added)))
    }
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

    /// What a link of the network loses; `None` if nothing.
    #[must_use]
    pub fn losses_of(&self, link: LinkId) -> Option<Lossy> {
        self.ailments.lossy.get(&link).copied()
    }

    /// Whether some link of the network that works loses packets.
    #[must_use]
    pub fn loses_packets(&self) -> bool {
        self.ailments.lossy.keys().any(|id| self.link(*id).alive)
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

    /// What is wrong with a link that loses packets, where packets are played: they are lost one by one, and its rate stays as it
    /// is without what stands for losses; `None` for one that loses none.
    #[must_use]
    pub fn ailment_over_packets(&self, link: LinkId) -> Option<String> {
        let lossy = self.losses_of(link)?;
        let own = self.link(link);
        let (rate, _) = lossy.without(own.rate, own.latency);
        // Three digits are enough; smaller ones than a millionth of a per cent would be a row of zeros.
        let percent = lossy.loss * 100.0;
        let digits = (2.0 - percent.max(1e-9).log10().floor()).clamp(0.0, 12.0) as usize;
        let mut percent = format!("{percent:.digits$}");
        if percent.contains('.') {
            percent.truncate(percent.trim_end_matches('0').trim_end_matches('.').len());
        }
        Some(format!("{:.1} GB/s, {percent} % of the packets are lost", rate.as_gbyte()))
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
