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

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use sim_core::units::{Span, UnitError};
use toml::Spanned;

use crate::job::Job;
use crate::model::kernels::{Kernel, Pass, Work};

type Shape = Option<(u64, u64, u64)>;

/// The longest time of a kernel: the sum of all of a step is far from the end of simulated time.
pub const LONGEST: Span = Span::from_ps(1_000_000_000_000_000);

/// Times by kernel, pass and shape.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile(BTreeMap<(String, Pass, Shape), Span>);

/// A range of bytes of a profile's text.
pub type At = core::ops::Range<usize>;

/// Why a profile can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Not TOML, or other keys.
    #[error("{0}")]
    Text(String, Option<At>),
    /// A time that is none.
    #[error("time of kernel `{name}`: {fault}")]
    Time {
        /// The kernel.
        name: String,
        /// What is wrong with the time.
        fault: UnitError,
        /// The time.
        at: At,
    },
    /// A time that no kernel takes.
    #[error("time of kernel `{0}`: above zero and at most 1000 s")]
    Length(String, At),
    /// A shape with one or two of its three numbers.
    #[error("kernel `{0}` has one or two of `m`, `n` and `k`: give all three, or none for any shape")]
    Shape(String, At),
    /// The same kernel twice.
    #[error("kernel `{0}` stands twice with the same pass and shape")]
    Twice(String, At),
}

impl ProfileError {
    /// Which bytes of the text are at fault, if that is known.
    #[must_use]
    pub const fn at(&self) -> Option<&At> {
        match self {
            Self::Text(_, at) => at.as_ref(),
            Self::Time { at, .. } | Self::Length(_, at) | Self::Shape(_, at) | Self::Twice(_, at) => Some(at),
        }
    }
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
    name: Spanned<String>,
    pass: RawPass,
    m: Option<u64>,
    n: Option<u64>,
    k: Option<u64>,
    time: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    kernel: Vec<Row>,
}

/// A row of a profile that a step never asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    /// The kernel.
    pub name: String,
    /// The pass.
    pub pass: Pass,
    /// The shape, if it has one.
    pub shape: Shape,
    /// What the step has instead.
    pub instead: Instead,
}

/// What a step has in place of what a row is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instead {
    /// Kernels of other names.
    Names(Vec<&'static str>),
    /// Other passes of the kernel.
    Passes(Vec<Pass>),
    /// Other shapes of the kernel.
    Shapes(Vec<(u64, u64, u64)>),
}

/// The kernels that the ranks of a job run in training, each with its passes: those of layers, embedding, head, prediction and
/// adapters, and the parts of products that are cut in `pieces`.
#[must_use]
pub fn asked(job: &Job<'_>, pieces: u64) -> BTreeSet<(Kernel, Pass)> {
    let share = if job.choices.two_batches { job.sizes.halved().share() } else { job.sizes.share() };
    let model = job.model;
    let mut kernels: BTreeSet<Kernel> = (0..model.layers).flat_map(|i| model.layer_kernels(i, &share)).collect();
    kernels.extend(model.embedding_kernels(&share));
    kernels.extend(model.head_kernels(&share));
    if model.mtp_layers > 0 {
        kernels.extend(model.prediction_kernels(&share));
    }
    kernels.extend(job.choices.adapters.iter().flat_map(|adapters| adapters.kernels(model, &share)));
    let part = |kernel: &Kernel| match kernel.work {
        Work::Gemm { m, n, k } => Kernel { work: Work::Gemm { m: m.div_ceil(pieces.max(1)), n, k }, ..*kernel },
        _ => *kernel,
    };
    let parts: Vec<Kernel> = kernels.iter().map(part).collect();
    kernels.extend(parts);
    let passes = if job.choices.adapters.is_some() { &PASSES[..2] } else { &PASSES };
    let pairs = kernels.into_iter().flat_map(|kernel| passes.iter().map(move |pass| (kernel, *pass)));
    pairs.filter(|(kernel, pass)| kernel.flops(*pass).get() > 0 || kernel.bytes(*pass, 1).get() > 0).collect()
}

const PASSES: [Pass; 3] = [Pass::Forward, Pass::DataGradient, Pass::WeightGradient];

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// If it is not TOML, a time is none or none that a kernel takes, a shape is not whole, or a kernel comes twice.
    pub fn from_toml(text: &str) -> Result<Self, ProfileError> {
        let file: File =
            toml::from_str(text).map_err(|e: toml::de::Error| ProfileError::Text(e.message().to_owned(), e.span()))?;
        let mut out = BTreeMap::new();
        for row in file.kernel {
            let pass = match row.pass {
                RawPass::Forward => Pass::Forward,
                RawPass::DataGradient => Pass::DataGradient,
                RawPass::WeightGradient => Pass::WeightGradient,
            };
            let (name_at, time_at) = (row.name.span(), row.time.span());
            let name = row.name.into_inner();
            let shape = match (row.m, row.n, row.k) {
                (Some(m), Some(n), Some(k)) => Some((m, n, k)),
                (None, None, None) => None,
                _ => return Err(ProfileError::Shape(name, name_at)),
            };
            let time: Span = match row.time.get_ref().parse() {
                Ok(time) => time,
                Err(fault) => return Err(ProfileError::Time { name, fault, at: time_at }),
            };
            if time == Span::ZERO || time > LONGEST {
                return Err(ProfileError::Length(name, time_at));
            }
            if out.insert((name.clone(), pass, shape), time).is_some() {
                return Err(ProfileError::Twice(name, name_at));
            }
        }
        Ok(Self(out))
    }

    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.0.len()
    }

    /// The rows that are about none of these kernels and passes.
    #[must_use]
    pub fn idle(&self, asked: &BTreeSet<(Kernel, Pass)>) -> Vec<Idle> {
        let mut out = Vec::new();
        for (name, pass, shape) in self.0.keys() {
            let of_name = || asked.iter().filter(|(kernel, _)| kernel.name == name);
            let of_pass = || of_name().filter(|(_, of)| of == pass).map(|(kernel, _)| kernel);
            let meant = |kernel: &Kernel| match (shape, kernel.shape(Pass::Forward), kernel.work) {
                (None, ..) => true,
                // Experts have as many rows as tokens come to them.
                (Some((_, n, k)), Some((_, of_n, of_k)), Work::Grouped { .. }) => (*n, *k) == (of_n, of_k),
                (Some(shape), Some(of), _) => *shape == of,
                (Some(_), None, _) => false,
            };
            if of_pass().any(meant) {
                continue;
            }
            let instead = if of_name().next().is_none() {
                let names: BTreeSet<&'static str> = asked.iter().map(|(kernel, _)| kernel.name).collect();
                Instead::Names(names.into_iter().collect())
            } else if of_pass().next().is_none() {
                let passes: BTreeSet<Pass> = of_name().map(|(_, pass)| *pass).collect();
                Instead::Passes(passes.into_iter().collect())
            } else {
                let shapes: BTreeSet<_> = of_pass().filter_map(|kernel| kernel.shape(Pass::Forward)).collect();
                Instead::Shapes(shapes.into_iter().collect())
            };
            out.push(Idle { name: name.clone(), pass: *pass, shape: *shape, instead });
        }
        out
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
