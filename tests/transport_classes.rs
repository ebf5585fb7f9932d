//! Classes of packets from scenarios: shares by weight, victims by lane, lossy beside lossless, ways of single transfers, lanes of
//! dragonflies; and what is refused.

use fabricsim::diagnostic::{Code, Diagnostics};
use fabricsim::scenario::{Input, Loaded, Scenario, Setting};
use fabricsim::simulate::Report;

fn load(text: &str, settings: &[&str]) -> Result<Loaded, Diagnostics> {
    let settings: Vec<Setting> = settings.iter().map(|text| Setting::set(*text)).collect();
    Scenario::load(&Input::Text { name: "t.toml".into(), text: text.into() }, &settings)
}

fn play(text: &str, settings: &[&str]) -> Report {
    load(text, settings).map_err(|faults| format!("{faults:?}")).unwrap().run().unwrap()
}

#[track_caller]
fn near(got: f64, want: f64, share: f64) {
    assert!((got - want).abs() <= want.abs() * share, "{got} for {want}");
}

/// Two senders to one receiver, the second in a class of its own.
const TWO: &str = "
system = \"hgx-h100\"
nodes = 4
gpus_per_node = 1
nics = \"1x400Gb/s\"
[fabric]
kind = \"single-switch\"
link_latency = \"1 us\"
[transport]
preset = \"roce-400g\"
rate_control = \"none\"
[[transport.class]]
name = \"train\"
[[transport.class]]
name = \"storage\"
[[workload]]
kind = \"transfer\"
list = [
  { src = \"node1.nic0\", dst = \"node0.nic0\", bytes = \"48 MiB\" },
  { src = \"node2.nic0\", dst = \"node0.nic0\", bytes = \"16 MiB\", class = \"storage\" },
]
";

/// While both send, shares are as weights: with 3 to 1 the messages of 48 and 16 MiB end together, whatever keeps buffers from
/// overflowing.
#[test]
fn weights_are_shares() {
    for transport in ["flow_control=pfc", "flow_control=none", "preset=ib-ndr"] {
        for (weights, first, second) in [((3, 1), 64.0, 64.0), ((1, 1), 64.0, 32.0), ((1, 3), 64.0, 64.0 / 3.0)] {
            let report = play(
                TWO,
                &[
                    &format!("transport.{transport}"),
                    &format!("transport.class.0.weight={}", weights.0),
                    &format!("transport.class.1.weight={}", weights.1),
                ],
            );
            let times: Vec<f64> = report.results.transfers.iter().map(|t| t.time_us).collect();
            let packet = if transport.ends_with("ndr") { 4122.0 } else { 4178.0 };
            let mib = |n: f64| n * 256.0 * packet / 50_000.0 + 2.5;
            near(times[0], mib(first), 0.01);
            near(times[1], mib(second), 0.01);
        }
    }
}

/// The more urgent class has the whole port as long as it has something.
#[test]
fn priorities_go_first() {
    let report = play(TWO, &["transport.class.1.priority=1", "transport.class.0.weight=100"]);
    let times: Vec<f64> = report.results.transfers.iter().map(|t| t.time_us).collect();
    near(times[1], 16.0 * 256.0 * 4178.0 / 50_000.0 + 2.5, 0.01);
    near(times[0], 64.0 * 256.0 * 4178.0 / 50_000.0 + 2.5, 0.01);
    let classes = &report.results.transport.as_ref().unwrap().classes;
    let names: Vec<_> = classes.iter().map(|c| (c.class.as_str(), c.priority, c.weight, c.lossless)).collect();
    assert_eq!(names, [("train", 0, 100, true), ("storage", 1, 1, true)]);
    assert_eq!((classes[0].hops, classes[1].hops), (2 * 12_288, 2 * 4_096));
    let port = report.results.links.iter().find(|link| link.link == "leaf0->node0.nic0").unwrap();
    let packets: Vec<_> = port.classes.iter().map(|c| (c.class.as_str(), c.lane, c.packets)).collect();
    assert_eq!(packets, [("train", None, 12_288), ("storage", None, 4_096)]);
}

/// A small buffer under an incast: what is lossless is paused and not dropped, what is lossy is dropped and not paused.
#[test]
fn lossy_and_lossless_share_a_switch() {
    let list = "workload.0.list=[
        { src = \"node1.nic0\", dst = \"node0.nic0\", bytes = \"8 MiB\" },
        { src = \"node2.nic0\", dst = \"node0.nic0\", bytes = \"8 MiB\" },
        { src = \"node1.nic0\", dst = \"node0.nic0\", bytes = \"8 MiB\", class = \"storage\" },
        { src = \"node2.nic0\", dst = \"node0.nic0\", bytes = \"8 MiB\", class = \"storage\", rate_control = \"dctcp\" },
    ]";
    let settings =
        [list, "transport.class.1.lossless=false", "transport.buffer.size=\"2 MiB\"", "transport.rto=\"500 us\""];
    let report = play(TWO, &settings);
    assert!(report.results.transfers.len() == 4, "{:?}", report.results.engine);
    let transport = report.results.transport.unwrap();
    let [train, storage] = &transport.classes[..] else { panic!("{:?}", transport.classes) };
    assert!(train.lossless && train.drops == 0 && train.pauses > 0, "{train:?}");
    assert!(!storage.lossless && storage.drops > 0 && storage.pauses == 0, "{storage:?}");
    assert_eq!(report.results.transfers.len(), 4);
    // What was dropped was sent again, and nothing else.
    let again: Vec<bool> = report.results.transfers.iter().map(|t| t.retransmitted.unwrap() > 0).collect();
    assert!(!again[0] && !again[1] && again[2], "{again:?}");
    assert_eq!(transport.totals.headroom_drops, 0);
    // What took the time is told of the last flows, not of all.
    let rare = play(TWO, &[&settings[..3], &["transport.rto=\"67 ms\""]].concat());
    assert!(rare.headline.contains("Bottleneck: timeouts of the 2 last flows (1 of 67 ms in 67"), "{}", rare.headline);
}

/// Acknowledgements in a class that is dropped: who waits for them asks again.
#[test]
fn acknowledgements_may_be_lost() {
    let list = "workload.0.list=[
        { src = \"node1.nic0\", dst = \"node0.nic0\", bytes = \"4 MiB\" },
        { src = \"node0.nic0\", dst = \"node1.nic0\", bytes = \"4 MiB\" },
        { src = \"node2.nic0\", dst = \"node1.nic0\", bytes = \"8 MiB\", class = \"storage\" },
        { src = \"node3.nic0\", dst = \"node1.nic0\", bytes = \"8 MiB\", class = \"storage\" },
    ]";
    let settings = [
        list,
        "transport.class.1.lossless=false",
        "transport.buffer.size=\"2 MiB\"",
        "transport.rto=\"200 us\"",
        "transport.control_class=storage",
    ];
    let report = play(TWO, &settings);
    assert_eq!(report.results.transfers.len(), 4, "{:?}", report.results.engine);
    let transport = report.results.transport.unwrap();
    assert!(transport.classes[1].drops > 0, "{:?}", transport.totals);
    assert_eq!(transport.classes[0].drops, 0);
}

/// A tree of congestion through two switches: node0 sends from the first to node7 at the second, where three more do. The victim
/// shares the way between the switches and goes to an idle port.
const TREE: &str = "
system = \"hgx-h100\"
nodes = 8
gpus_per_node = 1
nics = \"1x400Gb/s\"
[fabric]
kind = \"leaf-spine\"
leaves = 2
spines = 1
oversubscription = 4.0
link_latency = \"100 ns\"
[transport]
preset = \"ib-ndr\"
inputs = \"round-robin\"
[[transport.class]]
name = \"bulk\"
[[transport.class]]
name = \"urgent\"
[[workload]]
kind = \"transfer\"
list = [
  { src = \"node1.nic0\", dst = \"node6.nic0\", bytes = \"8 MiB\", class = \"bulk\" },
  { src = \"node0.nic0\", dst = \"node7.nic0\", bytes = \"24 MiB\" },
  { src = \"node4.nic0\", dst = \"node7.nic0\", bytes = \"24 MiB\" },
  { src = \"node5.nic0\", dst = \"node7.nic0\", bytes = \"24 MiB\" },
  { src = \"node6.nic0\", dst = \"node7.nic0\", bytes = \"24 MiB\" },
]
";

#[test]
fn a_victim_has_the_blocked_share_on_the_same_lane_and_its_own_on_another() {
    for (class, share) in [("bulk", 0.25), ("urgent", 0.75)] {
        let report = play(TREE, &[&format!("workload.0.list.0.class={class}"), "transport.class.1.weight=3"]);
        let victim = &report.results.transfers[0];
        let line = 2048.0 * 4122.0 / 50_000.0;
        near(victim.time_us, line / share, 0.05);
        report.results.transfers[1..].iter().for_each(|hot| near(hot.time_us, 4.0 * 3.0 * line, 0.05));
        let transport = report.results.transport.unwrap();
        // Held on the same lane it is a victim of the port to node7.
        let victims: Vec<_> = transport.victims.iter().map(|v| (v.from.as_str(), v.root.as_deref())).collect();
        match class {
            "bulk" => assert!(victims.contains(&("node1.nic0", Some("leaf1->node7.nic0"))), "{victims:?}"),
            _ => assert!(victims.iter().all(|(from, _)| *from != "node1.nic0"), "{victims:?}"),
        }
    }
}

/// Four flows hashed on to few of the uplinks; one of them on a way of its own.
#[test]
fn single_transfers_have_their_own_control_and_paths() {
    let two = |second: &str| {
        let list = format!(
            "workload.0.list=[
                {{ src = \"node1.nic0\", dst = \"node0.nic0\", bytes = \"16 MiB\" }},
                {{ src = \"node2.nic0\", dst = \"node0.nic0\", bytes = \"16 MiB\"{second} }},
            ]"
        );
        let report = play(TWO, &[&list, "transport.ecn.marking=red"]);
        report.results.transfers.iter().map(|t| t.time_us).collect::<Vec<_>>()
    };
    let alike = two("");
    near(alike[0], alike[1], 0.01);
    // The one that slows down for marks leaves the port to the one that does not.
    let other = two(", rate_control = \"dcqcn\"");
    assert!(other[0] < 0.75 * other[1], "{other:?}");
    // So does one with a window, where the other fills the queue.
    let windowed = two(", rate_control = \"fixed\"");
    assert!(windowed[0] < 0.75 * windowed[1], "{windowed:?}");
    let fabric = ["fabric.kind=leaf-spine", "fabric.leaves=2", "fabric.spines=2"];
    let list = "workload.0.list=[
        { src = \"node0.nic0\", dst = \"node2.nic0\", bytes = \"16 MiB\" },
        { src = \"node1.nic0\", dst = \"node3.nic0\", bytes = \"16 MiB\", path_choice = \"spray\" },
    ]";
    let spread = list.replace("path_choice = \"spray\"", "qps = 16");
    for list in [list, &spread] {
        let report = play(TWO, &[&fabric[..], &[list]].concat());
        let used = |from: &str| {
            let up = report
                .results
                .links
                .iter()
                .filter(|l| l.link.starts_with(from) && l.link.contains("spine") && l.bytes > 0);
            up.count()
        };
        assert!(used("leaf0->") == 2, "both ways up are taken");
    }
}

/// All to all over a dragonfly with shallow lanes.
const DRAGONFLY: &str = "
system = \"hgx-h100\"
nodes = 24
gpus_per_node = 1
nics = \"1x400Gb/s\"
[fabric]
kind = \"dragonfly\"
dragonfly = { p = 2, a = 4, h = 1, groups = 3 }
link_latency = \"100 ns\"
[transport]
preset = \"ib-ndr\"
credits.per_lane = \"32 KiB\"
[[workload]]
kind = \"transfer\"
pattern = \"all_to_all\"
endpoints = \"nics\"
size = \"256 KiB\"
";

#[test]
fn lanes_keep_dragonflies_from_waiting_in_circles() {
    let one = play(DRAGONFLY, &["transport.lanes=1"]);
    let stopped = one.results.transport.as_ref().unwrap();
    assert!(!stopped.deadlock.is_empty(), "one lane runs into a circle");
    for settings in [&[][..], &["transport.path_choice=adaptive"], &["transport.control_class=data"]] {
        let two = play(DRAGONFLY, settings);
        let transport = two.results.transport.as_ref().unwrap();
        assert!(transport.deadlock.is_empty(), "{settings:?}");
        assert_eq!(two.results.transfers.len(), 24 * 23);
        // Both lanes carry, and links between groups the first alone.
        let lanes = |name: &str| -> Vec<Option<u8>> {
            let link = two.results.links.iter().find(|l| l.link.starts_with(name)).unwrap();
            link.classes.iter().map(|c| c.lane).collect()
        };
        assert_eq!(lanes("leaf0->leaf1"), [Some(0), Some(1)], "{settings:?}");
        let parameter = transport.parameters.iter().find(|p| p.name == "lanes").unwrap();
        assert_eq!((parameter.value.as_str(), parameter.origin.as_str()), ("2", "default"));
    }
}

fn codes(text: &str, settings: &[&str]) -> Vec<Code> {
    match load(text, settings) {
        Ok(loaded) => loaded.diagnostics.list.iter().map(|d| d.code).collect(),
        Err(faults) => faults.list.iter().map(|d| d.code).collect(),
    }
}

/// A buffer for headroom of 10 MB at the four inputs of one class, and not of two.
const SIZE: &str = "transport.buffer.size=\"64 MB\"";

#[test]
fn what_contradicts_itself_is_refused() {
    let refused: &[(&[&str], Code)] = &[
        (&["transport.class.1.name=train"], Code::BadName),
        (&["transport.class.1.name=express"], Code::BadName),
        (&["workload.0.list.1.class=storrage"], Code::UnknownChoice),
        (&["workload.0.class=none"], Code::UnknownChoice),
        (&["transport.control_class=storrage"], Code::UnknownChoice),
        (&["transport.class.0.weight=0"], Code::OutOfRange),
        (&["transport.class.0.weight=1001"], Code::OutOfRange),
        (&["transport.class.0.priority=8"], Code::OutOfRange),
        (&["transport.flow_control=drop", "transport.class.0.lossless=true"], Code::OtherFlowControl),
        (&["transport.preset=ib-ndr", "transport.class.0.lossless=false"], Code::OtherFlowControl),
        (&["transport.class.0.credits=\"16 KiB\""], Code::OtherFlowControl),
        (&["transport.preset=ib-ndr", "transport.class.0.credits=\"1 KiB\""], Code::BufferTooSmall),
        (&["transport.preset=ib-ndr", "transport.class.0.credits=\"1 GiB\""], Code::BufferTooSmall),
        (&["transport.class.0.ecn={ marking = \"red\", kmin = \"2 MB\", kmax = \"1 MB\" }"], Code::BadThresholds),
        (&["workload.0.path_choice=destination"], Code::NotOverPackets),
        (&["workload.0.path_choice=adaptive", "workload.0.recovery=go-back-n"], Code::ReorderedPaths),
        // Headroom and reserve are set aside for each lossless class: one of them fits, two don't.
        (&[SIZE, "transport.pfc.headroom=\"10 MB\""], Code::BufferOvercommitted),
        (&["transport.class=[{ weight = 2 }]"], Code::MissingKey),
    ];
    for (settings, code) in refused {
        let found = codes(TWO, settings);
        assert!(found.contains(code), "{settings:?}: {found:?}");
        let none = codes(TWO, &[]);
        assert!(!none.contains(code), "{none:?}");
    }
    let one = codes(TWO, &[SIZE, "transport.pfc.headroom=\"10 MB\"", "transport.class.1.lossless=false"]);
    assert!(!one.contains(&Code::BufferOvercommitted), "{one:?}");
    let nine: Vec<String> = (0..9).map(|n| format!("{{ name = \"c{n}\" }}")).collect();
    let nine = format!("transport.class=[{}]", nine.join(", "));
    assert!(codes(TWO, &[&nine, "workload.0.list.1.class=c1"]).contains(&Code::OutOfRange));
    let five: Vec<String> = (0..5).map(|n| format!("{{ name = \"c{n}\" }}")).collect();
    let five = format!("transport.class=[{}]", five.join(", "));
    assert!(codes(DRAGONFLY, &[&five, "transport.lanes=2"]).contains(&Code::OutOfRange));
}

#[test]
fn what_has_no_effect_is_told() {
    let told: &[(&str, &[&str], Code)] = &[
        (TWO, &["workload.0.list.1.class=train"], Code::NoEffect),
        (TWO, &["transport.class.1.ecn.threshold=\"1 MB\""], Code::NoEffect),
        (TWO, &["transport.lanes=2"], Code::NoEffect),
        (TWO, &["workload.0.rate_control=dctcp", "transport.ecn.marking=off"], Code::DeafControl),
        (TWO, &["transport.class.1.lossless=false"], Code::Unprotected),
        (
            "system = \"hgx-h100\"\nnodes = 2\n[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\n",
            &["workload.0.class=x"],
            Code::NoEffect,
        ),
    ];
    for (text, settings, code) in told {
        let found = codes(text, settings);
        assert!(found.contains(code), "{settings:?}: {found:?}");
    }
    assert!(codes(TWO, &[]).is_empty(), "{:?}", codes(TWO, &[]));
    let deeper = codes(DRAGONFLY, &["transport.credits.per_lane=\"64 KiB\""]);
    assert!(deeper.is_empty(), "{deeper:?}");
}

/// Two collectives at the same time in classes of their own: the one with nine tenths of the weight is slowed less.
#[test]
fn collectives_have_classes() {
    let text = "
system = \"hgx-h100\"
nodes = 4
gpus_per_node = 1
nics = \"1x400Gb/s\"
[fabric]
kind = \"single-switch\"
[transport]
preset = \"roce-400g\"
rate_control = \"none\"
[[transport.class]]
name = \"a\"
weight = 9
[[transport.class]]
name = \"b\"
[[workload]]
kind = \"collective\"
op = \"all_reduce\"
sizes = [\"16 MiB\"]
[[workload]]
kind = \"collective\"
op = \"all_reduce\"
sizes = [\"16 MiB\"]
with_previous = true
class = \"b\"
";
    let times = |settings: &[&str]| -> Vec<f64> {
        play(text, settings).results.collectives.iter().map(|c| c.time_us).collect()
    };
    let apart = times(&[]);
    let alike = times(&["workload.1.class=a"]);
    assert!(apart[0] < 0.75 * apart[1], "{apart:?}");
    near(alike[0], alike[1], 0.1);
}

/// Training and storage to one port, workloads of their own.
const BESIDE: &str = "
system = \"hgx-h100\"
nodes = 4
gpus_per_node = 1
nics = \"1x400Gb/s\"
[fabric]
kind = \"single-switch\"
link_latency = \"1 us\"
[transport]
preset = \"roce-400g\"
rate_control = \"none\"
[[transport.class]]
name = \"train\"
[[transport.class]]
name = \"storage\"
[[workload]]
name = \"training\"
kind = \"transfer\"
list = [{ src = \"node1.nic0\", dst = \"node0.nic0\", bytes = \"16 MiB\" }]
[[workload]]
name = \"storage\"
kind = \"transfer\"
list = [
  { src = \"node2.nic0\", dst = \"node0.nic0\", bytes = \"24 MiB\" },
  { src = \"node3.nic0\", dst = \"node0.nic0\", bytes = \"24 MiB\" },
]
";

/// In one class the three messages have a third of the port each, in two the classes have what their turns give them.
#[test]
fn workloads_of_transfers_overlap() {
    let measured = |settings: &[&str]| {
        let loaded = load(BESIDE, settings).map_err(|faults| format!("{faults:?}")).unwrap();
        let report = loaded.run().unwrap();
        let measures = fabricsim::simulate::seeds::measures(&loaded, &report);
        let names: Vec<&str> = measures.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["slowest of training", "slowest of storage", "median of storage"]);
        let times: Vec<f64> = report.results.transfers.iter().map(|t| t.time_us).collect();
        assert_eq!(measures[0].1, times[0]);
        assert_eq!((measures[1].1, measures[2].1), (times[1].max(times[2]), times[1].min(times[2])));
        let whose: Vec<Option<String>> = report.results.transfers.iter().map(|t| t.workload.clone()).collect();
        ([measures[0].1, measures[1].1], whose, report.headline)
    };
    let mib = |n: f64| n * 256.0 * 4178.0 / 50_000.0 + 2.5;
    let (alone, whose, _) = measured(&[]);
    near(alone[0], mib(16.0), 0.01);
    near(alone[1], mib(48.0), 0.01);
    assert_eq!(whose, [None, None, None]);
    let beside = "workload.1.with_previous=true";
    let (alike, whose, headline) = measured(&[beside]);
    near(alike[0], mib(48.0), 0.05);
    near(alike[1], mib(64.0), 0.01);
    assert_eq!(whose, [Some("training"), Some("storage"), Some("storage")].map(|name| name.map(str::to_owned)));
    assert!(headline.starts_with("transfers `training` with transfers `storage`: 3 messages in"), "{headline}");
    let turns = [("transport.class.0.weight=3", 16.0 * 4.0 / 3.0), ("transport.class.0.priority=1", 16.0)];
    for (turn, training) in turns {
        let (apart, ..) = measured(&[beside, "workload.1.class=storage", turn]);
        near(apart[0], mib(training), 0.01);
        near(apart[1], mib(64.0), 0.01);
    }
    // What starts later than all else ends later; its time counts from its start.
    let late = ["workload.1.list.0.start=\"5 ms\"", "workload.1.list.1.start=\"5 ms\""];
    let (late, ..) = measured(&[&late[..], &[beside]].concat());
    near(late[0], alone[0], 1e-9);
    near(late[1], alone[1], 1e-9);
}

#[test]
fn transfers_run_with_transfers_alone() {
    let refused = |work: &str, part: &str| {
        let faults = load(&format!("system = \"hgx-h100\"\n{work}"), &[]).unwrap_err();
        assert_eq!(faults.list.iter().map(|d| d.code).collect::<Vec<_>>(), [Code::OutOfRange], "{faults:?}");
        assert!(faults.list[0].message.contains(part) && !faults.list[0].help.is_empty(), "{faults:?}");
    };
    let transfers = "[[workload]]\nkind = \"transfer\"\npattern = \"shift\"\nsize = \"1 MiB\"\n";
    let collective = "[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nsizes = [\"1 MiB\"]\n";
    let joined = "with_previous = true\n";
    refused(&format!("{transfers}{joined}"), "there are no transfers before these");
    refused(&format!("{collective}{transfers}{joined}"), "transfers can't run with the collective before them");
    refused(&format!("{transfers}{collective}{joined}"), "a collective can't run with the transfers before it");
    // Faults of the workload before are told alone.
    let faulty = collective.replace("1 MiB", "x");
    assert!(!codes(&format!("system = \"hgx-h100\"\n{faulty}{collective}{joined}"), &[]).contains(&Code::OutOfRange));
}
