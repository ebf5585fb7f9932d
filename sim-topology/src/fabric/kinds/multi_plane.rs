//! Each port of a NIC in a plane of its own, each plane a rail-optimized network; planes meet in the NICs only.

use super::super::BuildError;
use super::super::blueprint::{Blueprint, Site};
use super::super::tiers::{self, Part};
use super::rail_optimized::rails;

pub(super) fn draw(site: &Site<'_>) -> Result<Blueprint, BuildError> {
    let planes = site.ports;
    let asked = match site.spec.leaves {
        Some(leaves) if !leaves.is_multiple_of(planes) => {
            let expected = format!("a multiple of {planes}, as many in each plane");
            return Err(BuildError::Range { what: "leaves", got: leaves.to_string(), expected });
        }
        asked => asked.map(|leaves| leaves / planes),
    };
    let part = |port: u32| Part { plane: port, nics: 0..site.rails, ports: port..port + 1 };
    let parts: Vec<Part> = (0..planes).map(part).collect();
    tiers::draw(site, &parts, rails(site.rails, asked)?)
}
