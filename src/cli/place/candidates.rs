//! Divisions and orders of ranks, estimated and simulated.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use sim_core::network::Network;
use sim_core::outcome::StopReason;
use sim_core::random::mix;
use sim_core::units::{Bytes, Span};
use sim_report::result::{Exposed, PlacePart, PlaceRow};
use sim_workload::closed::{Estimate, Library};
use sim_workload::memory::{Budget, would_fit};
use sim_workload::model::activations::Recompute;
use sim_workload::parallel::{Order, Zero};
use sim_workload::search::{self, Asked, CallsBy, Counts, Dimension, Parts, Reach, Split};

use super::super::context::Context;
use super::super::fault::{Exit, Failure};
use super::super::play;
use super::Step;
use crate::diagnostic::{Code, Diagnostic};
use crate::scenario::{Input, Loaded, Scenario, Setting};
use crate::simulate::{Options, RunError, exposed_kind};

/// Memory into which all fits.
const ROOM: Bytes = Bytes::new(1 << 60);

/// What is searched.
pub(super) struct Search<'a> {
    pub(super) loaded: &'a Loaded,
    pub(super) step: &'a Step,
    pub(super) vary: &'a [Dimension],
    /// Whether orders of ranks vary.
    pub(super) orders: bool,
    /// How many are estimated at most.
    pub(super) sample: Option<u64>,
    /// Whether what does not fit into memory is looked at, too, as the scenario wants no check of it.
    pub(super) any: bool,
}

/// A division with an order of ranks.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) split: Arc<Split>,
    pub(super) order: Order,
    pub(super) estimate: Estimate,
    /// What it takes at least.
    pub(super) bound: Span,
    pub(super) played: Option<Played>,
}

/// What its simulation gave.
#[derive(Clone, Debug)]
pub(super) struct Played {
    pub(super) time_us: f64,
    pub(super) parts: Parts,
}

impl Candidate {
    /// The simulated time, else the estimate.
    pub(super) fn time_us(&self) -> f64 {
        self.played.as_ref().map_or_else(|| self.estimate.time.as_us(), |played| played.time_us)
    }

    /// Where the time goes, by the names that a step's parts have.
    pub(super) fn parts(&self) -> Parts {
        self.played.as_ref().map_or_else(|| estimated(&self.estimate), |played| played.parts.clone())
    }

    pub(super) fn row(&self, step: &Step) -> PlaceRow {
        let sizes = &self.split.sizes;
        let parallelism = [
            ("tp", sizes.tensor),
            ("cp", sizes.context),
            ("pp", sizes.pipeline),
            ("vp", sizes.virtual_stages),
            ("dp", sizes.data),
            ("ep", sizes.expert),
            ("etp", sizes.expert_tensor),
            ("micro_batch", sizes.micro_batch),
        ];
        let tokens = (sizes.global_batch * sizes.sequence) as f64;
        let parts = self.parts().into_iter().map(|(name, time_us)| PlacePart { name, time_us });
        PlaceRow {
            parallelism: parallelism.into_iter().map(|(name, n)| (name.to_owned(), n)).collect(),
            changes: self.changes(step).into_iter().collect(),
            order: self.order.to_string(),
            memory_bytes: self.split.usage.total().get(),
            bound_us: self.bound.as_us(),
            estimate_us: self.estimate.time.as_us(),
            time_us: self.played.as_ref().map(|played| played.time_us),
            tokens_per_s_per_gpu: tokens / (self.time_us() / 1e6).max(1e-12) / step.sizes.gpus as f64,
            parts: parts.collect(),
        }
    }

