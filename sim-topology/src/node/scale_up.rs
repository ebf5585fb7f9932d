//! Links from GPU to GPU: NVLink through NVSwitches or direct, and AMD's xGMI.

use serde::{Deserialize, Serialize};
use sim_core::units::{Rate, Span};

use super::NodeError;
use super::builder::Builder;
use super::template::{NvlinkKind, TemplateEnd, TemplateLink, Trunk};
use crate::catalogue::{Gpu, Nvlink, Row};
use crate::device::LinkClass;
use crate::text;

/// NVLink wiring: through NVSwitch chips (`links`), or straight from GPU to GPU (`pairs`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvlinkSpec {
    /// The NVSwitch chip's catalogue name, with `links`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chip: Option<String>,
    /// Links of each GPU to each chip: `[5, 4, 4, 5]` is four chips and 18 links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<u32>,
    /// How many GPUs have NVSwitch chips of their own, where a domain has several groups of chips (8 on each board of a
    /// DGX-2, 36 in each rack of an NVL36x2): the domain's GPUs fill them in order, and `links` is a GPU's links to the
    /// chips of its own. 0 is one group for all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub board_gpus: u32,
    /// Links from each chip to its counterpart of every other group.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trunk: u32,
    /// Direct bundles: `[gpu, gpu, links]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<[u32; 3]>,
    /// GPUs whose NVLinks are all down: they fall back to PCIe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<u32>,
    /// Rate of all of a GPU's links together, one direction, in place of the generation's; shared evenly by the links.
    #[serde(default, with = "text::rate_opt", skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

const fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// xGMI wiring: AMD's links from GPU to GPU, never switched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XgmiSpec {
    /// Rate of one link, one direction.
    #[serde(with = "text::rate")]
    pub rate: Rate,
    /// Every GPU has one link to every other of its group of so many: 8 is the full mesh of an MI300X, 4 the islands of
    /// an MI100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh: Option<u32>,
    /// Direct bundles: `[gpu, gpu, links]`, with or without `mesh`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<[u32; 3]>,
}

impl XgmiSpec {
    /// All bundles of a node with so many GPUs.
    fn bundles(&self, gpus: u32) -> Vec<[u32; 3]> {
        let mut all = Vec::new();
        if let Some(size) = self.mesh.filter(|&size| size > 1) {
            for a in 0..gpus {
                let end = (a / size + 1).saturating_mul(size).min(gpus);
                all.extend((a + 1..end).map(|b| [a, b, 1]));
            }
        }
        all.extend(&self.pairs);
        all
    }
}

