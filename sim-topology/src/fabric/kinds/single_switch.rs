//! One switch for all NICs.

use super::super::BuildError;
use super::super::blueprint::{Blueprint, Run, Site};
use super::super::plan::{FabricPlan, Tier};
use crate::device::DeviceKind;

pub(super) fn draw(site: &Site<'_>) -> Result<Blueprint, BuildError> {
    let budget = site.budget(0, Run::Nic, Run::Nic);
    let needed = site.nic_ports();
    if !budget.fits(needed, 0) {
        let have = format!("{} nodes x {} NICs", site.nodes(), site.rails);
        return Err(budget.too_few("the one switch", have, needed, 0));
    }
    let tier = Tier {
        role: DeviceKind::Leaf,
        switch: budget.model.clone(),
        switches: 1,
        working: 0,
        radix: budget.radix,
        down: needed as u32,
        up: 0,
        oversubscription: None,
    };
    let plan = FabricPlan {
        switch: budget.model,
        radix: budget.radix,
        rate: site.rate(Run::Nic),
        uplink_rate: site.rate(Run::Uplink),
        core_rate: site.rate(Run::Core),
        ports: site.ports,
        planes: 1,
        pods: 1,
        pod_nodes: site.nodes(),
        downlinks: needed as u32,
        nodes_per_leaf: site.nodes(),
        rails_per_leaf: site.rails,
        leaves_per_group: 1,
        tier: vec![tier],
        ..FabricPlan::none(site.spec, site.rails)
    };
    let mut blueprint = Blueprint { plan, switches: Vec::new(), leaf_of: vec![0; needed as usize], cables: Vec::new() };
    blueprint.add(DeviceKind::Leaf, 0, 0);
    Ok(blueprint)
}
