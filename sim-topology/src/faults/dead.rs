//! A link or a device that does not work at all.

use super::patient::Patient;
use super::target::Item;
use super::{Effect, FaultError};
use crate::device::{DeviceId, DeviceKind};

/// A dead link or device; with a device all its links.
///
/// No route takes what is dead: GPUs without NVLink go over PCIe, a GPU whose NIC is gone takes the nearest other, flows
/// spread over the switches that are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dead;

impl Effect for Dead {
    fn name(&self) -> &'static str {
        "dead"
    }

    fn rank(&self) -> u8 {
        3
    }

    fn apply(&self, items: &[Item], patient: &mut Patient<'_>) -> Result<String, FaultError> {
        let (mut devices, mut links) = (0, 0);
        for item in items {
            match *item {
                Item::Link(id) => links += usize::from(patient.kill_link(id)),
                Item::Cable(a, b) => links += usize::from(patient.kill_link(a) | patient.kill_link(b)),
                Item::Device(id) => devices += patient.kill_devices(&[id]),
                Item::Node(node) => {
                    let all = patient.fabric().devices().iter().enumerate();
                    // Pseudo-devices too: whatever is inside.
                    let ids: Vec<DeviceId> =
                        all.filter(|(_, d)| d.node == Some(node)).map(|(i, _)| DeviceId(i as u32)).collect();
                    devices += patient.kill_devices(&ids);
                }
            }
        }
        if devices + links == 0 {
            patient.warn("target", "the fault has no effect", "all that it names is dead already");
        }
        let gpus = items
            .iter()
            .filter(|i| matches!(i, Item::Device(id) if patient.fabric().device(*id).kind == DeviceKind::Gpu));
        let gpus = gpus.count();
        let count = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
        Ok(match (devices, links) {
            (0, n) => format!("{} dead", count(n, "link")),
            (n, 0) if n == gpus => format!("{} dead", count(n, "GPU")),
            (n, 0) => format!("{} dead", count(n, "device")),
            (n, m) => format!("{} and {} dead", count(n, "device"), count(m, "link")),
        })
    }
}
