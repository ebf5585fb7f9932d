//! Packets on some of the links: legs of routes, rates and windows, paths, buffers, and what the network tells.

use proptest::prelude::*;

use super::tests::{play_with, transfers};
use super::tests_periods::{Recipe, recipe};
use super::*;
use crate::net::spec::{
    ClassSpec, Control, CreditSpec, FlowControlSpec, FlowSpec, Freed, Paths, PauseSpec, Recovery, SharedSpec, Storm,
    Threshold,
};
use crate::net::tests::Fabric;
use crate::net::{Drain, NetPlan, SpecError};
use crate::network::{Forwarding, LinkSpec};
use crate::outcome::Outcome;
use crate::program::{Program, Slice, Spacing};
use crate::program_builder::{ConnShape, CreditShape, ProgramBuilder};
use crate::queue::heap::HeapStore;
use crate::rate_control::RateSpec;
use crate::units::{Rate, Span};

const MTU: u64 = 4096;
const OVERHEAD: u64 = 64;
const SF: Forwarding = Forwarding::StoreAndForward;

/// Hosts at one node, each with a link to its endpoint, one to the node, one from there, and one from its endpoint.
struct Star {
    network: Network,
    fabric: Fabric,
}

fn device_link(rate: Rate, latency: Span) -> LinkSpec {
    LinkSpec::ideal(rate, latency).forwarding(SF, SF)
}

impl Star {
    fn new(hosts: usize, port: Rate, host: Rate) -> Self {
        let (inner, outer) = (Span::from_ns(200), Span::from_ns(600));
        let mut fabric = Fabric::new(hosts, 1, 100, outer);
        fabric.rate = port;
        let mut links = Vec::new();
        for i in 0..hosts {
            fabric.join(i, hosts);
            let (inside, outside) = (device_link(host, inner), device_link(port, outer).overhead(Bytes::new(OVERHEAD)));
            links.extend([inside, outside, outside, inside]);
        }
        Self { network: Network::new(links), fabric }
    }

    /// The links from one host to another, with or without those inside of either.
    fn route(&self, from: u32, to: u32, first: bool, last: bool) -> Vec<LinkId> {
        let inside = |link, there: bool| there.then_some(LinkId(link));
        let first = inside(4 * from, first).into_iter();
        first.chain([LinkId(4 * from + 1), LinkId(4 * to + 2)]).chain(inside(4 * to + 3, last)).collect()
    }

    fn plan(&self, flow_control: FlowControlSpec) -> NetPlan {
        let mut spec = self.fabric.spec(OVERHEAD as u32, flow_control);
        spec.control_size = 0;
        let links = (0..self.network.links().len() as u32).map(LinkId).filter(|l| matches!(l.0 % 4, 1 | 2)).collect();
        NetPlan {
            spec,
            links,
            flow: FlowSpec::default(),
            rate: RateSpec::None,
            others: Vec::new(),
            fetch: NetPlan::FETCH,
            drain: None,
        }
    }
}

fn run<S: Store>(network: &Network, program: &Program, plan: Option<&NetPlan>) -> Outcome {
    let mut engine = Engine::<S>::new(network, Bytes::new(MTU), Limits { play_all: true, ..Limits::default() });
    plan.into_iter().for_each(|plan| engine.set_net(plan.clone()).unwrap());
    engine.load(program.clone(), Time::ZERO).unwrap();
    let reason = engine.run(|_, _| {});
    engine.finish(reason)
}

/// Plays it on two stores, which must agree, with packets.
fn play_packets(network: &Network, program: &Program, plan: &NetPlan) -> (Vec<Span>, Outcome) {
    let (ends, outcome) = play_with(network, program, Some(plan.clone()));
    assert_eq!(outcome, run::<HeapStore>(network, program, Some(plan)), "the stores agree");
    (ends, outcome)
}

