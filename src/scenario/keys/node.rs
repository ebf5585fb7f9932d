//! What a node is made of: processors, buses, sockets, slots.

use super::tables::{COUNT, CPU_VENDORS};
use super::{Kind, TableSpec, key};

pub(super) static NODE: TableSpec = TableSpec {
    name: "node",
    doc: "A node that is not in the catalogue, in the form that the catalogue's own systems have.",
    keys: &[
        key("gpu", Kind::Named("a GPU of the catalogue", "h100-sxm"), "Model of the GPUs.").required(),
        key("gpus", Kind::Integer(1, 1024), "Number of GPUs.").required(),
        key("nic", Kind::Named("a NIC of the catalogue", "connectx-7"), "Model of the NICs."),
        key("nics", Kind::Integer(0, 1024), "Number of NICs.").default("0"),
        key("nic_rate", Kind::Rate, "Rate of a NIC's port, in place of its model's."),
        key("nvme", Kind::Named("a drive of the catalogue", "nvme-gen4"), "Model of the NVMe drives."),
        key("nvmes", Kind::Integer(0, 256), "Number of NVMe drives.").default("0"),
        key("nvlink", Kind::Table(&NVLINK), "How NVLinks run. Without it there are none."),
        key("xgmi", Kind::Table(&XGMI), "How AMD's xGMI links run from GPU to GPU. Excludes `nvlink`."),
        key("max_nodes_per_domain", COUNT, "How many such nodes may share the NVSwitches.").default("1"),
        key("sockets", Kind::Integer(1, 64), "Number of CPU sockets.").default("2"),
        key(
            "numa_per_socket",
            Kind::Integer(1, 64),
            "NUMA domains of a socket (NPS4, sub-NUMA clusters): devices of two domains are SYS apart, and affinities count them.",
        )
        .default("1"),
        key("socket_link", Kind::Table(&SOCKET_LINK), "The link between sockets; needed if there are several."),
        key("memory", Kind::Rate, "Rate of one socket's memory, reads and writes together; 204.8 GB/s if absent."),
        key("cpu", Kind::Table(&CPU), "The CPUs."),
        key("c2c", Kind::Named("a link of the catalogue", "nvlink-c2c"), "Coherent link between CPU and GPU."),
        key("peer_to_peer", Kind::Boolean, "GPUs may copy to each other over PCIe.").default("true"),
        key(
            "acs",
            Kind::Boolean,
            "Access control services: PCIe switches send peer traffic up to the root port and back, in place of straight \
             across.",
        )
        .default("false"),
        key("gpudirect_rdma", Kind::Boolean, "NICs and drives may read and write GPU memory; GeForce drivers forbid it.")
            .default("true"),
        key(
            "trained",
            Kind::Map(&Kind::Table(&SLOT)),
            "PCIe links that trained to less than both ends could, by device: gpu3 = { gen = 1, lanes = 16 }.",
        ),
        key("pcie_payload", Kind::Size(false), "Largest payload of a PCIe packet (MPS).").default("256 B"),
        key("pcie", Kind::Tables(&PCIE), "PCIe switches and root ports, one row each."),
    ],
};

static NVLINK: TableSpec = TableSpec {
    name: "node.nvlink",
    doc: "NVLinks: through NVSwitch chips, or directly between pairs.",
    keys: &[
        key("chip", Kind::Named("a chip of the catalogue", "nvswitch3"), "The NVSwitch chips."),
        key(
            "links",
            Kind::List(&Kind::Integer(1, 64)),
            "Links of one GPU to each chip; their sum is its number of links.",
        ),
        key(
            "pairs",
            Kind::List(&Kind::List(&Kind::Integer(0, 1024))),
            "Direct links, each `[GPU, GPU, number of links]`. Excludes `chip` and `links`.",
        ),
        key(
            "board_gpus",
            Kind::Integer(1, 4096),
            "GPUs that have chips of their own, where a domain has several groups of chips (8 on a board of a DGX-2, 36 \
             in a rack of an NVL36x2). Without it, one group for all.",
        ),
        key("trunk", Kind::Integer(1, 1024), "Links from each chip to its counterpart of every other group."),
        key(
            "lost",
            Kind::List(&Kind::Integer(0, 1023)),
            "GPUs whose NVLinks are all down: they reach the others over PCIe.",
        ),
        key(
            "rate",
            Kind::Rate,
            "Rate of all links of a GPU together, one direction. Without it, what its model carries.",
        ),
    ],
};

