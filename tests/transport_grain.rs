//! Coarser units: what units of up to 4 and 16 packets change against single ones, and how many events they save. Writes the table
//! of `docs/models.md` (`UPDATE_DOCS=1 cargo test --test transport_grain`).

mod transport_common;

use std::fmt::Write as _;

use sim_core::units::Time;
use transport_common::{Alone, acked_us, drawn, page, run, transfers};

/// Seeds whose results are taken together: of marks, and of permutations.
const SEEDS: u64 = 8;

struct Case {
    name: &'static str,
    fabric: &'static str,
    gbit: u64,
    preset: &'static str,
    work: String,
    /// By how much units of 4 and of 16 may move the last flow, and by what they have to divide the events.
    bounds: [(f64, f64); 2],
}

fn cases() -> Vec<Case> {
    let incast: Vec<(u32, u32)> = (1..=8).map(|host| (host, 0)).collect();
    let pattern = |kind: &str, size: &str| {
        format!("[[workload]]\nkind = \"transfer\"\npattern = \"{kind}\"\nsize = \"{size}\"\n")
    };
    let case = |name, fabric, preset, work, bounds| Case { name, fabric, gbit: 100, preset, work, bounds };
    let (star, spine) = ("star", "leaf-spine");
    vec![
        case(
            "one flow of 1 MiB over a leaf-spine",
            spine,
            "peer-a-csg",
            transfers(&[(0, 8)], "1 MiB"),
            [(0.0, 4.0), (0.0, 10.0)],
        ),
        case("8 to 1, 1 MiB, pauses", star, "peer-a-csg", transfers(&incast, "1 MiB"), [(0.005, 3.5), (0.005, 7.0)]),
        case("8 to 1, 8 MiB, DCQCN", star, "peer-b", transfers(&incast, "8 MiB"), [(0.02, 1.0), (0.08, 1.8)]),
        case(
            "8 to 1, 8 MiB, `roce-lossless`",
            star,
            "roce-lossless",
            transfers(&incast, "8 MiB"),
            [(0.02, 1.0), (0.2, 1.8)],
        ),
        Case {
            gbit: 400,
            ..case("8 to 1, 1 MiB, `ib-ndr`", star, "ib-ndr", transfers(&incast, "1 MiB"), [(0.02, 1.1), (0.02, 1.1)])
        },
        case(
            "permutation, 1 MiB, pauses",
            spine,
            "peer-a-csg",
            pattern("permutation", "1 MiB"),
            [(0.04, 3.5), (0.08, 6.0)],
        ),
        case("permutation, 1 MiB, DCQCN", spine, "peer-b", pattern("permutation", "1 MiB"), [(0.04, 2.5), (0.08, 4.0)]),
        Case {
            gbit: 400,
            ..case(
                "permutation, 1 MiB, `ib-ndr`",
                spine,
                "ib-ndr",
                pattern("permutation", "1 MiB"),
                [(0.04, 1.1), (0.08, 1.1)],
            )
        },
        case("all-to-all, 64 KiB, DCQCN", spine, "peer-b", pattern("all-to-all", "64 KiB"), [(0.02, 1.9), (0.02, 1.9)]),
        case(
            "all-to-all, 512 KiB, DCQCN",
            spine,
            "peer-b",
            pattern("all-to-all", "512 KiB"),
            // The last of 4,032 flows, of which 99 in 100 move by less than a tenth of that.
            [(0.08, 2.5), (0.15, 2.5)],
        ),
    ]
}

/// Means over seeds.
struct Means {
    /// Times of the last flow, of the middle one and of the one behind 99 of 100.
    times: [f64; 3],
    depth: f64,
    marks: f64,
    pauses: f64,
    events: f64,
}

fn play(case: &Case, grain: u32, seeds: u64) -> Means {
    let mut means = Means { times: [0.0; 3], depth: 0.0, marks: 0.0, pauses: 0.0, events: 0.0 };
    for seed in 1..=seeds {
        let head = drawn(case.fabric, 64, case.gbit, seed);
        let mut alone = Alone::of(&format!("{head}[transport]\npreset = \"{}\"\n{}", case.preset, case.work));
        alone.spec.grain = grain;
        let (mut run, bytes) = alone.open();
        bytes.iter().enumerate().for_each(|(qp, bytes)| run.post(qp as u32, *bytes));
        assert!(!run.run(Time::MAX), "it ends");
        let events = run.events();
        let outcome = run.outcome();
        assert_eq!((outcome.totals.drops, outcome.packets_left), (0, 0));
        let times = acked_us(&outcome);
        let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
        let add = |mean: &mut f64, value: f64| *mean += value / seeds as f64;
        means.times.iter_mut().zip([1.0, 0.5, 0.99]).for_each(|(mean, share)| add(mean, at(share)));
        let depth = outcome.ports.iter().flatten().map(|port| port.peak).max().unwrap_or(0);
        add(&mut means.depth, depth as f64 / 1e3);
        add(&mut means.marks, outcome.totals.marks as f64);
        add(&mut means.pauses, outcome.totals.pauses as f64);
        add(&mut means.events, events as f64);
    }
    means
}