impl Builder<'_> {
    /// Whether the wiring of a node by itself can be.
    pub(super) fn check_scale_up(mut self) -> Result<(), NodeError> {
        let gpu = self.catalogue.gpu(&self.spec.gpu)?;
        self.add_scale_up(gpu, 1).map(|_| ())
    }

    /// NVLinks of `gpu` in a domain of so many nodes.
    pub(super) fn add_scale_up(&mut self, gpu: &Row<Gpu>, domain_nodes: u32) -> Result<NvlinkKind, NodeError> {
        let spec = self.spec;
        let wiring = match (&spec.nvlink, &spec.xgmi) {
            (None, None) => return Ok(NvlinkKind::None),
            (Some(_), Some(_)) => return Err(NodeError::TwoScaleUps),
            (None, Some(xgmi)) => return self.add_xgmi(xgmi),
            (Some(wiring), None) => wiring,
        };
        let Some(generation) = self.catalogue.gpu_link(gpu)? else {
            return Err(NodeError::TooManyNvlinks { gpu: 0, model: gpu.name.clone(), used: 1, has: 0 });
        };
        if let Some(&gpu) = wiring.lost.iter().find(|&&g| g >= spec.gpus) {
            return Err(NodeError::NoSuchGpu { key: "nvlink.lost", index: gpu, count: spec.gpus });
        }
        match (&wiring.chip, wiring.links.is_empty(), wiring.pairs.is_empty()) {
            (Some(chip), false, true) => self.add_switched(wiring, chip, gpu, generation, domain_nodes),
            (None, true, false) => {
                let has = Some((gpu.name.as_str(), gpu.nvlinks));
                let latency = self.catalogue.latency("nvlink-direct")?.latency;
                let link = |links| self.nvlink(wiring, generation, gpu.nvlinks, links, latency);
                let bundles = wiring.pairs.iter().map(|&pair| (pair, link(pair[2]))).collect::<Vec<_>>();
                self.add_direct(&bundles, &wiring.lost, has)
            }
            _ => Err(NodeError::NvlinkForm),
        }
    }

    /// A bundle of so many NVLinks.
    fn nvlink(
        &self,
        wiring: &NvlinkSpec,
        generation: &Row<Nvlink>,
        of: u32,
        links: u32,
        latency: Span,
    ) -> TemplateLink {
        let wired: u64 = wiring.links.iter().map(|&n| u64::from(n)).sum();
        let all = u128::from(if wired > 0 { wired } else { u64::from(of) }).max(1);
        let bytes = match wiring.rate {
            Some(rate) => u128::from(rate.get()) * u128::from(links) / all,
            None => u128::from(generation.link_rate.get()) * u128::from(links),
        };
        TemplateLink {
            from: TemplateEnd::Plane,
            to: TemplateEnd::Plane,
            class: LinkClass::NvLink,
            rate: Rate::bytes_per_sec(u64::try_from(bytes).unwrap_or(u64::MAX)),
            latency,
            packet_overhead: generation.header * self.mtu.get().div_ceil(generation.payload.get().max(1)),
            parallel: 0,
            width: links,
        }
    }

    fn add_switched(
        &mut self,
        wiring: &NvlinkSpec,
        chip: &str,
        gpu: &Row<Gpu>,
        generation: &Row<Nvlink>,
        domain_nodes: u32,
    ) -> Result<NvlinkKind, NodeError> {
        let spec = self.spec;
        let chip = self.catalogue.nvswitch(chip)?;
        let used: u64 = wiring.links.iter().map(|&n| u64::from(n)).sum();
        if used == 0 {
            return Err(NodeError::NvlinkForm);
        }
        if used > u64::from(gpu.nvlinks) {
            return Err(NodeError::TooManyNvlinks { gpu: 0, model: gpu.name.clone(), used, has: gpu.nvlinks });
        }
        let gpus = spec.gpus.saturating_mul(domain_nodes);
        let boards = if wiring.board_gpus == 0 { 1 } else { gpus.div_ceil(wiring.board_gpus) };
        if boards > 1 && (boards > 16 || wiring.trunk == 0) {
            return Err(NodeError::Boards { boards, gpus, trunk: wiring.trunk });
        }
        let per_board = if boards == 1 { gpus } else { wiring.board_gpus };
        for (i, &each) in wiring.links.iter().enumerate() {
            let trunks = u64::from(wiring.trunk) * u64::from(boards - 1);
            let used = u64::from(each) * u64::from(per_board) + trunks;
            if used > u64::from(chip.ports) {
                let (model, has) = (chip.name.clone(), chip.ports);
                return Err(NodeError::TooManySwitchPorts { chip: i, gpus: per_board, each, trunks, used, model, has });
            }
        }
        let latency = self.catalogue.latency("nvlink-switched")?.latency;
        let link = self.nvlink(wiring, generation, gpu.nvlinks, used as u32, latency);
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for g in 0..spec.gpus {
            up.push(self.links.len() as u32);
            self.links.push(TemplateLink { from: TemplateEnd::Local(g), ..link });
            down.push(self.links.len() as u32);
            self.links.push(TemplateLink { to: TemplateEnd::Local(g), ..link });
        }
        let trunk = if boards > 1 {
            let between = self.catalogue.latency("nvswitch-trunk")?.latency;
            let links = wiring.trunk.saturating_mul(wiring.links.len() as u32);
            let link = self.nvlink(wiring, generation, gpu.nvlinks, links, between);
            Some(Trunk { boards, per_board, link })
        } else {
            None
        };
        let lost = lost(&wiring.lost, spec.gpus);
        Ok(NvlinkKind::Switched {
            chips: wiring.links.len() as u32 * boards,
            width: used as u32,
            up,
            down,
            lost,
            trunk,
        })
    }

    fn add_xgmi(&mut self, xgmi: &XgmiSpec) -> Result<NvlinkKind, NodeError> {
        let latency = self.catalogue.latency("nvlink-direct")?.latency;
        let link = |links: u32| TemplateLink {
            from: TemplateEnd::Plane,
            to: TemplateEnd::Plane,
            class: LinkClass::Xgmi,
            rate: Rate::bytes_per_sec(xgmi.rate.get().saturating_mul(u64::from(links))),
            latency,
            packet_overhead: self.xgmi_overhead(),
            parallel: 0,
            width: links,
        };
        let bundles: Vec<_> = xgmi.bundles(self.spec.gpus).into_iter().map(|pair| (pair, link(pair[2]))).collect();
        if bundles.is_empty() {
            return Err(NodeError::NvlinkForm);
        }
        self.add_direct(&bundles, &[], None)
    }

    /// Direct bundles; `has` is a GPU's model and number of links, where that is known.
    fn add_direct(
        &mut self,
        bundles: &[([u32; 3], TemplateLink)],
        gone: &[u32],
        has: Option<(&str, u32)>,
    ) -> Result<NvlinkKind, NodeError> {
        let n = self.spec.gpus;
        let mut link = vec![u32::MAX; (n * n) as usize];
        let mut used = vec![0u64; n as usize];
        for &(pair, bundle) in bundles {
            let [a, b, links] = pair;
            if a >= n || b >= n || a == b || links == 0 || link[(a * n + b) as usize] != u32::MAX {
                return Err(NodeError::BadPair { pair });
            }
            for end in [a, b] {
                used[end as usize] += u64::from(links);
                if let Some((model, has)) = has
                    && used[end as usize] > u64::from(has)
                {
                    let (model, used) = (model.to_owned(), used[end as usize]);
                    return Err(NodeError::TooManyNvlinks { gpu: end, model, used, has });
                }
            }
            if gone.contains(&a) || gone.contains(&b) {
                continue;
            }
            link[(a * n + b) as usize] = self.links.len() as u32;
            link[(b * n + a) as usize] = self.links.len() as u32 + 1;
            self.join(a, b, bundle);
        }
        Ok(NvlinkKind::Direct { link })
    }
}

fn lost(list: &[u32], gpus: u32) -> Vec<bool> {
    (0..gpus).map(|g| list.contains(&g)).collect()
}