/// The cost of a full packet on each of the links of a route.
fn packets_of(network: &Network, route: &[LinkId]) -> u64 {
    let cost = |l: &LinkSpec| l.rate.time_for(Bytes::new(MTU) + l.packet_overhead).as_ps();
    route.iter().map(|l| cost(network.link(*l))).sum()
}

#[test]
fn queued_links_without_back_pressure_are_virtual_links() {
    let star = Star::new(2, Rate::gbyte(50), Rate::gbyte(64));
    for (first, last) in [(false, false), (true, false), (false, true), (true, true)] {
        let route = star.route(0, 1, first, last);
        for bytes in [1, 4096, 5000, 100_000, 1 << 20, (1 << 20) + 77] {
            // In segments of a packet the two are the same to the picosecond.
            let program = transfers(&[(route.clone(), Bytes::new(bytes))], Bytes::new(MTU));
            let (a, plain) = play_with(&star.network, &program, None);
            let (b, outcome) = play_packets(&star.network, &program, &star.plan(FlowControlSpec::Unlimited));
            assert_eq!(a, b, "{bytes} bytes, {first} {last}");
            let counted = |o: &Outcome| o.links.iter().map(|l| (l.payload, l.packets, l.busy)).collect::<Vec<_>>();
            assert_eq!(counted(&plain), counted(&outcome));
            assert_eq!(outcome.engine.bytes_delivered, bytes);
            // In others within a packet on each link.
            let program = transfers(&[(route.clone(), Bytes::new(bytes))], Bytes::kib(128));
            let (c, _) = play_packets(&star.network, &program, &star.plan(FlowControlSpec::Unlimited));
            assert!(a[0].as_ps().abs_diff(c[0].as_ps()) <= packets_of(&star.network, &route), "{a:?} {c:?}");
        }
    }
}

proptest! {
    #[test]
    fn random_flows_over_packets_take_what_they_take_over_virtual_links(
        flows in prop::collection::vec((0u32..4, 1u32..4, any::<bool>(), 1u64..400_000), 1..10),
        first in any::<bool>(),
        (port, host) in (25u64..60, 25u64..100),
    ) {
        let star = Star::new(4, Rate::gbyte(port), Rate::gbyte(host));
        let list: Vec<_> = flows.iter()
            .map(|(from, by, last, bytes)| (star.route(*from, (from + by) % 4, first, *last), Bytes::new(*bytes)))
            .collect();
        let program = transfers(&list, Bytes::new(MTU));
        let (a, plain) = play_with(&star.network, &program, None);
        let (b, outcome) = play_packets(&star.network, &program, &star.plan(FlowControlSpec::Unlimited));
        let total: u64 = list.iter().map(|(_, bytes)| bytes.get()).sum();
        prop_assert_eq!(outcome.engine.bytes_delivered, total);
        prop_assert_eq!(outcome.engine.bytes_sent, total);
        let payload = |o: &Outcome| o.links.iter().map(|l| l.payload).collect::<Vec<_>>();
        prop_assert_eq!(payload(&plain), payload(&outcome));
        // A packet of each of the others on each link may go before or after.
        let packet = packets_of(&star.network, &star.route(0, 1, true, true));
        let bound = packet * list.len() as u64;
        let near = a.iter().zip(&b).all(|(a, b)| a.as_ps().abs_diff(b.as_ps()) <= bound);
        prop_assert!(near, "{a:?} {b:?} {bound}");
    }
}

/// Pauses at fixed fillings of an input.
fn pauses(xoff: u64, xon: u64) -> FlowControlSpec {
    FlowControlSpec::Shared(SharedSpec {
        size: 64 << 20,
        ports: None,
        threshold: Threshold::Static { xoff, xon },
        reserve: 0,
        headroom: 1 << 20,
        lossy_alpha: 1 << 16,
        lossy_limit: u64::MAX,
        pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 0 },
        freed: Freed::AtEnd,
    })
}

