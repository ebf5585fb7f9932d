//! What a fabric is asked to be.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use sim_core::units::{Bytes, Rate};

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
    /// Number of leaves; the fewest that do if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<u32>,
    /// Number of spines; the fewest that do if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spines: Option<u32>,
    /// Rate to a leaf's NICs over rate to its spines: 1 is non-blocking, 2 is 2:1, 0.5 has spare uplinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oversubscription: Option<f64>,
    /// The switch's catalogue name; by transport and NIC rate if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<String>,
    /// Cable from NIC to leaf in metres.
    #[serde(default = "nic_cable")]
    pub nic_cable_m: f64,
    /// Cable between switches in metres.
    #[serde(default = "switch_cable")]
    pub switch_cable_m: f64,
    /// What runs over the network.
    #[serde(default)]
    pub transport: TransportKind,
    /// Payload of a network packet; the transport's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<Bytes>,
    /// Use only the first so many GPUs of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<u32>,
    /// Other NICs than the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nics: Option<NicOverride>,
    /// How one of several equal paths is chosen; by transport if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_choice: Option<PathChoice>,
}

const fn nic_cable() -> f64 {
    3.0
}
const fn switch_cable() -> f64 {
    20.0
}

impl FabricSpec {
    /// `nodes` of `node` with all defaults.
    #[must_use]
    pub fn new(node: NodeSpec, nodes: u32) -> Self {
        Self {
            node,
            nodes,
            nodes_per_domain: None,
            fabric: FabricKind::default(),
            leaves: None,
            spines: None,
            oversubscription: None,
            switch: None,
            nic_cable_m: nic_cable(),
            switch_cable_m: switch_cable(),
            transport: TransportKind::default(),
            mtu: None,
            gpus_per_node: None,
            nics: None,
            path_choice: None,
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
}

impl FabricKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::SingleSwitch, Self::LeafSpine, Self::RailOptimized];

    /// Its name in scenarios.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SingleSwitch => "single-switch",
            Self::LeafSpine => "leaf-spine",
            Self::RailOptimized => "rail-optimized",
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
names!(FabricKind, "fabric", ["rail" => RailOptimized, "rails" => RailOptimized, "clos" => LeafSpine, "fat-tree" => LeafSpine, "single" => SingleSwitch]);
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
