//! Clos networks of one, two or three tiers: how many leaves, spines, pods and cores, and how they are cabled.
//!
//! A *part* is a network of its own: a plane, or a rail of a rail-only fabric. A *block* is the leaves that a run of
//! nodes shares: one leaf, or one a rail. A *pod* is the blocks that share spines. With R ports a switch and 1:1, two
//! tiers hold R²/2 NICs and three R³/4.

use core::ops::Range;

use super::BuildError;
use super::blueprint::{Blueprint, Budget, Cable, Run, Site};
use super::plan::{FabricPlan, Tier};
use super::routing::Step;
use super::spec::MOST_TIERS;
use crate::device::DeviceKind;

/// Which NICs and ports a part serves, and how they share leaves.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The plane that its switches count to.
    pub(super) plane: u32,
    pub(super) nics: Range<u32>,
    pub(super) ports: Range<u32>,
}

/// How a block's leaves share the NICs of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrangement {
    /// Leaves of a block.
    pub(super) leaves: u32,
    /// NIC ports of one node on one leaf.
    pub(super) per_node: u32,
    /// Leaves in all, per part, where they were asked for.
    pub(super) asked: Option<u32>,
}

/// Draws equal parts next to each other.
pub(super) fn draw(site: &Site<'_>, parts: &[Part], arrangement: Arrangement) -> Result<Blueprint, BuildError> {
    let network = Network::new(site, parts.len() as u32, arrangement)?;
    let planes = parts.iter().map(|p| p.plane).max().unwrap_or(0) + 1;
    let mut blueprint = Blueprint {
        plan: network.plan(site, planes),
        switches: Vec::new(),
        leaf_of: vec![0; site.nic_ports() as usize],
        cables: Vec::new(),
    };
    let count = parts.len() as u32;
    for (role, number) in
        [(DeviceKind::Leaf, network.leaves()), (DeviceKind::Spine, network.spines()), (DeviceKind::Core, network.cores)]
    {
        for part in parts {
            for i in 0..number {
                blueprint.add(role, network.pod_of(role, i), part.plane);
            }
        }
    }
    for (i, part) in (0..).zip(parts) {
        network.attach(site, part, i * network.leaves(), &mut blueprint.leaf_of);
    }
    let spines_from = count * network.leaves();
    let cores_from = spines_from + count * network.spines();
    for i in 0..count {
        network.cable_leaves(i * network.leaves(), spines_from + i * network.spines(), &mut blueprint.cables);
    }
    for i in 0..count {
        let spine = spines_from + i * network.spines();
        network.cable_spines(spine, cores_from + i * network.cores, &mut blueprint.cables);
    }
    Ok(blueprint)
}

/// The dimensions of a part.
struct Network {
    arrangement: Arrangement,
    leaf: Budget,
    spine: Budget,
    core: Budget,
    nodes: u32,
    /// Nodes of a block, of a full pod.
    per_leaf: u32,
    pod_nodes: u32,
    /// Uplinks of a leaf.
    uplinks: u32,
    pods: Vec<Pod>,
    cores: u32,
}

#[derive(Clone, Copy, Debug)]
struct Pod {
    blocks: u32,
    spines: u32,
    /// Links down and up of its fullest spine.
    down: u32,
    up: u32,
    first_leaf: u32,
    first_spine: u32,
}

impl Network {
    fn new(site: &Site<'_>, parts: u32, arrangement: Arrangement) -> Result<Self, BuildError> {
        let spec = site.spec;
        if let Some(tiers) = spec.tiers
            && !(1..=MOST_TIERS).contains(&tiers)
        {
            let expected = format!("from 1 to {MOST_TIERS}");
            return Err(BuildError::Range { what: "tiers", got: tiers.to_string(), expected });
        }
        let mut network = Self {
            arrangement,
            leaf: site.budget(0, Run::Nic, Run::Uplink),
            spine: site.budget(1, Run::Uplink, Run::Core),
            core: site.budget(2, Run::Core, Run::Core),
            nodes: site.nodes(),
            per_leaf: 1,
            pod_nodes: site.nodes(),
            uplinks: 0,
            pods: Vec::new(),
            cores: 0,
        };
        let ratios = [ratio(spec.oversubscription)?, ratio(spec.core_oversubscription)?];
        let pod_nodes = asked_pod(site)?;
        let wants_cores = spec.cores.is_some() || pod_nodes.is_some() || spec.tiers == Some(3);
        network.fill_leaves(ratios[0], pod_nodes, wants_cores)?;
        let blocks = network.nodes.div_ceil(network.per_leaf);
        if blocks * arrangement.leaves < 2 && !wants_cores {
            network.lone_leaf(site)?;
            return Ok(network);
        }
        if spec.tiers == Some(1) {
            let leaves = blocks * arrangement.leaves;
            let expected = format!("{leaves} leaves need spines to join them");
            return Err(BuildError::Range { what: "tiers", got: "1".into(), expected });
        }
        let down = u64::from(network.per_leaf * arrangement.per_node);
        network.uplinks = network.leaf.uplinks(down, ratios[0]) as u32;
        let two = site.budget(1, Run::Uplink, Run::Uplink);
        let leaves = blocks * arrangement.leaves;
        if !wants_cores && (leaves <= two.radix || spec.tiers == Some(2)) {
            network.spine = two;
            network.two_tiers(site, parts, blocks, ratios[0])?;
        } else {
            network.three_tiers(site, parts, blocks, pod_nodes, ratios)?;
        }
        Ok(network)
    }

