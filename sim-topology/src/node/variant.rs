//! A node's interior after faults: the same devices and links in the same places, with other paths and other NICs.

use sim_core::units::Bytes;

use super::builder::Builder;
use super::{NodeError, NodeSpec, NodeTemplate, NvlinkKind};
use crate::catalogue::Catalogue;

/// What faults change inside a node, by local numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Changes {
    /// Peer traffic below a PCIe switch goes up to the root port.
    pub(crate) acs: bool,
    /// Links that are dead.
    pub(crate) dead: Vec<u32>,
    /// Links between GPUs that have lost a part of their width: link and what is left.
    pub(crate) narrowed: Vec<(u32, u32)>,
    /// NICs that can't be used: dead, or without a cable that works.
    pub(crate) lost_nics: Vec<u32>,
    /// GPUs that use other NICs than they would: GPU and NICs.
    pub(crate) nics: Vec<(u32, Vec<u32>)>,
}

impl NodeTemplate {
    /// This interior with `changes`. GPUs keep the NICs they have; one that has lost all of its own takes the nearest that
    /// is left, of equally near ones that with the fewest users.
    pub(crate) fn variant(
        &self,
        spec: &NodeSpec,
        catalogue: &Catalogue,
        mtu: Bytes,
        domain_nodes: u32,
        changes: &Changes,
    ) -> Result<Self, NodeError> {
        let spec = NodeSpec { acs: spec.acs || changes.acs, ..spec.clone() };
        let mut variant = Builder::new(&spec, catalogue, mtu)?.without(&changes.dead).build(domain_nodes)?;
        debug_assert_eq!((variant.devices.len(), variant.links.len()), (self.devices.len(), self.links.len()));
        for &(link, width) in &changes.narrowed {
            variant.links[link as usize].width = width;
        }
        let is_dead = |link: u32| changes.dead.contains(&link);
        match &mut variant.nvlink {
            NvlinkKind::None => {}
            NvlinkKind::Switched { up, down, lost, .. } => {
                for (gpu, lost) in lost.iter_mut().enumerate() {
                    *lost |= is_dead(up[gpu]) || is_dead(down[gpu]);
                }
            }
            NvlinkKind::Direct { link } => {
                let gpus = self.gpus as usize;
                let dead: Vec<usize> = (0..link.len()).filter(|&i| link[i] != u32::MAX && is_dead(link[i])).collect();
                for i in dead {
                    // A bundle works both ways or not at all.
                    link[i] = u32::MAX;
                    link[i % gpus * gpus + i / gpus] = u32::MAX;
                }
            }
        }
        variant.nics_of.clone_from(&self.nics_of);
        for (gpu, nics) in &changes.nics {
            variant.nics_of[*gpu as usize] = nics.iter().map(|&nic| self.nic(nic)).collect();
        }
        variant.replace_lost_nics(&changes.lost_nics);
        Ok(variant)
    }

    fn replace_lost_nics(&mut self, lost: &[u32]) {
        let lives = |template: &Self, gpu: u32, nic: u32| {
            !lost.contains(&(nic - template.first.nic)) && !template.path(gpu, nic).is_empty()
        };
        let mut kept = core::mem::take(&mut self.nics_of);
        for gpu in 0..self.gpus {
            kept[gpu as usize].retain(|&nic| lives(self, gpu, nic));
        }
        for gpu in 0..self.gpus {
            if !kept[gpu as usize].is_empty() {
                continue;
            }
            let users = |nic: u32| kept.iter().filter(|own| own.contains(&nic)).count();
            let left = (0..self.nics).map(|n| self.nic(n)).filter(|&nic| lives(self, gpu, nic));
            let nearest = left.min_by_key(|&nic| (self.host_class(gpu, nic).rank(), users(nic), nic));
            kept[gpu as usize].extend(nearest);
        }
        self.nics_of = kept;
        self.find_gpus_of_nics();
    }
}
