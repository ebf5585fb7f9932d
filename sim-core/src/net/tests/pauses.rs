//! Pauses: headroom, what still comes after one, shares of inputs, a port that is held for ever.

use super::*;
use crate::rate_control::AnyRateControl;

const XOFF: u64 = 15 * 4160;

fn paused(headroom: u64) -> FlowControlSpec {
    FlowControlSpec::Shared(SharedSpec {
        size: 1 << 40,
        ports: None,
        threshold: Threshold::Static { xoff: XOFF, xon: 12 * 4160 },
        reserve: 0,
        headroom,
        lossy_alpha: 1 << 16,
        lossy_limit: u64::MAX,
        pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 0 },
        freed: Freed::AtEnd,
    })
}

/// One sender to a port that never sends.
fn into_a_held_port(headroom: u64) -> crate::net::NetOutcome {
    let fabric = star(2, 100);
    let mut run = Run::new(fabric.spec(64, paused(headroom))).unwrap();
    let (forth, back) = fabric.path(&[0, 2, 1]);
    let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
    run.storm(forth[1], 0);
    run.post(flow, 1 << 20);
    run.run(Time::from_ps(1_000_000_000));
    run.outcome()
}

/// Bytes on a cable of 1 us at 100 Gb/s, both ways.
const FLIGHT: u64 = 25_000;

#[test]
fn p2_headroom_of_the_flight_and_two_packets_never_drops() {
    let outcome = into_a_held_port(FLIGHT + 2 * 4160);
    assert_eq!((outcome.totals.drops, outcome.totals.pauses), (0, 1));
    let outcome = into_a_held_port(FLIGHT * 8 / 10);
    assert!(outcome.totals.headroom_drops > 0);
    assert_eq!(outcome.totals.drops, outcome.totals.headroom_drops);
}

#[test]
fn p3_what_comes_after_a_pause_is_the_flight_and_two_packets_at_most() {
    let outcome = into_a_held_port(1 << 30);
    let after = outcome.input_peak - XOFF;
    assert!((FLIGHT - 4160..=FLIGHT + 2 * 4160).contains(&after), "{after}");
}

/// Nodes: 0 the receiver and 1 a sender at node 5; 2, 3, 4 at node 6; nodes 5 and 6 joined through `uplinks` others.
fn parking_lot(uplinks: usize) -> Fabric {
    let mut fabric = Fabric::new(5, 4, 100, Span::from_us(1));
    for (host, node) in [(0, 5), (1, 5), (2, 6), (3, 6), (4, 6)] {
        fabric.join(host, node);
    }
    for uplink in 7..7 + uplinks {
        fabric.join(6, uplink);
        fabric.join(uplink, 5);
    }
    fabric
}

fn parking_shares(uplinks: usize, inputs: Inputs) -> Vec<f64> {
    let fabric = parking_lot(uplinks);
    let last = 6 + uplinks;
    let mut spec = fabric.spec(64, paused(1 << 20));
    spec.inputs = inputs;
    let paths: [(&[usize], u8); 4] =
        [(&[1, 5, 0], 0), (&[2, 6, 7, 5, 0], 0), (&[3, 6, 7, 5, 0], 0), (&[4, 6, last, 5, 0], 0)];
    fabric.shares(spec, &paths, Time::from_ps(2_000_000_000), Time::from_ps(12_000_000_000))
}

#[test]
fn p5_p6_inputs_share_alike_whatever_comes_over_them() {
    let one = [0.5, 1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0];
    let two = [1.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0, 1.0 / 3.0];
    for (uplinks, inputs, shares) in
        [(1, Inputs::RoundRobin, one), (2, Inputs::RoundRobin, two), (1, Inputs::Fifo, one)]
    {
        let got = parking_shares(uplinks, inputs);
        got.iter().zip(shares).for_each(|(got, want)| near(*got, want, 0.03));
    }
}

/// Flows 8 → 0 (whose last port is held for ever), 8 → 1 and 16 → 24.
fn storm(watchdog: Option<Span>) -> (Vec<crate::net::FlowOutcome>, crate::net::NetOutcome) {
    let fabric = leaf_spine(100);
    let mut spec = fabric.spec(64, paused(1 << 20));
    spec.watchdog = watchdog;
    let mut run = Run::new(spec).unwrap();
    for nodes in [[8, 65, 72, 64, 0], [8, 65, 72, 64, 1], [16, 66, 73, 67, 24]] {
        let (forth, back) = fabric.path(&nodes);
        let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
        run.post(flow, 4 << 20);
    }
    run.storm(fabric.path(&[64, 0]).0[0], 0);
    run.run(Time::from_ps(20_000_000_000));
    let outcome = run.outcome();
    (outcome.flows.clone(), outcome)
}

#[test]
fn p11_a_port_that_is_held_for_ever_stalls_its_tree_alone_until_the_watchdog_drops() {
    let (flows, outcome) = storm(None);
    assert_eq!(flows.iter().map(|flow| flow.messages).collect::<Vec<_>>(), [0, 0, 1]);
    assert!(outcome.cycle.is_empty());
    let alone = Time::from_ps((1024 + 3) * 332_800 + 4_000_000);
    assert_eq!(flows[2].delivered_at, alone);
    let (flows, outcome) = storm(Some(Span::from_us(1_000)));
    assert_eq!(flows.iter().map(|flow| flow.messages).collect::<Vec<_>>(), [0, 1, 1]);
    assert!(flows[1].delivered_at > Time::from_ps(1_000_000_000), "{}", flows[1].delivered_at);
    assert!(outcome.totals.watchdog_drops > 0);
    assert_eq!(flows[2].delivered_at, alone);
}

#[test]
fn p12_no_port_is_held_for_longer_than_the_run() {
    let fabric = star(9, 100);
    let mut run = Run::new(fabric.spec(64, paused(1 << 20))).unwrap();
    for sender in 1..9 {
        let (forth, back) = fabric.path(&[sender, 9, 0]);
        let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
        run.post(flow, 1 << 20);
    }
    run.run(Time::MAX);
    let (end, outcome) = (run.now(), run.outcome());
    let held: Vec<Span> = outcome.ports.iter().map(|port| port[0].held).collect();
    assert!(held.iter().all(|held| *held <= end.since(Time::ZERO)));
    assert!(held.iter().any(|held| *held > Span::from_us(100)));
    assert_eq!(outcome.totals.pauses, outcome.totals.resumes);
    assert_eq!(outcome.ports.iter().map(|port| port[0].pauses).sum::<u64>(), outcome.totals.pauses);
}
