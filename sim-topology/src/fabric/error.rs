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
            Self::TooLarge { .. } => Some("use a switch of more ports, or fewer NICs".into()),
            Self::LeavesPerRail { rails, .. } => Some(format!("leave `leaves` out, or use a multiple of {rails}")),
            _ => None,
        }
    }
}
