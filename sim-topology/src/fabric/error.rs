//! Why a fabric cannot be built.

use crate::catalogue::UnknownName;
use crate::node::NodeError;

/// Why a fabric cannot be built. Each message says what was asked, what there is, and how they differ.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BuildError {
    /// A name is not in the catalogue.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// The node's interior is wrong.
    #[error("node: {0}")]
    Node(#[from] NodeError),
    /// A count or a quantity is out of range.
    #[error("{what} is {got}; {expected}")]
    Range {
        /// The key.
        what: &'static str,
        /// What was given.
        got: String,
        /// What would do.
        expected: String,
    },
    /// Nodes cannot reach each other.
    #[error("{nodes} nodes, but a node has no NIC, and {domain} of them share NVLink")]
    NoNics {
        /// How many nodes.
        nodes: u32,
        /// Nodes in an NVLink domain.
        domain: u32,
    },
    /// Nodes do not divide into domains.
    #[error("{nodes} nodes do not divide into NVLink domains of {per_domain}")]
    Domains {
        /// How many nodes.
        nodes: u32,
        /// Nodes in a domain.
        per_domain: u32,
    },
    /// A switch has too few ports for its NICs.
    #[error("{what}: {have} = {needed} ports, but {model} has {radix} at {rate}")]
    SwitchPorts {
        /// Which switch, and what it is to do.
        what: String,
        /// The sum or product that counts the ports.
        have: String,
        /// Its value.
        needed: u64,
        /// The switch.
        model: String,
        /// Ports there are.
        radix: u32,
        /// The links' rate.
        rate: String,
    },
    /// The spines have too few ports for the leaves.
    #[error("{leaves} leaves x {uplinks} uplinks = {needed} ports, but {spines} spines x {radix} = {}", u64::from(*.spines) * u64::from(*.radix))]
    SpinePorts {
        /// Leaves.
        leaves: u32,
        /// Uplinks of a leaf.
        uplinks: u32,
        /// Their product.
        needed: u64,
        /// Spines.
        spines: u32,
        /// Ports of a spine.
        radix: u32,
        /// The fewest spines for this oversubscription, if two tiers can do it.
        enough: Option<u32>,
        /// The oversubscription that these spines allow.
        possible: f64,
    },
    /// A leaf has fewer uplinks than there are spines.
    #[error("{spines} spines, but a leaf has {uplinks} uplinks: some leaves would share no spine")]
    SpinesUnreached {
        /// Spines.
        spines: u32,
        /// Uplinks of a leaf.
        uplinks: u32,
    },
    /// Two tiers are not enough.
    #[error(
        "{leaves} leaves, but a spine of {radix} ports reaches {radix} at most: {nics} NICs need a third tier (two hold {most})"
    )]
    TooLarge {
        /// Leaves needed.
        leaves: u64,
        /// Ports of a spine.
        radix: u32,
        /// NICs in all.
        nics: u64,
        /// NICs that two tiers hold.
        most: u64,
    },
    /// The leaves of a pod have no room on its spines.
    #[error(
        "a pod of {leaves} leaves, but a spine of {radix} ports ({model}) has {down} for leaves at {ratio}:1 to the cores"
    )]
    PodPorts {
        /// Leaves of a pod.
        leaves: u64,
        /// Ports of a spine for leaves.
        down: u32,
        /// The spine.
        model: String,
        /// Its ports.
        radix: u32,
        /// The oversubscription above it.
        ratio: f64,
        /// The most nodes of a pod.
        most: u32,
    },
    /// Three tiers are not enough.
    #[error(
        "{pods} pods, but a core of {radix} ports reaches {radix} at most: {nodes} nodes are too many (three tiers hold {most})"
    )]
    TooManyPods {
        /// Pods needed.
        pods: u32,
        /// Ports of a core.
        radix: u32,
        /// Nodes.
        nodes: u32,
        /// Nodes that fit.
        most: u64,
    },
    /// The cores have too few ports for the spines.
    #[error("{links} uplinks of all spines, but {cores} cores x {radix} = {}", u64::from(*.cores) * u64::from(*.radix))]
    CorePorts {
        /// Pods.
        pods: u32,
        /// Uplinks of all spines.
        links: u64,
        /// Cores.
        cores: u32,
        /// Ports of a core.
        radix: u32,
        /// The fewest cores.
        enough: u32,
    },
    /// A pod has fewer uplinks than there are cores.
    #[error("{cores} cores, but the spines of a pod have {uplinks} uplinks: some pods would share no core")]
    CoresUnreached {
        /// Cores.
        cores: u32,
        /// Uplinks of the spines of a pod.
        uplinks: u32,
    },
    /// More planes than ports.
    #[error("{planes} planes, but {nic} splits into {most} {} at most", if *.most == 1 { "port" } else { "ports" })]
    Planes {
        /// Planes asked for.
        planes: u32,
        /// The NIC: its title, or its rate.
        nic: String,
        /// Its catalogue name, if it is a card of the catalogue.
        name: Option<String>,
        /// Ports there can be.
        most: u32,
    },
    /// A fat tree whose k does not fit.
    #[error("{}", fat_tree(*.k, *.asked, *.needed, *.radix, .model))]
    FatTree {
        /// The tree's k.
        k: u32,
        /// Whether it was asked for.
        asked: bool,
        /// NIC ports to hold.
        needed: u64,
        /// Ports of a switch.
        radix: u32,
        /// The switch.
        model: String,
    },
    /// A dragonfly that does not close.
    #[error("{}", dragonfly(*.p, *.a, *.h, *.groups, *.needed))]
    Dragonfly {
        /// NIC ports of a router.
        p: u32,
        /// Routers of a group.
        a: u32,
        /// Links of a router to other groups.
        h: u32,
        /// Groups.
        groups: u64,
        /// NIC ports to hold.
        needed: u64,
    },
    /// Leaves and rails do not divide.
    #[error("{leaves} leaves for {rails} rails: one must be a multiple of the other")]
    LeavesPerRail {
        /// Leaves.
        leaves: u32,
        /// Rails.
        rails: u32,
    },
    /// Parts of the fabric do not reach each other.
    #[error("{device} reaches no other part of the fabric")]
    Disconnected {
        /// A device in a part that is cut off.
        device: String,
    },
}

