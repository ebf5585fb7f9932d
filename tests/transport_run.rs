//! Scenarios over packets: closed forms, figures of public packet-level simulators, virtual links beside packets, seeds, and
//! scenarios side by side.

mod cli_common;

use cli_common::{fabricsim, fabricsim_in};
use fabricsim::scenario::{Input, Scenario, Setting};
use fabricsim::simulate::Report;

/// Endpoints at one switch that stores and forwards, links of 1 us: what packet-level simulators are run with.
const STAR: &str = "
system = \"hgx-h100\"
nodes = 64
gpus_per_node = 1
nics = \"1x100Gb/s\"
[fabric]
kind = \"single-switch\"
switch = \"star\"
link_latency = \"1 us\"
[catalogue.switch.star]
like = \"sn5600\"
forwarding = \"store-and-forward\"
[transport]
preset = \"peer-a-csg\"
[[workload]]
kind = \"transfer\"
pattern = \"incast\"
endpoints = \"nics\"
ranks = 9
size = \"1 MiB\"
";

fn play(text: &str, settings: &[&str]) -> Report {
    let settings: Vec<Setting> = settings.iter().map(|text| Setting::set(*text)).collect();
    let input = Input::Text { name: "t.toml".into(), text: text.into() };
    let loaded = Scenario::load(&input, &settings).map_err(|faults| format!("{faults:?}")).unwrap();
    loaded.run().unwrap()
}

