//! `bench` and `run`: what bundled scenarios promise, exit codes, artifacts, and that results depend on nothing but the
//! scenario and the seed.

mod cli_common;

use std::fs;
use std::path::Path;
use std::process::Command;

use cli_common::{Ran, fabricsim, fabricsim_in};
use serde_json::Value;

/// A line `# expect ARGS: PATH = VALUE +- PERCENT %` of a scenario's header; with `expect-large` it is only checked on
/// request, since it takes long.
#[derive(Debug)]
struct Expectation {
    large: bool,
    args: Vec<String>,
    path: String,
    value: f64,
    tolerance: f64,
}

fn expectations(text: &str) -> Vec<Expectation> {
    let parse = |line: &str| {
        let (large, rest) = match line.strip_prefix("# expect-large") {
            Some(rest) => (true, rest),
            None => (false, line.strip_prefix("# expect")?),
        };
        let (args, rest) = rest.rsplit_once(": ").unwrap_or_else(|| panic!("no colon in {line}"));
        let (path, rest) = rest.split_once(" = ").unwrap_or_else(|| panic!("no value in {line}"));
        let (value, tolerance) = rest.split_once(" +- ").unwrap_or_else(|| panic!("no tolerance in {line}"));
        // `--set` takes all up to the next one: values may have blanks.
        let settings = args.split("--set ").skip(1).flat_map(|s| ["--set".to_owned(), s.trim().to_owned()]);
        Some(Expectation {
            large,
            args: settings.collect(),
            path: path.to_owned(),
            value: value.parse().unwrap(),
            tolerance: tolerance.trim_end_matches(" %").parse().unwrap(),
        })
    };
    text.lines().filter_map(parse).collect()
}

fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |v, part| match part.parse::<usize>() {
        Ok(index) => &v[index],
        Err(_) => &v[part],
    })
}

fn check_expectations(large: bool) {
    let mut checked = 0;
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let list = expectations(&fs::read_to_string(&path).unwrap());
        assert!(list.iter().any(|e| !e.large), "{path:?} promises nothing that is checked");
        let mut runs: Vec<(Vec<String>, Value)> = Vec::new();
        for e in list.iter().filter(|e| e.large == large) {
            if !runs.iter().any(|(args, _)| *args == e.args) {
                let mut args = vec!["run", path.to_str().unwrap(), "--format", "json"];
                args.extend(e.args.iter().map(String::as_str));
                runs.push((e.args.clone(), fabricsim(&args).json()));
            }
            let results = &runs.iter().find(|(args, _)| *args == e.args).unwrap().1["results"];
            let found = at(results, &e.path).as_f64().unwrap_or_else(|| panic!("{path:?}: no number at {}", e.path));
            let off = (found - e.value).abs();
            assert!(off <= e.value.abs() * e.tolerance / 100.0, "{path:?}: {} is {found}: {e:?}", e.path);
            checked += 1;
        }
    }
    assert!(checked > 1, "{checked}");
}

#[test]
fn bundled_scenarios_keep_what_their_headers_promise() {
    check_expectations(false);
}

/// `cargo test --release --test cli_run -- --ignored`
#[test]
#[ignore = "some minutes without --release"]
fn large_bundled_scenarios_keep_what_their_headers_promise() {
    check_expectations(true);
}

/// A run's JSON without the one field that may differ.
fn settled(mut value: Value) -> String {
    let engine = value["results"]["engine"].as_object_mut().unwrap();
    assert!(engine.remove("wall_s").is_some_and(|wall| wall.is_number()));
    serde_json::to_string_pretty(&value).unwrap()
}

