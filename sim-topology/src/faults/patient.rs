//! The fabric while faults are laid upon it, and who did what to which link.

use std::collections::BTreeMap;

use sim_core::ids::LinkId;
use sim_core::outage::Outage;

use super::{Ailments, AppliedFault, Fault, FaultError, FaultWarning, Lossy, PauseStorm, Slowness};
use crate::catalogue::Catalogue;
use crate::device::{DeviceId, Link};
use crate::fabric::Fabric;
use crate::node::Changes;

/// The fabric, and the record of the faults that were applied to it.
pub(super) struct Patient<'a> {
    fabric: &'a mut Fabric,
    pub(super) catalogue: &'a Catalogue,
    ailments: Ailments,
    /// What was done, with the number of the fault.
    done: Vec<(usize, AppliedFault)>,
    warnings: Vec<FaultWarning>,
    /// Which fault degraded or interrupted a link last.
    degraded: BTreeMap<LinkId, usize>,
    interrupted: BTreeMap<LinkId, usize>,
    /// What befalls nodes as a whole.
    interiors: BTreeMap<u32, Changes>,
    /// Links by their ends, made when a device dies.
    ends: Option<Vec<Vec<LinkId>>>,
    number: usize,
    links: Vec<LinkId>,
    devices: Vec<DeviceId>,
}

impl<'a> Patient<'a> {
    pub(super) fn new(fabric: &'a mut Fabric, catalogue: &'a Catalogue) -> Self {
        Self {
            ailments: core::mem::take(&mut fabric.ailments),
            fabric,
            catalogue,
            done: Vec::new(),
            warnings: Vec::new(),
            degraded: BTreeMap::new(),
            interrupted: BTreeMap::new(),
            interiors: BTreeMap::new(),
            ends: None,
            number: 0,
            links: Vec::new(),
            devices: Vec::new(),
        }
    }

    pub(super) fn fabric(&self) -> &Fabric {
        self.fabric
    }

    /// The fault of this number is applied next.
    pub(super) fn begin(&mut self, number: usize, _fault: &Fault) {
        self.number = number;
        self.links.clear();
        self.devices.clear();
    }

    /// The fault has been applied.
    pub(super) fn done(&mut self, fault: &Fault, what: String) {
        let target = match fault.pick {
            Some(pick) => format!("{pick} of {}", fault.target),
            None => fault.target.clone(),
        };
        let (mut links, mut devices) = (core::mem::take(&mut self.links), core::mem::take(&mut self.devices));
        links.sort_unstable();
        links.dedup();
        devices.sort_unstable();
        devices.dedup();
        self.done.push((self.number, AppliedFault { kind: fault.kind.name(), target, what, links, devices }));
    }

    /// All faults have been applied.
    pub(super) fn finish(mut self) -> Result<Vec<FaultWarning>, FaultError> {
        for (node, mut changes) in self.fabric.interior_changes() {
            let own = self.interiors.remove(&node).unwrap_or_default();
            (changes.acs, changes.nics) = (own.acs, own.nics);
            self.interiors.insert(node, changes);
        }
        let interiors = core::mem::take(&mut self.interiors);
        self.fabric.change_interiors(self.catalogue, interiors).map_err(|error| {
            FaultError::contradiction("target", "a node can't be as its faults say", error.to_string())
        })?;
        self.done.sort_by_key(|(number, _)| *number);
        self.ailments.applied.extend(self.done.into_iter().map(|(_, applied)| applied));
        self.fabric.ailments = self.ailments;
        self.warnings.sort_by_key(|w| w.fault);
        Ok(self.warnings)
    }

    pub(super) fn warn(&mut self, key: &'static str, message: impl Into<String>, label: impl Into<String>) {
        let (message, label) = (message.into(), label.into());
        self.warnings.push(FaultWarning { fault: self.number, key, message, label });
    }

    /// Changes a link, which another fault may have degraded before.
    pub(super) fn degrade(&mut self, id: LinkId, note: String, change: impl FnOnce(&mut Link)) {
        if let Some(before) = self.degraded.insert(id, self.number)
            && before != self.number
        {
            let name = self.fabric.link_name(id);
            let label = format!("{name} is degraded by fault {} already; this acts on what that left", before + 1);
            let known = self.warnings.iter().any(|w| w.fault == self.number && w.key == "target");
            if !known {
                self.warn("target", "two faults degrade one link", label);
            }
        }
        let (_, links) = self.fabric.parts_mut();
        change(&mut links[id.index()]);
        self.note(id, note);
        self.links.push(id);
    }