/// Completion at the senders, us, sorted.
fn acked(report: &Report) -> Vec<f64> {
    let mut all: Vec<f64> = report.results.transfers.iter().filter_map(|t| t.acked_us).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn deepest(report: &Report) -> u64 {
    report
        .results
        .links
        .iter()
        .filter(|l| l.mean_queue_bytes.is_some())
        .filter_map(|l| l.peak_queue_bytes)
        .max()
        .unwrap()
}

#[track_caller]
fn near(got: f64, want: f64, share: f64) {
    assert!((got - want).abs() <= want.abs() * share, "{got} for {want}");
}

/// 256 packets of 332.8 ns over two links of 1 us each, and an acknowledgement of 64 B back.
#[test]
fn one_flow_takes_its_closed_form() {
    let report = play(STAR, &["workload.0.ranks=2"]);
    let transfer = &report.results.transfers[0];
    near(transfer.time_us, 257.0 * 0.3328 + 2.0, 1e-6);
    near(transfer.acked_us.unwrap(), 257.0 * 0.3328 + 4.0 + 2.0 * 0.00512, 1e-6);
    // Its packets at 400 Gb/s with 48 B of overhead.
    let fast = play(STAR, &["workload.0.ranks=2", "nics=1x400Gb/s", "transport.packet_overhead=\"48 B\""]);
    near(fast.results.transfers[0].acked_us.unwrap(), 25.303, 0.001);
}

/// Public simulators' incasts of 8 and 32 with pauses alone: the last at the senders, us; deepest queue and largest input of the
/// switch, B; pauses.
#[test]
fn incasts_of_public_simulators() {
    let rows = [
        ("peer-a-csg", 9, 685.9, 607_360, 79_040, 208..=208),
        ("peer-a-csg", 33, 2730.6, 2_504_320, 0, 720..=980),
        ("peer-a", 9, 688.2, 694_720, 91_520, 88..=118),
        ("peer-a", 33, 2740.6, 2_891_200, 0, 615..=831),
    ];
    for (preset, ranks, last, queue, input, pauses) in rows {
        let settings = [format!("transport.preset={preset}"), format!("workload.0.ranks={ranks}")];
        let report = play(STAR, &settings.each_ref().map(String::as_str));
        let totals = report.results.transport.as_ref().unwrap().totals;
        near(*acked(&report).last().unwrap(), last, 0.005);
        assert_eq!(deepest(&report), queue, "{preset} {ranks}");
        assert!(input == 0 || totals.ingress_peak_bytes == input, "{preset} {ranks}: {totals:?}");
        assert!(pauses.contains(&totals.pauses), "{preset} {ranks}: {totals:?}");
        assert_eq!(totals.drops + totals.headroom_drops, 0);
    }
}

/// HPCC's ns-3 with DCQCN: marks are random, so its figures lie among those of some seeds.
#[test]
fn marked_incasts_of_a_public_simulator() {
    for (preset, p50, last, queue) in [("peer-b-paper", 674.9, 682.2, 7.2e6), ("peer-b", 856.9, 1109.5, 2.63e6)] {
        let runs: Vec<_> =
            (1..=8).map(|seed| play(STAR, &[&format!("transport.preset={preset}"), &format!("seed={seed}")])).collect();
        let holds = |what: &dyn Fn(&Report) -> f64, want: f64| {
            let all: Vec<f64> = runs.iter().map(what).collect();
            let (least, most) = (all.iter().copied().fold(f64::MAX, f64::min), all.iter().copied().fold(0.0, f64::max));
            assert!(least * 0.95 <= want && want <= most * 1.05, "{preset}: {want} is not in {least} to {most}");
        };
        holds(&|report| acked(report)[4], p50);
        holds(&|report| *acked(report).last().unwrap(), last);
        holds(&|report| deepest(report) as f64, queue);
        assert!(runs.iter().all(|report| report.results.transport.as_ref().unwrap().totals.pauses == 0));
    }
}

/// Credits: each of eight senders gets an eighth, nothing is dropped, no input holds more than its lane.
#[test]
fn infiniband_settles_to_equal_shares_without_a_drop() {
    let report = play(STAR, &["transport.preset=ib-hdr", "transport.mtu=\"4 KiB\""]);
    let times = acked(&report);
    near(times[0], times[7], 0.01);
    let totals = report.results.transport.as_ref().unwrap().totals;
    assert_eq!((totals.drops, totals.pauses, totals.marks), (0, 0, 0));
    assert!(totals.credit_stall_us > 0.0 && totals.ingress_peak_bytes <= 65_536, "{totals:?}");
    // 4122 B a packet, whatever holds the senders.
    near(report.slowest_us[0], 8.0 * 256.0 * 4122.0 / 12.5e3 + 2.3, 0.005);
}

/// Without contention packets take what segments on virtual links take.
#[test]
fn collectives_take_the_same_on_packets_and_on_virtual_links() {
    let text = "system = \"hgx-h100\"\nnodes = 2\n[transport]\npreset = \"roce-400g\"\n[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nsizes = [\"64 KiB\", \"16 MiB\"]\niterations = 2\n";
    let (packets, links) = (play(text, &[]), play(text, &["transport.model=virtual"]));
    assert!(packets.results.transport.is_some() && links.results.transport.is_none());
    for (a, b) in packets.results.collectives.iter().zip(&links.results.collectives) {
        near(a.time_us, b.time_us, 0.02);
    }
    assert!(packets.results.engine.events > links.results.engine.events);
}

const LEAVES: &str = "
system = \"hgx-h100\"
nodes = 16
gpus_per_node = 4
nics = \"4x100Gb/s\"
[fabric]
kind = \"leaf-spine\"
leaves = 8
spines = 8
[transport]
preset = \"roce-100g\"
[[workload]]
kind = \"transfer\"
name = \"shift\"
pattern = \"shift\"
shift = 8
endpoints = \"nics\"
size = \"1 MiB\"
";

/// A permutation over eight uplinks a leaf: hashes meet, queues that are looked at don't; several queue pairs even out.
#[test]
fn adaptive_paths_cure_collisions() {
    let hashed = play(LEAVES, &[]).slowest_us[0];
    let spread = play(LEAVES, &["transport.qps=8"]).slowest_us[0];
    let adaptive = play(LEAVES, &["transport.path_choice=adaptive"]).slowest_us[0];
    assert!(
        adaptive < 0.7 * hashed && spread < hashed,
        "{hashed} hashed, {spread} with 8 queue pairs, {adaptive} adaptive"
    );
}

#[test]
fn seeds_give_a_distribution() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("s.toml"), LEAVES).unwrap();
    // More than are held at once.
    let args = ["run", "s.toml", "--seeds", "40", "--format", "json"];
    let value = fabricsim_in(dir.path(), &args).json();
    let seeds = &value["results"]["seeds"];
    assert_eq!((seeds["first"].as_u64(), seeds["count"].as_u64()), (Some(1), Some(40)));
    let m = &seeds["measures"][0];
    assert_eq!(m["name"], "slowest of shift");
    let of = |key: &str| m[key].as_f64().unwrap();
    assert!(of("best_us") <= of("p50_us") && of("p50_us") <= of("worst_us") && of("best_us") < of("worst_us"), "{m}");
    // The worst seed alone gives the worst time, and the first seed is what all else is of.
    let worst = m["worst_seed"].to_string();
    let alone = fabricsim_in(dir.path(), &["run", "s.toml", "--seed", &worst, "--format", "json"]).json();
    assert_eq!(alone["results"]["transfer_totals"]["longest_us"], m["worst_us"]);
    let first = fabricsim_in(dir.path(), &["run", "s.toml", "--format", "json"]).json();
    assert_eq!(first["results"]["transfers"], value["results"]["transfers"]);
    fabricsim_in(dir.path(), &["run", "s.toml", "--seeds", "0"]).fails(2, &["--seeds"]);
}

