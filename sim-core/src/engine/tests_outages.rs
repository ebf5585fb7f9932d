//! Links that are down at times, against closed forms.

use proptest::prelude::*;

use super::tests::{chain, play_with, transfers};
use super::*;
use crate::outage::Outage;
use crate::program::Spacing;
use crate::program_builder::{ConnShape, CreditShape, ProgramBuilder};
use crate::units::Rate;

const SEGMENT: Bytes = Bytes::new(10_000);

/// 1 GB/s: a segment takes 10 us.
fn link() -> LinkSpec {
    LinkSpec::ideal(Rate::gbyte(1), Span::from_ns(500))
}

fn outage(first_us: u64, down_us: u64, every_us: u64) -> Outage {
    Outage::periodic(Span::from_us(first_us), Span::from_us(down_us), Span::from_us(every_us))
}

fn time(links: &[LinkSpec], bytes: Bytes) -> (Span, crate::outcome::Outcome) {
    let (network, route) = chain(links);
    let (ends, outcome) = play_with(&network, &transfers(&[(route, bytes)], SEGMENT), None);
    (ends[0], outcome)
}

#[test]
fn a_message_takes_its_work_and_the_outages_it_crosses() {
    // 100 segments of 10 us; outages of 30 us begin at 200, 600, 1000 us: all on a segment's boundary.
    let (end, outcome) = time(&[link().flapping(outage(200, 30, 400))], Bytes::new(1_000_000));
    assert_eq!(end, Span::from_us(1000 + 3 * 30) + Span::from_ns(500));
    assert_eq!(outcome.links[0].held, Span::from_us(90));
    assert_eq!(outcome.links[0].busy, Span::from_us(1000), "an outage is no work");
    // One outage only, and one that begins when all is over.
    let once = Outage { every: None, ..outage(200, 30, 400) };
    assert_eq!(time(&[link().flapping(once)], Bytes::new(1_000_000)).0, Span::from_us(1030) + Span::from_ns(500));
    let late = Outage { every: None, ..outage(1000, 30, 400) };
    assert_eq!(time(&[link().flapping(late)], Bytes::new(1_000_000)).0, Span::from_us(1000) + Span::from_ns(500));
}

#[test]
fn what_is_on_the_wire_survives() {
    // The outage begins in the middle of the fifth segment, which goes out whole: 5 us of the outage cost nothing.
    let (end, _) = time(&[link().flapping(outage(45, 30, 10_000))], Bytes::new(1_000_000));
    assert_eq!(end, Span::from_us(1000 + 25) + Span::from_ns(500));
}

#[test]
fn links_in_series_wait_too() {
    let flapping = link().flapping(outage(200, 30, 400));
    let fast = LinkSpec::ideal(Rate::gbyte(10), Span::ZERO);
    // Whichever place it has in the chain; the segments' heads come 0 us after they start on the fast link.
    let (first, _) = time(&[flapping, fast], Bytes::new(1_000_000));
    let (second, outcome) = time(&[fast, flapping], Bytes::new(1_000_000));
    assert_eq!(first, second);
    assert_eq!(first, Span::from_us(1090) + Span::from_ns(500));
    assert_eq!(outcome.links[1].held, Span::from_us(90));
}

#[test]
fn a_junction_waits_for_the_input_that_is_down() {
    let mut b = ProgramBuilder::new();
    let cost = b.cost(Cost::default());
    let routes = [[LinkId(0)], [LinkId(1)], [LinkId(2)]];
    let shape = ConnShape {
        segment: SEGMENT,
        latency: Span::ZERO,
        credit: CreditShape::After(Span::ZERO),
        spacing: Spacing::NONE,
    };
    let (send, recv) = b.connect_junction(&[&routes[0], &routes[1]], &[&routes[2]], 1, &shape);
    let kernel = b.kernel(Span::ZERO, Span::ZERO);
    let layout = b.layout(crate::program::Layout::whole(1_000_000));
    for sender in send {
        b.lane(kernel, layout, |l| l.step(&[], &[sender], cost, 1, 0, 0));
    }
    b.lane(kernel, layout, |l| l.step(&[recv.start], &[], cost, 1, 0, 0));
    let program = b.finish();
    let run = |links: [LinkSpec; 3]| play_with(&Network::new(links.to_vec()), &program, None).0[0];
    let well = run([link(); 3]);
    for down in 0..3 {
        let mut links = [link(); 3];
        // On a boundary of the segments at that link: the output's come 0.5 us later.
        let first = if down == 2 { Span::from_us(200) + Span::from_ns(500) } else { Span::from_us(200) };
        links[down] = links[down].flapping(Outage { first, ..outage(200, 30, 400) });
        // The first two put the end off to 1060 us, so that the third at 1000 us is crossed too.
        let late = run(links);
        assert_eq!(late, well + Span::from_us(90), "link {down}");
    }
}

#[test]
fn a_link_without_gaps_ends_at_the_time_limit() {
    let (network, route) = chain(&[link().flapping(outage(20, 30, 30))]);
    let mut engine = Engine::<RadixStore>::new(&network, Bytes::kib(4), Limits::default());
    engine.load(transfers(&[(route, Bytes::new(1_000_000))], SEGMENT), Time::ZERO).unwrap();
    assert_eq!(engine.run(|_, _| {}), StopReason::TimeLimit);
}

proptest! {
    /// Segment by segment: each starts when the link is free and up, on a lone link.
    #[test]
    fn a_lone_link_is_a_fold(first in 0u64..400, down in 0u64..90, gap in 1u64..200, segments in 1u64..60) {
        let outage = outage(first, down, down + gap);
        let (end, outcome) = time(&[link().flapping(outage)], SEGMENT * segments);
        let free = (0..segments).fold(Time::ZERO, |free, _| outage.up_from(free) + Span::from_us(10));
        prop_assert_eq!(Time::ZERO + end, free + Span::from_ns(500));
        // Work and whole outages bound it.
        let held = outcome.links[0].held;
        prop_assert_eq!(held + Span::from_us(10 * segments) + Span::from_ns(500), end);
    }

    /// Any outages on any links of a chain: nothing is lost, nothing is faster than without, and no more is lost than
    /// the time that links were held.
    #[test]
    fn outages_only_delay(
        downs in prop::collection::vec((0u64..300, 0u64..50, 1u64..200), 1..4),
        bytes in 1u64..2_000_000,
    ) {
        let well: Vec<LinkSpec> = downs.iter().map(|_| link()).collect();
        let ill: Vec<LinkSpec> =
            downs.iter().map(|&(first, down, gap)| link().flapping(outage(first, down, down + gap))).collect();
        let (fast, _) = time(&well, Bytes::new(bytes));
        let (slow, outcome) = time(&ill, Bytes::new(bytes));
        prop_assert!(slow >= fast);
        let held: Span = outcome.links.iter().map(|l| l.held).sum();
        prop_assert!(slow <= fast + held, "{slow} > {fast} + {held}");
    }
}
