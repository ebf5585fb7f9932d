//! The tables of a scenario.

use super::super::transport::controls;
use super::fabric::FABRIC;
use super::node::NODE;
use super::transport::{PATH_CHOICES, RECOVERIES, TRANSPORT};
use super::{CATALOGUE, KeySpec, Kind, TableSpec, key};

pub(super) const COUNT: Kind = Kind::Integer(1, 1_000_000);

/// The names of operations, as nccl-tests spells them, and those it doesn't have.
pub(crate) const OPERATIONS: &[&str] = &[
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "alltoall",
    "alltoallv",
    "broadcast",
    "reduce",
    "sendrecv",
    "gather",
    "scatter",
    "dispatch",
    "combine",
    "barrier",
];
/// The algorithms that can be forced.
pub(crate) const ALGORITHMS: &[&str] = sim_collectives::algorithms::NAMES;
/// NCCL's protocols.
pub(crate) const PROTOCOLS: &[&str] = &["LL", "LL128", "Simple"];
/// nccl-tests' data types.
pub(crate) const DATATYPES: &[&str] =
    &["float", "half", "bfloat16", "double", "int8", "uint8", "int32", "uint32", "int64", "uint64", "f8e4m3", "f8e5m2"];
/// nccl-tests' operators of reductions.
pub(crate) const REDUCTIONS: &[&str] = &["sum", "prod", "min", "max", "avg", "mulsum"];
/// The transports.
pub(crate) const TRANSPORTS: &[&str] = &["infiniband", "roce", "efa", "tcp", "tcpxo"];
/// What carries a transfer.
pub(crate) const CARRIERS: &[&str] = &["auto", "direct", "host", "memcpy", "gdrcopy", "nvlink", "pcie"];
/// Vendors, or architectures, of CPUs.
pub(super) const CPU_VENDORS: &[&str] = &["intel", "amd", "arm", "power"];
/// The patterns of transfers.
pub(crate) const PATTERNS: &[&str] = &["incast", "permutation", "all_to_all", "shift"];

/// NCCL's classes of paths.
pub(crate) const PATH_TYPES: &[&str] =
    &["LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"];

/// The scenario itself.
pub static ROOT: TableSpec = TableSpec {
    name: "scenario",
    doc: "The keys at the top of the file, before any `[table]`.",
    keys: &[
        key(
            "schema",
            Kind::Integer(1, 1_000_000),
            "Version of this format; a newer one is refused, an older one read.",
        )
        .default("1"),
        key("name", Kind::Text, "A short name, printed in results. Without it, the file's name."),
        key("description", Kind::Text, "What the scenario is about, in any length."),
        key(
            "extends",
            Kind::Named("a path", "base.toml"),
            "Another scenario whose keys hold where this file doesn't set them, relative to this file. Tables are \
             merged key by key, arrays are replaced.",
        ),
        key("seed", Kind::Integer(0, i64::MAX), "Seed of all random streams; the same seed gives the same result.")
            .default("1"),
        key(
            "cluster",
            Kind::Named("a catalogue name", "superpod-b200-4su"),
            "A reference cluster: its system, nodes, network and transport hold where this file doesn't set them.",
        ),
        key("system", Kind::Named("a catalogue name", "hgx-h100"), "The node, by its name in `fabricsim catalog`."),
        key("node", Kind::Table(&NODE), "The node, described in place of `system`."),
        key("nodes", COUNT, "How many nodes.").default("1"),
        key("gpus_per_node", COUNT, "Use only the first so many GPUs of each node. Without it, all."),
        key("nics", Kind::Named("COUNTxRATE", "8x400Gb/s"), "The NICs of each node, in place of the system's own."),
        key(
            "nvlink",
            Kind::Rate,
            "Rate of all NVLinks of a GPU together, one direction, in place of the system's own.",
        ),
        key(
            "cpu",
            Kind::Choice(CPU_VENDORS),
            "Vendor of the hosts' CPUs, in place of the system's own: boxes of one kind come with either, and NCCL's choice of \
             protocols depends on it.",
        ),
        key(
            "acs",
            Kind::Boolean,
            "PCIe access control services, in place of the system's own: peers meet at the root port.",
        ),
        key(
            "nodes_per_domain",
            COUNT,
            "How many nodes share an NVLink domain (an NVL72 rack: up to 18 trays). Without it, as many as the system \
             allows.",
        ),
        key("fabric", Kind::Table(&FABRIC), "The network between the nodes."),
        key("transport", Kind::Table(&TRANSPORT), "The protocol on the network."),
        key("software", Kind::Table(&SOFTWARE), "The communication library and how it is started."),
        key(
            "profile",
            Kind::Map(&Kind::Scalar),
            "Timing parameters that replace the built-in ones, by name. `from = \"FILE\"` takes those of a file, as `fabricsim fit` \
             writes it, below them; `origin`, `source`, `spread` and `form` say what is known of them.",
        ),
        key("workload", Kind::Variants(WORKLOADS), "What to run, in order."),
        key("fault", Kind::Variants(super::FAULTS), "What is broken, or slower than it should be."),
        key(
            "design",
            Kind::Designs,
            "Ways to play the scenario, side by side: each table has a `name` and the keys that differ, which are laid upon the \
             rest as a file upon what it extends. `run` plays all and shows the first in full, `--design NAME` takes one.",
        ),
        key("limits", Kind::Table(&LIMITS), "When to stop early."),
        key("observe", Kind::Table(&super::OBSERVE), "What is recorded of packets over time."),
        key(
            "catalogue",
            Kind::Table(&CATALOGUE),
            "Rows of your own, new or in place of built-in ones: `[catalogue.switch.qm9700]`, then `latency_ns = 300`.",
        ),
    ],
};

