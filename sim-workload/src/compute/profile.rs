//! Measured times in place of the law.
//!
//! ```toml
//! [[kernel]]
//! name = "FFN up"          # the name of a kernel of a layer
//! pass = "forward"         # forward, data-gradient or weight-gradient
//! m = 4096                 # shape of its forward product; without one the time is for any shape
//! n = 13312
//! k = 16384
//! time = "2.3 ms"
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use sim_core::units::{Span, UnitError};

use crate::model::kernels::{Kernel, Pass};

type Shape = Option<(u64, u64, u64)>;

/// Times by kernel, pass and shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile(BTreeMap<(String, Pass, Shape), Span>);

/// Why a profile can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Not TOML, or other keys.
    #[error("{0}")]
    Text(String),
    /// A time that is none.
    #[error("time of kernel `{name}`: {fault}")]
    Time {
        /// The kernel.
        name: String,
        /// What is wrong with the time.
        fault: UnitError,
    },
    /// A shape with one or two of its three numbers.
    #[error("kernel `{0}` has one or two of `m`, `n` and `k`: give all three, or none for any shape")]
    Shape(String),
    /// The same kernel twice.
    #[error("kernel `{0}` stands twice with the same pass and shape")]
    Twice(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawPass {
    Forward,
    DataGradient,
    WeightGradient,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    pass: RawPass,
    m: Option<u64>,
    n: Option<u64>,
    k: Option<u64>,
    time: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    kernel: Vec<Row>,
}

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// If it is not TOML, a time is none, a shape is not whole, or a kernel comes twice.
    pub fn from_toml(text: &str) -> Result<Self, ProfileError> {
        let file: File = toml::from_str(text).map_err(|e: toml::de::Error| ProfileError::Text(e.to_string()))?;
        let mut out = BTreeMap::new();
        for row in file.kernel {
            let pass = match row.pass {
                RawPass::Forward => Pass::Forward,
                RawPass::DataGradient => Pass::DataGradient,
                RawPass::WeightGradient => Pass::WeightGradient,
            };
            let shape = match (row.m, row.n, row.k) {
                (Some(m), Some(n), Some(k)) => Some((m, n, k)),
                (None, None, None) => None,
                _ => return Err(ProfileError::Shape(row.name)),
            };
            let time: Span = row.time.parse().map_err(|fault| ProfileError::Time { name: row.name.clone(), fault })?;
            if out.insert((row.name.clone(), pass, shape), time).is_some() {
                return Err(ProfileError::Twice(row.name));
            }
        }
        Ok(Self(out))
    }

    /// The measured time of a kernel: with its own shape, else that for any shape.
    #[must_use]
    pub fn get(&self, kernel: &Kernel, pass: Pass) -> Option<Span> {
        if self.0.is_empty() {
            return None;
        }
        let at = |shape| self.0.get(&(kernel.name.to_owned(), pass, shape)).copied();
        kernel.shape(Pass::Forward).and_then(|shape| at(Some(shape))).or_else(|| at(None))
    }
}
