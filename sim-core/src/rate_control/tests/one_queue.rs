//! Controllers that share one port: where they come to rest, and how fair that is.

use std::sync::Arc;

use super::driver::{Outcome, Red, Shared};
use super::fixed_points::PAPER;
use crate::rate_control::*;
use crate::units::{Rate, Span};

const NO_MARKS: Red = Red { kmin: f64::INFINITY, kmax: f64::INFINITY, pmax: 0.0 };
const PAPER_RED: Red = Red { kmin: 5e3, kmax: 200e3, pmax: 0.01 };

const fn ms(ms: u64) -> Span {
    Span::from_us(1000 * ms)
}

fn same(n: usize, flow: impl Into<AnyRateControl>) -> Vec<AnyRateControl> {
    vec![flow.into(); n]
}

fn total(outcome: &Outcome) -> f64 {
    outcome.shares.iter().sum()
}

/// Jain's index: 1 if all shares are equal, 1/n if one flow has all.
fn fairness(outcome: &Outcome) -> f64 {
    let squares: f64 = outcome.shares.iter().map(|s| s * s).sum();
    total(outcome).powi(2) / (squares * outcome.shares.len() as f64)
}

fn dcqcn(n: usize) -> Outcome {
    let line = Rate::gbit(40);
    let flows = same(n, Dcqcn::new(line, Arc::new(DcqcnParams::paper())));
    Shared::new(line, 1000, Span::from_us(4), PAPER_RED, Span::from_us(50), flows).run(ms(30), ms(80))
}

#[test]
fn two_flows_of_dcqcn_have_half_each() {
    let outcome = dcqcn(2);
    assert!(outcome.shares.iter().all(|s| (s - 0.5).abs() < 0.05), "{outcome:?}");
    assert!(total(&outcome) >= 0.97, "{outcome:?}");
}

#[test]
fn the_queue_under_dcqcn_is_near_the_fluid_fixed_point() {
    for n in [2, 4, 8, 10] {
        let (outcome, fluid) = (dcqcn(n), PAPER.queue(n as f64));
        assert!((0.5..2.5).contains(&(outcome.depth / fluid)), "{n} flows: {outcome:?}, fluid {fluid}");
        assert!(outcome.depth_p95 <= 300e3, "{n} flows: {outcome:?}");
        assert!(fairness(&outcome) > 0.9, "{n} flows: {outcome:?}");
    }
}

#[test]
fn flows_of_dcqcn_in_firmware_share_a_port() {
    let line = Rate::gbit(100);
    let red = Red { kmin: 400e3, kmax: 1600e3, pmax: 0.2 };
    for n in [2, 8] {
        let flows = same(n, DcqcnFirmware::new(line, Arc::new(DcqcnFirmwareParams::simulated(line))));
        let outcome = Shared::new(line, 4144, Span::from_us(4), red, Span::ZERO, flows).run(ms(50), ms(150));
        assert!(outcome.depth_p95 < 1.7e6, "{n}: {outcome:?}");
        assert!(total(&outcome) > 0.8 && fairness(&outcome) > 0.9, "{n}: {outcome:?}");
    }
}

#[test]
fn dctcp_keeps_the_queue_at_its_mark() {
    // The paper's port: 10 Gb/s, 1500 B, 100 µs, K of 40 packets. Its closed form: a sawtooth from K + N packets down by
    // √(2N · (C · RTT + K)) / 2.
    let (line, wire, rtt) = (Rate::gbit(10), 1500, Span::from_us(100));
    let mark = 40.0 * f64::from(wire);
    let red = Red { kmin: mark, kmax: mark, pmax: 1.0 };
    for n in [2, 10] {
        let flows = same(n, Dctcp::new(Arc::new(DctcpParams::new(line, rtt, u64::from(wire)))));
        let outcome = Shared::new(line, wire, rtt, red, Span::ZERO, flows).run(ms(100), ms(300));
        let packets = 125e6 * 10.0 * 100e-6 / f64::from(wire) + 40.0;
        let amplitude = (2.0 * n as f64 * packets).sqrt() / 2.0 * f64::from(wire);
        let top = mark + n as f64 * f64::from(wire);
        let middle = top - amplitude / 2.0;
        assert!(
            (outcome.depth / middle - 1.0).abs() < 0.25 && outcome.depth_p95 <= top,
            "{n}: {outcome:?}, closed form {middle}"
        );
        assert!(total(&outcome) > 0.97 && fairness(&outcome) > 0.95, "{n}: {outcome:?}");
    }
}

