//! What a run recorded of its ports and queue pairs, one by one and over time.

use std::collections::BTreeMap;

use sim_core::ids::LinkId;
use sim_core::net::{FlowOutcome, NetOutcome, PortCounters, Series};
use sim_core::network::Forwarding;
use sim_core::outcome::Outcome;
use sim_core::units::{Bytes, PsPerByte, Span, Time};
use sim_report::result::{FlowRow, FlowSeries, LinkSeries, PortRow, SeriesResult};
use sim_topology::{Fabric, LinkPlace};

use super::links::share;
use crate::scenario::{Loaded, Packets};

/// Queue pairs that results name, and that are kept for a file, of a run.
const NAMED: usize = 32;
const KEPT: usize = 100_000;

/// What was recorded.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Every class of every port of the network, in the fabric's order.
    pub ports: Vec<PortRow>,
    /// The queue pairs, in the order of simulations: all, up to 100,000 of them, then the slowest.
    pub flows: Vec<FlowRow>,
    /// Samples of each simulation.
    pub series: Vec<SeriesResult>,
}

/// Sums up over the simulations of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    places: Vec<LinkPlace>,
    classes: Vec<Vec<PortCounters>>,
    busy: Vec<Span>,
    time: Span,
    flows: Vec<FlowRow>,
    flows_total: u64,
    most: usize,
    paused: bool,
    series: Vec<SeriesResult>,
}

impl Recorder {
    /// For a fabric; with `all` every queue pair is kept, else the slowest.
    pub(super) fn new(loaded: &Loaded, all: bool, paused: bool) -> Self {
        let places = loaded.fabric.places().map(|places| places.links).unwrap_or_default();
        let busy = vec![Span::ZERO; places.len()];
        Self { busy, places, most: if all { KEPT } else { NAMED }, paused, ..Self::default() }
    }

    /// Adds one simulation.
    pub(super) fn add(
        &mut self,
        what: &str,
        (fabric, packets): (&Fabric, &Packets),
        (outcome, net): (&Outcome, &NetOutcome),
        began: Time,
    ) {
        self.time += outcome.ended.since(began.min(outcome.ended));
        self.classes.resize_with(self.places.len(), Vec::new);
        for (at, (place, counted)) in self.places.iter().zip(&net.ports).enumerate() {
            self.busy[at] += outcome.links[place.link.index()].busy;
            self.classes[at].resize_with(counted.len(), PortCounters::default);
            self.classes[at].iter_mut().zip(counted).for_each(|(sum, more)| sum.add(more));
        }
        let served = |flow: &FlowOutcome| flow.arrived > 0 || flow.busy > Span::ZERO;
        let mut flows: Vec<&FlowOutcome> = net.flows.iter().filter(|flow| served(flow)).collect();
        self.flows_total += flows.len() as u64;
        let took = |flow: &FlowOutcome| {
            let last = if flow.messages > 0 { flow.delivered_at } else { outcome.ended };
            last.since(flow.started_at.min(last))
        };
        if flows.len() > self.most {
            flows.sort_by_key(|flow| core::cmp::Reverse(took(flow)));
            flows.truncate(self.most);
        }
        let names = Names { fabric, places: &self.places, net };
        self.flows.extend(flows.into_iter().map(|flow| names.row(what, flow, took(flow), packets)));
        if self.flows.len() > self.most {
            self.flows.sort_by(|a, b| b.fct_us.total_cmp(&a.fct_us));
            self.flows.truncate(self.most);
        }
        if !net.series.at.is_empty() {
            let mut result = names.series(&net.series);
            what.clone_into(&mut result.run);
            result.asked_us = packets.observed.interval.as_us();
            self.series.push(result);
        }
    }

    /// The slowest queue pairs, and how many there were.
    pub(super) fn slowest(&self) -> (Vec<FlowRow>, u64) {
        let mut rows: Vec<&FlowRow> = self.flows.iter().collect();
        rows.sort_by(|a, b| b.fct_us.total_cmp(&a.fct_us));
        (rows.into_iter().take(NAMED).cloned().collect(), self.flows_total)
    }

    /// Samples as results have them: a part.
    pub(super) fn series(&self) -> Vec<SeriesResult> {
        self.series.iter().take(16).map(|series| series.cut(1_000, 16)).collect()
    }

