//! The order of ranks: `tp-cp-ep-dp-pp`, the axis that varies fastest first.
//!
//! As Megatron-LM has it (core/parallel_state.py): ranks are numbers of mixed radix. Dense groups leave `ep` out of the order;
//! the groups of experts use the same order over the same ranks, with `tp` the tensor parallelism of experts, no `cp`, and `dp`
//! what is left. `tp-cp-ep-pp-dp` keeps a model's replica on consecutive ranks.

use core::fmt;
use core::str::FromStr;

/// The dimensions of a parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Axis {
    /// Tensor parallelism; of experts their own.
    Tensor,
    /// Context parallelism.
    Context,
    /// Expert parallelism.
    Expert,
    /// Data parallelism.
    Data,
    /// Pipeline.
    Pipeline,
}

impl Axis {
    /// All of them, in the order that is Megatron's default.
    pub const ALL: [Self; 5] = [Self::Tensor, Self::Context, Self::Expert, Self::Data, Self::Pipeline];

    /// Its short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tp",
            Self::Context => "cp",
            Self::Expert => "ep",
            Self::Data => "dp",
            Self::Pipeline => "pp",
        }
    }
}

/// An order of the axes, fastest first. Axes that its text leaves out come last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    axes: Vec<Axis>,
    named: usize,
}

/// What is wrong with an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderFault {
    /// A name that is no axis.
    #[error("`{0}` in a rank order: expected `tp`, `cp`, `ep`, `dp` or `pp`, joined by `-`")]
    Unknown(String),
    /// A name that comes twice.
    #[error("`{0}` stands twice in the rank order")]
    Twice(&'static str),
    /// An axis of more than one rank is left out.
    #[error("the rank order `{order}` leaves out `{axis}`, which is {size}: for instance `{example}`")]
    Missing {
        /// The order.
        order: String,
        /// The axis.
        axis: &'static str,
        /// Its size.
        size: u64,
        /// An order that has it.
        example: String,
    },
    /// Stages that would not be the same for the experts' groups.
    #[error(
        "the rank order `{order}` puts {dense} ranks inside `pp` for the dense groups and {experts} for those of experts: `{inequality}` must hold; put `pp` last, or `ep` and `dp` on its same side"
    )]
    Stages {
        /// The order.
        order: String,
        /// Ranks inside `pp` in dense groups.
        dense: u64,
        /// Ranks inside `pp` in groups of experts.
        experts: u64,
        /// What must hold.
        inequality: String,
    },
}

impl Order {
    /// The axes, fastest first.
    #[must_use]
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// Whether the text names `axis`.
    #[must_use]
    pub fn names(&self, axis: Axis) -> bool {
        self.axes[..self.named].contains(&axis)
    }
}

impl Default for Order {
    fn default() -> Self {
        Self { axes: Axis::ALL.to_vec(), named: Axis::ALL.len() }
    }
}

impl FromStr for Order {
    type Err = OrderFault;

    fn from_str(text: &str) -> Result<Self, OrderFault> {
        let mut axes = Vec::with_capacity(5);
        for part in text.split('-') {
            let name = part.trim().to_lowercase();
            let axis = Axis::ALL
                .into_iter()
                .find(|a| a.name() == name)
                .ok_or_else(|| OrderFault::Unknown(part.chars().take(40).collect()))?;
            if axes.contains(&axis) {
                return Err(OrderFault::Twice(axis.name()));
            }
            axes.push(axis);
        }
        let named = axes.len();
        for axis in Axis::ALL {
            if !axes.contains(&axis) {
                axes.push(axis);
            }
        }
        Ok(Self { axes, named })
    }
}

impl fmt::Display for Order {
    /// As it was written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.axes[..self.named].iter().map(|a| a.name()).collect();
        f.pad(&names.join("-"))
    }
}