fn credits(buffer: u64) -> FlowControlSpec {
    FlowControlSpec::Credits(CreditSpec { buffer: Bytes::new(buffer), release: Span::from_ns(100), wire: 8 })
}

/// The same program with a link of its host before and behind each route: those of `n` devices on one switch.
fn with_hosts(program: &Program, n: u32, first: bool, last: bool) -> Program {
    let mut routes: Vec<LinkId> = Vec::new();
    let mut stretched = |route: &Slice| {
        let start = routes.len() as u32;
        let all = &program.routes[route.start as usize..route.end as usize];
        routes.extend(first.then_some(LinkId(2 * n + all[0].0)));
        routes.extend(all);
        routes.extend(last.then_some(LinkId(2 * n + all[all.len() - 1].0)));
        start..routes.len() as u32
    };
    let mut program = program.clone();
    let flows: Vec<Slice> = program.flows.iter().map(|flow| stretched(&flow.route)).collect();
    program.flows.iter_mut().zip(flows).for_each(|(flow, route)| flow.route = route);
    program.routes = routes;
    program
}

/// The network of a recipe, its switch one of packets, with links of hosts; and the plan.
fn packets_for(recipe: &Recipe, host: u64, flow_control: FlowControlSpec) -> (Network, NetPlan) {
    let n = recipe.devices as usize;
    let mut links = recipe.network().links().to_vec();
    let inside = device_link(Rate::gbyte(host), Span::from_ns(250));
    links.extend(vec![inside; 2 * n]);
    let mut fabric = Fabric::new(n, 1, 100, Span::ZERO);
    (0..n).for_each(|device| fabric.join(device, n));
    for (port, link) in fabric.ports.iter_mut().zip(&links) {
        (port.rate, port.latency) = (link.rate, link.latency);
    }
    let mut spec = fabric.spec(30, flow_control);
    spec.control_size = 0;
    let links = Network::new(links);
    let ports = (0..2 * n).map(LinkId::new).collect();
    let (flow, rate) = (FlowSpec::default(), RateSpec::None);
    (links, NetPlan { spec, links: ports, flow, rate, others: Vec::new(), fetch: NetPlan::FETCH, drain: None })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_program_ends_over_packets_and_loses_no_byte(
        recipe in recipe(),
        (first, last, slow) in any::<(bool, bool, bool)>(),
        kind in 0u8..3,
        queued in any::<bool>(),
    ) {
        // Junctions are no switches of packets.
        let rates = recipe.rates.iter().map(|rate| *rate.min(&63)).collect();
        let recipe = Recipe { kind: if recipe.kind == 2 { 0 } else { recipe.kind }, rates, ..recipe };
        let flow_control = match kind {
            0 => FlowControlSpec::Unlimited,
            1 => pauses(20 * 4160, 16 * 4160),
            _ => credits(128 << 10),
        };
        let (network, mut plan) = packets_for(&recipe, if slow { 20 } else { 64 }, flow_control);
        plan.drain = Some(Drain { xoff: Bytes::kib(64), xon: Bytes::kib(32) });
        if queued {
            // Acknowledgements wait as data do, and are no payload of the links.
            (plan.spec.control, plan.spec.control_size) = (Control::Class(0), 34);
        }
        let program = with_hosts(&recipe.program(), recipe.devices, first, last);
        let plain = run::<RadixStore>(&network, &program, None);
        let outcome = run::<RadixStore>(&network, &program, Some(&plan));
        prop_assert_eq!(&outcome, &run::<HeapStore>(&network, &program, Some(&plan)));
        // Some wait for each other, whatever the network.
        prop_assert_eq!((plain.reason, &plain.faults), (outcome.reason, &outcome.faults));
        prop_assert_eq!(plain.engine.bytes_delivered, outcome.engine.bytes_delivered);
        let payload = |o: &Outcome| o.links.iter().map(|l| l.payload).collect::<Vec<_>>();
        prop_assert_eq!(payload(&plain), payload(&outcome));
        let net = outcome.net.unwrap();
        prop_assert_eq!((net.totals.drops, net.packets_left), (0, 0));
        let ratio = outcome.ended.as_us() / plain.ended.as_us();
        prop_assert!(plain.reason != StopReason::Finished || (0.5..2.0).contains(&ratio), "{ratio}");
    }
}

