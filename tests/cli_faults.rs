//! Faults on the command line: what they change, what they cost, what is refused.

mod cli_common;

use cli_common::fabricsim;

const TWO: &[&str] = &["--system", "hgx-h100", "--nodes", "2"];

fn with<'a>(verb: &[&'a str], faults: &[&'a str]) -> Vec<&'a str> {
    let faults = faults.iter().flat_map(|fault| ["--fault", fault]);
    verb.iter().copied().chain(faults).collect()
}

#[test]
fn a_transfer_over_half_a_link_takes_twice_its_time_on_the_wire() {
    let run =
        |faults: &[&str]| fabricsim(&with(&["run", "scenarios/one-transfer.toml", "--format", "json"], faults)).json();
    let time = |v: &serde_json::Value| v["results"]["transfers"][1]["time_us"].as_f64().unwrap();
    let (well, half) = (run(&[]), run(&["node0.nic0->leaf0 factor=0.5"]));
    assert!((time(&half) / time(&well) - 2.0).abs() < 0.001, "{} {}", time(&well), time(&half));
    assert_eq!(half["results"]["healthy"]["longest_transfer_us"], well["results"]["transfer_totals"]["longest_us"]);
    assert_eq!(half["results"]["faults"][0]["what"], "25.0 of 50.0 GB/s");
    assert!(well["results"].get("faults").is_none() && well["results"].get("healthy").is_none());
    // The other way is not slower.
    assert_eq!(time(&run(&["leaf0->node0.nic0 factor=0.5"])), time(&well));
    // Latency is added once.
    let late = run(&["node0.nic0->leaf0 added_latency=7us"]);
    assert!((time(&late) - time(&well) - 7.0).abs() < 1e-6);
}

#[test]
fn the_first_lines_name_what_binds() {
    let ran = fabricsim(&["run", "scenarios/slow-link.toml"]);
    assert_eq!(ran.code, 0);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].contains("Bottleneck: node0.nic2->leaf2 (25.0 of 50.0 GB/s), busy"), "{}", lines[0]);
    assert_eq!(lines[2], "fault: degraded node0.nic2<->leaf2: 25.0 of 50.0 GB/s");
    assert!(lines[3].contains("without the faults") && lines[3].contains(" (+2"), "{}", lines[3]);
    let ran = fabricsim(&["run", "scenarios/straggler.toml"]);
    let first = ran.out.lines().next().unwrap();
    assert!(first.contains("All ranks wait for the straggler node0.gpu3. +"), "{}", ran.out);
    assert!(first.ends_with(" % against the healthy fabric."), "{}", ran.out);
    let alone = ["run", "scenarios/straggler.toml", "--set", "workload.0.group=[0,1]"];
    let ran = fabricsim(&alone);
    assert!(ran.err.contains("takes no part in a collective") && !ran.out.contains("wait for"), "{ran:?}");
    let ran = fabricsim(&["run", "scenarios/straggler.toml", "--without-faults"]);
    assert!(!ran.out.contains("fault") && !ran.out.contains("straggler node"), "{}", ran.out);
}

#[test]
fn a_delay_holds_every_rank_for_as_long() {
    let time = |faults: &[&str]| {
        let verb = &["bench", "all_reduce", "-b", "8", "-e", "8", "--system", "hgx-h100", "--format", "json"];
        fabricsim(&with(verb, faults)).json()["results"]["collectives"][0]["time_us"].as_f64().unwrap()
    };
    let (well, late) = (time(&[]), time(&["node0.gpu3 delay=50us"]));
    assert!((late - well - 50.0).abs() < 0.5, "{well} {late}");
}

#[test]
fn path_marks_the_link() {
    let ran = fabricsim(&with(&[&["path"], TWO, &["node0.gpu2", "node1.gpu2"]].concat(), &["*->leaf2 factor=0.25"]));
    let marked: Vec<&str> = ran.out.lines().filter(|l| l.contains("fault:")).collect();
    assert_eq!(marked.len(), 1, "{}", ran.out);
    assert!(marked[0].starts_with("node0.nic2") && marked[0].contains("12.5 of 50.0 GB/s"), "{}", marked[0]);
}

