//! The same picosecond with reuse and without, and what is reused.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sim_collectives::{Machine, Software};
use sim_core::units::{Bytes, Rate};
use sim_topology::faults::{Degraded, Fault, FaultKind, Flapping};
use sim_topology::{Catalogue, Fabric, FabricKind, FabricSpec, TransportKind};

use super::super::plan::Call;
use super::super::whole::Whole;
use super::*;
use crate::messages::Operation;
use crate::parallel::Group;

fn spec(nodes: u32, kind: FabricKind, transport: TransportKind) -> FabricSpec {
    let node = Catalogue::builtin().system("hgx-h100").unwrap().node.clone();
    FabricSpec { fabric: kind, transport, ..FabricSpec::new(node, nodes) }
}

fn fabric(nodes: u32, kind: u8) -> Fabric {
    let ib = TransportKind::Infiniband;
    let spec = match kind {
        0 => spec(nodes, FabricKind::RailOptimized, ib),
        1 => spec(nodes, FabricKind::RailOptimized, TransportKind::Roce),
        2 => FabricSpec { oversubscription: Some(2.0), leaves: Some(2), ..spec(nodes, FabricKind::LeafSpine, ib) },
        _ => FabricSpec {
            oversubscription: Some(2.0),
            leaves: Some(2),
            ..spec(nodes, FabricKind::LeafSpine, TransportKind::Roce)
        },
    };
    Fabric::build(&spec, Catalogue::builtin()).unwrap()
}

fn call(operation: Operation, bytes: u64) -> Call {
    let group = if operation == Operation::Send { Group::Pipeline } else { Group::Data };
    Call::new("message", operation, Bytes::new(bytes), group)
}

/// Of each kind one, small enough for tests: in nodes, between nodes, from one GPU to another.
fn some_calls() -> Vec<Call> {
    vec![
        call(Operation::AllReduce, 3 << 20),
        call(Operation::AllGather, 1 << 20),
        call(Operation::ReduceScatter, 24 << 20),
        call(Operation::AllToAll, 2 << 20),
        call(Operation::Send, 5_000_000),
        call(Operation::AllReduce, 1 << 12),
    ]
}

/// Groups of eight in each node, of each rail over the nodes, pairs of neighbours in a ring of nodes, half nodes, and all.
fn some_groups(nodes: u32) -> Vec<Vec<u32>> {
    let node = (0..nodes).map(|n| (8 * n..8 * n + 8).collect());
    let rail = (0..8).map(|r| (0..nodes).map(|n| 8 * n + r).collect());
    let pair = (0..8 * nodes).map(|g| vec![g, (g + 8) % (8 * nodes)]);
    let half = (0..2 * nodes).map(|h| (4 * h..4 * h + 4).collect());
    node.chain(rail).chain(pair).chain(half).chain([(0..8 * nodes).collect()]).collect()
}

fn calls<'a>(fabric: &'a Fabric, groups: &[Vec<u32>], calls: &[Call]) -> Calls<'a> {
    let make = |ranks: &[u32]| {
        Machine::new(fabric, Catalogue::builtin(), &Software::default(), ranks).map_err(|e| e.to_string())
    };
    Calls::new(fabric, fabric.network(), Box::new(make), groups.to_vec(), calls.to_vec())
}

/// A call that starts so long after the beginning, or after all members of an earlier one have ended.
#[derive(Clone, Copy, Debug)]
struct Step {
    communicator: u32,
    call: u32,
    after: Option<u32>,
    wait: Span,
}

