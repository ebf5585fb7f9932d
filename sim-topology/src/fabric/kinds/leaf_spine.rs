//! All NICs of a node on one leaf, nodes filled into leaves one after the other; spines above, and cores above pods.

use super::super::BuildError;
use super::super::blueprint::{Blueprint, Site};
use super::super::tiers::{self, Arrangement, Part};

pub(super) fn draw(site: &Site<'_>) -> Result<Blueprint, BuildError> {
    let part = Part { plane: 0, nics: 0..site.rails, ports: 0..1 };
    tiers::draw(site, &[part], Arrangement { leaves: 1, per_node: site.rails, asked: site.spec.leaves })
}