    /// Keys beside sizes that differ from the scenario's.
    pub(super) fn changes(&self, step: &Step) -> Vec<(String, String)> {
        let (spec, own) = (&self.split.spec, &step.asked);
        let recompute = match spec.recompute {
            Recompute::Nothing => "none",
            Recompute::Selective => "selective",
            Recompute::Full => "full",
        };
        let zero = match spec.zero {
            Zero::Replicated => "0",
            Zero::Optimizer => "1",
            Zero::Gradients => "2",
            Zero::Parameters => "3",
        };
        let sequence = spec.sequence_parallel.unwrap_or(spec.tensor > 1);
        let own_sequence = own.sequence_parallel.unwrap_or(spec.tensor > 1);
        let all = [
            ("recompute", recompute.to_owned(), spec.recompute != own.recompute),
            ("zero", zero.to_owned(), spec.zero != own.zero),
            ("sequence_parallel", sequence.to_string(), sequence != own_sequence),
        ];
        all.into_iter().filter(|(.., differs)| *differs).map(|(key, value, _)| (key.to_owned(), value)).collect()
    }

    /// The keys of the scenario that make it this one.
    fn settings(&self, step: &Step, number: usize, batch: bool) -> Vec<Setting> {
        let (spec, sizes) = (&self.split.spec, &self.split.sizes);
        let key = |name: &str| format!("workload.{number}.{name}");
        let mut out: Vec<Setting> = [
            ("tp", sizes.tensor),
            ("cp", sizes.context),
            ("pp", sizes.pipeline),
            ("vp", sizes.virtual_stages),
            ("dp", sizes.data),
            ("ep", sizes.expert),
            ("micro_batch", sizes.micro_batch),
        ]
        .into_iter()
        .map(|(name, value)| Setting::value("place", key(name), value))
        .collect();
        if sizes.expert_tensor != step.asked.expert_tensor {
            out.push(Setting::value("place", key("etp"), sizes.expert_tensor));
        }
        for (name, value) in self.changes(step) {
            out.push(match name.as_str() {
                "recompute" => Setting::text("place", key(&name), value),
                _ => Setting::value("place", key(&name), value),
            });
        }
        out.push(Setting::text("place", key("order"), self.order.to_string()));
        if let (Some(schedule), true) = (&spec.schedule, step.asked.schedule != spec.schedule) {
            out.push(Setting::text("place", key("schedule"), schedule));
        }
        out.push(if batch {
            Setting::value("place", key("global_batch"), sizes.global_batch)
        } else {
            Setting::value("place", key("grad_accumulation"), sizes.micros())
        });
        out
    }
}

/// The parts of an estimate, messages by the kinds that a simulated step tells them by.
fn estimated(estimate: &Estimate) -> Parts {
    let mut exposed: BTreeMap<Exposed, f64> = BTreeMap::new();
    for (group, span) in &estimate.exposed {
        *exposed.entry(exposed_kind(*group)).or_default() += span.as_us();
    }
    let fixed = [("compute", estimate.compute), ("bubble", estimate.bubble), ("optimizer", estimate.optimizer)];
    let fixed = fixed.into_iter().map(|(name, span)| (name.to_owned(), span.as_us()));
    fixed.chain(exposed.into_iter().map(|(kind, us)| (kind.name().to_owned(), us))).collect()
}

