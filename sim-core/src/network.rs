//! The network that the engine moves segments through: directed links, flat, without names.
//!
//! A builder (in `sim-topology`, or a test) produces it; the engine only reads it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::LinkId;
use crate::net::NetPlan;
use crate::outage::Outage;
use crate::units::{Bytes, Rate, Span};

/// How much of a segment a device must hold before it sends the first byte on.
///
/// The hold is serialised at the rate of the link it is counted on, and is never more than the segment itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Forwarding {
    /// The header only: `header` bytes.
    CutThrough {
        /// Bytes that must have arrived before the first leaves.
        header: Bytes,
    },
    /// One whole packet (the flow's MTU).
    StoreAndForward,
    /// The whole segment: a device that copies in software or relays for another (a PXN relay GPU, a bounce buffer).
    Relay,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LinkSpec {
    /// Net data rate of this direction, before packet headers.
    pub rate: Rate,
    /// Propagation and device latency α, paid once by every byte.
    pub latency: Span,
    /// Wire bytes beyond the payload, per packet of the flow's MTU.
    pub packet_overhead: Bytes,
    /// The device at the near end: how it forwards what it receives.
    pub near: Forwarding,
    /// The device at the far end.
    pub far: Forwarding,
    /// When it is down; `None` if it never is.
    pub outage: Option<Outage>,
}

impl LinkSpec {
    /// A link without packet overhead between devices that forward on the header (of zero bytes).
    #[must_use]
    pub const fn ideal(rate: Rate, latency: Span) -> Self {
        let forwarding = Forwarding::CutThrough { header: Bytes::ZERO };
        Self { rate, latency, packet_overhead: Bytes::ZERO, near: forwarding, far: forwarding, outage: None }
    }

    /// The same link between devices that forward as `near` and `far` say.
    #[must_use]
    pub const fn forwarding(self, near: Forwarding, far: Forwarding) -> Self {
        Self { near, far, ..self }
    }

    /// The same link, down on a schedule.
    #[must_use]
    pub const fn flapping(self, outage: Outage) -> Self {
        Self { outage: Some(outage), ..self }
    }

    /// The same link with `bytes` of wire overhead per packet.
    #[must_use]
    pub const fn overhead(self, bytes: Bytes) -> Self {
        Self { packet_overhead: bytes, ..self }
    }
}

/// All links of a network.
#[derive(Clone, Debug, Default)]
pub struct Network {
    links: Vec<LinkSpec>,
    /// Whether one other link feeds each alone; empty if that is not known.
    series: Vec<bool>,
    packets: Option<Arc<NetPlan>>,
}

impl Network {
    /// A network of these links; their order gives their numbers.
    #[must_use]
    pub fn new(links: Vec<LinkSpec>) -> Self {
        Self { links, series: Vec::new(), packets: None }
    }

    /// The same network, and for each link whether one other feeds it alone in all programs that are ever loaded
    /// ([`Feeders`](crate::feeders::Feeders)). Engines that others load at any time rest on it.
    #[must_use]
    pub fn in_series(self, series: Vec<bool>) -> Self {
        Self { series, ..self }
    }

    /// Whether one other link feeds this one alone, as far as is known.
    #[must_use]
    pub fn is_in_series(&self, link: LinkId) -> bool {
        self.series.get(link.index()).is_some_and(|series| *series)
    }

    /// The same network, of which some links carry packets; whoever makes an engine for it hands them to
    /// [`Engine::set_net`](crate::engine::Engine::set_net).
    #[must_use]
    pub fn with_packets(self, plan: NetPlan) -> Self {
        Self { packets: Some(Arc::new(plan)), ..self }
    }

    /// The part of it that carries packets.
    #[must_use]
    pub fn packets(&self) -> Option<&NetPlan> {
        self.packets.as_deref()
    }

    /// The links in order of number.
    #[must_use]
    pub fn links(&self) -> &[LinkSpec] {
        &self.links
    }

    /// The link `id`.
    ///
    /// # Panics
    /// If there is no such link.
    #[must_use]
    pub fn link(&self, id: LinkId) -> &LinkSpec {
        &self.links[id.index()]
    }
}
