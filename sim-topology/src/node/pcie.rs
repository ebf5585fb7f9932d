//! PCIe switches and root ports of a node, and the devices that hang on them.

use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use sim_core::units::Rate;

/// A PCIe switch, or a root port if `switch` is false.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PcieSpec {
    /// The socket that it hangs on; with `parent`, that row's socket holds, and another one is an error.
    #[serde(default)]
    pub socket: u32,
    /// The NUMA domain; if absent, its parent's, and root ports are dealt to the domains of their socket evenly, in order.
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
    /// The number of the switch chip, where several rows are partitions of one; the chip also joins them inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chip: Option<u32>,
    /// The switch chip's name, such as `pex89144`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Bytes that the chip loses per packet of the largest payload, beyond PCIe's own header, on all its links.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub packet_extra: u32,
    /// The most that writes to GPUs below other root ports make of the uplink, in each direction.
    #[serde(default, with = "crate::text::rate_opt", skip_serializing_if = "Option::is_none")]
    pub peer_uplink: Option<Rate>,
    /// Root ports of one number share a quadrant of the CPU's I/O die, and its rate to memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quadrant: Option<u32>,
    /// The link towards the socket.
    pub uplink: SlotSpec,
    /// The slots below the switch; as the uplink if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<SlotSpec>,
    /// What hangs on it: `gpu0`, `nic3`, `nvme1`, or a range `gpu0-3`.
    pub down: Vec<String>,
}

impl PcieSpec {
    /// A switch (or, without `switch`, a root port) on a socket, every other field at its default.
    #[must_use]
    pub fn new(socket: u32, switch: bool, uplink: SlotSpec, down: Vec<String>) -> Self {
        Self {
            socket,
            numa: None,
            host_bridge: None,
            parent: None,
            switch,
            chip: None,
            model: None,
            packet_extra: 0,
            peer_uplink: None,
            quadrant: None,
            uplink,
            slot: None,
            down,
        }
    }
}

const fn is_zero(n: &u32) -> bool {
    *n == 0
}
const fn yes() -> bool {
    true
}
const fn is_yes(b: &bool) -> bool {
    *b
}

impl super::NodeSpec {
    /// The NUMA domain of a row of `pcie`: its own, else that of its root port; root ports that name none are dealt to the
    /// domains of their socket evenly, in order.
    pub(super) fn numa_of_row(&self, row: usize) -> u32 {
        let root = super::builder::root_row(self, row);
        let entry = &self.pcie[root];
        let dealt = || {
            let on_socket = |r: &&PcieSpec| r.parent.is_none() && r.socket == entry.socket;
            let all = self.pcie.iter().filter(on_socket).count().max(1) as u32;
            let place = self.pcie[..root].iter().filter(on_socket).count() as u32;
            entry.socket.saturating_mul(self.numa_per_socket) + place * self.numa_per_socket / all
        };
        super::builder::numa_of(self, row).unwrap_or_else(dealt)
    }

    /// The row of `pcie` at the top of what a GPU hangs on: its root port.
    #[must_use]
    pub fn root_row_of_gpu(&self, gpu: u32) -> Option<usize> {
        let holds =
            |row: &PcieSpec| row.down.iter().filter_map(|t| members(t)).flatten().any(|m| m == Member::Gpu(gpu));
        Some(super::builder::root_row(self, self.pcie.iter().position(holds)?))
    }
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
    /// Drive of this number.
    Nvme(u32),
}

impl core::fmt::Display for Member {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Gpu(i) => write!(f, "gpu{i}"),
            Self::Nic(i) => write!(f, "nic{i}"),
            Self::Nvme(i) => write!(f, "nvme{i}"),
        }
    }
}

/// Reads `gpu3`, `nic0`, `nvme1` or `gpu0-3`; `None` if it is none of these.
pub(crate) fn members(text: &str) -> Option<Vec<Member>> {
    let text = text.trim();
    let after = |word| text.strip_prefix(word);
    let (make, rest): (fn(u32) -> Member, _) = match (after("gpu"), after("nic"), after("nvme")) {
        (Some(rest), ..) => (Member::Gpu, rest),
        (_, Some(rest), _) => (Member::Nic, rest),
        (.., rest) => (Member::Nvme, rest?),
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
        assert_eq!(members("nvme0-1"), Some(vec![Member::Nvme(0), Member::Nvme(1)]));
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
