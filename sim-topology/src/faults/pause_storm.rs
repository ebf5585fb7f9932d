//! A device that pauses what feeds it: a NIC whose receive pipeline has stopped, a port whose firmware hangs.

use sim_core::ids::LinkId;
use sim_core::units::Span;

use super::patient::Patient;
use super::target::{Item, Wanted, links_of};
use super::{Effect, FaultError};
use crate::device::DeviceKind;
use crate::fabric::Fabric;

/// Pauses without a reason, over and over, on the links that lead to a device. Only networks of packets know pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseStorm {
    /// From when on, from the start of each simulation.
    pub from: Span,
    /// Until when; `None`: for ever.
    pub until: Option<Span>,
}

impl PauseStorm {
    /// The links that are held: those of the network that lead to a device, or that the target names.
    fn held(items: &[Item], fabric: &Fabric) -> Result<Vec<LinkId>, FaultError> {
        let mut links = links_of(items, fabric, Wanted::Cable)?;
        let named = items.iter().any(|item| matches!(item, Item::Link(_) | Item::Cable(..)));
        links.retain(|id| {
            let link = fabric.link(*id);
            let into = |item: &Item| match item {
                Item::Device(device) => link.to == *device,
                Item::Node(node) => fabric.device(link.to).node == Some(*node),
                Item::Link(_) | Item::Cable(..) => false,
            };
            link.class.is_network() && (named || items.iter().any(into))
        });
        if links.is_empty() {
            let label = "a NIC (node0.nic0), a node, a switch, or a link of the network (leaf0->node0.nic0)";
            return Err(FaultError::contradiction("target", "no link of the network to pause", label));
        }
        Ok(links)
    }
}

impl Effect for PauseStorm {
    fn name(&self) -> &'static str {
        "pause-storm"
    }

    fn rank(&self) -> u8 {
        8
    }

    fn apply(&self, items: &[Item], patient: &mut Patient<'_>) -> Result<String, FaultError> {
        if let Some(until) = self.until
            && until <= self.from
        {
            let label = format!("{until}, and it begins at {}", self.from);
            return Err(FaultError::range("until", "a storm that ends before it begins", label));
        }
        let links = patient.living(Self::held(items, patient.fabric())?)?;
        let what = match self.until {
            Some(until) => format!("pauses what feeds it from {} to {until}", self.from),
            None => format!("pauses what feeds it from {} on, for ever", self.from),
        };
        for id in links {
            patient.hold(id, *self, what.clone());
        }
        Ok(what)
    }
}

impl Fabric {
    /// The links that a device pauses without a reason, in order of the faults.
    #[must_use]
    pub fn pause_storms(&self) -> &[(LinkId, PauseStorm)] {
        &self.ailments.storms
    }

    /// The links that a fault's target names; a device stands for its links, a NIC for its cable.
    ///
    /// # Errors
    /// If there is no such device or link.
    pub fn links_named(&self, target: &str) -> Result<Vec<LinkId>, FaultError> {
        links_of(&super::target::named(self, target)?, self, Wanted::Cable)
    }

    /// The NICs that a name or a pattern means; a node stands for all of its.
    ///
    /// # Errors
    /// If there is no such device, or it is no NIC.
    pub fn nics_named(&self, target: &str) -> Result<Vec<crate::device::DeviceId>, FaultError> {
        let mut nics = Vec::new();
        for item in super::target::named(self, target)? {
            match item {
                Item::Node(node) => nics.extend(&self.nodes()[node as usize].nics),
                Item::Device(id) if self.device(id).kind == DeviceKind::Nic => nics.push(id),
                Item::Device(_) | Item::Link(_) | Item::Cable(..) => {}
            }
        }
        if nics.is_empty() {
            let label = "NICs are named like node0.nic1; `node0` stands for its NICs, `*` for any text between dots";
            return Err(FaultError::contradiction("target", format!("`{target}` names no NIC"), label));
        }
        nics.sort_unstable();
        nics.dedup();
        Ok(nics)
    }
}
