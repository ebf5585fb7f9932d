//! The k-ary fat tree: k pods of k/2 leaves and k/2 spines, (k/2)² cores, all switches of k ports; k³/4 NIC ports.

use super::super::BuildError;
use super::super::blueprint::{Blueprint, Cable, Run, Site};
use super::super::plan::{FabricPlan, Tier};
use super::super::routing::Step;
use crate::device::DeviceKind;

pub(super) fn draw(site: &Site<'_>) -> Result<Blueprint, BuildError> {
    let needed = site.nic_ports();
    let k = size(site, needed)?;
    let half = k / 2;
    let plan = plan(site, k);
    let mut blueprint = Blueprint {
        plan,
        switches: Vec::new(),
        leaf_of: (0..needed).map(|port| (port / u64::from(half)) as u32).collect(),
        cables: Vec::new(),
    };
    for role in [DeviceKind::Leaf, DeviceKind::Spine] {
        for i in 0..k * half {
            blueprint.add(role, i / half, 0);
        }
    }
    for _ in 0..half * half {
        blueprint.add(DeviceKind::Core, 0, 0);
    }
    let (spines, cores) = (k * half, 2 * k * half);
    for leaf in 0..k * half {
        for i in 0..half {
            blueprint.cables.push(Cable { from: leaf, to: spines + leaf / half * half + i, step: Step::Up });
        }
    }
    for spine in 0..k * half {
        for i in 0..half {
            let to = cores + spine % half * half + i;
            blueprint.cables.push(Cable { from: spines + spine, to, step: Step::Up });
        }
    }
    Ok(blueprint)
}

/// The k that was asked for, or the least that holds all NIC ports.
fn size(site: &Site<'_>, needed: u64) -> Result<u32, BuildError> {
    let holds = |k: u32| u64::from(k).pow(3) / 4;
    let budgets = [site.budget(0, Run::Nic, Run::Uplink), site.budget(1, Run::Uplink, Run::Core)];
    let radix = (0..3).map(|i| site.models[i].ports_at(site.rates[i])).min().unwrap_or(0);
    let radix = budgets.iter().map(|b| b.radix / b.down.max(b.up)).min().unwrap_or(0).min(radix);
    let k = match site.spec.k {
        Some(k) if k < 2 || !k.is_multiple_of(2) || k > 1024 => {
            let expected = "even and from 2 to 1024: half of a switch's ports go down, half up".to_owned();
            return Err(BuildError::Range { what: "k", got: k.to_string(), expected });
        }
        Some(k) => k,
        None => (2..=1024).step_by(2).find(|&k| holds(k) >= needed).unwrap_or(1024),
    };
    if k > radix || holds(k) < needed {
        return Err(BuildError::FatTree {
            k,
            asked: site.spec.k.is_some(),
            needed,
            radix,
            model: site.models[0].name.clone(),
        });
    }
    Ok(k)
}

fn plan(site: &Site<'_>, k: u32) -> FabricPlan {
    let half = k / 2;
    let tier = |i: usize, role, up: u32| Tier {
        role,
        switch: site.models[i].name.clone(),
        switches: 0,
        working: 0,
        radix: site.models[i].ports_at(site.rates[i]),
        down: k - up,
        up,
        oversubscription: (up > 0).then_some(1.0),
    };
    let ratio = |down: Run, up: Run| site.rate(down).as_gbyte() / site.rate(up).as_gbyte();
    let (leaf_ratio, spine_ratio) = (ratio(Run::Nic, Run::Uplink), ratio(Run::Uplink, Run::Core));
    let mut tiers =
        vec![tier(0, DeviceKind::Leaf, half), tier(1, DeviceKind::Spine, half), tier(2, DeviceKind::Core, 0)];
    (tiers[0].oversubscription, tiers[1].oversubscription) = (Some(leaf_ratio), Some(spine_ratio));
    FabricPlan {
        switch: site.models[0].name.clone(),
        radix: tiers[0].radix,
        rate: site.rate(Run::Nic),
        uplink_rate: site.rate(Run::Uplink),
        core_rate: site.rate(Run::Core),
        ports: site.ports,
        planes: 1,
        pods: k,
        pod_nodes: half * half / site.rails,
        uplinks: half,
        downlinks: u64::from(half).min(site.nic_ports()) as u32,
        spine_uplinks: half,
        spine_downlinks: half,
        nodes_per_leaf: half.div_ceil(site.rails),
        oversubscription: leaf_ratio,
        core_oversubscription: spine_ratio,
        rails_per_leaf: site.rails,
        leaves_per_group: k * half,
        tier: tiers,
        ..FabricPlan::none(site.spec, site.rails)
    }
}
