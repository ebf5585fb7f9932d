//! Controllers that hear more than marks: telemetry of ports, grants of receivers; and gaps between packets.

use std::sync::Arc;

use super::*;
use crate::net::NetOutcome;
use crate::rate_control::{AnyRateControl, Hpcc, HpccParams, Receiver};

/// "Set B": 4096 + 48 B, 32 MiB, marks that are not looked at.
fn incast(senders: usize, bytes: u64, grants: Option<GrantSpec>, how: FlowSpec, rate: &AnyRateControl) -> NetOutcome {
    let fabric = star(senders + 1, 100);
    let mut spec = fabric.spec(48, FlowControlSpec::Unlimited);
    spec.grants = grants;
    let mut run = Run::new(spec).unwrap();
    for sender in 1..=senders {
        let (forth, back) = fabric.path(&[sender, senders + 1, 0]);
        let flow = run.open(&forth, &back, how, rate.clone()).unwrap();
        run.post(flow, bytes);
    }
    assert!(!run.run(Time::MAX), "events are left");
    let outcome = run.outcome();
    assert!(outcome.flows.iter().all(|flow| flow.messages == 1));
    outcome
}

/// HPCC, η of 0.95: a public simulator has 758 and 784 us, a queue of 401 KB and no mark beyond 400 KB for it.
#[test]
fn hpcc_keeps_the_queue_of_an_incast_near_nothing_by_what_ports_tell() {
    // Two links and a switch: 4 us and what a packet and an acknowledgement take.
    let params = HpccParams::new(Rate::gbit(100), Span::from_ns(4_700), 4096);
    let rate: AnyRateControl = Hpcc::new(Rate::gbit(100), Arc::new(params)).into();
    let outcome = incast(8, 1 << 20, None, FlowSpec::default(), &rate);
    let times = acked_us(&outcome.flows);
    let port = star(9, 100).path(&[9, 0]).0[0] as usize;
    near(times[4], 758.0, 0.05);
    near(times[7], 784.0, 0.05);
    let queue = &outcome.ports[port][0];
    // All begin with a bandwidth-delay product: 8 of 58.75 KB less what is on wires.
    assert!((300_000..470_000).contains(&queue.peak), "{}", queue.peak);
    assert!(queue.quantile(0.5) < 66_000, "{}", queue.quantile(0.5));
}

#[test]
fn a_receiver_that_grants_keeps_its_queue_to_the_budget() {
    let budget = 96 << 10;
    let grants = GrantSpec { budget, unit: 4096 };
    let rate: AnyRateControl = Receiver::new(0).into();
    let outcome = incast(8, 1 << 20, Some(grants), FlowSpec::default(), &rate);
    let port = star(9, 100).path(&[9, 0]).0[0] as usize;
    assert!(outcome.ports[port][0].peak <= budget / 4096 * 4144, "{}", outcome.ports[port][0].peak);
    // The budget is more than a bandwidth-delay product, so the line is full: all ends as without, but for asking.
    let ideal = 8.0 * 256.0 * 4144.0 * 8.0 / 100e3;
    let last = acked_us(&outcome.flows)[7];
    assert!((ideal + 4.0..ideal + 12.0).contains(&last), "{last} of {ideal}");
    // In turn; the first to ask is ahead by the budget.
    near(acked_us(&outcome.flows)[0], last - 8.0 * 24.0 * 0.33152, 0.02);
    // What may be sent unasked saves the first round trip of a lone flow.
    let alone = |unasked: u64| {
        let rate: AnyRateControl = Receiver::new(unasked).into();
        incast(1, 40_000, Some(grants), FlowSpec::default(), &rate).flows[0].acked_at.as_us()
    };
    near(alone(0) - alone(40_000), 4.0, 0.05);
    assert!(alone(16_384) < alone(0));
}

#[test]
fn a_receiver_grants_all_of_many_messages_with_losses() {
    let mut fabric = Fabric::new(2, 0, 100, Span::from_us(1));
    fabric.join(0, 1);
    fabric.ports[0].lose_every = 50;
    let mut spec = fabric.spec(64, FlowControlSpec::Unlimited);
    spec.grants = Some(GrantSpec { budget: 64 << 10, unit: 4096 });
    let mut run = Run::new(spec).unwrap();
    for recovery in [Recovery::GoBackN, Recovery::Selective] {
        let how = FlowSpec { recovery, timeout: Some(Span::from_us(100)), ..FlowSpec::default() };
        let flow = run.open(&[0], &[1], how, Receiver::new(8192).into()).unwrap();
        (1..100).for_each(|k| run.post(flow, 1_000 * k));
    }
    assert!(!run.run(Time::MAX));
    let outcome = run.outcome();
    assert!(outcome.totals.lost > 10 && outcome.flows.iter().all(|flow| flow.messages == 99 && !flow.failed));
}

#[test]
fn nobody_waits_for_grants_that_nobody_gives() {
    let fabric = star(2, 100);
    let mut run = Run::new(fabric.spec(48, FlowControlSpec::Unlimited)).unwrap();
    let (forth, back) = fabric.path(&[0, 2, 1]);
    let error = run.open(&forth, &back, FlowSpec::default(), Receiver::new(8192).into()).unwrap_err();
    assert_eq!(error, crate::net::SpecError::NoGrants);
}

#[test]
fn gaps_take_their_share_and_are_of_the_seed() {
    let play = |seed: u64, jitter: u32| {
        let fabric = star(2, 100);
        let mut spec = fabric.spec(48, FlowControlSpec::Unlimited);
        spec.seed = seed;
        let mut run = Run::new(spec).unwrap();
        let (forth, back) = fabric.path(&[0, 2, 1]);
        let how = FlowSpec { jitter, ..FlowSpec::default() };
        let flow = run.open(&forth, &back, how, AnyRateControl::default()).unwrap();
        run.post(flow, 16 << 20);
        assert!(!run.run(Time::MAX));
        run.outcome().flows[0].delivered_at
    };
    let (plain, share) = (play(1, 0).as_us(), (1u64 << 32) / 50);
    let wide = play(1, share as u32);
    // Uniform up to 2 %: 1 % on average over 4,096 packets.
    near(wide.as_us() / plain, 1.01, 2e-4);
    assert_eq!(wide, play(1, share as u32));
    assert_ne!(wide, play(2, share as u32));
}
