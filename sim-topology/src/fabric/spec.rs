//! What a fabric is asked to be.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use sim_core::units::{Bytes, Rate, Span};

use crate::catalogue::UnknownName;
use crate::node::NodeSpec;
use crate::text;

/// A cluster: so many equal nodes, and the network between them.
///
/// Everything but the node and the count has a default: rail-optimized, InfiniBand, 1:1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricSpec {
    /// The node.
    pub node: NodeSpec,
    /// How many nodes.
    pub nodes: u32,
    /// How many nodes share an NVLink domain; as many as the node's `max_nodes_per_domain` allows if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_per_domain: Option<u32>,
    /// How the leaves are arranged.
    #[serde(default)]
    pub fabric: FabricKind,
    /// Tiers of switches, 1 to 3; the fewest that do if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiers: Option<u32>,
    /// Number of leaves; the fewest that do if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<u32>,
    /// Number of spines; the fewest that do if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spines: Option<u32>,
    /// Number of cores; the fewest that do if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Number of pods (leaves that share spines) under cores; the fewest that do if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<u32>,
    /// Nodes of a pod, in place of `pods`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_nodes: Option<u32>,
    /// Planes: ports into which each NIC is split, each cabled to a network of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planes: Option<u32>,
    /// Ports of the switches of a k-ary fat tree; the least that fits if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k: Option<u32>,
    /// The shape of a dragonfly; the least balanced one that fits if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dragonfly: Option<DragonflySpec>,
    /// Rate to a leaf's NICs over rate to its spines: 1 is non-blocking, 2 is 2:1, 0.5 has spare uplinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oversubscription: Option<f64>,
    /// Rate to a spine's leaves over rate to its cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_oversubscription: Option<f64>,
    /// The leaf's catalogue name; by transport and NIC rate if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// The spine's catalogue name; the leaf's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spine_switch: Option<String>,
    /// The core's catalogue name; the spine's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_switch: Option<String>,
    /// Rate of a link between leaf and spine, one direction; that of a NIC port if absent.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text::rate_opt")]
    pub uplink_rate: Option<Rate>,
    /// Rate of a link between spine and core, one direction; that of an uplink if absent.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text::rate_opt")]
    pub core_rate: Option<Rate>,
    /// Cable from NIC to leaf in metres.
    #[serde(default = "nic_cable")]
    pub nic_cable_m: f64,
    /// Cable between leaves and spines (inside a group of a dragonfly) in metres.
    #[serde(default = "switch_cable")]
    pub switch_cable_m: f64,
    /// Cable between spines and cores (between groups of a dragonfly) in metres; as between leaves and spines if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_cable_m: Option<f64>,
    /// Latency of every network link, in place of cables', error correction's and switches'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_latency: Option<Span>,
    /// What runs over the network.
    #[serde(default)]
    pub transport: TransportKind,
    /// Payload of a network packet; the transport's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Bytes>,
    /// Wire bytes of a network packet beyond its payload; the transport's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_overhead: Option<Bytes>,
    /// Use only the first so many GPUs of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<u32>,
    /// Other NICs than the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nics: Option<NicOverride>,
    /// How one of several equal paths is chosen; by transport if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_choice: Option<PathChoice>,
    /// The catalogue's system that the node is, whose power and price a bill of materials takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
}

/// The most tiers of switches.
pub(super) const MOST_TIERS: u32 = 3;

const fn nic_cable() -> f64 {
    3.0
}
const fn switch_cable() -> f64 {
    20.0
}

impl FabricSpec {
    /// The node as it is built: with the GPUs and NICs that the fabric asks for.
    ///
    /// # Errors
    /// If there are no such numbers of them.
    pub fn node_as_built(&self) -> Result<NodeSpec, super::BuildError> {
        super::build::adapt(self)
    }

    /// `nodes` of `node` with all defaults.
    #[must_use]
    pub fn new(node: NodeSpec, nodes: u32) -> Self {
        Self {
            node,
            nodes,
            nodes_per_domain: None,
            fabric: FabricKind::default(),
            tiers: None,
            leaves: None,
            spines: None,
            cores: None,
            pods: None,
            pod_nodes: None,
            planes: None,
            k: None,
            dragonfly: None,
            oversubscription: None,
            core_oversubscription: None,
            switch: None,
            spine_switch: None,
            core_switch: None,
            uplink_rate: None,
            core_rate: None,
            nic_cable_m: nic_cable(),
            switch_cable_m: switch_cable(),
            core_cable_m: None,
            link_latency: None,
            transport: TransportKind::default(),
            mtu: None,
            packet_overhead: None,
            gpus_per_node: None,
            nics: None,
            path_choice: None,
            system: None,
        }
    }
}

