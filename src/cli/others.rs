//! What is played beside the run that is shown in full: the same with other seeds, and other designs of the scenario.

use rayon::prelude::*;
use sim_core::outcome::StopReason;
use sim_report::result::{DesignResult, Warning};

use super::args::System;
use super::context::{Context, warnings};
use super::fault::{Exit, Failure};
use super::play;
use crate::diagnostic::{Code, Diagnostic};
use crate::scenario::{Input, Loaded, Setting};
use crate::simulate::Options;
use crate::simulate::seeds::{self, Digest};

/// The most seeds of one call.
pub(super) const MOST_SEEDS: u64 = 10_000;

/// The seeds that follow a scenario's own, and its designs after the first. They are loaded a few at a time, as each may have
/// another fabric.
#[derive(Clone, Debug)]
pub(super) struct Others<'a> {
    input: &'a Input,
    system: &'a System,
    context: Context,
    seeds: Vec<u64>,
    designs: Vec<String>,
}

/// One design as played.
pub(super) struct Played {
    /// What it gave.
    pub(super) result: DesignResult,
    /// Warnings about it.
    pub(super) warnings: Vec<Warning>,
    /// Why and where a seed of it stopped early, and whether it has a limit of time.
    pub(super) stopped: Option<(StopReason, String, bool)>,
}

impl<'a> Others<'a> {
    /// Those of `seeds` in all that follow the seed of `first`, and its other designs, unless one was asked for.
    pub(super) fn after(
        first: &Loaded,
        seeds: u64,
        (input, system): (&'a Input, &'a System),
        context: &Context,
    ) -> Result<Self, Failure> {
        let seed = first.scenario.seed;
        let last = seed.checked_add(seeds - 1).filter(|last| i64::try_from(*last).is_ok());
        let Some(last) = last else {
            let message = format!("{seeds} seeds from {seed} on go beyond the last seed, {}", i64::MAX);
            return Err(Failure::of(Exit::Usage, Diagnostic::new(Code::BadArgument, message)));
        };
        let designs =
            if first.designs.asked { Vec::new() } else { first.designs.names.iter().skip(1).cloned().collect() };
        Ok(Self { input, system, context: context.clone(), seeds: (seed + 1..=last).collect(), designs })
    }

    /// Whether there is no other seed.
    pub(super) fn have_one_seed(&self) -> bool {
        self.seeds.is_empty()
    }

    /// Whether there are other designs.
    pub(super) fn have_designs(&self) -> bool {
        !self.designs.is_empty()
    }

    fn load(&self, design: Option<&str>, seed: Option<u64>) -> Result<Loaded, Failure> {
        let mut context = self.context.clone();
        // Warnings are those of the first.
        context.quiet |= seed.is_some();
        context.settings.extend(design.map(|name| Setting::design("[[design]]", name)));
        context.settings.extend(seed.map(|seed| Setting::value("--seeds", "seed", seed)));
        context.load(self.input, self.system.settings()?)
    }

    /// Plays the other seeds of a design, or of what there is without one, up to where the user interrupts.
    pub(super) fn over_seeds(&self, design: Option<&str>, options: &Options<'_>) -> Result<Vec<Digest>, Failure> {
        let mut all = Vec::new();
        for some in self.seeds.chunks(rayon::current_num_threads().max(1) * 4) {
            let some = some.iter().map(|seed| self.load(design, Some(*seed))).collect::<Result<Vec<_>, _>>()?;
            all.extend(seeds::run_all(&some, options).map_err(|error| play::failure(&error, some.first()))?);
            if all.iter().any(|one| matches!(one.stopped, Some((StopReason::Interrupted, _)))) {
                break;
            }
        }
        Ok(all)
    }

    /// Plays the other designs, up to where the user interrupts; `file` is what the scenario was called by, and ratios are to
    /// `first`.
    pub(super) fn designs(
        &self,
        file: &str,
        options: &Options<'_>,
        first: &DesignResult,
    ) -> Result<Vec<Played>, Failure> {
        let mut out = Vec::new();
        for some in self.designs.chunks(rayon::current_num_threads().max(1)) {
            let some = some.iter().map(|name| self.load(Some(name), None)).collect::<Result<Vec<_>, _>>()?;
            let reports: Vec<_> = some.par_iter().with_max_len(1).map(|loaded| loaded.run_with(options)).collect();
            for (loaded, report) in some.iter().zip(reports) {
                let report = report.map_err(|error| play::failure(&error, Some(loaded)))?;
                let mut all = vec![Digest::of(loaded, &report)];
                all.extend(self.over_seeds(loaded.designs.name(), options)?);
                out.push(Played::of(file, loaded, &report, &all, Some(first)));
            }
            let interrupted = |one: &Played| matches!(one.stopped, Some((StopReason::Interrupted, ..)));
            if out.iter().any(interrupted) {
                break;
            }
        }
        Ok(out)
    }
}

impl Played {
    /// A design of the scenario called by `file`, over its seeds.
    pub(super) fn of(
        file: &str,
        loaded: &Loaded,
        report: &crate::simulate::Report,
        all: &[Digest],
        first: Option<&DesignResult>,
    ) -> Self {
        let limited = loaded.scenario.limits.time.is_some();
        let stopped = all.iter().find_map(|one| one.stopped.clone());
        Self {
            result: seeds::design(file, loaded, report, all, first),
            warnings: warnings(&loaded.diagnostics),
            stopped: stopped.map(|(reason, at)| (reason, at, limited)),
        }
    }
}