#[test]
fn what_cannot_be_is_refused_at_its_place() {
    for (fault, parts) in [
        ("node0.nic9 factor=0.5", &["E022", "--fault:1:1", "did you mean `node0.nic0`?"][..]),
        ("node0.nic2 factor=2", &["E016", "--fault:1:19"]),
        ("node0.nic2 fator=0.5", &["E050", "did you mean `factor`?"]),
        ("factor=2", &["E080", "no target"]),
        ("", &["E080"]),
        ("node0.nic2 broken", &["E080", "kinds: "]),
        ("leaf0 slowdown=2", &["E035", "only GPUs straggle"]),
        ("node0.nic1 down_for=2us every=1us", &["E016", "never be up"]),
        ("node0.nic1 down_for=2us every=1us first=x", &["first"]),
        ("node0.nic1 factor=0.5 rate=25GB/s", &["E035"]),
        ("node0.nic1 rate=60GB/s", &["E016", "50 GB/s"]),
        ("node0.nic1 bit_error_rate=1e-9 packet_loss=0.1", &["E030"]),
        ("node0.nic1", &["E011"]),
        ("node0.nic1 pick=3 factor=0.5", &["E016", "3 of 1"]),
    ] {
        fabricsim(&with(&[&["topo"], TWO].concat(), &[fault])).fails(2, parts);
    }
    // All at once.
    let two = ["node0.nic9 factor=0.5", "leaf99 factor=0.5"];
    fabricsim(&with(&[&["topo"], TWO].concat(), &two)).fails(2, &["node0.nic9", "leaf99"]);
}

#[test]
fn topo_says_what_changes() {
    let four = &["topo", "--system", "hgx-h100", "--nodes", "4", "--format", "json"];
    let report = fabricsim(&with(four, &["node0.nic2 dead", "node3.nic2 swap=node3.nic5"])).json();
    let effects = &report["results"]["fault_effects"];
    assert_eq!(report["results"]["faults"].as_array().unwrap().len(), 2);
    assert_eq!(effects["nics"][0], "node0.gpu2: nic0 in place of nic2");
    assert!(effects["rails_broken"].as_u64().unwrap() > 0);
    let all = |key: &str| effects[key].as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum::<u64>();
    assert_eq!((all("pairs_before"), all("pairs_after")), (32 * 31, 32 * 31));
    assert_eq!(report["results"]["pairs"], effects["pairs_after"]);
    let text = fabricsim(&with(&["topo", "scenarios/lost-spine.toml"], &[]));
    assert!(text.out.contains("\nfaults\n  dead spine0: 1 device dead\n"), "{}", text.out);
    assert!(text.out.contains("oversubscription 1.00:1 -> 1.33:1"), "{}", text.out);
    assert!(!fabricsim(&["topo", "--system", "hgx-h100"]).out.contains("faults"));
}

