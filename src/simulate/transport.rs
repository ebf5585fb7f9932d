//! Networks of packets: from a scenario's transport to what the engine is told, and from what it measured to results.

use sim_core::ids::LinkId;
use sim_core::net::coarse::Bound;
use sim_core::net::spec::{Between, FlowControlSpec, NetSpec, NodeBuffer, Observe, PortSpec, Storm, Threshold};
use sim_core::net::{NetOutcome, NetPlan, OCTAVES, PortCounters};
use sim_core::network::Network;
use sim_core::outcome::Outcome;
use sim_core::units::{Bytes, Span, Time};
use sim_report::result::{
    GrainResult, LinkClassResult, TransportParameter, TransportResult, TransportTotals, VictimResult,
};
use sim_topology::{Fabric, LinkPlace, Places};

use super::classes::Classes;
use super::observed::Recorder;
use crate::scenario::{Class, Loaded, Packets};

/// `network` with its links between NICs and switches as ports of a network of packets, at the rates that it gives them.
pub(super) fn over_packets(network: Network, fabric: &Fabric, packets: Option<&Packets>) -> Network {
    match packets.and_then(|packets| plan(&network, fabric, packets)) {
        Some(plan) => network.with_packets(plan),
        None => network,
    }
}

/// What the engine is told. The fabric has been looked through when the scenario was read.
fn plan(network: &Network, fabric: &Fabric, packets: &Packets) -> Option<NetPlan> {
    let places = fabric.places().ok()?;
    let overhead = packets.reach.packet.get() - packets.reach.mtu.get();
    let ports = places.links.iter().map(|place| {
        let link = network.link(place.link);
        let lossy = fabric.losses_of(place.link);
        // What stands for losses on virtual links gives way to real ones.
        let (rate, latency) = lossy.map_or((link.rate, link.latency), |lossy| lossy.without(link.rate, link.latency));
        PortSpec {
            rate,
            latency,
            near: place.near,
            far: place.far,
            twin: place.twin,
            forwarding: place.forwarding,
            lose_every: 0,
            lose_per_2_32: lossy.map_or(packets.lost, |lossy| both(packets.lost, lossy.loss)),
        }
    });
    // A class with several lanes is as many classes of the network, one behind the other.
    let lanes = usize::from(packets.lanes);
    let each = |class: &'_ Class| core::iter::repeat_n(class.clone(), lanes);
    let classes: Vec<Class> = packets.classes.iter().flat_map(each).collect();
    let buffers_of_lanes = match &packets.flow_control {
        FlowControlSpec::Credits(credits) if classes.iter().any(|class| class.credits.is_some()) => {
            classes.iter().map(|class| class.credits.unwrap_or(credits.buffer)).collect()
        }
        _ => Vec::new(),
    };
    let between = if lanes > 1 { fabric.between_groups() } else { Vec::new() };
    let raises = |(port, place): (usize, &LinkPlace)| between.binary_search(&place.link).ok().map(|_| port as u32);
    let (own, others) = packets.ways.split_first()?;
    let spec = NetSpec {
        seed: packets.seed,
        mtu: packets.reach.mtu.get() as u32,
        overhead: overhead as u32,
        control_size: packets.control_size,
        endpoints: places.endpoints.clone(),
        ports: ports.collect(),
        classes: classes.iter().map(|class| class.spec).collect(),
        lanes: buffers_of_lanes,
        raises: places.links.iter().enumerate().filter_map(raises).collect(),
        flow_control: packets.flow_control.clone(),
        inputs: packets.inputs,
        stall_check: packets.stall_check,
        watchdog: packets.watchdog,
        no_progress: packets.no_progress,
        storms: storms(fabric, &places, packets),
        observe: observe(&places, packets),
        control: packets.control,
        buffers: if packets.own_buffers { buffers(&places, packets) } else { Vec::new() },
        grants: packets.grants,
        grain: packets.grain.unwrap_or(AUTO),
        only_if_free: packets.grain.is_none(),
        ..NetSpec::default()
    };
    Some(NetPlan {
        spec,
        links: places.links.iter().map(|place| place.link).collect(),
        flow: own.flow,
        rate: own.rate.clone(),
        others: others.iter().map(|way| (way.flow, way.rate.clone())).collect(),
        fetch: packets.fetch,
        drain: packets.drain,
    })
}

