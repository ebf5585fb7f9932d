//! The tables of catalogue rows: what may stand under `[catalogue.KIND.NAME]`.
//!
//! The keys are those of the embedded data (`sim-topology/data/`), which a test holds against these tables.

use super::fabric::{CLUSTER, PRESET};
use super::facts::{CONSTANT, FEC, MEASURED, OPTIC, PATH_LATENCY, PCIE_SWITCH, POWER_ROW, PRICE_ROW, RENTAL};
use super::node::NODE;
use super::tables::TRANSPORTS;
use super::{KeySpec, Kind, TableSpec, Unit, key};

/// The kinds of rows.
pub(crate) static CATALOGUE: TableSpec = TableSpec {
    name: "catalogue",
    doc: "Hardware of your own, by kind and name. A row of a new name is added; one of a built-in name or alias changes that \
          row. Keys that are left out come from the row in `like`, else from the built-in row of that name; a row that has \
          neither needs the keys marked as required. `fabricsim catalog NAME` shows the keys and values of a row, \
          `fabricsim catalog --catalogue FILE` shows your own among them.",
    keys: &[
        key("system", Kind::Map(&Kind::Part(&SYSTEM)), "Whole nodes, for the key `system`."),
        key("gpu", Kind::Map(&Kind::Part(&GPU)), "GPUs."),
        key("nvlink", Kind::Map(&Kind::Part(&NVLINK)), "Links between GPUs: NVLink generations, xGMI."),
        key("nvswitch", Kind::Map(&Kind::Part(&NVSWITCH)), "NVSwitch chips."),
        key("pcie", Kind::Map(&Kind::Part(&PCIE)), "PCIe generations."),
        key("c2c", Kind::Map(&Kind::Part(&C2C)), "Links between a GPU and its CPU."),
        key("socket_link", Kind::Map(&Kind::Part(&SOCKET_LINK)), "Links between CPU sockets."),
        key(
            "host",
            Kind::Map(&Kind::Part(&HOST)),
            "What the root complexes of CPUs do; by names that `node.cpu.model` uses.",
        ),
        key("nvme", Kind::Map(&Kind::Part(&NVME)), "NVMe drives."),
        key("copy", Kind::Map(&Kind::Part(&COPY)), "Ways to copy between host and GPU memory. The names are fixed."),
        key("nic", Kind::Map(&Kind::Part(&NIC)), "NICs."),
        key("switch", Kind::Map(&Kind::Part(&SWITCH)), "Network switches."),
        key("transport", Kind::Map(&Kind::Part(&TRANSPORT)), "What a network protocol costs."),
        key("latency", Kind::Map(&Kind::Part(&LATENCY)), "Latencies of the parts of a path."),
        key("preset", Kind::Map(&Kind::Part(&PRESET)), "Set-ups of the transport, for the key `transport.preset`."),
        key("cluster", Kind::Map(&Kind::Part(&CLUSTER)), "Whole clusters, for the key `cluster`."),
        key(
            "pcie_switch",
            Kind::Map(&Kind::Part(&PCIE_SWITCH)),
            "PCIe switch chips, by `node.pcie.model`; warning W021 reads them, and no model.",
        ),
        key("cable", Kind::Map(&Kind::Part(&CABLE)), "Kinds of cables."),
        key("optic", Kind::Map(&Kind::Part(&OPTIC)), "Transceivers; no model reads them: bills take `cable`."),
        key("fec", Kind::Map(&Kind::Part(&FEC)), "Forward error correction; no model reads it: links take `latency`."),
        key("path_latency", Kind::Map(&Kind::Part(&PATH_LATENCY)), "Latencies of whole paths; no model reads them."),
        key("constant", Kind::Map(&Kind::Part(&CONSTANT)), "Single figures; models read `memory-of-a-socket` alone."),
        key("price", Kind::Map(&Kind::Part(&PRICE_ROW)), "Prices; no model reads them."),
        key("rental", Kind::Map(&Kind::Part(&RENTAL)), "Rents of GPUs; no model reads them."),
        key("power", Kind::Map(&Kind::Part(&POWER_ROW)), "Power of systems and parts; no model reads them."),
        key("measured", Kind::Map(&Kind::Part(&MEASURED)), "Measurements; no model reads them."),
    ],
};

pub(super) const LIKE: KeySpec =
    key("like", Kind::Named("the name of a row", "h100-sxm"), "The row that gives what is left out.");