/// Goes through steps; returns all ends in order.
fn drive(carrier: &mut dyn Carrier, groups: &[Vec<u32>], steps: &[Step]) -> Vec<End> {
    let mut ready: BTreeMap<Time, Vec<u32>> = BTreeMap::new();
    let mut left: Vec<usize> = steps.iter().map(|s| groups[s.communicator as usize].len()).collect();
    let put = |ready: &mut BTreeMap<Time, Vec<u32>>, after: Option<u32>, at: Time| {
        for (i, step) in steps.iter().enumerate().filter(|(_, step)| step.after == after) {
            ready.entry(at + step.wait).or_default().push(i as u32);
        }
    };
    put(&mut ready, None, Time::ZERO);
    let (mut all, mut ends) = (Vec::new(), Vec::new());
    loop {
        let until = ready.keys().next().copied();
        let next = carrier.next(until.unwrap_or(Time::MAX)).unwrap();
        let Some(now) = next.or(until) else { break };
        if next.is_some() {
            carrier.take(&mut ends);
            assert!(!ends.is_empty() && ends.is_sorted() && ends.iter().all(|end| end.at == now));
        }
        for end in ends.drain(..) {
            all.push(end);
            left[end.token as usize] -= 1;
            if left[end.token as usize] == 0 {
                put(&mut ready, Some(end.token), now);
            }
        }
        if let Some(steps_now) = ready.remove(&now) {
            let start = |i: &u32| Start {
                communicator: steps[*i as usize].communicator,
                call: steps[*i as usize].call,
                token: *i,
            };
            let starts: Vec<Start> = steps_now.iter().map(start).collect();
            carrier.start(&starts, now).unwrap();
        }
    }
    assert!(left.iter().all(|left| *left == 0), "some have not ended");
    all
}

/// Both ways; what reuse came to.
fn compare(fabric: &Fabric, groups: &[Vec<u32>], of: &[Call], steps: &[Step]) -> (Vec<End>, Counts) {
    let announced = || calls(fabric, groups, of).announced(steps.iter().map(|s| (s.communicator, s.call))).unwrap();
    let mut islands = Islands::new(announced(), Limits::default());
    let ends = drive(&mut islands, groups, steps);
    let mut whole = Whole::new(calls(fabric, groups, of), Limits::default()).unwrap();
    let all = drive(&mut whole, groups, steps);
    assert_eq!(ends.len(), all.len());
    for (a, b) in ends.iter().zip(&all) {
        assert_eq!(a, b, "step {:?}", steps[a.token as usize]);
    }
    let events = whole.events();
    // What all calls have in common changes no time.
    let mut fewer = Whole::new(announced(), Limits::default()).unwrap();
    assert_eq!(drive(&mut fewer, groups, steps), all);
    assert!(fewer.events() <= events, "{} of {events}", fewer.events());
    let outcome = whole.finish();
    assert_eq!(outcome.faults, []);
    // All bytes that programs put on their first links came out at the ends of their routes.
    assert_eq!(outcome.engine.bytes_sent + outcome.engine.bytes_forked, {
        outcome.engine.bytes_delivered + outcome.engine.bytes_joined
    });
    // Each link carried as much.
    let carried: Vec<u64> = islands.carried().unwrap().iter().map(|b| b.get()).collect();
    assert!(carried.iter().copied().eq(outcome.links.iter().map(|counted| counted.payload)));
    let counts = islands.counts();
    assert_eq!((counts.calls, counts.words_played + counts.words_reused), (steps.len() as u64, steps.len() as u64));
    assert!(counts.events_played > 0 && events > 0);
    (ends, counts)
}

fn step(communicator: u32, call: u32, after: Option<u32>, wait_us: u64) -> Step {
    Step { communicator, call, after, wait: Span::from_us(wait_us) }
}

