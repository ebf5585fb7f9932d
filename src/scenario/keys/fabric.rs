//! The keys of `[fabric]`.

use super::tables::COUNT;
use super::transport::TRANSPORT;
use super::{Kind, TableSpec, key};

/// The fabrics that can be built.
const FABRICS: &[&str] =
    &["rail-optimized", "leaf-spine", "single-switch", "rail-only", "fat-tree", "dual-tor", "multi-plane", "dragonfly"];

pub(super) static FABRIC: TableSpec = TableSpec {
    name: "fabric",
    doc: "Switches and cables. Counts are totals over pods and planes; those left out are the smallest that fit.",
    keys: &[
        key(
            "kind",
            Kind::Choice(FABRICS),
            "How leaves are wired: NIC r of every node to the leaves of rail r; nodes filled into leaves one after the \
             other; one big switch; rails that no switch joins; the k-ary fat tree; two ports a NIC to a pair of leaves; \
             each port of a NIC in a network of its own; groups of routers. `docs/fabrics.md` has each with its arithmetic.",
        )
        .default("rail-optimized"),
        key("tiers", Kind::Integer(1, 3), "Tiers of switches. Without it, the fewest that do."),
        key("leaves", COUNT, "Number of leaf switches. Without it, as many as the NICs need."),
        key("spines", COUNT, "Number of spine switches. Without it, from `oversubscription`."),
        key("cores", COUNT, "Number of core switches; asks for a third tier. Without it, as many as the spines need."),
        key("pods", COUNT, "Number of pods (leaves that share spines); asks for a third tier."),
        key("pod_nodes", COUNT, "Nodes of a pod, in place of `pods`; the last pod may be smaller."),
        key(
            "oversubscription",
            Kind::PerTier(0.01, 1000.0),
            "Rate into a leaf from its NICs over its rate to the spines: 1 is non-blocking, 2 halves what can leave, \
             0.5 has spare uplinks. As an array, the second is that of the spines to the cores: [1, 7]. Without it and \
             without `spines`, 1.",
        ),
        key(
            "planes",
            Kind::Integer(1, 16),
            "Of multi-plane and dual-tor fabrics: into how many networks the ports of a NIC go, its rate shared among them. \
             A dual-tor fabric of 1 plane has both leaves of a pair under the same spines. Without it, 2.",
        ),
        key("k", Kind::Integer(2, 1024), "Of a fat tree: ports of its switches. Without it, the least that fits."),
        key("dragonfly", Kind::Table(&DRAGONFLY), "Of a dragonfly: its shape. Without it, the least balanced one."),
        key(
            "switch",
            Kind::Named("a catalogue name", "qm9700"),
            "Model of the leaves, and of spines and cores unless they are named; its radix bounds the ports.",
        ),
        key("spine_switch", Kind::Named("a catalogue name", "7800r4"), "Model of the spines. Without it, the leaves'."),
        key("core_switch", Kind::Named("a catalogue name", "7800r4"), "Model of the cores. Without it, the spines'."),
        key(
            "uplink",
            Kind::Rate,
            "Rate of a link between leaf and spine. Without it, that of a NIC port. A slower link takes a part of a port, \
             as far as the switch can split it.",
        ),
        key("core_link", Kind::Rate, "Rate of a link between spine and core. Without it, that of `uplink`."),
        key("nic_cable", Kind::Length, "Length of the cables between NICs and leaves.").default("3 m"),
        key("switch_cable", Kind::Length, "Length of the cables between leaves and spines (inside a dragonfly's group).")
            .default("20 m"),
        key(
            "core_cable",
            Kind::Length,
            "Length of the cables between spines and cores (between a dragonfly's groups). Without it, `switch_cable`.",
        ),
        key(
            "link_latency",
            Kind::Time,
            "Latency of every link of the network, in place of cables', error correction's and switches': for networks as they are \
             drawn in papers.",
        ),
    ],
};

/// What a cluster of one's own may set: keys of a scenario.
pub(super) static CLUSTER: TableSpec = TableSpec {
    name: "catalogue.cluster.NAME",
    doc: "A cluster for the key `cluster`: the keys of a scenario that make it. With `like`, they go above those of that cluster.",
    keys: &[
        key(
            "like",
            Kind::Named("a catalogue name", "superpod-b200-4su"),
            "The cluster that gives what is not stated here.",
        ),
        key("title", Kind::Text, "What it is, in a few words."),
        key("note", Kind::Text, "A remark on it."),
        key("system", Kind::Named("a catalogue name", "hgx-h100"), "The node."),
        key("nodes", COUNT, "Number of nodes."),
        key("nics", Kind::Named("a count and a rate", "8x400Gb/s"), "The NICs of each node, in place of the system's."),
        key("fabric", Kind::Table(&FABRIC), "The network."),
        key("transport", Kind::Table(&TRANSPORT), "What runs over it."),
    ],
};

/// What a transport preset of one's own may set: keys of `[transport]`.
pub(super) static PRESET: TableSpec = TableSpec {
    name: "catalogue.preset.NAME",
    doc: "A set-up of the transport for the key `transport.preset`. With `like`, its keys go above those of that preset.",
    keys: &[
        key("like", Kind::Named("a catalogue name", "roce-400g"), "The preset that gives what is not stated here."),
        key("title", Kind::Text, "What it is, in a few words."),
        key("note", Kind::Text, "A remark on it."),
        key("transport", Kind::Table(&TRANSPORT), "The keys."),
    ],
};

static DRAGONFLY: TableSpec = TableSpec {
    name: "fabric.dragonfly",
    doc: "The shape of a dragonfly; balanced where a = 2p = 2h. At most a x h + 1 groups see each other.",
    keys: &[
        key("p", Kind::Integer(1, 1024), "NIC ports of a router.").required(),
        key("a", Kind::Integer(1, 1024), "Routers of a group, joined all to all.").required(),
        key("h", Kind::Integer(1, 1024), "Links of a router to other groups.").required(),
        key("groups", COUNT, "Number of groups. Without it, as many as the NICs need."),
    ],
};
