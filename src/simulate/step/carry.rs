//! Who carries the messages of a step over the scenario's fabric: islands that are played once for all that are alike, or one
//! engine for all.

use std::time::Duration;

use sim_core::program::Program;
use sim_core::random::mix;
use sim_core::units::Time;
use sim_report::result::StepReuse;
use sim_workload::step::calls::{Calls, Make};
use sim_workload::step::carrier::{Carrier, CarryError, End, Start};
use sim_workload::step::islands::{self, Islands, Reuse};
use sim_workload::step::outcome::Outcome;
use sim_workload::step::plan::{Call, Plan};
use sim_workload::step::play::{Communicator, Player};
use sim_workload::step::whole::Whole;

use super::super::{RunError, Sum, World};
use crate::scenario::Step;

/// What carries messages.
pub(super) enum Carries<'a> {
    /// What is alike is played once.
    Islands(Box<Islands<'a>>),
    /// All of it is played, and why.
    Whole(Box<Whole<'a>>, &'static str),
}

/// A carrier that counts whose calls it starts.
pub(super) struct Carrying<'a> {
    carries: Carries<'a>,
    /// Of each job the number of its last communicator and one, and its calls; then of the traffic beside them.
    of: Vec<(u32, u64)>,
}

/// The carrier of the calls of these players, each of a step, and of programs beside them; and the communicators of these programs.
pub(super) fn carrier<'a>(
    world: &World<'a>,
    of: &[(&Step, &Player<'_>, &Plan)],
    beside: Vec<Program>,
) -> Result<(Carrying<'a>, core::ops::Range<u32>), CarryError> {
    let loaded = world.loaded;
    let make: Make<'a> = Box::new(|group| loaded.machine(group).map_err(|error| error.to_string()));
    let (mut groups, mut calls): (Vec<Vec<u32>>, Vec<Call>) = (Vec::new(), Vec::new());
    let mut all = Vec::new();
    let mut exchanges = Vec::new();
    let mut until = Vec::new();
    for (step, player, plan) in of {
        let gpus = |c: &Communicator| c.ranks.iter().filter_map(|r| step.gpus.get(*r as usize).copied()).collect();
        let (communicators, numbers) = (groups.len() as u32, calls.len() as u32);
        all.extend(player.calls().into_iter().map(|(group, call)| (group + communicators, call + numbers)));
        groups.extend(player.communicators().iter().map(gpus));
        let before = exchanges.len() as u32;
        calls.extend(plan.calls.iter().map(|call| Call { exchange: call.exchange.map(|e| e + before), ..*call }));
        exchanges.extend_from_slice(&plan.exchanges);
        until.push((groups.len() as u32, 0));
    }
    until.extend((!beside.is_empty()).then_some((u32::MAX, 0)));
    let made = Calls::new(&loaded.fabric, world.by_library.clone(), make, groups, calls).exchanging(exchanges);
    let (made, numbers) = made.beside(beside);
    all.extend(numbers.clone().map(|communicator| (communicator, 0)));
    let made = made.announced(all)?;
    let limits = world.limits();
    let carries = match islands::reuse(world.by_library) {
        Reuse::Exact if of.iter().all(|(step, ..)| step.reuse) => {
            Carries::Islands(Box::new(Islands::new(made, limits)))
        }
        Reuse::Exact => Carries::Whole(Box::new(Whole::new(made, limits)?), "reuse = false"),
        Reuse::Off { why } => Carries::Whole(Box::new(Whole::new(made, limits)?), why),
    };
    Ok((Carrying { carries, of: until }, numbers))
}

/// Whether calls over the scenario's network can be reused at all, whatever it says of reuse.
pub(super) fn reusable(world: &World<'_>) -> bool {
    islands::reuse(world.by_library) == Reuse::Exact
}

impl Carrier for Carrying<'_> {
    fn start(&mut self, starts: &[Start], at: Time) -> Result<(), CarryError> {
        for start in starts {
            if let Some((_, calls)) = self.of.iter_mut().find(|(until, _)| start.communicator < *until) {
                *calls += 1;
            }
        }
        match &mut self.carries {
            Carries::Islands(islands) => islands.start(starts, at),
            Carries::Whole(whole, _) => whole.start(starts, at),
        }
    }

    fn next(&mut self, until: Time) -> Result<Option<Time>, CarryError> {
        match &mut self.carries {
            Carries::Islands(islands) => islands.next(until),
            Carries::Whole(whole, _) => whole.next(until),
        }
    }

    fn take(&mut self, out: &mut Vec<End>) {
        match &mut self.carries {
            Carries::Islands(islands) => islands.take(out),
            Carries::Whole(whole, _) => whole.take(out),
        }
    }
}

impl Carrying<'_> {
    /// Adds to `sum` what was simulated of a step called `what`, in `wall` of time.
    pub(super) fn close(
        self,
        what: &str,
        world: &World<'_>,
        outcomes: &[Outcome],
        wall: Duration,
        sum: &mut Sum,
    ) -> Result<(), RunError> {
        match self.carries {
            Carries::Islands(islands) => {
                let end = outcomes.iter().map(|outcome| outcome.end).max().unwrap_or_default();
                let payload = islands.carried().map_err(|why| RunError::Step { what: what.to_owned(), why })?;
                sum.totals.add_payload(&payload, world.by_library, end);
                sum.results.engine.events += islands.counts().events_played;
                sum.wall += wall;
                sum.simulated += end.since(Time::ZERO);
                for end in outcomes.iter().flat_map(|outcome| &outcome.ends) {
                    sum.fingerprint = mix(sum.fingerprint ^ end.as_ps());
                }
            }
            Carries::Whole(whole, _) => {
                sum.add(what, world.loaded, &whole.finish(), Time::ZERO, wall)?;
            }
        }
        Ok(())
    }

    /// Adds to `sum` what was simulated of a step called `what` that was not played to its end.
    pub(super) fn cut(self, what: &str, world: &World<'_>, wall: Duration, sum: &mut Sum) -> Result<(), RunError> {
        match self.carries {
            Carries::Islands(islands) => {
                sum.results.engine.events += islands.counts().events_played;
                sum.wall += wall;
            }
            Carries::Whole(whole, _) => {
                sum.add(what, world.loaded, &whole.finish(), Time::ZERO, wall)?;
            }
        }
        Ok(())
    }

    /// Adds what was simulated of each job to `sums`.
    pub(super) fn reuse(&self, sums: &mut [StepReuse]) {
        let calls = || self.of.iter().map(|(_, calls)| *calls);
        let all: u64 = calls().sum();
        let (played, events_played, events_saved, why) = match &self.carries {
            Carries::Islands(islands) => {
                let counts = islands.counts();
                let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
                let saved = signed(counts.events) - signed(counts.events_played);
                (counts.words_played, counts.events_played, saved, None)
            }
            Carries::Whole(whole, why) => (all, whole.events(), 0, Some((*why).to_owned())),
        };
        for (sum, calls) in sums.iter_mut().zip(calls()) {
            sum.calls += calls;
            sum.together = (self.of.len() > 1).then(|| sum.together.unwrap_or(0) + all);
            sum.played += played;
            sum.events_played += events_played;
            sum.events_saved += events_saved;
            sum.why.clone_from(&why);
        }
    }
}