/// The probability that one of two losses befalls a packet, in 2⁻³².
fn both(all: u32, own: f64) -> u32 {
    let all = f64::from(all) / 4_294_967_296.0;
    ((1.0 - (1.0 - all) * (1.0 - own)) * 4_294_967_296.0).min(4_294_967_294.0) as u32
}

/// Ports that devices pause without a reason. A NIC may be kept from it after a while.
fn storms(fabric: &Fabric, places: &Places, packets: &Packets) -> Vec<Storm> {
    if !matches!(packets.flow_control_name, "pfc" | "credits") {
        return Vec::new();
    }
    // All that is not dropped is paused.
    let lossless = packets.classes.iter().enumerate().filter(|(_, class)| class.spec.lossless);
    let lanes: Vec<u8> = lossless
        .flat_map(|(at, _)| (0..packets.lanes).map(move |lane| (at, lane)))
        .map(|(at, lane)| at as u8 * packets.lanes + lane)
        .collect();
    let storm = |(link, storm): &(LinkId, sim_topology::faults::PauseStorm)| {
        let port = places.links.binary_search_by_key(link, |place| place.link).ok()?;
        let nic = places.endpoints[places.links[port].far as usize];
        let kept = packets.nic_watchdog.filter(|_| nic).map(|after| storm.from + after);
        let until = [storm.until, kept].into_iter().flatten().min();
        let at = |span: Span| Time::ZERO + span;
        let (port, from, until) = (port as u32, at(storm.from), until.map_or(Time::MAX, at));
        Some(lanes.iter().map(move |class| Storm { port, class: *class, from, until }))
    };
    fabric.pause_storms().iter().filter_map(storm).flatten().collect()
}

/// What is recorded, by the network's numbers.
fn observe(places: &Places, packets: &Packets) -> Observe {
    let observed = &packets.observed;
    let mut spec = Observe {
        from: Time::ZERO + observed.from,
        to: observed.to.map_or(Time::MAX, |to| Time::ZERO + to),
        interval: observed.interval,
        ..Observe::default()
    };
    if observed.interval == Span::ZERO {
        return spec;
    }
    let meant = |link: &LinkId| observed.links.as_ref().is_none_or(|list| list.binary_search(link).is_ok());
    let ports = places.links.iter().enumerate().filter(|(_, place)| meant(&place.link));
    spec.ports = ports.map(|(port, _)| port as u32).collect();
    spec.between = match &observed.flows {
        None => vec![Between { from: places.endpoints.clone(), to: places.endpoints.clone() }],
        Some(list) => {
            let ends = |nics: &Vec<sim_topology::DeviceId>| {
                let mut set = vec![false; places.devices.len()];
                for nic in nics {
                    if let Ok(at) = places.devices.binary_search(nic) {
                        set[at] = true;
                    }
                }
                set
            };
            list.iter().map(|[from, to]| Between { from: ends(from), to: ends(to) }).collect()
        }
    };
    spec
}

/// Switches whose rows have another buffer than the least.
fn buffers(places: &Places, packets: &Packets) -> Vec<NodeBuffer> {
    let FlowControlSpec::Shared(shared) = &packets.flow_control else { return Vec::new() };
    let alpha = match shared.threshold {
        Threshold::Dynamic { alpha, .. } => alpha,
        Threshold::Static { .. } => 0,
    };
    let other = |(node, size): (usize, &Option<Bytes>)| {
        let size = size.map(Bytes::get).filter(|size| *size != shared.size)?;
        Some(NodeBuffer { node: node as u32, size, alpha })
    };
    places.buffers.iter().enumerate().filter_map(other).collect()
}