static SOFTWARE: TableSpec = TableSpec {
    name: "software",
    doc: "The communication library.",
    keys: &[
        key("nccl", Kind::Named("a version", "2.21"), "NCCL version whose choices are modelled, from 2.18 on.")
            .default("2.30"),
        key("env", Kind::Map(&Kind::Scalar), "NCCL environment variables, such as `NCCL_ALGO = \"Ring\"`."),
        key(
            "graph",
            Kind::Boolean,
            "Calls are captured in a CUDA graph: a kernel starts sooner, and the host holds nobody up.",
        )
        .default("false"),
        key(
            "gpus_per_thread",
            Kind::Integer(1, 1024),
            "GPUs for which one host thread starts kernels in turn (`-g` of nccl-tests); small calls then take the host's time.",
        )
        .default("1"),
        key(
            "channels",
            Kind::Table(&CHANNELS),
            "Channels in place of those that the model of NCCL's search finds, as `fabricsim import` reads them from a graph file \
             or log.",
        ),
        key("pxn", Kind::Boolean, "Messages may go through a GPU of the same node that is on the right rail.")
            .default("true"),
        key(
            "nic_policy",
            Kind::Named("nearest, round-robin or fixed:N", "nearest"),
            "Which NICs a GPU uses: those of the closest path class, shared evenly; NIC g mod NICs; or one for all.",
        )
        .default("nearest"),
        key(
            "nic_map",
            Kind::List(&Kind::List(&Kind::Integer(0, 1023))),
            "The NICs of each GPU of a node, in place of `nic_policy`: [[0], [1], [2, 3], ...].",
        ),
        key(
            "gpudirect",
            Kind::Named("LOC, PIX, PXB, P2C, PHB or SYS", "PXB"),
            "How far a NIC or a drive may be from a GPU whose memory it reads and writes; beyond, data go through host \
             memory. P2C is PXB, and over a chip-to-chip link to the CPU's own NICs. LOC is never.",
        )
        .default("P2C"),
    ],
};

static CHANNELS: TableSpec = TableSpec {
    name: "software.channels",
    doc: "The channels of a communicator as NCCL stated them. What is left out is as the modelled search has it.",
    keys: &[
        key("source", Kind::Text, "The file that they were read from, for the report."),
        key("count", Kind::Integer(1, 64), "Channels of rings and trees, after NCCL doubled those of its search."),
        key("ring", Kind::Table(&GRAPH), "The search's ring."),
        key("tree", Kind::Table(&GRAPH), "The search's tree."),
        key("nvls", Kind::Table(&GRAPH), "The search's NVLS. Without effect where NVLS isn't possible."),
        key(
            "orders",
            Kind::List(&Kind::List(&Kind::Integer(0, 1_000_000))),
            "The order of ranks in the ring of each channel: of all ranks, or of a node's by their place in it. Channels beyond the \
             list begin it anew. Trees take the same order inside a node.",
        ),
    ],
};

static GRAPH: TableSpec = TableSpec {
    name: "software.channels.graph",
    doc: "One graph of NCCL's search: the form of `ring`, `tree` and `nvls`.",
    keys: &[
        key("channels", Kind::Integer(1, 64), "Channels of the search."),
        key("bw_intra", Kind::Rate, "Speed of a channel inside a node."),
        key("bw_inter", Kind::Rate, "Speed of a channel between nodes."),
        key("type_intra", Kind::Choice(PATH_TYPES), "Worst class of path between GPUs."),
        key("type_inter", Kind::Choice(PATH_TYPES), "Worst class of path between GPUs and NICs."),
        key("pattern", Kind::Integer(1, 6), "NCCL's number: 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS."),
        key("cross_nic", Kind::Boolean, "A channel may leave a node by another NIC than it entered."),
    ],
};

