//! What the simulations of a run come to, in order.

use std::time::Duration;

use sim_collectives::Machine;
use sim_core::outcome::{Outcome, StopReason};
use sim_core::random::mix;
use sim_core::units::{Span, Time};
use sim_report::result::{CollectiveResult, EngineResult, RunResults, TransferResult};

use super::links::Totals;
use super::{Options, PlayedStep, Recorded, Report, RunError, profile, stalled, transport};
use crate::scenario::Loaded;

/// What the simulations of a run come to, in order.
pub(super) struct Sum {
    pub(super) results: RunResults,
    pub(super) ranks: Vec<u32>,
    pub(super) totals: Totals,
    pub(super) packets: transport::Sums,
    pub(super) transfers: Vec<TransferResult>,
    pub(super) steps: Vec<PlayedStep>,
    pub(super) slowest_us: Vec<f64>,
    pub(super) median_us: Vec<f64>,
    pub(super) wall: Duration,
    pub(super) simulated: Span,
    pub(super) fingerprint: u64,
    /// Events of all simulations; of steps whose messages can be reused the operations of ranks, which are as many whether they are.
    pub(super) work: u64,
    pub(super) headline: String,
    /// The row of the headline and its stragglers, if it has any.
    pub(super) stragglers: Option<(usize, String)>,
    pub(super) headline_us: f64,
    pub(super) stopped: Option<StopReason>,
    pub(super) stopped_at: String,
}

impl Sum {
    pub(super) fn new(loaded: &Loaded, all: bool) -> Self {
        Self {
            results: RunResults::default(),
            ranks: Vec::new(),
            totals: Totals::new(loaded.fabric.links().len()),
            packets: transport::Sums::new(loaded, all),
            transfers: Vec::new(),
            steps: Vec::new(),
            slowest_us: Vec::new(),
            median_us: Vec::new(),
            wall: Duration::ZERO,
            simulated: Span::ZERO,
            fingerprint: 0,
            work: 0,
            headline: String::new(),
            stragglers: None,
            headline_us: 0.0,
            stopped: None,
            stopped_at: String::new(),
        }
    }

    /// Adds what one simulation, called `what`, measured, whose work began at `began`; false if it stopped early.
    pub(super) fn add(
        &mut self,
        what: &str,
        loaded: &Loaded,
        outcome: &Outcome,
        began: Time,
        wall: Duration,
    ) -> Result<bool, RunError> {
        sound(what, outcome)?;
        self.totals.add(outcome, began);
        self.packets.add(what, loaded, outcome, began);
        let engine = &mut self.results.engine;
        engine.events += outcome.engine.events;
        self.work += outcome.engine.events;
        engine.segment_hops += outcome.engine.segment_hops;
        let (ahead, repeated) = (&mut engine.fast_forwarded, outcome.repeated);
        ahead.periods += repeated.periods;
        ahead.events += repeated.events;
        ahead.segment_hops += repeated.segment_hops;
        engine.peak_pending = engine.peak_pending.max(outcome.peak_pending);
        self.wall += wall;
        self.simulated += outcome.ended.since(Time::ZERO);
        self.fingerprint = mix(self.fingerprint ^ outcome.fingerprint);
        if outcome.reason != StopReason::Finished {
            let circle = match self.packets.deadlock() {
                [] => String::new(),
                links => format!(": {} wait for each other", links.join(", ")),
            };
            let why = match (&outcome.net, outcome.reason) {
                (Some(net), StopReason::NoProgress) => stalled::why(loaded, net, outcome.ended),
                (Some(net), StopReason::GaveUp) => stalled::who(loaded, net),
                _ => String::new(),
            };
            let after = outcome.ended.since(Time::ZERO);
            self.stop(outcome.reason, format!("{what}, after {after} of simulated time{circle}{why}"));
            return Ok(false);
        }
        Ok(true)
    }

    pub(super) fn stop(&mut self, reason: StopReason, at: String) {
        if self.stopped.is_none() {
            self.stopped = Some(reason);
            self.stopped_at = at;
        }
    }

    /// Adds the timing parameters that predictions on this communicator asked for, in order of name.
    pub(super) fn parameters(&mut self, machine: &Machine<'_>) {
        let list = &mut self.results.parameters;
        for p in profile::asked(&machine.timing) {
            if !list.iter().any(|known| known.name == p.name) {
                list.push(p);
            }
        }
        list.sort_by(|a, b| a.name.cmp(&b.name));
    }

    pub(super) fn collective(&mut self, row: CollectiveResult, ranks: u32) {
        self.results.collectives.push(row);
        self.ranks.push(ranks);
    }

    pub(super) fn report(mut self, loaded: &Loaded, options: &Options<'_>) -> Report {
        let fabric = &loaded.fabric;
        let (links, carried) = (self.totals.results(fabric, &self.packets), self.totals.carried());
        let all_links = if options.keep_all { links.clone() } else { Vec::new() };
        self.results.set_links(links);
        let all_transfers = if options.keep_all { self.transfers.clone() } else { Vec::new() };
        self.results.set_transfers(self.transfers);
        self.results.series = self.packets.recorder.series();
        self.results.transport = loaded.packets.as_ref().map(|packets| self.packets.result(packets, &loaded.fabric));
        // This takes the flows.
        let recorded = if options.keep_all { self.packets.recorder.recorded(fabric) } else { Recorded::default() };
        let reason = self.stopped.unwrap_or(StopReason::Finished);
        self.results.engine = EngineResult {
            wall_s: self.wall.as_secs_f64(),
            simulated_us: Some(self.simulated.as_us()),
            stopped: Some(reason_name(reason).to_owned()),
            fingerprint: Some(format!("{:016x}", self.fingerprint)),
            ..self.results.engine
        };
        Report {
            headline: self.headline,
            headline_us: self.headline_us,
            findings: Vec::new(),
            carried,
            results: self.results,
            slowest_us: self.slowest_us,
            median_us: self.median_us,
            all_transfers,
            all_links,
            steps: self.steps,
            recorded,
            ranks: self.ranks,
            work: self.work,
            stopped: self.stopped,
            stopped_at: self.stopped_at,
        }
    }
}

/// The engine's own books must balance, whatever was played.
pub(super) fn sound(what: &str, outcome: &Outcome) -> Result<(), RunError> {
    if outcome.faults.is_empty() {
        return Ok(());
    }
    let faults: Vec<String> = outcome.faults.iter().map(ToString::to_string).collect();
    Err(RunError::Invariant { what: what.to_owned(), faults: faults.join("; ") })
}

/// The word for a reason in results.
pub(super) const fn reason_name(reason: StopReason) -> &'static str {
    match reason {
        StopReason::Finished => "finished",
        StopReason::Deadlock => "deadlock",
        StopReason::EventLimit => "event_limit",
        StopReason::TimeLimit => "time_limit",
        StopReason::Interrupted => "interrupted",
        StopReason::GaveUp => "gave_up",
        StopReason::NoProgress => "no_progress",
    }
}