#[test]
fn a_fixed_rate_holds_below_the_links() {
    let star = Star::new(2, Rate::gbyte(50), Rate::gbyte(64));
    let program = transfers(&[(star.route(0, 1, false, false), Bytes::mib(4))], Bytes::kib(16));
    let plan = NetPlan { rate: RateSpec::Paced { rate: Rate::gbyte(10) }, ..star.plan(FlowControlSpec::Unlimited) };
    let (ends, _) = play_packets(&star.network, &program, &plan);
    let expected = Rate::gbyte(10).time_for(Bytes::new(1024 * (MTU + OVERHEAD))).as_us() + 1.2;
    assert!((ends[0].as_us() / expected - 1.0).abs() < 0.01, "{} for {expected}", ends[0]);
}

/// Two messages to one port, the second in a class of its own with a third of the weight, and a third one at a set rate.
#[test]
fn flows_are_carried_in_ways_of_their_own() {
    let star = Star::new(4, Rate::gbyte(50), Rate::gbyte(64));
    let routes = [1, 2, 3].map(|from| star.route(from, 0, false, false));
    let mut program =
        transfers(&[(routes[0].clone(), Bytes::mib(48)), (routes[1].clone(), Bytes::mib(16))], Bytes::kib(16));
    let mut plan = star.plan(FlowControlSpec::Unlimited);
    plan.spec.classes = vec![ClassSpec { weight: 3, ..plan.spec.classes[0] }, plan.spec.classes[0]];
    plan.others = vec![(FlowSpec { class: 1, ..plan.flow }, RateSpec::None)];
    program.flows[1].way = 1;
    let (ends, outcome) = play_packets(&star.network, &program, &plan);
    // Both end at the same time, up to a round of the classes.
    assert!((ends[0].as_us() / ends[1].as_us() - 1.0).abs() < 0.005, "{ends:?}");
    let port = &outcome.net.unwrap().ports[1];
    assert_eq!((port[0].packets, port[1].packets), (12_288, 4_096));
    plan.others.push((plan.flow, RateSpec::Paced { rate: Rate::gbyte(10) }));
    let mut alone = transfers(&[(routes[2].clone(), Bytes::mib(4))], Bytes::kib(16));
    alone.flows[0].way = 2;
    let (ends, _) = play_packets(&star.network, &alone, &plan);
    let expected = Rate::gbyte(10).time_for(Bytes::new(1024 * (MTU + OVERHEAD))).as_us() + 1.2;
    assert!((ends[0].as_us() / expected - 1.0).abs() < 0.01, "{} for {expected}", ends[0]);
    // A way that the plan does not know.
    alone.flows[0].way = 3;
    let mut engine = Engine::<RadixStore>::new(&star.network, Bytes::new(MTU), Limits::default());
    engine.set_net(plan).unwrap();
    let fault = engine.load(alone, Time::ZERO).unwrap_err();
    assert!(matches!(fault, LoadError::QueuePair { flow: 0, fault: SpecError::NoWay(3) }), "{fault:?}");
}

