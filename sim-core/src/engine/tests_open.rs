//! Programs that are loaded while others run: the same however it is stepped, and on whichever network that has the links.

use proptest::prelude::*;

use super::tests::chain;
use super::tests_periods::{MTU, recipe};
use super::tests_regions::nodes;
use super::*;
use crate::feeders::Feeders;
use crate::program::{Layout, Program, Spacing};
use crate::program_builder::{ConnShape, CreditShape, ProgramBuilder};
use crate::units::Rate;

/// The kernels' ends of a program started at `starts`, each loaded at its instant by a timer.
fn by_timers(network: &Network, program: &Program, starts: &[Time]) -> Vec<Notice> {
    let limits = Limits { open: true, play_all: true, ..Limits::default() };
    let mut engine = Engine::<RadixStore>::new(network, MTU, limits);
    for (i, start) in starts.iter().enumerate() {
        engine.set_timer(*start, i as u32);
    }
    let mut heard = Vec::new();
    let stop = engine.run(|engine, notice| match notice {
        Notice::Timer { at, .. } => assert!(engine.load(program.clone(), at).is_ok()),
        notice => heard.push(notice),
    });
    // Some recipes wait for ever.
    assert!(matches!(stop, StopReason::Finished | StopReason::Deadlock));
    assert_eq!(engine.finish(stop).faults, []);
    in_order(heard)
}

fn in_order(mut heard: Vec<Notice>) -> Vec<Notice> {
    heard.retain(|n| matches!(n, Notice::Kernel { .. }));
    heard.sort_by_key(|n| match *n {
        Notice::Kernel { program, kernel, iteration, .. } => (program, kernel, iteration),
        _ => (u32::MAX, 0, 0),
    });
    heard
}

/// A larger network with `gaps` links before each link, and where those links are in it.
fn spread(network: &Network, gaps: usize) -> (Network, Vec<u32>) {
    let strange = LinkSpec::ideal(Rate::gbyte(1), Span::from_us(9));
    let links = network.links().iter().flat_map(|link| core::iter::repeat_n(strange, gaps).chain([*link])).collect();
    (Network::new(links), (0..network.links().len()).map(|i| (i * (gaps + 1) + gaps) as u32).collect())
}

/// The same, stepped `by` so much a time; on a network that grows before every start if there are `gaps`.
fn by_steps(network: &Network, program: &Program, starts: &[Time], by: Span, gaps: usize) -> Vec<Notice> {
    let mut engine = Engine::<RadixStore>::new(network, MTU, Limits { open: true, ..Limits::default() });
    let (mut network, mut places) = (network.clone(), (0..network.links().len() as u32).collect::<Vec<_>>());
    let mut heard = Vec::new();
    let mut told = 0;
    let mut go_to = |engine: &mut Engine<RadixStore>, until: Time| {
        loop {
            let stop = engine.go_to(until, &mut heard);
            assert!(matches!(stop, None | Some(StopReason::Finished | StopReason::Deadlock)));
            let early = |n: &Notice| matches!(*n, Notice::Kernel { ended, .. } if ended < engine.now());
            assert!(
                program.iterations > 1 || !heard[told..].iter().any(early),
                "an end is told before its instant has passed"
            );
            if heard.len() == told {
                return;
            }
            told = heard.len();
        }
    };
    for start in starts {
        while engine.now() + by < *start && engine.live > 0 {
            let next = engine.now() + by;
            go_to(&mut engine, next);
            if engine.now() < next {
                break;
            }
        }
        go_to(&mut engine, *start);
        if gaps > 0 {
            let (larger, moved) = spread(&network, gaps);
            engine.move_to(&larger, &moved);
            places.iter_mut().for_each(|place| *place = moved[*place as usize]);
            network = larger;
        }
        let mut program = program.clone();
        program.routes.iter_mut().for_each(|link| link.0 = places[link.index()]);
        engine.load(program, *start).unwrap();
    }
    go_to(&mut engine, Time::from_ps(u64::MAX / 8));
    assert_eq!(engine.finish(StopReason::Deadlock).faults, []);
    in_order(heard)
}

