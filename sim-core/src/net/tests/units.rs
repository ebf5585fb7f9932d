//! Units of several packets: closed forms that hold at any size of them, marks and losses packet by packet.
//! (`properties.rs` plays them over all recoveries and flow controls.)

use super::credits::over_one_link;
use super::*;
use crate::net::NetOutcome;
use crate::rate_control::AnyRateControl;

const GRAINS: [u32; 4] = [2, 4, 16, 64];

/// Plays a message for each path from time 0 on.
fn play(fabric: &Fabric, spec: NetSpec, paths: &[&[usize]], bytes: u64, how: FlowSpec) -> (NetOutcome, u64) {
    let mut run = Run::new(spec).unwrap();
    for nodes in paths {
        let (forth, back) = fabric.path(nodes);
        let flow = run.open(&forth, &back, how, AnyRateControl::default()).unwrap();
        run.post(flow, bytes);
    }
    assert!(!run.run(Time::MAX));
    let events = run.events();
    let outcome = run.outcome();
    assert_eq!((outcome.packets_left, outcome.outstanding_blocks), (0, 0));
    (outcome, events)
}

#[test]
fn w1_w2_one_flow_takes_the_time_of_single_packets() {
    let shared = FlowControlSpec::Shared(SharedSpec {
        size: 1 << 30,
        ports: None,
        threshold: Threshold::Static { xoff: 3 * 4160, xon: 2 * 4160 },
        reserve: 0,
        headroom: 1 << 20,
        lossy_alpha: 1 << 16,
        lossy_limit: u64::MAX,
        pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 0 },
        freed: Freed::AtEnd,
    });
    for (fabric, nodes, packets, latency) in
        [(star(2, 100), vec![0, 2, 1], 257u64, 2_000_000u64), (leaf_spine(100), vec![0, 64, 72, 65, 8], 259, 4_000_000)]
    {
        for grain in GRAINS {
            for scheme in [FlowControlSpec::Unlimited, shared.clone()] {
                let mut spec = fabric.spec(64, scheme);
                spec.grain = grain;
                let (outcome, events) = play(&fabric, spec.clone(), &[&nodes], 1 << 20, FlowSpec::default());
                let flow = outcome.flows[0];
                assert_eq!(flow.delivered_at, Time::from_ps(packets * 332_800 + latency), "{grain}");
                let acked = packets * 332_800 + 2 * latency + (nodes.len() as u64 - 1) * 5_120;
                assert_eq!(flow.acked_at, Time::from_ps(acked), "{grain}");
                assert_eq!((outcome.totals.pauses, flow.arrived), (0, 256), "{grain}");
                let peak = outcome.ports.iter().flatten().map(|port| port.peak).max();
                assert!(peak <= Some(4160), "{grain}: {peak:?}");
                spec.grain = 1;
                let (_, single) = play(&fabric, spec, &[&nodes], 1 << 20, FlowSpec::default());
                // Of 8 units at least.
                assert_eq!(single / events, u64::from(grain.min(32)), "{grain}");
            }
        }
    }
}

/// A short last packet, slow links before fast ones and fast ones before slow ones, switches of both kinds.
#[test]
fn one_flow_takes_the_time_of_single_packets_whatever_the_links() {
    for bytes in [1, 4096, 4097, 100_000, 1_000_001] {
        for rates in [[100, 100, 100], [25, 100, 400], [400, 100, 25], [100, 25, 400], [100, 400, 25]] {
            for header in [None, Some(64)] {
                let mut fabric = Fabric::new(2, 2, 100, Span::from_ns(500));
                for (a, b, rate) in [(0, 2, rates[0]), (2, 3, rates[1]), (3, 1, rates[2])] {
                    fabric.rate = Rate::gbit(rate);
                    if let Some(header) = header {
                        let header = crate::units::Bytes::new(header);
                        fabric.forwarding = Forwarding::CutThrough { header };
                    }
                    fabric.join(a, b);
                }
                let time = |grain: u32| {
                    let mut spec = fabric.spec(64, FlowControlSpec::Unlimited);
                    (spec.grain, spec.least_units) = (grain, 1);
                    play(&fabric, spec, &[&[0, 2, 3, 1]], bytes, FlowSpec::default()).0.flows[0].delivered_at
                };
                for grain in GRAINS {
                    let (got, want) = (time(grain).as_ps(), time(1).as_ps());
                    // Costs are rounded up once a unit.
                    assert!(
                        want.abs_diff(got) <= 2 * 256,
                        "{bytes} B, {rates:?}, {header:?}, {grain}: {got} for {want}"
                    );
                }
            }
        }
    }
}

