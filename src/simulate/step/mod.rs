//! Training steps: what they are made of, playing them, and what they come to.

mod alone;
mod beside;
mod carry;
mod experts;
mod outline;
mod refused;
mod result;

use std::rc::Rc;
use std::time::Instant;

use sim_core::outcome::StopReason;
use sim_core::units::{Span, Time};
use sim_report::plot::Timeline;
use sim_report::result::{StepRank, StepResult, StepReuse};
use sim_report::table::{step_alone_short, step_headline, step_messages};
use sim_workload::compute::Jitter;
use sim_workload::parallel::Ranks;
use sim_workload::step::carrier::CarryError;
use sim_workload::step::make;
use sim_workload::step::outcome::{Outcome, Piece};
use sim_workload::step::plan::Plan;
use sim_workload::step::play::{self, Arrived, Communicator, PlayError, Player};

pub(super) use refused::refused;
pub(crate) use result::exposed_kind;

use super::{RunError, Sum, World};
use crate::scenario::{Step, Workload};

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

/// Steps of which all that was done is kept; of more only their times, and the median one is played again in the end.
const WHOLE: u32 = 16;

/// Lets go what grows with the operations of a step.
fn slim(outcome: &mut Outcome) {
    outcome.path = Vec::new();
    outcome.ran = Vec::new();
}

/// A step that is about to be played.
#[derive(Clone)]
struct Job<'a> {
    step: &'a Step,
    plan: Rc<Plan>,
    ranks: Rc<Ranks>,
    options: play::Options,
}

/// Plays a step, with others that begin with it and transfers beside them; false if it stopped early.
pub(super) fn play(world: &mut World<'_>, first: &Step, with: &[Workload], sum: &mut Sum) -> Result<bool, RunError> {
    let others = with.iter().filter_map(|w| if let Workload::Step(step) = w { Some(&**step) } else { None });
    let all: Vec<&Step> = core::iter::once(first).chain(others).collect();
    let what = all.iter().map(|step| format!("step {}", step.title())).collect::<Vec<_>>().join(" with ");
    let kept = world.options.keep_all || world.options.timeline;
    let mut jobs = Vec::new();
    for step in &all {
        let Some(ranks) = step.ranks() else { return Ok(true) };
        let plan = Rc::new(make::plan(&step.job(), &step.machine, &step.overlap));
        let watch = if kept { watched(&plan, &ranks) } else { Vec::new() };
        let options = options(world, step, &watch);
        jobs.push(Job { step, plan, ranks: Rc::new(ranks), options });
    }
    let beside = beside::traffic(world, with)?;
    let mut played: Vec<Vec<Outcome>> = Vec::new();
    let mut ended: Vec<Arrived> = Vec::new();
    // Without jitter of kernels all steps are the same.
    let asked = all.iter().map(|step| step.steps).max().unwrap_or(1);
    let different = if all.iter().any(|step| step.jitter.kernel_sigma > 0.0) { asked } else { 1 };
    let mut reuse = vec![StepReuse::default(); jobs.len()];
    let mut cut = false;
    let fault = |why: String| RunError::Step { what: what.clone(), why };
    let (events_before, work_before) = (sum.results.engine.events, sum.work);
    let mut operations = 0;
    for number in 0..different {
        let began = Instant::now();
        let (outcome, carrier) = once(world, &jobs, &beside, number).map_err(|error| fault(error.to_string()))?;
        let outcomes = match outcome {
            Ok((mut outcomes, arrived)) => {
                ended = arrived;
                if different > WHOLE {
                    outcomes.iter_mut().for_each(slim);
                }
                outcomes
            }
            Err(error) => {
                let Some((reason, at)) = stopped(world, &error) else { return Err(fault(error.to_string())) };
                carrier.cut(&what, world, began.elapsed(), sum)?;
                sum.stop(reason, format!("{what}{at}"));
                cut = true;
                break;
            }
        };
        carrier.reuse(&mut reuse);
        carrier.close(&what, world, &outcomes, began.elapsed(), sum)?;
        operations += outcomes.iter().map(|outcome| outcome.operations).sum::<u64>();
        played.push(outcomes);
        world.one_done();
    }
    // Which does not depend on whether calls were reused.
    let work = if carry::reusable(world) { operations } else { sum.results.engine.events - events_before };
    sum.work = work_before + work;
    let began = Instant::now();
    let alone =
        if cut { vec![None; jobs.len()] } else { alone::alone(world, &jobs, (different, work, beside.len()), &fault)? };
    sum.wall += began.elapsed();
    (different..asked).for_each(|_| world.one_done());
    sum.stragglers = None;
    let mut said = Vec::new();
    for ((at, job), alone) in jobs.iter().enumerate().zip(alone) {
        let outcomes: Vec<&Outcome> = played.iter().filter_map(|of| of.get(at)).collect();
        let mut times: Vec<Time> = outcomes.iter().map(|outcome| outcome.end).collect();
        if let Some(only) = times.first().copied().filter(|_| different < job.step.steps) {
            times.resize(job.step.steps as usize, only);
        }
        let Some(number) = median(&outcomes) else { continue };
        let again: Outcome;
        let mut median = outcomes[number];
        if different > WHOLE {
            // What was let go of it.
            let (ended, _) = once(world, &jobs, &beside, number as u32).map_err(|error| fault(error.to_string()))?;
            match ended {
                Ok((mut list, _)) if at < list.len() => again = list.swap_remove(at),
                Err(error) if !world.interrupted() => return Err(fault(error.to_string())),
                _ => {
                    sum.stop(StopReason::Interrupted, what);
                    return Ok(false);
                }
            }
            median = &again;
        }
        let of = (job.step, &world.loaded.fabric);
        let (mut result, kept_of) =
            result::result(of, (&job.plan, &job.ranks), (&times, median), reuse[at].clone(), kept);
        result.alone = alone;
        said.push(headline(&result));
        sum.headline_us = if at == 0 { result.time_us } else { sum.headline_us.max(result.time_us) };
        if kept {
            sum.steps.push(kept_of);
        }
        match sum.results.step {
            None => sum.results.step = Some(result),
            Some(_) => sum.results.further_steps.push(result),
        }
    }
    said.extend(beside.iter().zip(&ended).map(|(traffic, arrived)| traffic.told(arrived)));
    sum.headline = said.join(" ");
    sum.results.beside_steps.extend(beside.iter().zip(&ended).map(|(traffic, arrived)| traffic.result(arrived)));
    Ok(!cut)
}

