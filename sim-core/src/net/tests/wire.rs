//! One flow on empty wires: closed forms, to the picosecond or to a tenth of a per cent.

use super::*;
use crate::rate_control::AnyRateControl;

fn one(fabric: &Fabric, nodes: &[usize], mtu: u32, overhead: u32) -> super::super::FlowOutcome {
    let mut spec = fabric.spec(overhead, FlowControlSpec::Unlimited);
    spec.mtu = mtu;
    let mut run = Run::new(spec).unwrap();
    let (forth, back) = fabric.path(nodes);
    let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
    run.post(flow, 1 << 20);
    assert!(!run.run(Time::MAX));
    run.outcome().flows[0]
}

#[test]
fn w1_one_flow_at_one_switch() {
    let flow = one(&star(2, 100), &[0, 2, 1], 4096, 64);
    assert_eq!(flow.delivered_at, Time::from_ps(257 * 332_800 + 2_000_000));
    assert_eq!(flow.acked_at, Time::from_ps(257 * 332_800 + 4_000_000 + 2 * 5_120));
    near(flow.delivered_at.as_us(), 87.53, 1e-3);
    near(flow.acked_at.as_us(), 89.54, 1e-3);
}

#[test]
fn w2_one_flow_to_another_leaf() {
    let flow = one(&leaf_spine(100), &[0, 64, 72, 65, 8], 4096, 64);
    assert_eq!(flow.delivered_at, Time::from_ps(259 * 332_800 + 4_000_000));
    near(flow.delivered_at.as_us(), 90.20, 1e-3);
    near(flow.acked_at.as_us(), 94.2, 1e-3);
}

#[test]
fn q8b_the_last_short_packet_waits_for_the_full_one_before_it() {
    near(one(&star(2, 400), &[0, 2, 1], 4096, 48).acked_at.as_us(), 25.303, 1e-3);
    near(one(&star(2, 400), &[0, 2, 1], 1000, 48).acked_at.as_us(), 26.002, 1e-3);
}

#[test]
fn w3_goodput_by_packet_size_and_overhead() {
    for (mtu, overhead, share) in [(1024, 82, 0.9259), (4096, 82, 0.9804), (1024, 26, 0.9752), (4096, 26, 0.9937)] {
        let fabric = star(2, 100);
        let mut spec = fabric.spec(overhead, FlowControlSpec::Unlimited);
        spec.mtu = mtu;
        let mut run = Run::new(spec).unwrap();
        let (forth, back) = fabric.path(&[0, 2, 1]);
        let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
        run.post(flow, 64 << 20);
        run.run(Time::MAX);
        let at = run.outcome().flows[0].delivered_at.as_us();
        near((64 << 20) as f64 / at / 12_500.0, share, 1e-3);
    }
}

/// A window of two packets and acknowledgements of four: the packet that fills the window asks for one, so that pairs go round
/// trip by round trip and no timeout is waited for.
#[test]
fn a_full_window_asks_for_an_acknowledgement() {
    let fabric = star(2, 100);
    let mut run = Run::new(fabric.spec(64, FlowControlSpec::Unlimited)).unwrap();
    let (forth, back) = fabric.path(&[0, 2, 1]);
    let how = FlowSpec { ack_every: 4, window: 2 * 4096, ..FlowSpec::default() };
    let flow = run.open(&forth, &back, how, crate::rate_control::AnyRateControl::default()).unwrap();
    run.post(flow, 16 * 4096);
    assert!(!run.run(Time::MAX));
    let flow = run.outcome().flows[0];
    assert_eq!((flow.messages, flow.timeouts), (1, 0));
    // Two packets of 332.8 ns one after the other, the second again on the second link; four links of 1 us, and 64 B twice.
    let round = 3 * 332_800 + 4_000_000 + 2 * 5_120;
    assert_eq!(flow.acked_at, Time::from_ps(8 * round));
}