/// What one link of the network did, over all simulations.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PortSum {
    /// Wire bytes of packets that have queued, and how many these were.
    pub(super) wire: u64,
    pub(super) packets: u64,
    /// Packets marked.
    pub(super) marks: u64,
    /// Packets dropped.
    pub(super) drops: u64,
    /// Pauses.
    pub(super) pauses: u64,
    /// Time held: paused, or without credit.
    pub(super) held: Span,
    /// Deepest queue, wire bytes.
    pub(super) peak: u64,
    /// Sum of queued bytes over time, byte·ns.
    pub(super) byte_ns: u64,
    /// The depth that it was below for 99 % of the time, in the worst simulation.
    pub(super) p99: u64,
    /// Pauses that the far end asked for, and how long they lasted.
    pub(super) asked: u64,
    pub(super) asked_for: Span,
    /// Most bytes of it at the far end, and of these in headroom.
    pub(super) input_peak: u64,
    pub(super) headroom_peak: u64,
    /// Notices of congestion that set out here, and packets sent again that left.
    pub(super) notices: u64,
    pub(super) resent: u64,
    /// Time over which depths were counted, ns, and that at a depth of each octave.
    pub(super) observed_ns: u64,
    pub(super) histogram: [u64; OCTAVES],
}

/// Packets that move as one where that makes no difference.
const AUTO: u32 = 16;
impl PortSum {
    /// Adds what a class of a port counted in one simulation.
    pub(super) fn add(&mut self, class: &PortCounters) {
        self.wire += class.bytes;
        self.packets += class.packets;
        self.marks += class.marks;
        self.drops += class.drops;
        self.pauses += class.pauses;
        self.held += class.held;
        self.peak = self.peak.max(class.peak);
        self.byte_ns = self.byte_ns.saturating_add(class.byte_ns);
        self.p99 = self.p99.max(class.quantile(0.99));
        self.asked += class.asked;
        self.asked_for += class.asked_for;
        self.input_peak = self.input_peak.max(class.input_peak);
        self.headroom_peak = self.headroom_peak.max(class.headroom_peak);
        self.notices += class.notices;
        self.resent += class.resent;
        self.observed_ns += class.observed_ns();
        self.histogram.iter_mut().zip(class.histogram).for_each(|(to, more)| *to += more);
    }
}

/// Roots and victims that results name.
const MOST_NAMED: usize = 32;

/// Sums over the simulations of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    /// Per link of the fabric that carries packets.
    ports: Vec<(LinkId, PortSum)>,
    classes: Classes,
    totals: TransportTotals,
    deadlock: Vec<String>,
    roots: Vec<String>,
    victims: Vec<VictimResult>,
    victims_total: u64,
    paused: bool,
    /// Packets that arrived marked, of those that arrived.
    marked: (u64, u64),
    /// Simulated time in all, and of the longest simulation.
    time: Span,
    pub(super) longest: Span,
    pub(super) recorder: Recorder,
    /// Depths of queues count for a part of the time only; histograms were asked for.
    pub(super) window: bool,
    pub(super) histograms: bool,
    /// The fewest packets that moved as one in the end of a simulation, and why.
    grain: Option<(u32, Option<Bound>)>,
}

impl Sums {
    /// For a fabric and its transport.
    pub(super) fn new(loaded: &Loaded, all: bool) -> Self {
        let Some(packets) = &loaded.packets else { return Self::default() };
        let links = loaded.fabric.places().map(|places| places.links).unwrap_or_default();
        let ports = links.iter().map(|place| (place.link, PortSum::default())).collect();
        let paused = matches!(packets.flow_control, FlowControlSpec::Shared(_));
        let recorder = Recorder::new(loaded, all, paused);
        let (window, histograms) = (packets.observed.is_window(), packets.observed.histogram);
        Self { ports, classes: Classes::new(packets), paused, recorder, window, histograms, ..Self::default() }
    }

