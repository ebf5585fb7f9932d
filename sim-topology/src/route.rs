//! Routes: the links from one device to another.

use core::fmt;

use serde::Serialize;
use sim_core::ids::LinkId;

use crate::device::{DeviceId, DeviceKind};
use crate::fabric::Fabric;
use crate::node::{Bounce, NvlinkKind};

/// What is asked: from where, to where, over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteRequest {
    /// The sender.
    pub from: DeviceId,
    /// The receiver.
    pub to: DeviceId,
    /// Over what.
    pub via: Via,
    /// Whether it may or must go through host memory where it is on PCIe.
    pub host: HostUse,
    /// What tells flows between the same NICs apart (a queue pair's number): input to the choice of an equal path.
    pub entropy: u64,
}

impl RouteRequest {
    /// The way that the hardware would offer first, entropy 0.
    #[must_use]
    pub const fn auto(from: DeviceId, to: DeviceId) -> Self {
        Self { from, to, via: Via::Auto, host: HostUse::Auto, entropy: 0 }
    }

    /// The same with other means.
    #[must_use]
    pub const fn via(self, via: Via) -> Self {
        Self { via, ..self }
    }

    /// The same through host memory, or not.
    #[must_use]
    pub const fn host(self, host: HostUse) -> Self {
        Self { host, ..self }
    }

    /// The same with other entropy.
    #[must_use]
    pub const fn entropy(self, entropy: u64) -> Self {
        Self { entropy, ..self }
    }
}

/// Whether data between GPUs, NICs and drives stop over in host memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostUse {
    /// Where the node demands it: no peer-to-peer, or GPUDirect not up to that distance.
    #[default]
    Auto,
    /// Never: GPUDirect whatever the distance.
    Never,
    /// Always: a copy to host memory near the GPU, and one from there, at each side of a network.
    Always,
}

/// Over what a route goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// NVLink if there is one between the two, else PCIe inside a node, else the nearest NICs.
    Auto,
    /// These NICs: `src` on the sender's node, `dst` on the receiver's.
    Nics {
        /// The sender's NIC.
        src: DeviceId,
        /// The receiver's NIC.
        dst: DeviceId,
    },
    /// NVLink to the GPU `relay`, then these NICs.
    Pxn {
        /// A GPU of the sender's node or domain.
        relay: DeviceId,
        /// The relay's NIC.
        src: DeviceId,
        /// The receiver's NIC.
        dst: DeviceId,
    },
    /// As `Auto`, without NVLink.
    NoNvlink,
    /// NVLink or nothing.
    NvlinkOnly,
}

/// The kinds into which pairs of GPUs fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PairKind {
    /// Over NVLink.
    #[serde(rename = "nvlink")]
    NvLink,
    /// Inside a node, over PCIe, sockets or host memory.
    Pcie,
    /// Over the network, on one rail.
    SameRail,
    /// Over the network, on one rail after an NVLink hop to a relay GPU.
    Pxn,
    /// Over the network, from one rail to another.
    CrossRail,
}

impl fmt::Display for PairKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NvLink => "nvlink",
            Self::Pcie => "pcie",
            Self::SameRail => "same_rail",
            Self::Pxn => "pxn",
            Self::CrossRail => "cross_rail",
        })
    }
}

/// The links from one device to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The links in order.
    pub links: Vec<LinkId>,
    /// The kind of pair.
    pub kind: PairKind,
    /// How many minimal paths there are, this one among them.
    pub equal_paths: u32,
}

/// Why there is no route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The device number is not of this fabric.
    #[error("there is no device number {0}")]
    NoSuchDevice(u32),
    /// From a device to itself.
    #[error("{0} to itself: nothing crosses a link")]
    SameDevice(String),
    /// A means that the device is not.
    #[error("{device} is no {expected}")]
    NotA {
        /// The device.
        device: String,
        /// What was expected.
        expected: DeviceKind,
    },
    /// A NIC of another node.
    #[error("{nic} is not on the node of {device}")]
    OtherNode {
        /// The NIC.
        nic: String,
        /// The device that is to use it.
        device: String,
    },
    /// A relay without NVLink from the sender.
    #[error("no NVLink from {from} to the relay {relay}")]
    NoNvlink {
        /// The sender.
        from: String,
        /// The relay.
        relay: String,
    },
    /// Straight between GPUs of a node whose driver forbids it.
    #[error("{from} cannot reach {to} directly: peer-to-peer is off")]
    NoPeers {
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
    },
    /// There is no path.
    #[error("no path from {from} to {to}")]
    NoPath {
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
    },
}

