//! Which changes of sizes would make a job fit.

use core::fmt;

use sim_core::units::Bytes;

use super::{Budget, TooLarge, Usage, check, fullest};
use crate::job::Job;
use crate::model::Model;
use crate::model::activations::Recompute;
use crate::parallel::{Sizes, SizesSpec, Zero};

/// A change, and the fullest rank with it.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The change: `tp = 8`, or two of them: `zero = 1, micro_batch = 1`.
    pub change: String,
    /// The sizes changed so.
    pub spec: SizesSpec,
    /// The fullest rank with it.
    pub usage: Usage,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.change, self.usage.total())
    }
}

/// One change of one size.
#[derive(Clone, Copy, Debug)]
enum Change {
    MicroBatch(u64),
    Recompute(Recompute),
    Zero(Zero),
    Tensor(u64),
    Pipeline(u64),
    Context(u64),
    Expert(u64),
}

impl Change {
    fn apply(self, spec: &SizesSpec) -> SizesSpec {
        // With other sizes of a replica there are other numbers of replicas.
        let free = SizesSpec { data: None, shard: None, ..spec.clone() };
        match self {
            Self::MicroBatch(micro_batch) => SizesSpec { micro_batch, ..spec.clone() },
            Self::Recompute(recompute) => SizesSpec { recompute, ..spec.clone() },
            Self::Zero(zero) => SizesSpec { zero, ..spec.clone() },
            Self::Expert(expert) => SizesSpec { expert, ..spec.clone() },
            Self::Tensor(tensor) => SizesSpec { tensor, ..free },
            Self::Pipeline(pipeline) => SizesSpec { pipeline, ..free },
            Self::Context(context) => SizesSpec { context, ..free },
        }
    }
}

impl fmt::Display for Change {
    /// As it is written in a scenario.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MicroBatch(n) => write!(f, "micro_batch = {n}"),
            Self::Recompute(Recompute::Full) => f.write_str("recompute = \"full\""),
            Self::Recompute(_) => f.write_str("recompute = \"selective\""),
            Self::Zero(zero) => write!(f, "zero = {}", *zero as u8),
            Self::Tensor(n) => write!(f, "tp = {n}"),
            Self::Pipeline(n) => write!(f, "pp = {n}"),
            Self::Context(n) => write!(f, "cp = {n}"),
            Self::Expert(n) => write!(f, "ep = {n}"),
        }
    }
}

/// How many changes are offered.
const MOST: usize = 6;

/// Checks that `spec` fits; if it doesn't, the error tells which changes would at the same number of GPUs: of micro batch,
/// recomputation, what is divided over data-parallel ranks, tensor, pipeline, context or expert parallelism, each the smallest
/// of its kind. Where fewer than two single ones would do, pairs of them.
///
/// # Errors
/// If it does not fit.
pub fn would_fit(
    model: &Model,
    spec: &SizesSpec,
    job: &Job<'_>,
    budget: &Budget,
) -> Result<Usage, (Box<TooLarge>, Vec<Advice>)> {
    let mut error = match check(job, budget) {
        Ok(usage) => return Ok(usage),
        Err(error) => error,
    };
    let fits = |changes: &[Change]| {
        let changed = changes.iter().fold(spec.clone(), |spec, change| change.apply(&spec));
        // Sizes that can't be are no advice.
        let sizes = changed.check(model).ok()?;
        let usage = fullest(&Job { sizes: &sizes, ..job.clone() }, budget.buffers);
        let change = changes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        (usage.total() <= budget.limit()).then_some(Advice { change, spec: changed, usage })
    };
    let kinds = changes(spec, job.sizes);
    let mut advice: Vec<Advice> =
        kinds.iter().filter_map(|kind| kind.iter().find_map(|change| fits(&[*change]))).collect();
    if advice.len() < 2 {
        for (i, first) in kinds.iter().enumerate() {
            for second in &kinds[i + 1..] {
                let pairs = first.iter().flat_map(|a| second.iter().map(move |b| [*a, *b]));
                advice.extend(pairs.into_iter().find_map(|pair| fits(&pair)));
            }
        }
        // A pair of which one change alone would do is no news.
        let single: Vec<String> = advice.iter().map(|a| a.change.clone()).filter(|c| !c.contains(',')).collect();
        advice.retain(|a| single.contains(&a.change) || !a.change.split(", ").any(|c| single.iter().any(|s| s == c)));
    }
    advice.truncate(MOST);
    let list: Vec<String> = advice.iter().map(ToString::to_string).collect();
    error.advice = if list.is_empty() {
        "; no change of one or two sizes would make it fit".to_owned()
    } else {
        format!("; it would fit with {}", list.join(", or "))
    };
    Err((error, advice))
}

/// Changes of one size, kind by kind, the smallest first.
fn changes(spec: &SizesSpec, sizes: &Sizes) -> Vec<Vec<Change>> {
    let larger = |from: u64| (1..=10).map(move |i| from << i).take_while(|n| *n <= 1 << 20);
    let micro = (1..spec.micro_batch).rev().filter(|b| spec.micro_batch.is_multiple_of(*b));
    let recompute = [Recompute::Selective, Recompute::Full].into_iter().filter(|r| *r as u8 > spec.recompute as u8);
    let zero = [Zero::Optimizer, Zero::Gradients, Zero::Parameters].into_iter().filter(|z| *z > spec.zero);
    vec![
        micro.take(64).map(Change::MicroBatch).collect(),
        recompute.map(Change::Recompute).collect(),
        zero.map(Change::Zero).collect(),
        larger(sizes.tensor).map(Change::Tensor).collect(),
        larger(sizes.pipeline).map(Change::Pipeline).collect(),
        larger(sizes.context).map(Change::Context).collect(),
        larger(sizes.expert).map(Change::Expert).collect(),
    ]
}

impl TooLarge {
    /// How far over the limit.
    #[must_use]
    pub fn excess(&self) -> Bytes {
        self.needed - self.limit
    }
}
