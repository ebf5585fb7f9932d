//! Losses: what the ways to recover from them cost; and that a result is the same whatever holds the events.

use super::*;
use crate::net::{NetOutcome, PacketRun};
use crate::queue::Store;
use crate::queue::heap::HeapStore;
use crate::rate_control::AnyRateControl;

/// Goodput of 4 MB messages over one link that loses every 256th packet, that sends `window` packets from a lost one to its
/// report.
fn goodput(recovery: Recovery, window: u64) -> (f64, crate::net::FlowOutcome) {
    // A lost packet, the one that shows it and the report's way are in the round trip: 3 packets beside the flight.
    let mut fabric = Fabric::new(2, 0, 100, Span::from_ps((window - 3) * 166_400));
    fabric.join(0, 1);
    let mut spec = fabric.spec(64, FlowControlSpec::Unlimited);
    spec.ports[0].lose_every = 256;
    let mut run = Run::new(spec).unwrap();
    let how = FlowSpec { recovery, timeout: Some(Span::from_us(10_000)), ..FlowSpec::default() };
    let flow = run.open(&[0], &[1], how, AnyRateControl::default()).unwrap();
    (0..16).for_each(|_| run.post(flow, 4_000_000));
    let ideal = 16.0 * 977.0 * 0.3328;
    let limit = Time::from_ps((20.0 * ideal * 1e6) as u64);
    run.run(limit);
    let flow = run.outcome().flows[0];
    (if flow.messages == 16 { ideal / flow.delivered_at.as_us() } else { flow.messages as f64 / 320.0 }, flow)
}

#[test]
fn g1_going_back_and_sending_what_is_missing() {
    let p = 1.0 / 256.0;
    for window in [30, 300] {
        let (got, _) = goodput(Recovery::GoBackN, window);
        let want = (1.0 - p) / (1.0 - p + p * window as f64);
        near(got, want, 0.10);
    }
    let (got, _) = goodput(Recovery::Selective, 30);
    near(got, 1.0 - p, 0.01);
    let (got, flow) = goodput(Recovery::GoBack0, 30);
    assert_eq!((got, flow.messages), (0.0, 0));
}

#[test]
fn random_losses_take_their_share() {
    let p = 1.0 / 256.0;
    let mut fabric = Fabric::new(2, 0, 100, Span::from_us(1));
    fabric.join(0, 1);
    fabric.ports[0].lose_per_2_32 = 1 << 24;
    let play = |seed: u64, recovery: Recovery| {
        let mut spec = fabric.spec(64, FlowControlSpec::Unlimited);
        spec.seed = seed;
        let mut run = Run::new(spec).unwrap();
        let how = FlowSpec { recovery, timeout: Some(Span::from_us(100)), ..FlowSpec::default() };
        let flow = run.open(&[0], &[1], how, AnyRateControl::default()).unwrap();
        run.post(flow, 64 << 20);
        assert!(!run.run(Time::MAX));
        run.outcome()
    };
    let outcome = play(1, Recovery::Selective);
    // 16,384 packets and some again: three standard deviations are 24 losses.
    let sent = outcome.ports[0][0].packets as f64;
    assert!((outcome.totals.lost as f64 - sent * p).abs() < 3.0 * (sent * p).sqrt(), "{}", outcome.totals.lost);
    assert_eq!((outcome.ports[0][0].lost, outcome.flows[0].messages), (outcome.totals.lost, 1));
    assert_eq!(outcome, play(1, Recovery::Selective));
    assert_ne!(outcome.totals.lost, play(2, Recovery::Selective).totals.lost);
    // The formula of random losses: a packet and what follows until its report comes, 10 of them here, are sent again.
    let outcome = play(1, Recovery::GoBackN);
    let goodput = 16_384.0 * 0.3328 / outcome.flows[0].delivered_at.as_us();
    near(goodput, (1.0 - p) / (1.0 - p + p * 9.0), 0.02);
}

