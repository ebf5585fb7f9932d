//! NIC r of every node on the leaves of rail r; spines above, and cores above pods.
//!
//! A block of nodes (a scalable unit) has one leaf a rail: traffic of one rail in a block crosses one switch.

use super::super::BuildError;
use super::super::blueprint::{Blueprint, Site};
use super::super::tiers::{self, Arrangement, Part};

pub(super) fn draw(site: &Site<'_>) -> Result<Blueprint, BuildError> {
    let part = Part { plane: 0, nics: 0..site.rails, ports: 0..1 };
    tiers::draw(site, &[part], rails(site.rails, site.spec.leaves)?)
}

/// One leaf a rail, or several rails on a leaf where there are fewer leaves than rails.
pub(super) fn rails(rails: u32, asked: Option<u32>) -> Result<Arrangement, BuildError> {
    let wrong = |leaves| BuildError::LeavesPerRail { leaves, rails };
    match asked {
        Some(leaves) if leaves < rails => {
            if leaves == 0 || !rails.is_multiple_of(leaves) {
                return Err(wrong(leaves));
            }
            Ok(Arrangement { leaves, per_node: rails / leaves, asked })
        }
        Some(leaves) if !leaves.is_multiple_of(rails) => Err(wrong(leaves)),
        asked => Ok(Arrangement { leaves: rails, per_node: 1, asked }),
    }
}
