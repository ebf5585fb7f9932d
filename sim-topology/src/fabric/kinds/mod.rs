//! The kinds of fabrics, one file each: every one draws a [`Blueprint`] for a site.

mod dragonfly;
mod dual_tor;
mod fat_tree;
mod leaf_spine;
mod multi_plane;
mod rail_only;
mod rail_optimized;
mod single_switch;

use super::blueprint::{Blueprint, Site};
use super::{BuildError, FabricKind};

/// Draws the fabric that the site asks for.
pub(super) fn draw(site: &Site<'_>) -> Result<Blueprint, BuildError> {
    let mut blueprint = match site.spec.fabric {
        FabricKind::SingleSwitch => single_switch::draw(site),
        FabricKind::LeafSpine => leaf_spine::draw(site),
        FabricKind::RailOptimized => rail_optimized::draw(site),
        FabricKind::RailOnly => rail_only::draw(site),
        FabricKind::FatTree => fat_tree::draw(site),
        FabricKind::DualTor => dual_tor::draw(site),
        FabricKind::MultiPlane => multi_plane::draw(site),
        FabricKind::Dragonfly => dragonfly::draw(site),
    }?;
    blueprint.count();
    Ok(blueprint)
}

/// Ports of a NIC, each with a cable of its own, that a kind splits it into unless `planes` says otherwise.
pub(super) const fn usual_ports(kind: FabricKind) -> u32 {
    match kind {
        FabricKind::DualTor | FabricKind::MultiPlane => 2,
        _ => 1,
    }
}