fn fat_tree(k: u32, asked: bool, needed: u64, radix: u32, model: &str) -> String {
    let holds = u64::from(k).pow(3) / 4;
    if k > radix {
        let why = if asked { String::new() } else { format!("{needed} NIC ports need ") };
        format!("{why}k = {k}, but {model} has {radix} ports")
    } else {
        format!("a fat tree of k = {k} holds k^3/4 = {holds} NIC ports, but there are {needed}")
    }
}

fn dragonfly(p: u32, a: u32, h: u32, groups: u64, needed: u64) -> String {
    let most = u64::from(a) * u64::from(h) + 1;
    if groups > most {
        format!("{groups} groups, but a x h + 1 = {a} x {h} + 1 = {most} is the most that see each other")
    } else {
        let holds = groups * u64::from(a) * u64::from(p);
        format!("{groups} groups x {a} routers x {p} = {holds} NIC ports, but there are {needed}")
    }
}

impl BuildError {
    /// How to mend it, where that can be said.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(e) | Self::Node(NodeError::Unknown(e)) => match &e.suggestion {
                Some(_) => None,
                None => Some(format!("known: {}", e.known.join(", "))),
            },
            Self::SpinePorts { enough, possible, spines, .. } => {
                let more = enough.map(|n| format!("{n} spines carry it; ")).unwrap_or_default();
                let ratio = (possible * 100.0).ceil() / 100.0;
                let less = if possible.is_finite() {
                    format!("{spines} spines give {ratio}:1: set oversubscription = {ratio} if that is meant")
                } else {
                    format!("{spines} spines have not even one port a leaf")
                };
                Some(more + &less)
            }
            Self::SpinesUnreached { uplinks, .. } => Some(format!("use at most {uplinks} spines, or more uplinks")),
            Self::NoNics { .. } => Some("give the node NICs, e.g. `nics = { count = 8, rate = \"400 Gb/s\" }`".into()),
            Self::Domains { .. } => Some("set `nodes_per_domain` to a divisor of `nodes`".into()),
            Self::SwitchPorts { .. } => {
                Some("use more leaves, a fabric of two tiers, or a switch of more ports".into())
            }
            Self::TooLarge { .. } => {
                Some("leave `tiers` out or set it to 3, use a switch of more ports, or fewer NICs".into())
            }
            Self::PodPorts { most: 0, .. } => Some("use a spine of more ports (`spine_switch`)".into()),
            Self::PodPorts { most, .. } => {
                Some(format!("pods of at most {most} nodes fit; or use a spine of more ports, or a higher ratio"))
            }
            Self::TooManyPods { .. } => {
                Some("use switches of more ports (`switch`, `core_switch`), larger pods, or fewer nodes".into())
            }
            Self::CorePorts { enough, .. } => {
                Some(format!("{enough} cores carry it; or raise the second ratio of `oversubscription`"))
            }
            Self::CoresUnreached { uplinks, .. } => Some(format!("use at most {uplinks} cores")),
            Self::Planes { most, name: None, .. } => Some(format!("use at most {most} planes, or faster NICs")),
            Self::Planes { planes, name: Some(name), .. } => Some(format!(
                "if the card has more, say so: [catalogue.nic.{name}] max_ports = {planes}; or state `nics` by their rate"
            )),
            Self::FatTree { .. } => Some("use switches of more ports, a larger k, or fewer nodes".into()),
            Self::Dragonfly { .. } => Some("leave `groups` out, raise `a` and `h`, or use fewer nodes".into()),
            Self::LeavesPerRail { rails, .. } => Some(format!("leave `leaves` out, or use a multiple of {rails}")),
            _ => None,
        }
    }
}