impl Search<'_> {
    fn asked(&self) -> Asked<'_> {
        let step = self.step;
        Asked {
            model: &step.model,
            spec: &step.asked,
            widths: step.widths,
            choices: step.choices,
            machine: &step.machine,
            overlap: step.overlap,
            slowdown: step.slowdown,
            budget: if self.any { Budget { memory: ROOM, usable: 1_000_000, ..step.budget } } else { step.budget },
            placement: &step.placement,
        }
    }

    /// The library that times of calls are estimated by.
    fn library<'a>(&'a self, network: &'a Network) -> Library<'a> {
        let make = |group: &[u32]| self.loaded.machine(group).map_err(|error| error.to_string());
        Library::new(&self.loaded.fabric, network, Box::new(make))
    }

    /// All that holds and fits, the best estimate first.
    pub(super) fn estimates(&self) -> Result<(Vec<Candidate>, Counts), Failure> {
        let asked = self.asked();
        let (splits, counts) = search::splits(&asked, self.vary);
        if splits.is_empty() {
            return Err(self.nothing(counts));
        }
        let orders =
            |split: &Split| if self.orders { search::orders(&split.sizes) } else { vec![self.step.order.clone()] };
        let splits: Vec<Arc<Split>> = splits.into_iter().map(Arc::new).collect();
        let mut pairs: Vec<(Arc<Split>, Order)> =
            splits.iter().flat_map(|split| orders(split).into_iter().map(|order| (Arc::clone(split), order))).collect();
        if let Some(most) = self.sample.and_then(|n| usize::try_from(n).ok()).filter(|n| *n < pairs.len()) {
            let seed = mix(self.loaded.scenario.seed);
            let mut drawn: Vec<(u64, usize)> = (0..pairs.len()).map(|at| (mix(seed ^ mix(at as u64)), at)).collect();
            drawn.sort_unstable();
            let mut keep: Vec<usize> = drawn[..most].iter().map(|(_, at)| *at).collect();
            keep.sort_unstable();
            pairs = keep.into_iter().map(|at| pairs[at].clone()).collect();
        }
        let (network, reach) = (self.loaded.library_network(), Reach::of(&self.loaded.fabric));
        let library = self.library(&network);
        let calls = CallsBy::Library(&library, &self.step.gpus);
        let one = |(split, order): &(Arc<Split>, Order)| {
            let estimate = search::estimate(&asked, split, order, calls).ok()?;
            let bound = search::bound(&asked, split, order, &reach).ok()?;
            Some(Candidate { split: Arc::clone(split), order: order.clone(), estimate, bound, played: None })
        };
        let mut list: Vec<Candidate> = pairs.par_iter().with_max_len(4).filter_map(one).collect();
        // Orders of one division that closed forms can't tell apart come once, unless orders are all that varies.
        if !self.vary.is_empty() {
            let mut seen: Vec<(Arc<Split>, Estimate)> = Vec::new();
            list.retain(|one| {
                // They follow each other.
                seen.retain(|(split, _)| Arc::ptr_eq(split, &one.split));
                let new = !seen.iter().any(|(_, estimate)| *estimate == one.estimate);
                if new {
                    seen.push((Arc::clone(&one.split), one.estimate.clone()));
                }
                new
            });
        }
        // Equal times stay in the order of sizes and orders.
        list.sort_by_key(|one| one.estimate.time);
        if list.is_empty() { Err(self.nothing(counts)) } else { Ok((list, counts)) }
    }

    /// Why there is nothing, and what would be near.
    fn nothing(&self, counts: Counts) -> Failure {
        let step = self.step;
        let message = format!(
            "none of {} divisions can be: of {} a relation does not hold, {} do not fit into memory",
            counts.looked_at, counts.impossible, counts.too_large
        );
        let fault = Diagnostic::new(Code::DoesNotFit, message);
        let fault = match would_fit(&step.model, &step.asked, &step.job(), &step.budget) {
            Err((too_large, _)) => fault.note(format!("of the scenario's own: {too_large}")),
            Ok(_) => fault,
        };
        Failure::of(Exit::Usage, fault.help(self.would_do()))
    }

    /// What would fit if more varied.
    fn would_do(&self) -> String {
        let more = [Dimension::Recompute, Dimension::Zero, Dimension::MicroBatch];
        let sizes = [Dimension::Tensor, Dimension::Context, Dimension::Pipeline, Dimension::Virtual, Dimension::Expert];
        let asked = self.asked();
        let (network, reach) = (self.loaded.library_network(), Reach::of(&self.loaded.fabric));
        let library = self.library(&network);
        // The fewest further keys first.
        let further: [&[Dimension]; 4] = [&more[..1], &more[..2], &more, &sizes];
        let mut vary = self.vary.to_vec();
        for one in further {
            vary.extend(one.iter().filter(|d| !self.vary.contains(d)));
            let (splits, _) = search::splits(&asked, &vary);
            let candidate = |split: Split| {
                let order = self.step.order.clone();
                let order = if search::orders(&split.sizes).contains(&order) {
                    order
                } else {
                    search::orders(&split.sizes).into_iter().next()?
                };
                let calls = CallsBy::Library(&library, &self.step.gpus);
                let estimate = search::estimate(&asked, &split, &order, calls).ok()?;
                let bound = search::bound(&asked, &split, &order, &reach).ok()?;
                Some(Candidate { split: Arc::new(split), order, estimate, bound, played: None })
            };
            let best = splits.into_iter().filter_map(candidate).min_by_key(|one| one.estimate.time);
            if let Some(best) = best {
                let row = best.row(self.step);
                let names: Vec<&str> =
                    Dimension::ALL.iter().filter(|(_, d)| vary.contains(d)).map(|(name, _)| *name).collect();
                return format!("{} would fit: --vary {},order", words(&row), names.join(","));
            }
        }
        "nothing that `--vary` knows would make it fit: more GPUs, or a smaller model".to_owned()
    }

    /// Simulates these; a remark if that was not possible.
    pub(super) fn play(
        &self,
        list: &mut [Candidate],
        (input, number): (&Input, usize),
        context: &Context,
        flag: &Arc<AtomicBool>,
    ) -> Result<Option<String>, Failure> {
        if list.is_empty() {
            return Ok(None);
        }
        let load = |one: &Candidate, batch: bool| {
            let mut settings = context.settings.clone();
            settings.extend(one.settings(self.step, number, batch));
            Scenario::load(input, &settings)
        };
        // A scenario says the batch in one of two ways.
        let mut own = context.settings.clone();
        own.push(Setting::value("place", format!("workload.{number}.memory_check"), false));
        own.push(Setting::value("place", format!("workload.{number}.global_batch"), self.step.sizes.global_batch));
        let batch = Scenario::load(input, &own).is_ok();
        let bar = play::progress(context);
        if let Some(bar) = &bar {
            bar.set_length(list.len() as u64);
        }
        let one = |one: &mut Candidate| -> Result<Option<String>, Failure> {
            let loaded = load(one, batch).map_err(Failure::usage)?;
            let options = Options { interrupt: Some(Arc::clone(flag)), ..Options::default() };
            let report = match loaded.run_with(&options) {
                Ok(report) => report,
                Err(RunError::NotModelled(what)) => {
                    return Ok(Some(format!("not simulated: {what} is not modelled yet")));
                }
                Err(error) => return Err(play::failure(&error, Some(&loaded))),
            };
            if report.stopped.is_some_and(|reason| reason != StopReason::Interrupted) {
                return Ok(Some(format!("not simulated to its end: {}", report.stopped_at)));
            }
            if let Some(step) = report.results.step.as_ref().filter(|_| report.stopped.is_none()) {
                let mut parts: Parts = vec![
                    ("compute".to_owned(), step.parts.compute_us),
                    ("bubble".to_owned(), step.parts.bubble_us),
                    ("optimizer".to_owned(), step.parts.optimizer_us),
                    ("stragglers".to_owned(), step.parts.straggler_wait_us),
                ];
                parts.extend(step.parts.exposed_us.iter().map(|(name, us)| (name.clone(), *us)));
                one.played = Some(Played { time_us: step.time_us, parts });
            }
            if let Some(bar) = &bar {
                bar.inc(1);
            }
            Ok(None)
        };
        let told: Result<Vec<Option<String>>, Failure> = list.par_iter_mut().with_max_len(1).map(one).collect();
        if let Some(bar) = &bar {
            bar.finish_and_clear();
        }
        let told = told?;
        Ok(told.into_iter().flatten().next())
    }
}

/// Sizes in a line, those of one left out, and other keys that differ from the scenario's: `tp 8 · pp 16 · dp 8 · recompute full`.
pub(super) fn words(row: &PlaceRow) -> String {
    let names = ["tp", "cp", "pp", "vp", "dp", "ep", "etp", "micro_batch"];
    let shown = names.iter().filter_map(|name| Some((name, row.parallelism.get(*name).filter(|n| **n > 1)?)));
    let mut list: Vec<String> =
        shown.map(|(name, n)| format!("{} {n}", if *name == "micro_batch" { "mbs" } else { name })).collect();
    if list.is_empty() {
        list.push("one GPU".to_owned());
    }
    list.extend(row.changes.iter().map(|(key, value)| format!("{key} {value}")));
    list.join(" · ")
}
