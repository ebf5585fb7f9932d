//! Each rail a network of its own: no switch joins two rails, so that what crosses rails goes over NVLink first (PXN).
//!
//! A rail that one leaf holds has no spine; a larger one is a leaf-spine network.

use super::super::BuildError;
use super::super::blueprint::{Blueprint, Site};
use super::super::tiers::{self, Arrangement, Part};

pub(super) fn draw(site: &Site<'_>) -> Result<Blueprint, BuildError> {
    let rails = site.rails;
    let asked = match site.spec.leaves {
        Some(leaves) if !leaves.is_multiple_of(rails) => return Err(BuildError::LeavesPerRail { leaves, rails }),
        asked => asked.map(|leaves| leaves / rails),
    };
    let parts: Vec<Part> = (0..rails).map(|rail| Part { plane: 0, nics: rail..rail + 1, ports: 0..1 }).collect();
    tiers::draw(site, &parts, Arrangement { leaves: 1, per_node: 1, asked })
}