fn with_threads(threads: &str, args: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_fabricsim"))
        .args(args)
        .env("RAYON_NUM_THREADS", threads)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn results_are_equal_run_by_run_and_for_any_number_of_threads() {
    for args in [
        &["bench", "all_reduce", "--system", "hgx-h100", "--nodes", "2", "-e", "16M", "--format", "json"][..],
        &["run", "scenarios/rail-4x8.toml", "--set", "workload.0.sizes=[\"4 MiB\", \"8 MiB\"]", "--format", "json"],
        &["run", "scenarios/alltoall-1024.toml", "--set", "nodes=4", "--format", "json"],
    ] {
        let first = settled(with_threads("1", args).json());
        for threads in ["1", "2", "5"] {
            assert_eq!(settled(with_threads(threads, args).json()), first, "{threads} threads: {args:?}");
        }
    }
    // The text has no field of the clock at all.
    let text = &["run", "scenarios/one-transfer.toml"];
    assert_eq!(with_threads("1", text).out, with_threads("2", text).out);
}

#[test]
fn what_comes_again_is_the_same_unplayed() {
    for op in
        [&["all_reduce", "--nodes", "2"][..], &["all_reduce"], &["all_gather"], &["all_reduce", "--algorithm", "tree"]]
    {
        let base =
            [&["bench"][..], op, &["--system", "hgx-h100", "-b", "64M", "-e", "8G", "-f", "128", "--format", "json"]];
        let mut fast = fabricsim(&base.concat()).json();
        let mut whole = fabricsim(&[&base.concat()[..], &["--no-fast-forward"]].concat()).json();
        let take = |value: &mut serde_json::Value| value["results"]["engine"]["fast_forwarded"].take();
        let (ahead, none) = (take(&mut fast), take(&mut whole));
        let hops = fast["results"]["engine"]["segment_hops"].as_u64().unwrap();
        assert!(ahead["segment_hops"].as_u64().unwrap() * 4 > hops, "{op:?}: {ahead} of {hops}");
        assert_eq!(none["periods"], 0);
        assert_eq!(settled(fast), settled(whole), "{op:?}");
    }
}

#[test]
fn calls_of_nothing_take_their_launch_unplayed_too() {
    let base =
        ["bench", "all_gather", "--system", "hgx-h100", "--nodes", "2", "-b", "7", "-e", "7", "--format", "json"];
    let fast = fabricsim(&base).json();
    assert_eq!(settled(fabricsim(&[&base[..], &["--no-fast-forward"]].concat()).json()), settled(fast.clone()));
    assert!(fast["results"]["collectives"][0]["time_us"].as_f64().unwrap() > 5.0, "{fast}");
}

#[test]
fn the_seed_moves_what_is_random_and_nothing_else() {
    let run = |scenario: &str, seed: &str| {
        let value = fabricsim(&["run", scenario, "--set", "nodes=4", "--seed", seed, "--format", "json"]).json();
        value["results"]["engine"]["fingerprint"].as_str().unwrap().to_owned()
    };
    let fixed = "scenarios/incast-8to1.toml";
    assert_eq!(run(fixed, "1"), run(fixed, "2"));
    let hashed = "scenarios/alltoall-1024.toml";
    let hash = |seed: &str| {
        let args = ["--set", "nodes=4", "--set", "transport.path_choice=hash", "--seed", seed, "--format", "json"];
        let value = fabricsim(&[&["run", hashed][..], &args].concat()).json();
        value["results"]["engine"]["fingerprint"].as_str().unwrap().to_owned()
    };
    assert_eq!(hash("7"), hash("7"));
    assert_ne!(hash("7"), hash("8"));
}

#[test]
fn all_to_all_on_rails_takes_the_time_of_the_nics() {
    // Each of 32 ranks sends 31 messages of m = 32 MiB, 24 of them to other nodes: 24 m over 50 GB/s.
    let ideal = 24.0 * f64::from(32 << 20) / 50e9 * 1e6;
    for pxn in ["true", "false"] {
        let set = format!("software.pxn={pxn}");
        let value = fabricsim(&["run", "scenarios/rail-4x8.toml", "--set", &set, "--format", "json"]).json();
        let row = &value["results"]["collectives"][1];
        let ratio = row["time_us"].as_f64().unwrap() / ideal;
        assert!((1.0..1.05).contains(&ratio), "pxn {pxn}: {ratio}");
        assert!(row["bottleneck"].as_str().unwrap().contains("nic"), "{row}");
        // Without PXN the messages that cross rails cross spines.
        let links = value["results"]["links"].as_array().unwrap();
        let spines: u64 = links.iter().filter(|l| l["class"] == "uplink").map(|l| l["bytes"].as_u64().unwrap()).sum();
        assert_eq!(spines > 0, pxn == "false");
    }
}

#[test]
fn four_on_one_uplink_get_a_quarter_each() {
    let value = fabricsim(&["run", "scenarios/pcie-shared-uplink.toml", "--format", "json"]).json();
    let rate = |i: usize| value["results"]["transfers"][i]["GBps"].as_f64().unwrap();
    for i in 1..5 {
        assert!((rate(i) / rate(0) * 4.0 - 1.0).abs() < 0.01, "{} of {}", rate(i), rate(0));
    }
    let text = fabricsim(&["run", "scenarios/pcie-shared-uplink.toml"]);
    let first = text.out.lines().next().unwrap();
    assert!(first.contains("4 messages") && first.contains("node0.pcie0->node0.socket0, busy"), "{first}");
}

#[test]
fn json_has_the_fields_of_the_contract() {
    let args = ["bench", "all_reduce", "--system", "hgx-h100", "--nodes", "2", "-b", "8", "-e", "1M", "-f", "8"];
    let value = fabricsim(&[&args[..], &["--format", "json"]].concat()).json();
    for key in ["schema_version", "tool_version", "scenario", "seed", "warnings", "results"] {
        assert!(value.get(key).is_some(), "{key}");
    }
    let rows = value["results"]["collectives"].as_array().unwrap();
    let sizes: Vec<u64> = rows.iter().map(|r| r["bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [8, 64, 512, 4096, 32768, 262_144]);
    for row in rows {
        for key in ["op", "algorithm", "protocol", "bottleneck"] {
            assert!(row[key].is_string(), "{key}: {row}");
        }
        let (time, algbw, busbw) = (&row["time_us"], &row["algbw_GBps"], &row["busbw_GBps"]);
        let expected = row["bytes"].as_f64().unwrap() / time.as_f64().unwrap() / 1e3;
        assert!((algbw.as_f64().unwrap() / expected - 1.0).abs() < 1e-9, "{row}");
        assert!((busbw.as_f64().unwrap() / expected / 1.875 - 1.0).abs() < 1e-9, "{row}");
    }
    let link = &value["results"]["links"][0];
    for key in ["link", "class", "bytes", "utilization", "peak_queue_bytes", "ecn_marked", "pfc_pause_us", "drops"] {
        assert!(link.get(key).is_some(), "{key}: {link}");
    }
    for key in ["events", "segment_hops", "wall_s", "fingerprint", "peak_pending"] {
        assert!(value["results"]["engine"].get(key).is_some(), "{key}");
    }
}

#[test]
fn settings_of_the_library_change_what_runs() {
    let bench = |args: &[&str]| {
        let base = ["bench", "all_reduce", "--system", "hgx-h100", "--nodes", "2", "-b", "64M", "-e", "64M", "-q"];
        let value = fabricsim(&[&base[..], args, &["--format", "json"]].concat()).json();
        let row = &value["results"]["collectives"][0];
        (row["algorithm"].as_str().unwrap().to_owned(), row["time_us"].as_f64().unwrap())
    };
    assert_eq!(bench(&[]).0, "nvls_tree");
    let (ring, time) = bench(&["--env", "NCCL_ALGO=Ring"]);
    assert_eq!(ring, "ring");
    assert!(time < 2000.0, "{time}");
    // With NICs of 5 GB/s they bind: 2 x 15/16 of the bytes over 8 of them, of which messages fill 0.968.
    let ideal = f64::from(64 << 20) * 2.0 * 15.0 / 16.0 / (40e9 * 0.968) * 1e6;
    let slow = bench(&["--env", "NCCL_ALGO=Ring", "--nics", "8x40Gb/s"]).1;
    assert!((1.0..1.06).contains(&(slow / ideal)), "{slow}, and {ideal} at the NICs' rate");
    let slow = bench(&["--set", "profile.launch.kernel_us=1000"]).1;
    assert!(slow > 1000.0, "{slow}");
    let group = ["--set", "workload.0.group=[0,1,2,3]"];
    let value = fabricsim(
        &[
            &["run", "scenarios/hgx-h100-2node.toml", "--format", "json"][..],
            &group,
            &["--set", "workload.0.max=1 KiB"],
        ]
        .concat(),
    )
    .json();
    let links = value["results"]["links"].as_array().unwrap();
    assert!(links.iter().filter(|l| l["class"] == "network").all(|l| l["bytes"] == 0));
}

#[test]
fn explain_tells_of_every_combination() {
    let args = ["bench", "all_reduce", "--system", "hgx-a100", "-b", "1M", "-e", "2M", "--explain"];
    let text = fabricsim(&args);
    assert!(text.out.contains("needs compute capability 9.0"), "{}", text.out);
    let value = fabricsim(&[&args[..], &["--format", "json"]].concat()).json();
    let explain = value["results"]["explain"].as_array().unwrap();
    assert_eq!(explain.len(), 2);
    for size in explain {
        let candidates = size["candidates"].as_array().unwrap();
        assert_eq!(candidates.len(), 21);
        assert_eq!(candidates.iter().filter(|c| c["chosen"] == true).count(), 1);
        assert!(candidates.iter().all(|c| c["predicted_us"].is_number() != c["reason"].is_string()), "{size}");
    }
}

#[test]
fn nccl_columns_are_those_of_nccl_tests() {
    let ran = fabricsim(&[
        "bench",
        "all_gather",
        "--system",
        "hgx-h100",
        "-b",
        "1K",
        "-e",
        "1M",
        "-f",
        "4",
        "--table",
        "nccl",
    ]);
    let log = sim_report::nccl_log::read(ran.out.as_bytes()).unwrap();
    let table = &log.tables[0];
    assert_eq!((table.ranks, table.rows.len()), (Some(8), 6));
    assert_eq!(table.operation.map(|op| op.name()), Some("all_gather"));
    assert!(log.warnings.is_empty(), "{:?}", log.warnings);
}

#[test]
fn the_header_of_nccl_columns_tells_the_calls_that_were_played() {
    let header = |op: &str| {
        let args =
            ["bench", op, "--system", "hgx-h100", "-b", "8", "-e", "8", "-w", "5", "-n", "50", "--table", "nccl"];
        let out = fabricsim(&args).out;
        out.lines().find(|l| l.contains("warmup iters")).unwrap().to_owned()
    };
    assert!(header("all_reduce").contains("warmup iters: 1 iters: 2 "), "{}", header("all_reduce"));
    assert!(header("sendrecv").contains("warmup iters: 1 iters: 20 "), "{}", header("sendrecv"));
}

#[test]
fn limits_stop_a_run_and_keep_what_is_complete() {
    let ran = fabricsim(&["run", "scenarios/hgx-h100-2node.toml", "--set", "limits.events=2000", "--format", "json"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains("E070") && ran.err.contains("limit of events"), "{}", ran.err);
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["results"]["engine"]["stopped"], "event_limit");
    let rows = value["results"]["collectives"].as_array().unwrap().len();
    assert!((1..31).contains(&rows), "{rows}");
    let ran =
        fabricsim(&["run", "scenarios/pcie-shared-uplink.toml", "--set", "limits.time=10 ms", "--format", "json"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["results"]["transfers"].as_array().unwrap().len(), 1);
}

#[test]
fn requests_that_cannot_be_are_usage_errors() {
    let bench = |args: &[&str]| fabricsim(&[&["bench"][..], args].concat());
    bench(&["all_reduce"]).fails(2, &["which cluster?"]);
    bench(&["foo"]).fails(2, &["unknown operation `foo`", "all_reduce"]);
    let json = ["all_reduce", "--system", "hgx-h100", "--table", "nccl", "--format", "json"];
    bench(&json).fails(2, &["E080", "--table nccl", "--format json"]);
    bench(&["all_redcue", "--system", "hgx-h100"]).fails(2, &["did you mean `all_reduce`?"]);
    bench(&["alltoall", "--system", "hgx-h100", "--algorithm", "one_shot"])
        .fails(2, &["E040", "one_shot does not do alltoall here"]);
    bench(&["all_reduce", "--system", "hgx-h100", "-b", "8x"]).fails(2, &["-b", "known here: K, M, G, T"]);
    bench(&["all_reduce", "--system", "hgx-h100", "--nics", "8"]).fails(2, &["E018", "--nics 8x400Gb/s: eight"]);
    bench(&["all_reduce", "--system", "hgx-h100", "-b", "8M", "-e", "8K"]).fails(2, &["begins at", "ends at"]);
    bench(&["all_gather", "--system", "hgx-h100", "--env", "NCCL_ALGO=Tree"])
        .fails(2, &["E040", "excluded by NCCL_ALGO"]);
    bench(&["all_reduce", "--system", "hgx-h100", "--set", "profile.launch.kernl_us=1"])
        .fails(2, &["E050", "did you mean `launch.kernel_us`?"]);
    fabricsim(&["run", "scenarios/none.toml"]).fails(2, &["E001"]);
    let inert = bench(&["all_reduce", "--system", "hgx-h100", "-e", "8", "--env", "NCCL_TOPO_DUMP_FILE=x"]);
    assert!(inert.code == 0 && inert.err.contains("W010"), "{inert:?}");
}

#[test]
fn what_run_refuses_check_refuses_at_its_place() {
    let dir = tempfile::tempdir().unwrap();
    for (system, keys, place, part, help) in [
        ("hgx-a100", "op = \"all_reduce\"\nalgorithm = \"nvls\"", ":6:13", "NVSwitches", Some("leave `algorithm` out")),
        (
            "hgx-h100",
            "op = \"all_reduce\"\nalgorithm = \"one_shot\"",
            ":6:13",
            "one_shot",
            Some("leave `algorithm` out"),
        ),
        (
            "hgx-h100",
            "op = \"all_gather\"\nprotocol = \"LL\"\nalgorithm = \"tree\"",
            ":7:13",
            "tree",
            Some("`protocol`"),
        ),
    ] {
        let text = format!("system = \"{system}\"\nnodes = 2\n[[workload]]\nkind = \"collective\"\n{keys}\n");
        fs::write(dir.path().join("s.toml"), text).unwrap();
        for verb in ["check", "run"] {
            let ran = fabricsim_in(dir.path(), &[verb, "s.toml"]);
            ran.fails(2, &["E040", place, part]);
            assert_eq!(ran.err.contains("leave "), help.is_some(), "{}", ran.err);
            assert!(help.is_none_or(|help| ran.err.contains(help)), "{}", ran.err);
        }
    }
}

#[test]
fn utilization_counts_from_the_first_start() {
    let run = |start: &str| {
        let set = format!("workload.0.start={start}");
        let value = fabricsim(&["run", "scenarios/incast-8to1.toml", "--set", &set, "--format", "json"]).json();
        let links = value["results"]["links"].as_array().unwrap().clone();
        links.iter().map(|l| l["utilization"].as_f64().unwrap()).fold(0.0, f64::max)
    };
    let (at_once, late) = (run("0 us"), run("1 s"));
    assert!(at_once > 0.5 && (late / at_once - 1.0).abs() < 1e-6, "{late}, and {at_once} at once");
}

#[test]
fn the_end_of_simulated_time_is_no_deadlock() {
    let work =
        "workload=[{ kind = \"transfer\", list = [{ src = 0, dst = 8, bytes = \"10 GB\", start = \"18446744 s\" }] }]";
    let ran = fabricsim(&["run", "scenarios/hgx-h100-2node.toml", "--set", work, "--format", "json"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains("E070") && ran.err.contains("2^64 ps") && !ran.err.contains("deadlock"), "{}", ran.err);
}

#[test]
fn artifacts_are_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/one-transfer.toml");
    let run = |args: &[&str]| fabricsim_in(dir.path(), &[&["run", scenario.to_str().unwrap()][..], args].concat());
    assert_eq!(run(&["--out", "a/b"]).code, 0);
    let read = |name: &str| fs::read_to_string(dir.path().join("a/b").join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("result.json")).unwrap();
    assert_eq!(json["results"]["transfers"].as_array().unwrap().len(), 2);
    assert!(read("links.csv").starts_with("link,class,bytes,"));
    assert_eq!(read("transfers.csv").lines().count(), 3);
    assert!(read("chart.svg").contains("<svg"));
    let before = read("result.json");
    run(&["--out", "a/b", "--seed", "5"]).fails(2, &["E081", "result.json", "--force"]);
    assert_eq!(read("result.json"), before);
    assert_eq!(run(&["--out", "a/b", "--seed", "5", "--force"]).code, 0);
    assert_ne!(read("result.json"), before);
    fs::write(dir.path().join("file"), "x").unwrap();
    run(&["--out", "file"]).fails(2, &["E082"]);
    run(&["--out", "file/under"]).fails(2, &["E082"]);
    run(&["--out", "/proc/none"]).fails(2, &["E082"]);
    // A folder in the place of an artifact is found before the run, which would take its time for nothing.
    fs::create_dir_all(dir.path().join("blocked/result.json")).unwrap();
    run(&["--out", "blocked", "--force"]).fails(2, &["E082", "result.json"]);
}

#[test]
fn nothing_of_an_earlier_run_is_left_among_a_new_one_s_files() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    for stale in ["compare.csv", "chart.svg", "notes.txt"] {
        fs::write(out.join(stale), "old").unwrap();
    }
    let bench = ["bench", "all_reduce", "--system", "hgx-h100", "-b", "8", "-e", "8", "--out", "out"];
    // Stopped before anything is complete, so that there is no chart.
    let stopped = ["--set", "limits.events=1", "--force"];
    assert_eq!(fabricsim_in(dir.path(), &[&bench[..], &stopped].concat()).code, 4);
    assert!(out.join("result.json").exists());
    assert!(!out.join("compare.csv").exists() && !out.join("chart.svg").exists());
    assert_eq!(fs::read_to_string(out.join("notes.txt")).unwrap(), "old");
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_what_is_complete() {
    use std::process::Stdio;
    use std::time::Duration;
    // One thread: the largest size, which comes first, is under way when the signal comes.
    let child = Command::new(env!("CARGO_BIN_EXE_fabricsim"))
        .args([
            "bench",
            "all_reduce",
            "--system",
            "hgx-h100",
            "--nodes",
            "32",
            "-b",
            "1G",
            "-e",
            "64G",
            "--format",
            "json",
        ])
        .env("RAYON_NUM_THREADS", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["results"]["engine"]["stopped"], "interrupted");
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"));
}

#[test]
fn a_cluster_can_be_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["topo", "--system", "hgx-h100", "--nodes", "2", "--plot", "a.svg"];
    assert_eq!(fabricsim_in(dir.path(), &args).code, 0);
    assert!(fs::read_to_string(dir.path().join("a.svg")).unwrap().contains("<title>node0.gpu7</title>"));
    fabricsim_in(dir.path(), &args).fails(2, &["E081", "--force"]);
    fabricsim_in(dir.path(), &[&args[..5], &["--node", "2", "--plot", "b.svg"]].concat()).fails(2, &["no node 2"]);
}

#[test]
fn a_nic_of_two_ports_sends_on_both() {
    // 800 Gb/s as two ports of 400 Gb/s, each in a plane of its own.
    for kind in ["multi-plane", "rail-optimized"] {
        let flags = ["--system", "hgx-b300", "--transport", "roce", "--fabric", kind, "--format", "json"];
        let ran = fabricsim(&[&["run", "scenarios/one-transfer.toml"], &flags[..]].concat()).json();
        let transfers = ran["results"]["transfers"].as_array().unwrap();
        let rate = transfers.iter().map(|t| t["GBps"].as_f64().unwrap()).fold(0.0, f64::max);
        assert!((rate / 97.9 - 1.0).abs() < 0.01, "{kind}: {rate}");
    }
}
