//! The three ways in which NCCL moves data through a connection.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use super::algorithm::{UnknownName, fold};

/// A protocol. The order is NCCL's; a tie in predicted time goes to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// Lines of 8 data and 8 flag bytes: least latency, twice the bytes.
    #[serde(rename = "LL")]
    Ll,
    /// Lines of 120 data and 8 flag bytes.
    #[serde(rename = "LL128")]
    Ll128,
    /// Whole slices, with head and tail counters.
    Simple,
}

impl Protocol {
    /// All of them, in NCCL's order.
    pub const ALL: [Self; 3] = [Self::Ll, Self::Ll128, Self::Simple];

    /// NCCL's name: `LL`, `LL128`, `Simple`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ll => "LL",
            Self::Ll128 => "LL128",
            Self::Simple => "Simple",
        }
    }

    /// Its number in NCCL's logs and tables, 0 to 2.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// (data, wire) bytes of one line; (1, 1) where there are no flags.
    #[must_use]
    pub const fn line(self) -> (u64, u64) {
        match self {
            Self::Ll => (8, 16),
            Self::Ll128 => (120, 128),
            Self::Simple => (1, 1),
        }
    }

    /// Bytes that cross a link for `data` bytes: whole lines with their flags, saturating.
    ///
    /// ```
    /// use sim_collectives::nccl::Protocol;
    /// assert_eq!(Protocol::Ll.wire_bytes(1000), 2000);
    /// assert_eq!(Protocol::Ll128.wire_bytes(576_000), 614_400);
    /// assert_eq!(Protocol::Simple.wire_bytes(1000), 1000);
    /// ```
    #[must_use]
    pub const fn wire_bytes(self, data: u64) -> u64 {
        let (payload, wire) = self.line();
        data.div_ceil(payload).saturating_mul(wire)
    }

    /// Chunks are whole multiples of this many data bytes (`src/enqueue.cc`, chunk grain).
    #[must_use]
    pub const fn grain(self) -> u64 {
        match self {
            Self::Ll => 16,
            Self::Ll128 => 1_920,
            Self::Simple => 512,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Protocol {
    type Err = UnknownName;

    /// `LL`, `LL128` or `Simple`, in any case.
    fn from_str(s: &str) -> Result<Self, UnknownName> {
        let folded = fold(s);
        Self::ALL.into_iter().find(|p| fold(p.name()) == folded).ok_or_else(|| UnknownName {
            what: "protocol",
            seen: s.to_owned(),
            expected: Self::ALL.map(Self::name).to_vec(),
        })
    }
}