pub(super) const TITLE: KeySpec = key("title", Kind::Text, "What it is, in a few words.");
pub(super) const NOTE: KeySpec = key("note", Kind::Text, "A remark, such as where the figures come from.");
pub(super) const POWER: KeySpec = key("power_w", Kind::Number(0.0, 1e7), "Typical power, W.");
pub(super) const PRICE: KeySpec = key("price_usd", Kind::Number(0.0, 1e10), "Price, US dollars.");
const GENERATION: Kind = Kind::Integer(0, 99);
pub(super) const LANES: Kind = Kind::Integer(1, 64);
pub(super) const TFLOPS: Kind = Kind::Number(0.0, 1e7);

static SYSTEM: TableSpec = TableSpec {
    name: "catalogue.system",
    doc: "A node, for `system = \"NAME\"`.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key(
            "node",
            Kind::Part(&NODE),
            "What it is made of: the keys of [node]. Each replaces that of the row in `like`.",
        )
        .required(),
        key("transport", Kind::Choice(TRANSPORTS), "The transport that it is offered with."),
        POWER,
        PRICE,
    ],
};

static GPU: TableSpec = TableSpec {
    name: "catalogue.gpu",
    doc: "A GPU. Compute rates are dense.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("vendor", Kind::Text, "The maker."),
        key("architecture", Kind::Named("a name", "Hopper"), "The architecture.").required(),
        key("form", Kind::Text, "The form of the board, such as SXM5."),
        key(
            "sm",
            Kind::Integer(0, 999),
            "Compute capability times ten: NCCL's choices depend on it. 0 if it is not NVIDIA's.",
        ),
        key("gcn", Kind::Text, "The target name of an AMD GPU, such as gfx942."),
        key("memory_type", Kind::Text, "The kind of memory."),
        key("memory_gb", Kind::Number(0.0, 1e6), "Memory, GB.").required(),
        key("memory_GBps", Kind::Figure(Unit::GBps), "Peak rate of its memory, reads and writes together.").required(),
        key("tf32_tflops", TFLOPS, "TF32 matrix rate, TFLOP/s."),
        key("bf16_tflops", TFLOPS, "BF16 matrix rate, TFLOP/s."),
        key("fp16_tflops", TFLOPS, "FP16 matrix rate, TFLOP/s."),
        key("fp8_tflops", TFLOPS, "FP8 matrix rate, TFLOP/s."),
        key("fp4_tflops", TFLOPS, "FP4 matrix rate, TFLOP/s."),
        key("nvlink_gen", GENERATION, "Generation of its NVLinks."),
        key("nvlinks", Kind::Integer(0, 1024), "Number of its links to other GPUs."),
        key(
            "link",
            Kind::Named("an `nvlink` row", "xgmi-gfx942"),
            "The kind of those links, in place of `nvlink_gen`.",
        ),
        key("c2c_GBps", Kind::Figure(Unit::GBps), "Rate to its CPU by a chip-to-chip link."),
        key("pcie_gen", Kind::Integer(1, 99), "PCIe generation.").required(),
        key("pcie_lanes", Kind::Integer(1, 16), "PCIe lanes.").required(),
        POWER,
        PRICE,
    ],
};

static NVLINK: TableSpec = TableSpec {
    name: "catalogue.nvlink",
    doc: "A kind of link between GPUs.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("generation", GENERATION, "The generation of NVLink by which GPUs and chips name it; 0 for other links.")
            .required(),
        key("lanes", LANES, "Lanes of a link, one direction."),
        key("links_per_gpu", Kind::Integer(1, 1024), "Links of a GPU that has them all."),
        key("link_GBps", Kind::Figure(Unit::GBps), "Net rate of a link.").required(),
        key("raw_link_GBps", Kind::Figure(Unit::GBps), "Signalling rate of a link."),
        key("payload_bytes", Kind::Figure(Unit::Bytes), "Payload of a full packet.").required(),
        key("header_bytes", Kind::Figure(Unit::Bytes), "Header of a packet.").required(),
    ],
};

static NVSWITCH: TableSpec = TableSpec {
    name: "catalogue.nvswitch",
    doc: "An NVSwitch chip.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("nvlink_gen", GENERATION, "NVLink generation of its ports.").required(),
        key("ports", Kind::Integer(0, 65_536), "Ports of one NVLink each.").required(),
        key("in_switch_reduction", Kind::Boolean, "It reduces and multicasts (NVLS).").required(),
        key("forwarding", Kind::Text, "How it forwards."),
    ],
};

