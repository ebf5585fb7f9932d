//! What held packets back where no link did: pauses, missing credits, rate controls, windows, grants, timeouts.

use sim_core::net::spec::FlowControlSpec;
use sim_core::net::{FlowOutcome, NetOutcome, NetPlan};
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
    let rto = timeout(plan);
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

/// What held one queue pair back, the nearer to the root the earlier: a held port fills windows and lets timers run out, and a
/// timeout is a time with a full window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Held,
    Late,
    Windowed,
    Paced,
}

/// For how long one cause held a queue pair back, of how long.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    kind: Kind,
    flow: &'a FlowOutcome,
    span: Span,
    whole: Span,
}

/// The cause that held a queue pair back for more than [`MOST`] of `whole`, without it of the time that it had something under way.
fn part<'a>(flow: &'a FlowOutcome, rto: Span, whole: Option<Span>) -> Option<Part<'a>> {
    let whole = whole.unwrap_or(flow.busy);
    let late = Span::from_ps(rto.as_ps().saturating_mul(flow.timeouts));
    let all = [
        (Kind::Held, flow.behind_held),
        (Kind::Late, late),
        (Kind::Windowed, flow.windowed),
        (Kind::Paced, flow.paced),
    ];
    let mut all = all.into_iter().map(|(kind, span)| Part { kind, flow, span: span.min(flow.busy), whole });
    all.find(|part| part.span.as_ps() as f64 > MOST * part.whole.as_ps() as f64)
}

/// What held most of the flows that ended last back, or the very last one, for most of their time; `None` if nothing did.
pub(super) fn of_last(fabric: &Fabric, plan: &NetPlan, outcome: &Outcome, last: &[&FlowOutcome]) -> Option<String> {
    let net = outcome.net.as_deref()?;
    let mut flows = last.to_vec();
    flows.sort_by_key(|flow| core::cmp::Reverse(flow.delivered_at));
    let parts: Vec<Option<Part<'_>>> = flows.iter().map(|flow| part(flow, timeout(plan), None)).collect();
    let count = |kind: Kind| parts.iter().flatten().filter(|part| part.kind == kind).count();
    let very_last = parts.first()?.map(|part| part.kind);
    let most = || {
        let kinds = [Kind::Held, Kind::Late, Kind::Windowed, Kind::Paced];
        kinds.into_iter().find(|kind| 2 * count(*kind) >= parts.len())
    };
    let kind = very_last.or_else(most)?;
    let first = parts.iter().flatten().find(|part| part.kind == kind)?;
    let who = match (count(kind), parts.len()) {
        (_, 1) => "the last flow".to_owned(),
        (n, all) if n == all => format!("the {all} last flows"),
        (n, all) => format!("{n} of the {all} last flows"),
    };
    Some(words(fabric, (plan, net), *first, &who, count(kind)))
}

/// The pauses, missing credits or timeouts that held one queue pair back for most of the whole run, so that all that depends on it
/// waited; `None` if none did. A warm call and two that take `time` each, as the mean over ranks, are played: where less than half
/// of it fits into these two it was in the warm one, which doesn't count.
pub(super) fn of_all(fabric: &Fabric, plan: &NetPlan, outcome: &Outcome, time: Span) -> Option<String> {
    let net = outcome.net.as_deref()?;
    let whole = outcome.ended.since(Time::ZERO);
    let served = net.flows.iter().filter(|flow| flow.busy > Span::ZERO);
    let parts: Vec<Part<'_>> = served.clone().filter_map(|flow| part(flow, timeout(plan), Some(whole))).collect();
    let of = |kind: Kind| parts.iter().filter(move |part| part.kind == kind);
    let kind = [Kind::Held, Kind::Late].into_iter().find(|kind| of(*kind).next().is_some())?;
    // The first of equals.
    let longest = of(kind).rev().max_by_key(|part| part.span)?;
    let n = of(kind).count();
    if longest.span.as_ps() > time.as_ps().saturating_mul(4) {
        return None;
    }
    Some(words(fabric, (plan, net), *longest, &format!("{n} of {} flows", served.count()), n))
}

/// A cause in words: whom it held back, and one of them with its times.
fn words(fabric: &Fabric, (plan, net): (&NetPlan, &NetOutcome), part: Part<'_>, who: &str, count: usize) -> String {
    let Part { kind, flow, span, whole } = part;
    let facts = plan.rate.facts();
    let own_window = plan.flow.window != u64::MAX || !facts.slows_down;
    let for_so_long =
        |what: &str, span: Span| format!("{what} {} of {}", time_text(span.as_us()), time_text(whole.as_us()));
    let times = |what: &str| for_so_long(what, span);
    let cause = match kind {
        Kind::Held => {
            let (holder, held) = holder(fabric, plan, net, span);
            format!("{holder} before {who} ({})", for_so_long("held", held))
        }
        Kind::Late => {
            let rto = time_text(timeout(plan).as_us());
            format!("timeouts of {who} ({} of {rto} in {})", flow.timeouts, time_text(whole.as_us()))
        }
        Kind::Windowed if facts.asks_for_grants => format!("grants of receivers to {who} ({})", times("waited")),
        Kind::Windowed if own_window => format!("the window of {who} ({})", times("full")),
        Kind::Windowed => format!("rate control of {who} ({})", times("window full")),
        Kind::Paced if facts.slows_down => format!("rate control of {who} ({})", times("paced")),
        Kind::Paced => format!("the set rate of {who} ({})", times("paced")),
    };
    let first = if count > 1 { "first " } else { "" };
    format!("{cause}, {first}{}", ends(fabric, plan, net, flow))
}

/// What held a flow for `span`, a sum over ports, and for how long: a pause storm, if its port was held for at least half of that;
/// else pauses or credits.
fn holder(fabric: &Fabric, plan: &NetPlan, net: &NetOutcome, span: Span) -> (String, Span) {
    let held = |link| {
        let port = plan.links.binary_search(link).ok().and_then(|port| net.ports.get(port));
        port.and_then(|classes| classes.iter().map(|class| class.held).max()).unwrap_or(Span::ZERO)
    };
    let storms = fabric.pause_storms().iter().map(|(link, _)| (link, held(link)));
    match storms.rev().max_by_key(|(_, held)| *held).filter(|(_, held)| held.as_ps() >= span.as_ps() / 2) {
        Some((link, held)) => (format!("a pause storm on {}", fabric.link_name(*link)), held.min(span)),
        None if matches!(plan.spec.flow_control, FlowControlSpec::Shared(_)) => ("pauses".to_owned(), span),
        None => ("missing credits".to_owned(), span),
    }
}

/// The NICs at the ends of a queue pair.
fn ends(fabric: &Fabric, plan: &NetPlan, net: &NetOutcome, flow: &FlowOutcome) -> String {
    let route = net.routes.get(flow.qp as usize).map_or(&[][..], Vec::as_slice);
    let link = |port: Option<&u32>| port.and_then(|port| plan.links.get(*port as usize)).map(|id| fabric.link(*id));
    let [from, to] = [link(route.first()).map(|link| link.from), link(route.last()).map(|link| link.to)]
        .map(|end| end.map_or("?", |id| fabric.device(id).name.as_str()));
    format!("{from}->{to}")
}

/// After how long senders go back; zero if none does.
fn timeout(plan: &NetPlan) -> Span {
    let others = plan.others.iter().map(|(flow, _)| flow);
    core::iter::once(&plan.flow).chain(others).find_map(|flow| flow.timeout).unwrap_or(Span::ZERO)
}
