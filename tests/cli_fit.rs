//! `fit`: known values come back, what can't be told is refused, the file is taken, bad input.

mod cli_common;

use std::fs;
use std::path::Path;

use cli_common::{Ran, fabricsim_in};
use serde_json::Value;

/// Predictions on 8 H100 with these parameters, in nccl-tests' columns, as a measurement with noise: row i is off by
/// `noise` times a number that looks random.
fn log(dir: &Path, name: &str, op: &str, sizes: [&str; 3], profile: &[(&str, f64)], noise: f64) {
    let [begin, end, factor] = sizes;
    let mut args = vec!["bench", op, "--system", "hgx-h100", "-b", begin, "-e", end, "-f", factor, "--table", "nccl"];
    let set: Vec<String> = profile.iter().map(|(key, value)| format!("profile.{key}={value}")).collect();
    for set in &set {
        args.extend(["--set", set]);
    }
    let ran = fabricsim_in(dir, &args);
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut state = 1u64;
    let mut lines = Vec::new();
    for line in ran.out.lines() {
        let mut cells: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        if cells.len() == 13 && cells[0].parse::<u64>().is_ok() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let factor = 1.0 + noise * ((state >> 40) as f64 / f64::from(1u32 << 23) - 1.0);
            for (column, by) in [(5, factor), (6, 1.0 / factor), (7, 1.0 / factor)] {
                for column in [column, column + 4] {
                    cells[column] = format!("{:.3}", cells[column].parse::<f64>().unwrap() * by);
                }
            }
            lines.push(cells.join("  "));
        } else {
            lines.push(line.to_owned());
        }
    }
    fs::write(dir.join(name), lines.join("\n") + "\n").unwrap();
}

fn fit(dir: &Path, args: &[&str]) -> Ran {
    fabricsim_in(dir, &[&["fit"][..], args, &["--system", "hgx-h100"]].concat())
}

fn parameter<'v>(value: &'v Value, name: &str) -> &'v Value {
    let list = value["results"]["parameters"].as_array().unwrap();
    list.iter().find(|p| p["name"] == name).unwrap_or_else(|| panic!("{name}: {value}"))
}

const TRUE: &[(&str, f64)] =
    &[("launch.kernel_us", 6.0), ("nvlink.ll_us", 0.3), ("nvls.loop_us", 6.0), ("nvls.rate_gbps", 15.0)];

#[test]
fn a_log_of_another_generation_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let log = |gpu: &str| {
        format!(
            "# Collective test starting: all_reduce_perf\n# Using devices\n\
             #  Rank  0 Group  0 Pid   1 on host0 device  0 [0000:00:00] {gpu}\n\
             #  Rank  1 Group  0 Pid   2 on host0 device  1 [0000:01:00] {gpu}\n\
             4096 1024 float sum -1 15.60 0.26 0.26 0 15.50 0.26 0.26 0\n"
        )
    };
    fs::write(dir.path().join("x.txt"), log("NVIDIA B200")).unwrap();
    fit(dir.path(), &["x.txt", "--parameters", "launch.kernel_us"])
        .fails(2, &["E080", "NVIDIA B200", "Blackwell", "Hopper", "--system hgx-b200"]);
    // Another chip of the same generation is warned of.
    fs::write(dir.path().join("x.txt"), log("NVIDIA H200")).unwrap();
    let ran = fit(dir.path(), &["x.txt", "--parameters", "launch.kernel_us"]);
    assert!(ran.err.contains("W032") && !ran.err.contains("generation"), "{ran:?}");
}

#[test]
fn known_values_come_back_within_their_intervals() {
    let dir = tempfile::tempdir().unwrap();
    log(dir.path(), "ar.txt", "all_reduce", ["8", "1G", "2"], TRUE, 0.02);
    log(dir.path(), "sr.txt", "sendrecv", ["8", "16K", "2"], TRUE, 0.02);
    let names = "launch.kernel_us,nvlink.ll_us,nvls.loop_us,nvls.rate_gbps";
    let ran = fit(dir.path(), &["ar.txt", "sr.txt", "--parameters", names, "--format", "json", "--out", "p.toml"]);
    let value = ran.json();
    for (name, truth) in TRUE {
        let p = parameter(&value, name);
        let (low, high) = (p["low"].as_f64().unwrap(), p["high"].as_f64().unwrap());
        let error = p["standard_error"].as_f64().unwrap();
        // Four values: the 90 % interval of one may miss, but not by much.
        assert!(low - error <= *truth && *truth <= high + error, "{name}: {truth}: {p}");
        assert!((p["value"].as_f64().unwrap() / truth - 1.0).abs() < 0.1, "{name}: {p}");
        assert!(p["before"].as_f64() != p["value"].as_f64(), "{p}");
    }
    assert!(value["results"]["scatter"].as_f64().unwrap() < 0.02, "{}", value["results"]["scatter"]);
    assert_eq!(value["results"]["correlations"].as_array().unwrap().len(), 6);
    assert_eq!(value["results"]["held_out"].as_array().unwrap().len(), 2);
    // What the fit wrote makes the predictions that it promised, and counts as fitted.
    let file = fs::read_to_string(dir.path().join("p.toml")).unwrap();
    assert!(file.contains("origin = \"fitted\"") && file.contains("ar.txt, sr.txt"), "{file}");
    let compare = ["compare", "ar.txt", "--system", "hgx-h100", "--format", "json"];
    let plain = fabricsim_in(dir.path(), &compare).json()["results"]["mape"].as_f64().unwrap();
    let fitted = fabricsim_in(dir.path(), &[&compare[..], &["--profile", "p.toml"]].concat()).json();
    let fitted = fitted["results"]["mape"].as_f64().unwrap();
    assert!(fitted < 0.02 && plain > 3.0 * fitted, "{plain} {fitted}");
    let again = fit(
        dir.path(),
        &["ar.txt", "--profile", "p.toml", "--parameters", "nvls", "--format", "json", "--bound", "nvls.loop_us=1..20"],
    );
    let p = parameter(&again.json(), "nvls.loop_us").clone();
    assert_eq!((p["before_origin"].as_str(), p["bound_high"].as_f64()), (Some("fitted"), Some(20.0)));
}

