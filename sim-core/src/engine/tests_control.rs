//! What is decided at run time: rates, windows, paths and flow control, each by its simplest member.

use super::tests::{chain, play_with, transfers};
use super::*;
use crate::flow_control::{AnyFlowControl, Credits};
use crate::network::{LinkModel, LinkSpec};
use crate::path_choice::{AnyPathChoice, LeastBacklog, Pinned};
use crate::program::Managed;
use crate::rate_control::{AnyRateControl, Fixed, LineRate};
use crate::units::{PsPerByte, Rate, Span};

fn managed(flow: u32, rate: AnyRateControl) -> Managed {
    Managed { flow, rate, choice: AnyPathChoice::Pinned(Pinned), paths: Vec::new() }
}

#[test]
fn a_fixed_rate_holds_below_the_links() {
    let (network, route) = chain(&[LinkSpec::ideal(Rate::gbyte(50), Span::from_us(1)); 2]);
    let mut program = transfers(&[(route, Bytes::mib(4))], Bytes::kib(16));
    let pace = Rate::gbyte(10).ps_per_byte();
    program.managed = vec![managed(0, AnyRateControl::Fixed(Fixed { pace, window: Bytes::new(u64::MAX) }))];
    let (ends, _) = play_with(&network, &program, AnyFlowControl::default());
    let expected = Rate::gbyte(10).time_for(Bytes::mib(4)).as_us() + 2.0;
    assert!((ends[0].as_us() / expected - 1.0).abs() < 0.01, "{} for {expected}", ends[0]);
}

#[test]
fn a_window_gives_one_window_a_round_trip() {
    let (network, route) = chain(&[LinkSpec::ideal(Rate::gbyte(50), Span::from_us(10))]);
    let mut program = transfers(&[(route, Bytes::kib(640))], Bytes::kib(16));
    let window = Bytes::kib(64);
    program.managed = vec![managed(0, AnyRateControl::Fixed(Fixed { pace: PsPerByte::FREE, window }))];
    let (ends, _) = play_with(&network, &program, AnyFlowControl::default());
    // Acknowledgements take no time: ten windows, each of a latency and its first segment's serialisation.
    let trip = Span::from_us(10) + Rate::gbyte(50).time_for(Bytes::kib(16));
    let expected = trip.as_us() * 10.0;
    assert!((ends[0].as_us() / expected - 1.0).abs() < 0.02, "{} for {expected}", ends[0]);
}

#[test]
fn line_rate_and_the_pinned_path_change_nothing() {
    let (network, route) = chain(&[LinkSpec::ideal(Rate::gbyte(50), Span::from_us(1)); 3]);
    let plain = transfers(&[(route.clone(), Bytes::mib(2)), (route, Bytes::mib(1))], Bytes::kib(32));
    let mut program = plain.clone();
    program.managed = vec![managed(0, AnyRateControl::LineRate(LineRate)), managed(1, AnyRateControl::default())];
    let (a, _) = play_with(&network, &plain, AnyFlowControl::default());
    let (b, _) = play_with(&network, &program, AnyFlowControl::default());
    assert_eq!(a, b);
}

#[test]
fn segments_spread_over_equal_paths() {
    // A fast link feeds two slow ones side by side: 0 → {1, 2} → 3.
    let slow = LinkSpec::ideal(Rate::gbyte(25), Span::from_us(1));
    let fast = LinkSpec::ideal(Rate::gbyte(100), Span::from_us(1));
    let network = Network::new(vec![fast, slow, slow, fast]);
    let mut program = transfers(&[(vec![LinkId(0), LinkId(1), LinkId(3)], Bytes::mib(8))], Bytes::kib(16));
    let start = program.routes.len() as u32;
    program.routes.extend([LinkId(0), LinkId(2), LinkId(3)]);
    let one = play_with(&network, &program, AnyFlowControl::default()).0[0];
    program.managed = vec![Managed {
        choice: AnyPathChoice::LeastBacklog(LeastBacklog),
        // Paced at what both can carry: the choice sees a backlog only where segments have arrived.
        rate: AnyRateControl::Fixed(Fixed { pace: Rate::gbyte(45).ps_per_byte(), window: Bytes::new(u64::MAX) }),
        paths: core::iter::once(start..start + 3).collect(),
        ..managed(0, AnyRateControl::default())
    }];
    let (ends, outcome) = play_with(&network, &program, AnyFlowControl::default());
    assert!(ends[0].as_us() < 0.62 * one.as_us(), "{} on two paths, {one} on one", ends[0]);
    let (a, b) = (outcome.links[1].payload, outcome.links[2].payload);
    assert_eq!(a + b, 8 << 20);
    assert!(a.abs_diff(b) < 1 << 20, "{a} and {b}");
}

