//! Access control services left on: PCIe switches send peer traffic up to the root port and back.

use super::patient::Patient;
use super::target::{Item, nodes_of};
use super::{Effect, FaultError};

/// ACS on in some nodes.
///
/// What would go straight across a PCIe switch goes up its uplink and down again, and shares it with all else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acs;

impl Effect for Acs {
    fn name(&self) -> &'static str {
        "acs"
    }

    fn rank(&self) -> u8 {
        1
    }

    fn apply(&self, items: &[Item], patient: &mut Patient<'_>) -> Result<String, FaultError> {
        if patient.fabric().node_spec().acs {
            patient.warn("target", "the fault has no effect", "the nodes have ACS on already");
        }
        for node in nodes_of(items)? {
            patient.redirect(node);
        }
        Ok("peer traffic below a PCIe switch goes up to the root port".to_owned())
    }
}
