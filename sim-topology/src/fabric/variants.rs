//! A built fabric with other interiors of nodes, other cables, other routes: what faults need of its inside.

use std::collections::BTreeMap;

use sim_core::ids::LinkId;

use super::Fabric;
use crate::catalogue::Catalogue;
use crate::device::{DeviceId, DeviceKind};
use crate::node::{Changes, NodeError};

impl Fabric {
    /// Gives these nodes interiors of their own; equal changes share one.
    pub(crate) fn change_interiors(
        &mut self,
        catalogue: &Catalogue,
        changes: BTreeMap<u32, Changes>,
    ) -> Result<(), NodeError> {
        let mut known: BTreeMap<Changes, u16> = BTreeMap::new();
        for (node, changes) in changes {
            let template = match known.get(&changes) {
                Some(template) => *template,
                None => {
                    let variant =
                        self.templates[0].variant(&self.node, catalogue, self.mtu, self.per_domain, &changes)?;
                    let number = u16::try_from(self.templates.len()).unwrap_or(u16::MAX);
                    if number == u16::MAX {
                        let (what, got) = ("nodes with faults of their own", u32::from(number));
                        return Err(NodeError::Count { what, got, least: 0, most: got - 1 });
                    }
                    self.templates.push(variant);
                    known.insert(changes, number);
                    number
                }
            };
            let entry = &mut self.nodes[node as usize];
            entry.template = template;
            let first = entry.first_device;
            let template = &self.templates[template as usize];
            for (gpu, nics) in template.nics_of.iter().enumerate() {
                self.nics_of[node as usize * template.gpus as usize + gpu] =
                    nics.iter().map(|&nic| DeviceId(first + nic)).collect();
            }
        }
        Ok(())
    }

    /// The leaf that each of a NIC's cables goes to, and whether the cable works both ways.
    pub(crate) fn cabling(&self, nic: DeviceId) -> Vec<(u32, bool)> {
        let works = |id: &LinkId| self.links[id.index()].alive;
        self.attached(nic).iter().map(|a| (a.leaf.0, works(&a.up) && works(&a.down))).collect()
    }

    /// Swaps the far ends of the cables of two NICs, port by port.
    pub(crate) fn swap_cables(&mut self, a: DeviceId, b: DeviceId) -> Option<()> {
        let [first, second] = [self.attach_number(a)?, self.attach_number(b)?];
        for port in 0..self.plan.ports as usize {
            let (one, other) = (*self.attach.get(first + port)?, *self.attach.get(second + port)?);
            for (mine, theirs) in [(one, other), (other, one)] {
                self.links[mine.up.index()].to = theirs.leaf;
                self.links[mine.down.index()].from = theirs.leaf;
            }
            for (at, theirs) in [(first, other), (second, one)] {
                let attach = &mut self.attach[at + port];
                (attach.leaf, attach.position) = (theirs.leaf, theirs.position);
            }
        }
        Some(())
    }

    /// Where the first port of a NIC is in the list of cables.
    fn attach_number(&self, nic: DeviceId) -> Option<usize> {
        let device = self.devices.get(nic.index()).filter(|d| d.kind == DeviceKind::Nic)?;
        let number = device.node? * self.templates[0].nics + device.index;
        Some((number * self.plan.ports) as usize)
    }

    /// What is dead or narrower inside each node, by its template's numbers: the interiors that have to be worked out
    /// anew.
    pub(crate) fn interior_changes(&self) -> BTreeMap<u32, Changes> {
        let template = &self.templates[0];
        let mut all: BTreeMap<u32, Changes> = BTreeMap::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let mut changes = Changes::default();
            for (local, link) in template.links.iter().enumerate() {
                let now = &self.links[node.first_link as usize + local];
                if !now.alive {
                    changes.dead.push(local as u32);
                } else if now.width != link.width {
                    changes.narrowed.push((local as u32, now.width));
                }
            }
            for (index, &nic) in node.nics.iter().enumerate() {
                let cables = self.cabling(nic);
                let uncabled = !cables.is_empty() && cables.iter().all(|(_, works)| !works);
                if uncabled || !self.devices[nic.index()].alive {
                    changes.lost_nics.push(index as u32);
                }
            }
            if changes != Changes::default() {
                all.insert(number as u32, changes);
            }
        }
        all
    }
}