    /// Adds one simulation, called `what`, whose work began at `began`.
    pub(super) fn add(&mut self, what: &str, loaded: &Loaded, outcome: &Outcome, began: Time) {
        let (Some(net), Some(packets)) = (&outcome.net, &loaded.packets) else { return };
        let fabric = &loaded.fabric;
        self.recorder.add(what, (fabric, packets), (outcome, net), began);
        let mut totals = totals(net);
        let ended = outcome.ended.since(Time::ZERO);
        self.time += ended;
        self.longest = self.longest.max(ended);
        if self.grain.is_none_or(|(grain, _)| net.grain < grain) {
            self.grain = Some((net.grain, net.alone));
        }
        for flow in &net.flows {
            self.marked.0 += flow.marked;
            self.marked.1 += flow.arrived;
        }
        for ((_, sum), port) in self.ports.iter_mut().zip(&net.ports) {
            for class in port {
                sum.add(class);
                let held = if self.paused { &mut totals.pause_us } else { &mut totals.credit_stall_us };
                *held += class.held.as_us();
            }
        }
        self.classes.add(net);
        self.totals.add(&totals);
        self.congestion(net, fabric);
        if self.deadlock.is_empty() {
            let name = |(port, _): &(u32, u8)| {
                let link = self.ports.get(*port as usize).map(|(link, _)| *link);
                link.map_or_else(String::new, |link| fabric.link_name(link))
            };
            self.deadlock = net.cycle.iter().map(name).collect();
        }
    }

    /// Roots of congestion and their victims, by name.
    fn congestion(&mut self, net: &NetOutcome, fabric: &Fabric) {
        let link = |port: u32| self.ports.get(port as usize).map(|(link, _)| *link);
        let name = |(port, _): (u32, u8)| link(port).map(|link| fabric.link_name(link));
        let mut roots: Vec<String> = net.roots.iter().filter_map(|root| name(*root)).collect();
        let victim = |victim: &sim_core::net::Victim| {
            let flow = net.flows.get(victim.flow as usize)?;
            let route = net.routes.get(flow.qp as usize)?;
            let (first, last) = (link(*route.first()?)?, link(*route.last()?)?);
            Some(VictimResult {
                from: fabric.device(fabric.link(first).from).name.clone(),
                to: fabric.device(fabric.link(last).to).name.clone(),
                held_us: victim.held.as_us(),
                share: if victim.busy > Span::ZERO { victim.held.as_us() / victim.busy.as_us() } else { 0.0 },
                root: victim.root.and_then(name),
            })
        };
        let victims: Vec<VictimResult> = net.victims.iter().filter_map(victim).collect();
        self.victims_total += victims.len() as u64;
        self.victims.extend(victims);
        // In order of time held, then as they came.
        self.victims.sort_by(|a, b| b.held_us.total_cmp(&a.held_us));
        self.victims.truncate(MOST_NAMED);
        roots.retain(|root| !self.roots.contains(root));
        self.roots.extend(roots);
        self.roots.truncate(MOST_NAMED);
    }

    /// The flow that was held up longest by congestion elsewhere, and how many there were.
    pub(super) fn victim(&self) -> Option<(&VictimResult, u64)> {
        self.victims.first().map(|first| (first, self.victims_total))
    }

    /// What a link did, if it carries packets.
    pub(super) fn port(&self, link: LinkId) -> Option<&PortSum> {
        let at = self.ports.binary_search_by_key(&link, |(link, _)| *link).ok()?;
        self.ports.get(at).map(|(_, sum)| sum)
    }

    /// What the classes of a link did, where there are several.
    pub(super) fn classes_of(&self, link: LinkId) -> Vec<LinkClassResult> {
        let at = self.ports.binary_search_by_key(&link, |(link, _)| *link);
        at.map_or_else(|_| Vec::new(), |at| self.classes.of_port(at))
    }

