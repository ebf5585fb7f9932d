//! How many leaves and spines: the arithmetic of ports.

use serde::Serialize;
use sim_core::units::Rate;

use super::{BuildError, FabricKind, FabricSpec};
use crate::catalogue::{Row, Switch};

/// The network's dimensions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FabricPlan {
    /// The arrangement.
    pub kind: FabricKind,
    /// The switch's catalogue name; empty without a network.
    pub switch: String,
    /// Ports of a switch at the links' rate.
    pub radix: u32,
    /// Rate of a NIC's link and of an uplink, one direction.
    #[serde(skip)]
    pub rate: Rate,
    /// Rails: NICs of a node.
    pub rails: u32,
    /// Leaves.
    pub leaves: u32,
    /// Spines.
    pub spines: u32,
    /// Uplinks of a leaf.
    pub uplinks: u32,
    /// NICs on the fullest leaf.
    pub downlinks: u32,
    /// Nodes on the fullest leaf.
    pub nodes_per_leaf: u32,
    /// Rate down over rate up of the fullest leaf; 0 where no leaf has uplinks.
    pub oversubscription: f64,
    /// Rails that share a leaf, more than 1 where there are fewer leaves than rails.
    rails_per_leaf: u32,
    /// Leaves of one rail (of all rails in a leaf-spine fabric).
    leaves_per_group: u32,
}

impl FabricPlan {
    /// No network: one node, or one NVLink domain without NICs.
    pub(super) fn none(spec: &FabricSpec, rails: u32) -> Self {
        Self {
            kind: spec.fabric,
            switch: String::new(),
            radix: 0,
            rate: Rate::MIN,
            rails,
            leaves: 0,
            spines: 0,
            uplinks: 0,
            downlinks: 0,
            nodes_per_leaf: 0,
            oversubscription: 0.0,
            rails_per_leaf: 1,
            leaves_per_group: 0,
        }
    }

    /// Dimensions for `nodes` nodes of `rails` NICs of `rate`.
    pub(super) fn new(spec: &FabricSpec, switch: &Row<Switch>, rails: u32, rate: Rate) -> Result<Self, BuildError> {
        let rate = rate.min(switch.port_rate);
        let radix = switch.ports_at(rate);
        let ratio = ratio(spec)?;
        let leaves_range = |leaves| BuildError::Range {
            what: "leaves",
            got: format!("{leaves}"),
            expected: format!("from 1 to {} (as many as there are NICs)", u64::from(spec.nodes) * u64::from(rails)),
        };
        if let Some(leaves) = spec.leaves
            && (leaves == 0 || u64::from(leaves) > u64::from(spec.nodes) * u64::from(rails))
        {
            return Err(leaves_range(leaves));
        }
        let mut plan = Self { radix, rate, switch: switch.name.clone(), ..Self::none(spec, rails) };
        match spec.fabric {
            FabricKind::SingleSwitch => plan.single(spec)?,
            FabricKind::LeafSpine => {
                let group = Group { nics_per_node: rails, count: 1 };
                plan.leaves_of(spec, group, ratio, spec.leaves)?;
            }
            FabricKind::RailOptimized => {
                let (group, leaves) = match spec.leaves {
                    Some(leaves) if leaves < rails => {
                        if !rails.is_multiple_of(leaves) {
                            return Err(BuildError::LeavesPerRail { leaves, rails });
                        }
                        (Group { nics_per_node: rails / leaves, count: leaves }, Some(1))
                    }
                    Some(leaves) if !leaves.is_multiple_of(rails) => {
                        return Err(BuildError::LeavesPerRail { leaves, rails });
                    }
                    Some(leaves) => (Group { nics_per_node: 1, count: rails }, Some(leaves / rails)),
                    None => (Group { nics_per_node: 1, count: rails }, None),
                };
                plan.leaves_of(spec, group, ratio, leaves)?;
            }
        }
        plan.add_spines(spec, ratio)?;
        Ok(plan)
    }

    fn single(&mut self, spec: &FabricSpec) -> Result<(), BuildError> {
        let needed = u64::from(spec.nodes) * u64::from(self.rails);
        if needed > u64::from(self.radix) {
            return Err(self.too_few_ports(
                "the one switch",
                format!("{} nodes x {} NICs", spec.nodes, self.rails),
                needed,
            ));
        }
        self.leaves = 1;
        self.leaves_per_group = 1;
        self.rails_per_leaf = self.rails;
        self.nodes_per_leaf = spec.nodes;
        self.downlinks = needed as u32;
        Ok(())
    }

    fn too_few_ports(&self, what: &str, have: String, needed: u64) -> BuildError {
        BuildError::SwitchPorts {
            what: what.to_owned(),
            have,
            needed,
            model: self.switch.clone(),
            radix: self.radix,
            rate: self.rate.to_string(),
        }
    }