#[test]
fn a_window_gives_one_window_a_round_trip() {
    let star = Star::new(2, Rate::gbyte(50), Rate::gbyte(64));
    let program = transfers(&[(star.route(0, 1, false, false), Bytes::kib(640))], Bytes::kib(16));
    let plan = NetPlan { rate: RateSpec::Fixed { window: Bytes::kib(16) }, ..star.plan(FlowControlSpec::Unlimited) };
    let (ends, _) = play_packets(&star.network, &program, &plan);
    // Forty windows of four packets; the next packet may go when the first of the four is acknowledged: two serialisations,
    // two latencies there and two back.
    let packet = Rate::gbyte(50).time_for(Bytes::new(MTU + OVERHEAD)).as_us();
    let expected = 40.0 * (2.0 * packet + 4.0 * 0.6);
    assert!((ends[0].as_us() / expected - 1.0).abs() < 0.02, "{} for {expected}", ends[0]);
}

#[test]
fn line_rate_and_the_pinned_path_change_nothing() {
    let star = Star::new(2, Rate::gbyte(50), Rate::gbyte(64));
    let route = star.route(0, 1, false, false);
    let program = transfers(&[(route.clone(), Bytes::mib(2)), (route, Bytes::mib(1))], Bytes::new(MTU));
    let (a, _) = play_with(&star.network, &program, None);
    let (b, _) = play_packets(&star.network, &program, &star.plan(FlowControlSpec::Unlimited));
    assert_eq!(a, b);
}

/// Two endpoints at nodes that two others join, slow ones between fast links.
#[test]
fn segments_spread_over_equal_paths() {
    let mut fabric = Fabric::new(2, 4, 100, Span::from_us(1));
    for (a, b) in [(0, 2), (1, 3), (2, 4), (2, 5), (4, 3), (5, 3)] {
        fabric.rate = if a < 2 { Rate::gbyte(100) } else { Rate::gbyte(25) };
        fabric.join(a, b);
    }
    let links = fabric.ports.iter().map(|port| device_link(port.rate, port.latency).overhead(Bytes::new(OVERHEAD)));
    let network = Network::new(links.collect());
    let route: Vec<LinkId> = fabric.path(&[0, 2, 4, 3, 1]).0.into_iter().map(LinkId).collect();
    let program = transfers(&[(route, Bytes::mib(8))], Bytes::kib(16));
    let mut plan = NetPlan {
        spec: fabric.spec(OVERHEAD as u32, FlowControlSpec::Unlimited),
        links: (0..network.links().len()).map(LinkId::new).collect(),
        flow: FlowSpec::default(),
        // At what both can carry.
        rate: RateSpec::Paced { rate: Rate::gbyte(45) },
        others: Vec::new(),
        fetch: NetPlan::FETCH,
        drain: None,
    };
    let one = play_packets(&network, &program, &plan).0[0];
    plan.flow = FlowSpec { paths: Paths::LeastQueue, recovery: Recovery::Selective, reorder: u32::MAX, ..plan.flow };
    let (ends, outcome) = play_packets(&network, &program, &plan);
    assert!(ends[0].as_us() < 0.62 * one.as_us(), "{} on two paths, {one} on one", ends[0]);
    let (a, b) = (outcome.links[4].payload, outcome.links[6].payload);
    assert_eq!(a + b, 8 << 20);
    assert!(a.abs_diff(b) < 1 << 20, "{a} and {b}");
}

#[test]
fn credits_bound_the_queue_and_push_back_upstream() {
    // Two fast links meet in a slow one; behind each lies a buffer of 64 KiB.
    let mut star = Star::new(3, Rate::gbyte(50), Rate::gbyte(64));
    star.fabric.ports[4].rate = Rate::gbyte(10);
    star.fabric.ports[5].rate = Rate::gbyte(10);
    let list: Vec<_> = [0, 1].map(|i| (star.route(i, 2, false, false), Bytes::mib(4))).into();
    let program = transfers(&list, Bytes::kib(4));
    let (free, unlimited) = play_packets(&star.network, &program, &star.plan(FlowControlSpec::Unlimited));
    let (bound, limited) = play_packets(&star.network, &program, &star.plan(credits(64 << 10)));
    // The slow link is never idle either way.
    let last = |ends: &[Span]| ends.iter().max().copied().unwrap();
    assert!((last(&bound).as_us() / last(&free).as_us() - 1.0).abs() < 0.01, "{bound:?} {free:?}");
    let depth = |o: &Outcome| o.links[10].peak_queue(Rate::gbyte(10).ps_per_byte());
    assert!(depth(&limited) <= Bytes::kib(2 * 64 + 8), "{}", depth(&limited));
    assert!(depth(&unlimited) > Bytes::mib(2), "{}", depth(&unlimited));
    assert!(limited.net.unwrap().ports[0][0].waits > 0);
    // A buffer smaller than what one round trip holds starves the link: one buffer a loop.
    let (starved, _) = play_packets(&star.network, &program, &star.plan(credits(4224)));
    assert!(last(&starved) > last(&bound));
}