fn compare(network: &Network, program: &Program, starts: &[u64], step: u64) -> Result<(), TestCaseError> {
    let mut starts: Vec<Time> = starts.iter().map(|ns| Time::ZERO + Span::from_ns(*ns)).collect();
    starts.sort_unstable();
    let timers = by_timers(network, program, &starts);
    prop_assert_eq!(&timers, &by_steps(network, program, &starts, Span::from_ns(step), 0));
    prop_assert_eq!(&timers, &by_steps(network, program, &starts, Span::from_ns(step), 2));
    // Nor does what is known beforehand of all that will be loaded.
    let mut feeders = Feeders::new(network.links().len());
    feeders.add(program);
    let told = network.clone().in_series(feeders.series());
    prop_assert_eq!(&timers, &by_steps(&told, program, &starts, Span::from_ns(step), 0));
    // Alone it is what it is by itself.
    let alone = by_timers(network, program, &[Time::ZERO]);
    let limits = Limits { open: true, one_program: true, ..Limits::default() };
    let mut engine = Engine::<RadixStore>::new(network, MTU, limits);
    engine.load(program.clone(), Time::ZERO).unwrap();
    let mut heard = Vec::new();
    engine.run(|_, notice| heard.push(notice));
    prop_assert_eq!(alone, in_order(heard));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn it_does_not_depend_on_steps(
        recipe in recipe(), starts in prop::collection::vec(0u64..400_000, 1..7), step in 1_000u64..90_000,
    ) {
        compare(&recipe.network(), &recipe.program(), &starts, step)?;
    }

    #[test]
    fn nor_where_several_nodes_are_joined(
        nodes in nodes(), starts in prop::collection::vec(0u64..400_000, 1..7), step in 1_000u64..90_000,
    ) {
        compare(&nodes.network(), &nodes.program(), &starts, step)?;
    }
}

#[test]
fn what_has_ended_makes_room_for_what_comes() {
    let (network, route) = chain(&[LinkSpec::ideal(Rate::gbyte(1), Span::ZERO)]);
    let mut b = ProgramBuilder::new();
    let cost = b.cost(Cost::default());
    let shape = ConnShape {
        segment: Bytes::kib(4),
        latency: Span::ZERO,
        credit: CreditShape::After(Span::ZERO),
        spacing: Spacing::NONE,
    };
    let ends = b.connect(&[&route[..]], false, 2, &shape);
    let (from, to) = (b.kernel(Span::from_us(3), Span::ZERO), b.kernel(Span::from_us(3), Span::ZERO));
    let layout = b.layout(Layout { chunk: 1000, last_chunk: 1000, ..Layout::whole(4000) });
    b.lane(from, layout, |l| l.step(&[], &[ends.send], cost, 1, 0, 0));
    b.lane(to, layout, |l| l.step(&[ends.recv], &[], cost, 1, 0, 0));
    let program = b.finish();
    let mut engine = Engine::<RadixStore>::new(&network, MTU, Limits { open: true, ..Limits::default() });
    let mut heard = Vec::new();
    // Four microseconds of the link every five; each begins before the one before has ended.
    for i in 0..100u64 {
        let start = Time::ZERO + Span::from_us(5) * i;
        while engine.go_to(start, &mut heard).is_none() && engine.next_event().is_some_and(|at| at <= start) {}
        assert!(i == 0 || engine.live > 0);
        engine.load(program.clone(), start).unwrap();
        assert!(engine.begun.len() <= 4 && engine.flows.len() <= 4, "{} programs are there", engine.begun.len());
    }
    while engine.go_to(Time::from_ps(u64::MAX / 8), &mut heard).is_none() {}
    let ended: Vec<Time> =
        heard.iter().filter_map(|n| if let Notice::Program { ended, .. } = n { Some(*ended) } else { None }).collect();
    assert!(ended.iter().copied().eq((0..100).map(|i| Time::ZERO + Span::from_us(5) * i + Span::from_us(7))));
}