    /// Spreads the nodes over leaves, each with `group.nics_per_node` NICs of a node.
    fn leaves_of(
        &mut self,
        spec: &FabricSpec,
        group: Group,
        ratio: f64,
        leaves: Option<u32>,
    ) -> Result<(), BuildError> {
        let per_node = group.nics_per_node;
        let all = u64::from(spec.nodes) * u64::from(per_node);
        // A lone leaf has no uplinks, so that all its ports may go down.
        let lone = group.count == 1 && leaves.unwrap_or(1) == 1 && all <= u64::from(self.radix);
        let fits = |nodes: u32| {
            let down = u64::from(nodes) * u64::from(per_node);
            let up = if lone { 0 } else { uplinks_for(down, ratio) };
            down + up <= u64::from(self.radix)
        };
        let most = (1..=spec.nodes.min(self.radix)).take_while(|&n| fits(n)).last();
        let per_leaf = match leaves {
            Some(leaves) => spec.nodes.div_ceil(leaves),
            None => match most {
                Some(most) => spec.nodes.div_ceil(spec.nodes.div_ceil(most)),
                None => 1,
            },
        };
        if !fits(per_leaf) {
            let down = u64::from(per_leaf) * u64::from(per_node);
            let up = uplinks_for(down, ratio);
            let have = format!("{per_leaf} nodes x {per_node} NICs + {up} uplinks at {ratio}:1");
            return Err(self.too_few_ports("a leaf", have, down + up));
        }
        self.leaves_per_group = spec.nodes.div_ceil(per_leaf);
        self.leaves = self.leaves_per_group.saturating_mul(group.count);
        self.rails_per_leaf = per_node;
        self.nodes_per_leaf = per_leaf;
        self.downlinks = per_leaf * per_node;
        Ok(())
    }

    fn add_spines(&mut self, spec: &FabricSpec, ratio: f64) -> Result<(), BuildError> {
        if self.leaves < 2 {
            if let Some(spines @ 1..) = spec.spines {
                let got = spines.to_string();
                return Err(BuildError::Range { what: "spines", got, expected: "a single leaf has none".into() });
            }
            return Ok(());
        }
        let (leaves, radix) = (self.leaves, self.radix);
        let nics = u64::from(spec.nodes) * u64::from(self.rails);
        if leaves > radix {
            let most = u64::from(radix) * u64::from(self.downlinks);
            return Err(BuildError::TooLarge { leaves: leaves.into(), radix, nics, most });
        }
        let uplinks = uplinks_for(u64::from(self.downlinks), ratio) as u32;
        let needed = u64::from(leaves) * u64::from(uplinks);
        let fewest = needed.div_ceil(u64::from(radix)) as u32;
        // Even shares are preferred: as many links from each leaf to each spine.
        let even =
            |s: &u32| uplinks.is_multiple_of(*s) && u64::from(leaves) * u64::from(uplinks / s) <= u64::from(radix);
        let spines = match spec.spines {
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
                possible: f64::from(self.downlinks) / per_leaf as f64,
            });
        }
        if spines > uplinks {
            return Err(BuildError::SpinesUnreached { spines, uplinks });
        }
        self.spines = spines;
        self.uplinks = uplinks;
        self.oversubscription = f64::from(self.downlinks) / f64::from(uplinks);
        Ok(())
    }

    /// The leaf of NIC `rail` of `node`.
    #[must_use]
    pub fn leaf_of(&self, node: u32, rail: u32) -> u32 {
        (rail / self.rails_per_leaf.max(1)) * self.leaves_per_group + node / self.nodes_per_leaf.max(1)
    }

    /// The spine of uplink `uplink` of `leaf`.
    #[must_use]
    pub fn spine_of(&self, leaf: u32, uplink: u32) -> u32 {
        if self.uplinks.is_multiple_of(self.spines) {
            uplink % self.spines
        } else {
            ((u64::from(leaf) * u64::from(self.uplinks) + u64::from(uplink)) % u64::from(self.spines)) as u32
        }
    }
}

#[derive(Clone, Copy)]
struct Group {
    /// NICs of one node on one leaf.
    nics_per_node: u32,
    /// How many such groups of leaves.
    count: u32,
}

fn ratio(spec: &FabricSpec) -> Result<f64, BuildError> {
    let ratio = spec.oversubscription.unwrap_or(1.0);
    if ratio.is_finite() && (0.01..=1000.0).contains(&ratio) {
        return Ok(ratio);
    }
    let expected = "a ratio from 0.01 to 1000; 1 is non-blocking, 2 is 2:1".into();
    Err(BuildError::Range { what: "oversubscription", got: ratio.to_string(), expected })
}

/// Uplinks that give the ratio, rounded to the nearest, at least one.
fn uplinks_for(down: u64, ratio: f64) -> u64 {
    ((down as f64 / ratio).round() as u64).max(1)
}
