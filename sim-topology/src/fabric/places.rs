//! The network between the nodes as a graph of its own: which links have queues, and what is at their ends.

use sim_core::ids::LinkId;
use sim_core::network::Forwarding;
use sim_core::units::Bytes;

use super::Fabric;
use crate::device::{DeviceId, DeviceKind};

/// The links between NICs and switches that work, with their ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The devices, in order of their numbers: NICs with a cable, then switches.
    pub devices: Vec<DeviceId>,
    /// Which of them are NICs: they send and take in, and pass nothing on.
    pub endpoints: Vec<bool>,
    /// The packet buffer of each as its catalogue row has it; `None` for NICs and where the row says nothing.
    pub buffers: Vec<Option<Bytes>>,
    /// The links, in order of their numbers.
    pub links: Vec<LinkPlace>,
}

/// A link of the network and its ends, by their places in the lists of [`Places`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkPlace {
    /// The link's number in the fabric.
    pub link: LinkId,
    /// The device that sends.
    pub near: u32,
    /// The device that receives.
    pub far: u32,
    /// The link of the other direction.
    pub twin: u32,
    /// How the switch at its end forwards: the one that it leads to, else the one that it comes from.
    pub forwarding: Forwarding,
}

/// A cable of which one direction is dead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{alive}` works and the other direction of its cable does not")]
pub struct OneWay {
    /// The direction that works.
    pub alive: String,
}

impl Fabric {
    /// The network's links that work, with what is at their ends.
    ///
    /// # Errors
    /// If of a cable one direction works alone: what is sent over it can't be acknowledged on the way back.
    pub fn places(&self) -> Result<Places, OneWay> {
        let network = || {
            let links = self.links.iter().enumerate();
            links.filter(|(_, link)| link.class.is_network() && link.alive)
        };
        let mut devices: Vec<DeviceId> = network().flat_map(|(_, link)| [link.from, link.to]).collect();
        devices.sort_unstable();
        devices.dedup();
        let place = |id: &DeviceId| devices.binary_search(id).map_or(u32::MAX, |at| at as u32);
        let numbers: Vec<usize> = network().map(|(number, _)| number).collect();
        // The two directions of a cable follow each other, from the network's first link on.
        let first = self.links.iter().position(|link| link.class.is_network()).unwrap_or(0);
        let other = |number: usize| if (number - first).is_multiple_of(2) { number + 1 } else { number - 1 };
        let mut links = Vec::with_capacity(numbers.len());
        for (number, link) in network() {
            let Ok(twin) = numbers.binary_search(&other(number)) else {
                return Err(OneWay { alive: self.link_name(LinkId::new(number)) });
            };
            let to = self.device(link.to);
            let switch = if to.kind.is_network_switch() { to } else { self.device(link.from) };
            links.push(LinkPlace {
                link: LinkId::new(number),
                near: place(&link.from),
                far: place(&link.to),
                twin: twin as u32,
                forwarding: switch.forwarding,
            });
        }
        let endpoints = devices.iter().map(|id| self.device(*id).kind == DeviceKind::Nic).collect();
        let buffers = devices.iter().map(|id| self.buffer_of(*id)).collect();
        Ok(Places { devices, endpoints, buffers, links })
    }

    /// The links between groups of a dragonfly, in order of their numbers; a route crosses one at most.
    #[must_use]
    pub fn between_groups(&self) -> Vec<LinkId> {
        let mut links: Vec<LinkId> = self.routes.between_groups().collect();
        links.sort_unstable();
        links
    }