    /// Spreads the nodes over leaves: as few as hold them, evenly filled.
    fn fill_leaves(&mut self, ratio: f64, pod_nodes: Option<u32>, joined: bool) -> Result<(), BuildError> {
        let per_node = self.arrangement.per_node;
        // Leaves are filled pod by pod.
        let nodes = pod_nodes.unwrap_or(self.nodes);
        let pods = self.nodes.div_ceil(nodes);
        let asked = self.arrangement.asked.map(|leaves| (leaves / self.arrangement.leaves).div_ceil(pods).max(1));
        // A lone leaf has no uplinks, so that all its ports may go down.
        let all = u64::from(nodes) * u64::from(per_node);
        let lone = self.arrangement.leaves == 1 && !joined && asked.unwrap_or(1) == 1 && self.leaf.fits(all, 0);
        let up = |nodes: u32| {
            let down = u64::from(nodes) * u64::from(per_node);
            (down, if lone { 0 } else { self.leaf.uplinks(down, ratio) })
        };
        let fits = |nodes: &u32| {
            let (down, up) = up(*nodes);
            self.leaf.fits(down, up)
        };
        let per_leaf = match asked {
            Some(blocks) => nodes.div_ceil(blocks),
            None => match (1..=nodes.min(self.leaf.radix)).take_while(fits).last() {
                Some(most) => nodes.div_ceil(nodes.div_ceil(most)),
                None => 1,
            },
        };
        if !fits(&per_leaf) {
            let (down, up) = up(per_leaf);
            let have = format!("{per_leaf} nodes x {per_node} NICs + {up} uplinks at {ratio}:1");
            return Err(self.leaf.too_few("a leaf", have, down, up));
        }
        self.per_leaf = per_leaf;
        Ok(())
    }

    fn lone_leaf(&mut self, site: &Site<'_>) -> Result<(), BuildError> {
        if let Some(spines @ 1..) = site.spec.spines {
            let got = spines.to_string();
            return Err(BuildError::Range { what: "spines", got, expected: "a single leaf has none".into() });
        }
        let first = Pod { blocks: 1, spines: 0, down: 0, up: 0, first_leaf: 0, first_spine: 0 };
        self.pods.push(first);
        Ok(())
    }

    fn two_tiers(&mut self, site: &Site<'_>, parts: u32, blocks: u32, ratio: f64) -> Result<(), BuildError> {
        let (leaves, radix) = (blocks * self.arrangement.leaves, self.spine.radix);
        let down = self.per_leaf * self.arrangement.per_node;
        if leaves > radix {
            let most = u64::from(radix) * u64::from(down);
            let nics = site.nic_ports() / u64::from(parts);
            return Err(BuildError::TooLarge { leaves: leaves.into(), radix, nics, most });
        }
        let uplinks = self.uplinks;
        let needed = u64::from(leaves) * u64::from(uplinks);
        let fewest = needed.div_ceil(u64::from(radix)) as u32;
        // Even shares are preferred: as many links from each leaf to each spine.
        let even =
            |s: &u32| uplinks.is_multiple_of(*s) && u64::from(leaves) * u64::from(uplinks / s) <= u64::from(radix);
        let spines = match share(site.spec.spines, "spines", parts)? {
            Some(0) => {
                let expected = format!("{leaves} leaves need at least one");
                return Err(BuildError::Range { what: "spines", got: "0".into(), expected });
            }
            Some(spines) => spines,
            None => (fewest..=uplinks).find(even).unwrap_or(fewest),
        };
        if u64::from(spines) * u64::from(radix) < needed {
            let per_leaf = u64::from(spines) * u64::from(radix) / u64::from(leaves);
            return Err(BuildError::SpinePorts {
                leaves,
                uplinks,
                needed,
                spines,
                radix,
                enough: (fewest..=uplinks).find(even),
                possible: self.leaf.oversubscription(down, 1) / per_leaf as f64,
            });
        }
        if spines > uplinks {
            return Err(BuildError::SpinesUnreached { spines, uplinks });
        }
        debug_assert!(ratio > 0.0);
        let down = needed.div_ceil(u64::from(spines)) as u32;
        self.pods.push(Pod { blocks, spines, down, up: 0, first_leaf: 0, first_spine: 0 });
        Ok(())
    }

