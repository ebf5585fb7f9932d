//! Why a node cannot be built.

use crate::catalogue::UnknownName;
use crate::device::DeviceKind;

/// Why a node cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NodeError {
    /// A name is not in the catalogue.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// A count is zero or beyond what a node can have.
    #[error("{what} is {got}; a node has {least} to {most}")]
    Count {
        /// The key.
        what: &'static str,
        /// What was given.
        got: u32,
        /// The least.
        least: u32,
        /// The most.
        most: u32,
    },
    /// Something is needed that was not given.
    #[error("the node has {because}, but no `{key}` is given")]
    Missing {
        /// The key that is missing.
        key: &'static str,
        /// What it is needed for.
        because: String,
    },
    /// A `down` entry is no device.
    #[error("`{text}` in row {row} of `pcie` is not a device; write `gpu0`, `nic0`, `nvme0` or a range `gpu0-3`")]
    BadMember {
        /// The text.
        text: String,
        /// The row, counted from 0.
        row: usize,
    },
    /// A `down` entry names a device that the node does not have.
    #[error("row {row} of `pcie` names {kind}{index}, but the node has {count} of them ({kind}0 is the first)")]
    NoSuchMember {
        /// `gpu` or `nic`.
        kind: DeviceKind,
        /// The number.
        index: u32,
        /// How many there are.
        count: u32,
        /// The row, counted from 0.
        row: usize,
    },
    /// A device hangs on two rows.
    #[error("{kind}{index} hangs on two rows of `pcie`: {first} and {second}")]
    Twice {
        /// `gpu` or `nic`.
        kind: DeviceKind,
        /// The number.
        index: u32,
        /// The first row.
        first: usize,
        /// The second row.
        second: usize,
    },
    /// A key names a GPU that the node does not have.
    #[error("`{key}` names gpu{index}, but the node has {count} of them (gpu0 is the first)")]
    NoSuchGpu {
        /// The key.
        key: &'static str,
        /// The number.
        index: u32,
        /// How many there are.
        count: u32,
    },
    /// A key names a device that the node does not have, or none.
    #[error("`{key}` names `{text}`: a node's devices are {expected}")]
    BadDevice {
        /// The key.
        key: &'static str,
        /// The text.
        text: String,
        /// What there is.
        expected: String,
    },
    /// NICs that are not there, or too few lists of them.
    #[error("`nic_policy`: {why}")]
    NicPolicy {
        /// What is wrong.
        why: String,
    },
    /// Boards of NVSwitches that cannot be.
    #[error(
        "`nvlink`: {boards} boards with {trunk} trunk links a chip for {gpus} GPUs; several boards need `trunk`, and there are 16 at most"
    )]
    Boards {
        /// Boards asked for.
        boards: u32,
        /// GPUs of the domain.
        gpus: u32,
        /// Trunk links of a chip.
        trunk: u32,
    },
    /// NVLink and xGMI in one node.
    #[error("a node has either `nvlink` or `xgmi`")]
    TwoScaleUps,
    /// A device hangs nowhere.
    #[error("{kind}{index} hangs nowhere: no row of `pcie` has it under `down`{}", if *.kind == DeviceKind::Gpu { " and there is no `c2c`" } else { "" })]
    Loose {
        /// `gpu` or `nic`.
        kind: DeviceKind,
        /// The number.
        index: u32,
    },
    /// A row refers to a socket or a switch that is not there.
    #[error("row {row} of `pcie` hangs on {what} {index}, but there are {count}")]
    NoSuchParent {
        /// The row, counted from 0.
        row: usize,
        /// `socket` or `switch row`.
        what: &'static str,
        /// The number.
        index: u32,
        /// How many there are.
        count: usize,
    },
    /// A row states another socket than the switch that it hangs on.
    #[error("row {row} of `pcie` is on socket {socket}, but it hangs on row {parent}, which is on socket {on}")]
    OtherSocket {
        /// The row, counted from 0.
        row: usize,
        /// The socket that it states.
        socket: u32,
        /// The row that it hangs on.
        parent: u32,
        /// That row's socket.
        on: u32,
    },
    /// A PCIe width that does not exist.
    #[error("row {row} of `pcie`: {lanes} lanes; a link has 1, 2, 4, 8 or 16")]
    Lanes {
        /// The row, counted from 0.
        row: usize,
        /// The lanes given.
        lanes: u32,
    },
    /// A width in `trained` that does not exist.
    #[error("`trained`: {device} has {lanes} lanes; a link has 1, 2, 4, 8 or 16")]
    TrainedLanes {
        /// The device.
        device: String,
        /// The lanes given.
        lanes: u32,
    },
    /// More links than a GPU has.
    #[error("the wiring uses {used} NVLinks of gpu{gpu}, but {model} has {has}")]
    TooManyNvlinks {
        /// The GPU.
        gpu: u32,
        /// Its model.
        model: String,
        /// Links wired.
        used: u64,
        /// Links there are.
        has: u32,
    },
    /// More links than an NVSwitch chip has.
    #[error("NVSwitch chip {chip}: {gpus} GPUs x {each} links{} = {used} ports, but {model} has {has}", if *.trunks > 0 { format!(" + {trunks} to other boards") } else { String::new() })]
    TooManySwitchPorts {
        /// The chip, counted from 0.
        chip: usize,
        /// GPUs in the domain.
        gpus: u32,
        /// Links of a GPU to the chip.
        each: u32,
        /// Ports that trunks take.
        trunks: u64,
        /// The product.
        used: u64,
        /// The chip's name.
        model: String,
        /// Ports there are.
        has: u32,
    },
    /// A direct NVLink bundle that makes no sense.
    #[error("NVLink pair [{0}, {1}, {2}]: two different GPUs of the node and at least one link are needed", .pair[0], .pair[1], .pair[2])]
    BadPair {
        /// The pair.
        pair: [u32; 3],
    },
    /// Both kinds of NVLink wiring, or neither.
    #[error("`nvlink` needs either `chip` and `links` (through NVSwitches) or `pairs` (direct)")]
    NvlinkForm,
}