#[test]
fn scenarios_stand_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.toml"), LEAVES).unwrap();
    std::fs::write(dir.path().join("b.toml"), "extends = \"a.toml\"\ntransport.path_choice = \"adaptive\"\n").unwrap();
    std::fs::write(dir.path().join("c.toml"), "extends = \"a.toml\"\ntransport.model = \"virtual\"\n").unwrap();
    let args = ["diff", "a.toml", "b.toml", "c.toml", "--seeds", "2", "--format", "json"];
    let value = fabricsim_in(dir.path(), &args).json();
    let designs = value["results"]["designs"].as_array().unwrap();
    assert_eq!(designs.len(), 3);
    assert_eq!(designs[0]["ratios"][0].as_f64(), Some(1.0));
    assert!(designs[1]["ratios"][0].as_f64().unwrap() < 1.0, "{value}");
    assert!(designs[0]["totals"]["data_hops"].as_u64() > Some(0) && designs[2].get("totals").is_none());
    let text = fabricsim_in(dir.path(), &["diff", "a.toml", "b.toml"]);
    assert!(text.code == 0 && text.out.contains("slowest of shift") && !text.out.contains("virtual links"), "{text:?}");
    fabricsim_in(dir.path(), &["diff", "a.toml"]).fails(2, &["nothing to set side by side"]);
    fabricsim_in(dir.path(), &["diff", "a.toml", "none.toml"]).fails(2, &["none.toml"]);
}

#[test]
fn what_is_in_force_is_in_results() {
    let value = fabricsim(&["run", "scenarios/incast-roce.toml", "--format", "json"]).json();
    let transport = &value["results"]["transport"];
    assert_eq!(transport["preset"], "peer-a-csg");
    let parameters = transport["parameters"].as_array().unwrap();
    let xoff = parameters.iter().find(|p| p["name"] == "pfc.xoff").unwrap();
    assert_eq!((xoff["value"].as_str(), xoff["origin"].as_str()), (Some("62400 B"), Some("preset peer-a-csg")));
    let text = fabricsim(&["run", "scenarios/incast-roce.toml"]);
    assert!(text.out.contains("208 pauses") && text.out.contains("paused"), "{text:?}");
}