#[test]
fn i1_a_link_carries_its_buffer_once_a_loop() {
    for grain in GRAINS {
        for latency in [50, 135, 200, 1_000, 3_000].map(Span::from_ns) {
            let round = 2.0 * latency.as_ns() + 300.0 + 0.16 + 81.92;
            let share = (32_768.0 / round / 50.0).min(1.0);
            let (short, long) = (over_one_link(latency, 1_000, grain).0, over_one_link(latency, 5_000, grain).0);
            near(4_000.0 * 4_096.0 / ((long - short) as f64 / 1e3) / 50.0, share, 0.02);
        }
    }
}

#[test]
fn every_packet_of_a_unit_is_a_draw() {
    let fabric = star(3, 100);
    let paths: [&[usize]; 2] = [&[1, 3, 0], &[2, 3, 0]];
    for (at, pmax) in [MarkAt::Enqueue, MarkAt::Dequeue].into_iter().flat_map(|at| [(at, 1 << 30), (at, u32::MAX)]) {
        let marks = |grain: u32| {
            let mut spec = fabric.spec(64, FlowControlSpec::Unlimited);
            spec.grain = grain;
            // Up to its end the queue is between the thresholds, or beyond both.
            spec.classes[0].marking =
                Marking::Red { kmin: 0, kmax: if pmax == u32::MAX { 0 } else { 8 << 20 }, pmax, at };
            let (outcome, _) = play(&fabric, spec, &paths, 8 << 20, FlowSpec::default());
            assert_eq!(outcome.totals.marks, outcome.flows.iter().map(|flow| flow.marked).sum::<u64>());
            outcome.totals.marks as f64
        };
        let single = marks(1);
        for grain in GRAINS {
            // Two units of each sender, of 2,048 packets, may find an empty queue where single packets don't; and chance.
            let begin = f64::from(2 * grain) / 2048.0;
            near(marks(grain), single, if pmax == u32::MAX { 0.001 + begin } else { 0.1 + begin });
        }
    }
}

#[test]
fn a_lost_packet_of_a_unit_is_lost_alone() {
    let mut fabric = star(2, 100);
    fabric.ports[0].lose_every = 100;
    for (recovery, grain) in
        [Recovery::Selective, Recovery::GoBackN].into_iter().flat_map(|recovery| GRAINS.map(|grain| (recovery, grain)))
    {
        let mut spec = fabric.spec(64, FlowControlSpec::Unlimited);
        (spec.grain, spec.least_units) = (grain, 1);
        let how = FlowSpec { recovery, timeout: Some(Span::from_us(500)), ..FlowSpec::default() };
        let (outcome, _) = play(&fabric, spec, &[&[0, 2, 1]], 1_000 * 4096, how);
        let (flow, lost) = (outcome.flows[0], outcome.totals.lost);
        assert_eq!((flow.messages, flow.arrived + lost), (1, 1_000 + flow.resent), "{recovery:?} {grain}");
        assert_eq!(lost, (flow.arrived + lost) / 100);
        if recovery == Recovery::Selective {
            assert_eq!((flow.resent, flow.duplicates), (lost, 0), "{grain}");
        }
    }
}