static PCIE: TableSpec = TableSpec {
    name: "catalogue.pcie",
    doc: "A generation of PCIe.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("generation", Kind::Integer(1, 99), "The generation by which slots and cards name it.").required(),
        key("gt_per_lane", Kind::Number(0.1, 10_000.0), "Signalling rate of a lane, GT/s.").required(),
        key("encoding", Kind::Text, "The line code.").required(),
        key("modulation", Kind::Text, "The modulation."),
        key("lane_GBps", Kind::Figure(Unit::GBps), "Net rate of a lane.").required(),
        key("tlp_overhead_bytes", Kind::Figure(Unit::Bytes), "Bytes of a posted write beyond its payload.").required(),
        key("completion_overhead_bytes", Kind::Figure(Unit::Bytes), "Bytes of a completion beyond its payload."),
    ],
};

static C2C: TableSpec = TableSpec {
    name: "catalogue.c2c",
    doc: "A link between a GPU and its CPU.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("link_GBps", Kind::Figure(Unit::GBps), "Net rate.").required(),
        key("payload_bytes", Kind::Figure(Unit::Bytes), "Payload of a full packet.").required(),
        key("header_bytes", Kind::Figure(Unit::Bytes), "Header of a packet.").required(),
    ],
};

static SOCKET_LINK: TableSpec = TableSpec {
    name: "catalogue.socket_link",
    doc: "A link between CPU sockets.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("gt_per_lane", Kind::Number(0.1, 10_000.0), "Signalling rate of a lane, GT/s."),
        key("lanes", LANES, "Lanes of a link."),
        key("raw_link_GBps", Kind::Figure(Unit::GBps), "Signalling rate of a link."),
        key("link_GBps", Kind::Figure(Unit::GBps), "Net rate of a link.").required(),
        key("peer_header_bytes", Kind::Figure(Unit::Bytes), "Header of a line of 64 B of peer traffic."),
        key("links_typical", Kind::Text, "How many run in parallel, as built."),
    ],
};

static HOST: TableSpec = TableSpec {
    name: "catalogue.host",
    doc: "What the root complex of a CPU does to traffic that passes through it. An absent limit is none.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key(
            "peer_payload_bytes",
            Kind::Figure(Unit::Bytes),
            "Payload of the packets in which peer traffic leaves a root port.",
        ),
        key(
            "gpu_read_GBps",
            Kind::Figure(Unit::GBps),
            "What a NIC reads from GPUs on the other side of a root complex.",
        ),
        key("quadrant_GBps", Kind::Figure(Unit::GBps), "What the root ports of a quadrant have to memory together."),
        key(
            "memory_share",
            Kind::Number(0.001, 1.0),
            "Share of the memory's nominal rate that reads and writes have together.",
        ),
    ],
};

static NVME: TableSpec = TableSpec {
    name: "catalogue.nvme",
    doc: "An NVMe drive.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("pcie_gen", Kind::Integer(1, 99), "PCIe generation.").required(),
        key("pcie_lanes", Kind::Integer(1, 16), "PCIe lanes.").required(),
        key("read_GBps", Kind::Figure(Unit::GBps), "Sequential reads.").required(),
        key("write_GBps", Kind::Figure(Unit::GBps), "Sequential writes.").required(),
        key("read_latency_us", Kind::Number(0.0, 1e6), "Latency of a read, us.").required(),
        key("write_latency_us", Kind::Number(0.0, 1e6), "Latency of a write, us.").required(),
    ],
};

static COPY: TableSpec = TableSpec {
    name: "catalogue.copy",
    doc: "A way in which software copies between host and GPU memory.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("launch_ns", Kind::Figure(Unit::Nanoseconds), "From the call to the first byte.").required(),
        key("to_gpu_GBps", Kind::Figure(Unit::GBps), "What one processor writes to a GPU, if it copies itself."),
        key("from_gpu_GBps", Kind::Figure(Unit::GBps), "What one processor reads from a GPU, if it copies itself."),
    ],
};

