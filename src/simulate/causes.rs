//! What held packets back where no link did: pauses, missing credits, rate controls, windows, grants, timeouts.

use sim_core::net::spec::FlowControlSpec;
use sim_core::net::{FlowOutcome, NetPlan};
use sim_core::outcome::Outcome;
use sim_core::units::{Span, Time};
use sim_report::table::time_text;
use sim_topology::Fabric;

use super::links::share;

/// From this share of its time on a link is full, and what holds senders back is there for its sake.
pub(super) const FULL: f64 = 0.75;
/// The share of queue pairs' time from which a cause bounds the work, whatever links do, and where no link does.
pub(super) const MOST: f64 = 0.5;
pub(super) const SOME: f64 = 0.25;

/// What held queue pairs back.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cause {
    /// The part of the time for which it did.
    pub(super) share: f64,
    /// In words.
    pub(super) words: String,
}

/// The time for which one cause held queue pairs back, and how many of them for more than [`SOME`] of theirs.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    ps: u128,
    flows: u64,
    times: u64,
}

impl Held {
    fn add(&mut self, span: Span, times: u64, busy: Span) {
        let ps = span.as_ps().min(busy.as_ps());
        self.ps += u128::from(ps);
        self.times += times;
        self.flows += u64::from(ps as f64 > SOME * busy.as_ps() as f64);
    }
}

/// What held the queue pairs of a run back for most of their time; `None` without packets, or if nothing did. Work began at
/// `began`; `busiest` names the busiest link with its share of the time.
pub(super) fn cause(
    fabric: &Fabric,
    plan: Option<&NetPlan>,
    outcome: &Outcome,
    began: Time,
    busiest: Option<(&str, f64)>,
) -> Option<Cause> {
    let (plan, net) = (plan?, outcome.net.as_deref()?);
    let mut busy = 0u128;
    let [mut paced, mut windowed, mut held, mut late] = [Held::default(); 4];
    let rto = plan.flow.timeout.unwrap_or(Span::ZERO);
    for flow in net.flows.iter().filter(|flow| flow.busy > Span::ZERO) {
        let FlowOutcome { timeouts, busy: own, .. } = *flow;
        busy += u128::from(own.as_ps());
        paced.add(flow.paced, 0, own);
        windowed.add(flow.windowed, 0, own);
        held.add(flow.behind_held, 0, own);
        late.add(Span::from_ps(rto.as_ps().saturating_mul(timeouts)), timeouts, own);
    }
    // What happens while hardly anything is under way bounds little.
    let time = u128::from(outcome.ended.since(began.min(outcome.ended)).as_ps());
    let part = |held: Held| held.ps as f64 / busy.max(time).max(1) as f64;
    let flows = |held: Held| format!("{} flow{}", held.flows, if held.flows == 1 { "" } else { "s" });
    let link = busiest.map_or_else(String::new, |(name, share)| format!(" (busiest: {name}, {:.0} %)", share * 100.0));
    let facts = plan.rate.facts();
    let own_window = plan.flow.window != u64::MAX || !facts.slows_down;
    let windows = match (facts.asks_for_grants, own_window) {
        (true, _) => format!("grants of receivers to {}{link}", flows(windowed)),
        (false, true) => format!("the window of {}{link}", flows(windowed)),
        (false, false) => format!("rate control of {}{link}", flows(windowed)),
    };
    let rates = format!("{} of {}{link}", if facts.slows_down { "rate control" } else { "the set rate" }, flows(paced));
    let ports = net.ports.iter().enumerate().flat_map(|(port, all)| all.iter().map(move |class| (port, class.held)));
    let longest = ports.rev().max_by_key(|(_, held)| *held);
    let port = longest.and_then(|(port, held)| Some((plan.links.get(port)?, held)));
    let port = port.map_or_else(String::new, |(link, held)| {
        let share = share(held, outcome.ended.since(began.min(outcome.ended)));
        format!(" ({} held for {:.0} % of the time)", fabric.link_name(*link), share * 100.0)
    });
    let pauses = matches!(plan.spec.flow_control, FlowControlSpec::Shared(_));
    let pauses = format!("{}{port}", if pauses { "pauses" } else { "missing credits" });
    let times = if late.times == 1 { "once".to_owned() } else { format!("{} times", late.times) };
    let timeouts = format!("timeouts of {} ({times} {})", flows(late), time_text(rto.as_us()));
    let all = [(late, timeouts), (held, pauses), (windowed, windows), (paced, rates)];
    let all = all.into_iter().map(|(held, words)| Cause { share: part(held), words });
    // The first of equals.
    all.rev().max_by(|a, b| a.share.total_cmp(&b.share)).filter(|cause| cause.share > SOME)
}