    fn three_tiers(
        &mut self,
        site: &Site<'_>,
        parts: u32,
        blocks: u32,
        pod_nodes: Option<u32>,
        ratios: [f64; 2],
    ) -> Result<(), BuildError> {
        let leaves = self.arrangement.leaves;
        // Most links down of a spine that leave room for those up.
        let fits = |down: &u32| self.spine.fits((*down).into(), self.spine.uplinks((*down).into(), ratios[1]));
        let room = (1..=self.spine.radix).take_while(fits).last().unwrap_or(0);
        let most_blocks = room.min(self.spine.radix) / leaves;
        let blocks_of_pod = match pod_nodes {
            Some(nodes) => nodes.div_ceil(self.per_leaf),
            None => blocks.div_ceil(blocks.div_ceil(most_blocks.max(1))),
        };
        if blocks_of_pod > most_blocks {
            return Err(BuildError::PodPorts {
                leaves: u64::from(blocks_of_pod) * u64::from(leaves),
                down: room,
                model: self.spine.model.clone(),
                radix: self.spine.radix,
                ratio: ratios[1],
                most: most_blocks * self.per_leaf,
            });
        }
        self.pod_nodes = pod_nodes.unwrap_or_else(|| blocks_of_pod.saturating_mul(self.per_leaf)).min(self.nodes);
        let pods = self.nodes.div_ceil(self.pod_nodes);
        if pods > self.core.radix {
            let most = u64::from(self.core.radix) * u64::from(self.pod_nodes);
            return Err(BuildError::TooManyPods { pods, radix: self.core.radix, nodes: self.nodes, most });
        }
        let asked = share(site.spec.spines, "spines", parts.saturating_mul(pods))?;
        let (mut first_leaf, mut first_spine) = (0, 0);
        for pod in 0..pods {
            let nodes = self.pod_nodes.min(self.nodes - pod * self.pod_nodes);
            let blocks = nodes.div_ceil(self.per_leaf);
            let mut pod = self.pod(blocks, asked, room, ratios[1])?;
            (pod.first_leaf, pod.first_spine) = (first_leaf, first_spine);
            first_leaf += blocks * leaves;
            first_spine += pod.spines;
            self.pods.push(pod);
        }
        self.add_cores(share(site.spec.cores, "cores", parts)?)
    }

    /// A pod of so many blocks, with its spines.
    fn pod(&self, blocks: u32, asked: Option<u32>, room: u32, ratio: f64) -> Result<Pod, BuildError> {
        let (leaves, uplinks) = (blocks * self.arrangement.leaves, self.uplinks);
        let needed = u64::from(leaves) * u64::from(uplinks);
        let fewest = needed.div_ceil(u64::from(room)) as u32;
        let even = |s: &u32| uplinks.is_multiple_of(*s) && u64::from(leaves) * u64::from(uplinks / s) <= room.into();
        let spines = match asked {
            Some(0) => {
                let expected = format!("{leaves} leaves a pod need at least one a pod");
                return Err(BuildError::Range { what: "spines", got: "0".into(), expected });
            }
            Some(spines) => spines,
            None => (fewest..=uplinks).find(even).unwrap_or(fewest),
        };
        if spines > uplinks {
            return Err(BuildError::SpinesUnreached { spines, uplinks });
        }
        let down = needed.div_ceil(u64::from(spines));
        let up = self.spine.uplinks(down, ratio);
        if !self.spine.fits(down, up) {
            let have = format!("{leaves} leaves x {uplinks} uplinks / {spines} spines + {up} uplinks at {ratio}:1");
            return Err(self.spine.too_few("a spine", have, down, up));
        }
        Ok(Pod { blocks, spines, down: down as u32, up: up as u32, first_leaf: 0, first_spine: 0 })
    }