/// How the leaves are arranged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FabricKind {
    /// One switch for all NICs.
    SingleSwitch,
    /// All NICs of a node on one leaf; leaves joined by spines.
    LeafSpine,
    /// NIC r of every node on the leaves of rail r; leaves joined by spines.
    #[default]
    RailOptimized,
    /// Each rail a network of its own; from rail to rail only over NVLink.
    RailOnly,
    /// The k-ary fat tree: three tiers of switches of k ports, k³/4 NIC ports.
    FatTree,
    /// Two ports a NIC to two leaves of a rail, each side with spines of its own.
    DualTor,
    /// Each port of a NIC in a rail-optimized network of its own.
    MultiPlane,
    /// Groups of routers, joined all to all inside and group to group.
    Dragonfly,
}

impl FabricKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::RailOptimized,
        Self::LeafSpine,
        Self::SingleSwitch,
        Self::RailOnly,
        Self::FatTree,
        Self::DualTor,
        Self::MultiPlane,
        Self::Dragonfly,
    ];

    /// Its name in scenarios.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SingleSwitch => "single-switch",
            Self::LeafSpine => "leaf-spine",
            Self::RailOptimized => "rail-optimized",
            Self::RailOnly => "rail-only",
            Self::FatTree => "fat-tree",
            Self::DualTor => "dual-tor",
            Self::MultiPlane => "multi-plane",
            Self::Dragonfly => "dragonfly",
        }
    }
}

/// What runs over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransportKind {
    /// InfiniBand.
    #[default]
    Infiniband,
    /// RoCEv2.
    Roce,
    /// AWS EFA.
    Efa,
    /// Kernel TCP sockets.
    Tcp,
    /// Google's GPUDirect-TCPXO.
    Tcpxo,
}

impl TransportKind {
    /// All transports.
    pub const ALL: [Self; 5] = [Self::Infiniband, Self::Roce, Self::Efa, Self::Tcp, Self::Tcpxo];

    /// Its name in scenarios and in the catalogue.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Infiniband => "infiniband",
            Self::Roce => "roce",
            Self::Efa => "efa",
            Self::Tcp => "tcp",
            Self::Tcpxo => "tcpxo",
        }
    }
}

/// How one of several equal paths is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathChoice {
    /// By a hash of source NIC, destination NIC and entropy (ECMP); flows may collide.
    Hash,
    /// By the destination's place on its leaf plus the entropy, as InfiniBand's static routing tables do; a permutation
    /// within the uplinks' number doesn't collide.
    Destination,
    /// Each switch deals all destinations in turn over its equal ports, as a subnet manager's min-hop tables do: even in
    /// number at each switch, without regard to what the switches before it did.
    MinHop,
}

impl PathChoice {
    /// All ways to choose.
    pub const ALL: [Self; 3] = [Self::Hash, Self::Destination, Self::MinHop];

    /// Its name in scenarios.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hash => "hash",
            Self::Destination => "destination",
            Self::MinHop => "min-hop",
        }
    }
}

/// The shape of a dragonfly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DragonflySpec {
    /// NIC ports of a router.
    pub p: u32,
    /// Routers of a group.
    pub a: u32,
    /// Links of a router to other groups.
    pub h: u32,
    /// Groups; as many as the NICs need if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<u32>,
}

macro_rules! names {
    ($type:ident, $what:literal, [$($alias:literal => $value:ident),*]) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                let folded = text.trim().to_lowercase().replace('_', "-");
                match folded.as_str() {
                    $($alias => return Ok(Self::$value),)*
                    _ => {}
                }
                let hit = Self::ALL.into_iter().find(|v| v.as_str() == folded);
                hit.ok_or_else(|| UnknownName::new($what, text, Self::ALL.map(Self::as_str)))
            }
        }
    };
}
names!(FabricKind, "fabric", ["rail" => RailOptimized, "rails" => RailOptimized, "clos" => LeafSpine, "single" => SingleSwitch, "hpn" => DualTor]);
names!(PathChoice, "path choice", ["ecmp" => Hash, "d-mod-k" => Destination, "min_hop" => MinHop]);
names!(TransportKind, "transport", ["ib" => Infiniband, "rocev2" => Roce, "socket" => Tcp]);

/// NICs in place of the node's own: `8x400Gb/s`.
///
/// Where the count differs from the node's, they are dealt evenly to the GPUs, each beside its GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NicOverride {
    /// How many a node has.
    pub count: u32,
    /// Rate of one, one direction.
    #[serde(with = "text::rate")]
    pub rate: Rate,
}

impl FromStr for NicOverride {
    type Err = String;

    /// Reads `8x400Gb/s` or `8 x 50 GB/s`.
    fn from_str(input: &str) -> Result<Self, String> {
        let shown: String = input.chars().take(40).collect();
        let form = || format!("`{shown}` is not `COUNTxRATE`; write for instance `8x400Gb/s`");
        let (count, rate) = input.split_once(['x', 'X', '×']).ok_or_else(form)?;
        let count = count.trim().parse().map_err(|_| form())?;
        let rate = rate.trim().parse::<Rate>().map_err(|e| format!("{}: {e}", form()))?;
        Ok(Self { count, rate })
    }
}
