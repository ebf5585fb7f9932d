//! Credits: the loop's bound, shares of an incast, victims by virtual lane, counters that wrap.

use super::*;
use crate::rate_control::AnyRateControl;
use crate::units::Bytes;

fn credits(kib: u64) -> FlowControlSpec {
    FlowControlSpec::Credits(CreditSpec { buffer: Bytes::kib(kib), release: Span::from_ns(300), wire: 8 })
}

/// `packets` packets of 4,096 wire bytes over one link of 400 Gb/s: when the last one has arrived, in ps.
pub(super) fn over_one_link(latency: Span, packets: u64, grain: u32) -> (u64, crate::net::NetOutcome) {
    let mut fabric = Fabric::new(2, 0, 400, latency);
    fabric.join(0, 1);
    let mut spec = fabric.spec(26, credits(32));
    (spec.mtu, spec.grain) = (4070, grain);
    let mut run = Run::new(spec).unwrap();
    let how = FlowSpec { ack_every: 1 << 20, ..FlowSpec::default() };
    let flow = run.open(&[0], &[1], how, AnyRateControl::default()).unwrap();
    run.post(flow, packets * 4070);
    assert!(!run.run(Time::MAX));
    let outcome = run.outcome();
    (outcome.flows[0].delivered_at.as_ps(), outcome)
}

#[test]
fn i1_a_link_carries_its_buffer_once_a_loop() {
    let mut halved = false;
    for latency in [50, 100, 135, 200, 464, 1_000, 3_000].map(Span::from_ns) {
        // Flight, release of the buffer, flight of the credit and one packet's serialisation.
        let round = 2.0 * latency.as_ns() + 300.0 + 0.16 + 81.92;
        let share = (32_768.0 / round / 50.0).min(1.0);
        let (short, long) = (over_one_link(latency, 1_000, 1).0, over_one_link(latency, 5_000, 1).0);
        let got = 4_000.0 * 4_096.0 / ((long - short) as f64 / 1e3) / 50.0;
        near(got, share, 0.02);
        halved |= (share - 0.5).abs() < 0.001;
    }
    assert!(halved);
}

/// The longest cable of 5 ns/m over which a lane's buffer keeps the line busy, with 300 ns of node delay (m): 400 Gb/s and 32, 64,
/// 128 KiB, 200 Gb/s and 32 KiB; and shares of the line by `V / t_loop` on shorter and longer ones.
#[test]
fn full_rate_ends_where_a_buffer_is_one_loop() {
    for (gbit, kib, metres) in [(400, 32, 27.0), (400, 64, 93.0), (400, 128, 224.0), (200, 32, 85.0)] {
        let share = |metres: f64| {
            let latency = Span::from_ps((metres * 5_000.0) as u64);
            let mut fabric = Fabric::new(2, 0, gbit, latency);
            fabric.join(0, 1);
            let mut spec = fabric.spec(26, credits(kib));
            let FlowControlSpec::Credits(credits) = &mut spec.flow_control else { unreachable!() };
            // Credits are no traffic in the closed form.
            credits.wire = 0;
            let at = |packets: u64| {
                let mut run = Run::new(spec.clone()).unwrap();
                let how = FlowSpec { ack_every: 1 << 20, ..FlowSpec::default() };
                let flow = run.open(&[0], &[1], how, AnyRateControl::default()).unwrap();
                run.post(flow, packets * 4096);
                assert!(!run.run(Time::MAX));
                run.outcome().flows[0].delivered_at.as_us() * 1e3
            };
            4_000.0 * 4_122.0 * 8.0 / (at(5_000) - at(1_000)) / gbit as f64
        };
        let loop_ns = |metres: f64| 10.0 * metres + 300.0 + 4_122.0 * 8.0 / gbit as f64;
        near(kib as f64 * 1024.0 * 8.0 / gbit as f64, loop_ns(metres), 0.005);
        // Of 65 blocks each, whole packets.
        let out = (kib * 1024 / (65 * 64) * 4_122 * 8) as f64 / gbit as f64;
        for metres in [0.6, 0.8, 1.0, 1.25, 2.0].map(|times| times * metres) {
            near(share(metres), (out / loop_ns(metres)).min(1.0), 0.005);
        }
    }
}

