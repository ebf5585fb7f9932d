//! PCIe switches and root ports of a node, and the devices that hang on them.

use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// A PCIe switch, or a root port if `switch` is false.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PcieSpec {
    /// The socket that it hangs on.
    #[serde(default)]
    pub socket: u32,
    /// The NUMA domain, if a socket has several; the socket's number if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa: Option<u32>,
    /// Root ports with the same number share a host bridge; each has its own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_bridge: Option<u32>,
    /// The row (counted from 0) of the switch that this one hangs on, instead of the socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// Whether there is a switch; without one, `down` sits on a root port of width `uplink`.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub switch: bool,
    /// The link towards the socket.
    pub uplink: SlotSpec,
    /// The slots below the switch; as the uplink if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotSpec>,
    /// What hangs on it: `gpu0`, `nic3`, or a range `gpu0-3`.
    pub down: Vec<String>,
}

const fn yes() -> bool {
    true
}
const fn is_yes(b: &bool) -> bool {
    *b
}

/// A PCIe link's generation and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotSpec {
    /// PCIe generation: 3 to 6.
    #[serde(rename = "gen")]
    pub generation: u32,
    /// Lanes: 1 to 16.
    pub lanes: u32,
}

impl SlotSpec {
    /// What two ends train to: the lower generation, the smaller width.
    #[must_use]
    pub fn negotiate(self, other: Self) -> Self {
        Self { generation: self.generation.min(other.generation), lanes: self.lanes.min(other.lanes) }
    }
}

/// A device of the node as `down` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Member {
    /// GPU of this number.
    Gpu(u32),
    /// NIC of this number.
    Nic(u32),
}

/// Reads `gpu3`, `nic0` or `gpu0-3`; `None` if it is none of these.
pub(crate) fn members(text: &str) -> Option<Vec<Member>> {
    let text = text.trim();
    let (make, rest): (fn(u32) -> Member, _) = match text.strip_prefix("gpu") {
        Some(rest) => (Member::Gpu, rest),
        None => (Member::Nic, text.strip_prefix("nic")?),
    };
    let range: RangeInclusive<u32> = match rest.split_once('-') {
        Some((first, last)) => first.parse().ok()?..=last.parse().ok()?,
        None => {
            let n = rest.parse().ok()?;
            n..=n
        }
    };
    (range.end() - range.start().min(range.end()) < 4096).then(|| range.map(make).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ranges() {
        assert_eq!(members("gpu3"), Some(vec![Member::Gpu(3)]));
        assert_eq!(members("nic1-2"), Some(vec![Member::Nic(1), Member::Nic(2)]));
        assert_eq!(members("gpu2-1"), Some(vec![]));
        for bad in ["", "gpu", "gpuX", "ssd0", "gpu0-", "gpu0-4294967295", "gpu-1"] {
            assert_eq!(members(bad), None, "{bad}");
        }
    }

    #[test]
    fn both_ends_train_to_the_lesser() {
        let (slot, card) = (SlotSpec { generation: 5, lanes: 8 }, SlotSpec { generation: 4, lanes: 16 });
        assert_eq!(slot.negotiate(card), SlotSpec { generation: 4, lanes: 8 });
    }
}