#[test]
fn a_cycle_of_full_buffers_is_a_deadlock_and_not_a_hang() {
    // Four nodes in a ring with an endpoint each, each flow over two links of the ring: every buffer waits for the next.
    let mut fabric = Fabric::new(4, 4, 100, Span::from_ns(100));
    fabric.rate = Rate::gbyte(10);
    (0..4).for_each(|i| fabric.join(i, 4 + i));
    (0..4).for_each(|i| fabric.join(4 + i, 4 + (i + 1) % 4));
    let links = fabric.ports.iter().map(|port| device_link(port.rate, port.latency));
    let network = Network::new(links.collect());
    let route = |i: usize| fabric.path(&[i, 4 + i, 4 + (i + 1) % 4, 4 + (i + 2) % 4, (i + 2) % 4]).0;
    let list: Vec<_> = (0..4).map(|i| (route(i).into_iter().map(LinkId).collect(), Bytes::mib(1))).collect();
    let mut engine = Engine::<RadixStore>::new(&network, Bytes::new(MTU), Limits::default());
    let plan = NetPlan {
        spec: fabric.spec(OVERHEAD as u32, credits(8 << 10)),
        links: (0..network.links().len()).map(LinkId::new).collect(),
        flow: FlowSpec::default(),
        rate: RateSpec::None,
        others: Vec::new(),
        fetch: NetPlan::FETCH,
        drain: None,
    };
    engine.set_net(plan).unwrap();
    engine.load(transfers(&list, Bytes::kib(4)), Time::ZERO).unwrap();
    let reason = engine.run(|_, _| {});
    assert_eq!(reason, StopReason::Deadlock);
    let outcome = engine.finish(reason);
    assert!(!outcome.blocked.is_empty());
    assert_eq!(outcome.faults, [], "what is under way is known");
    assert_eq!(outcome.net.unwrap().cycle, [8, 10, 12, 14].map(|link| (link, 0)));
}

#[test]
fn a_slow_host_holds_the_port_that_feeds_it() {
    // 50 GB/s of wire bytes into a host that takes 10 GB/s of payload.
    let star = Star::new(2, Rate::gbyte(50), Rate::gbyte(10));
    let program = transfers(&[(star.route(0, 1, false, true), Bytes::mib(4))], Bytes::kib(128));
    let drain = Some(Drain { xoff: Bytes::kib(512), xon: Bytes::kib(256) });
    for flow_control in [pauses(15 * 4160, 12 * 4160), credits(64 << 10)] {
        let (ends, outcome) = play_packets(&star.network, &program, &NetPlan { drain, ..star.plan(flow_control) });
        let expected = Rate::gbyte(10).time_for(Bytes::mib(4)).as_us();
        assert!((ends[0].as_us() / expected - 1.0).abs() < 0.02, "{} for {expected}", ends[0]);
        // What waits before the host's link is what makes it hold the port, and what was on its way.
        let peak = outcome.links[7].peak_queue(Rate::gbyte(10).ps_per_byte());
        assert!(peak >= Bytes::kib(508) && peak <= Bytes::kib(512 + 96), "{peak}");
        // The port stands still for all but the host's share of its time, once the first room is full.
        let net = outcome.net.unwrap();
        let (held, fills) = (net.ports[3][0].held.as_us(), 512.0 * 1024.0 / 40e3);
        let share = 1.0 - 10.0 / (50.0 * 4096.0 / 4160.0);
        assert!((held / (share * (4.0 * 1048.576 / 49.23 * 4.923 - fills)) - 1.0).abs() < 0.15, "held {held}");
        assert_eq!(net.totals.drops, 0);
    }
}

