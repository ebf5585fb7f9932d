//! Searching for the best division of a job over a cluster: which sizes, in which order of ranks.
//!
//! From coarse to fine. [`space`] lists the sizes that hold every relation and fit into memory, and the orders of ranks;
//! [`bound()`] says what each takes at least, [`estimate()`] its time from [closed forms](crate::closed), with groups as they lie on nodes; who
//! has an event simulation plays the best of these. [`why`] says in which parts of the time one is better than another.

pub mod bound;
pub mod space;

#[cfg(test)]
mod tests;

pub use bound::{Reach, bound};
pub use space::{Counts, Dimension, Split, orders, splits};

use crate::closed::{ByLibrary, Cluster, Estimate, Library, Takes, Usual};
use crate::compute::{Machine, Slowdown};
use crate::job::{Choices, Job, Widths};
use crate::memory::Budget;
use crate::model::Model;
use crate::parallel::{Order, OrderFault, Placement, Ranks, Sizes, SizesSpec};
use crate::step::overlap::Overlap;

/// What is divided.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The model.
    pub model: &'a Model,
    /// Sizes that hold where the search doesn't vary them: GPUs, batch and sequence among them.
    pub spec: &'a SizesSpec,
    /// Widths of numbers.
    pub widths: Widths,
    /// Choices of the framework.
    pub choices: Choices,
    /// The GPU as kernels meet it.
    pub machine: &'a Machine,
    /// What runs beside kernels.
    pub overlap: Overlap,
    /// What kernels lose beside messages.
    pub slowdown: Slowdown,
    /// What a GPU has.
    pub budget: Budget,
    /// Where ranks are.
    pub placement: &'a Placement,
}

impl<'a> Asked<'a> {
    /// The job with these sizes.
    #[must_use]
    pub fn job(&self, sizes: &'a Sizes) -> Job<'a> {
        Job { widths: self.widths, choices: self.choices, ..Job::training(self.model, sizes) }
    }
}

/// Where times of calls come from.
#[derive(Clone, Copy, Debug)]
pub enum CallsBy<'a, 'b> {
    /// From the links of one GPU.
    Links(&'a Cluster),
    /// As the library predicts them; and the GPU of each rank, by its number in the fabric.
    Library(&'a Library<'b>, &'a [u32]),
}

/// The time of a step with these sizes and this order of ranks, by [closed forms](crate::closed).
///
/// # Errors
/// If the order can't be.
pub fn estimate(
    asked: &Asked<'_>,
    split: &Split,
    order: &Order,
    calls: CallsBy<'_, '_>,
) -> Result<Estimate, OrderFault> {
    let ranks = &Ranks::new(order, &split.sizes)?;
    let (job, placement) = (asked.job(&split.sizes), asked.placement);
    let step = |alone: &dyn Takes| {
        crate::closed::step(&job, asked.machine, (&asked.overlap, asked.slowdown), (ranks, placement), alone)
    };
    Ok(match calls {
        CallsBy::Links(cluster) => step(&Usual { ranks, placement, cluster }),
        CallsBy::Library(library, gpus) => step(&ByLibrary::new(library, (ranks, placement), gpus)),
    })
}

/// Parts of a time, by name, in µs.
pub type Parts = Vec<(String, f64)>;

/// Why `best` takes less time than `other`: the parts in which they differ most, the largest difference first, such as
/// `dp 41.2 ms less, tp 12.0 ms more`. Parts that differ by less than a thousandth of the time are left out.
#[must_use]
pub fn why(best: &Parts, other: &Parts) -> Vec<(String, f64)> {
    let time = |parts: &Parts| parts.iter().map(|(_, us)| us).sum::<f64>();
    let of = |parts: &Parts, name: &str| parts.iter().filter(|(n, _)| n == name).map(|(_, us)| us).sum::<f64>();
    let mut names: Vec<&str> = best.iter().chain(other).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let least = time(best).max(time(other)) / 1000.0;
    let mut out: Vec<(String, f64)> =
        names.into_iter().map(|name| (name.to_owned(), of(best, name) - of(other, name))).collect();
    out.retain(|(_, us)| us.abs() > least);
    out.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then_with(|| a.0.cmp(&b.0)));
    out
}