/// An incast of 8 into a buffer of 200 kB that drops, with marks.
fn lossy<S: Store>(recovery: Recovery) -> (NetOutcome, u64) {
    let fabric = star(9, 100);
    let mut spec = fabric.spec(
        82,
        FlowControlSpec::Shared(SharedSpec {
            size: 1 << 20,
            ports: None,
            threshold: Threshold::Dynamic { alpha: 1 << 13, offset: 0 },
            reserve: 0,
            headroom: 0,
            lossy_alpha: 1 << 16,
            lossy_limit: 200_000,
            pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 0 },
            freed: Freed::AtEnd,
        }),
    );
    spec.classes[0].lossless = false;
    spec.classes[0].marking = Marking::Red { kmin: 20_000, kmax: 180_000, pmax: 1 << 30, at: MarkAt::Enqueue };
    let mut run = PacketRun::<S>::new(spec).unwrap();
    let how = FlowSpec { recovery, timeout: Some(Span::from_us(500)), ..FlowSpec::default() };
    for sender in 1..9 {
        let (forth, back) = fabric.path(&[sender, 9, 0]);
        let flow = run.open(&forth, &back, how, AnyRateControl::default()).unwrap();
        run.post(flow, 1_000_000 + sender as u64);
    }
    run.run(Time::from_ps(1_000_000_000_000));
    (run.outcome(), run.events())
}

#[test]
fn a_lossy_incast_ends_and_every_byte_arrives() {
    for recovery in [Recovery::GoBackN, Recovery::Selective] {
        let (outcome, _) = lossy::<RadixStore>(recovery);
        assert!(outcome.totals.drops > 0 && outcome.totals.headroom_drops == 0 && outcome.packets_left == 0);
        for flow in &outcome.flows {
            assert_eq!((flow.messages, flow.failed), (1, false));
            assert!(flow.arrived - flow.duplicates >= 245);
        }
    }
}

#[test]
fn the_heap_gives_the_same_result() {
    for recovery in [Recovery::GoBackN, Recovery::Selective] {
        assert_eq!(lossy::<RadixStore>(recovery), lossy::<HeapStore>(recovery));
    }
}

#[test]
fn a_flow_of_which_nothing_arrives_gives_up() {
    let mut fabric = Fabric::new(2, 0, 100, Span::from_us(1));
    fabric.join(0, 1);
    let mut spec = fabric.spec(64, FlowControlSpec::Unlimited);
    spec.ports[0].lose_every = 1;
    let mut run = Run::new(spec).unwrap();
    let how = FlowSpec { recovery: Recovery::GoBackN, timeout: Some(Span::from_us(100)), ..FlowSpec::default() };
    let flow = run.open(&[0], &[1], how, AnyRateControl::default()).unwrap();
    run.post(flow, 100_000);
    assert!(!run.run(Time::MAX), "something is still pending");
    let flow = run.outcome().flows[flow as usize];
    assert!(flow.failed && flow.timeouts == 8);
}

#[test]
fn messages_that_begin_again_too_early_arrive() {
    // The acknowledgement of the first message is at the sender after 10.7 us: at 10.5 us the sender has begun it again, and then
    // goes on behind it. The receiver, which has most of what follows, must not wait for its second packet.
    let mut fabric = Fabric::new(2, 0, 100, Span::from_us(5));
    fabric.join(0, 1);
    let mut run = Run::new(fabric.spec(64, FlowControlSpec::Unlimited)).unwrap();
    let timeout = Some(Span::from_ns(10_500));
    let how = FlowSpec { recovery: Recovery::GoBack0, timeout, ack_every: 2, ..FlowSpec::default() };
    let flow = run.open(&[0], &[1], how, AnyRateControl::default()).unwrap();
    (0..10).for_each(|_| run.post(flow, 8192));
    assert!(!run.run(Time::from_ps(1_000_000_000)), "something is still pending");
    let flow = run.outcome().flows[0];
    assert_eq!((flow.messages, flow.payload, flow.failed), (10, 81_920, false));
    assert!(flow.timeouts > 0 && flow.duplicates > 0, "{flow:?}");
}

#[test]
fn grants_that_may_be_dropped_are_refused() {
    let fabric = star(3, 100);
    let shared = SharedSpec {
        size: 1 << 20,
        ports: None,
        threshold: Threshold::Dynamic { alpha: 1 << 13, offset: 0 },
        reserve: 0,
        headroom: 0,
        lossy_alpha: 1 << 16,
        lossy_limit: 200_000,
        pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 0 },
        freed: Freed::AtEnd,
    };
    let mut spec = fabric.spec(64, FlowControlSpec::Shared(shared));
    spec.grants = Some(GrantSpec { budget: 100_000, unit: 4096 });
    spec.control = Control::Class(0);
    assert!(spec.check().is_ok());
    spec.classes[0].lossless = false;
    assert_eq!(spec.check(), Err(crate::net::SpecError::GrantsDropped(0)));
    spec.control = Control::Express;
    assert!(spec.check().is_ok());
    (spec.control, spec.classes[0].lossless, spec.watchdog) = (Control::Class(0), true, Some(Span::from_us(100)));
    assert_eq!(spec.check(), Err(crate::net::SpecError::GrantsDropped(0)));
}