#[test]
fn coarser_units_come_near_at_a_fraction_of_the_events() {
    let mut table =
        "| case | packets a unit | last flow, us | middle | 99 % | deepest queue, KB | marks | pauses | events |\n\
                     |---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for case in cases() {
        // Where nothing is drawn seeds are alike.
        let seeds = if case.work.contains("512") { 2 } else { SEEDS };
        let fine = play(&case, 1, seeds);
        for (grain, bound) in [(1, None), (4, Some(case.bounds[0])), (16, Some(case.bounds[1]))] {
            let run = play(&case, grain, seeds);
            let error = |now: f64, fine: f64| (now / fine.max(1e-9) - 1.0) * 100.0;
            let saved = fine.events / run.events;
            let _ = write!(table, "| {} | {grain} | {:.1} ", case.name, run.times[0]);
            if grain > 1 {
                let _ = write!(table, "({:+.1} %) ", error(run.times[0], fine.times[0]));
            }
            for at in [1, 2] {
                if grain == 1 {
                    let _ = write!(table, "| {:.1} ", run.times[at]);
                } else {
                    let _ = write!(table, "| {:+.1} % ", error(run.times[at], fine.times[at]));
                }
            }
            let _ = writeln!(
                table,
                "| {:.0} | {:.0} | {:.0} | {} |",
                run.depth,
                run.marks,
                run.pauses,
                if grain == 1 { format!("{:.0}", run.events) } else { format!("1/{saved:.1}") },
            );
            println!("{} {grain}: {:?} us, {:.0} KB, 1/{saved:.1}", case.name, run.times, run.depth);
            if let Some((most, least)) = bound {
                let moved = error(run.times[0], fine.times[0]).abs() / 100.0;
                assert!(moved <= most, "{}, {grain}: {} for {}", case.name, run.times[0], fine.times[0]);
                assert!(saved >= least, "{}, {grain}: 1/{saved} of the events", case.name);
            }
        }
    }
    for (grain, run) in [1, 4, 16].map(|grain| (grain, ring(grain))) {
        let (us, totals, events) = run;
        let fine = ring(1);
        let moved = us / fine.0 - 1.0;
        let name = "ring all-reduce, 64 MiB on 4 nodes of 8, `roce-400g`";
        if grain == 1 {
            let _ = writeln!(table, "| {name} | 1 | {us:.1} |  |  |  | {} | {} | {events} |", totals.0, totals.1);
        } else {
            let saved = fine.2 as f64 / events as f64;
            let _ = writeln!(
                table,
                "| {name} | {grain} | {us:.1} ({:+.1} %) |  |  |  | {} | {} | 1/{saved:.1} |",
                moved * 100.0,
                totals.0,
                totals.1
            );
            println!("ring {grain}: {us} for {}, 1/{saved}", fine.0);
            assert!(moved.abs() < 0.02 && saved > 1.2, "{grain}: {us} for {}, 1/{saved}", fine.0);
        }
    }
    page("docs/models.md", "coarser packets", &table);
}

/// A collective over the engine: its time, marks and pauses, and all events, those inside of nodes, too.
fn ring(grain: u32) -> (f64, (u64, u64), u64) {
    let (_, report) = run(&format!(
        "schema = 1\nsystem = \"hgx-h100\"\nnodes = 4\n[transport]\npreset = \"roce-400g\"\ngrain = {grain}\n\
         [[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nalgorithm = \"ring\"\nsizes = [\"64 MiB\"]\niterations = 1\n"
    ));
    let totals = report.results.transport.as_ref().expect("packets").totals;
    (report.results.collectives[0].time_us, (totals.marks, totals.pauses), report.results.engine.events)
}

