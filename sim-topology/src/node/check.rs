//! All that keeps a node from being built, at once.

use std::collections::BTreeSet;

use sim_core::units::Bytes;

use super::builder::{Builder, Homes};
use super::pcie::{Member, members};
use super::{NicPolicy, NodeError, NodeSpec};
use crate::catalogue::Catalogue;
use crate::device::DeviceKind;

impl NodeSpec {
    /// All that keeps the node from being built, as far as one fault does not follow from another, in the order of the
    /// form's keys. What depends on how many nodes share its NVSwitches is judged as for one node.
    #[must_use]
    pub fn faults(&self, catalogue: &Catalogue) -> Vec<NodeError> {
        let mut out = Vec::new();
        self.check_counts(&mut out);
        let counted = out.is_empty();
        self.check_names(catalogue, &mut out);
        if !counted {
            return out;
        }
        self.check_sockets(catalogue, &mut out);
        self.check_trained(&mut out);
        homes(self, &mut out);
        self.check_rows(catalogue, &mut out);
        if catalogue.gpu(&self.gpu).is_ok()
            && let Err(fault) = Builder::unchecked(self, catalogue, Bytes::new(4096)).check_scale_up()
            && !out.contains(&fault)
        {
            out.push(fault);
        }
        if let Err(fault) = self.check_policy() {
            out.push(fault);
        }
        out
    }

    fn check_counts(&self, out: &mut Vec<NodeError>) {
        let rows = u32::try_from(self.pcie.len()).unwrap_or(u32::MAX);
        let payload = u32::try_from(self.pcie_payload.get()).unwrap_or(u32::MAX);
        let counts = [
            ("gpus", self.gpus, 1, 64),
            ("nics", self.nics, 0, 256),
            ("nvmes", self.nvmes, 0, 256),
            ("numa_per_socket", self.numa_per_socket, 1, 64),
            ("sockets", self.sockets, 1, 16),
            ("the number of rows of `pcie`", rows, 0, 512),
            ("pcie_payload", payload, 1, 4096),
        ];
        let wrong = counts.into_iter().filter(|&(_, got, least, most)| got < least || got > most);
        out.extend(wrong.map(|(what, got, least, most)| NodeError::Count { what, got, least, most }));
    }

    fn check_names(&self, catalogue: &Catalogue, out: &mut Vec<NodeError>) {
        let mut name = |error: Option<crate::catalogue::UnknownName>| out.extend(error.map(NodeError::Unknown));
        name(catalogue.gpu(&self.gpu).err());
        name(self.nic.as_ref().and_then(|n| catalogue.nic(n).err()));
        name(self.nvme.as_ref().and_then(|n| catalogue.nvme(n).err()));
        name(self.c2c.as_ref().and_then(|n| catalogue.c2c(n).err()));
        name(self.nvlink.as_ref().and_then(|n| catalogue.nvswitch(n.chip.as_ref()?).err()));
        name(self.socket_link.as_ref().and_then(|s| catalogue.socket_link(&s.name).err()));
        if self.nic.is_none() && self.nics > 0 {
            out.push(NodeError::Missing { key: "nic", because: format!("{} NICs", self.nics) });
        }
        if self.nvme.is_none() && self.nvmes > 0 {
            out.push(NodeError::Missing { key: "nvme", because: format!("{} NVMe drives", self.nvmes) });
        }
    }

    fn check_sockets(&self, catalogue: &Catalogue, out: &mut Vec<NodeError>) {
        match &self.socket_link {
            _ if self.sockets < 2 => {}
            None => {
                out.push(NodeError::Missing { key: "socket_link", because: format!("{} sockets", self.sockets) });
            }
            Some(between) if catalogue.socket_link(&between.name).is_ok() && !(1..=64).contains(&between.links) => {
                out.push(NodeError::Count { what: "socket_link.links", got: between.links, least: 1, most: 64 });
            }
            Some(_) => {}
        }
    }

    /// Every entry of `trained` names one device that there is, and a width that there is.
    fn check_trained(&self, out: &mut Vec<NodeError>) {
        for (name, slot) in &self.trained {
            let there = match members(name).as_deref() {
                Some([Member::Gpu(i)]) => *i < self.gpus,
                Some([Member::Nic(i)]) => *i < self.nics,
                Some([Member::Nvme(i)]) => *i < self.nvmes,
                _ => false,
            };
            if !there {
                let text = name.chars().take(60).collect();
                let expected = format!("{} GPUs (gpu0 ...), {} NICs and {} drives", self.gpus, self.nics, self.nvmes);
                out.push(NodeError::BadDevice { key: "trained", text, expected });
            }
            if !matches!(slot.lanes, 1 | 2 | 4 | 8 | 16) {
                out.push(NodeError::TrainedLanes { device: name.clone(), lanes: slot.lanes });
            }
        }
    }