    /// The link that was held longest among some, with its share of the time.
    pub(super) fn held_longest(&self, among: impl Fn(LinkId) -> bool) -> Option<(LinkId, f64)> {
        let ports = self.ports.iter().filter(|(link, sum)| sum.held > Span::ZERO && among(*link));
        let (link, sum) = ports.rev().max_by_key(|(_, sum)| sum.held)?;
        Some((*link, super::links::share(sum.held, self.time)))
    }

    /// Packets that arrived marked, and all that arrived.
    pub(super) const fn marked(&self) -> (u64, u64) {
        self.marked
    }

    /// Sums over all simulations.
    pub(super) const fn totals(&self) -> &TransportTotals {
        &self.totals
    }

    /// Whether ports are held by pauses, rather than for lack of credits.
    pub(super) const fn paused(&self) -> bool {
        self.paused
    }

    /// The circle in which ports wait for each other; empty without a deadlock.
    pub(super) fn deadlock(&self) -> &[String] {
        &self.deadlock
    }

    /// Packets that moved as one, where that isn't one by default.
    fn grain(&self, packets: &Packets, fabric: &Fabric) -> Option<GrainResult> {
        let (units, alone) = self.grain?;
        let name =
            |port: u32| self.ports.get(port as usize).map_or_else(String::new, |(link, _)| fabric.link_name(*link));
        let why = match (packets.grain, alone) {
            (Some(1), _) => return None,
            (Some(_), _) => "as asked".to_owned(),
            (None, None) => "nothing can be marked, paused, dropped or lack a credit".to_owned(),
            (None, Some(Bound::Paths)) => "switches choose paths".to_owned(),
            (None, Some(Bound::RateControl)) => "the rate control goes by more than marks".to_owned(),
            (None, Some(Bound::Faults)) => "links lose packets, or devices pause ports".to_owned(),
            (None, Some(Bound::Meet { port })) => {
                format!("flows from links of more than its rate meet at {}", name(port))
            }
            (None, Some(Bound::Room { port })) => format!("what can stand at {} reaches a threshold", name(port)),
            (None, Some(Bound::Credits { port })) => format!("credits may be short on {}", name(port)),
            (None, Some(Bound::Happened)) => "something was marked, held or dropped".to_owned(),
        };
        Some(GrainResult { packets: units, why })
    }

    /// As results have it.
    pub(super) fn result(&self, packets: &Packets, fabric: &Fabric) -> TransportResult {
        let parameter = |p: &crate::scenario::Parameter| TransportParameter {
            name: p.name.clone(),
            value: p.value.clone(),
            origin: p.origin.clone(),
            standing: p.standing.map(str::to_owned),
            sources: p.sources.clone(),
        };
        let (slowest_flows, flows_total) = self.recorder.slowest();
        TransportResult {
            slowest_flows,
            flows_total,
            preset: packets.preset.clone(),
            model: "packets".to_owned(),
            flow_control: packets.flow_control_name.to_owned(),
            rate_control: packets.rate_control_name.to_owned(),
            parameters: packets.parameters.iter().map(parameter).collect(),
            grain: self.grain(packets, fabric),
            classes: self.classes.results(packets),
            totals: self.totals,
            roots: self.roots.clone(),
            victims: self.victims.clone(),
            victims_total: self.victims_total,
            deadlock: self.deadlock.clone(),
        }
    }
}

fn totals(net: &NetOutcome) -> TransportTotals {
    let t = &net.totals;
    TransportTotals {
        data_hops: t.data_hops,
        control_hops: t.control_hops,
        marks: t.marks,
        notices: t.notices,
        pauses: t.pauses,
        drops: t.drops - t.headroom_drops,
        headroom_drops: t.headroom_drops,
        watchdog_drops: t.watchdog_drops,
        lost: t.lost,
        retransmitted: net.flows.iter().map(|flow| flow.resent).sum(),
        timeouts: net.flows.iter().map(|flow| flow.timeouts).sum(),
        ingress_peak_bytes: net.input_peak,
        headroom_peak_bytes: net.headroom_peak,
        ..TransportTotals::default()
    }
}