static LIMITS: TableSpec = TableSpec {
    name: "limits",
    doc: "A run stops with exit code 4 when it reaches one of these, and keeps what it has. Each size of a sweep and each \
          transfer workload is counted by itself.",
    keys: &[
        key("events", Kind::Integer(1, i64::MAX), "Number of events."),
        key("time", Kind::Time, "Simulated time."),
        key(
            "stall",
            Kind::Time,
            "Simulated time without a packet that arrives, although there is something to send; 0 is for ever. Without it, 1 s, or \
             what all retries of a sender take, if that is longer. Only where packets are played.",
        ),
    ],
};

static WORKLOADS: &[(&str, &TableSpec)] = &[
    ("collective", &COLLECTIVE),
    ("transfer", &TRANSFER),
    ("step", &super::STEP),
    ("inference", &super::INFERENCE),
    ("kv-transfer", &super::KV_TRANSFER),
    ("failures", &super::FAILURES),
];

pub(super) const KIND_KEY: KeySpec = key(
    "kind",
    Kind::Choice(&["collective", "transfer", "step", "inference", "kv-transfer", "failures"]),
    "Which kind of workload this table is.",
)
.required();
const VIA_KEY: KeySpec = KeySpec {
    default: Some("auto"),
    ..key(
        "via",
        Kind::Choice(CARRIERS),
        "auto: NVLink, else peer-to-peer or GPUDirect as far as they are allowed, else by host memory. direct: never by \
         host memory, whatever the distance. host: always by it. memcpy, gdrcopy: between a GPU and host memory, by the \
         copy engine with its launch, or by the CPU. nvlink: only so. pcie: not over NVLink.",
    )
};
const STAGING_KEY: KeySpec = key(
    "staging",
    Kind::Size(false),
    "Where data stop over in host memory, the size of one of the two buffers there, each full before it is sent on; the \
     size of the whole transfer makes it one copy after the other. Without it, segments of at most 128 KiB.",
);
pub(super) const CLASS_KEY: KeySpec = key(
    "class",
    Kind::Named("the name of a class", "storage"),
    "Over packets: which `[[transport.class]]` carries it. Without it, the first.",
);
pub(super) const RATE_CONTROL_KEY: KeySpec = key(
    "rate_control",
    Kind::Choice(controls::WORDS),
    "Over packets: how its senders slow down, in place of `transport.rate_control`; with the keys of that control's table.",
);
pub(super) const PATHS_KEY: KeySpec = key(
    "path_choice",
    Kind::Choice(PATH_CHOICES),
    "Over packets: how its paths are chosen, in place of `transport.path_choice`: by switches, or as this fabric does it once \
     for a flow.",
);
pub(super) const RECOVERY_KEY: KeySpec = key(
    "recovery",
    Kind::Choice(RECOVERIES),
    "Over packets: what is done about its losses, in place of `transport.recovery`.",
);
pub(super) const QPS_KEY: KeySpec =
    key("qps", Kind::Integer(1, 1024), "Queue pairs over which a transfer is spread, in place of `transport.qps`.");
pub(super) const NAME_KEY: KeySpec = key("name", Kind::Text, "A name for results.");