/// Why a step was not played to its end, and at which call, if that is no fault.
fn stopped(world: &World<'_>, error: &PlayError) -> Option<(StopReason, String)> {
    match error {
        _ if world.interrupted() => Some((StopReason::Interrupted, String::new())),
        PlayError::Interrupted => Some((StopReason::Interrupted, String::new())),
        PlayError::Carry(CarryError::Stopped { what, reason }) => Some((*reason, format!(", {what}"))),
        _ => None,
    }
}

/// What a played step gave: the outcome of each job, and what became of each traffic beside them.
type Ended = Result<(Vec<Outcome>, Vec<Arrived>), PlayError>;

/// Plays the `number`-th step of all jobs, with traffic beside it; and who carried its messages.
fn once<'a>(
    world: &World<'a>,
    jobs: &[Job<'_>],
    beside: &[beside::Traffic],
    number: u32,
) -> Result<(Ended, carry::Carrying<'a>), CarryError> {
    let drawn = |job: &Job<'_>| {
        let jitter = Jitter { step: u64::from(number), ..job.step.jitter };
        play::Options { jitter, ..job.options.clone() }
    };
    let drawn: Vec<play::Options> = jobs.iter().map(drawn).collect();
    let players: Vec<Player<'_>> = jobs.iter().zip(&drawn).map(|(job, options)| player(job, options)).collect();
    let of: Vec<_> = jobs.iter().zip(&players).map(|(job, player)| (job.step, player, &*job.plan)).collect();
    let programs = beside.iter().map(|traffic| traffic.program.clone()).collect();
    let (mut carrier, numbers) = carry::carrier(world, &of, programs)?;
    let traffic: Vec<_> = numbers.zip(beside).map(|(number, traffic)| traffic.at(number)).collect();
    let stop = || world.interrupted();
    let ended = play::play_together(players, &traffic, &mut carrier, &stop);
    Ok((ended, carrier))
}

/// A player of a job.
fn player<'a>(job: &'a Job<'_>, options: &'a play::Options) -> Player<'a> {
    let nics_alone = |c: &Communicator| {
        let members: Vec<u64> = c.ranks.iter().map(|rank| u64::from(*rank)).collect();
        job.step.placement.spread(&members).over_nics_alone()
    };
    Player::new(&job.plan, &job.ranks, options, nics_alone)
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
        exchange: step.taken,
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

/// The number of the step of the median time, the lower of two.
fn median(outcomes: &[&Outcome]) -> Option<usize> {
    let mut order: Vec<usize> = (0..outcomes.len()).collect();
    order.sort_by_key(|i| outcomes[*i].end);
    order.get(outcomes.len().saturating_sub(1) / 2).copied()
}

/// The answer, what most of the time beside compute goes to, and what others beside it cost.
fn headline(result: &StepResult) -> String {
    let lost = largest_loss(result);
    match step_alone_short(result) {
        Some(alone) => format!("{lost} {alone}"),
        None => lost,
    }
}

fn largest_loss(result: &StepResult) -> String {
    let parts = &result.parts;
    let mut lost: Vec<(String, f64)> =
        parts.exposed_us.iter().map(|(d, us)| (format!("exposed {}", step_messages(d)), *us)).collect();
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
