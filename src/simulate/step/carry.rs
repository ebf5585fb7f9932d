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
    /// All of it is played: how many calls, and why.
    Whole(Box<Whole<'a>>, u64, &'static str),
}

/// The carrier of the calls of these players, each of a step, and of programs beside them; and the communicators of these programs.
pub(super) fn carrier<'a>(
    world: &World<'a>,
    of: &[(&Step, &Player<'_>, &Plan)],
    beside: Vec<Program>,
) -> Result<(Carries<'a>, core::ops::Range<u32>), CarryError> {
    let loaded = world.loaded;
    let make: Make<'a> = Box::new(|group| loaded.machine(group).map_err(|error| error.to_string()));
    let (mut groups, mut calls): (Vec<Vec<u32>>, Vec<Call>) = (Vec::new(), Vec::new());
    let mut all = Vec::new();
    let mut exchanges = Vec::new();
    for (step, player, plan) in of {
        let gpus = |c: &Communicator| c.ranks.iter().filter_map(|r| step.gpus.get(*r as usize).copied()).collect();
        let (communicators, numbers) = (groups.len() as u32, calls.len() as u32);
        all.extend(player.calls().into_iter().map(|(group, call)| (group + communicators, call + numbers)));
        groups.extend(player.communicators().iter().map(gpus));
        let before = exchanges.len() as u32;
        calls.extend(plan.calls.iter().map(|call| Call { exchange: call.exchange.map(|e| e + before), ..*call }));
        exchanges.extend_from_slice(&plan.exchanges);
    }
    let made = Calls::new(&loaded.fabric, world.by_library.clone(), make, groups, calls).exchanging(exchanges);
    let (made, numbers) = made.beside(beside);
    all.extend(numbers.clone().map(|communicator| (communicator, 0)));
    let made = made.announced(all)?;
    let limits = world.limits();
    let why = match islands::reuse(world.by_library) {
        Reuse::Exact if of.iter().all(|(step, ..)| step.reuse) => {
            return Ok((Carries::Islands(Box::new(Islands::new(made, limits))), numbers));
        }
        Reuse::Exact => "reuse = false",
        Reuse::Off { why } => why,
    };
    Ok((Carries::Whole(Box::new(Whole::new(made, limits)?), 0, why), numbers))
}

impl Carrier for Carries<'_> {
    fn start(&mut self, starts: &[Start], at: Time) -> Result<(), CarryError> {
        match self {
            Self::Islands(islands) => islands.start(starts, at),
            Self::Whole(whole, calls, _) => {
                *calls += starts.len() as u64;
                whole.start(starts, at)
            }
        }
    }

    fn next(&mut self, until: Time) -> Result<Option<Time>, CarryError> {
        match self {
            Self::Islands(islands) => islands.next(until),
            Self::Whole(whole, ..) => whole.next(until),
        }
    }

    fn take(&mut self, out: &mut Vec<End>) {
        match self {
            Self::Islands(islands) => islands.take(out),
            Self::Whole(whole, ..) => whole.take(out),
        }
    }
}

impl Carries<'_> {
    /// Adds to `sum` what was simulated of a step called `what`, in `wall` of time.
    pub(super) fn close(
        self,
        what: &str,
        world: &World<'_>,
        outcomes: &[Outcome],
        wall: Duration,
        sum: &mut Sum,
    ) -> Result<(), RunError> {
        match self {
            Self::Islands(islands) => {
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
            Self::Whole(whole, ..) => {
                sum.add(what, world.loaded, &whole.finish(), Time::ZERO, wall)?;
            }
        }
        Ok(())
    }

    /// What was simulated.
    pub(super) fn reuse(&self) -> StepReuse {
        match self {
            Self::Islands(islands) => {
                let counts = islands.counts();
                StepReuse {
                    calls: counts.calls,
                    played: counts.words_played,
                    exact: true,
                    events_played: counts.events_played,
                    events_saved: counts.events_saved,
                    why: None,
                }
            }
            Self::Whole(whole, calls, why) => StepReuse {
                calls: *calls,
                played: *calls,
                exact: true,
                events_played: whole.events(),
                events_saved: 0,
                why: Some((*why).to_owned()),
            },
        }
    }
}

/// Adds what was simulated of another step.
pub(super) fn add(sum: &mut StepReuse, other: StepReuse) {
    sum.calls += other.calls;
    sum.played += other.played;
    sum.events_played += other.events_played;
    sum.events_saved += other.events_saved;
    sum.exact = other.exact;
    sum.why = other.why;
}