    /// All that was recorded.
    pub(super) fn recorded(&mut self, fabric: &Fabric) -> Recorded {
        let paused = self.paused;
        let port = |at: usize| {
            let (link, classes) = (fabric.link_name(self.places[at].link), &self.classes[at]);
            let wire: u64 = classes.iter().map(|class| class.bytes).sum();
            let busy = share(self.busy[at], self.time);
            let row = move |(number, class): (usize, &PortCounters)| {
                let (held, stalled) = if paused { (class.held, Span::ZERO) } else { (Span::ZERO, class.held) };
                PortRow {
                    link: link.clone(),
                    class: number as u32,
                    bytes: class.bytes,
                    packets: class.packets,
                    control_bytes: class.control_bytes,
                    utilization: busy * class.bytes as f64 / wire.max(1) as f64,
                    mean_queue_bytes: class.mean(),
                    p99_queue_bytes: class.quantile(0.99),
                    peak_queue_bytes: class.peak,
                    ecn_marked: class.marks,
                    cnps: class.notices,
                    pfc_pauses: class.pauses,
                    pfc_pause_us: held.as_us(),
                    pfc_sent: class.asked,
                    pfc_sent_us: class.asked_for.as_us(),
                    pfc_refreshes: class.refreshes,
                    credit_waits: class.waits,
                    credit_stall_us: stalled.as_us(),
                    ingress_peak_bytes: class.input_peak,
                    headroom_peak_bytes: class.headroom_peak,
                    drops: class.drops - class.headroom_drops,
                    headroom_drops: class.headroom_drops,
                    watchdog_drops: class.watchdog_drops,
                    lost: class.lost,
                    retransmitted: class.resent,
                }
            };
            classes.iter().enumerate().map(row).collect::<Vec<_>>()
        };
        let ports = (0..self.classes.len()).flat_map(port).collect();
        let (flows, series) = (core::mem::take(&mut self.flows), core::mem::take(&mut self.series));
        Recorded { ports, flows, series }
    }
}

/// Names for what a network numbers.
struct Names<'a> {
    fabric: &'a Fabric,
    places: &'a [LinkPlace],
    net: &'a NetOutcome,
}

