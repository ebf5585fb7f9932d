//! A training step: a model divided over ranks, the time of its kernels, and where its ranks are.
//!
//! What is read here has passed every relation between its sizes, and fits into memory unless the scenario says that it need not.

mod compute;
mod experts;
mod idle;
mod measured;
mod memory;
pub(super) mod model;
mod placement;
mod sizes;

use sim_core::units::Span;
use sim_topology::{Catalogue, Fabric};
use sim_workload::compute::{Jitter, Machine, Number, Slowdown};
use sim_workload::experts::Imbalance;
use sim_workload::job::{Choices, Job, Mode, Widths};
use sim_workload::memory::{Budget, Usage};
use sim_workload::model::Model;
use sim_workload::parallel::{Order, Placement, Ranks, Sizes, SizesSpec};
use sim_workload::step::overlap::Overlap;

use super::super::keys::STEP;
use super::super::tree::Node;
use super::super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place};

/// A training step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The name in results.
    pub name: Option<String>,
    /// The model.
    pub model: Model,
    /// The sizes as they were asked for.
    pub asked: SizesSpec,
    /// The sizes, checked.
    pub sizes: Sizes,
    /// The order of ranks.
    pub order: Order,
    /// Where ranks are.
    pub placement: Placement,
    /// The GPU of each rank, by its number in the fabric.
    pub gpus: Vec<u32>,
    /// The rail of each rank's first NIC, where leaves of the network are of one rail each; `None` where it has no rails.
    pub rails: Option<Vec<u32>>,
    /// Widths of numbers.
    pub widths: Widths,
    /// Choices of the framework.
    pub choices: Choices,
    /// How uneven loads of experts are, if they are.
    pub imbalance: Option<Imbalance>,
    /// The part of a GPU that kernels of their own take while tokens are under way to experts, in millionths.
    pub taken: u64,
    /// What runs beside kernels.
    pub overlap: Overlap,
    /// The numbers that products with weights multiply.
    pub number: Number,
    /// The GPU as kernels meet it.
    pub machine: Machine,
    /// The GPU whose rates these are, by its name in the catalogue.
    pub device: String,
    /// Where its rates come from, in words.
    pub rates: String,
    /// Whether they are the best that were seen, neither scaled nor measured.
    pub best_rates: bool,
    /// What kernels lose beside messages.
    pub slowdown: Slowdown,
    /// Random laws of kernels and GPUs.
    pub jitter: Jitter,
    /// Ranks that are slower than others.
    pub slow: Vec<SlowRank>,
    /// What a GPU has for the step.
    pub budget: Budget,
    /// The memory of the fullest rank.
    pub usage: Usage,
    /// Whether messages that repeat are simulated once.
    pub reuse: bool,
    /// Steps that are played.
    pub steps: u32,
    /// Begins together with the step before it.
    pub with_previous: bool,
    /// Where the scenario says so.
    pub place: Place,
}

/// A rank that is slower than others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowRank {
    /// The rank.
    pub rank: u32,
    /// Its kernels take so many times as long.
    pub factor: f64,
    /// It begins each step so much later.
    pub delay: Span,
}

impl Step {
    /// What memory and messages are worked out for.
    #[must_use]
    pub const fn job(&self) -> Job<'_> {
        Job {
            model: &self.model,
            sizes: &self.sizes,
            widths: self.widths,
            choices: self.choices,
            mode: Mode::Training,
            imbalance: self.imbalance.as_ref(),
        }
    }

    /// All ranks with their groups; `None` is impossible, as the order has been checked.
    #[must_use]
    pub fn ranks(&self) -> Option<Ranks> {
        Ranks::new(&self.order, &self.sizes).ok()
    }

    /// The name in results: its own, else the model's.
    #[must_use]
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(if self.model.name.is_empty() { "step" } else { &self.model.name })
    }
}

/// A table of a step, with what is needed to point into it.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) view: View<'a>,
    pub(super) item: &'a Node,
}

