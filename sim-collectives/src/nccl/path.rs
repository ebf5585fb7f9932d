//! NCCL's classes of path between two devices.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use super::algorithm::{UnknownName, fold};

/// A path class, best first (`src/graph/topo.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PathType {
    /// The device itself.
    Loc,
    /// NVLink, direct or through NVSwitch.
    Nvl,
    /// NVLink through another GPU.
    Nvb,
    /// Chip-to-chip link between GPU and CPU.
    C2c,
    /// One PCIe switch.
    Pix,
    /// Several PCIe switches, not the host bridge.
    Pxb,
    /// GPU to NIC by the chip-to-chip link and the CPU's PCIe.
    P2c,
    /// Through another GPU over NVLink to its NIC.
    Pxn,
    /// Through the CPU.
    Phb,
    /// From CPU to CPU.
    Sys,
    /// The network.
    Net,
    /// None.
    Dis,
}

impl PathType {
    /// All of them, best first.
    pub const ALL: [Self; 12] = [
        Self::Loc,
        Self::Nvl,
        Self::Nvb,
        Self::C2c,
        Self::Pix,
        Self::Pxb,
        Self::P2c,
        Self::Pxn,
        Self::Phb,
        Self::Sys,
        Self::Net,
        Self::Dis,
    ];

    /// NCCL's name: `LOC`, `NVL`, `PIX`, …
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loc => "LOC",
            Self::Nvl => "NVL",
            Self::Nvb => "NVB",
            Self::C2c => "C2C",
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::P2c => "P2C",
            Self::Pxn => "PXN",
            Self::Phb => "PHB",
            Self::Sys => "SYS",
            Self::Net => "NET",
            Self::Dis => "DIS",
        }
    }

    /// Reads a level as NCCL's `*_LEVEL` variables are: a name, or a number 0 to 5 that stands for LOC, PIX, PXB, PHB,
    /// SYS, SYS (`ncclTopoGetLevel`, `src/graph/paths.cc`); larger numbers count as 5.
    ///
    /// # Errors
    /// If it is neither.
    pub fn parse_level(text: &str) -> Result<Self, UnknownName> {
        match text.trim().parse::<u32>() {
            Ok(number) => {
                let old_to_new = [Self::Loc, Self::Pix, Self::Pxb, Self::Phb, Self::Sys, Self::Sys];
                Ok(old_to_new[(number as usize).min(old_to_new.len() - 1)])
            }
            Err(_) => text.parse(),
        }
    }
}

impl fmt::Display for PathType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PathType {
    type Err = UnknownName;

    /// NCCL's name in any case; `NODE` of `nvidia-smi topo -m` counts as `PHB`, `NV18` and the like as `NVL`.
    fn from_str(s: &str) -> Result<Self, UnknownName> {
        let folded = fold(s);
        if folded == "node" {
            return Ok(Self::Phb);
        }
        let bonded = folded.strip_prefix("nv").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        if bonded {
            return Ok(Self::Nvl);
        }
        Self::ALL.into_iter().find(|p| fold(p.name()) == folded).ok_or_else(|| UnknownName {
            what: "path type",
            seen: s.to_owned(),
            expected: Self::ALL.map(Self::name).to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels() {
        assert_eq!(PathType::parse_level("2"), Ok(PathType::Pxb));
        assert_eq!(PathType::parse_level("99"), Ok(PathType::Sys));
        assert_eq!(PathType::parse_level("phb"), Ok(PathType::Phb));
        assert_eq!("NV18".parse(), Ok(PathType::Nvl));
        assert!(PathType::parse_level("-1").is_err());
        assert!(PathType::Pxn > PathType::Pxb && PathType::Pxn < PathType::Phb);
    }
}
