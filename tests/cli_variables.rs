//! NCCL's variables from the command line: what each does to the prediction, and which of them do nothing.

mod cli_common;

use cli_common::fabricsim;
use serde_json::Value;

/// A bench of one size, without and with a variable.
struct Case {
    bench: &'static str,
    env: &'static str,
    /// What the row has with the variable and not without it, as (field, value).
    row: &'static [(&'static str, &'static str)],
    /// The least and the greatest ratio of the time with it to the time without.
    ratio: (f64, f64),
}

const fn case(
    bench: &'static str,
    env: &'static str,
    row: &'static [(&'static str, &'static str)],
    ratio: (f64, f64),
) -> Case {
    Case { bench, env, row, ratio }
}

const ANY: (f64, f64) = (0.0, f64::INFINITY);
const FASTER: (f64, f64) = (0.0, 0.99);
const SLOWER: (f64, f64) = (1.01, f64::INFINITY);

/// Two racks' worth of A100 nodes whose flows are hashed over eight uplinks a leaf.
const HASHED: &str = "all_gather 512M --system hgx-a100 --nodes 16 --fabric leaf-spine --set fabric.leaves=8";

/// One line a variable. The bounds are those of the mechanism: so many fewer channels, so much more on a link.
const CASES: &[Case] = &[
    case("all_reduce 64M --system hgx-h100 --nodes 2", "NCCL_ALGO=Ring", &[("algorithm", "ring")], ANY),
    case(
        "all_reduce 64M --system hgx-h100 --nodes 2",
        "NCCL_ALGO=allreduce:^nvlstree,ring",
        &[("algorithm", "tree")],
        ANY,
    ),
    case("all_reduce 64K --system hgx-h100 --nodes 2", "NCCL_PROTO=LL128", &[("protocol", "LL128")], SLOWER),
    case(
        "all_reduce 64K --system hgx-h100 --nodes 2",
        "NCCL_PROTO=allreduce:^LL;allgather:LL",
        &[("protocol", "LL128")],
        SLOWER,
    ),
    // Each thread block moves a bounded rate: channels are bandwidth.
    case("all_gather 256M --system hgx-h100 --nodes 2", "NCCL_MIN_NCHANNELS=32", &[("channels", "32")], FASTER),
    case("all_gather 256M --system hgx-h100 --nodes 2", "NCCL_MAX_NCHANNELS=4", &[("channels", "4")], (3.0, 4.0)),
    case("all_gather 256M --system hgx-h100 --nodes 2", "NCCL_MIN_CTAS=32", &[("channels", "32")], FASTER),
    case("all_reduce 256M --system hgx-h100 --nodes 2", "NCCL_MAX_CTAS=4", &[("channels", "4")], (3.0, 4.0)),
    case("all_gather 256M --system hgx-h100 --nodes 2", "NCCL_MAX_NRINGS=4", &[("channels", "4")], (3.0, 4.0)),
    case("all_gather 64K --system hgx-h100", "NCCL_NTHREADS=128", &[("channels", "8")], ANY),
    case(
        "all_gather 1M --system hgx-h100 --nodes 2 --env NCCL_PROTO=LL128",
        "NCCL_LL128_NTHREADS=128",
        &[],
        (1.0001, 1.1),
    ),
    // Smaller buffers: the round trip of a slice bounds the rate, and each chunk has its fixed cost.
    case("all_gather 256M --system hgx-h100 --nodes 2", "NCCL_BUFFSIZE=1M", &[], (1.02, 1.5)),
    case("all_gather 16M --system hgx-h100 --nodes 2 --env NCCL_PROTO=LL", "NCCL_LL_BUFFSIZE=64K", &[], SLOWER),
    case("all_gather 4M --system hgx-h100 --nodes 2 --env NCCL_PROTO=LL128", "NCCL_LL128_BUFFSIZE=128K", &[], SLOWER),
    // LL128 through another GPU's NIC only with it.
    case("all_gather 1M --system hgx-h100 --nodes 2", "NCCL_LL128_C2C=0", &[("protocol", "LL")], ANY),
    // A dear network makes rings of Simple look worst.
    case("all_gather 256M --system hgx-h100 --nodes 2", "NCCL_NET_OVERHEAD=100000", &[("protocol", "LL128")], ANY),
    case("all_reduce 256M --system hgx-h100", "NCCL_NVLS_ENABLE=0", &[("algorithm", "ring")], SLOWER),
    case("all_reduce 256M --system hgx-h100", "NCCL_NVLS_NCHANNELS=8", &[("channels", "8")], (1.6, 2.0)),
    case("all_reduce 1G --system hgx-h100", "NCCL_NVLS_CHUNKSIZE=32K", &[], SLOWER),
    case("all_reduce 1G --system hgx-h100 --nodes 2", "NCCL_NVLSTREE_MAX_CHUNKSIZE=32K", &[], SLOWER),
    case(
        "all_gather 64K --system hgx-h100 --gpus-per-node 1 --nodes 8",
        "NCCL_PAT_ENABLE=0",
        &[("algorithm", "ring")],
        ANY,
    ),
    case("all_reduce 256M --system hgx-h100 --nodes 4", "NCCL_COLLNET_ENABLE=1", &[("algorithm", "nvls")], FASTER),
    case(
        "all_reduce 256M --system hgx-h100 --nodes 4 --env NCCL_COLLNET_ENABLE=1",
        "NCCL_COLLNET_NODE_THRESHOLD=8",
        &[("algorithm", "nvls_tree")],
        SLOWER,
    ),
    // Rings that may change NIC need no relay; those that may not, and have none, go back through the host.
    case("all_gather 64K --system hgx-h100 --nodes 4", "NCCL_CROSS_NIC=1", &[], (0.9, 0.99)),
    case(
        "all_gather 256M --system hgx-h100 --nodes 4 --env NCCL_PXN_DISABLE=1",
        "NCCL_CROSS_NIC=0",
        &[("channels", "2")],
        (4.0, 9.0),
    ),
    // 7 of 8 messages leave the rail, over uplinks of half the rate.
    case(
        "alltoall 256M --system hgx-h100 --nodes 8 --set fabric.oversubscription=2 --set fabric.leaves=8",
        "NCCL_PXN_DISABLE=1",
        &[],
        (1.5, 1.8),
    ),
    case(
        "alltoall 256M --system hgx-h100 --nodes 8 --set fabric.oversubscription=2 --set fabric.leaves=8",
        "NCCL_P2P_PXN_LEVEL=0",
        &[],
        (1.5, 1.8),
    ),
    // Every GPU has a NIC near by, so that no path needs a relay.
    case(
        "alltoall 256M --system hgx-h100 --nodes 8 --set fabric.oversubscription=2 --set fabric.leaves=8",
        "NCCL_P2P_PXN_LEVEL=1",
        &[],
        (1.5, 1.8),
    ),
    case("sendrecv 2G --system hgx-h100", "NCCL_MIN_P2P_NCHANNELS=64", &[("channels", "64")], ANY),
    case("sendrecv 256M --system hgx-h100", "NCCL_MAX_P2P_NCHANNELS=2", &[("channels", "2")], (6.0, 8.5)),
    case(
        "sendrecv 256M --system hgx-h100 --gpus-per-node 1 --nodes 2",
        "NCCL_NCHANNELS_PER_NET_PEER=1",
        &[("channels", "1")],
        (2.0, 4.0),
    ),
    case("alltoall 256M --system hgx-h100 --nodes 2", "NCCL_P2P_PER_CHANNEL_NET_BW=2", &[("channels", "8")], ANY),
    case("alltoall 256M --system hgx-h100 --nodes 2", "NCCL_P2P_NET_CHUNKSIZE=512K", &[], (1.01, 1.2)),
    case("alltoall 64M --system pcie-l40s-8", "NCCL_P2P_PCI_CHUNKSIZE=512K", &[("channels", "1")], ANY),
    case("alltoall 16M --system hgx-h100", "NCCL_P2P_NVL_CHUNKSIZE=16K", &[], (1.05, 2.0)),
    case("alltoall 64K --system hgx-h100", "NCCL_P2P_LL_THRESHOLD=0", &[("protocol", "Simple")], ANY),
    // Host memory and two more crossings of PCIe.
    case("all_gather 256M --system hgx-h100 --nodes 2", "NCCL_NET_GDR_LEVEL=LOC", &[], (1.5, 6.0)),
    case("all_gather 256M --system hgx-h100 --nodes 2", "NCCL_IB_GDR_LEVEL=0", &[], (1.5, 6.0)),
    case("all_reduce 64M --system pcie-l40s-8", "NCCL_P2P_LEVEL=LOC", &[], (2.0, 10.0)),
    case("all_reduce 64M --system pcie-l40s-8", "NCCL_P2P_DISABLE=1", &[], (2.0, 10.0)),
    case("all_reduce 64M --system hgx-h100", "NCCL_P2P_DISABLE=1", &[("algorithm", "ring")], (5.0, 150.0)),
    // Each queue pair, or socket, is a flow of its own to the hash.
    case("HASHED --transport roce", "NCCL_IB_QPS_PER_CONNECTION=4", &[], (0.5, 0.75)),
    case(
        "HASHED --transport roce --env NCCL_IB_QPS_PER_CONNECTION=4",
        "NCCL_IB_SPLIT_DATA_ON_QPS=1",
        &[],
        (0.9, 0.995),
    ),
    // Where a message and its signal are one, those of a queue pair follow each other.
    case("all_gather 8M --system hgx-b200 --nodes 2", "NCCL_IB_ADAPTIVE_ROUTING=0", &[], (0.4, 0.9)),
    case("all_gather 8M --system hgx-b200 --nodes 2", "NCCL_IB_AR_THRESHOLD=1048576", &[], (0.4, 0.9)),
    case("HASHED --transport tcp --nics 8x50Gb/s", "NCCL_SOCKET_NTHREADS=4", &[], (0.5, 0.75)),
    case("HASHED --transport tcp --nics 8x50Gb/s", "NCCL_NSOCKS_PERTHREAD=4", &[], (0.5, 0.75)),
    // No shared memory: what can't reach each other directly goes out to the leaf and back, past the memory that all share.
    case(
        "all_reduce 16M --system pcie-l40s-8 --nodes 2 --nics 4x100Gb/s --env NCCL_P2P_DISABLE=1",
        "NCCL_SHM_DISABLE=1",
        &[],
        (0.2, 0.95),
    ),
    case("all_reduce 64M --system hgx-h100 --nodes 2", "NCCL_IB_DISABLE=1", &[], SLOWER),
    case("all_reduce 64M --system hgx-h100 --nodes 2", "NCCL_NET=Socket", &[], SLOWER),
    // Two trays are two nodes, joined by their NICs.
    case("all_reduce 64M --system nvl72-gb200 --nodes 2", "NCCL_MNNVL_ENABLE=0", &[("algorithm", "tree")], SLOWER),
];