pub(crate) static COLLECTIVE: TableSpec = TableSpec {
    name: "workload.collective",
    doc: "A collective operation over a sweep of sizes, as nccl-tests runs it.",
    keys: &[
        KIND_KEY,
        NAME_KEY,
        key("op", Kind::Choice(OPERATIONS), "The operation, as nccl-tests spells it.").required(),
        key(
            "sizes",
            Kind::List(&Kind::Size(true)),
            "The sizes to run, in nccl-tests' meaning of size. Excludes `min`, `max` and `factor`.",
        ),
        key("min", Kind::Size(true), "First size of a sweep.").default("8 B"),
        key("max", Kind::Size(true), "Last size of a sweep.").default("8 GiB"),
        key("factor", Kind::Integer(2, 1 << 40), "Ratio of one size of the sweep to the one before.").default("2"),
        key("datatype", Kind::Choice(DATATYPES), "Type of the elements.").default("float"),
        key(
            "reduction",
            Kind::Choice(REDUCTIONS),
            "Operator of a reduction. Sums of some types can be done by NVSwitches, products and averages can't.",
        )
        .default("sum"),
        key("ranks", COUNT, "Use the first so many GPUs. Without it, all."),
        key(
            "group",
            Kind::Ranks,
            "The GPUs that take part, by rank number, in the order of their numbers in the group; ranges may have a \
             stride (\"0-31/8\" is 0, 8, 16, 24). Excludes `ranks`.",
        ),
        key(
            "root",
            Kind::Integer(0, 10_000_000),
            "Root of broadcast, reduce, gather and scatter: its number in the group.",
        )
        .default("0"),
        key(
            "algorithm",
            Kind::Choice(ALGORITHMS),
            "Forces an algorithm, or the rule by which a serving engine chooses (vllm, tensorrt_llm). Without it, what \
             NCCL would choose.",
        ),
        key("protocol", Kind::Choice(PROTOCOLS), "Forces a protocol. Without it, what NCCL would choose."),
        key("channels", Kind::Integer(1, 64), "Forces a number of channels. Without it, what NCCL would choose."),
        key("iterations", Kind::Integer(1, 1_000_000), "Operations that are timed, back to back.").default("20"),
        key("warmup", Kind::Integer(0, 1_000_000), "Operations before those that are timed.").default("1"),
        key(
            "with_previous",
            Kind::Boolean,
            "Runs at the same time as the collective before it, size by size, and shares the links with it. Collectives \
             don't run with transfers.",
        )
        .default("false"),
        key(
            "matrix",
            Kind::List(&Kind::List(&Kind::Size(true))),
            "alltoallv: what each rank sends to each, a row a sender. Excludes the sizes, which follow from it.",
        ),
        key(
            "skew",
            Kind::Number(0.0, 16.0),
            "alltoallv: every rank sends to rank j in proportion to (j + 1)^-skew; 0 is even.",
        ),
        key("tokens", COUNT, "dispatch and combine: tokens of a rank. Excludes the sizes, which follow from it."),
        key("hidden", COUNT, "dispatch and combine: elements of a token.").default("7168"),
        key("experts", COUNT, "dispatch and combine: experts, spread evenly over the ranks.").default("256"),
        key("top_k", Kind::Integer(1, 1024), "dispatch and combine: experts of a token.").default("8"),
        key("top_nodes", COUNT, "dispatch and combine: most nodes of a token. Without it, any."),
        CLASS_KEY,
        RATE_CONTROL_KEY,
        PATHS_KEY,
        RECOVERY_KEY,
    ],
};

pub(crate) static TRANSFER: TableSpec = TableSpec {
    name: "workload.transfer",
    doc: "Point-to-point transfers: a list, or a pattern over ranks.",
    keys: &[
        KIND_KEY,
        NAME_KEY,
        key("list", Kind::Tables(&TRANSFER_ITEM), "Each transfer by itself. Excludes `pattern`."),
        key(
            "pattern",
            Kind::Choice(PATTERNS),
            "incast: all to one. permutation: each to another, drawn with the seed. all_to_all: each to every other. \
             shift: rank i to rank i + shift.",
        ),
        key("size", Kind::Size(false), "Bytes of each transfer of a pattern."),
        key("ranks", COUNT, "A pattern over the first so many GPUs, or NICs. Without it, all."),
        key(
            "endpoints",
            Kind::Choice(&["gpus", "nics"]),
            "Between which devices a pattern sends: nics leaves the hosts out, as packet-level simulators do.",
        )
        .default("gpus"),
        key("target", Kind::Device, "Receiver of an incast. Without it, the first."),
        key("shift", Kind::Integer(1, 10_000_000), "Distance of a shift.").default("1"),
        key("start", Kind::Time, "When the transfers of a pattern start.").default("0 us"),
        key(
            "with_previous",
            Kind::Boolean,
            "Played at the same time as the transfers of the workload before it, from one time 0 on, and shares the links \
             with them; each keeps its name, class and starts. After a step they run beside it: a checkpoint on its way, or \
             traffic of others. Transfers don't run with collectives.",
        )
        .default("false"),
        key(
            "repeat",
            Kind::Boolean,
            "Beside a step: all transfers begin again when the last has arrived, as long as the step runs.",
        )
        .default("false"),
        VIA_KEY,
        STAGING_KEY,
        CLASS_KEY,
        RATE_CONTROL_KEY,
        PATHS_KEY,
        RECOVERY_KEY,
        QPS_KEY,
    ],
};

pub(crate) static TRANSFER_ITEM: TableSpec = TableSpec {
    name: "workload.transfer.list",
    doc: "One transfer.",
    keys: &[
        key("src", Kind::Device, "Sender.").required(),
        key("dst", Kind::Device, "Receiver.").required(),
        key("bytes", Kind::Size(false), "Size.").required(),
        key("start", Kind::Time, "When it starts.").default("0 us"),
        VIA_KEY,
        STAGING_KEY,
        CLASS_KEY,
        RATE_CONTROL_KEY,
        PATHS_KEY,
        RECOVERY_KEY,
        QPS_KEY,
    ],
};
