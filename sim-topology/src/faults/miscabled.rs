//! Two NICs whose cables were swapped at the leaves.

use super::patient::Patient;
use super::target::{Item, device};
use super::{Effect, FaultError};
use crate::device::DeviceKind;

/// The cable of the target ends where that of `swap` should, and the other way round.
///
/// The library goes by the NIC's number and believes the rail: its traffic of one rail then crosses the spines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Miscabled {
    /// The other NIC.
    pub swap: String,
}

impl Effect for Miscabled {
    fn name(&self) -> &'static str {
        "miscabled"
    }

    fn rank(&self) -> u8 {
        0
    }

    fn apply(&self, items: &[Item], patient: &mut Patient<'_>) -> Result<String, FaultError> {
        let fabric = patient.fabric();
        let other = device(fabric, &self.swap, "swap")?;
        let is_cabled = |id| fabric.device(id).kind == DeviceKind::Nic && fabric.leaf_of(id).is_some();
        let (nic, leaves) = match items {
            &[Item::Device(nic)] if is_cabled(nic) && is_cabled(other) => {
                (nic, (fabric.leaf_of(nic), fabric.leaf_of(other)))
            }
            _ => {
                let label = "`target` and `swap` are one NIC each, with cables to leaves";
                return Err(FaultError::contradiction("target", "only the cables of two NICs can be swapped", label));
            }
        };
        let names = [nic, other].map(|id| fabric.device(id).name.clone());
        if leaves.0 == leaves.1 {
            patient.warn("swap", "the fault has no effect", "both cables end at the same leaf");
        }
        patient.swap_cables(nic, other);
        let leaf = |id| patient.fabric().leaf_of(id).map_or(String::new(), |l| patient.fabric().device(l).name.clone());
        Ok(format!("{} ends at {}, {} at {}", names[0], leaf(nic), names[1], leaf(other)))
    }
}
