//! Queues, marks and rate control together: fair rates, standing queues, the parking lot's cure, and no event after the
//! end.

use std::sync::Arc;

use super::*;
use crate::net::NetOutcome;
use crate::rate_control::{AnyRateControl, Dcqcn, DcqcnFirmware, DcqcnFirmwareParams, DcqcnParams};

/// "Set D": endpoints at one node, 40 Gb/s, 1000 + 48 B, thresholds of 5 and 200 KB and 1 %, 12 MiB.
fn forty(senders: usize) -> (Fabric, NetSpec) {
    let fabric = star(senders + 1, 40);
    let mut spec = fabric.spec(
        48,
        FlowControlSpec::Shared(SharedSpec {
            size: 12 << 20,
            ports: None,
            threshold: Threshold::Dynamic { alpha: 1 << 13, offset: 3072 },
            reserve: 4096,
            headroom: 15_000,
            lossy_alpha: 1 << 16,
            lossy_limit: u64::MAX,
            pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 0 },
            freed: Freed::AtEnd,
        }),
    );
    spec.mtu = 1000;
    let pmax = ((1u64 << 32) / 100) as u32;
    spec.classes[0].marking = Marking::Red { kmin: 5_000, kmax: 200_000, pmax, at: MarkAt::Dequeue };
    (fabric, spec)
}

fn paper(line: u64) -> AnyRateControl {
    Dcqcn::new(Rate::gbit(line), Arc::new(DcqcnParams::paper())).into()
}

/// The paper's timers with the rule of firmware for the target, as the reference figures of set D have it.
fn firmware() -> AnyRateControl {
    let mut params = DcqcnFirmwareParams::simulated(Rate::gbit(40));
    (params.alpha_timer, params.cut_gate) = (Span::from_us(50), Span::from_us(50));
    (params.recovery.timer, params.recovery.threshold) = (Span::from_us(55), 5);
    (params.recovery.additive, params.recovery.hyper) =
        (Rate::bytes_per_sec(5_000_000), Rate::bytes_per_sec(25_000_000));
    params.recovery.min = Rate::bytes_per_sec(1_250_000);
    DcqcnFirmware::new(Rate::gbit(40), Arc::new(params)).into()
}

fn notices() -> FlowSpec {
    FlowSpec {
        notice: Notice::Packet { interval: Span::from_us(50), delay: Span::ZERO },
        ack_every: 64,
        ..FlowSpec::default()
    }
}

fn ms(ms: u64) -> Time {
    Time::from_ps(ms * 1_000_000_000)
}

/// Long flows to one receiver, seen between two instants: their rates in Gb/s and the mean depth of the queue.
fn long_flows(senders: usize, each: usize, how: FlowSpec, rate: &AnyRateControl) -> (Vec<f64>, f64, NetOutcome) {
    let (from, to) = (ms(30), ms(80));
    let (fabric, spec) = forty(senders);
    let mut run = Run::new(spec).unwrap();
    for sender in 1..=senders {
        for _ in 0..each {
            let (forth, back) = fabric.path(&[sender, senders + 1, 0]);
            let flow = run.open(&forth, &back, how, rate.clone()).unwrap();
            run.post(flow, 1 << 40);
        }
    }
    assert!(run.run(from));
    let before = run.outcome();
    assert!(run.run(to));
    let after = run.outcome();
    let seconds = to.since(from).as_secs();
    let rate = |a: &crate::net::FlowOutcome, b: &crate::net::FlowOutcome| {
        (b.arrived - a.arrived) as f64 * 1048.0 * 8.0 / seconds / 1e9
    };
    let rates = before.flows.iter().zip(&after.flows).map(|(a, b)| rate(a, b)).collect();
    let port = fabric.path(&[senders + 1, 0]).0[0] as usize;
    let depth = (after.ports[port][0].byte_ns - before.ports[port][0].byte_ns) as f64 / (seconds * 1e9);
    (rates, depth, after)
}

#[test]
fn q1_two_flows_come_to_fair_rates() {
    let (rates, _, _) = long_flows(2, 1, notices(), &paper(40));
    rates.iter().for_each(|rate| near(*rate, 20.0, 0.1));
    assert!(rates.iter().sum::<f64>() >= 0.97 * 40.0, "{rates:?}");
}

