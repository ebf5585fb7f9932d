//! A node with fewer GPUs, or with other NICs.

use sim_core::units::Rate;

use super::builder::root_row;
use super::pcie::{Member, PcieSpec, SlotSpec, members};
use super::{NicPolicy, NodeSpec};

impl NodeSpec {
    /// The same node with only its first `gpus` GPUs; NICs, switches and sockets stay.
    #[must_use]
    pub fn with_gpus(&self, gpus: u32) -> Self {
        let mut node = self.clone();
        node.gpus = gpus.min(self.gpus);
        node.keep(|member| !matches!(member, Member::Gpu(g) if g >= gpus));
        if let Some(nvlink) = &mut node.nvlink {
            nvlink.pairs.retain(|&[a, b, _]| a < gpus && b < gpus);
            nvlink.lost.retain(|&g| g < gpus);
            if self.max_nodes_per_domain > 1 {
                // A board of a domain of several nodes is so many nodes.
                nvlink.board_gpus = nvlink.board_gpus / self.gpus.max(1) * node.gpus;
            }
            if nvlink.chip.is_none() && nvlink.pairs.is_empty() {
                node.nvlink = None;
            }
        }
        if let Some(xgmi) = &mut node.xgmi {
            xgmi.pairs.retain(|&[a, b, _]| a < gpus && b < gpus);
            if gpus < 2 || (xgmi.mesh.is_none() && xgmi.pairs.is_empty()) {
                node.xgmi = None;
            }
        }
        if let NicPolicy::Map(map) = &mut node.nic_policy {
            map.truncate(gpus as usize);
        }
        node.trained.retain(|name, _| !matches!(members(name).as_deref(), Some([Member::Gpu(g)]) if *g >= gpus));
        node
    }

    /// The same node with `count` NICs of `rate`.
    ///
    /// If the count differs from the node's own, they are dealt evenly to the GPUs, each on the switch of its GPU (on a
    /// root port of its own where the GPU has none).
    #[must_use]
    pub fn with_nics(&self, count: u32, rate: Rate) -> Self {
        let mut node = self.clone();
        node.nic_rate = Some(rate);
        if node.nic.is_none() {
            // The model only gives the PCIe side.
            node.nic = Some("connectx-7".to_owned());
        }
        if count == self.nics {
            return node;
        }
        node.nics = count;
        node.trained.retain(|name, _| !matches!(members(name).as_deref(), Some([Member::Nic(_)])));
        node.keep(|member| !matches!(member, Member::Nic(_)));
        for nic in 0..count {
            let gpu = (u64::from(nic) * u64::from(node.gpus) / u64::from(count)) as u32;
            let name = format!("nic{nic}");
            let home = node.pcie.iter_mut().find(|row| row.switch && holds(row, Member::Gpu(gpu)));
            match home {
                Some(row) => row.down.push(name),
                None => {
                    let beside = node.pcie.iter().position(|row| holds(row, Member::Gpu(gpu)));
                    let root = beside.map(|row| &node.pcie[root_row(&node, row)]);
                    let beside = beside.map(|row| &node.pcie[row]);
                    let socket = match root {
                        Some(row) => row.socket,
                        None => (u64::from(gpu) * u64::from(node.sockets) / u64::from(node.gpus.max(1))) as u32,
                    };
                    let numa = beside.and_then(|row| row.numa).or_else(|| root?.numa);
                    let uplink = beside.map_or(SlotSpec { generation: 5, lanes: 16 }, |row| row.uplink);
                    node.pcie.push(PcieSpec { numa, ..PcieSpec::new(socket, false, uplink, vec![name]) });
                }
            }
        }
        node
    }

    /// Keeps the members of `pcie` rows for which `keep` holds; text that is no member stays, to be reported.
    fn keep(&mut self, keep: impl Fn(Member) -> bool) {
        for row in &mut self.pcie {
            let kept = row.down.iter().flat_map(|text| match members(text) {
                None => vec![text.clone()],
                Some(all) => all.into_iter().filter(|&m| keep(m)).map(|m| m.to_string()).collect(),
            });
            row.down = kept.collect();
        }
    }
}

fn holds(row: &PcieSpec, member: Member) -> bool {
    row.down.iter().filter_map(|text| members(text)).flatten().any(|m| m == member)
}