#[test]
fn i2_an_incast_of_8_shares_exactly_and_never_overflows() {
    let mut fabric = Fabric::new(9, 1, 400, Span::from_ns(100));
    (0..9).for_each(|host| fabric.join(host, 9));
    let mut spec = fabric.spec(26, credits(32));
    spec.inputs = Inputs::RoundRobin;
    let paths: Vec<[usize; 3]> = (1..9).map(|host| [host, 9, 0]).collect();
    let paths: Vec<(&[usize], u8)> = paths.iter().map(|path| (path.as_slice(), 0)).collect();
    let shares = fabric.shares(spec.clone(), &paths, Time::from_ps(500_000_000), Time::from_ps(2_000_000_000));
    shares.iter().for_each(|share| near(*share, 0.125, 0.01));
    let mut run = Run::new(spec).unwrap();
    for (nodes, _) in paths {
        let (forth, back) = fabric.path(nodes);
        let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
        run.post(flow, 1 << 20);
    }
    assert!(!run.run(Time::MAX));
    let outcome = run.outcome();
    assert_eq!(outcome.input_peak, 7 * 4122);
    assert_eq!((outcome.totals.drops, outcome.outstanding_blocks, outcome.packets_left), (0, 0, 0));
}

/// Endpoints 0 and 1 at node 7; 2, 3, 4, the receivers 5 and 6 at node 8. 0 and 2, 3, 4 send to 5; the victim 1 to 6.
#[test]
fn i3_a_victim_has_the_blocked_share_on_the_same_lane_and_its_own_on_another() {
    let mut fabric = Fabric::new(7, 2, 400, Span::from_ns(100));
    fabric.forwarding = Forwarding::CutThrough { header: Bytes::new(26) };
    for (host, node) in [(0, 7), (1, 7), (2, 8), (3, 8), (4, 8), (5, 8), (6, 8)] {
        fabric.join(host, node);
    }
    fabric.join(7, 8);
    for (lane, victim) in [(0, 0.25), (1, 0.75)] {
        let mut spec = fabric.spec(26, credits(32));
        spec.inputs = Inputs::RoundRobin;
        spec.classes = vec![red_off(true); 2];
        let paths: [(&[usize], u8); 5] =
            [(&[1, 7, 8, 6], lane), (&[0, 7, 8, 5], 0), (&[2, 8, 5], 0), (&[3, 8, 5], 0), (&[4, 8, 5], 0)];
        let shares = fabric.shares(spec, &paths, Time::from_ps(500_000_000), Time::from_ps(2_000_000_000));
        near(shares[0], victim, 0.05);
        shares[1..].iter().for_each(|share| near(*share, 0.25, 0.05));
    }
}

#[test]
fn i4_i5_counters_wrap_unseen_and_end_at_nothing() {
    // 64 blocks a packet: the counters of 12 bits wrap every 64 packets. That no more is out than was advertised is
    // asserted at every departure.
    let times: Vec<u64> = (1..6).map(|k| over_one_link(Span::from_ns(464), k * 1_000, 1).0).collect();
    let steps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|step| *step == steps[0]), "{steps:?}");
    assert_eq!(over_one_link(Span::from_ns(464), 777, 1).1.outstanding_blocks, 0);
}

#[test]
fn a_virtual_lane_smaller_than_a_packet_is_refused() {
    let mut fabric = Fabric::new(2, 0, 400, Span::from_ns(100));
    fabric.join(0, 1);
    let error = Run::new(fabric.spec(26, credits(4))).unwrap_err();
    assert_eq!(error, crate::net::SpecError::Buffer { have: 4_096, need: 4_160 });
}

/// Lanes of 32 KiB and 8 KiB over one link whose credits take 1,000 ns and more to come round: each carries its buffer once a
/// round.
#[test]
fn each_lane_has_the_credits_that_it_is_given() {
    let mut fabric = Fabric::new(2, 0, 400, Span::from_ns(3_000));
    fabric.join(0, 1);
    let mut spec = fabric.spec(26, credits(128));
    (spec.mtu, spec.classes, spec.lanes) = (4070, vec![red_off(true); 2], vec![Bytes::kib(32), Bytes::kib(8)]);
    let paths: [(&[usize], u8); 2] = [(&[0, 1], 0), (&[0, 1], 1)];
    let shares = fabric.shares(spec.clone(), &paths, Time::from_ps(500_000_000), Time::from_ps(2_000_000_000));
    let round = 2.0 * 3_000.0 + 300.0 + 0.16 + 81.92;
    near(shares[0], 32_768.0 / round / 50.0, 0.02);
    near(shares[1], 8_192.0 / round / 50.0, 0.02);
    spec.lanes[1] = Bytes::kib(4);
    assert!(Run::new(spec.clone()).is_ok(), "one packet fits");
    spec.lanes[1] = Bytes::new(4095);
    assert!(matches!(Run::new(spec.clone()), Err(crate::net::SpecError::Buffer { .. })));
    spec.lanes.pop();
    assert!(matches!(Run::new(spec), Err(crate::net::SpecError::Classes(1))));
}