    fn add_cores(&mut self, asked: Option<u32>) -> Result<(), BuildError> {
        let links: u64 = self.pods.iter().map(|p| u64::from(p.spines) * u64::from(p.up)).sum();
        let fewest = links.div_ceil(u64::from(self.core.radix)) as u32;
        let per_pod = self.pods.iter().map(|p| p.spines * p.up).max().unwrap_or(0);
        self.cores = asked.unwrap_or(fewest);
        if u64::from(self.cores) * u64::from(self.core.radix) < links {
            return Err(BuildError::CorePorts {
                pods: self.pods.len() as u32,
                links,
                cores: self.cores,
                radix: self.core.radix,
                enough: fewest,
            });
        }
        if self.cores > per_pod {
            return Err(BuildError::CoresUnreached { cores: self.cores, uplinks: per_pod });
        }
        Ok(())
    }

    fn leaves(&self) -> u32 {
        self.pods.iter().map(|p| p.blocks).sum::<u32>() * self.arrangement.leaves
    }

    fn spines(&self) -> u32 {
        self.pods.iter().map(|p| p.spines).sum()
    }

    /// The pod of a switch of the part, by its number within its role.
    fn pod_of(&self, role: DeviceKind, number: u32) -> u32 {
        let first = |p: &Pod| if role == DeviceKind::Leaf { p.first_leaf } else { p.first_spine };
        if role == DeviceKind::Core {
            return 0;
        }
        self.pods.partition_point(|p| first(p) <= number).saturating_sub(1) as u32
    }

    /// Which leaf each NIC port of the part goes to; its leaves are numbered from `base`.
    fn attach(&self, site: &Site<'_>, part: &Part, base: u32, leaf_of: &mut [u32]) {
        let sides = part.ports.len() as u32;
        for node in 0..self.nodes {
            let (pod, inside) = (&self.pods[(node / self.pod_nodes) as usize], node % self.pod_nodes);
            for nic in part.nics.clone() {
                for port in part.ports.clone() {
                    // Several ports of a NIC in one part go to leaves beside each other.
                    let rail = (nic - part.nics.start) / self.arrangement.per_node;
                    let within = rail * sides + (port - part.ports.start);
                    let leaf = base + pod.first_leaf + within * pod.blocks + inside / self.per_leaf;
                    let at = (u64::from(node) * u64::from(site.rails) + u64::from(nic)) * u64::from(site.ports);
                    leaf_of[(at + u64::from(port)) as usize] = leaf;
                }
            }
        }
    }

    fn cable_leaves(&self, leaf_from: u32, spine_from: u32, cables: &mut Vec<Cable>) {
        for pod in self.pods.iter().filter(|p| p.spines > 0) {
            for leaf in 0..pod.blocks * self.arrangement.leaves {
                for uplink in 0..self.uplinks {
                    let spine = dealt(leaf, uplink, self.uplinks, pod.spines);
                    let (from, to) = (leaf_from + pod.first_leaf + leaf, spine_from + pod.first_spine + spine);
                    cables.push(Cable { from, to, step: Step::Up });
                }
            }
        }
    }

    /// Uplinks of all spines are dealt to the cores in turn, so that each pod reaches each core and none gets more than
    /// one link more than another.
    fn cable_spines(&self, spine_from: u32, core_from: u32, cables: &mut Vec<Cable>) {
        if self.cores == 0 {
            return;
        }
        let mut link = 0u64;
        for pod in &self.pods {
            for spine in 0..pod.spines {
                for _ in 0..pod.up {
                    let core = (link % u64::from(self.cores)) as u32;
                    let (from, to) = (spine_from + pod.first_spine + spine, core_from + core);
                    cables.push(Cable { from, to, step: Step::Up });
                    link += 1;
                }
            }
        }
    }

