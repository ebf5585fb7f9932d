//! The algorithms that NCCL chooses between.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// A collective algorithm. The order is NCCL's; a tie in predicted time goes to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// Double binary tree over nodes, a chain inside each.
    Tree,
    /// Rings through all ranks.
    Ring,
    /// In-network reduction, every head GPU talks to the network directly.
    CollNetDirect,
    /// In-network reduction at the end of a chain of GPUs.
    CollNetChain,
    /// Multicast and reduction in the NVSwitch.
    Nvls,
    /// NVLS inside a node, double binary trees between nodes.
    NvlsTree,
    /// Parallel aggregated trees, for one GPU per node.
    Pat,
}

impl Algorithm {
    /// All of them, in NCCL's order.
    pub const ALL: [Self; 7] =
        [Self::Tree, Self::Ring, Self::CollNetDirect, Self::CollNetChain, Self::Nvls, Self::NvlsTree, Self::Pat];

    /// The name in results: `tree`, `ring`, `collnet_direct`, `collnet_chain`, `nvls`, `nvls_tree`, `pat`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Ring => "ring",
            Self::CollNetDirect => "collnet_direct",
            Self::CollNetChain => "collnet_chain",
            Self::Nvls => "nvls",
            Self::NvlsTree => "nvls_tree",
            Self::Pat => "pat",
        }
    }

    /// Its number in NCCL's logs and tables, 0 to 6.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether it is one of the two that reduce in the NVSwitch.
    #[must_use]
    pub const fn is_nvls(self) -> bool {
        matches!(self, Self::Nvls | Self::NvlsTree)
    }

    /// Whether it is one of the two that reduce in the network.
    #[must_use]
    pub const fn is_collnet(self) -> bool {
        matches!(self, Self::CollNetDirect | Self::CollNetChain)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is none of a closed set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{seen}` is no {what}: expected one of {}", expected.join(", "))]
pub struct UnknownName {
    /// What the name should have been: "algorithm", "protocol", …
    pub what: &'static str,
    /// What was written.
    pub seen: String,
    /// The names that exist, for a did-you-mean.
    pub expected: Vec<&'static str>,
}

/// The form in which names are compared: lower case, without `_`, `-` and blanks.
pub(crate) fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

impl FromStr for Algorithm {
    type Err = UnknownName;

    /// Any of NCCL's spellings, in any case: `Ring`, `RING`, `NVLSTree`, `NVLS_TREE`, `CollnetDirect`.
    fn from_str(s: &str) -> Result<Self, UnknownName> {
        let folded = fold(s);
        Self::ALL.into_iter().find(|a| fold(a.name()) == folded).ok_or_else(|| UnknownName {
            what: "algorithm",
            seen: s.to_owned(),
            expected: Self::ALL.map(Self::name).to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nccl_spellings_are_read() {
        for (text, want) in [
            ("Ring", Algorithm::Ring),
            ("RING", Algorithm::Ring),
            ("NVLSTree", Algorithm::NvlsTree),
            ("NVLS_TREE", Algorithm::NvlsTree),
            ("CollnetDirect", Algorithm::CollNetDirect),
            ("PAT", Algorithm::Pat),
        ] {
            assert_eq!(text.parse(), Ok(want), "{text}");
        }
        let error = "rong".parse::<Algorithm>().unwrap_err();
        assert!(error.to_string().contains("`rong` is no algorithm"), "{error}");
    }

    #[test]
    fn names_come_back() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
    }
}