static XGMI: TableSpec = TableSpec {
    name: "node.xgmi",
    doc: "AMD's links from GPU to GPU; never switched.",
    keys: &[
        key("rate", Kind::Rate, "Rate of one link, one direction.").required(),
        key("mesh", Kind::Integer(2, 1024), "Every GPU has a link to every other of its group of so many."),
        key(
            "pairs",
            Kind::List(&Kind::List(&Kind::Integer(0, 1024))),
            "Direct links, each `[GPU, GPU, number of links]`.",
        ),
    ],
};

static SOCKET_LINK: TableSpec = TableSpec {
    name: "node.socket_link",
    doc: "The link between two sockets.",
    keys: &[
        key("name", Kind::Named("a link of the catalogue", "upi2-16"), "Its kind.").required(),
        key("links", Kind::Integer(1, 16), "How many in parallel.").default("1"),
    ],
};

static CPU: TableSpec = TableSpec {
    name: "node.cpu",
    doc: "The CPUs; NCCL's choices depend on the vendor.",
    keys: &[
        key("vendor", Kind::Choice(CPU_VENDORS), "Vendor or architecture.").default("intel"),
        key("model", Kind::Named("a family", "sapphire-rapids"), "Family."),
        key("cores", Kind::Integer(1, 4096), "Cores of one socket.").default("32"),
        key("threads_per_core", Kind::Integer(1, 8), "Hardware threads of a core.").default("2"),
    ],
};

pub(crate) static PCIE: TableSpec = TableSpec {
    name: "node.pcie",
    doc: "A PCIe switch or root port: its uplink is the only way from what is below it to the socket.",
    keys: &[
        key("socket", Kind::Integer(0, 63), "The socket it hangs on; with `parent`, that row's.").default("0"),
        key(
            "numa",
            Kind::Integer(0, 1023),
            "The NUMA domain. Without it, root ports are dealt to the domains of their socket evenly, in order.",
        ),
        key(
            "host_bridge",
            Kind::Integer(0, 1023),
            "Root ports of one number share a host bridge. Without it, each has its own.",
        ),
        key(
            "parent",
            Kind::Integer(0, 1023),
            "The row, from 0, of the switch that this one hangs on, in place of the socket.",
        ),
        key(
            "chip",
            Kind::Integer(0, 1023),
            "The switch chip, where several rows are partitions of one; the chip joins them inside, too.",
        ),
        key("model", Kind::Named("a chip", "pex89144"), "The switch chip's name; warnings about known faults use it."),
        key(
            "packet_extra",
            Kind::Integer(0, 4096),
            "Bytes a packet that the chip loses on its links beyond PCIe's own header.",
        )
        .default("0"),
        key(
            "peer_uplink",
            Kind::Rate,
            "The most that writes to GPUs below other root ports make of the uplink. Without it, the link's own rate.",
        ),
        key(
            "quadrant",
            Kind::Integer(0, 63),
            "Root ports of one number share a quadrant of the CPU's I/O die and its rate to memory. Without it, none.",
        ),
        key("uplink", Kind::Table(&SLOT), "The link towards the socket.").required(),
        key("slot", Kind::Table(&SLOT), "The slots below the switch. Without it, as the uplink."),
        key("down", Kind::List(&Kind::Named("devices", "gpu0-3")), "What hangs below, by name: gpu0, nic2-3, nvme0.")
            .required(),
        key("switch", Kind::Boolean, "False for a root port without a switch.").default("true"),
    ],
};

pub(crate) static SLOT: TableSpec = TableSpec {
    name: "node.pcie.slot",
    doc: "A PCIe link: the form of `uplink` and `slot`.",
    keys: &[
        key("gen", Kind::Integer(1, 7), "Generation.").required(),
        key("lanes", Kind::Integer(1, 32), "Lanes.").default("16"),
    ],
};
