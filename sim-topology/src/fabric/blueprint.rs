//! What a kind of fabric draws and the common assembly builds: switches, where each NIC port goes, cables between switches.

use sim_core::units::Rate;

use super::routing::Step;
use super::{BuildError, FabricPlan, FabricSpec};
use crate::catalogue::{Row, Switch};
use crate::device::DeviceKind;

/// The most ports of a NIC that a fabric tells apart.
pub(super) const MOST_PORTS: u32 = 16;

/// A switch of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchPlace {
    /// Leaf, spine or core.
    pub role: DeviceKind,
    /// The pod (in a dragonfly the group) that it is in; 0 for cores.
    pub pod: u32,
    /// The plane that it is in: planes meet in the NICs only.
    pub plane: u32,
}

impl SwitchPlace {
    /// 0 for a leaf, 1 for a spine, 2 for a core.
    #[must_use]
    pub const fn tier(&self) -> usize {
        tier_of(self.role)
    }
}

/// 0 for a leaf, 1 for a spine, 2 for a core.
pub(super) const fn tier_of(role: DeviceKind) -> usize {
    match role {
        DeviceKind::Core => 2,
        DeviceKind::Spine => 1,
        _ => 0,
    }
}

/// A cable between two switches, by their numbers in the blueprint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cable {
    pub(super) from: u32,
    pub(super) to: u32,
    /// What a packet does that takes it from `from` to `to`.
    pub(super) step: Step,
}

/// A network as drawn.
#[derive(Clone, Debug)]
pub(super) struct Blueprint {
    pub(super) plan: FabricPlan,
    /// Leaves, then spines, then cores.
    pub(super) switches: Vec<SwitchPlace>,
    /// The leaf of each NIC port: `[(node * NICs + NIC) * ports + port]`.
    pub(super) leaf_of: Vec<u32>,
    /// Those of one `from` one after the other.
    pub(super) cables: Vec<Cable>,
}

impl Blueprint {
    /// No network: one node, or one NVLink domain without NICs.
    pub(super) fn none(spec: &FabricSpec, rails: u32) -> Self {
        let plan = FabricPlan::none(spec, rails);
        Self { plan, switches: Vec::new(), leaf_of: Vec::new(), cables: Vec::new() }
    }

    pub(super) fn add(&mut self, role: DeviceKind, pod: u32, plane: u32) {
        self.switches.push(SwitchPlace { role, pod, plane });
    }
}

/// Links of one sort: to NICs, between leaves and spines, between spines and cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    Nic,
    Uplink,
    Core,
}

/// What there is to draw with.
#[derive(Clone, Debug)]
pub(super) struct Site<'a> {
    pub(super) spec: &'a FabricSpec,
    /// NICs of a node.
    pub(super) rails: u32,
    /// Ports of a NIC, each cabled by itself.
    pub(super) ports: u32,
    /// Switch models of leaves, spines and cores.
    pub(super) models: [&'a Row<Switch>; 3],
    /// Rates of a NIC port, of an uplink and of a link to a core, one direction.
    pub(super) rates: [Rate; 3],
}

impl Site<'_> {
    pub(super) fn nodes(&self) -> u32 {
        self.spec.nodes
    }

    pub(super) fn nic_ports(&self) -> u64 {
        u64::from(self.nodes()) * u64::from(self.rails) * u64::from(self.ports)
    }

    pub(super) fn rate(&self, run: Run) -> Rate {
        self.rates[run as usize]
    }

    /// What a switch of `tier` has and what a link takes of it, with `down` and `up` the two sorts of its links.
    pub(super) fn budget(&self, tier: usize, down: Run, up: Run) -> Budget {
        let (model, down, up) = (self.models[tier], self.rate(down), self.rate(up));
        let least = down.min(up);
        let radix = model.ports_at(least);
        let weight = |rate: Rate| (radix / model.ports_at(rate).max(1)).max(1);
        Budget {
            model: model.name.clone(),
            radix,
            rate: least,
            down: weight(down),
            up: weight(up),
            ratio: down.as_gbyte() / up.as_gbyte(),
        }
    }
}

/// The ports of a switch, counted at the rate of its slowest links; a faster link takes several.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub(super) model: String,
    pub(super) radix: u32,
    pub(super) rate: Rate,
    /// Ports that a link down takes.
    pub(super) down: u32,
    /// Ports that a link up takes.
    pub(super) up: u32,
    /// Rate of a link down over that of a link up.
    pub(super) ratio: f64,
}

impl Budget {
    /// Links up that give the oversubscription for `down` links down, rounded to the nearest, at least one.
    pub(super) fn uplinks(&self, down: u64, oversubscription: f64) -> u64 {
        ((down as f64 * self.ratio / oversubscription).round() as u64).max(1)
    }

    /// Ports taken by so many links.
    pub(super) fn used(&self, down: u64, up: u64) -> u64 {
        down * u64::from(self.down) + up * u64::from(self.up)
    }

    pub(super) fn fits(&self, down: u64, up: u64) -> bool {
        self.used(down, up) <= u64::from(self.radix)
    }

    /// Rate down over rate up.
    pub(super) fn oversubscription(&self, down: u32, up: u32) -> f64 {
        if up == 0 { 0.0 } else { f64::from(down) * self.ratio / f64::from(up) }
    }

    /// The inequality that does not hold.
    pub(super) fn too_few(&self, what: &str, have: String, down: u64, up: u64) -> BuildError {
        let weights = match (self.down, self.up) {
            (1, 1) => String::new(),
            (d, 1) => format!(" (a downlink takes {d})"),
            (_, u) => format!(" (an uplink takes {u})"),
        };
        BuildError::SwitchPorts {
            what: what.to_owned(),
            have: have + &weights,
            needed: self.used(down, up),
            model: self.model.clone(),
            radix: self.radix,
            rate: self.rate.to_string(),
        }
    }
}