    /// The packet buffer of a network switch, as the catalogue's row of its model has it.
    #[must_use]
    pub fn buffer_of(&self, switch: DeviceId) -> Option<Bytes> {
        self.buffers[self.switch_place(switch)?.tier()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use crate::fabric::{FabricKind, FabricSpec};
    use crate::faults::{Dead, Fault, FaultKind};
    use crate::node::NodeSpec;

    fn spec(kind: FabricKind, nodes: u32) -> FabricSpec {
        let node: NodeSpec = Catalogue::builtin().system("hgx-h100").unwrap().node.clone();
        FabricSpec {
            fabric: kind,
            leaves: (kind == FabricKind::LeafSpine).then_some(2),
            ..FabricSpec::new(node, nodes)
        }
    }

    #[test]
    fn every_link_has_its_twin_and_its_ends() {
        for kind in [FabricKind::RailOptimized, FabricKind::LeafSpine, FabricKind::Dragonfly, FabricKind::DualTor] {
            let fabric = Fabric::build(&spec(kind, 4), Catalogue::builtin()).unwrap();
            let places = fabric.places().unwrap();
            let network = fabric.links().iter().filter(|l| l.class.is_network()).count();
            assert_eq!(places.links.len(), network, "{kind}");
            assert_eq!(places.endpoints.iter().filter(|e| **e).count(), 32, "{kind}");
            for (at, link) in places.links.iter().enumerate() {
                let twin = &places.links[link.twin as usize];
                assert_eq!((twin.near, twin.far, twin.twin), (link.far, link.near, at as u32));
                assert_eq!(fabric.link(twin.link).parallel, fabric.link(link.link).parallel);
                let own = fabric.link(link.link);
                assert_eq!(places.devices[link.near as usize], own.from);
                assert_eq!(places.devices[link.far as usize], own.to);
                // No NIC's way of forwarding decides.
                let ends = [own.from, own.to].map(|end| fabric.device(end));
                assert!(ends.iter().any(|d| d.kind.is_network_switch() && d.forwarding == link.forwarding));
            }
            assert!(places.links.windows(2).all(|w| w[0].link < w[1].link), "{kind}");
        }
    }

    #[test]
    fn links_between_groups_join_routers_of_two() {
        let fabric = Fabric::build(&spec(FabricKind::Dragonfly, 16), Catalogue::builtin()).unwrap();
        let between = fabric.between_groups();
        let plan = fabric.plan();
        let group = |id: DeviceId| fabric.device(id).index / (plan.leaves / plan.pods);
        let other = |link: LinkId| group(fabric.link(link).from) != group(fabric.link(link).to);
        assert!(!between.is_empty() && between.iter().all(|link| other(*link)));
        let switches = |link: LinkId| [fabric.link(link).from, fabric.link(link).to].map(|id| fabric.device(id).kind);
        let all = (0..fabric.links().len()).map(LinkId::new).filter(|link| fabric.link(*link).class.is_network());
        let crossing = all.filter(|link| switches(*link).iter().all(|k| k.is_network_switch()) && other(*link));
        assert!(crossing.eq(between));
        let flat = Fabric::build(&spec(FabricKind::RailOptimized, 4), Catalogue::builtin()).unwrap();
        assert!(flat.between_groups().is_empty());
    }

    #[test]
    fn buffers_are_those_of_the_switch_rows() {
        let spec = FabricSpec { switch: Some("sn4700".to_owned()), ..spec(FabricKind::LeafSpine, 2) };
        let fabric = Fabric::build(&spec, Catalogue::builtin()).unwrap();
        let row = Catalogue::builtin().switch("sn4700").unwrap();
        let want = row.buffer_mb.map(|mb| Bytes::new((mb * 1e6) as u64));
        let places = fabric.places().unwrap();
        for (endpoint, buffer) in places.endpoints.iter().zip(&places.buffers) {
            assert_eq!(*buffer, if *endpoint { None } else { want });
        }
        assert!(want.is_some());
    }

    #[test]
    fn dead_links_are_left_out_and_half_dead_cables_told() {
        let spec = FabricSpec { spines: Some(2), ..spec(FabricKind::LeafSpine, 4) };
        let fabric = Fabric::build(&spec, Catalogue::builtin()).unwrap();
        let all = fabric.places().unwrap().links.len();
        let dead = |target: &str| {
            let fault = Fault { target: target.to_owned(), pick: None, kind: FaultKind::Dead(Dead) };
            fabric.clone().with_faults(&[fault], 1, true, Catalogue::builtin()).unwrap().0
        };
        let places = dead("spine0").places().unwrap();
        assert!(places.links.len() < all);
        assert!(places.links.iter().all(|l| l.near != u32::MAX && l.far != u32::MAX));
        let error = dead("leaf0->spine0#0").places().unwrap_err();
        assert!(error.alive.starts_with("spine0->leaf0"), "{error}");
    }
}
