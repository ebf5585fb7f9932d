//! The dimensions of a network, as reports show them.

use serde::Serialize;
use sim_core::units::Rate;

use super::blueprint::Blueprint;
use super::{FabricKind, FabricSpec};
use crate::device::DeviceKind;

/// The network's dimensions; counts are totals over pods and planes unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FabricPlan {
    /// The arrangement.
    pub kind: FabricKind,
    /// The leaves' catalogue name; empty without a network.
    pub switch: String,
    /// Ports of a leaf at the rate of its slowest links.
    pub radix: u32,
    /// Rate of a NIC port's link, one direction.
    #[serde(skip)]
    pub rate: Rate,
    /// Rate of a link between a leaf and a spine (between routers, in a dragonfly), one direction.
    #[serde(skip)]
    pub uplink_rate: Rate,
    /// Rate of a link between a spine and a core, one direction.
    #[serde(skip)]
    pub core_rate: Rate,
    /// Rails: NICs of a node.
    pub rails: u32,
    /// Ports of a NIC, each with a cable of its own.
    pub ports: u32,
    /// Tiers of switches.
    pub tiers: u32,
    /// Planes: networks that meet in the NICs only.
    pub planes: u32,
    /// Pods: leaves that share spines, per plane (and per rail, in a rail-only fabric); groups of a dragonfly.
    pub pods: u32,
    /// Nodes of a full pod.
    pub pod_nodes: u32,
    /// Leaves.
    pub leaves: u32,
    /// Spines.
    pub spines: u32,
    /// Cores.
    pub cores: u32,
    /// Uplinks of a leaf.
    pub uplinks: u32,
    /// NIC ports on the fullest leaf.
    pub downlinks: u32,
    /// Uplinks of a spine, to cores.
    pub spine_uplinks: u32,
    /// Downlinks of the fullest spine.
    pub spine_downlinks: u32,
    /// Nodes on the fullest leaf.
    pub nodes_per_leaf: u32,
    /// Rate down over rate up of the fullest leaf; 0 where no leaf has uplinks.
    pub oversubscription: f64,
    /// Rate down over rate up of the fullest spine; 0 without cores.
    pub core_oversubscription: f64,
    /// Rails that share a leaf, more than 1 where there are fewer leaves than rails.
    pub rails_per_leaf: u32,
    /// Leaves of one rail (of all rails in a leaf-spine fabric), in one plane.
    pub leaves_per_group: u32,
    /// Cables by what they join.
    pub cables: Cables,
    /// The tiers from the leaves up.
    pub tier: Vec<Tier>,
}

/// Cables, each of one link in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cables {
    /// NIC port to leaf.
    pub nic_leaf: u64,
    /// Leaf to spine.
    pub leaf_spine: u64,
    /// Spine to core.
    pub spine_core: u64,
    /// Router to router of a group, in a dragonfly.
    pub local: u64,
    /// Group to group, in a dragonfly.
    pub global: u64,
}

/// The switches of a tier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tier {
    /// Leaf, spine or core.
    pub role: DeviceKind,
    /// The model's catalogue name.
    pub switch: String,
    /// How many.
    pub switches: u32,
    /// How many of them work.
    pub working: u32,
    /// Ports of one at the rate of its slowest links.
    pub radix: u32,
    /// Links down of the fullest.
    pub down: u32,
    /// Links up of the fullest.
    pub up: u32,
    /// Rate down over rate up of the fullest; absent without uplinks.
    pub oversubscription: Option<f64>,
}

impl FabricPlan {
    /// No network: one node, or one NVLink domain without NICs.
    pub(super) fn none(spec: &FabricSpec, rails: u32) -> Self {
        Self {
            kind: spec.fabric,
            switch: String::new(),
            radix: 0,
            rate: Rate::MIN,
            uplink_rate: Rate::MIN,
            core_rate: Rate::MIN,
            rails,
            ports: 1,
            tiers: 0,
            planes: 0,
            pods: 0,
            pod_nodes: 0,
            leaves: 0,
            spines: 0,
            cores: 0,
            uplinks: 0,
            downlinks: 0,
            spine_uplinks: 0,
            spine_downlinks: 0,
            nodes_per_leaf: 0,
            oversubscription: 0.0,
            core_oversubscription: 0.0,
            rails_per_leaf: 1,
            leaves_per_group: 0,
            cables: Cables::default(),
            tier: Vec::new(),
        }
    }

    /// Rate of all ports of a NIC together, one direction.
    #[must_use]
    pub fn nic_rate(&self) -> Rate {
        Rate::bytes_per_sec(self.rate.get().saturating_mul(u64::from(self.ports.max(1))))
    }
}

impl Blueprint {
    /// Counts what was drawn into the plan: switches and cables by role.
    pub(super) fn count(&mut self) {
        let role = |switch: u32| self.switches[switch as usize].role;
        let mut cables = Cables { nic_leaf: self.leaf_of.len() as u64, ..Cables::default() };
        for cable in &self.cables {
            let (from, to) = (&self.switches[cable.from as usize], &self.switches[cable.to as usize]);
            *match (role(cable.from), role(cable.to)) {
                (DeviceKind::Leaf, DeviceKind::Spine) => &mut cables.leaf_spine,
                (DeviceKind::Spine, DeviceKind::Core) => &mut cables.spine_core,
                _ if from.pod == to.pod => &mut cables.local,
                _ => &mut cables.global,
            } += 1;
        }
        let count = |kind: DeviceKind| self.switches.iter().filter(|s| s.role == kind).count() as u32;
        let [leaves, spines, cores] = [DeviceKind::Leaf, DeviceKind::Spine, DeviceKind::Core].map(count);
        let plan = &mut self.plan;
        (plan.cables, plan.leaves, plan.spines, plan.cores) = (cables, leaves, spines, cores);
        for tier in &mut plan.tier {
            tier.switches = match tier.role {
                DeviceKind::Core => plan.cores,
                DeviceKind::Spine => plan.spines,
                _ => plan.leaves,
            };
            tier.working = tier.switches;
        }
        plan.tiers = 1 + u32::from(plan.spines > 0) + u32::from(plan.cores > 0);
    }
}