static NIC: TableSpec = TableSpec {
    name: "catalogue.nic",
    doc: "A NIC.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("ports", Kind::Integer(1, 64), "Ports that it drives at once at `port_gbit`.").required(),
        key("port_gbit", Kind::Figure(Unit::Gbit), "Rate of a port.").required(),
        key("pcie_gen", Kind::Integer(1, 99), "PCIe generation.").required(),
        key("pcie_lanes", Kind::Integer(1, 16), "PCIe lanes.").required(),
        key("protocols", Kind::List(&Kind::Text), "What it speaks.").required(),
        key("max_ports", Kind::Integer(1, 64), "Ports on the card, at whatever rate."),
        key("max_connections", Kind::Integer(1, 1 << 31), "Queue pairs at most."),
        POWER,
        key("max_power_w", Kind::Number(0.0, 1e6), "Highest power, W."),
        PRICE,
    ],
};

static SWITCH: TableSpec = TableSpec {
    name: "catalogue.switch",
    doc: "A network switch.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("asic", Kind::Text, "The switching silicon.").required(),
        key("family", Kind::Choice(&["infiniband", "ethernet"]), "The network it belongs to.").required(),
        key("ports", Kind::Integer(1, 65_536), "Ports of `port_gbit`.").required(),
        key("port_gbit", Kind::Figure(Unit::Gbit), "Rate of a port.").required(),
        key("max_ports", Kind::Integer(1, 65_536), "Ports that can be had by splitting."),
        key("latency_ns", Kind::Figure(Unit::Nanoseconds), "Latency of a packet, without cable and FEC.").required(),
        key("min_latency_ns", Kind::Figure(Unit::Nanoseconds), "The least latency that a source states."),
        key("max_latency_ns", Kind::Figure(Unit::Nanoseconds), "The greatest latency that a source states."),
        key("packets_per_ns", Kind::Number(0.0, 1e6), "Packet rate, 10^9 a second."),
        key("connectors", Kind::Integer(1, 65_536), "Cages, where one holds several ports."),
        key("sharp", Kind::Text, "In-network reduction."),
        key("flow_control", Kind::Text, "Flow control, in words."),
        key("ecn", Kind::Text, "Congestion marks, in words."),
        key("buffer_mb", Kind::Number(0.0, 1e6), "Packet buffer, MB."),
        key("forwarding", Kind::Choice(&["cut-through", "store-and-forward"]), "How it forwards.").required(),
        POWER,
        PRICE,
    ],
};

static TRANSPORT: TableSpec = TableSpec {
    name: "catalogue.transport",
    doc: "What a network protocol costs. Only those that `transport.kind` can name are used.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("packet_overhead_bytes", Kind::Figure(Unit::Bytes), "Wire bytes of a packet beyond its payload.")
            .required(),
        key("mtu_bytes", Kind::Figure(Unit::Bytes), "Default payload of a packet.").required(),
        key("extra_ns_per_side", Kind::Figure(Unit::Nanoseconds), "Latency added at each end, beyond the NIC's.")
            .required(),
        key("family", Kind::Choice(&["infiniband", "ethernet"]), "The kind of switch that it runs over.").required(),
        key("lossless", Kind::Boolean, "The network drops nothing.").required(),
    ],
};

static LATENCY: TableSpec = TableSpec {
    name: "catalogue.latency",
    doc: "The latency of a part of a path, one way. The names are fixed: `fabricsim catalog --kind latency`.",
    keys: &[LIKE, TITLE, NOTE, key("latency_ns", Kind::Figure(Unit::Nanoseconds), "One way.").required()],
};

static CABLE: TableSpec = TableSpec {
    name: "catalogue.cable",
    doc: "A kind of network cable. A run is of the kind that is just long enough.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("delay_ns_per_m", Kind::Number(0.0, 1000.0), "Propagation delay of a metre, ns.").required(),
        key("min_delay_ns_per_m", Kind::Number(0.0, 1000.0), "The least that a source states, ns."),
        key("max_delay_ns_per_m", Kind::Number(0.0, 1000.0), "The greatest that a source states, ns."),
        key("backplane", Kind::Boolean, "It is a part of a machine, and no network is cabled with it."),
        key("max_m", Kind::Number(0.0, 100_000.0), "The longest run, m.").required(),
        key("transceivers", Kind::Integer(0, 2), "Transceivers of a cable.").required(),
        key("transceiver_power_w", Kind::Number(0.0, 1000.0), "Power of a transceiver, W."),
        PRICE,
    ],
};
