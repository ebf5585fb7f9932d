//! Units that are used only as long as nothing can bind.

use super::*;
use crate::net::NetOutcome;
use crate::net::coarse::Bound;
use crate::rate_control::{AnyRateControl, Swift, SwiftParams};
use crate::units::Bytes;

fn shared(xoff: u64) -> FlowControlSpec {
    FlowControlSpec::Shared(SharedSpec {
        size: 1 << 30,
        ports: None,
        threshold: Threshold::Static { xoff, xon: xoff / 2 },
        reserve: 0,
        headroom: 1 << 20,
        lossy_alpha: 1 << 16,
        lossy_limit: u64::MAX,
        pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 0 },
        freed: Freed::AtEnd,
    })
}

fn play(fabric: &Fabric, spec: NetSpec, paths: &[&[usize]], how: FlowSpec, rate: &AnyRateControl) -> (NetOutcome, u64) {
    let mut run = Run::new(spec).unwrap();
    let open = |nodes: &&[usize]| {
        let (forth, back) = fabric.path(nodes);
        run.open(&forth, &back, how, rate.clone()).unwrap()
    };
    let flows: Vec<u32> = paths.iter().map(open).collect();
    flows.into_iter().for_each(|flow| run.post(flow, 4 << 20));
    assert!(!run.run(Time::MAX));
    let events = run.events();
    (run.outcome(), events)
}

fn auto(fabric: &Fabric, scheme: FlowControlSpec) -> NetSpec {
    let mut spec = fabric.spec(64, scheme);
    (spec.grain, spec.only_if_free) = (16, true);
    spec
}

/// A permutation whose flows share no link: units, and the same times to the picosecond.
#[test]
fn flows_that_share_nothing_move_in_units() {
    let fabric = leaf_spine(100);
    let paths: Vec<Vec<usize>> =
        (0..8).map(|k| vec![8 * k, 64 + k, 72 + k, 64 + (k + 1) % 8, 8 * ((k + 1) % 8) + 1]).collect();
    let paths: Vec<&[usize]> = paths.iter().map(Vec::as_slice).collect();
    let mut spec = auto(&fabric, shared(1 << 20));
    spec.classes[0].marking = Marking::Red { kmin: 400_000, kmax: 800_000, pmax: 1 << 30, at: MarkAt::Dequeue };
    let rate = AnyRateControl::default();
    let (units, few) = play(&fabric, spec.clone(), &paths, FlowSpec::default(), &rate);
    spec.grain = 1;
    let (single, many) = play(&fabric, spec, &paths, FlowSpec::default(), &rate);
    assert_eq!((units.grain, units.alone), (16, None));
    assert!(few * 12 < many, "{few} of {many}");
    for (a, b) in units.flows.iter().zip(&single.flows) {
        assert_eq!((a.delivered_at, a.acked_at), (b.delivered_at, b.acked_at));
    }
}

/// Whatever could bind: single packets, and the outcome of single packets.
#[test]
fn what_could_bind_has_single_packets() {
    let fabric = star(9, 100);
    let (incast, one): (Vec<[usize; 3]>, [&[usize]; 1]) = ((1..9).map(|host| [host, 9, 0]).collect(), [&[1, 9, 0]]);
    let incast: Vec<&[usize]> = incast.iter().map(<[usize; 3]>::as_slice).collect();
    let (down, how, line) = (fabric.path(&[9, 0]).0[0], FlowSpec::default(), AnyRateControl::default());
    let swift: AnyRateControl = Swift::new(Rate::gbit(100), 2, std::sync::Arc::new(SwiftParams::new(4096, 64))).into();
    let spray = FlowSpec { paths: Paths::Spray, recovery: Recovery::Selective, ..how };
    let credits =
        |kib| FlowControlSpec::Credits(CreditSpec { buffer: Bytes::kib(kib), release: Span::from_ns(300), wire: 8 });
    let mut lossy = auto(&fabric, shared(1 << 20));
    lossy.ports[0].lose_every = 1 << 20;
    let mut marking = auto(&fabric, shared(1 << 20));
    marking.classes[0].marking = Marking::Red { kmin: 50_000, kmax: 80_000, pmax: 1 << 30, at: MarkAt::Dequeue };
    let free = || auto(&fabric, shared(1 << 20));
    for (spec, paths, how, rate, bound) in [
        (free(), &one[..], how, &line, None),
        (free(), &incast, how, &line, Some(Bound::Meet { port: down })),
        (auto(&fabric, shared(100_000)), &one, how, &line, Some(Bound::Room { port: down })),
        (marking, &one, how, &line, Some(Bound::Room { port: down })),
        (auto(&fabric, credits(128)), &one, how, &line, None),
        (auto(&fabric, credits(64)), &one, how, &line, Some(Bound::Credits { port: 2 })),
        (free(), &one, spray, &line, Some(Bound::Paths)),
        (free(), &one, how, &swift, Some(Bound::RateControl)),
        (lossy, &one, how, &line, Some(Bound::Faults)),
    ] {
        let (outcome, events) = play(&fabric, spec.clone(), paths, how, rate);
        assert_eq!((outcome.grain, outcome.alone), (if bound.is_some() { 1 } else { 16 }, bound));
        if bound.is_some() {
            let single = NetSpec { grain: 1, only_if_free: false, ..spec };
            let (single, events_of_single) = play(&fabric, single, paths, how, rate);
            assert_eq!((outcome.flows, events), (single.flows, events_of_single), "{bound:?}");
        }
    }
}

/// A device that begins to pause: units until then, single packets from the next on.
#[test]
fn what_happens_nevertheless_ends_units() {
    let fabric = star(3, 100);
    let mut run = Run::new(auto(&fabric, shared(1 << 20))).unwrap();
    let (forth, back) = fabric.path(&[1, 3, 0]);
    let flow = run.open(&forth, &back, FlowSpec::default(), AnyRateControl::default()).unwrap();
    run.post(flow, 64 << 20);
    run.run(Time::from_ps(100_000_000));
    assert_eq!(run.outcome().alone, None);
    run.storm(forth[1], 0);
    run.run(Time::from_ps(200_000_000));
    let outcome = run.outcome();
    assert_eq!((outcome.grain, outcome.alone), (1, Some(Bound::Happened)));
}
