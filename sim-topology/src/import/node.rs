//! From a host and what completes it to the node's specification.

use std::collections::BTreeMap;

use super::fill::Filled;
use super::host::{Device, Host};
use crate::catalogue::Catalogue;
use crate::node::{NodeSpec, PcieSpec, SlotSpec};

/// The node of `host`.
pub(super) fn node(host: &Host, filled: &Filled<'_>, catalogue: &Catalogue) -> NodeSpec {
    let mut node = NodeSpec::new(&filled.gpu.name, host.gpus.len() as u32);
    node.nics = host.nics.len() as u32;
    node.nic = filled.nic.filter(|_| node.nics > 0).map(|row| row.name.clone());
    node.nic_rate = filled.nic_rate;
    node.nvlink.clone_from(&filled.nvlink);
    node.xgmi.clone_from(&filled.xgmi);
    node.max_nodes_per_domain = filled.max_nodes_per_domain;
    node.sockets = filled.layout.sockets;
    node.numa_per_socket = filled.layout.numa_per_socket;
    node.socket_link.clone_from(&filled.socket_link);
    node.memory = filled.memory;
    node.cpu = filled.cpu.clone();
    node.peer_to_peer = filled.peer_to_peer;
    let c2c = host.c2c && filled.gpu.c2c_rate.is_some();
    node.c2c = c2c.then(|| "nvlink-c2c".to_owned());
    if !host.nics.is_empty() && host.nics.iter().all(|n| n.gdr == Some(false)) {
        node.gpudirect_rdma = false;
    }
    Rows { host, filled, catalogue, c2c }.write(&mut node);
    node
}

struct Rows<'a> {
    host: &'a Host,
    filled: &'a Filled<'a>,
    catalogue: &'a Catalogue,
    c2c: bool,
}

impl Rows<'_> {
    fn write(&self, node: &mut NodeSpec) {
        let host = self.host;
        let mut devices: Vec<(String, &Device, SlotSpec)> = Vec::new();
        let gpu = SlotSpec { generation: self.filled.gpu.pcie_gen, lanes: self.filled.gpu.pcie_lanes };
        let nic = self.filled.nic.map_or(gpu, |n| SlotSpec { generation: n.pcie_gen, lanes: n.pcie_lanes });
        for (kind, list, card) in [("gpu", &host.gpus, gpu), ("nic", &host.nics, nic)] {
            devices.extend(list.iter().enumerate().map(|(i, d)| (format!("{kind}{i}"), d, card)));
        }
        // Which host bridge each root has, for those that share one.
        let mut bridges: Vec<(usize, u32)> = Vec::new();
        for (s, switch) in host.switches.iter().enumerate() {
            let below: Vec<&(String, &Device, SlotSpec)> = devices.iter().filter(|d| d.1.switch == Some(s)).collect();
            let inner = host.switches.iter().filter(|c| c.parent == Some(s)).filter_map(|c| c.link.generation);
            let slot = below.iter().map(|(_, d, card)| d.link.or(*card)).reduce(larger);
            let generation = slot.map(|s| s.generation).into_iter().chain(inner).max();
            // An uplink that is not stated is as fast as what hangs below, and wide.
            let usual = SlotSpec { generation: generation.unwrap_or(gpu.generation), lanes: 16 };
            let uplink = self.known(switch.link.or(usual));
            let slot = slot.map(|s| self.known(s));
            let mut row = PcieSpec::new(
                self.filled.layout.socket_of.get(switch.numa).copied().unwrap_or(0),
                true,
                uplink,
                ranges(below.iter().map(|d| d.0.as_str())),
            );
            row.numa = self.numa(switch.numa);
            row.parent = switch.parent.map(|p| p as u32);
            row.slot = slot.filter(|s| *s != uplink);
            if let (None, Some(bridge)) = (switch.parent, switch.bridge) {
                bridges.push((s, bridge));
            }
            let slot = slot.unwrap_or(uplink);
            for (name, device, card) in below {
                self.trained(node, name, device, slot.negotiate(*card));
            }
            node.pcie.push(row);
        }
        for (name, device, card) in devices.iter().filter(|d| d.1.switch.is_none()) {
            if self.c2c && name.starts_with("gpu") {
                continue;
            }
            let mut row = PcieSpec::new(
                self.filled.layout.socket_of.get(device.numa).copied().unwrap_or(0),
                false,
                self.known(device.link.or(*card)),
                vec![name.clone()],
            );
            row.numa = self.numa(device.numa);
            if let Some(bridge) = device.bridge {
                bridges.push((node.pcie.len(), bridge));
            }
            node.pcie.push(row);
        }
        let mut first: BTreeMap<u32, (usize, u32)> = BTreeMap::new();
        for (row, bridge) in &bridges {
            first.entry(*bridge).or_insert((*row, 0)).1 += 1;
        }
        // The number of the first row that hangs there: rows without one count as their own.
        for (row, bridge) in bridges {
            if let Some(&(number, count)) = first.get(&bridge)
                && count > 1
            {
                node.pcie[row].host_bridge = Some(number as u32);
            }
        }
    }

    /// The number of a NUMA node, where it is not the socket's.
    fn numa(&self, numa: usize) -> Option<u32> {
        let id = self.host.numas.get(numa)?.id;
        let socket = self.filled.layout.socket_of.get(numa).copied().unwrap_or(0);
        (id != socket || self.filled.layout.numa_per_socket > 1).then_some(id)
    }

    /// A device below what slot and card would train to.
    fn trained(&self, node: &mut NodeSpec, name: &str, device: &Device, full: SlotSpec) {
        let link = self.known(device.link.or(full)).negotiate(full);
        if link != full {
            node.trained.insert(name.to_owned(), link);
        }
    }

    /// The link in a generation that the catalogue has.
    fn known(&self, slot: SlotSpec) -> SlotSpec {
        let mut slot = SlotSpec { lanes: if slot.lanes == 0 { 16 } else { slot.lanes }, ..slot };
        while slot.generation > 1 && self.catalogue.pcie(slot.generation).is_err() {
            slot.generation -= 1;
        }
        slot
    }
}

fn larger(a: SlotSpec, b: SlotSpec) -> SlotSpec {
    SlotSpec { generation: a.generation.max(b.generation), lanes: a.lanes.max(b.lanes) }
}

/// Names with runs put together: `gpu0-3`.
fn ranges<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut runs: Vec<(&str, u32, u32)> = Vec::new();
    for name in names {
        let (kind, number) = name.split_at(3);
        let number: u32 = number.parse().unwrap_or(0);
        match runs.last_mut() {
            Some((k, _, last)) if *k == kind && *last + 1 == number => *last = number,
            _ => runs.push((kind, number, number)),
        }
    }
    let text =
        |(kind, first, last)| if first == last { format!("{kind}{first}") } else { format!("{kind}{first}-{last}") };
    runs.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn runs_become_ranges() {
        assert_eq!(
            super::ranges(["gpu0", "gpu1", "gpu2", "nic0", "nic4", "nic5"].into_iter()),
            ["gpu0-2", "nic0", "nic4-5"]
        );
    }
}