#[test]
fn q2_q3_standing_queues() {
    // The rule of firmware stands higher; public simulators have 41, 83, 125 and 119 KB.
    let how = FlowSpec { retime: false, ..FlowSpec::default() };
    for (senders, fluid) in [(2, 20.2), (4, 41.8), (8, 93.8), (10, 122.6)] {
        let (_, shipped, _) = long_flows(senders, 1, how, &firmware());
        assert!((0.5 * fluid..2.5 * fluid).contains(&(shipped / 1e3)), "{senders} flows: {shipped} for {fluid} KB");
        let (_, depth, outcome) = long_flows(senders, 1, notices(), &paper(40));
        assert!((0.5 * fluid..2.5 * fluid).contains(&(depth / 1e3)), "{senders} flows: {depth} for {fluid} KB");
        assert_eq!(outcome.totals.drops, 0);
    }
    let (_, depth, _) = long_flows(16, 1, notices(), &paper(40));
    assert!((60_000.0..200_000.0).contains(&depth), "{depth}");
}

#[test]
fn q5_160_flows_never_drain() {
    let how = FlowSpec { retime: false, ..FlowSpec::default() };
    let (_, depth, outcome) = long_flows(8, 20, how, &firmware());
    assert!(depth >= 4e6 && outcome.totals.pauses > 20_000 && outcome.totals.drops == 0);
}

#[test]
fn d7_d8_nothing_is_left_after_the_end_and_idle_time_costs_no_event() {
    let ends = |idle: u64| {
        let (fabric, spec) = forty(2);
        let mut run = Run::new(spec).unwrap();
        for sender in 1..3 {
            let (forth, back) = fabric.path(&[sender, 3, 0]);
            let flow = run.open(&forth, &back, notices(), paper(40)).unwrap();
            run.post(flow, 4 << 20);
        }
        run.run(ms(5));
        // Timers that were set before the end have passed without effect by then.
        let pending = run.pending();
        run.run(ms(5 + idle));
        (run.events(), pending, run.outcome().flows)
    };
    let (short, long) = (ends(1), ends(10));
    assert_eq!(short, long);
    assert_eq!(short.1, 0);
    assert!(short.2.iter().all(|flow| flow.messages == 1 && flow.notices > 0));
}

#[test]
fn d4_a_notice_is_of_one_flow_alone() {
    // The flow to an endpoint of its own meets no queue, whatever happens to the two that share another.
    let (fabric, spec) = forty(4);
    let mut run = Run::new(spec).unwrap();
    for (from, to) in [(1, 0), (2, 0), (3, 4)] {
        let (forth, back) = fabric.path(&[from, 5, to]);
        let flow = run.open(&forth, &back, notices(), paper(40)).unwrap();
        run.post(flow, 8_000_000);
    }
    assert!(!run.run(Time::MAX));
    let flows = run.outcome().flows;
    assert!(flows[0].notices > 0 && flows[2].notices == 0);
    assert_eq!(flows[2].delivered_at, Time::from_ps(8_001 * 209_600 + 2_000_000));
}

/// Shares of the line of four senders to endpoint 0: 1 at its own node, 2, 3 and 4 over `uplinks` others.
fn parking(uplinks: usize) -> Vec<f64> {
    let mut fabric = Fabric::new(5, 2 + uplinks, 40, Span::from_us(1));
    for (host, node) in [(0, 5), (1, 5), (2, 6), (3, 6), (4, 6)] {
        fabric.join(host, node);
    }
    for uplink in 7..7 + uplinks {
        fabric.join(6, uplink);
        fabric.join(uplink, 5);
    }
    let mut spec = forty(1).1;
    (spec.endpoints, spec.ports) = (fabric.endpoints.clone(), fabric.ports.clone());
    spec.inputs = Inputs::RoundRobin;
    let mut run = Run::new(spec).unwrap();
    let last = 6 + uplinks;
    for nodes in [vec![1, 5, 0], vec![2, 6, 7, 5, 0], vec![3, 6, 7, 5, 0], vec![4, 6, last, 5, 0]] {
        let (forth, back) = fabric.path(&nodes);
        let flow = run.open(&forth, &back, notices(), paper(40)).unwrap();
        run.post(flow, 1 << 40);
    }
    assert!(run.run(ms(30)));
    let before = run.outcome().flows;
    assert!(run.run(ms(130)));
    let after = run.outcome().flows;
    let packets = before.iter().zip(after).map(|(before, after)| (after.arrived - before.arrived) as f64);
    packets.map(|packets| packets * 1048.0 * 8.0 / 0.1 / 40e9).collect()
}

#[test]
fn p7_rate_control_gives_all_senders_of_a_parking_lot_the_same() {
    for uplinks in [1, 2] {
        let shares = parking(uplinks);
        shares.iter().for_each(|share| near(*share, 0.25, 0.15));
        assert!(shares.iter().sum::<f64>() > 0.97, "{shares:?}");
    }
}