/// Known, and nothing that is simulated depends on them.
const IDLE: &[&str] = &["NCCL_P2P_SCHEDULE_GROUP_SIZE"];

fn bench(bench: &str, env: Option<&str>) -> (Value, Vec<String>) {
    let text = bench.replace("HASHED", HASHED);
    let mut words: Vec<&str> = text.split(' ').collect();
    let size = words.remove(1);
    let mut args = vec!["bench"];
    args.extend(words);
    args.extend(["-b", size, "-e", size, "--format", "json"]);
    args.extend(env.iter().flat_map(|env| ["--env", env]));
    let json = fabricsim(&args).json();
    let warnings = json["warnings"].as_array().unwrap().iter();
    let warnings = warnings.map(|w| format!("{} {}", w["code"], w["message"])).collect();
    (json["results"]["collectives"][0].clone(), warnings)
}

fn field(row: &Value, name: &str) -> String {
    row[name].as_str().map_or_else(|| row[name].to_string(), str::to_owned)
}

#[test]
fn each_variable_does_what_it_does_in_nccl() {
    let mut faults = Vec::new();
    for Case { bench: what, env, row, ratio } in CASES {
        let (without, _) = bench(what, None);
        let (with, warnings) = bench(what, Some(env));
        for (name, value) in *row {
            if field(&with, name) != *value || field(&without, name) == *value {
                faults.push(format!("{what} {env}: {name} is not {value} by it: {without} {with}"));
            }
        }
        let got = with["time_us"].as_f64().unwrap() / without["time_us"].as_f64().unwrap();
        if !(ratio.0..=ratio.1).contains(&got) {
            faults.push(format!("{what} {env}: {got}, not {ratio:?}"));
        }
        if row.is_empty() && (got - 1.0).abs() < 1e-5 {
            faults.push(format!("{what} {env}: no effect"));
        }
        if warnings.iter().any(|w| w.contains("W010") && w.contains(env.split('=').next().unwrap_or(env))) {
            faults.push(format!("{what} {env}: {warnings:?}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_known_variable_has_a_case() {
    for knob in sim_collectives::nccl::Knob::ALL {
        let cases = CASES.iter().any(|c| c.env.split('=').next() == Some(knob.name()));
        assert_eq!(cases, !IDLE.contains(&knob.name()), "{}", knob.name());
    }
}

#[test]
fn variables_without_effect_are_named_with_the_reason() {
    for (what, env, why) in [
        ("all_reduce 1M --system hgx-h100", "NCCL_CROSS_NIC=1", "all ranks are on one node"),
        ("all_reduce 1M --system hgx-h100 --nodes 2", "NCCL_SHM_DISABLE=1", "reach each other directly"),
        ("all_reduce 1M --system hgx-h100 --nodes 2", "NCCL_SOCKET_NTHREADS=2", "the transport is infiniband"),
        (
            "all_reduce 1M --system hgx-h100 --nodes 2 --transport tcp",
            "NCCL_IB_QPS_PER_CONNECTION=2",
            "the transport is tcp",
        ),
        ("all_reduce 1M --system hgx-h100 --nodes 2 --transport efa", "NCCL_IB_DISABLE=1", "no InfiniBand"),
        ("all_reduce 1M --system hgx-a100", "NCCL_NVLS_ENABLE=1", "no NVSwitch multicast"),
        (
            "sendrecv 1M --system hgx-h100 --nodes 2",
            "NCCL_P2P_SCHEDULE_GROUP_SIZE=4",
            "nothing that is simulated depends on it",
        ),
        ("all_reduce 1M --system hgx-h100", "NCCL_DEBUG=INFO", "nothing in the model looks at it"),
        ("all_reduce 1M --system hgx-h100 --nccl 2.23", "NCCL_PROTO=allreduce:LL", "since NCCL 2.24"),
    ] {
        let (row, warnings) = bench(what, Some(env));
        let name = env.split('=').next().unwrap();
        let named = warnings.iter().any(|w| w.contains("W010") && w.contains(name) && w.contains(why));
        assert!(named, "{what} {env}: {warnings:?}");
        if !why.contains("2.24") {
            assert_eq!(row, bench(what, None).0, "{what} {env}");
        }
    }
}

#[test]
fn the_best_of_all_ways_is_found_and_written_for_the_tuner() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tuner.conf");
    let path = file.to_str().unwrap();
    let base =
        ["bench", "all_reduce", "--system", "hgx-h100", "--nodes", "2", "-b", "64K", "-e", "4M", "-f", "8", "--quiet"];
    let run = |more: &[&str]| fabricsim(&[&base[..], more].concat());
    let json = run(&["--best", "--tuner", path, "--format", "json"]).json();
    let list = json["results"]["best"].as_array().unwrap();
    assert_eq!(list.len(), 3);
    for (b, row) in list.iter().zip(json["results"]["collectives"].as_array().unwrap()) {
        assert_eq!((&b["bytes"], &b["nccl"]["time_us"]), (&row["bytes"], &row["time_us"]));
        let time = |way: &Value| way["time_us"].as_f64().unwrap();
        let fastest = b["tried"].as_array().unwrap().iter().map(time).fold(f64::INFINITY, f64::min);
        assert!(time(&b["best"]) <= fastest * 1.006, "{b}");
        assert!((b["saved"].as_f64().unwrap() - (1.0 - time(&b["best"]) / time(&b["nccl"]))).abs() < 1e-9);
        // What is best by itself is best when it is forced.
        let (a, p) = (field(&b["best"], "algorithm"), field(&b["best"], "protocol"));
        let size = b["bytes"].to_string();
        let env = format!("NCCL_PROTO={p}");
        let forced = [
            "bench",
            "all_reduce",
            "--system",
            "hgx-h100",
            "--nodes",
            "2",
            "-b",
            &size,
            "-e",
            &size,
            "--format",
            "json",
        ];
        let forced = fabricsim(&[&forced[..], &["--algorithm", &a, "--env", &env, "--quiet"]].concat()).json();
        if b["best"]["most_channels"].is_null() {
            assert_eq!(time(&forced["results"]["collectives"][0]), time(&b["best"]), "{b}");
        }
    }
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().filter(|l| !l.starts_with('#')).map(|l| l.split(',').collect()).collect();
    assert!(
        !lines.is_empty()
            && lines.iter().all(|l| l.len() == 10 && l[0] == "allreduce" && l[6..] == ["2", "16", "-1", "-1"])
    );
    assert_eq!((lines[0][1], lines[lines.len() - 1][2]), ("65536", "4194304"));
    for pair in lines.windows(2) {
        assert_eq!(pair[0][2].parse::<u64>().unwrap() + 1, pair[1][1].parse::<u64>().unwrap(), "{text}");
    }
    // The file, read back, gives the best at every size.
    let config = format!("NCCL_TUNER_CONFIG_FILE={path}");
    let tuned =
        run(&["--env", &config, "--env", "NCCL_TUNER_PLUGIN=libnccl-tuner-example.so", "--format", "json"]).json();
    for (b, row) in list.iter().zip(tuned["results"]["collectives"].as_array().unwrap()) {
        assert_eq!((&row["algorithm"], &row["time_us"]), (&b["best"]["algorithm"], &b["best"]["time_us"]), "{row}");
    }
    assert_eq!(tuned["warnings"].as_array().unwrap().len(), 0);
    run(&["--env", "NCCL_TUNER_CONFIG_FILE=none.conf"]).fails(2, &["cannot read `none.conf`"]);
    std::fs::write(dir.path().join("bad.conf"), "allreduce,0,1,rong,ll,-1,-1,-1\n").unwrap();
    let bad = format!("NCCL_TUNER_CONFIG_FILE={}", dir.path().join("bad.conf").display());
    run(&["--env", &bad]).fails(2, &["example tuner plugin", "line 1", "rong"]);
    run(&["--tuner", path]).fails(2, &["exists already", "--force"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    assert_eq!(run(&["--tuner", path, "--force"]).code, 0);
    for (args, part) in [
        (&["bench", "alltoall", "--system", "hgx-h100", "--best"][..], "--best=all"),
        (&["bench", "alltoall", "--system", "hgx-h100", "--tuner", "x"][..], "no tuner file"),
        (&["bench", "all_reduce", "--system", "hgx-h100", "--best=all", "--tuner", "x"][..], "no tuner file"),
        (&["bench", "all_reduce", "--system", "hgx-h100", "--algorithm", "ring", "--best"][..], "--algorithm"),
    ] {
        fabricsim(args).fails(2, &[part]);
    }
    let own = [
        "bench",
        "alltoall",
        "--system",
        "hgx-h100",
        "--nodes",
        "4",
        "-b",
        "64K",
        "-e",
        "64K",
        "--best=all",
        "--format",
        "json",
    ];
    let best = fabricsim(&own).json()["results"]["best"][0].clone();
    let played = best["tried"].as_array().unwrap().len() as u64 + best["slower"].as_u64().unwrap();
    assert!(played >= 2 && best["nccl"]["algorithm"] == "pairwise", "{best}");
}

#[test]
fn explain_says_what_the_others_would_have_taken() {
    let base = ["bench", "all_reduce", "--system", "hgx-h100", "--nodes", "2", "-b", "1M", "-e", "1M", "--quiet"];
    let one = fabricsim(&[&base[..], &["--explain", "--format", "json"]].concat()).json();
    let e = &one["results"]["explain"][0];
    let offered: Vec<&Value> =
        e["candidates"].as_array().unwrap().iter().filter(|c| c["predicted_us"].is_number()).collect();
    assert!(offered.len() >= 6 && offered.iter().all(|c| c["simulated_us"].as_f64().unwrap() > 0.0), "{e}");
    let chosen = offered.iter().find(|c| c["chosen"] == true).unwrap();
    assert_eq!(chosen["simulated_us"], one["results"]["collectives"][0]["time_us"]);
    let text = fabricsim(&[&base[..], &["--explain"]].concat()).out;
    assert!(text.contains("NCCL's model") && text.contains("simulated"), "{text}");
    let model = fabricsim(&[&base[..], &["--explain=model", "--format", "json"]].concat()).json();
    assert!(model["results"]["explain"][0]["candidates"][0]["simulated_us"].is_null());
}