/// What the key says, what results say of it, and W118.
#[test]
fn units_are_asked_for_by_a_key() {
    let play = |grain: &str, pairs: &[(u32, u32)], more: &str| {
        let head = drawn("star", 64, 100, 1);
        let work = transfers(pairs, "4 MiB");
        run(&format!("{head}[transport]\npreset = \"roce-lossless\"\ngrain = {grain}\n{more}\n{work}")).1
    };
    let of = |report: &fabricsim::simulate::Report| {
        let grain = report.results.transport.as_ref().expect("packets").grain.clone();
        grain.map(|grain| (grain.packets, grain.why))
    };
    let warned = |report: &fabricsim::simulate::Report| {
        report.findings.iter().any(|finding| finding.code == fabricsim::diagnostic::Code::CoarseUnits)
    };
    let one = [(1, 0)];
    let incast: Vec<(u32, u32)> = (1..=8).map(|host| (host, 0)).collect();
    assert_eq!(of(&play("1", &one, "")), None);
    assert_eq!(of(&play("4", &one, "")), Some((4, "as asked".to_owned())));
    let (packets, why) = of(&play("\"auto\"", &one, "")).expect("a grain");
    assert_eq!((packets, why.starts_with("nothing can be marked")), (16, true), "{why}");
    let free = play("\"auto\"", &incast, "");
    let (packets, why) = of(&free).expect("a grain");
    assert_eq!((packets, why.starts_with("flows from links of more than its rate meet at ")), (1, true), "{why}");
    let single = play("1", &incast, "");
    assert_eq!(free.slowest_us, single.slowest_us);
    let (packets, why) = of(&play("\"auto\"", &one, "ecn.kmin = \"20 KB\"")).expect("a grain");
    assert_eq!((packets, why.contains("reaches a threshold")), (1, true), "{why}");
    assert!(warned(&play("4", &incast, "")));
    assert!(!warned(&play("4", &one, "")) && !warned(&free) && !warned(&single));
}

#[test]
fn grains_that_cannot_be_are_refused() {
    let head = drawn("star", 4, 100, 1);
    for grain in ["0", "65", "-1", "1.5", "\"automatic\"", "\"4\"", "[4]", "true"] {
        let text = format!(
            "{head}[transport]\npreset = \"roce-lossless\"\ngrain = {grain}\n{}",
            transfers(&[(1, 0)], "1 MiB")
        );
        let input = fabricsim::scenario::Input::Text { name: "t.toml".into(), text };
        let faults = fabricsim::scenario::Scenario::load(&input, &[]).expect_err("it is refused");
        let shown = fabricsim::diagnostic::text(&faults, fabricsim::diagnostic::Style::Plain);
        assert!(shown.contains("grain"), "{grain}: {shown}");
    }
}

/// XON less than a packet below XOFF, at a node that a message goes through: what asks for a pause within a unit ends it there.
const BARELY_BELOW: &str = r#"
system = "hgx-h100"
nodes = 4
gpus_per_node = 1
nics = "1x400Gb/s"
[fabric]
kind = "single-switch"
link_latency = "100 ns"
[transport]
preset = "roce-400g"
rate_control = "none"
ecn.marking = "off"
grain = GRAIN
buffer.size = "16 MiB"
pfc.xoff = "200 KB"
pfc.xon = "199 KB"
[limits]
stall = "50 ms"
[[fault]]
kind = "degraded"
target = "leaf0->node3.nic0"
factor = 0.005
[[workload]]
kind = "transfer"
list = [
  { src = "node0.nic0", dst = "node3.nic0", bytes = "192512 B" },
  { src = "node0.nic0", dst = "node1.nic0", bytes = "127076 B", start = "6 us" },
  { src = "node0.nic0", dst = "node2.nic0", bytes = "1 MiB", start = "3 ms" },
]
"#;

#[test]
fn a_pause_that_ends_within_a_unit_is_ended() {
    for (grain, bytes) in [(1, "127076 B"), (2, "520292 B"), (4, "127076 B"), (16, "127076 B")] {
        let text = BARELY_BELOW.replace("GRAIN", &grain.to_string()).replace("127076 B", bytes);
        let (_, report) = run(&text);
        assert_eq!(report.all_transfers.len(), 3, "{grain}");
    }
}

/// Two classes of one NIC, the first to a port of a twentieth of the rate.
const TWO_CLASSES: &str = r#"
system = "hgx-h100"
nodes = 4
gpus_per_node = 1
nics = "1x400Gb/s"
[fabric]
kind = "single-switch"
link_latency = "100 ns"
[transport]
preset = "ib-ndr"
grain = GRAIN
[[transport.class]]
name = "a"
[[transport.class]]
name = "b"
[[fault]]
kind = "degraded"
target = "leaf0->node3.nic0"
factor = 0.05
[[workload]]
kind = "transfer"
list = [
  { src = "node0.nic0", dst = "node3.nic0", bytes = "16 MiB" },
  { src = "node0.nic0", dst = "node1.nic0", bytes = "16 MiB", class = "b" },
]
"#;

#[test]
fn a_class_does_not_wait_for_credits_of_another() {
    let second = |grain: u32| run(&TWO_CLASSES.replace("GRAIN", &grain.to_string())).1.all_transfers[1].time_us;
    let alone = second(1);
    for grain in [4, 16, 64] {
        let got = second(grain);
        println!("units of {grain}: {got} for {alone} us");
        assert!((got / alone - 1.0).abs() < 0.02, "units of {grain}: {got} for {alone} us");
    }
}