    fn plan(&self, site: &Site<'_>, planes: u32) -> FabricPlan {
        let spec = site.spec;
        let down = self.per_leaf.min(self.pod_nodes) * self.arrangement.per_node;
        let first = self.pods[0];
        let joined = first.spines > 0;
        let uplinks = if joined { self.uplinks } else { 0 };
        let core_links: u64 = self.pods.iter().map(|p| u64::from(p.spines) * u64::from(p.up)).sum();
        let leaf_ratio = self.leaf.oversubscription(down, uplinks);
        let core_ratio = self.spine.oversubscription(first.down, first.up);
        let some = |ratio: f64| (ratio > 0.0).then_some(ratio);
        let tier = |i: usize, role, budget: &Budget, down, up, ratio| Tier {
            role,
            switch: site.models[i].name.clone(),
            switches: 0,
            working: 0,
            radix: budget.radix,
            down,
            up,
            oversubscription: some(ratio),
        };
        let mut tiers = vec![tier(0, DeviceKind::Leaf, &self.leaf, down, uplinks, leaf_ratio)];
        if joined {
            tiers.push(tier(1, DeviceKind::Spine, &self.spine, first.down, first.up, core_ratio));
        }
        if self.cores > 0 {
            let down = core_links.div_ceil(u64::from(self.cores)) as u32;
            tiers.push(tier(2, DeviceKind::Core, &self.core, down, 0, 0.0));
        }
        FabricPlan {
            switch: site.models[0].name.clone(),
            radix: self.leaf.radix,
            rate: site.rate(Run::Nic),
            uplink_rate: site.rate(Run::Uplink),
            core_rate: site.rate(Run::Core),
            ports: site.ports,
            planes,
            pods: self.pods.len() as u32,
            pod_nodes: self.pod_nodes,
            uplinks,
            downlinks: down,
            spine_uplinks: first.up,
            spine_downlinks: first.down,
            nodes_per_leaf: self.per_leaf.min(self.pod_nodes),
            oversubscription: leaf_ratio,
            core_oversubscription: core_ratio,
            rails_per_leaf: self.arrangement.per_node,
            leaves_per_group: self.pods.iter().map(|p| p.blocks).sum(),
            tier: tiers,
            ..FabricPlan::none(spec, site.rails)
        }
    }
}

/// The spine of an uplink: as many from each leaf to each spine, or dealt on from leaf to leaf where that isn't whole.
fn dealt(leaf: u32, uplink: u32, uplinks: u32, spines: u32) -> u32 {
    if uplinks.is_multiple_of(spines) {
        uplink % spines
    } else {
        ((u64::from(leaf) * u64::from(uplinks) + u64::from(uplink)) % u64::from(spines)) as u32
    }
}

/// What one of `parts` gets of a total that was asked for.
fn share(total: Option<u32>, what: &'static str, parts: u32) -> Result<Option<u32>, BuildError> {
    match total {
        Some(total) if !total.is_multiple_of(parts) => {
            let expected = format!("a multiple of {parts}, as many in each pod of each plane");
            Err(BuildError::Range { what, got: total.to_string(), expected })
        }
        total => Ok(total.map(|t| t / parts)),
    }
}

/// Nodes of a pod, if pods were asked for.
fn asked_pod(site: &Site<'_>) -> Result<Option<u32>, BuildError> {
    let (spec, nodes) = (site.spec, site.nodes());
    let expected = format!("from 1 to {nodes}, the number of nodes");
    match (spec.pods, spec.pod_nodes) {
        (None, None) => Ok(None),
        (Some(pods), _) if pods == 0 || pods > nodes => {
            Err(BuildError::Range { what: "pods", got: pods.to_string(), expected })
        }
        (_, Some(of)) if of == 0 || of > nodes => {
            Err(BuildError::Range { what: "pod_nodes", got: of.to_string(), expected })
        }
        (Some(pods), Some(of)) if nodes.div_ceil(of) != pods => {
            let expected = format!("{nodes} nodes in pods of {of} make {}", nodes.div_ceil(of));
            Err(BuildError::Range { what: "pods", got: pods.to_string(), expected })
        }
        (_, Some(of)) => Ok(Some(of)),
        (Some(pods), None) => {
            let of = nodes.div_ceil(pods);
            if nodes.div_ceil(of) == pods {
                return Ok(Some(of));
            }
            let expected = format!("{nodes} nodes in pods of {of} make {}", nodes.div_ceil(of));
            Err(BuildError::Range { what: "pods", got: pods.to_string(), expected })
        }
    }
}

fn ratio(asked: Option<f64>) -> Result<f64, BuildError> {
    let ratio = asked.unwrap_or(1.0);
    if ratio.is_finite() && (0.01..=1000.0).contains(&ratio) {
        return Ok(ratio);
    }
    let expected = "a ratio from 0.01 to 1000; 1 is non-blocking, 2 is 2:1".into();
    Err(BuildError::Range { what: "oversubscription", got: ratio.to_string(), expected })
}