impl<'a> Asked<'a> {
    /// The place of the first of `keys` that is written, dots leading into tables; else that of the workload.
    fn place(&self, keys: &[&str]) -> Place {
        let find = |path: &&str| {
            let mut parts = path.split('.');
            let mut node = self.item.as_table()?.get(parts.next()?)?;
            for part in parts {
                node = node.as_table()?.get(part)?;
            }
            Some(node.place.clone())
        };
        keys.iter().find_map(find).unwrap_or_else(|| self.item.place.clone())
    }

    /// A finding at the first of `keys` that is written.
    pub(super) fn fault(
        &self,
        code: Code,
        message: impl Into<String>,
        keys: &[&str],
        label: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic::new(code, message).at(self.place(keys), label)
    }
}

/// The checks that need no fabric.
pub(super) fn shape(item: &Node, out: &mut Diagnostics) {
    if let Some(table) = item.as_table() {
        let asked = Asked { view: View::new(table, &STEP), item };
        model::model(&asked, out);
        sizes::exclusive_keys(&asked, out);
    }
}

/// Reads and checks a step.
pub(super) fn step(
    item: &Node,
    fabric: &Fabric,
    catalogue: &Catalogue,
    seed: u64,
    out: &mut Diagnostics,
) -> Option<Box<Step>> {
    let view = View::new(item.as_table()?, &STEP);
    let asked = Asked { view, item };
    let model = model::model(&asked, out);
    sizes::exclusive_keys(&asked, out);
    let gpus = super::ranks(&view, fabric, 1, out);
    let compute = compute::compute(&asked, fabric, catalogue, out);
    let order = sizes::order(&asked, out);
    let overlap = sizes::overlap(&asked, out);
    let (model, gpus) = (model?, gpus?);
    let spec = sizes::spec(&asked, gpus, out)?;
    let sizes = match spec.check(&model) {
        Ok(sizes) => sizes,
        Err(faults) => {
            for fault in &faults {
                out.push(sizes::fault(&asked, fault, &model, &spec));
            }
            return None;
        }
    };
    let order = order?;
    let ranks = match Ranks::new(&order, &sizes) {
        Ok(ranks) => ranks,
        Err(fault) => {
            out.push(asked.fault(Code::BadSizes, fault.to_string(), &["order"], "the order of ranks"));
            return None;
        }
    };
    let (placement, gpus) = placement::placement(&asked, fabric, sizes.gpus, out)?;
    placement::leaving(&asked, &placement, &ranks, out);
    let (widths, mut choices) = sizes::choices(&asked, &sizes, &model, out);
    let slow = compute::slow_ranks(&asked, sizes.gpus, out);
    let jitter = compute::jitter(&asked, seed);
    idle::idle(&asked, &sizes, &model, out);
    let mut compute = compute?;
    let overlap = overlap?;
    let beside = overlap.experts || choices.two_batches;
    let (kernels, imbalance) = experts::experts(&asked, (&sizes, &model), (&compute.device, beside), seed, out)?;
    experts::lies_evenly(&asked, kernels, (&placement, &ranks), out);
    choices.kernels = kernels;
    let job = Job { widths, choices, imbalance: imbalance.as_ref(), ..Job::training(&model, &sizes) };
    let slow = slow?;
    sizes::countable(&asked, &job, &overlap, out)?;
    measured::countable(&asked, &job, &compute.machine, &slow, out)?;
    compute.rates.extend(measured::effect(&asked, &job, &compute.machine, overlap.tensor, out));
    let (budget, usage) = memory::memory(&asked, fabric, catalogue, &spec, &job, out)?;
    Some(Box::new(Step {
        name: view.text("name").map(str::to_owned),
        asked: spec,
        sizes,
        order,
        placement,
        rails: placement::rails(fabric, &gpus),
        gpus,
        widths,
        choices,
        taken: experts::taken(kernels, &compute.device),
        imbalance,
        overlap,
        number: compute.number,
        machine: compute.machine,
        device: compute.device,
        rates: compute.rates,
        best_rates: compute.best,
        slowdown: compute.slowdown,
        jitter,
        slow,
        budget,
        usage,
        reuse: view.boolean("reuse"),
        steps: view.integer("steps")?,
        with_previous: view.boolean("with_previous"),
        place: item.place.clone(),
        model,
    }))
}
