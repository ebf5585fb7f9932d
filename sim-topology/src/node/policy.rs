//! Which NICs a GPU uses, and how far a NIC may be to read and write its memory.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::path_class::PathClass;

/// Which NICs each GPU uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NicPolicy {
    /// Those of the closest path class; GPUs that see the same ones share them evenly, as NCCL does.
    #[default]
    Nearest,
    /// NIC `g mod nics` for GPU g, wherever it hangs.
    RoundRobin,
    /// This one for all.
    Fixed(u32),
    /// For each GPU its NICs, the first of which is its rail.
    Map(Vec<Vec<u32>>),
}

impl NicPolicy {
    /// Whether it is the default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::Nearest
    }
}

/// A text that is no policy or no level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{seen}` is not one of {expected}")]
pub struct BadPolicy {
    /// The text.
    pub seen: String,
    /// What is due.
    pub expected: &'static str,
}

impl FromStr for NicPolicy {
    type Err = BadPolicy;

    fn from_str(text: &str) -> Result<Self, BadPolicy> {
        let folded = text.trim().to_ascii_lowercase().replace('_', "-");
        let bad = || BadPolicy {
            seen: text.chars().take(40).collect(),
            expected: "nearest, round-robin, fixed:N (N a NIC's number)",
        };
        match folded.as_str() {
            "nearest" | "pix" => Ok(Self::Nearest),
            "round-robin" => Ok(Self::RoundRobin),
            other => {
                let number = other.strip_prefix("fixed:").ok_or_else(bad)?;
                number.trim().trim_start_matches("nic").parse().map(Self::Fixed).map_err(|_| bad())
            }
        }
    }
}

impl fmt::Display for NicPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nearest => f.pad("nearest"),
            Self::RoundRobin => f.pad("round-robin"),
            Self::Fixed(nic) => write!(f, "fixed:{nic}"),
            Self::Map(_) => f.pad("a map of its own"),
        }
    }
}

/// How far a NIC may be from a GPU whose memory it reads and writes (NCCL's `NCCL_NET_GDR_LEVEL`).
///
/// NCCL's default admits what passes PCIe switches only, and, where GPUs hang on their CPU by a chip-to-chip link, the
/// NICs of that CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum GpudirectLevel {
    /// Never: all data go through host memory.
    Loc,
    /// Over at most one PCIe switch.
    Pix,
    /// Over PCIe switches.
    Pxb,
    /// Also over a chip-to-chip link and the CPU behind it: the default.
    #[default]
    P2c,
    /// Also over host bridges of one NUMA node.
    Phb,
    /// Always, across sockets too.
    Sys,
}

impl GpudirectLevel {
    /// Whether it is the default.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::P2c
    }

    /// The level's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loc => "LOC",
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::P2c => "P2C",
            Self::Phb => "PHB",
            Self::Sys => "SYS",
        }
    }
}

impl fmt::Display for GpudirectLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for GpudirectLevel {
    type Err = BadPolicy;

    /// A name, or a number as NCCL maps them: 0 LOC, 1 PIX, 2 PXB, 3 PHB, 4 and above SYS.
    fn from_str(text: &str) -> Result<Self, BadPolicy> {
        Ok(match text.trim().to_ascii_uppercase().as_str() {
            "LOC" | "NEVER" | "OFF" | "0" => Self::Loc,
            "PIX" | "1" => Self::Pix,
            "PXB" | "2" => Self::Pxb,
            "P2C" => Self::P2c,
            "PHB" | "NODE" | "3" => Self::Phb,
            "SYS" => Self::Sys,
            other if other.parse::<u32>().is_ok() => Self::Sys,
            _ => {
                return Err(BadPolicy {
                    seen: text.chars().take(40).collect(),
                    expected: "LOC, PIX, PXB, P2C, PHB, SYS, or NCCL's numbers 0 to 5",
                });
            }
        })
    }
}

/// Why data between a GPU and a NIC or a drive go through host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounce {
    /// GPU or driver have no GPUDirect RDMA.
    Unable,
    /// NICs may write this GPU's memory, not read it (before Ampere, without NVLink).
    NoReads,
    /// They are too far apart.
    Far {
        /// How far.
        class: PathClass,
        /// What is allowed.
        level: GpudirectLevel,
    },
    /// GPUs may not reach each other over PCIe.
    NoPeers,
    /// GPUs are farther apart than peers may be.
    PeersFar {
        /// How far.
        class: PathClass,
        /// What is allowed.
        most: PathClass,
    },
    /// A drive's data for the network are read into host memory first.
    DriveToNic,
}

impl fmt::Display for Bounce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unable => f.pad("this GPU and driver have no GPUDirect RDMA"),
            Self::NoReads => f.pad("NICs cannot read the memory of this GPU (before Ampere, without NVLink)"),
            Self::Far { class, level } => write!(f, "they are {class} apart, and GPUDirect goes up to {level}"),
            Self::NoPeers => f.pad("GPUs of this node have no PCIe peer-to-peer"),
            Self::PeersFar { most: PathClass::X, .. } => f.pad("peer-to-peer is switched off"),
            Self::PeersFar { class, most } => write!(f, "they are {class} apart, and peer-to-peer goes up to {most}"),
            Self::DriveToNic => f.pad("a drive's data for the network are read into host memory first"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_and_levels_are_read() {
        assert_eq!("Round_Robin".parse(), Ok(NicPolicy::RoundRobin));
        assert_eq!("fixed:0".parse(), Ok(NicPolicy::Fixed(0)));
        assert_eq!("fixed:nic3".parse(), Ok(NicPolicy::Fixed(3)));
        assert!("fixed:".parse::<NicPolicy>().is_err());
        assert!("farthest".parse::<NicPolicy>().is_err());
        let levels = ["0", "1", "2", "3", "4", "9"].map(|l| l.parse::<GpudirectLevel>().unwrap());
        use GpudirectLevel::{Loc, Phb, Pix, Pxb, Sys};
        assert_eq!(levels, [Loc, Pix, Pxb, Phb, Sys, Sys]);
        assert_eq!("node".parse(), Ok(Phb));
        assert!("XYZ".parse::<GpudirectLevel>().is_err());
    }
}
