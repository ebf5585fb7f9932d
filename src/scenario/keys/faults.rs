//! The tables of `[[fault]]`, one for each kind.

use super::{KeySpec, Kind, TableSpec, key};

/// The kinds of fault and their tables.
pub(crate) static FAULTS: &[(&str, &TableSpec)] = &[
    ("degraded", &DEGRADED),
    ("flapping", &FLAPPING),
    ("straggler", &STRAGGLER),
    ("dead", &DEAD),
    ("nic_map", &NIC_MAP),
    ("miscabled", &MISCABLED),
    ("acs", &ACS),
    ("pause-storm", &PAUSE_STORM),
];

const KIND_KEY: KeySpec = key(
    "kind",
    Kind::Choice(&["degraded", "flapping", "straggler", "dead", "nic_map", "miscabled", "acs", "pause-storm"]),
    "Which kind of fault this table is.",
)
.required();
const TARGET: KeySpec = key(
    "target",
    Kind::Named("a device, a link or a pattern", "node0.nic2"),
    "What it befalls: a device (`node3.nic2`, `leaf4`), a node (`node3`), one direction of a link \
     (`leaf3->spine1`), both (`leaf3<->spine1`), one of several parallel links (`leaf3->spine1#0`). `*` stands for any \
     text between dots (`node*.nic2`, `leaf4->*`).",
)
.required();
const PICK: KeySpec = key(
    "pick",
    Kind::Integer(1, 1_000_000),
    "Only so many of what the target names, drawn with the seed. Without it, all.",
);

static DEGRADED: TableSpec = TableSpec {
    name: "fault.degraded",
    doc: "A slower link. Of a NIC its cable is meant, of another device all its links. One of `rate`, `factor`, `lanes`, \
          `links`, `speed` sets the rate (`lanes` and `speed` may stand together).",
    keys: &[
        KIND_KEY,
        TARGET,
        PICK,
        key("rate", Kind::Rate, "Its rate, in place of its own."),
        key("factor", Kind::Number(0.0, 1e9), "Its rate as a part of its own: above 0, at most 1."),
        key("lanes", Kind::Integer(1, 32), "Lanes that are left of a PCIe link."),
        key("links", Kind::Integer(1, 1024), "NVLinks that are left of a GPU's bundle."),
        key("speed", Kind::Integer(1, 7), "The PCIe generation that a link is trained down to."),
        key("added_latency", Kind::Time, "Latency beyond its own, one way.").default("0 us"),
        key(
            "bit_error_rate",
            Kind::Number(0.0, 1.0),
            "Probability that a bit is wrong after error correction. What is damaged is sent again, with all that followed \
             it within a round trip. Excludes `packet_loss`.",
        ),
        key(
            "packet_loss",
            Kind::Number(0.0, 1.0),
            "Probability that a packet is lost, and sent again. On links of the network whose packets are played, each is lost or not \
             by the draws of the seed; elsewhere what is sent again takes its share of the rate.",
        ),
    ],
};

static FLAPPING: TableSpec = TableSpec {
    name: "fault.flapping",
    doc: "A link that is down at times. Traffic waits for the end of an outage; what is on the wire survives it.",
    keys: &[
        KIND_KEY,
        TARGET,
        PICK,
        key("down_for", Kind::Time, "How long each outage lasts.").required(),
        key("every", Kind::Time, "From the start of an outage to the start of the next. Without it, there is one."),
        key("first", Kind::Time, "Start of the first outage, from the start of each simulation.").default("0 us"),
        key("recovery", Kind::Time, "Time after each outage until traffic flows again.").default("0 us"),
    ],
};

static STRAGGLER: TableSpec = TableSpec {
    name: "fault.straggler",
    doc: "A GPU that is slower than its like. All ranks of a collective wait for it; a transfer that it starts begins `delay` later.",
    keys: &[
        KIND_KEY,
        TARGET,
        PICK,
        key("slowdown", Kind::Number(1.0, 1e6), "How many times as long its part of each step takes.").default("1"),
        key("delay", Kind::Time, "How much later than the others it starts each call.").default("0 us"),
    ],
};

static DEAD: TableSpec = TableSpec {
    name: "fault.dead",
    doc: "A link or device that doesn't work, with a device all its links. Routes go around it; a GPU that has lost its NIC \
          takes the nearest other, one that has lost its NVLinks goes over PCIe.",
    keys: &[KIND_KEY, TARGET, PICK],
};

static NIC_MAP: TableSpec = TableSpec {
    name: "fault.nic_map",
    doc: "GPUs that use other NICs than the near ones, as a wrong topology file or a container makes them do. The target is a \
          node, a range (`node0-3`) or all (`node*`).",
    keys: &[
        KIND_KEY,
        TARGET,
        PICK,
        key(
            "nics",
            Kind::Map(&Kind::Named("a NIC of the node", "nic0")),
            "The NIC of each GPU: `{ gpu3 = \"nic0\" }`.",
        )
        .required(),
    ],
};

static MISCABLED: TableSpec = TableSpec {
    name: "fault.miscabled",
    doc: "Two NICs whose cables were swapped at the leaves. The library goes by the NIC's number and doesn't know.",
    keys: &[KIND_KEY, TARGET, key("swap", Kind::Named("the other NIC", "node3.nic5"), "The other NIC.").required()],
};

static ACS: TableSpec = TableSpec {
    name: "fault.acs",
    doc: "PCIe access control services left on: peer traffic below a switch goes up to the root port and back. The target is a \
          node, a range or all.",
    keys: &[KIND_KEY, TARGET, PICK],
};

static PAUSE_STORM: TableSpec = TableSpec {
    name: "fault.pause-storm",
    doc: "A device that pauses the port that feeds it without a reason: a NIC whose receive pipeline has stopped, a hung switch. Only \
          where packets are played, with pauses or credits. The target is a NIC, a node, a switch or a link (`leaf0->node0.nic0`).",
    keys: &[
        KIND_KEY,
        TARGET,
        PICK,
        key("from", Kind::Time, "From when on, from the start of each simulation.").default("0 us"),
        key("until", Kind::Time, "Until when. Without it, for ever; `transport.pfc.watchdog` drops what is held then."),
    ],
};