#[test]
fn dead_gpus_and_partitions_are_refused_by_name() {
    let bench = &["bench", "all_reduce", "-b", "1M", "-e", "1M", "--system", "hgx-h100", "--nodes", "2"];
    fabricsim(&with(bench, &["node0.gpu5 dead"])).fails(2, &["E037", "node0.gpu5"]);
    fabricsim(&with(bench, &["leaf* dead"]))
        .fails(2, &["E036", "no way from", "node0.gpu0 to node1.gpu0", "and 125 more"]);
    fabricsim(&with(bench, &["node0.nic0 dead", "node0.nic0 factor=0.5"])).fails(2, &["E035", "dead by another fault"]);
    let ran = fabricsim(&with(bench, &["node0.nic3 dead", "node1.gpu2<->node1.nvswitch links=17"]));
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn the_kind_may_be_bare_or_a_key() {
    let four = &["topo", "scenarios/rail-4x8.toml"];
    let out = |fault: &str| {
        let ran = fabricsim(&with(four, &[fault]));
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    };
    let bare = out("spine0 dead");
    assert!(bare.contains("dead spine0"), "{bare}");
    for fault in ["spine0 kind=dead", "spine0 kind=\"dead\""] {
        assert_eq!(out(fault), bare);
    }
    out("node* kind=acs");
    fabricsim(&with(four, &["spine0 kind=ded"])).fails(2, &["`ded` is no kind of fault"]);
}

#[test]
fn a_pattern_is_checked_for_its_means() {
    let check = |via: &str| {
        let work = format!("workload=[{{kind=\"transfer\",pattern=\"shift\",size=\"1 MiB\",via=\"{via}\"}}]");
        fabricsim(&["run", "scenarios/rail-4x8.toml", "--set", &work])
    };
    check("gdrcopy").fails(2, &["E032", "32 of the 32 pairs"]);
    check("nvlink").fails(2, &["E032", "node0.gpu7 to node1.gpu0", "4 of the 32 pairs"]);
}

#[test]
fn the_fault_that_cuts_is_pointed_at() {
    let bench = &["bench", "all_reduce", "-b", "1M", "-e", "1M", "--system", "hgx-h100", "--nodes", "2"];
    fabricsim(&with(bench, &["node0.nic3 dead", "leaf* dead", "node1.nic2 dead"])).fails(2, &["E036", "leaf* dead"]);
}

#[test]
fn a_straggler_starts_its_transfers_late() {
    let run = |fault: &str| {
        let ran = fabricsim(&["run", "scenarios/one-transfer.toml", "--fault", fault, "--format", "json"]);
        ran.json()["results"]["transfer_totals"]["longest_us"].as_f64().unwrap()
    };
    let (well, late) = (run("node0.gpu0 delay=0us"), run("node0.gpu0 delay=50us"));
    assert!((late - well - 50.0).abs() < 1e-6, "{well} {late}");
}

#[test]
fn faults_that_no_message_meets_are_told() {
    let warned = |fault: &str| {
        let ran = fabricsim(&["run", "scenarios/one-transfer.toml", "--fault", fault, "--format", "json"]);
        let json = ran.json();
        let list = json["warnings"].as_array().cloned().unwrap_or_default();
        list.iter()
            .filter(|w| w["code"] == "W015")
            .map(|w| w["message"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for (fault, why) in [
        ("node1.nic5 factor=0.5", "no message crosses it"),
        ("node1.nic5 down_for=1us", "no message crosses it"),
        ("node0.nic0 down_for=1us first=1s", "no message has to wait"),
        ("node0.nic4 dead", "no message would cross it"),
        ("node0.gpu4 delay=5us", "it begins nothing here"),
        ("node1.nic3 swap=node1.nic6", "no message crosses these cables"),
    ] {
        let list = warned(fault);
        assert!(list.len() == 1 && list[0].contains(why), "{fault}: {list:?}");
    }
    for fault in ["node0.nic0 factor=0.5", "node0.nic0 dead", "node0.gpu0 delay=5us"] {
        assert!(warned(fault).is_empty(), "{fault}: {:?}", warned(fault));
    }
}

#[test]
fn the_library_sees_a_loss_on_whichever_node_it_is() {
    let bench = |fault: &str| {
        let verb = &[
            "bench",
            "all_reduce",
            "-b",
            "1M",
            "-e",
            "1M",
            "--system",
            "hgx-h100",
            "--nodes",
            "3",
            "--format",
            "json",
        ];
        let row = fabricsim(&with(verb, &[fault])).json()["results"]["collectives"][0].clone();
        (row["algorithm"].clone(), row["protocol"].clone(), row["channels"].clone())
    };
    for loss in ["nic2 dead", "gpu2 links=9", "nvswitch dead"] {
        assert_eq!(bench(&format!("node0.{loss}")), bench(&format!("node2.{loss}")), "{loss}");
    }
}