    /// Gives a link a schedule of outages; it can have one.
    pub(super) fn interrupt(&mut self, id: LinkId, outage: Outage, note: String) -> Result<(), FaultError> {
        if let Some(before) = self.interrupted.insert(id, self.number)
            && before != self.number
        {
            let name = self.fabric.link_name(id);
            let label = format!("{name} has the schedule of fault {}", before + 1);
            return Err(FaultError::contradiction("target", "a link has one schedule of outages", label)
                .help("take one of the two out, or let each name other links"));
        }
        self.ailments.outages.insert(id, outage);
        self.note(id, note);
        self.links.push(id);
        Ok(())
    }

    /// A link of the network loses packets; without packets that costs it what `lossy` says.
    pub(super) fn lose(&mut self, id: LinkId, lossy: Lossy) {
        let entry = self.ailments.lossy.entry(id).or_insert(lossy);
        if *entry != lossy {
            *entry = entry.and(lossy);
        }
    }

    /// A link is held by the device that it leads to.
    pub(super) fn hold(&mut self, id: LinkId, storm: PauseStorm, note: String) {
        self.ailments.storms.push((id, storm));
        self.note(id, note);
        self.links.push(id);
    }

    /// A link dies; false if it was dead.
    pub(super) fn kill_link(&mut self, id: LinkId) -> bool {
        let (_, links) = self.fabric.parts_mut();
        let lived = core::mem::replace(&mut links[id.index()].alive, false);
        if lived {
            self.ailments.notes.insert(id, "dead".to_owned());
            self.links.push(id);
        }
        lived
    }

    /// Devices die, and their links with them; returns how many lived.
    pub(super) fn kill_devices(&mut self, ids: &[DeviceId]) -> usize {
        let mut died = 0;
        for &id in ids {
            let (devices, _) = self.fabric.parts_mut();
            if core::mem::replace(&mut devices[id.index()].alive, false) {
                died += 1;
                self.devices.push(id);
                for link in self.links_at(id) {
                    self.kill_link(link);
                }
            }
        }
        died
    }

    fn links_at(&mut self, id: DeviceId) -> Vec<LinkId> {
        let fabric = &*self.fabric;
        let ends = self.ends.get_or_insert_with(|| {
            let mut ends = vec![Vec::new(); fabric.devices().len()];
            for (i, link) in fabric.links().iter().enumerate() {
                ends[link.from.index()].push(LinkId(i as u32));
                ends[link.to.index()].push(LinkId(i as u32));
            }
            ends
        });
        ends[id.index()].clone()
    }

    /// Of these links those that are not dead; an error if none is left.
    pub(super) fn living(&self, mut links: Vec<LinkId>) -> Result<Vec<LinkId>, FaultError> {
        let first = links.first().copied();
        links.retain(|id| self.fabric.link(*id).alive);
        match first {
            Some(first) if links.is_empty() => {
                let label = format!("{} is dead by another fault", self.fabric.link_name(first));
                Err(FaultError::contradiction("target", "what is dead can't be slow or down at times", label)
                    .help("take one of the two faults out"))
            }
            _ => Ok(links),
        }
    }

    /// ACS is on in a node.
    pub(super) fn redirect(&mut self, node: u32) {
        self.interiors.entry(node).or_default().acs = true;
        self.devices.extend(self.fabric.nodes()[node as usize].gpus.first());
    }

    /// GPUs of a node use these NICs.
    pub(super) fn map_nics(&mut self, node: u32, map: &[(u32, u32)]) {
        let entry = self.interiors.entry(node).or_default();
        for &(gpu, nic) in map {
            entry.nics.retain(|(g, _)| *g != gpu);
            entry.nics.push((gpu, vec![nic]));
            self.devices.push(self.fabric.nodes()[node as usize].gpus[gpu as usize]);
        }
    }

    /// The cables of two NICs change places at their leaves.
    pub(super) fn swap_cables(&mut self, a: DeviceId, b: DeviceId) {
        if self.fabric.swap_cables(a, b).is_some() {
            self.devices.extend([a, b]);
            self.ends = None;
        }
    }

    /// Slows a device down; several faults add up.
    pub(super) fn slow(&mut self, id: DeviceId, slowness: Slowness) {
        let entry = self.ailments.slow.entry(id).or_insert(Slowness { millionths: 1_000_000, ..slowness });
        let before = *entry;
        entry.millionths = u64::try_from(u128::from(before.millionths) * u128::from(slowness.millionths) / 1_000_000)
            .unwrap_or(u64::MAX);
        entry.delay = before.delay.max(slowness.delay);
        self.devices.push(id);
    }

    fn note(&mut self, id: LinkId, note: String) {
        let entry = self.ailments.notes.entry(id).or_default();
        if !entry.is_empty() {
            entry.push_str(", ");
        }
        entry.push_str(&note);
    }
}
