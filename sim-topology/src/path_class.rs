//! How close two devices are, in the classes of `nvidia-smi topo -m`.

use core::fmt;

use serde::{Serialize, Serializer};

/// The class of the path between two devices; smaller is closer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathClass {
    /// The device itself.
    X,
    /// NVLink, with the number of links.
    Nvl(u32),
    /// xGMI, with the number of links.
    Xgmi(u32),
    /// At most one PCIe switch.
    Pix,
    /// Several PCIe switches, without passing a host bridge.
    Pxb,
    /// One host bridge.
    Phb,
    /// Host bridges of one NUMA node.
    Node,
    /// Across NUMA nodes or sockets.
    Sys,
    /// Over the network.
    Net,
}

impl PathClass {
    /// What the class means, for legends.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::X => "the device itself",
            Self::Nvl(_) => "a bundle of that many NVLinks",
            Self::Xgmi(_) => "xGMI, GPU to GPU",
            Self::Pix => "at most one PCIe switch",
            Self::Pxb => "several PCIe switches, no host bridge",
            Self::Phb => "a PCIe host bridge (the CPU)",
            Self::Node => "PCIe host bridges of one NUMA node",
            Self::Sys => "the link between NUMA nodes or sockets",
            Self::Net => "the network between nodes",
        }
    }

    /// How it ranks, without regard to the number of NVLinks: 0 for the device itself, 7 for the network.
    #[must_use]
    pub const fn rank(self) -> u8 {
        match self {
            Self::X => 0,
            Self::Nvl(_) | Self::Xgmi(_) => 1,
            Self::Pix => 2,
            Self::Pxb => 3,
            Self::Phb => 4,
            Self::Node => 5,
            Self::Sys => 6,
            Self::Net => 7,
        }
    }
}

impl fmt::Display for PathClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::X => f.pad("X"),
            Self::Nvl(links) => f.pad(&format!("NV{links}")),
            Self::Xgmi(_) => f.pad("XGMI"),
            Self::Pix => f.pad("PIX"),
            Self::Pxb => f.pad("PXB"),
            Self::Phb => f.pad("PHB"),
            Self::Node => f.pad("NODE"),
            Self::Sys => f.pad("SYS"),
            Self::Net => f.pad("NET"),
        }
    }
}

impl Serialize for PathClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::PathClass::*;

    #[test]
    fn closer_is_smaller() {
        let order = [X, Nvl(18), Pix, Pxb, Phb, Node, Sys, Net];
        assert!(order.windows(2).all(|w| w[0] < w[1]));
        assert!(order.windows(2).all(|w| w[0].rank() < w[1].rank()));
        assert_eq!(Nvl(18).to_string(), "NV18");
    }
}