#[test]
fn a_watchdog_drops_what_a_slow_host_holds_and_stops_when_it_goes_on() {
    let star = Star::new(2, Rate::gbyte(50), Rate::gbyte(10));
    let program = transfers(&[(star.route(0, 1, false, true), Bytes::mib(4))], Bytes::kib(128));
    let drain = Some(Drain { xoff: Bytes::kib(512), xon: Bytes::kib(256) });
    for flow_control in [pauses(15 * 4160, 12 * 4160), credits(64 << 10)] {
        let mut plan = NetPlan { drain, ..star.plan(flow_control) };
        plan.spec.watchdog = Some(Span::from_us(10));
        plan.flow = FlowSpec { recovery: Recovery::GoBackN, timeout: Some(Span::from_us(50)), ..plan.flow };
        let (_, outcome) = play_packets(&star.network, &program, &plan);
        assert_eq!((outcome.reason, outcome.engine.bytes_delivered), (StopReason::Finished, 4 << 20));
        let net = outcome.net.unwrap();
        assert!(net.totals.watchdog_drops > 0 && net.flows[0].resent > 0, "{:?}", net.totals);
        assert_eq!(net.ports[3][0].watchdog_drops, net.totals.watchdog_drops);
    }
}

#[test]
fn programs_one_after_the_other_share_queue_pairs() {
    let star = Star::new(4, Rate::gbyte(50), Rate::gbyte(64));
    let list: Vec<_> = (0..4).map(|i| (star.route(i, (i + 1) % 4, i < 2, i % 2 == 0), Bytes::new(100_000))).collect();
    let program = transfers(&list, Bytes::kib(16));
    let mut engine = Engine::<RadixStore>::new(&star.network, Bytes::new(MTU), Limits::default());
    engine.set_net(star.plan(credits(64 << 10))).unwrap();
    engine.load(program.clone(), Time::ZERO).unwrap();
    let mut loaded = 1;
    let reason = engine.run(|engine, notice| {
        if let Notice::Program { ended, .. } = notice
            && loaded < 9
        {
            loaded += 1;
            engine.load(program.clone(), ended).unwrap();
        }
    });
    assert_eq!(reason, StopReason::Finished);
    // The last acknowledgements of one are under way when the next begins, so there are two sets at most.
    let pairs = engine.net.as_ref().unwrap().legs.len();
    assert!(pairs <= 8, "{pairs}");
    assert_eq!(engine.flows.len(), 4 + 2, "ended programs are dropped");
    let outcome = engine.finish(reason);
    assert_eq!(outcome.faults, []);
    assert_eq!(outcome.engine.bytes_delivered, 9 * 400_000);
    let mut names: Vec<_> = outcome.net.unwrap().flows.iter().map(|f| (f.program, f.flow, f.payload)).collect();
    names.sort_unstable();
    let expected: Vec<_> = (0..9).flat_map(|program| (0..4).map(move |flow| (program, flow, 100_000))).collect();
    assert_eq!(names, expected);
}