#[test]
fn what_rows_cannot_tell_is_refused_or_left_out() {
    let dir = tempfile::tempdir().unwrap();
    log(dir.path(), "ar.txt", "all_reduce", ["64", "4K", "2"], &[], 0.01);
    fit(dir.path(), &["ar.txt", "--parameters", "network.ll_us"])
        .fails(2, &["E093", "network.ll_us", "no row depends on it", "two nodes"]);
    let both = fit(dir.path(), &["ar.txt", "--parameters", "launch.kernel_us,nvlink.ll_us"]);
    both.fails(2, &["E093", "nvlink.ll_us: its effect looks like that of launch.kernel_us", "sendrecv"]);
    let left = fit(dir.path(), &["ar.txt", "--format", "json"]).json();
    let out: Vec<&str> =
        left["results"]["left_out"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    assert!(!out.is_empty() && left["results"]["parameters"].as_array().unwrap().len() < 3, "{left}");
    log(dir.path(), "one.txt", "all_reduce", ["64", "64", "2"], &[], 0.0);
    fit(dir.path(), &["one.txt", "--parameters", "launch.kernel_us"]).fails(2, &["E093", "1 rows cannot tell 1"]);
}

#[test]
fn bad_input_is_told() {
    let dir = tempfile::tempdir().unwrap();
    log(dir.path(), "ar.txt", "all_reduce", ["8", "4K", "4"], &[], 0.0);
    fs::write(dir.path().join("kept.toml"), "mine").unwrap();
    fs::write(dir.path().join("empty.txt"), "").unwrap();
    fs::write(dir.path().join("zero.txt"), " 1024 256 float sum -1 0.0 0.0 0.0 0 nan 0.0 0.0 0\n").unwrap();
    fit(dir.path(), &["none.txt"]).fails(3, &["E090", "none.txt"]);
    fit(dir.path(), &["empty.txt"]).fails(3, &["E090", "empty.txt"]);
    fit(dir.path(), &["zero.txt", "--op", "all_reduce"]).fails(3, &["E090"]);
    fit(dir.path(), &["ar.txt", "--max-bytes", "4"]).fails(3, &["E090", "--max-bytes"]);
    fit(dir.path(), &["ar.txt", "--parameters", "nvlink.lo_us"]).fails(2, &["E080", "nvlink.lo_us"]);
    for bad in ["launch.kernel_us", "launch.kernel_us=3", "launch.kernel_us=x..2"] {
        fit(dir.path(), &["ar.txt", "--bound", bad]).fails(2, &["E080", "NAME=LOW..HIGH"]);
    }
    for bad in ["launch.kernel_us=9..2", "launch.kernel_us=-1..2", "nvls.rate_gbps=1..2", "launch.kernel_us=0..inf"] {
        fit(dir.path(), &["ar.txt", "--parameters", "launch.kernel_us", "--bound", bad]).fails(2, &["E080", "bounds"]);
    }
    fit(dir.path(), &["ar.txt", "--out", "kept.toml"]).fails(2, &["E081", "kept.toml", "--force"]);
    assert_eq!(fs::read_to_string(dir.path().join("kept.toml")).unwrap(), "mine");
    let forced = fit(dir.path(), &["ar.txt", "--parameters", "launch.kernel_us", "--out", "kept.toml", "--force"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    assert!(fs::read_to_string(dir.path().join("kept.toml")).unwrap().contains("launch.kernel_us"));
}

#[test]
fn a_profile_is_taken_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write(
        "sub/base.toml",
        "schema = 1\n[profile]\norigin = \"fitted\"\n\"launch.kernel_us\" = 20.0\n\"nvlink.ll_us\" = 1.0\n[profile.spread]\n\"nvlink.ll_us\" = 0.1\n",
    );
    write("sub/top.toml", "[profile]\nfrom = \"base.toml\"\n\"nvlink.ll_us\" = 0.5\n");
    write(
        "s.toml",
        "system = \"hgx-h100\"\n[profile]\nfrom = \"sub/top.toml\"\n[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\nsizes = [\"1 KiB\"]\n",
    );
    let time = |args: &[&str]| {
        let value = fabricsim_in(dir.path(), &[&["run", "s.toml", "--format", "json"][..], args].concat()).json();
        value["results"]["collectives"][0]["time_us"].as_f64().unwrap()
    };
    let plain = time(&["--set", "profile.launch.kernel_us=7.6", "--set", "profile.nvlink.ll_us=0"]);
    assert!((time(&[]) - plain - 12.4 - 14.0 * 0.5).abs() < 0.1, "{plain} {}", time(&[]));
    for (text, parts) in [
        ("from = 3", &["E010", "profile.from"][..]),
        ("from = \"none.toml\"", &["E001", "none.toml"]),
        ("from = \"bad.toml\"", &["E080", "`nodes` has no place"]),
        ("from = \"bare.toml\"", &["E080", "no [profile]"]),
        ("from = \"self.toml\"", &["E005", "16 files deep"]),
        ("origin = \"guess\"", &["E021", "spec, measured, fitted, assumed"]),
        ("source = 4", &["E010", "profile.source"]),
        ("spread.\"nvls.loop_us\" = -1", &["E016", "spread"]),
        ("\"link.network_share\" = 1.5", &["E016", "0.01 to 1"]),
        ("\"link.network_share\" = \"1 GB/s\"", &["E010", "parts of 1"]),
    ] {
        write("bad.toml", "nodes = 3\n[profile]\n");
        write("bare.toml", "name = \"x\"\n");
        write("self.toml", "[profile]\nfrom = \"self.toml\"\n");
        write("t.toml", &format!("system = \"hgx-h100\"\n[profile]\n{text}\n"));
        fabricsim_in(dir.path(), &["check", "t.toml"]).fails(2, parts);
    }
    // A share of the link's rate is what it carries.
    let rate = |share: &str| {
        let share = format!("profile.link.network_share={share}");
        let args = [
            "bench",
            "sendrecv",
            "--system",
            "hgx-h100",
            "--nodes",
            "2",
            "--gpus-per-node",
            "1",
            "-b",
            "1G",
            "-e",
            "1G",
        ];
        let value = fabricsim_in(dir.path(), &[&args[..], &["--format", "json", "--set", &share]].concat()).json();
        value["results"]["collectives"][0]["busbw_GBps"].as_f64().unwrap()
    };
    // Of a NIC's 50 GB/s the library's messages fill 0.968.
    assert!((rate("0.25") / (50.0 * 0.968 * 0.25) - 1.0).abs() < 0.02, "{}", rate("0.25"));
}

#[test]
fn a_fitted_cluster_has_narrower_intervals_where_the_rows_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let widths = |profile: &[&str], noise: f64| -> Vec<f64> {
        let name = format!("{noise}.toml");
        if !profile.is_empty() {
            let truth = [("launch.kernel_us", 6.0), ("nvls.loop_us", 6.0), ("nvls.rate_gbps", 15.0)];
            log(dir.path(), "ar.txt", "all_reduce", ["8", "1G", "2"], &truth, noise);
            let names = "launch.kernel_us,nvls.loop_us,nvls.rate_gbps";
            let ran = fit(dir.path(), &["ar.txt", "--parameters", names, "--out", &name, "--force"]);
            assert_eq!(ran.code, 0, "{ran:?}");
        }
        let own = ["--profile", &name];
        let bench =
            ["bench", "all_reduce", "--system", "hgx-h100", "-b", "4K", "-e", "256M", "-f", "65536", "--interval"];
        let args = [&bench[..], if profile.is_empty() { &[] } else { &own }, &["--format", "json"]].concat();
        let value = fabricsim_in(dir.path(), &args).json();
        let width = |row: &Value| (row["high_us"].as_f64().unwrap() / row["low_us"].as_f64().unwrap()).ln();
        value["results"]["collectives"].as_array().unwrap().iter().map(width).collect()
    };
    let (before, sure, unsure) = (widths(&[], 0.0), widths(&["fit"], 0.02), widths(&["fit"], 0.2));
    for (i, before) in before.iter().enumerate() {
        assert!(sure[i] < *before && sure[i] < unsure[i], "{i}: {before} before, {} and {}", sure[i], unsure[i]);
    }
    let text = fs::read_to_string(dir.path().join("0.02.toml")).unwrap();
    assert!(text.contains("[profile.form]\n") && text.contains("\"node/ring/LL/small\" = 0.0"), "{text}");
    fs::write(dir.path().join("bad.toml"), "[profile.form]\n\"moon/ring/LL/small\" = 0.1\n").unwrap();
    let args = ["bench", "all_reduce", "--system", "hgx-h100", "--profile", "bad.toml"];
    fabricsim_in(dir.path(), &args).fails(2, &["E018", "moon/ring/LL/small", "reach/algorithm/protocol/band"]);
}
