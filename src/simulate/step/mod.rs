//! Training steps: what they are made of, playing them, and what they come to.

mod carry;
mod outline;
mod result;

use std::time::Instant;

use sim_core::outcome::StopReason;
use sim_core::units::{Span, Time};
use sim_report::plot::Timeline;
use sim_report::result::{StepRank, StepResult, StepReuse};
use sim_report::table::step_headline;
use sim_workload::compute::Jitter;
use sim_workload::parallel::Ranks;
use sim_workload::step::make;
use sim_workload::step::outcome::{Outcome, Piece};
use sim_workload::step::plan::Plan;
use sim_workload::step::play::{self, Communicator, Player};

use super::{RunError, Sum, World};
use crate::scenario::Step;

/// Operations of watched ranks, over all of them: what a browser still shows.
const WATCHED: usize = 200_000;

/// What is kept of a step beside its result: every rank, the critical path piece by piece, a timeline of some ranks.
#[derive(Clone, Debug, Default)]
pub struct PlayedStep {
    /// The name of the workload, else of the model.
    pub name: String,
    /// All ranks.
    pub ranks: Vec<StepRank>,
    /// The chain of work that the end waited for, in order of time.
    pub(crate) path: Vec<Piece>,
    /// What some ranks did: one of each stage, as far as their operations are no more than can be shown.
    pub timeline: Timeline,
}

/// Plays a step; false if it stopped early.
pub(super) fn play(world: &mut World<'_>, step: &Step, sum: &mut Sum) -> Result<bool, RunError> {
    let what = format!("step {}", step.title());
    let Some(ranks) = step.ranks() else { return Ok(true) };
    let job = step.job();
    let plan = make::plan(&job, &step.machine, &step.overlap);
    let kept = world.options.keep_all || world.options.timeline;
    let watch = if kept { watched(&plan, &ranks) } else { Vec::new() };
    let options = options(world, step, &watch);
    let mut outcomes: Vec<Outcome> = Vec::new();
    // Without jitter of kernels all steps are the same.
    let different = if step.jitter.kernel_sigma > 0.0 { step.steps } else { 1 };
    let mut reuse = StepReuse::default();
    for number in 0..different {
        let began = Instant::now();
        let jitter = Jitter { step: u64::from(number), ..step.jitter };
        let options = play::Options { jitter, ..options.clone() };
        let leaves = |c: &Communicator| {
            let members: Vec<u64> = c.ranks.iter().map(|rank| u64::from(*rank)).collect();
            step.placement.spread(&members).scales_out()
        };
        let player = Player::new(&plan, &ranks, &options, leaves);
        let carrier = carry::carrier(world, step, player.communicators(), &plan.calls);
        let mut carrier = carrier.map_err(|error| RunError::Step { what: what.clone(), why: error.to_string() })?;
        let stop = || world.interrupted();
        let outcome = match play::play(player, &mut carrier, &stop) {
            Ok(outcome) => outcome,
            Err(_) if world.interrupted() => {
                sum.stop(StopReason::Interrupted, what);
                return Ok(false);
            }
            Err(error) => return Err(RunError::Step { what, why: error.to_string() }),
        };
        carry::add(&mut reuse, carrier.reuse());
        carrier.close(&what, world, &outcome, began.elapsed(), sum)?;
        outcomes.push(outcome);
        world.one_done();
    }
    (different..step.steps).for_each(|_| world.one_done());
    let mut times: Vec<Time> = outcomes.iter().map(|outcome| outcome.end).collect();
    if let Some(only) = times.first().copied().filter(|_| different < step.steps) {
        times.resize(step.steps as usize, only);
    }
    let Some(median) = median(&outcomes) else { return Ok(true) };
    let fabric = &world.loaded.fabric;
    let (result, played) = result::result((step, fabric), (&plan, &ranks), (&times, median), reuse, kept);
    sum.headline = headline(&result);
    sum.headline_us = result.time_us;
    sum.stragglers = None;
    if kept {
        sum.steps.push(played);
    }
    match sum.results.step {
        None => sum.results.step = Some(result),
        Some(_) => sum.results.further_steps.push(result),
    }
    Ok(true)
}

/// How the ranks differ: what the step says, and what faults do to GPUs. What they do to their calls is in the calls.
fn options(world: &World<'_>, step: &Step, watch: &[u32]) -> play::Options {
    let fabric = &world.loaded.fabric;
    let mut factors: Vec<f64> = vec![1.0; step.gpus.len()];
    let mut late: Vec<Span> = vec![Span::ZERO; step.gpus.len()];
    for (rank, gpu) in step.gpus.iter().enumerate() {
        let slowness = fabric.gpus().get(*gpu as usize).and_then(|gpu| fabric.slowness_of(*gpu));
        if let Some(slow) = slowness {
            factors[rank] *= slow.millionths as f64 / 1e6;
        }
    }
    for slow in &step.slow {
        factors[slow.rank as usize] *= slow.factor;
        late[slow.rank as usize] += slow.delay;
    }
    let numbered = |rank: usize| rank as u32;
    play::Options {
        jitter: step.jitter,
        slow: factors.iter().enumerate().filter(|(_, f)| **f != 1.0).map(|(r, f)| (numbered(r), *f)).collect(),
        late: late.iter().enumerate().filter(|(_, d)| **d > Span::ZERO).map(|(r, d)| (numbered(r), *d)).collect(),
        slowdown: Some(step.slowdown),
        watch: watch.to_vec(),
    }
}

/// The first rank of each stage, as far as their operations are no more than can be shown: all of them, or those of stages that
/// are evenly apart.
fn watched(plan: &Plan, ranks: &Ranks) -> Vec<u32> {
    let stages = plan.stages.len().max(1);
    let most = plan.stages.iter().map(|stage| stage.ops.len()).max().unwrap_or(1).max(1);
    let count = (WATCHED / most).clamp(1, 32).min(stages);
    let mut wanted: Vec<u64> = (0..count).map(|i| (i * stages / count) as u64).collect();
    wanted.dedup();
    let first = |stage: &u64| (0..ranks.len()).find(|rank| ranks.coordinates(*rank).stage == *stage);
    wanted.iter().filter_map(first).map(|rank| rank as u32).collect()
}

/// The step of the median time, the lower of two.
fn median(outcomes: &[Outcome]) -> Option<&Outcome> {
    let mut order: Vec<usize> = (0..outcomes.len()).collect();
    order.sort_by_key(|i| outcomes[*i].end);
    outcomes.get(*order.get(outcomes.len().saturating_sub(1) / 2)?)
}

/// The answer, and what most of the time beside compute goes to.
fn headline(result: &StepResult) -> String {
    let parts = &result.parts;
    let mut lost: Vec<(String, f64)> =
        parts.exposed_us.iter().map(|(d, us)| (format!("exposed {d} messages"), *us)).collect();
    lost.push(("the pipeline's bubble".to_owned(), parts.bubble_us));
    lost.push(("waiting for late ranks".to_owned(), parts.straggler_wait_us));
    lost.push(("the optimizer".to_owned(), parts.optimizer_us));
    let most = lost.into_iter().reduce(|a, b| if b.1 > a.1 { b } else { a });
    match most.filter(|(_, us)| *us > 0.001 * result.time_us) {
        Some((name, us)) => {
            format!("{} Largest loss: {name}, {:.1} %.", step_headline(result), us / result.time_us * 100.0)
        }
        None => step_headline(result),
    }
}