impl Names<'_> {
    fn route(&self, qp: u32) -> Vec<&LinkPlace> {
        let ports = self.net.routes.get(qp as usize).map_or(&[][..], Vec::as_slice);
        ports.iter().filter_map(|port| self.places.get(*port as usize)).collect()
    }

    /// The NICs at the ends of a queue pair.
    fn ends(&self, qp: u32) -> (String, String) {
        let route = self.route(qp);
        let name = |id| self.fabric.device(id).name.clone();
        let first = route.first().map(|place| name(self.fabric.link(place.link).from));
        let last = route.last().map(|place| name(self.fabric.link(place.link).to));
        (first.unwrap_or_default(), last.unwrap_or_default())
    }

    fn row(&self, what: &str, flow: &FlowOutcome, took: Span, packets: &Packets) -> FlowRow {
        let (src, dst) = self.ends(flow.qp);
        let route = self.route(flow.qp);
        let links: Vec<LinkId> = route.iter().map(|place| place.link).collect();
        let acked = (flow.acked_at >= flow.started_at && flow.acked_at > Time::ZERO).then_some(flow.acked_at);
        let alone = (flow.messages == 1).then(|| alone(self.fabric, &route, flow.payload, packets));
        FlowRow {
            run: what.to_owned(),
            src,
            dst,
            qp: flow.qp,
            bytes: flow.payload,
            messages: flow.messages,
            start_us: flow.started_at.since(Time::ZERO).as_us(),
            fct_us: took.as_us(),
            acked_us: acked.map(|acked| acked.since(flow.started_at).as_us()),
            slowdown: alone.filter(|alone| *alone > Span::ZERO).map(|alone| took.as_us() / alone.as_us()),
            marked: flow.marked,
            cnps: flow.notices,
            retransmitted: flow.resent,
            timeouts: flow.timeouts,
            held_us: flow.behind_held.as_us(),
            window_us: flow.windowed.as_us(),
            paced_us: flow.paced.as_us(),
            failed: flow.failed,
            path: links.iter().map(|link| self.fabric.link_name(*link)).collect(),
        }
    }

    fn series(&self, series: &Series) -> SeriesResult {
        let rates = |sums: &[u64]| -> Vec<f64> {
            let mut before = 0;
            let spans = series.at.windows(2).map(|pair| pair[1].since(pair[0]));
            let spans = core::iter::once(series.at.first().map_or(Span::ZERO, |at| at.since(Time::ZERO))).chain(spans);
            let rate = |(sum, span): (&u64, Span)| {
                let more = sum.saturating_sub(core::mem::replace(&mut before, *sum));
                if span > Span::ZERO { more as f64 / span.as_us() / 1e3 } else { 0.0 }
            };
            sums.iter().zip(spans).map(rate).collect()
        };
        let port = |port: &sim_core::net::PortSeries| {
            let moved = port.sent.last().is_some_and(|sent| *sent > 0) || port.held.contains(&true);
            let place = self.places.get(port.port as usize).filter(|_| moved)?;
            let mut before = 0;
            Some(LinkSeries {
                link: self.fabric.link_name(place.link),
                queue_bytes: port.queued.clone(),
                rate: rates(&port.sent),
                held: port.held.clone(),
                marked: port.marks.iter().map(|sum| sum - core::mem::replace(&mut before, *sum)).collect(),
            })
        };
        let mut pairs: BTreeMap<(String, String), u32> = BTreeMap::new();
        for flow in &series.flows {
            *pairs.entry(self.ends(flow.flow)).or_default() += 1;
        }
        let flow = |flow: &sim_core::net::FlowSeries| {
            flow.arrived.last().filter(|arrived| **arrived > 0)?;
            let ends = self.ends(flow.flow);
            let number = if pairs[&ends] > 1 { format!(" qp {}", flow.flow) } else { String::new() };
            let allowed = |pace: &PsPerByte| {
                // Picoseconds for a megabyte.
                let cost = pace.cost(Bytes::new(1_000_000)).as_ps();
                (cost > 0).then(|| 1e9 / cost as f64)
            };
            Some(FlowSeries {
                flow: format!("{}->{}{number}", ends.0, ends.1),
                rate: rates(&flow.arrived),
                allowed: flow.pace.iter().map(allowed).collect(),
                outstanding_bytes: flow.out.clone(),
            })
        };
        SeriesResult {
            run: String::new(),
            asked_us: 0.0,
            interval_us: series.interval.as_us(),
            time_us: series.at.iter().map(|at| at.since(Time::ZERO).as_us()).collect(),
            links: series.ports.iter().filter_map(port).collect(),
            flows: series.flows.iter().filter_map(flow).collect(),
            left_out: series.left_out,
        }
    }
}

/// What a message takes alone on its way through the network, to the last byte's arrival: latencies, its bytes on the slowest link,
/// and on each other link what its end holds before it sends on (the closed form of `docs/models.md`).
fn alone(fabric: &Fabric, route: &[&LinkPlace], payload: u64, packets: &Packets) -> Span {
    let (mtu, full) = (packets.reach.mtu.get().max(1), packets.reach.packet.get());
    let wire = payload + payload.div_ceil(mtu).max(1) * (full - mtu);
    let sound = |place: &&LinkPlace| {
        let link = fabric.link(place.link);
        fabric.losses_of(place.link).map_or((link.rate, link.latency), |lossy| lossy.without(link.rate, link.latency))
    };
    let Some(slowest) = route.iter().map(|place| sound(place).0).min() else { return Span::ZERO };
    let bottleneck = route.iter().position(|place| sound(place).0 == slowest);
    let mut sum = slowest.ps_per_byte().cost(Bytes::new(wire));
    for (at, place) in route.iter().enumerate() {
        let (rate, latency) = sound(place);
        sum += latency;
        if Some(at) != bottleneck {
            let held = match place.forwarding {
                Forwarding::CutThrough { header } => header.get(),
                Forwarding::StoreAndForward | Forwarding::Relay => full,
            };
            sum += rate.ps_per_byte().cost(Bytes::new(held.min(wire)));
        }
    }
    sum
}