#[test]
fn a_queue_pair_of_which_nothing_arrives_gives_up() {
    let mut star = Star::new(2, Rate::gbyte(50), Rate::gbyte(64));
    star.fabric.ports[3].lose_every = 1;
    let mut plan = star.plan(FlowControlSpec::Unlimited);
    plan.flow = FlowSpec { recovery: Recovery::GoBackN, timeout: Some(Span::from_us(50)), retries: 3, ..plan.flow };
    let mut engine = Engine::<RadixStore>::new(&star.network, Bytes::new(MTU), Limits::default());
    engine.set_net(plan).unwrap();
    engine.load(transfers(&[(star.route(0, 1, true, true), Bytes::kib(64))], Bytes::kib(16)), Time::ZERO).unwrap();
    let reason = engine.run(|_, _| {});
    assert_eq!(reason, StopReason::GaveUp);
    let outcome = engine.finish(reason);
    assert_eq!(outcome.faults, []);
    let flow = outcome.net.unwrap().flows[0];
    assert!(flow.failed && flow.payload == 0 && flow.timeouts == 4, "{flow:?}");
}

#[test]
fn a_port_that_is_held_for_ever_is_no_hang() {
    let star = Star::new(2, Rate::gbyte(50), Rate::gbyte(64));
    let mut plan = star.plan(pauses(15 * 4160, 12 * 4160));
    plan.spec.storms = vec![Storm { port: 3, class: 0, from: Time::ZERO + Span::from_us(5), until: Time::MAX }];
    let program = transfers(&[(star.route(0, 1, true, true), Bytes::mib(1))], Bytes::kib(16));
    let outcome = run::<RadixStore>(&star.network, &program, Some(&plan));
    assert_eq!(outcome.reason, StopReason::NoProgress);
    assert_eq!(outcome.faults, []);
    let net = outcome.net.unwrap();
    assert!(net.flows[0].payload > 0 && net.flows[0].payload < 1 << 20, "{:?}", net.flows);
}

#[test]
fn what_packets_can_t_do_is_refused() {
    let star = Star::new(3, Rate::gbyte(50), Rate::gbyte(64));
    let load = |routes: Vec<LinkId>| {
        let mut engine = Engine::<RadixStore>::new(&star.network, Bytes::new(MTU), Limits::default());
        engine.set_net(star.plan(FlowControlSpec::Unlimited)).unwrap();
        engine.load(transfers(&[(routes, Bytes::kib(64))], Bytes::kib(16)), Time::ZERO)
    };
    // A relay within a route; a route that ends at a switch; one that begins there.
    let twice: Vec<_> = star.route(0, 1, true, true).into_iter().chain(star.route(1, 2, true, true)).collect();
    assert_eq!(load(twice), Err(LoadError::TwoNetworks { flow: 0 }));
    for link in [1, 2] {
        let fault = crate::net::SpecError::Route;
        assert_eq!(load(vec![LinkId(link)]), Err(LoadError::QueuePair { flow: 0, fault }));
    }
    let mut engine = Engine::<RadixStore>::new(&star.network, Bytes::new(MTU), Limits::default());
    engine.set_net(star.plan(FlowControlSpec::Unlimited)).unwrap();
    let mut b = ProgramBuilder::new();
    let shape = ConnShape {
        segment: Bytes::kib(4),
        latency: Span::ZERO,
        credit: CreditShape::After(Span::ZERO),
        spacing: Spacing::NONE,
    };
    let up: Vec<LinkId> = star.route(0, 1, true, false);
    b.connect_junction(&[&up], &[&[LinkId(7)]], 1, &shape);
    assert_eq!(engine.load(b.finish(), Time::ZERO), Err(LoadError::Junction { flow: 0 }));
    // A plan that names other links than its ports, or that comes late.
    let mut plan = star.plan(FlowControlSpec::Unlimited);
    plan.links.pop();
    assert!(matches!(engine.set_net(plan), Err(crate::net::SpecError::Links { .. })));
    engine.load(transfers(&[(star.route(0, 1, true, true), Bytes::kib(64))], Bytes::kib(16)), Time::ZERO).unwrap();
    assert_eq!(engine.set_net(star.plan(FlowControlSpec::Unlimited)), Err(crate::net::SpecError::Late));
}
