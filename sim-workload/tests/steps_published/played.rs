//! The time of a step by the player: what ranks do in streams, with calls that take what they take alone.
//!
//! Without contention between different calls all replicas are alike: one is played, and its calls take what they take among all. Micro batches beyond those
//! that fill the pipeline add the same time each: a step of many is two of few, and their difference for each further one.

use std::collections::BTreeMap;

use sim_core::units::{Span, Time};
use sim_workload::compute::Figures;
use sim_workload::job::Job;
use sim_workload::parallel::{Ranks, Sizes};
use sim_workload::step::carrier::{Carrier, CarryError, End, Start};
use sim_workload::step::make;
use sim_workload::step::outcome::Outcome;
use sim_workload::step::plan::{Call, Plan};
use sim_workload::step::play::{Options, PlayError, Player, play};

use crate::closed;
use crate::kernels::{Fit, machine};
use crate::mapping::Case;

/// Where a step's time went, in seconds: of the first stage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) total: f64,
    pub(crate) compute: f64,
    pub(crate) exposed: BTreeMap<String, f64>,
    pub(crate) bubble: f64,
    pub(crate) optimizer: f64,
}

/// Calls that take so long, whatever else is under way.
struct Alone {
    spans: Vec<Span>,
    sizes: Vec<u32>,
    ends: BTreeMap<Time, Vec<End>>,
}

impl Carrier for Alone {
    fn start(&mut self, starts: &[Start], at: Time) -> Result<(), CarryError> {
        for start in starts {
            let end = at + self.spans[start.call as usize];
            let members = 0..self.sizes[start.communicator as usize];
            let list = self.ends.entry(end).or_default();
            list.extend(members.map(|member| End { at: end, token: start.token, member }));
        }
        Ok(())
    }

    fn next(&mut self, until: Time) -> Result<Option<Time>, CarryError> {
        Ok(self.ends.keys().next().copied().filter(|at| *at <= until))
    }

    fn take(&mut self, out: &mut Vec<End>) {
        if let Some((_, mut ends)) = self.ends.pop_first() {
            ends.sort_unstable_by_key(|e| (e.token, e.member));
            out.append(&mut ends);
        }
    }
}

/// One replica, and as many more as experts are spread over.
fn replica(sizes: &Sizes) -> Sizes {
    let mut one = sizes.clone();
    let ranks = sizes.tensor * sizes.context;
    let experts = sizes.expert * sizes.expert_tensor;
    one.data = (1..=sizes.data)
        .find(|d| (ranks * d).is_multiple_of(experts) && sizes.data.is_multiple_of(*d))
        .unwrap_or(sizes.data);
    one.gpus = ranks * one.data * sizes.pipeline;
    one.shard = one.data * sizes.context;
    one
}

/// Micro batches that are played: enough to fill the pipeline, and one round more.
fn played_micros(sizes: &Sizes) -> Vec<u64> {
    let (m, p) = (sizes.micros(), sizes.pipeline);
    let few = if p == 1 { 2 } else { 3 * p };
    let more = few + if p == 1 { 1 } else { p };
    if m > more { vec![few, more] } else { vec![m] }
}

/// The sizes with so many micro batches.
fn with_micros(sizes: &Sizes, micros: u64) -> Sizes {
    let mut out = sizes.clone();
    out.global_batch = micros * sizes.data * sizes.micro_batch;
    out
}

fn plan_of(case: &Case, sizes: &Sizes, fit: Fit) -> Plan {
    let job = Job { sizes, ..case.job() };
    make::plan(&job, &machine(case, fit), &case.overlap)
}

/// Where time went, of the first rank.
fn parts(outcome: &Outcome) -> Parts {
    let of = &outcome.ranks[0];
    let mut exposed: BTreeMap<String, f64> = BTreeMap::new();
    for (group, span) in &of.exposed {
        *exposed.entry(group.name().to_owned()).or_default() += span.as_secs();
    }
    Parts {
        total: outcome.end.since(Time::ZERO).as_secs(),
        compute: of.compute.as_secs(),
        exposed,
        bubble: of.bubble.as_secs() + of.straggler.as_secs(),
        optimizer: of.optimizer.as_secs(),
    }
}

/// What `more` is beyond `few`, `times` times, on top of `more`.
fn onward(few: &Parts, more: Parts, times: f64) -> Parts {
    let on = |a: f64, b: f64| b + (b - a) * times;
    let mut out = more;
    out.total = on(few.total, out.total);
    out.compute = on(few.compute, out.compute);
    out.bubble = on(few.bubble, out.bubble);
    out.optimizer = on(few.optimizer, out.optimizer);
    for (name, value) in &mut out.exposed {
        *value = on(few.exposed.get(name).copied().unwrap_or(0.0), *value);
    }
    out
}

/// The step from plays of so many micro batches each.
fn from_plays(sizes: &Sizes, play: impl Fn(&Sizes) -> Parts) -> Parts {
    match *played_micros(sizes) {
        [few, more] => {
            let first = play(&with_micros(sizes, few));
            let second = play(&with_micros(sizes, more));
            onward(&first, second, (sizes.micros() - more) as f64 / (more - few) as f64)
        }
        _ => play(sizes),
    }
}

/// The step of one replica, with calls that take so long.
pub(crate) fn step(case: &Case, fit: Fit, alone: &dyn Fn(&Call) -> Span) -> Parts {
    let one = replica(&case.sizes);
    let ranks = Ranks::new(&case.order, &one).unwrap_or_else(|e| panic!("{}: {e}", case.row.name));
    over(case, &ranks, fit, &|plan, player, sizes| {
        let spans = plan.calls.iter().map(|call| alone(call).max(Span::from_ps(1))).collect();
        play(player, &mut Alone { spans, sizes, ends: BTreeMap::new() }, &|| false)
    })
}

/// How a plan is played: it is given with a player at the beginning and the sizes of its communicators.
type Play<'p> = dyn Fn(&Plan, Player<'_>, Vec<u32>) -> Result<Outcome, PlayError> + 'p;

/// The step of these ranks, played so.
pub(crate) fn over(case: &Case, ranks: &Ranks, fit: Fit, with: &Play<'_>) -> Parts {
    let leaves = closed::leaving(case);
    from_plays(&case.sizes, |sizes| {
        let plan = plan_of(case, sizes, fit);
        let options = Options { slowdown: Some(Figures::builtin().overlap), ..Options::default() };
        let player = Player::new(&plan, ranks, &options, |c| leaves(c.group));
        let sizes = player.communicators().iter().map(|c| c.ranks.len() as u32).collect();
        parts(&with(&plan, player, sizes).unwrap_or_else(|e| panic!("{}: {e}", case.row.name)))
    })
}
