//! Two ports a NIC to the two leaves of a pair, one pair a rail and segment.
//!
//! With two planes, the default, the sides have spines and cores of their own and meet in the NICs only (Alibaba HPN 7);
//! with `planes = 1` both leaves of a pair go to the same spines.

use super::super::BuildError;
use super::super::blueprint::{Blueprint, Site};
use super::super::tiers::{self, Arrangement, Part};
use super::multi_plane;

pub(super) fn draw(site: &Site<'_>) -> Result<Blueprint, BuildError> {
    if site.spec.planes != Some(1) {
        return multi_plane::draw(site);
    }
    let pairs = site.rails * site.ports;
    if let Some(leaves) = site.spec.leaves
        && !leaves.is_multiple_of(pairs)
    {
        return Err(BuildError::LeavesPerRail { leaves, rails: pairs });
    }
    let part = Part { plane: 0, nics: 0..site.rails, ports: 0..site.ports };
    tiers::draw(site, &[part], Arrangement { leaves: pairs, per_node: 1, asked: site.spec.leaves })
}
