//! The dragonfly: groups of `a` routers joined all to all, each router with `p` NIC ports and `h` links to other groups.
//!
//! At most `a·h + 1` groups, each pair joined by at least one link; balanced where a = 2p = 2h. Routes are minimal: at
//! most one link inside the source's group, one between groups, one inside the destination's.

use super::super::BuildError;
use super::super::blueprint::{Blueprint, Cable, Run, Site};
use super::super::plan::{FabricPlan, Tier};
use super::super::routing::Step;
use super::super::spec::DragonflySpec;
use crate::device::DeviceKind;

pub(super) fn draw(site: &Site<'_>) -> Result<Blueprint, BuildError> {
    let (shape, groups) = shape(site)?;
    let DragonflySpec { p, a, h, .. } = shape;
    let mut blueprint = Blueprint {
        plan: plan(site, shape, groups),
        switches: Vec::new(),
        leaf_of: (0..site.nic_ports()).map(|port| (port / u64::from(p)) as u32).collect(),
        cables: Vec::new(),
    };
    for router in 0..groups * a {
        blueprint.add(DeviceKind::Leaf, router / a, 0);
    }
    // As many links between each pair of groups as go evenly.
    let each = (a * h).checked_div(groups - 1).unwrap_or(0);
    for router in 0..groups * a {
        let (group, place) = (router / a, router % a);
        for other in place + 1..a {
            blueprint.cables.push(Cable { from: router, to: group * a + other, step: Step::Local });
        }
        for slot in place * h..(place + 1) * h {
            let Some((round, peer)) = slot.checked_div(groups - 1).map(|round| (round, slot % (groups - 1))) else {
                break;
            };
            let to_group = (group + peer + 1) % groups;
            if round >= each || to_group < group {
                continue;
            }
            // The other group sees this one at the opposite distance.
            let back = round * (groups - 1) + (groups - 2 - peer);
            blueprint.cables.push(Cable { from: router, to: to_group * a + back / h, step: Step::Global });
        }
    }
    Ok(blueprint)
}

/// Ports of a router.
fn ports(shape: DragonflySpec) -> u64 {
    u64::from(shape.p) + u64::from(shape.a) - 1 + u64::from(shape.h)
}

fn shape(site: &Site<'_>) -> Result<(DragonflySpec, u32), BuildError> {
    let needed = site.nic_ports();
    let budget = site.budget(0, Run::Nic, Run::Uplink);
    let fits = |s: DragonflySpec| budget.fits(s.p.into(), ports(s) - u64::from(s.p));
    let most_groups = |s: DragonflySpec| u64::from(s.a) * u64::from(s.h) + 1;
    let groups_for = |s: DragonflySpec| needed.div_ceil(u64::from(s.p) * u64::from(s.a));
    let balanced = |p: u32| DragonflySpec { p, a: 2 * p, h: p, groups: None };
    let shape = match site.spec.dragonfly {
        Some(shape) => shape,
        None => (1..=256).map(balanced).find(|&s| groups_for(s) <= most_groups(s)).unwrap_or(balanced(256)),
    };
    for (what, value) in [("dragonfly.p", shape.p), ("dragonfly.a", shape.a), ("dragonfly.h", shape.h)] {
        if !(1..=1024).contains(&value) {
            return Err(BuildError::Range { what, got: value.to_string(), expected: "from 1 to 1024".into() });
        }
    }
    if !fits(shape) {
        let DragonflySpec { p, a, h, .. } = shape;
        let have = format!("p + a - 1 + h = {p} + {a} - 1 + {h}");
        return Err(budget.too_few("a router", have, p.into(), ports(shape) - u64::from(p)));
    }
    let groups = shape.groups.map_or_else(|| groups_for(shape), u64::from);
    let hosts = u64::from(shape.p) * u64::from(shape.a);
    if groups == 0 || groups > most_groups(shape) || groups * hosts < needed {
        return Err(BuildError::Dragonfly { p: shape.p, a: shape.a, h: shape.h, groups, needed });
    }
    Ok((shape, groups as u32))
}

fn plan(site: &Site<'_>, shape: DragonflySpec, groups: u32) -> FabricPlan {
    let budget = site.budget(0, Run::Nic, Run::Uplink);
    let up = (ports(shape) - u64::from(shape.p)) as u32;
    let tier = Tier {
        role: DeviceKind::Leaf,
        switch: budget.model.clone(),
        switches: 0,
        working: 0,
        radix: budget.radix,
        down: shape.p,
        up,
        oversubscription: None,
    };
    FabricPlan {
        switch: budget.model,
        radix: budget.radix,
        rate: site.rate(Run::Nic),
        uplink_rate: site.rate(Run::Uplink),
        core_rate: site.rate(Run::Uplink),
        ports: site.ports,
        planes: 1,
        pods: groups,
        pod_nodes: shape.p * shape.a / site.rails,
        uplinks: up,
        downlinks: u64::from(shape.p).min(site.nic_ports()) as u32,
        nodes_per_leaf: shape.p.div_ceil(site.rails),
        rails_per_leaf: site.rails,
        leaves_per_group: groups * shape.a,
        tier: vec![tier],
        ..FabricPlan::none(site.spec, site.rails)
    }
}
