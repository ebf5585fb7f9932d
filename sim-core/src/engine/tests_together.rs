//! Flows that go together: the times are those of each on its own.

use proptest::prelude::*;

use super::tests_periods::{MTU, recipe};
use super::tests_regions::{Nodes, nodes};
use super::*;
use crate::outcome::Outcome;
use crate::program::Program;

fn play(network: &Network, program: &Program, plain: bool) -> (Vec<Notice>, Outcome, usize) {
    let mut engine = Engine::<RadixStore>::new(network, MTU, Limits::default());
    engine.plain = plain;
    engine.load(program.clone(), Time::ZERO).unwrap();
    let mut heard = Vec::new();
    let reason = engine.run(|_, notice| heard.push(notice));
    heard.sort_by_key(|n| match *n {
        Notice::Kernel { kernel, iteration, .. } => (0, iteration, kernel),
        Notice::Program { .. } => (1, 0, 0),
        Notice::Timer { number, .. } => (2, number, 0),
    });
    let together = engine.wide.len() + engine.fans.len();
    (heard, engine.finish(reason), together)
}

/// Plays a program both ways and compares all but the events; returns whether anything went together.
fn compare(network: &Network, program: &Program) -> bool {
    let (heard, plain, none) = play(network, program, true);
    let (heard_together, outcome, some) = play(network, program, false);
    assert_eq!(none, 0);
    assert_eq!(heard, heard_together);
    let same = |o: &Outcome| {
        let counters = EngineCounters { events: 0, ..o.engine };
        (o.reason, o.ended, o.links.clone(), o.waits.clone(), counters, o.faults.clone())
    };
    assert_eq!(same(&plain), same(&outcome));
    some > 0
}

#[test]
fn what_goes_together_comes_again_as_well() {
    // Flows that another stands for change nothing, and keep no state from coming back.
    let nodes = Nodes::long();
    let (network, program) = (nodes.network(), nodes.program());
    assert!(compare(&network, &program));
    let (_, outcome, _) = play(&network, &program, false);
    let hops = outcome.engine.segment_hops;
    assert!(outcome.repeated.segment_hops * 4 > hops * 3, "{:?} of {hops}", outcome.repeated);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn flows_together_change_no_time(nodes in nodes()) {
        // Links are not taken for longer than a step takes, so that there is no turn to wait for.
        let mut nodes = nodes;
        nodes.stage_ns = 4_000;
        prop_assert!(compare(&nodes.network(), &nodes.program()));
    }

    #[test]
    fn fans_change_no_time(recipe in recipe()) {
        prop_assert_eq!(compare(&recipe.network(), &recipe.program()), recipe.kind == 2);
    }
}