/// How a GPU sends on another GPU's rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PxnRelay {
    /// The GPU in between, reached by NVLink.
    pub relay: DeviceId,
    /// Its NIC.
    pub src: DeviceId,
    /// The receiver's NIC, on the same rail.
    pub dst: DeviceId,
}

impl PxnRelay {
    /// As the means of a [`RouteRequest`].
    #[must_use]
    pub const fn via(self) -> Via {
        Via::Pxn { relay: self.relay, src: self.src, dst: self.dst }
    }
}

/// The number by which one of several equal paths is chosen under [`PathChoice::Hash`](crate::PathChoice::Hash): splitmix64 of source NIC and
/// destination NIC, then of that and the entropy.
#[must_use]
pub fn path_hash(src: DeviceId, dst: DeviceId, entropy: u64) -> u64 {
    let mix = |x: u64| {
        let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    mix(mix(u64::from(src.0) << 32 | u64::from(dst.0)) ^ entropy)
}

/// How many equal paths [`Fabric::equal_routes`] lists at most.
const MOST_LISTED: u32 = 65_536;

impl Fabric {
    /// The route that a request takes.
    ///
    /// Among equal minimal paths of the network it takes one by [`Fabric::path_choice`]: under
    /// [`PathChoice::Hash`](crate::PathChoice::Hash) number [`path_hash`]`(src, dst, entropy) mod paths`; under [`PathChoice::Destination`](crate::PathChoice::Destination) the
    /// uplink of number `(place of dst on its leaf + entropy) mod uplinks`, and the downlink that mirrors it.
    ///
    /// # Errors
    /// If there is no such device, no path, or the NICs and relays asked for do not fit the two ends.
    pub fn route(&self, request: &RouteRequest) -> Result<Route, RouteError> {
        let mut links = Vec::with_capacity(8);
        let (kind, equal_paths) = self.walk(request, None, &mut links)?;
        Ok(Route { links, kind, equal_paths })
    }

    /// All equal minimal paths of a request (at most 65,536), in order of their numbers.
    ///
    /// # Errors
    /// As [`route`](Self::route).
    pub fn equal_routes(&self, request: &RouteRequest) -> Result<Vec<Route>, RouteError> {
        let first = self.route(request)?;
        (0..first.equal_paths.min(MOST_LISTED))
            .map(|k| {
                let mut links = Vec::with_capacity(first.links.len());
                let (kind, equal_paths) = self.walk(request, Some(k), &mut links)?;
                Ok(Route { links, kind, equal_paths })
            })
            .collect()
    }

    /// The relay by which PXN takes a message to the receiver's rail; `None` if no GPU of the sender's node that it
    /// reaches by NVLink has a NIC there, or if the sender's own NIC is on that rail.
    #[must_use]
    pub fn pxn_relay(&self, from: DeviceId, to: DeviceId) -> Option<PxnRelay> {
        let dst = *self.nics_of(to).first()?;
        let rail = self.rail_of(dst);
        if self.nics_of(from).iter().any(|&nic| self.rail_of(nic) == rail) {
            return None;
        }
        let (node, _) = self.local(from)?;
        let src = *self.nodes()[node as usize].nics.get(rail as usize)?;
        let relay = self.gpu_of_nic(src)?;
        (self.nvlinks(from, relay) > 0 && self.nics_of(relay).contains(&src)).then_some(PxnRelay { relay, src, dst })
    }

    /// The NICs that `Via::Auto` takes between devices of two nodes: the sender's first, and the receiver's on the same
    /// rail if it has one there.
    #[must_use]
    pub fn auto_nics(&self, from: DeviceId, to: DeviceId) -> Option<(DeviceId, DeviceId)> {
        let (src, dst) = (self.nearest_nics(from)?, self.nearest_nics(to)?);
        for &s in src.as_slice() {
            if let Some(&d) = dst.as_slice().iter().find(|&&d| self.rail_of(d) == self.rail_of(s)) {
                return Some((s, d));
            }
        }
        Some((src.as_slice()[0], dst.as_slice()[0]))
    }

    /// A GPU's own NICs, or the one nearest to another device.
    fn nearest_nics(&self, device: DeviceId) -> Option<Near<'_>> {
        let own = self.nics_of(device);
        if !own.is_empty() {
            return Some(Near::Own(own));
        }
        if self.device(device).kind == DeviceKind::Nic {
            return Some(Near::One([device]));
        }
        let (node, local) = self.local(device)?;
        let nic = self.template_of(node).nearest_nic(local)?;
        Some(Near::One([DeviceId(self.nodes()[node as usize].first_device + nic)]))
    }

    fn walk(
        &self,
        request: &RouteRequest,
        choice: Option<u32>,
        links: &mut Vec<LinkId>,
    ) -> Result<(PairKind, u32), RouteError> {
        let &RouteRequest { from, to, via, host, entropy } = request;
        for id in [from, to] {
            self.check(id)?;
        }
        if from == to {
            return Err(RouteError::SameDevice(self.device(from).name.clone()));
        }
        match via {
            Via::Auto if host != HostUse::Always && self.append_nvlink(from, to, links) => Ok((PairKind::NvLink, 1)),
            Via::NvlinkOnly => match self.append_nvlink(from, to, links) {
                true => Ok((PairKind::NvLink, 1)),
                false => Err(self.no_path(from, to)),
            },
            Via::Auto | Via::NoNvlink => {
                if host == HostUse::Never && self.bounce(from, to) == Some(Bounce::NoPeers) {
                    let (from, to) = (self.device(from).name.clone(), self.device(to).name.clone());
                    return Err(RouteError::NoPeers { from, to });
                }
                if self.append_host(from, to, host, links) {
                    return Ok((PairKind::Pcie, 1));
                }
                if self.append_switches_only(from, to, links) {
                    return Ok((PairKind::NvLink, 1));
                }
                let (src, dst) = self.auto_nics(from, to).ok_or_else(|| self.no_path(from, to))?;
                self.append_network([from, src, dst, to], host, entropy, choice, links)
            }
            Via::Nics { src, dst } => self.append_network([from, src, dst, to], host, entropy, choice, links),
            Via::Pxn { relay, src, dst } => {
                self.check(relay)?;
                if !self.append_nvlink(from, relay, links) {
                    let (from, relay) = (self.device(from).name.clone(), self.device(relay).name.clone());
                    return Err(RouteError::NoNvlink { from, relay });
                }
                let (kind, paths) = self.append_network([relay, src, dst, to], host, entropy, choice, links)?;
                Ok((if kind == PairKind::SameRail { PairKind::Pxn } else { kind }, paths))
            }
        }
    }

    fn check(&self, id: DeviceId) -> Result<(), RouteError> {
        if id.index() < self.devices().len() { Ok(()) } else { Err(RouteError::NoSuchDevice(id.0)) }
    }

    fn no_path(&self, from: DeviceId, to: DeviceId) -> RouteError {
        RouteError::NoPath { from: self.device(from).name.clone(), to: self.device(to).name.clone() }
    }

    /// GPU to GPU over NVLink.
    fn append_nvlink(&self, from: DeviceId, to: DeviceId, links: &mut Vec<LinkId>) -> bool {
        if self.nvlinks(from, to) == 0 {
            return false;
        }
        let (a, b) = (self.device(from), self.device(to));
        let (Some(na), Some(nb)) = (a.node, b.node) else { return false };
        let template = self.template_of(na);
        let (na, nb) = (&self.nodes()[na as usize], &self.nodes()[nb as usize]);
        match &template.nvlink {
            NvlinkKind::None => false,
            NvlinkKind::Switched { up, down, .. } => {
                links.push(LinkId(na.first_link + up[a.index as usize]));
                links.extend(self.trunk_link(na.domain, self.board_of(from), self.board_of(to)));
                links.push(LinkId(nb.first_link + down[b.index as usize]));
                true
            }
            NvlinkKind::Direct { link } => {
                let local = link[(a.index * template.gpus + b.index) as usize];
                links.push(LinkId(na.first_link + local));
                true
            }
        }
    }

    /// Between a GPU and the NVSwitches of its domain.
    fn append_switches_only(&self, from: DeviceId, to: DeviceId, links: &mut Vec<LinkId>) -> bool {
        let (a, b) = (self.device(from), self.device(to));
        let (gpu, plane, outward) = match (a.kind, b.kind) {
            (DeviceKind::Gpu, DeviceKind::NvSwitch) => (from, to, true),
            (DeviceKind::NvSwitch, DeviceKind::Gpu) => (to, from, false),
            _ => return false,
        };
        let device = self.device(gpu);
        let Some(node) = device.node else { return false };
        let (NvlinkKind::Switched { up, down, .. }, Some(domain)) =
            (&self.template_of(node).nvlink, self.domain_of(gpu))
        else {
            return false;
        };
        if !self.nvswitches_of(domain).any(|s| s == plane) {
            return false;
        }
        let board = plane.0 - self.nvswitch_of(domain).map_or(0, |first| first.0);
        let trunk = if outward {
            self.trunk_link(domain, self.board_of(gpu), board)
        } else {
            self.trunk_link(domain, board, self.board_of(gpu))
        };
        links.extend(trunk.filter(|_| !outward));
        let local = if outward { up[device.index as usize] } else { down[device.index as usize] };
        links.push(LinkId(self.nodes()[node as usize].first_link + local));
        links.extend(trunk.filter(|_| outward));
        true
    }

    /// Inside a node over PCIe, sockets and C2C, with a stop in host memory where the node or the request wants one.
    fn append_host(&self, from: DeviceId, to: DeviceId, host: HostUse, links: &mut Vec<LinkId>) -> bool {
        let (Some((na, a)), Some((nb, b))) = (self.local(from), self.local(to)) else { return false };
        if na != nb {
            return false;
        }
        let template = self.template_of(na);
        let base = self.nodes()[na as usize].first_link;
        let mut append = |from: u32, to: u32| {
            let path = template.path(from, to);
            links.extend(path.iter().map(|&l| LinkId(base + l)));
            !path.is_empty()
        };
        let endpoint = |kind| matches!(kind, DeviceKind::Gpu | DeviceKind::Nic | DeviceKind::Nvme);
        let (ka, kb) = (self.device(from).kind, self.device(to).kind);
        let stop = match host {
            HostUse::Never => false,
            HostUse::Auto => self.bounce(from, to).is_some(),
            HostUse::Always => endpoint(ka) && endpoint(kb),
        };
        if stop {
            // The memory near the GPU, or else near the sender.
            let near = if ka != DeviceKind::Gpu && kb == DeviceKind::Gpu { b } else { a };
            let memory = template.memory(template.devices[near as usize].socket);
            return append(a, memory) && append(memory, b);
        }
        append(a, b)
    }

    fn append_network(
        &self,
        [from, src, dst, to]: [DeviceId; 4],
        host: HostUse,
        entropy: u64,
        choice: Option<u32>,
        links: &mut Vec<LinkId>,
    ) -> Result<(PairKind, u32), RouteError> {
        for (nic, user) in [(src, from), (dst, to)] {
            self.check(nic)?;
            if self.device(nic).kind != DeviceKind::Nic {
                return Err(RouteError::NotA { device: self.device(nic).name.clone(), expected: DeviceKind::Nic });
            }
            if self.device(nic).node != self.device(user).node {
                let (nic, device) = (self.device(nic).name.clone(), self.device(user).name.clone());
                return Err(RouteError::OtherNode { nic, device });
            }
        }
        let no_path = || self.no_path(from, to);
        if from != src && !self.append_host(from, src, host, links) {
            return Err(no_path());
        }
        let paths = self.append_between_nics(src, dst, entropy, choice, links).ok_or_else(no_path)?;
        if dst != to && !self.append_host(dst, to, host, links) {
            return Err(no_path());
        }
        let kind = if self.rail_of(src) == self.rail_of(dst) { PairKind::SameRail } else { PairKind::CrossRail };
        Ok((kind, paths))
    }
}

enum Near<'a> {
    Own(&'a [DeviceId]),
    One([DeviceId; 1]),
}

impl Near<'_> {
    fn as_slice(&self) -> &[DeviceId] {
        match self {
            Self::Own(own) => own,
            Self::One(one) => one,
        }
    }
}

#[cfg(test)]
mod tests;
