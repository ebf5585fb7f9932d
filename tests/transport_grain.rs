//! Coarser packets: what units of 4 and 16 MTUs that move as one packet change, and how many events they save. Writes the table of
//! `docs/models.md` (`UPDATE_DOCS=1 cargo test --test transport_grain`).

mod transport_common;

use std::fmt::Write as _;

use sim_core::net::spec::FlowControlSpec;
use sim_core::units::Time;
use transport_common::{Alone, acked_us, drawn, page, transfers};

/// Name, preset, its workload, and by how much units of 4 and of 16 may move the last flow.
fn cases() -> Vec<(&'static str, String, [f64; 2])> {
    let incast: Vec<(u32, u32)> = (1..=8).map(|host| (host, 0)).collect();
    let star = drawn("star", 64, 100, 1);
    let spine = drawn("leaf-spine", 64, 100, 1);
    let permutation = "[[workload]]\nkind = \"transfer\"\npattern = \"permutation\"\nsize = \"1 MiB\"\n";
    let with = |head: &str, preset: &str, work: &str| format!("{head}[transport]\npreset = \"{preset}\"\n{work}");
    vec![
        (
            "one flow of 1 MiB over a leaf-spine",
            with(&spine, "peer-a-csg", &transfers(&[(0, 8)], "1 MiB")),
            [0.15, 0.6],
        ),
        ("8 to 1, 1 MiB, pauses", with(&star, "peer-a-csg", &transfers(&incast, "1 MiB")), [0.01, 0.02]),
        ("8 to 1, 1 MiB, DCQCN and pauses", with(&star, "peer-b", &transfers(&incast, "1 MiB")), [0.3, 0.5]),
        ("permutation of 64, 1 MiB, pauses", with(&spine, "peer-a-csg", permutation), [0.1, 0.4]),
    ]
}

/// Units of `grain` MTUs: the last flow's end in us, the deepest queue in KB, marks or pauses, and events.
fn play(scenario: &str, grain: u32) -> (f64, f64, u64, u64) {
    let mut alone = Alone::of(scenario);
    let more = u64::from((grain - 1) * (alone.spec.mtu + alone.spec.overhead));
    alone.spec.mtu *= grain;
    alone.spec.overhead *= grain;
    if let FlowControlSpec::Shared(shared) = &mut alone.spec.flow_control {
        // A unit that is on the wire when the pause comes, and one behind it.
        shared.headroom += 2 * more;
    }
    let (mut run, bytes) = alone.open();
    bytes.iter().enumerate().for_each(|(qp, bytes)| run.post(qp as u32, *bytes));
    assert!(!run.run(Time::MAX), "it ends");
    let events = run.events();
    let outcome = run.outcome();
    assert_eq!((outcome.totals.drops, outcome.packets_left), (0, 0));
    let last = *acked_us(&outcome).last().expect("a flow");
    let depth = outcome.ports.iter().flatten().map(|port| port.peak).max().unwrap_or(0);
    (last, depth as f64 / 1e3, outcome.totals.marks + outcome.totals.pauses, events)
}

#[test]
fn coarser_packets_come_near_at_a_fraction_of_the_events() {
    let mut table = "| case | packets a unit | last flow, us | deepest queue, KB | marks and pauses | events |\n\
                     |---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for (name, scenario, bounds) in cases() {
        let fine = play(&scenario, 1);
        for (grain, bound) in [(1, 0.0), (4, bounds[0]), (16, bounds[1])] {
            let (last, depth, told, events) = play(&scenario, grain);
            let error = |now: f64, fine: f64| (now / fine - 1.0) * 100.0;
            let saved = fine.3 as f64 / events as f64;
            let _ = writeln!(
                table,
                "| {name} | {grain} | {last:.1} ({:+.1} %) | {depth:.0} ({:+.1} %) | {told} | {events} (1/{saved:.1}) |",
                error(last, fine.0),
                error(depth, fine.1.max(1e-9)),
            );
            println!("{name} {grain}: {last:.1} us, {depth:.0} KB, {told}, {events} events");
            assert!((last / fine.0 - 1.0).abs() <= bound, "{name}, {grain}: {last} for {}", fine.0);
            assert!(saved >= 0.6 * f64::from(grain), "{name}, {grain}: {events} events");
        }
    }
    page("docs/models.md", "coarser packets", &table);
}