/// Three send to one over an uplink that is wide enough for all; a fourth shares the uplink and nothing else.
const VICTIM: &str = "
system = \"hgx-h100\"
nodes = 8
gpus_per_node = 1
nics = \"1x100Gb/s\"
[fabric]
kind = \"leaf-spine\"
leaves = 2
spines = 1
oversubscription = 1
uplink = \"400 Gb/s\"
[transport]
preset = \"peer-a\"
[[workload]]
kind = \"transfer\"
list = [
  { src = \"node4.nic0\", dst = \"node0.nic0\", bytes = \"4 MiB\" },
  { src = \"node5.nic0\", dst = \"node0.nic0\", bytes = \"4 MiB\" },
  { src = \"node6.nic0\", dst = \"node0.nic0\", bytes = \"4 MiB\" },
  { src = \"node7.nic0\", dst = \"node1.nic0\", bytes = \"4 MiB\" },
]
";

/// Pauses spread to the uplink and hold the fourth, which is named with the root; marks keep the queue short and set it free.
#[test]
fn pauses_have_victims_and_marks_cure_them() {
    let paused = play(VICTIM, &[]);
    let transport = paused.results.transport.as_ref().unwrap();
    let ideal = 1024.0 * 0.3328;
    let victim = |report: &Report| report.results.transfers[3].time_us;
    assert!(victim(&paused) > 1.5 * ideal, "{} for {ideal}", victim(&paused));
    assert!(transport.roots.contains(&"leaf0->node0.nic0".to_owned()), "{transport:?}");
    let first = &transport.victims[0];
    assert_eq!((first.from.as_str(), first.to.as_str()), ("node7.nic0", "node1.nic0"));
    assert_eq!(first.root.as_deref(), Some("leaf0->node0.nic0"));
    assert!(
        paused.findings.iter().any(|f| f.code.id() == "W116" && f.message.contains("node7.nic0")),
        "{:?}",
        paused.findings
    );
    let marked = play(VICTIM, &["transport.preset=peer-b-paper"]);
    assert!(victim(&marked) < 1.1 * ideal, "{} for {ideal}", victim(&marked));
    assert!(marked.results.transport.unwrap().victims.is_empty());
}

#[test]
fn lossless_traffic_that_loses_is_told() {
    let few = ["transport.preset=roce-100g", "transport.pfc.headroom=\"1 KB\"", "transport.buffer.size=\"1 MiB\""];
    let report = play(STAR, &[&few[..], &["workload.0.ranks=17"]].concat());
    let totals = report.results.transport.as_ref().unwrap().totals;
    assert!(totals.headroom_drops > 0 && totals.retransmitted > 0, "{totals:?}");
    assert!(report.findings.iter().any(|f| f.code.id() == "W117"), "{:?}", report.findings);
    assert!(report.stopped.is_none());
}

/// Receivers that grant, and senders that read queues, keep the queue of an incast near a bandwidth-delay product or below.
#[test]
fn grants_and_telemetry_keep_queues_short() {
    let deep = |control: &str| {
        let control = format!("transport.rate_control={control}");
        deepest(&play(STAR, &["transport.preset=peer-b", "transport.ecn.marking=off", &control]))
    };
    let (line, grants, telemetry) = (deep("none"), deep("receiver"), deep("hpcc"));
    assert!(
        grants < 200_000 && telemetry < line / 4,
        "{line} at line rate, {grants} granted, {telemetry} by telemetry"
    );
}

/// 600 flows in marks for ever: the control is at its limit, and says so.
#[test]
fn a_control_at_its_limit_is_told() {
    let settings =
        ["transport.preset=peer-b", "transport.ecn={ kmin = \"5 KB\", kmax = \"10 KB\" }", "workload.0.ranks=64"];
    let report = play(STAR, &settings);
    assert!(report.findings.iter().any(|f| f.code.id() == "W119"), "{:?}", report.findings);
}

/// Losses by chance are sent again; where all is lost the sender gives up, and the run ends with its names.
#[test]
fn losses_are_sent_again_or_end_the_run() {
    let some = play(STAR, &["transport.preset=roce-100g", "transport.packet_loss=0.002", "transport.rto=\"100 us\""]);
    let totals = some.results.transport.as_ref().unwrap().totals;
    assert!(totals.lost > 0 && totals.retransmitted >= totals.lost && some.stopped.is_none(), "{totals:?}");
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("s.toml"), STAR).unwrap();
    let args = ["run", "s.toml", "--set", "transport.preset=roce-100g", "--set", "transport.packet_loss=1.0"];
    let ran = fabricsim_in(dir.path(), &args);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains("E114") && ran.err.contains("node1.nic0 to node0.nic0"), "{ran:?}");
}

/// A run that ends early tells how much had arrived, and no rate of the whole; who has not heard has no time.
#[test]
fn what_stops_early_gives_no_rate_of_the_whole() {
    let whole = play(STAR, &["transport.preset=peer-b"]);
    assert!(whole.headline.contains("8 messages in") && whole.headline.contains("GB/s in all"), "{}", whole.headline);
    let first = whole.results.transfers.iter().min_by(|a, b| a.time_us.total_cmp(&b.time_us)).unwrap();
    // Its acknowledgement is on the way.
    let us = (first.time_us + first.acked_us.unwrap()) / 2.0;
    for (us, arrived) in [(us, 1), (us / 2.0, 0)] {
        let report = play(STAR, &["transport.preset=peer-b", &format!("limits.time=\"{us} us\"")]);
        let begin = format!("transfers: {arrived} of 8 messages, stopped at ");
        assert!(report.headline.starts_with(&begin) && !report.headline.contains("GB/s"), "{}", report.headline);
        let list = &report.results.transfers;
        assert!(list.len() == arrived && list.iter().all(|t| t.acked_us.is_none()), "{list:?}");
    }
}

#[test]
fn what_needs_virtual_links_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let text = "system = \"hgx-h100\"\nnodes = 4\n[fabric]\nkind = \"leaf-spine\"\nleaves = 2\n[transport]\npreset = \"ib-ndr\"\n[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nalgorithm = \"nvls\"\nsizes = [\"1 MiB\"]\n[software.env]\nNCCL_COLLNET_ENABLE = 1\n";
    std::fs::write(dir.path().join("s.toml"), text).unwrap();
    fabricsim_in(dir.path(), &["run", "s.toml"]).fails(2, &["E118", "junction"]);
    let flaps = ["run", "s.toml", "--fault", "leaf0->spine0 down_for=2ms every=10ms"];
    fabricsim_in(dir.path(), &flaps).fails(2, &["E118", "down at times"]);
    let listed = ["run", "scenarios/flapping-link.toml", "--set", "transport.model=packets"];
    fabricsim(&listed).fails(2, &["E118", "down at times"]);
    let chosen = "bench all_reduce --system hgx-h100 --nodes 4 -b 4M -e 4M --env NCCL_COLLNET_ENABLE=1 --set transport.preset=ib-ndr";
    fabricsim(&chosen.split(' ').collect::<Vec<_>>()).fails(2, &["E118", "junction"]);
}

/// All pairs of 64 endpoints under 8 leaves and 8 spines, 64 KiB each, beside public simulators (other hashes): median, 99th
/// percentile and last at the senders, us.
#[test]
fn all_to_all_of_public_simulators() {
    let text = STAR
        .replace("single-switch", "leaf-spine")
        .replace("[catalogue", "leaves = 8\nspines = 8\n[catalogue")
        .replace("incast", "all_to_all")
        .replace("ranks = 9\nsize = \"1 MiB\"", "size = \"64 KiB\"");
    for (preset, want) in [("peer-b", [346.0, 401.0, 405.0]), ("peer-a-csg", [354.0, 418.0, 429.0])] {
        let report = play(&text, &[&format!("transport.preset={preset}")]);
        let times = acked(&report);
        for (at, want) in [times.len() / 2, times.len() * 99 / 100, times.len() - 1].into_iter().zip(want) {
            near(times[at], want, 0.05);
        }
        assert_eq!(report.results.transport.unwrap().totals.data_hops, 243_712);
    }
}

/// Messages of all sizes one after the other on a queue pair: each byte is asked for that may not be sent unasked.
#[test]
fn receivers_admit_collectives() {
    const TWO: &str = "system = \"hgx-h100\"\nnodes = 2\n[transport]\npreset = \"roce-400g-pfc-only\"\n\
                       [[workload]]\nkind = \"collective\"\nop = \"all_gather\"\niterations = 1\nwarmup = 0\nsizes = [\"256 KiB\"]\n";
    for op in ["all_gather", "all_reduce", "alltoall", "broadcast"] {
        for size in ["64 KiB", "256 KiB", "4 MiB"] {
            for nics in ["8x400Gb/s", "1x400Gb/s"] {
                let sizes = format!("workload.0.sizes=[\"{size}\"]");
                let report = play(TWO, &[&format!("workload.0.op={op}"), &sizes, &format!("nics={nics}")]);
                assert!(report.stopped.is_none(), "{op} {size} {nics}: {}", report.stopped_at);
            }
        }
    }
}

/// Credits that a port had no need of lie there while a storm holds it.
#[test]
fn storms_begin_under_load_with_credits() {
    for from in ["4us", "20us", "60us"] {
        let fault = format!("node7.nic0 pause-storm from={from} until=200us");
        let value = fabricsim(&["run", "scenarios/victim-lanes.toml", "--fault", &fault, "--format", "json"]).json();
        assert_eq!(value["results"]["engine"]["stopped"], "finished", "{from}");
    }
}

/// A flow alone that lacks credits is nobody's victim.
#[test]
fn without_a_root_elsewhere_there_is_no_victim() {
    let report = play(STAR, &["workload.0.ranks=2", "transport.preset=ib-ndr", "transport.credits.per_lane=\"8 KiB\""]);
    let transport = report.results.transport.unwrap();
    assert!(transport.totals.credit_stall_us > 0.0);
    assert_eq!(transport.victims_total, 0);
}
