//! What is wrong with the sizes of a parallelism.

use crate::nearest::Nearest;
use crate::pipeline::ScheduleFault;

/// A size that can't be, with the inequality that it breaks and what would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeFault {
    /// A size of zero.
    #[error("`{key} = 0`: `{key} >= 1` must hold")]
    Zero {
        /// The key.
        key: &'static str,
    },
    /// A size beyond what the arithmetic is made for.
    #[error("`{key} = {value}` is absurd: at most {limit}")]
    Absurd {
        /// The key.
        key: &'static str,
        /// What was given, or what it comes to.
        value: u128,
        /// The most.
        limit: u128,
    },
    /// The sizes don't make up the GPUs.
    #[error("`tp · cp · pp · dp = gpus` does not hold: {tensor} · {context} · {pipeline} · {data} = {product}, gpus = {gpus}; it would with {}", .choices.join(" or "))]
    Product {
        /// TP.
        tensor: u64,
        /// CP.
        context: u64,
        /// PP.
        pipeline: u64,
        /// DP.
        data: u64,
        /// Their product.
        product: u128,
        /// GPUs.
        gpus: u64,
        /// Changes of one size that would do.
        choices: Vec<String>,
    },
    /// A relation between sizes, or between a size and the model.
    #[error("`{rule}` does not hold: {values}; near: {key} = {near}")]
    Rule {
        /// The relation.
        rule: &'static str,
        /// The values in it.
        values: String,
        /// The key that would be changed.
        key: &'static str,
        /// Values of the key that would do.
        near: Nearest,
    },
    /// Experts that can't be laid evenly on the ranks.
    #[error("`experts % ep = 0` does not hold: experts = {experts}, ep = {ranks}; near: ep = {near}{}", redundant(*.experts, *.ranks))]
    Experts {
        /// Experts.
        experts: u64,
        /// Ranks.
        ranks: u64,
        /// Values of `ep` that would do.
        near: Nearest,
    },
    /// A choice without what it is about.
    #[error("{what} needs {needs}; {hint}")]
    Needs {
        /// The choice.
        what: &'static str,
        /// What is missing.
        needs: &'static str,
        /// How to mend it.
        hint: String,
    },
    /// More work than can be gone through, one by one.
    #[error(
        "{micros} micro batches of {layers} layers a stage are about {each} kernels and messages a rank, {all} in all: at most {most} and \
         {most_of_all} can be gone through; near: m = {fits}"
    )]
    Operations {
        /// Micro batches of a rank.
        micros: u64,
        /// Layers of a stage, its ends among them.
        layers: u64,
        /// Operations of a rank.
        each: u128,
        /// Operations of all ranks.
        all: u128,
        /// The most of a rank.
        most: u64,
        /// The most of all.
        most_of_all: u64,
        /// Micro batches that would do; zero if none does.
        fits: u64,
    },
    /// The schedule of the pipeline can't be run with these sizes.
    #[error(transparent)]
    Schedule(#[from] ScheduleFault),
    /// Layers that were given one by one don't add up.
    #[error(
        "`chunk_layers` has {chunks} {}, {sum} layers in all: `pp · vp` = {wanted} {} with {layers} layers in all must be", entries(*.chunks as u64), entries(*.wanted)
    )]
    Layers {
        /// Entries given.
        chunks: usize,
        /// Their sum.
        sum: u128,
        /// Entries needed.
        wanted: u64,
        /// Layers of the model.
        layers: u64,
    },
}

/// Where each rank could have as many experts if some were held twice.
fn redundant(experts: u64, ranks: u64) -> String {
    if ranks == 0 || ranks > experts {
        return String::new();
    }
    let slots = experts.div_ceil(ranks) * ranks;
    format!("; or {} redundant experts, for {slots} slots of {} a rank", slots - experts, slots / ranks)
}

const fn entries(count: u64) -> &'static str {
    if count == 1 { "entry" } else { "entries" }
}