    /// What rows of `pcie` hang on, and the form of their links.
    fn check_rows(&self, catalogue: &Catalogue, out: &mut Vec<NodeError>) {
        let mut generations = BTreeSet::new();
        for (row, entry) in self.pcie.iter().enumerate() {
            let slots = [Some(entry.uplink), entry.slot];
            for slot in slots.into_iter().flatten() {
                if !matches!(slot.lanes, 1 | 2 | 4 | 8 | 16) {
                    out.push(NodeError::Lanes { row, lanes: slot.lanes });
                }
                if generations.insert(slot.generation)
                    && let Err(unknown) = catalogue.pcie(slot.generation)
                {
                    out.push(NodeError::Unknown(unknown));
                }
            }
            match entry.parent {
                None if entry.socket < self.sockets => {}
                None => {
                    let (index, count) = (entry.socket, self.sockets as usize);
                    out.push(NodeError::NoSuchParent { row, what: "socket", index, count });
                }
                // Only rows above: a cycle cannot be written.
                Some(parent) => {
                    let above = self.pcie.get(parent as usize).filter(|_| (parent as usize) < row);
                    if above.is_none_or(|row| !row.switch) {
                        out.push(NodeError::NoSuchParent { row, what: "switch row", index: parent, count: row });
                    }
                }
            }
        }
    }

    /// The NICs that the policy names are there.
    pub(super) fn check_policy(&self) -> Result<(), NodeError> {
        let (gpus, nics) = (self.gpus as usize, self.nics);
        let refuse = |why: String| Err(NodeError::NicPolicy { why });
        let there = |nic: u32| match nic < nics {
            true => Ok(()),
            false => refuse(format!("names nic{nic}, but the node has {nics} (nic0 is the first)")),
        };
        match &self.nic_policy {
            _ if nics == 0 => Ok(()),
            NicPolicy::Nearest | NicPolicy::RoundRobin => Ok(()),
            NicPolicy::Fixed(nic) => there(*nic),
            NicPolicy::Map(map) if map.len() != gpus || map.iter().any(Vec::is_empty) => {
                let lists = map.iter().filter(|list| !list.is_empty()).count();
                refuse(format!("a map has at least one NIC for each of the {gpus} GPUs; this one has {lists} lists"))
            }
            NicPolicy::Map(map) => map.iter().flatten().try_for_each(|&nic| there(nic)),
        }
    }
}

/// For each device the row of `pcie` on which it hangs.
pub(super) fn homes(spec: &NodeSpec, faults: &mut Vec<NodeError>) -> Homes {
    let before = faults.len();
    let mut homes = Homes {
        gpu: vec![None; spec.gpus as usize],
        nic: vec![None; spec.nics as usize],
        nvme: vec![None; spec.nvmes as usize],
    };
    for (row, entry) in spec.pcie.iter().enumerate() {
        for text in &entry.down {
            let Some(all) = members(text) else {
                faults.push(NodeError::BadMember { text: text.chars().take(60).collect(), row });
                continue;
            };
            // The first of a range stands for all that is wrong with it.
            let mut wrong = None;
            for member in all {
                let (kind, index, slots) = match member {
                    Member::Gpu(i) => (DeviceKind::Gpu, i, &mut homes.gpu),
                    Member::Nic(i) => (DeviceKind::Nic, i, &mut homes.nic),
                    Member::Nvme(i) => (DeviceKind::Nvme, i, &mut homes.nvme),
                };
                let count = slots.len() as u32;
                let fault = match slots.get_mut(index as usize) {
                    None => NodeError::NoSuchMember { kind, index, count, row },
                    Some(Some(first)) => NodeError::Twice { kind, index, first: *first, second: row },
                    Some(slot) => {
                        *slot = Some(row);
                        continue;
                    }
                };
                wrong.get_or_insert(fault);
            }
            faults.extend(wrong);
        }
    }
    // What hangs nowhere may be what a wrong entry meant.
    if faults.len() == before {
        let lists = [(DeviceKind::Nic, &homes.nic), (DeviceKind::Nvme, &homes.nvme), (DeviceKind::Gpu, &homes.gpu)];
        for (kind, list) in lists {
            if let Some(i) = list.iter().position(Option::is_none)
                && (kind != DeviceKind::Gpu || spec.c2c.is_none())
            {
                faults.push(NodeError::Loose { kind, index: i as u32 });
            }
        }
    }
    homes
}

/// Whether an entry of `down` (`gpu3`, `gpu0-3`) names this device.
#[must_use]
pub fn names_device(entry: &str, kind: DeviceKind, index: u32) -> bool {
    let wanted = format!("{kind}{index}");
    members(entry).is_some_and(|all| all.iter().any(|member| member.to_string() == wanted))
}
