//! What is recorded of packets (`[observe]`, `run --series`), pauses without a reason, losses of single links, and runs in which
//! nothing new arrives.

mod cli_common;

use cli_common::{fabricsim, fabricsim_in};
use fabricsim::diagnostic::{Code, Diagnostics};
use fabricsim::scenario::{Input, Loaded, Scenario, Setting};
use fabricsim::simulate::Report;
use sim_core::outcome::StopReason;

/// Three NICs at each of two leaves below one spine.
const LEAVES: &str = "
system = \"hgx-h100\"
nodes = 6
gpus_per_node = 1
nics = \"1x100Gb/s\"
[fabric]
kind = \"leaf-spine\"
leaves = 2
spines = 1
oversubscription = 3
[transport]
preset = \"roce-100g\"
rate_control = \"none\"
[[workload]]
kind = \"transfer\"
list = [
  { src = \"node0.nic0\", dst = \"node3.nic0\", bytes = \"4 MiB\" },
  { src = \"node1.nic0\", dst = \"node4.nic0\", bytes = \"4 MiB\" },
  { src = \"node2.nic0\", dst = \"node0.nic0\", bytes = \"4 MiB\" },
]
";

/// Two NICs at one switch that stores and forwards, links of 1 us, and one message of 4 MB.
const PAIR: &str = "
system = \"hgx-h100\"
nodes = 2
gpus_per_node = 1
nics = \"1x100Gb/s\"
[fabric]
kind = \"single-switch\"
link_latency = \"1 us\"
[transport]
preset = \"roce-100g\"
rate_control = \"none\"
mtu = \"1 KiB\"
[[workload]]
kind = \"transfer\"
list = [{ src = \"node0.nic0\", dst = \"node1.nic0\", bytes = \"4 MB\" }]
";

fn load(text: &str, settings: &[&str]) -> Result<Loaded, Diagnostics> {
    let settings: Vec<Setting> = settings.iter().map(|text| Setting::set(*text)).collect();
    Scenario::load(&Input::Text { name: "t.toml".into(), text: text.into() }, &settings)
}

fn play(text: &str, settings: &[&str]) -> Report {
    load(text, settings).map_err(|faults| format!("{faults:?}")).unwrap().run().unwrap()
}

fn codes(text: &str, settings: &[&str]) -> Vec<Code> {
    let list = load(text, settings).map_or_else(|faults| faults.list, |loaded| loaded.diagnostics.list);
    list.iter().map(|d| d.code).collect()
}

#[track_caller]
fn near(got: f64, want: f64, share: f64) {
    assert!((got - want).abs() <= want.abs() * share, "{got} for {want}");
}

/// The rows of a CSV file as maps from its header.
fn rows(path: &std::path::Path) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let row = |record: csv::StringRecord| header.iter().cloned().zip(record.iter().map(str::to_owned)).collect();
    reader.records().map(|record| row(record.unwrap())).collect()
}

#[test]
fn a_run_writes_its_ports_its_flows_and_its_samples() {
    let dir = tempfile::tempdir().unwrap();
    let plain = fabricsim(&["run", "scenarios/incast-roce.toml", "--format", "json"]).json();
    let out = dir.path().join("out").display().to_string();
    let ran = fabricsim(&["run", "scenarios/incast-roce.toml", "--series", "5us", "--out", &out, "--format", "json"]);
    let json = ran.json();
    // Looking on changes nothing.
    for key in ["links", "transfers"] {
        assert_eq!(plain["results"][key], json["results"][key], "{key}");
    }
    assert_eq!(plain["results"]["engine"]["fingerprint"], json["results"]["engine"]["fingerprint"]);
    let folder = dir.path().join("out");
    let number = |row: &std::collections::BTreeMap<String, String>, key: &str| row[key].parse::<f64>().unwrap();
    let ports = rows(&folder.join("ports.csv"));
    assert_eq!(ports.len(), 18, "both directions of nine cables");
    let last = ports.iter().find(|port| port["link"] == "leaf0->node0.nic0").unwrap();
    assert_eq!((number(last, "bytes"), number(last, "peak_queue_bytes")), (8.0 * 256.0 * 4160.0, 607_360.0));
    let asked: f64 = ports.iter().map(|port| number(port, "pfc_sent")).sum();
    assert_eq!(asked, 208.0);
    let flows = rows(&folder.join("flows.csv"));
    assert_eq!(flows.len(), 8);
    for flow in &flows {
        // One of eight: eight times as long as alone, but for the path.
        near(number(flow, "slowdown"), 8.0, 0.04);
        assert_eq!(flow["path"], format!("{}->leaf0 leaf0->node0.nic0", flow["src"]));
        assert!(number(flow, "held_us") > 500.0 && number(flow, "window_us") == 0.0, "{flow:?}");
    }
    let series = rows(&folder.join("series.csv"));
    let queue: Vec<_> = series.iter().filter(|row| row["name"] == "leaf0->node0.nic0").collect();
    assert!(queue.len() >= 137, "{}", queue.len());
    let deepest = queue.iter().map(|row| number(row, "queue_bytes")).fold(0.0, f64::max);
    assert!(deepest > 590_000.0 && deepest <= 607_360.0, "{deepest}");
    // 12.5 GB/s on the wire while it lasts.
    near(number(queue[40], "rate_GBps"), 12.5, 0.07);
    let flow: Vec<_> = series.iter().filter(|row| row["name"] == "node1.nic0->node0.nic0").collect();
    let moved: f64 = flow.iter().map(|row| number(row, "rate_GBps") * 5e3).sum();
    near(moved, 1_048_576.0, 0.02);
    for picture in ["queues.svg", "rates.svg"] {
        let svg = std::fs::read_to_string(folder.join(picture)).unwrap();
        assert!(svg.contains("over time") && svg.contains("node0.nic0"), "{picture}");
    }
    // Without --series the earlier run's samples go away.
    let again = fabricsim(&["run", "scenarios/incast-roce.toml", "--out", &out, "--force"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(folder.join("flows.csv").exists() && !folder.join("series.csv").exists());
    let text = fabricsim(&["run", "scenarios/incast-roce.toml", "--series", "5us"]).out;
    assert!(text.contains("queue of leaf0->node0.nic0") && text.contains('█'), "{text}");
}

#[test]
fn samples_are_of_what_is_named_and_within_what_fits() {
    let one =
        ["observe.interval=\"1 us\"", "observe.links=[\"leaf1->node3.nic0\"]", "observe.flows=[\"node1->node4\"]"];
    let report = play(LEAVES, &one);
    let series = &report.results.series[0];
    assert_eq!(series.links.iter().map(|l| l.link.as_str()).collect::<Vec<_>>(), ["leaf1->node3.nic0"]);
    assert_eq!(series.flows.iter().map(|f| f.flow.as_str()).collect::<Vec<_>>(), ["node1.nic0->node4.nic0"]);
    // A picosecond is widened until the samples fit; JSON has a thousand instants at most.
    let dense = play(LEAVES, &["observe.interval=\"1 ps\"", "observe.links=[\"leaf1\"]"]);
    let series = &dense.results.series[0];
    assert!(series.time_us.len() <= 1_000 && series.interval_us > 100.0 * series.asked_us, "{}", series.interval_us);
    // A window of counts: the queue is empty after the messages, and mean and histogram are those of the window.
    let all = play(LEAVES, &["observe.histogram=true"]);
    let late = play(LEAVES, &["observe.histogram=true", "observe.from=\"100 us\"", "observe.to=\"300 us\""]);
    let link = |report: &Report| report.results.links.iter().find(|l| l.link == "leaf0->spine0").unwrap().clone();
    let counted: u64 = link(&late).queue_histogram_ns.unwrap().iter().sum();
    near(counted as f64, 200_000.0, 0.001);
    assert!(link(&late).mean_queue_bytes.unwrap() > link(&all).mean_queue_bytes.unwrap());
    assert_eq!(link(&late).bytes, link(&all).bytes);
}

#[test]
fn collectives_have_flows_and_samples_too() {
    let dir = tempfile::tempdir().unwrap();
    let text = LEAVES.split("[[workload]]").next().unwrap().to_owned()
        + "[[workload]]\nkind = \"collective\"\nop = \"all_gather\"\nsizes = [\"1 MiB\"]\n";
    std::fs::write(dir.path().join("c.toml"), text).unwrap();
    let ran = fabricsim_in(dir.path(), &["run", "c.toml", "--series", "20us", "--out", "o", "--format", "json"]);
    let json = ran.json();
    let flows = rows(&dir.path().join("o/flows.csv"));
    assert!(flows.len() > 6 && flows.iter().all(|flow| flow["run"].starts_with("all_gather of")), "{}", flows.len());
    let transport = &json["results"]["transport"];
    assert_eq!(transport["flows_total"].as_u64().unwrap() as usize, flows.len());
    assert_eq!(transport["slowest_flows"].as_array().unwrap().len(), flows.len().min(32));
    assert!(!json["results"]["series"][0]["flows"].as_array().unwrap().is_empty());
}

#[test]
fn what_is_observed_is_checked() {
    assert!(codes(LEAVES, &["observe.links=[\"leaf9\"]", "observe.interval=\"1 us\""]).contains(&Code::UnknownDevice));
    assert!(codes(LEAVES, &["observe.flows=[\"leaf0\"]", "observe.interval=\"1 us\""]).contains(&Code::OutOfRange));
    assert!(codes(LEAVES, &["observe.from=\"2 us\"", "observe.to=\"1 us\""]).contains(&Code::OutOfRange));
    assert!(codes(LEAVES, &["observe.links=[\"leaf0\"]"]).contains(&Code::NoEffect));
    assert!(codes(PAIR, &["transport={ model = \"virtual\" }", "observe.interval=\"1 us\""]).contains(&Code::NoEffect));
    assert_eq!(codes(LEAVES, &["observe.flows=[\"all\"]", "observe.interval=\"1 us\""]), []);
}

/// P11: the tree of a NIC that pauses for ever stalls, what is outside is unaffected, and a watchdog frees the tree after its time.
#[test]
fn a_pause_storm_stalls_its_tree_and_nothing_else() {
    let storm = "fault=[{ kind = \"pause-storm\", target = \"node3.nic0\", from = \"100 us\" }]";
    let times = |report: &Report| -> Vec<(String, f64)> {
        report.results.transfers.iter().map(|t| (t.src.clone(), t.time_us)).collect()
    };
    let well = play(LEAVES, &["transport.buffer.size=\"2 MB\""]);
    let alone = times(&well);
    assert_eq!(alone.len(), 3);
    let stuck = play(LEAVES, &["transport.buffer.size=\"2 MB\"", storm]);
    assert_eq!(stuck.stopped, Some(StopReason::NoProgress));
    // What is outside of the tree shares a wire with the acknowledgements of one of the others.
    let left = times(&stuck);
    assert_eq!(left.iter().map(|(src, _)| src.as_str()).collect::<Vec<_>>(), ["node2.nic0"]);
    near(left[0].1, alone[2].1, 0.004);
    assert!(stuck.stopped_at.contains("pause storm"), "{}", stuck.stopped_at);
    // With the watchdog the flow beside the storm goes on after it; the one into the storm still gives up or waits.
    let dog = ["transport.buffer.size=\"2 MB\"", "transport.pfc.watchdog=\"1 ms\"", "transport.rto=\"500 us\"", storm];
    let freed = play(LEAVES, &dog);
    let freed_times = times(&freed);
    assert_eq!(freed_times.len(), 2, "{freed_times:?} {:?}", freed.stopped);
    let beside = freed_times.iter().find(|(src, _)| src == "node1.nic0").unwrap().1;
    let outside = freed_times.iter().find(|(src, _)| src == "node2.nic0").unwrap().1;
    near(outside, alone[2].1, 0.004);
    assert!(beside > alone[1].1 + 500.0 && beside < alone[1].1 + 1_100.0, "{beside} beside {}", alone[1].1);
    assert!(freed.results.transport.as_ref().unwrap().totals.watchdog_drops > 0);
    // The NIC is kept from pausing after a while: all arrives.
    let kept = play(LEAVES, &["transport.buffer.size=\"2 MB\"", "transport.pfc.nic_watchdog=\"2 ms\"", storm]);
    assert_eq!((kept.stopped, times(&kept).len()), (None, 3));
    let into = times(&kept)[0].1;
    assert!((2_000.0..2_900.0).contains(&into), "{into}");
}

#[test]
fn pause_storms_need_packets_and_pauses() {
    let storm = "fault=[{ kind = \"pause-storm\", target = \"node1.nic0\" }]";
    assert!(codes(PAIR, &["transport={ model = \"virtual\" }", storm]).contains(&Code::NotOverPackets));
    assert!(codes(PAIR, &["transport.preset=roce-100g-lossy", storm]).contains(&Code::NoEffect));
    for (target, code) in [("node0.gpu0", Code::BadFault), ("node9.nic0", Code::UnknownDevice)] {
        let storm = format!("fault=[{{ kind = \"pause-storm\", target = \"{target}\" }}]");
        assert!(codes(PAIR, &[&storm]).contains(&code), "{target}");
    }
    let backwards = "fault=[{ kind = \"pause-storm\", target = \"node1.nic0\", from = \"2 us\", until = \"1 us\" }]";
    assert!(codes(PAIR, &[backwards]).contains(&Code::OutOfRange));
    // By its words on the command line, and without credits as without pauses.
    let args = ["run", "scenarios/incast-roce.toml", "--fault", "node0.nic0 pause-storm until=1ms", "--format", "json"];
    let json = fabricsim(&args).json();
    let longest = json["results"]["transfer_totals"]["longest_us"].as_f64().unwrap();
    near(longest, 1_000.0 + 683.9, 0.02);
    let credits = play(
        &PAIR.replace("roce-100g", "ib-hdr"),
        &["transport.kind=infiniband", "fault=[{ kind = \"pause-storm\", target = \"node1.nic0\", until = \"1 ms\" }]"],
    );
    assert!(credits.results.transfers[0].time_us > 1_300.0);
}

/// G1: what a link loses is lost packet by packet, and recovery makes of it what it makes: go-back-N `(1 - p) / (1 - p + p W)` of the
/// rate, selective repeat `1 - p`, go-back-0 nothing.
#[test]
fn a_link_that_loses_packets_makes_recovery_act() {
    let p = 1.0 / 256.0;
    let lossy = format!("fault=[{{ kind = \"degraded\", target = \"node0.nic0->leaf0\", packet_loss = {p} }}]");
    let size = "workload.0.list.0.bytes=\"40 MB\"";
    // What is lost twice, or last, is told by a timeout alone.
    let rto = "transport.rto=\"30 us\"";
    let well = play(PAIR, &[size]).results.transfers[0].time_us;
    let share = |settings: &[&str]| {
        let report = play(PAIR, &[&[size, rto, lossy.as_str()], settings].concat());
        assert_eq!(report.stopped, None, "{}", report.stopped_at);
        let totals = report.results.transport.as_ref().unwrap().totals;
        near(totals.lost as f64, 40e6 / 1024.0 * p, 0.25);
        (well / report.results.transfers[0].time_us, totals.retransmitted as f64 / totals.lost as f64)
    };
    let (selective, again) = share(&["transport.recovery=selective"]);
    near(selective, 1.0 - p, 0.01);
    // One for each, but where that was lost, too, and a timeout has what is under way sent again.
    assert!((1.0..1.3).contains(&again), "{again}");
    // Each loss costs W packets, the lost one and all that were sent until its report came.
    let (back, window) = share(&["transport.recovery=go-back-n"]);
    assert!(window > 20.0, "{window}");
    near(back, (1.0 - p) / (1.0 - p + p * window), 0.1);
    // RoCE's own recovery is not changed by a fault.
    let (usual, _) = share(&[]);
    assert_eq!(usual, back);
    let stuck = play(PAIR, &[&lossy, "transport.recovery=go-back-0", "limits.stall=\"20 ms\""]);
    assert_eq!(stuck.stopped, Some(StopReason::NoProgress), "{}", stuck.stopped_at);
    assert!(stuck.results.transfers.is_empty() && stuck.stopped_at.contains("go-back-0"), "{}", stuck.stopped_at);
}

#[test]
fn where_nothing_new_arrives_the_run_ends_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("p.toml"), PAIR).unwrap();
    let run = |settings: &[&str]| {
        let set = settings.iter().flat_map(|setting| ["--set", setting]);
        let args: Vec<&str> = ["run", "p.toml"].into_iter().chain(set).collect();
        fabricsim_in(dir.path(), &args)
    };
    // Dropped, and nobody sends again: no deadlock.
    let dropped = run(&["transport.packet_loss=0.01", "transport.recovery=none"]);
    assert_eq!(dropped.code, 4, "{dropped:?}");
    assert!(dropped.err.contains("E115") && dropped.err.contains("recovery is none"), "{}", dropped.err);
    // Shorter than a round trip: told before.
    assert!(codes(PAIR, &["transport.packet_loss=0.01", "transport.rto=\"1 us\""]).contains(&Code::EarlyTimeout));
    assert!(!codes(PAIR, &["transport.packet_loss=0.01", "transport.rto=\"100 us\""]).contains(&Code::EarlyTimeout));
}

/// Where no link is full the first line names what held packets back, from the time for which it did.
#[test]
fn the_bottleneck_is_what_holds_packets_back() {
    let says = |text: &str, settings: &[&str], words: &str| {
        let headline = play(text, settings).headline;
        assert!(headline.contains(&format!("Bottleneck: {words}")), "{words:?}: {headline}");
    };
    says(PAIR, &[], "node0.nic0->leaf0, busy 9");
    let far = "fabric.link_latency=\"10 us\"";
    says(PAIR, &[far, "transport.window=\"16 KiB\""], "the window of the last flow (full ");
    let grants = ["transport.rate_control=receiver", "transport.receiver.budget=\"16 KiB\"", far];
    says(PAIR, &grants, "grants of receivers to the last flow (waited ");
    let lost = "fault=[{ kind = \"degraded\", target = \"node0.nic0->leaf0\", packet_loss = 0.01 }]";
    says(
        PAIR,
        &[lost, "workload.0.list.0.bytes=\"20 MB\"", "transport.recovery=selective"],
        "timeouts of the last flow (",
    );
    let storm = "fault=[{ kind = \"pause-storm\", target = \"node3.nic0\", until = \"3 ms\" }]";
    says(LEAVES, &["transport.buffer.size=\"2 MB\"", storm], "a pause storm on leaf1->node3.nic0 before ");
    let slow =
        ["transport.rate_control=dcqcn", "workload.0.list.0.bytes=\"16 MiB\"", "workload.0.list.1.dst=node3.nic0"];
    says(
        LEAVES,
        &[&slow[..], &["transport.ecn.kmin=\"4 KB\"", "transport.ecn.kmax=\"8 KB\""]].concat(),
        "rate control of ",
    );
}

/// A run takes as long as its last flows: a busy link that is not on their way is not why.
#[test]
fn the_bottleneck_is_that_of_the_last_flows() {
    let text = "
system = \"hgx-h100\"
nodes = 6
gpus_per_node = 1
nics = \"1x100Gb/s\"
[fabric]
kind = \"single-switch\"
link_latency = \"10 us\"
[transport]
preset = \"roce-100g\"
rate_control = \"none\"
[[workload]]
kind = \"transfer\"
list = [
  { src = \"node0.nic0\", dst = \"node1.nic0\", bytes = \"7 MB\" },
  { src = \"node2.nic0\", dst = \"node3.nic0\", bytes = \"1 MB\" },
  { src = \"node4.nic0\", dst = \"node5.nic0\", bytes = \"1 MB\" },
]
";
    // A window of 64 KiB in about 52 us: 1.3 GB/s, for 800 us. The link of the first is busy for 70 % of that at most.
    let windows = "transport.window=\"64 KiB\"";
    let report = play(text, &[windows, "workload.0.list.0.bytes=\"200 KB\""]);
    let words = "Bottleneck: the window of the 2 last flows (full ";
    assert!(report.headline.contains(words), "{}", report.headline);
    assert!(report.headline.contains("), first node"), "{}", report.headline);
    // With losses of one of them: the first is busy for most of the time, the last one waits for its timer.
    let lossy = "fault=[{ kind = \"degraded\", target = \"node2.nic0->leaf0\", packet_loss = 0.2 }]";
    let report = play(text, &[lossy, "transport.rto=\"1 ms\"", "transport.recovery=selective", "seed=3"]);
    let bytes = |name: &str| report.results.links.iter().find(|link| link.link == name).unwrap().bytes;
    assert!(bytes("node0.nic0->leaf0") > 4 * bytes("node2.nic0->leaf0"));
    assert!(
        report.headline.contains("timeouts of the last flow (") && report.headline.contains("node2.nic0->node3.nic0")
    );
}

/// All ranks of a collective wait for the one that is held.
#[test]
fn a_storm_is_named_for_collectives() {
    let text = LEAVES.split("[[workload]]").next().unwrap().to_owned()
        + "[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nsizes = [\"1 MiB\"]\n";
    let storm = "fault=[{ kind = \"pause-storm\", target = \"node3.nic0\", from = \"500 us\", until = \"4 ms\" }]";
    let report = play(&text, &[storm]);
    assert!(report.headline.contains("Bottleneck: a pause storm on leaf1->node3.nic0 before "), "{}", report.headline);
    assert!(!play(&text, &[]).headline.contains("storm"));
    // What falls into the warm call has no part in the time.
    let warm = storm.replace("500 us", "100 us");
    assert!(!play(&text, &[&warm]).headline.contains("storm"));
    // Marks and rate controls are no help.
    let findings = play(LEAVES, &["transport.buffer.size=\"2 MB\"", &warm.replace("4 ms", "3 ms")]).findings;
    let held = findings.iter().find(|finding| finding.code == Code::PortHeld).unwrap();
    assert!(format!("{held:?}").contains("a pause storm holds leaf1->node3.nic0"), "{held:?}");
}

/// Where packets are played, what a link loses is lost one by one, and its rate is its own.
#[test]
fn lossy_links_keep_their_rate_over_packets() {
    let lossy = "fault=[{ kind = \"degraded\", target = \"node0.nic0->leaf0\", packet_loss = 0.001 }]";
    let report = play(PAIR, &[lossy, "transport.rto=\"30 us\"", "transport.recovery=selective"]);
    let words = "node0.nic0->leaf0 (12.5 GB/s, 0.1 % of the packets are lost), busy";
    assert!(report.headline.contains(words), "{}", report.headline);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("p.toml"),
        PAIR.to_owned() + "[[fault]]\n" + "kind = \"degraded\"\ntarget = \"node0.nic0->leaf0\"\npacket_loss = 0.001\n",
    )
    .unwrap();
    let path = fabricsim_in(dir.path(), &["path", "p.toml", "node0.nic0", "node1.nic0"]);
    assert!(path.out.contains("12.5 GB/s one way") && path.out.contains("0.1 % of the packets are lost"), "{path:?}");
}

#[test]
fn samples_that_cannot_be_are_refused_and_windows_after_the_end_told() {
    let ran = fabricsim(&["run", "scenarios/incast-roce.toml", "--series", "0us"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("no time between two samples"), "{}", ran.err);
    let told = |from: &str| {
        let report = play(PAIR, &[&format!("observe.from=\"{from}\"")]);
        report.findings.iter().any(|finding| finding.message.contains("nothing was observed"))
    };
    assert!(told("1 s") && !told("10 us"));
}

/// What follows from the fabric (windows, thresholds) doesn't collapse because a NIC is dead, and what the death costs is told against
/// the same transport.
#[test]
fn a_dead_nic_moves_no_default() {
    let text = "system = \"hgx-h100\"\nnodes = 2\n[transport]\nkind = \"efa\"\nmodel = \"packets\"\n\
                [[workload]]\nkind = \"collective\"\nop = \"alltoall\"\nsizes = [\"4 MiB\"]\n";
    let dead = "fault=[{ kind = \"dead\", target = \"node0.nic0\" }]";
    let values = |settings: &[&str]| load(text, settings).unwrap().packets.unwrap().parameters;
    assert_eq!(values(&[]), values(&[dead]));
    let time = |report: &Report| report.results.collectives[0].time_us;
    let (well, ill) = (play(text, &[]), play(text, &[dead]));
    assert_eq!(ill.results.healthy.as_ref().unwrap().collectives_us, [time(&well)]);
    assert!(time(&ill) > time(&well), "{} beside {}", time(&ill), time(&well));
}
