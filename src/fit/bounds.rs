//! Which parameters are fitted where nothing is said, how far they may go, and which rows would tell them.

use sim_collectives::timing::{Key, Unit};

/// Where a parameter may go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The least value.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

impl Bounds {
    /// The usual bounds of a parameter of this unit that is `value` by default: times from 0 to eight times that, and at least
    /// to 5 µs; rates from a quarter to four times; shares from 0.3 to 1.
    #[must_use]
    pub fn usual(unit: Unit, value: f64) -> Self {
        match unit {
            Unit::Share => Self { low: 0.3, high: 1.0 },
            Unit::Us => Self { low: 0.0, high: (8.0 * value).max(5.0) },
            Unit::GbytePerSecond => Self { low: value / 4.0, high: value * 4.0 },
        }
    }

    /// The scale on which a parameter of this value is looked at: the value itself, unless it is near zero.
    pub(super) fn scale(self, value: f64) -> f64 {
        value.abs().max(0.05 * (self.high - self.low))
    }

    /// Whether the value is at an end, within a thousandth of the range.
    pub(super) fn ends_at(self, value: f64) -> bool {
        let near = 1e-3 * (self.high - self.low);
        value <= self.low + near || value >= self.high - near
    }
}

/// What is fitted where nothing is said, as far as predictions of the rows ask for it and the rows can tell it: launch floor,
/// latencies of a step, costs of a step, rates of a channel, and what the network carries.
pub const STANDARD: &[Key] = &[
    Key::LaunchKernel,
    Key::NvlinkLl,
    Key::PcieLl,
    Key::NetworkLl,
    Key::RingLlThread,
    Key::RingLlRate,
    Key::TreeLlThread,
    Key::NetworkLl128,
    Key::RingLl128Rate,
    Key::TreeLl128Rate,
    Key::NvlsLoop,
    Key::NvlsRate,
    Key::NvlsTreeLoop,
    Key::NvlsTreeRate,
    Key::SimpleStep,
    Key::SimpleRate,
    Key::NetworkSimple,
    Key::P2pStep,
    Key::P2pRate,
    Key::LinkNetworkShare,
];

/// Rows that tell a parameter, by the beginning of its name; the first that fits counts.
const NEEDS: &[(&str, &str)] = &[
    (
        "launch.",
        "sizes to 4 KiB of operations with different numbers of steps, such as all_reduce beside all_gather and sendrecv",
    ),
    (
        "nvlink.ll_us",
        "sizes to 64 KiB within a node (LL), of operations with different numbers of steps, such as all_reduce beside sendrecv",
    ),
    ("nvlink.ll128_us", "sizes around 1 MiB that run LL128 within a node, or NCCL_PROTO=LL128"),
    ("nvlink.simple_us", "sizes of a few MiB that run Simple within a node, with few loops"),
    ("pcie.", "runs on a node without NVLink, sizes to 64 KiB"),
    ("network.ll_us", "sizes to 64 KiB on two nodes or more (LL), beside a run on one node"),
    ("network.ll128_us", "sizes from 128 KiB to 4 MiB on two nodes or more that run LL128"),
    ("network.simple_us", "sizes of a few MiB on two nodes or more that run Simple"),
    ("network.split_us", "sendrecv on two nodes or more, from 16 KiB to 1 GiB"),
    ("network.turn_us", "sendrecv on two nodes or more, from 16 KiB to 1 MiB"),
    ("network.cts_us", "sizes of a few MiB on two nodes or more, with NCCL_BUFFSIZE small"),
    ("ring_ll128.", "sizes from 256 KiB to 16 MiB that run ring/LL128, or NCCL_ALGO=Ring NCCL_PROTO=LL128"),
    ("ring_ll.rate", "the largest sizes that run ring/LL, about 1 MiB: more than one pass of all threads a chunk"),
    ("ring_ll.", "sizes from 8 B to 1 MiB that run ring/LL, both sides of one pass of all threads (4 KiB a channel)"),
    ("tree_ll128.", "sizes from 128 KiB to 16 MiB on two nodes or more that run tree/LL128"),
    ("tree_ll.", "sizes from 8 B to 128 KiB on two nodes or more that run tree/LL"),
    ("simple.", "rings at 64 MiB and more: all_gather, or all_reduce with NCCL_ALGO=Ring, both few and many loops"),
    ("p2p.", "sendrecv or alltoall, from small sizes to 512 MiB"),
    ("nvls_tree.", "all_reduce on two nodes or more, from 4 MiB to 4 GiB: chunks of 64 KiB and of 128 KiB"),
    ("nvls.", "all_reduce on one node with NVSwitch, from 4 MiB to 4 GiB: chunks of 64 KiB and of 128 KiB"),
    ("link.network_share", "sizes of 256 MiB and more that the NICs bound: all_reduce on four nodes or more, alltoall"),
    ("link.nvlink_share", "sizes of 256 MiB and more that NVLink bounds: a ring within a node"),
    ("link.pcie_share", "sizes of 256 MiB and more that PCIe bounds: a node without NVLink"),
    ("direct.", "runs with one_shot or two_shot kernels"),
    ("symmetric.", "runs on symmetric memory"),
    ("copy_engine.", "runs with copy engines"),
];

/// Rows that would tell a parameter.
#[must_use]
pub fn needs(key: Key) -> &'static str {
    NEEDS
        .iter()
        .find(|(start, _)| key.name().starts_with(start))
        .map_or("runs in which it takes a large part of the time", |n| n.1)
}
