//! What is sent and how it is combined, as far as the choice of algorithm depends on it.

use core::fmt;

use serde::{Deserialize, Serialize};

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Datatype {
    /// 8-bit integer, signed or not.
    Int8,
    /// 32-bit integer, signed or not.
    Int32,
    /// 64-bit integer, signed or not.
    Int64,
    /// 8-bit float, e4m3 or e5m2.
    Fp8,
    /// IEEE half.
    Half,
    /// bfloat16.
    Bfloat16,
    /// IEEE single.
    Float,
    /// IEEE double.
    Double,
}

impl Datatype {
    /// Bytes of an element.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Int8 | Self::Fp8 => 1,
            Self::Half | Self::Bfloat16 => 2,
            Self::Int32 | Self::Float => 4,
            Self::Int64 | Self::Double => 8,
        }
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Int8 => "int8",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Fp8 => "fp8",
            Self::Half => "half",
            Self::Bfloat16 => "bfloat16",
            Self::Float => "float",
            Self::Double => "double",
        })
    }
}

/// The operator of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Sum divided by the number of ranks.
    Avg,
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
        })
    }
}

/// Element type and operator of a call. The default is what nccl-tests runs: a sum of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Element {
    /// The type of the elements.
    pub datatype: Datatype,
    /// The operator; ignored where nothing is reduced.
    pub reduction: Reduction,
}

impl Default for Element {
    fn default() -> Self {
        Self { datatype: Datatype::Float, reduction: Reduction::Sum }
    }
}

impl Element {
    /// Whether the NVSwitch can reduce it (`ncclNvlsSupported`, `src/transport/nvls.cc`): sum, min and max of
    /// 32- and 64-bit integers, half and bfloat16; sum only of float and double.
    #[must_use]
    pub const fn nvls_supported(self) -> bool {
        match self.datatype {
            Datatype::Int32 | Datatype::Int64 | Datatype::Half | Datatype::Bfloat16 => {
                matches!(self.reduction, Reduction::Sum | Reduction::Min | Reduction::Max)
            }
            Datatype::Float | Datatype::Double => matches!(self.reduction, Reduction::Sum),
            Datatype::Int8 | Datatype::Fp8 => false,
        }
    }
}
