//! What pauses do to traffic that goes elsewhere: the victim of the DCQCN paper, pauses that spread upstream, and marks
//! that pauses cause.

use std::sync::Arc;

use super::*;
use crate::net::NetOutcome;
use crate::rate_control::{AnyRateControl, Dcqcn, DcqcnParams};

fn shared() -> FlowControlSpec {
    FlowControlSpec::Shared(SharedSpec {
        size: 1 << 40,
        ports: None,
        threshold: Threshold::Static { xoff: 60_000, xon: 50_000 },
        reserve: 0,
        headroom: 1 << 20,
        lossy_alpha: 1 << 16,
        lossy_limit: u64::MAX,
        pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 0 },
        freed: Freed::AtEnd,
    })
}

fn ms(ms: u64) -> Time {
    Time::from_ps(ms * 1_000_000_000)
}

/// Figure 4 of Zhu et al., SIGCOMM 2015, at 40 Gb/s: endpoints 0 to 3 and the victim 4 at T1, its receiver 5 at T2, up to two
/// added senders 6 and 7 at T3, the receiver 8 of all others at T4. Leaves L1, L2 over T1 and T2, L3, L4 over T3 and T4;
/// spines S1 and S2.
fn victim(added: usize, rate: &AnyRateControl, marks: bool) -> f64 {
    const T: usize = 8;
    const L: usize = 12;
    const S: usize = 16;
    let mut fabric = Fabric::new(9, 10, 40, Span::from_us(1));
    for (host, t) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (6, 3), (7, 3), (8, 4)] {
        fabric.join(host, T + t);
    }
    for (t, l) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3), (3, 4), (4, 3), (4, 4)] {
        fabric.join(T + t, L + l);
    }
    for (l, s) in [(1, 1), (2, 2), (3, 1), (4, 2)] {
        fabric.join(L + l, S + s);
    }
    let (a, b) = ([T + 1, L + 1, S + 1, L + 3, T + 4], [T + 1, L + 2, S + 2, L + 4, T + 4]);
    let with = |host: usize, middle: &[usize], to: usize| {
        let mut nodes = vec![host];
        nodes.extend_from_slice(middle);
        nodes.push(to);
        nodes
    };
    let mut paths = vec![with(4, &[T + 1, L + 1, T + 2], 5)];
    paths.extend([with(0, &a, 8), with(1, &a, 8), with(2, &b, 8), with(3, &b, 8)]);
    paths.extend([with(6, &[T + 3, L + 3, T + 4], 8), with(7, &[T + 3, L + 4, T + 4], 8)].into_iter().take(added));
    let mut spec = fabric.spec(48, shared());
    (spec.mtu, spec.inputs) = (1000, Inputs::RoundRobin);
    if marks {
        let pmax = ((1u64 << 32) / 100) as u32;
        spec.classes[0].marking = Marking::Red { kmin: 5_000, kmax: 200_000, pmax, at: MarkAt::Dequeue };
        spec.flow_control = FlowControlSpec::Unlimited;
    }
    let mut run = Run::new(spec).unwrap();
    let how = FlowSpec {
        notice: Notice::Packet { interval: Span::from_us(50), delay: Span::ZERO },
        ack_every: 64,
        ..FlowSpec::default()
    };
    for nodes in &paths {
        let (forth, back) = fabric.path(nodes);
        let flow = run.open(&forth, &back, how, rate.clone()).unwrap();
        run.post(flow, 1 << 40);
    }
    let (from, to) = if marks { (ms(40), ms(140)) } else { (ms(2), ms(12)) };
    assert!(run.run(from));
    let before = run.outcome().flows[0].arrived;
    assert!(run.run(to));
    let outcome = run.outcome();
    assert_eq!(outcome.totals.drops, 0);
    (outcome.flows[0].arrived - before) as f64 * 1048.0 * 8.0 / (to.since(from).as_secs() * 1e9)
}

#[test]
fn p8_a_victim_loses_more_with_each_sender_that_is_added_elsewhere_and_rate_control_cures_it() {
    let paused: Vec<f64> = (0..3).map(|added| victim(added, &AnyRateControl::default(), false)).collect();
    // The first one added halves what its leaf takes of the victim's neighbours; the second one goes over the other leaf.
    assert!(paused[0] > paused[1] && paused[1] >= paused[2], "{paused:?}");
    assert!(paused[2] <= 0.5 * paused[0], "{paused:?}");
    // Two of the others share its uplink, with a fourth or a sixth of the receiver's link each.
    let rate: AnyRateControl = Dcqcn::new(Rate::gbit(40), Arc::new(DcqcnParams::paper())).into();
    for (added, fair) in [(0, 20.0), (2, 40.0 - 2.0 * 40.0 / 6.0)] {
        let got = victim(added, &rate, true);
        assert!(got >= 0.9 * fair * 1000.0 / 1048.0, "{added} added: {got} of {fair} Gb/s");
    }
}