#[test]
fn credits_bound_the_queue_and_push_back_upstream() {
    // Two fast links meet in a slow one; behind each lies a buffer of 64 KiB.
    let queued = |gb| LinkSpec { model: LinkModel::Queued, ..LinkSpec::ideal(Rate::gbyte(gb), Span::from_ns(500)) };
    let network = Network::new(vec![queued(50), queued(50), queued(10)]);
    let list: Vec<_> = [0, 1].map(|i| (vec![LinkId(i), LinkId(2)], Bytes::mib(4))).into();
    let program = transfers(&list, Bytes::kib(4));
    let delay = Span::from_ns(500);
    let credits = |buffer| AnyFlowControl::Credits(Credits::new(3, buffer, delay));
    let (free, unlimited) = play_with(&network, &program, AnyFlowControl::default());
    let (bound, limited) = play_with(&network, &program, credits(Bytes::kib(64)));
    // The slow link is never idle either way.
    let last = |ends: &[Span]| ends.iter().max().copied().unwrap();
    assert!((last(&bound).as_us() / last(&free).as_us() - 1.0).abs() < 0.01, "{bound:?} {free:?}");
    let depth = |o: &crate::outcome::Outcome| o.links[2].peak_queue(Rate::gbyte(10).ps_per_byte());
    assert!(depth(&limited) <= Bytes::kib(2 * 64 + 8), "{}", depth(&limited));
    assert!(depth(&unlimited) > Bytes::mib(2), "{}", depth(&unlimited));
    // A buffer smaller than what one round trip holds starves the link: one buffer a loop.
    let (starved, _) = play_with(&network, &program, credits(Bytes::kib(4)));
    assert!(last(&starved) > last(&bound));
}

#[test]
fn a_cycle_of_full_buffers_is_a_deadlock_and_not_a_hang() {
    // Four links in a ring, each flow over two of them and a third: every buffer waits for the next.
    let spec = LinkSpec { model: LinkModel::Queued, ..LinkSpec::ideal(Rate::gbyte(10), Span::from_ns(100)) };
    let network = Network::new(vec![spec; 4]);
    let route = |i: u32| (0..3).map(|k| LinkId((i + k) % 4)).collect::<Vec<_>>();
    let list: Vec<_> = (0..4).map(|i| (route(i), Bytes::mib(1))).collect();
    let program = transfers(&list, Bytes::kib(4));
    let mut engine = Engine::<RadixStore>::new(&network, Bytes::kib(4), Limits::default());
    engine.set_flow_control(AnyFlowControl::Credits(Credits::new(4, Bytes::kib(8), Span::from_ns(100))));
    engine.load(program, Time::ZERO).unwrap();
    let reason = engine.run(|_, _| {});
    assert_eq!(reason, StopReason::Deadlock);
    assert!(!engine.finish(reason).blocked.is_empty());
}

#[test]
fn more_segments_than_a_window_has_numbers_wait_at_the_source() {
    let links = [Rate::gbyte(100), Rate::gbyte(1)].map(|r| LinkSpec::ideal(r, Span::from_us(1)));
    let (network, route) = chain(&links);
    for segments in [(1u64 << 14) - 1, 1 << 14, (1 << 14) + 1, 50_000] {
        let bytes = Bytes::new(segments * 64);
        let program = transfers(&[(route.clone(), bytes)], Bytes::new(64));
        let (ends, outcome) = play_with(&network, &program, AnyFlowControl::default());
        let expected = Rate::gbyte(1).time_for(bytes).as_us() + 2.0;
        assert!((ends[0].as_us() / expected - 1.0).abs() < 1e-3, "{segments}: {} for {expected}", ends[0]);
        assert_eq!(outcome.links[1].payload, bytes.get());
    }
}

#[test]
fn credits_come_back_from_a_virtual_link_too() {
    let queued = LinkSpec { model: LinkModel::Queued, ..LinkSpec::ideal(Rate::gbyte(50), Span::from_ns(500)) };
    let network = Network::new(vec![queued, LinkSpec::ideal(Rate::gbyte(10), Span::from_ns(500))]);
    let program = transfers(&[(vec![LinkId(0), LinkId(1)], Bytes::mib(4))], Bytes::kib(4));
    let credits = AnyFlowControl::Credits(Credits::new(2, Bytes::kib(64), Span::from_ns(500)));
    let (ends, _) = play_with(&network, &program, credits);
    let expected = Rate::gbyte(10).time_for(Bytes::mib(4)).as_us();
    assert!((ends[0].as_us() / expected - 1.0).abs() < 0.02, "{} for {expected}", ends[0]);
}