#[test]
fn hpcc_leaves_the_queue_empty() {
    // Where W = W_c · η/U + W_AI stands still, U is η + N · W_AI / (C · T).
    let (line, rtt) = (Rate::gbit(100), Span::from_us(8));
    for n in [2, 16] {
        let params = HpccParams::new(line, rtt, 1000);
        let expected = 0.95 + n as f64 * params.additive as f64 / 100_000.0;
        let flows = same(n, Hpcc::new(line, Arc::new(params)));
        let outcome = Shared::new(line, 1000, rtt, NO_MARKS, Span::ZERO, flows).run(ms(20), ms(40));
        assert!((total(&outcome) / expected - 1.0).abs() < 0.01, "{n}: {outcome:?}, {expected}");
        assert!(outcome.depth < 5_000.0 * n as f64, "{n}: {outcome:?}");
        assert!(fairness(&outcome) > 0.95, "{n}: {outcome:?}");
    }
}

#[test]
fn swift_holds_the_delay_at_its_target() {
    let (line, rtt) = (Rate::gbit(100), Span::from_us(10));
    for n in [2, 10] {
        let params = SwiftParams { flow_range: Span::ZERO, ..SwiftParams::new(1000, 500) };
        let flow = Swift::new(line, 2, Arc::new(params));
        let excess = (flow.target() - rtt).as_us() * 12_500.0;
        let outcome = Shared::new(line, 1000, rtt, NO_MARKS, Span::ZERO, same(n, flow)).run(ms(20), ms(60));
        assert!((outcome.depth / excess - 1.0).abs() < 0.03, "{n}: {outcome:?}, {excess}");
        assert!(total(&outcome) > 0.98 && fairness(&outcome) > 0.95, "{n}: {outcome:?}");
    }
}

#[test]
fn timely_has_no_unique_fixed_point_and_dcqcn_has() {
    // Two flows that begin at 7 and 3 of 10 Gb/s.
    let line = Rate::gbit(10);
    let params = Arc::new(TimelyParams::default());
    let timely = |gbit| AnyRateControl::from(Timely::new(line, params.clone()).at(Rate::gbit(gbit)));
    let gap = |a, b| {
        let flows = vec![timely(a), timely(b)];
        let outcome = Shared::new(line, 1000, Span::from_us(20), NO_MARKS, Span::ZERO, flows).run(ms(50), ms(150));
        assert!(total(&outcome) > 0.9, "{outcome:?}");
        outcome.shares[0] - outcome.shares[1]
    };
    let (first, second, even) = (gap(7, 3), gap(9, 1), gap(5, 5));
    assert!(first > 0.1 && second > 0.1, "{first} {second} {even}");
    assert!((second - first).abs() > 0.02 || (first - even).abs() > 0.1, "{first} {second} {even}");
    // DCQCN forgets where it came from: one flow starts after four cuts.
    let line = Rate::gbit(40);
    let mut late = Dcqcn::new(line, Arc::new(DcqcnParams::paper()));
    let early = late.clone();
    (0..4).for_each(|_| late.on_notice(Time::ZERO));
    let flows = vec![early.into(), late.into()];
    let outcome = Shared::new(line, 1000, Span::from_us(4), PAPER_RED, Span::from_us(50), flows).run(ms(60), ms(160));
    assert!((outcome.shares[0] - outcome.shares[1]).abs() < 0.08, "{outcome:?}");
}

#[test]
fn a_receiver_admits_all_in_turn_and_no_more_than_its_budget() {
    let mut grants = Grants::of(Rate::gbit(100), Span::from_us(8), 4096);
    let budget = 150_000;
    let (mut given, mut under_way, mut now) = (vec![0u64; 8], Vec::new(), Vec::new());
    let mut sources = [Receiver::new(0); 8];
    for flow in 0..8 {
        grants.asked(flow, 1 << 20, &mut now);
    }
    let mut steps = 0;
    loop {
        for grant in now.drain(..) {
            given[grant.flow as usize] += grant.bytes;
            sources[grant.flow as usize].on_grant(Time::ZERO, grant.bytes);
            under_way.push(grant);
        }
        assert!(grants.outstanding() <= budget);
        assert_eq!(grants.outstanding(), sources.iter().map(RateControl::window).sum::<u64>());
        // The first to ask has the whole budget ahead; from then on all are granted in turn.
        let (least, most) = (given[1..].iter().min().unwrap(), given[1..].iter().max().unwrap());
        assert!(most - least <= 4096 && given[0] <= least + budget + 4096, "in turn: {given:?}");
        if under_way.is_empty() {
            break;
        }
        let Grant { flow, bytes } = under_way.remove(0);
        let ack = Ack { bytes, packets: 1, ..Ack::default() };
        sources[flow as usize].on_ack(Time::ZERO, &ack);
        grants.arrived(bytes, &mut now);
        steps += 1;
    }
    assert_eq!((steps, given), (8 * 256, vec![1 << 20; 8]));
    // A flow that ends early gives its turn, and what it held, to the others.
    grants.asked(0, 1 << 20, &mut now);
    let held: u64 = now.iter().map(|g| g.bytes).sum();
    grants.asked(1, 1 << 20, &mut now);
    assert!(now.iter().all(|g| g.flow == 0));
    now.clear();
    grants.gone(0, held, &mut now);
    assert!(!now.is_empty() && now.iter().all(|g| g.flow == 1));
}