/// A line of nodes, an endpoint at each; all send to the endpoint of the last one. When each port between nodes was first
/// paused, in us.
#[test]
fn pauses_spread_upstream_hop_by_hop() {
    // Nodes 3, 4, 5 in a line; endpoints 0 and 1 at node 3, 2 at node 5; another sender 6 at node 5.
    let mut fabric = Fabric::new(3, 4, 100, Span::from_us(1));
    fabric.endpoints = vec![true, true, true, false, false, false, true];
    for (a, b) in [(0, 3), (1, 5), (2, 5), (3, 4), (4, 5), (6, 5)] {
        fabric.join(a, b);
    }
    let mut spec = fabric.spec(64, shared());
    let ports: Vec<u32> = [(4, 5), (3, 4), (0, 3)].iter().map(|(a, b)| fabric.path(&[*a, *b]).0[0]).collect();
    spec.observe = Observe { interval: Span::from_ns(100), ports: ports.clone(), ..Observe::default() };
    let mut run = Run::new(spec).unwrap();
    for nodes in [&[0, 3, 4, 5, 2][..], &[1, 5, 2], &[6, 5, 2]] {
        let (forth, back) = fabric.path(nodes);
        let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
        run.post(flow, 4 << 20);
    }
    run.run(ms(1));
    let series = run.outcome().series;
    let first = |k: usize| {
        let at = series.ports[k].held.iter().position(|held| *held).expect("it was held");
        series.at[at].as_us()
    };
    // The line arrives at C and a third of it leaves: XOFF and what comes during the frame's way fill at 2/3 C, hop by
    // hop; then the hop before is fed at C and drains at what the pauses leave, a third.
    let fill = (60_000.0 + 25_000.0) * 8.0 / 100e3 / (2.0 / 3.0);
    let firsts: Vec<f64> = (0..3).map(first).collect();
    for (k, at) in firsts.iter().enumerate() {
        let want = (k + 1) as f64 * fill;
        assert!((at - want).abs() < 0.35 * want, "hop {k}: {at} for {want} us; {firsts:?}");
    }
    assert!(firsts.windows(2).all(|pair| pair[0] < pair[1]), "{firsts:?}");
}

/// After the public "DCQCN-validation" study: endpoint 0 sends to 1 for all of the time; a burst of fifteen others to 2 makes
/// pauses hold its uplink, where it is marked though its own path is free.
#[test]
fn pauses_are_taken_for_congestion() {
    let (senders, line) = (15, 40);
    // Endpoints 0 (F1's source), 1 (its receiver), 2 (the burst's receiver), 3.. senders; node a, node b.
    let hosts = 3 + senders;
    let (a, b) = (hosts, hosts + 1);
    let mut fabric = Fabric::new(hosts, 2, line, Span::from_us(1));
    fabric.join(0, a);
    fabric.join(1, b);
    fabric.join(2, b);
    // Five of the burst come over the uplink, ten from node b.
    (3..hosts).for_each(|host| fabric.join(host, if host < 8 { a } else { b }));
    // Wide enough for all at once.
    fabric.join(a, b);
    for link in fabric.ports.len() - 2..fabric.ports.len() {
        fabric.ports[link].rate = Rate::gbit(8 * line);
    }
    let play = |burst: bool| -> NetOutcome {
        let mut spec = fabric.spec(48, shared());
        spec.mtu = 1000;
        let pmax = ((1u64 << 32) / 100) as u32;
        spec.classes[0].marking = Marking::Red { kmin: 5_000, kmax: 200_000, pmax, at: MarkAt::Dequeue };
        spec.observe = Observe { interval: Span::from_us(100), flows: vec![0], ..Observe::default() };
        let mut run = Run::new(spec).unwrap();
        let rate: AnyRateControl = Dcqcn::new(Rate::gbit(line), Arc::new(DcqcnParams::paper())).into();
        let how = FlowSpec {
            notice: Notice::Packet { interval: Span::from_us(50), delay: Span::ZERO },
            ack_every: 16,
            ..FlowSpec::default()
        };
        let mut flow = |nodes: &[usize], bytes: u64| {
            let (forth, back) = fabric.path(nodes);
            let flow = run.open(&forth, &back, how, rate.clone()).unwrap();
            run.post(flow, bytes);
        };
        flow(&[0, a, b, 1], 1 << 40);
        if burst {
            (3..8).for_each(|host| flow(&[host, a, b, 2], 1 << 20));
            (8..hosts).for_each(|host| flow(&[host, b, 2], 1 << 20));
        }
        run.run(ms(60));
        run.outcome()
    };
    let pace = |outcome: &NetOutcome| -> Vec<f64> {
        outcome.series.flows[0]
            .pace
            .iter()
            .map(|pace| 8e3 / pace.cost(crate::units::Bytes::new(1_000_000)).as_us())
            .collect()
    };
    assert!(pace(&play(false)).iter().all(|rate| *rate > 0.999 * line as f64), "cut without a burst");
    let outcome = play(true);
    assert!(outcome.victims.iter().any(|victim| victim.flow == 0) || outcome.flows[0].behind_held > Span::ZERO);
    let rates = pace(&outcome);
    let least = rates.iter().copied().fold(f64::MAX, f64::min);
    assert!(least < 0.7 * line as f64 && outcome.flows[0].notices > 0, "{least}");
    // It takes far longer than the burst of a few ms until the rate is back.
    let burst = outcome.flows[1..].iter().map(|flow| flow.delivered_at.as_us()).fold(0.0, f64::max) / 1e3;
    let back = rates.iter().rposition(|rate| *rate < 0.95 * line as f64).map_or(0.0, |at| (at + 1) as f64 / 10.0);
    assert!(back > burst, "back after {back} ms, burst of {burst} ms, least {least}");
}
