//! Counters of links, summed over the simulations of a run.

use std::collections::BTreeSet;

use sim_core::ids::LinkId;
use sim_core::network::Network;
use sim_core::outcome::Outcome;
use sim_core::units::{Bytes, Span, Time};
use sim_report::result::LinkResult;
use sim_topology::Fabric;

use super::transport::Sums;

#[derive(Clone, Copy, Default)]
struct Counted {
    payload: u64,
    held: Span,
    busy: Span,
    longest_wait: Span,
}

/// What a link did in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Payload that crossed it, bytes.
    pub payload: u64,
    /// Time by which outages put the starts of its segments off.
    pub held: Span,
}

/// Sums per link.
pub(super) struct Totals {
    links: Vec<Counted>,
    time: Span,
    /// Whether queues of some simulations were not looked at.
    unseen: bool,
}

impl Totals {
    pub(super) fn new(links: usize) -> Self {
        Self { links: vec![Counted::default(); links], time: Span::ZERO, unseen: false }
    }

    /// Adds one simulation, as if it followed the others. The time before its work began does not count.
    pub(super) fn add(&mut self, outcome: &Outcome, began: Time) {
        for (sum, link) in self.links.iter_mut().zip(&outcome.links) {
            sum.payload += link.payload;
            sum.held += link.held;
            sum.busy += link.busy;
            sum.longest_wait = sum.longest_wait.max(link.longest_wait);
        }
        self.time += outcome.ended.since(began.min(outcome.ended));
    }

    /// Adds a simulation of which only the payload of each link is known: a link is busy for as long as that takes at its rate.
    pub(super) fn add_payload(&mut self, payload: &[Bytes], network: &Network, ended: Time) {
        for ((sum, payload), link) in self.links.iter_mut().zip(payload).zip(network.links()) {
            sum.payload += payload.get();
            sum.busy += link.rate.time_for(*payload);
        }
        self.time += ended.since(Time::ZERO);
        self.unseen = true;
    }

    /// Payload and time held by outages of each link, in the fabric's order.
    pub(super) fn carried(&self) -> Vec<Carried> {
        self.links.iter().map(|l| Carried { payload: l.payload, held: l.held }).collect()
    }

    /// All links in the fabric's order. Virtual links are lossless and unbounded: nothing is marked, paused or dropped.
    pub(super) fn results(&self, fabric: &Fabric, packets: &Sums) -> Vec<LinkResult> {
        let result = |(i, (sum, link)): (usize, (&Counted, &sim_topology::Link))| {
            let port = packets.port(LinkId::new(i));
            let counted = port.copied().unwrap_or_default();
            let held = counted.held.as_us();
            let (pause, stall) = if packets.paused() { (held, 0.0) } else { (0.0, held) };
            // Of a part of the time only, where that was asked for.
            let ns = if packets.window { counted.observed_ns as f64 } else { self.time.as_us() * 1e3 };
            LinkResult {
                link: fabric.link_name(LinkId::new(i)),
                class: link.class.to_string(),
                bytes: sum.payload,
                utilization: share(sum.busy, self.time),
                peak_queue_bytes: match (port, sum.longest_wait) {
                    (Some(port), _) => Some(port.peak),
                    (None, _) if self.unseen => None,
                    (None, Span::ZERO) => Some(0),
                    (None, wait) => Some(link.rate.ps_per_byte().bytes_in(wait).get()),
                },
                ecn_marked: counted.marks,
                pfc_pause_us: pause,
                drops: counted.drops,
                mean_queue_bytes: port.map(|port| if ns > 0.0 { port.byte_ns as f64 / ns } else { 0.0 }),
                pfc_pauses: port.filter(|_| packets.paused()).map(|port| port.pauses),
                credit_stall_us: port.filter(|_| !packets.paused()).map(|_| stall),
                p99_queue_bytes: port.map(|port| port.p99),
                pfc_sent: port.filter(|_| packets.paused()).map(|port| port.asked),
                pfc_sent_us: port.filter(|_| packets.paused()).map(|port| port.asked_for.as_us()),
                ingress_peak_bytes: port.map(|port| port.input_peak),
                classes: packets.classes_of(LinkId::new(i)),
                headroom_peak_bytes: port.filter(|_| packets.paused()).map(|port| port.headroom_peak),
                cnps: port.map(|port| port.notices),
                retransmitted: port.map(|port| port.resent),
                queue_histogram_ns: port.filter(|_| packets.histograms).map(|port| port.histogram.to_vec()),
            }
        };
        self.links.iter().zip(fabric.links()).enumerate().map(result).collect()
    }
}

/// `part` of `whole`, 0 to 1.
pub(super) fn share(part: Span, whole: Span) -> f64 {
    if whole == Span::ZERO { 0.0 } else { (part.as_ps() as f64 / whole.as_ps() as f64).min(1.0) }
}

/// The link that was busy longest in one simulation, the first of equals, with its share of the time; of some links only,
/// where they are given.
pub(super) fn busiest(outcome: &Outcome, among: Option<&BTreeSet<LinkId>>) -> Option<(LinkId, f64)> {
    let counted = |id: &LinkId| among.is_none_or(|links| links.contains(id));
    let links = (0..outcome.links.len()).map(LinkId::new).filter(counted);
    let id = links.rev().max_by_key(|id| outcome.links[id.index()].busy)?;
    let link = &outcome.links[id.index()];
    (link.busy > Span::ZERO).then(|| (id, share(link.busy, outcome.ended.since(Time::ZERO))))
}

/// The same, with its share of the time since the work began.
pub(super) fn busiest_since(outcome: &Outcome, began: Time, among: Option<&BTreeSet<LinkId>>) -> Option<(LinkId, f64)> {
    let (id, _) = busiest(outcome, among)?;
    Some((id, share(outcome.links[id.index()].busy, outcome.ended.since(began.min(outcome.ended)))))
}