/// Which calls groups of a kind make, and how many such groups there are in `nodes` nodes.
fn kinds(nodes: u32) -> [(u32, u32, &'static [u32]); 5] {
    [
        (0, nodes, &[0, 1, 2, 3, 5]),
        (nodes, 8, &[0, 1, 2, 3, 4]),
        (nodes + 8, 8 * nodes, &[4]),
        (9 * nodes + 8, 2 * nodes, &[0, 1, 5]),
        (11 * nodes + 8, 1, &[0, 3]),
    ]
}

fn steps(nodes: u32) -> impl Strategy<Value = Vec<Step>> {
    let one = (
        prop::sample::select(vec![0usize, 0, 1, 1, 2, 2, 2, 2, 3, 4]),
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        prop::option::weighted(0.6, any::<prop::sample::Index>()),
        prop_oneof![Just(0u64), 0u64..400_000, 0u64..2_000_000],
    );
    prop::collection::vec(one, 1..14).prop_map(move |list| {
        let step = |(i, (kind, group, call, after, ns)): (usize, (usize, _, _, Option<prop::sample::Index>, u64))| {
            let (first, count, calls) = kinds(nodes)[kind];
            let group: prop::sample::Index = group;
            let call: prop::sample::Index = call;
            Step {
                communicator: first + group.index(count as usize) as u32,
                call: calls[call.index(calls.len())],
                after: after.filter(|_| i > 0).map(|a| a.index(i) as u32),
                wait: Span::from_ns(ns),
            }
        };
        list.into_iter().enumerate().map(step).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn reuse_changes_no_time(kind in 0u8..4, list in steps(3)) {
        let fabric = fabric(3, kind);
        compare(&fabric, &some_groups(3), &some_calls(), &list);
    }
}

#[test]
fn of_equal_nodes_one_is_played() {
    let (fabric, groups) = (fabric(8, 0), some_groups(8));
    // In every node the same calls one after the other.
    let turn = |turn: u32| (0..8).map(move |n| step(n, 0, (turn > 0).then(|| 8 * (turn - 1) + n), 7));
    let list: Vec<Step> = (0..10).flat_map(turn).collect();
    let (ends, counts) = compare(&fabric, &groups, &some_calls(), &list);
    assert_eq!((counts.words_played, counts.words_reused, counts.forms), (1, 79, 1));
    assert!(counts.events_saved >= 78 * counts.events_played);
    let of = |node: u32| ends.iter().filter(move |end| end.token % 8 == node).map(|end| (end.at, end.member));
    (1..8).for_each(|node| assert!(of(0).eq(of(node)), "node {node}"));
}

#[test]
fn rails_that_do_alike_are_played_once_with_what_crosses_them() {
    let (fabric, groups) = (fabric(4, 0), some_groups(4));
    // On every rail a reduce-scatter, and sends that cross it one after the other.
    let big = [call(Operation::ReduceScatter, 256 << 20), call(Operation::Send, 4 << 20)];
    let mut list: Vec<Step> = (0..8).map(|rail| step(4 + rail, 0, None, 0)).collect();
    for turn in 0..20u32 {
        let before = |rail| if turn == 0 { None } else { Some(8 * turn + rail) };
        list.extend((0..8).map(|rail| step(12 + rail, 1, before(rail), 40)));
    }
    let (ends, counts) = compare(&fabric, &groups, &big, &list);
    assert!(counts.largest >= 10, "{counts:?}");
    assert!(counts.replays <= 1, "a live engine goes on: {counts:?}");
    assert!(counts.words_reused >= 7 * counts.words_played, "{counts:?}");
    // The reduction is played alone, and once more with what joins it.
    assert!(counts.events_saved >= 3 * counts.events_played, "{counts:?}");
    let of = |rail: u32| ends.iter().filter(move |end| end.token % 8 == rail).map(|end| (end.at, end.member));
    (1..8).for_each(|rail| assert!(of(0).eq(of(rail)), "rail {rail}"));
}

fn ailing(target: &str, kind: FaultKind) -> Fabric {
    let faults = [Fault { target: target.into(), pick: None, kind }];
    fabric(4, 0).with_faults(&faults, 1, true, Catalogue::builtin()).unwrap().0
}

#[test]
fn a_node_with_a_fault_is_not_taken_for_a_healthy_one() {
    let slow = Degraded {
        rate: Some(Rate::gbyte(100)),
        factor: None,
        lanes: None,
        links: None,
        speed: None,
        added_latency: Span::ZERO,
        errors: None,
    };
    let fabric = ailing("node2.gpu3->node2.nvswitch", FaultKind::Degraded(slow));
    let list: Vec<Step> = (0..4).map(|n| step(n, 2, None, 0)).collect();
    let (ends, counts) = compare(&fabric, &some_groups(4), &some_calls(), &list);
    assert_eq!((counts.forms, counts.words_played), (2, 2));
    let last = |node: u32| ends.iter().filter(|end| end.token == node).map(|end| end.at).max().unwrap();
    assert_eq!(last(0), last(1));
    assert!(last(2) > last(0));
}

#[test]
fn what_is_down_at_times_is_played_at_its_time() {
    let down = Flapping {
        down_for: Span::from_us(300),
        every: Some(Span::from_us(1000)),
        first: Span::from_us(100),
        recovery: Span::ZERO,
    };
    let fabric = ailing("node1.nic0<->*", FaultKind::Flapping(down));
    let list: Vec<Step> = (0..6)
        .flat_map(|turn| [step(4, 1, None, 150 * turn), step(12, 4, None, 137 * turn), step(13, 4, None, 437 * turn)])
        .collect();
    let (_, counts) = compare(&fabric, &some_groups(4), &some_calls(), &list);
    assert!(counts.words_played > 2 && counts.words_reused > 0, "{counts:?}");
}

#[test]
fn a_call_that_begins_sooner_than_all_before_is_felt() {
    // What is at rest before the next call can use a link is felt no more, unless a third one uses links sooner than that.
    let fabric = fabric(2, 0);
    let of = [call(Operation::Send, 5_000_000), call(Operation::Send, 100_000)];
    let (launch, quick) = (Span::from_us(30), Span::from_ps(1));
    let groups = vec![vec![0, 8]; 2];
    let make = || {
        let after = |call: u32, launch: Span| {
            let mut program = calls(&fabric, &groups, &of).program(0, call).unwrap();
            program.kernels.iter_mut().for_each(|kernel| kernel.launch = launch);
            program
        };
        let (made, _) = calls(&fabric, &[], &of).beside(vec![after(0, launch), after(1, quick)]);
        made.announced([(0, 0), (1, 0)]).unwrap()
    };
    let alone = drive(&mut Islands::new(make(), Limits::default()), &groups, &[step(0, 0, None, 0)]);
    let end = alone.last().unwrap().at.since(Time::ZERO);
    for (from, later) in (0..12).flat_map(|from| [0, 1, 3].map(|later| (from, later))) {
        // Once alone before, so that it is known when the second of them will be at rest.
        let known = Span::from_us(1000);
        let at = |steps: u64| known + end + Span::from_us(3) * steps - Span::from_us(33);
        let list = [
            step(0, 0, None, 0),
            Step { wait: known, ..step(0, 0, None, 0) },
            Step { wait: at(from), ..step(0, 0, None, 0) },
            Step { wait: at(from + later), ..step(1, 0, None, 0) },
        ];
        let mut islands = Islands::new(make(), Limits::default());
        assert_eq!(islands.launch, quick);
        let whole = drive(&mut Whole::new(make(), Limits::default()).unwrap(), &groups, &list);
        assert_eq!(drive(&mut islands, &groups, &list), whole, "{from} {later}");
    }
}

#[test]
fn only_announced_calls_can_start() {
    let (fabric, groups) = (fabric(2, 0), some_groups(2));
    let made = calls(&fabric, &groups, &some_calls()).announced([(0, 0)]).unwrap();
    assert!(made.least_launch() > Span::from_us(1));
    let mut islands = Islands::new(made, Limits::default());
    let fault = islands.start(&[Start { communicator: 0, call: 1, token: 0 }], Time::ZERO).unwrap_err().to_string();
    assert!(fault.contains("was not announced"), "{fault}");
}

#[test]
fn words_without_an_end_are_refused_before_memory_is_full() {
    let (fabric, groups) = (fabric(2, 0), some_groups(2));
    let mut islands = Islands::new(calls(&fabric, &groups, &some_calls()), Limits::default());
    islands.most = 10_000;
    let mut refused = None;
    for turn in 0..1000u32 {
        // Each call over all GPUs begins while the one before is under way.
        let start = Start { communicator: groups.len() as u32 - 1, call: 2, token: turn };
        if let Err(fault) = islands.start(&[start], Time::from_ps(u64::from(turn) * 1_000_000)) {
            refused = Some((turn, fault.to_string()));
            break;
        }
    }
    let (turn, why) = refused.unwrap();
    assert!(turn > 1 && why.contains("share links without a pause"), "{turn}: {why}");
}

#[test]
fn calls_that_cannot_be_say_so() {
    let (fabric, groups) = (fabric(2, 0), vec![vec![0, 99]]);
    let mut islands = Islands::new(calls(&fabric, &groups, &some_calls()), Limits::default());
    let fault = islands.start(&[Start { communicator: 0, call: 0, token: 0 }], Time::ZERO).unwrap_err().to_string();
    assert!(fault.contains("GPUs 0, 99") && fault.contains("does not exist"), "{fault}");
    let groups = vec![(0..8).collect::<Vec<u32>>()];
    let limits = Limits { events: 10, ..Limits::default() };
    let mut islands = Islands::new(calls(&fabric, &groups, &some_calls()), limits);
    let fault = islands.start(&[Start { communicator: 0, call: 0, token: 0 }], Time::ZERO).unwrap_err().to_string();
    assert!(fault.contains("the limit of events"), "{fault}");
    assert_eq!(reuse(&fabric.network()), Reuse::Exact);
}

/// Counts and times of reuse: `cargo test -p sim-workload --release -- --ignored reuse_of --nocapture`.
#[test]
#[ignore = "a measurement"]
fn reuse_of_many_calls() {
    let clock = std::time::Instant::now();
    let (fabric, groups) = (fabric(128, 0), some_groups(128));
    println!("fabric {:?}", clock.elapsed());
    let many = [
        call(Operation::AllGather, 32 << 20),
        call(Operation::ReduceScatter, 32 << 20),
        call(Operation::Send, 4 << 20),
    ];
    let clock = std::time::Instant::now();
    let mut islands = Islands::new(calls(&fabric, &groups, &many), Limits::default());
    let mut ends = Vec::new();
    let (mut calls, mut told) = (0u64, 0u64);
    let mut now = Time::ZERO;
    let mut round = |islands: &mut Islands<'_>, starts: &[Start], now: &mut Time| {
        islands.start(starts, *now).unwrap();
        calls += starts.len() as u64;
        while let Some(at) = islands.next(Time::MAX).unwrap() {
            islands.take(&mut ends);
            told += ends.len() as u64;
            ends.clear();
            *now = at;
        }
    };
    let tensor = |call: u32| (0..128).map(move |g| Start { communicator: g, call, token: g }).collect::<Vec<_>>();
    for turn in 0..23_438u32 {
        round(&mut islands, &tensor(turn % 2), &mut now);
    }
    println!("3 million in nodes: {:?}", clock.elapsed());
    let clock = std::time::Instant::now();
    let sends: Vec<Start> = (0..1024).map(|g| Start { communicator: 136 + g, call: 2, token: g }).collect();
    for _ in 0..100 {
        round(&mut islands, &sends, &mut now);
    }
    println!("100 thousand sends: {:?}", clock.elapsed());
    println!("{calls} calls, {told} ends, {:?}", islands.counts());
}

#[test]
fn closed_forms_are_bounds_and_no_loose_ones() {
    let big = [
        call(Operation::AllReduce, 256 << 20),
        call(Operation::AllGather, 256 << 20),
        call(Operation::ReduceScatter, 256 << 20),
        call(Operation::AllToAll, 256 << 20),
        call(Operation::Send, 256 << 20),
        call(Operation::AllReduce, 1 << 12),
    ];
    for kind in 0..4 {
        let (fabric, groups) = (fabric(2, kind), some_groups(2));
        for (group, calls_of) in [(0, &[0, 1, 2, 3, 5][..]), (2, &[0, 1, 4, 5]), (10, &[4]), (30, &[0, 1, 2, 3, 5])] {
            for of in calls_of {
                let list = [step(group, *of, None, 3)];
                let mut coarse = super::super::coarse::Coarse::new(calls(&fabric, &groups, &big));
                let bound = drive(&mut coarse, &groups, &list).last().unwrap().at;
                let mut islands = Islands::new(calls(&fabric, &groups, &big), Limits::default());
                let exact = drive(&mut islands, &groups, &list).last().unwrap().at;
                let (bound, exact) = (bound.since(Time::ZERO).as_ps(), exact.since(Time::ZERO).as_ps());
                let words = islands.calls().describe(group, *of);
                let large = big[*of as usize].bytes > Bytes::mib(1);
                // Rings wait for their narrowest NIC, of which a bound of all NICs together says nothing.
                assert!(bound <= exact && (!large || 2 * exact < 9 * bound), "{words}: {bound} {exact}");
            }
        }
    }
}
