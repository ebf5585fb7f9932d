//! `compare`: what is taken from logs, errors, gates and exit codes.

mod cli_common;

use std::fs;
use std::path::Path;

use cli_common::{Ran, fabricsim, fabricsim_in};
use serde_json::Value;

/// A table that this program printed, so that its own predictions are the measurement.
fn own_log(dir: &Path, name: &str, factor: f64) {
    let args = ["bench", "all_reduce", "--system", "hgx-h100", "--nodes", "2", "-b", "8", "-e", "16M", "-f", "8"];
    let ran = fabricsim(&[&args[..], &["--table", "nccl"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let scaled: Vec<String> = ran.out.lines().map(|line| scale(line, factor)).collect();
    fs::write(dir.join(name), scaled.join("\n") + "\n").unwrap();
}

/// A row with both times multiplied, and the bandwidths divided.
fn scale(line: &str, factor: f64) -> String {
    let mut cells: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    if cells.len() != 13 || cells[0].parse::<u64>().is_err() {
        return line.to_owned();
    }
    for (column, by) in
        [(5, factor), (6, 1.0 / factor), (7, 1.0 / factor), (9, factor), (10, 1.0 / factor), (11, 1.0 / factor)]
    {
        let value: f64 = cells[column].parse().unwrap();
        cells[column] = format!("{:.2}", value * by);
    }
    cells.join("  ")
}

fn compare(dir: &Path, args: &[&str]) -> Ran {
    fabricsim_in(dir, &[&["compare"][..], args].concat())
}

const CLUSTER: [&str; 4] = ["--system", "hgx-h100", "--nodes", "2"];

#[test]
fn a_prediction_read_back_has_no_error() {
    let dir = tempfile::tempdir().unwrap();
    own_log(dir.path(), "own.txt", 1.0);
    let value = compare(dir.path(), &[&["own.txt", "--format", "json"][..], &CLUSTER].concat()).json();
    let log = &value["results"]["logs"][0];
    let rows = log["rows"].as_array().unwrap();
    assert_eq!((rows.len(), log["op"].as_str(), log["ranks"].as_u64()), (16, Some("all_reduce"), Some(16)));
    for row in rows {
        for key in ["bytes", "placement", "measured_us", "predicted_us", "low_us", "high_us", "error"] {
            assert!(row.get(key).is_some(), "{key}: {row}");
        }
        assert!(row["error"].as_f64().unwrap().abs() < 0.001, "{row}");
        assert!(row["low_us"].as_f64() <= row["predicted_us"].as_f64(), "{row}");
    }
    assert!(value["results"]["mape"].as_f64().unwrap() < 0.001);
}

#[test]
fn thresholds_decide_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    own_log(dir.path(), "slow.txt", 2.0);
    let run = |args: &[&str]| compare(dir.path(), &[&["slow.txt"][..], &CLUSTER, args].concat());
    assert_eq!(run(&[]).code, 0);
    assert_eq!(run(&["--max-mape", "60%"]).code, 0);
    let missed = run(&["--max-mape", "0.4"]);
    assert_eq!(missed.code, 1, "{missed:?}");
    assert!(missed.err.contains("E091") && missed.err.contains("mape is 50.0 %"), "{}", missed.err);
    // The answer is printed all the same.
    assert!(missed.out.contains("-50.0 %"), "{}", missed.out);
    let gates = dir.path().join("gates.toml");
    fs::write(&gates, "max_p90_abs_error = \"20%\"\n").unwrap();
    assert_eq!(run(&["--gate-file", "gates.toml"]).code, 1);
    fs::write(&gates, "max_p90 = 0.2\n").unwrap();
    run(&["--gate-file", "gates.toml"]).fails(2, &["E080", "max_p90", "max_mape"]);
    run(&["--gate-file", "none.toml"]).fails(2, &["E080", "none.toml", "no such file", "write one"]);
    for empty in ["", "# max_mape = 0.2\n"] {
        fs::write(&gates, empty).unwrap();
        run(&["--gate-file", "gates.toml"]).fails(2, &["E080", "sets no limit", "max_mape"]);
    }
}

#[test]
fn a_log_is_never_replaced_by_what_is_made_of_it() {
    let dir = tempfile::tempdir().unwrap();
    own_log(dir.path(), "own.txt", 1.0);
    let before = fs::read(dir.path().join("own.txt")).unwrap();
    for option in ["--write-baseline", "--junit"] {
        let ran = compare(dir.path(), &[&["own.txt"][..], &CLUSTER, &[option, "./own.txt", "--force"]].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
    }
    let fit = ["fit", "own.txt", "--out", "own.txt", "--force"];
    assert_eq!(fabricsim_in(dir.path(), &[&fit[..], &CLUSTER].concat()).code, 2);
    assert_eq!(fs::read(dir.path().join("own.txt")).unwrap(), before);
}

#[test]
fn no_two_outputs_and_no_input_are_one_file() {
    let dir = tempfile::tempdir().unwrap();
    own_log(dir.path(), "own.txt", 1.0);
    let here = |args: &[&str]| fabricsim_in(dir.path(), args);
    let run = |args: &[&str]| compare(dir.path(), &[&["own.txt"][..], &CLUSTER, args].concat());
    run(&["--write-baseline", "f", "--junit", "./f"]).fails(2, &["E082", "--write-baseline and --junit"]);
    run(&["--junit", "out/result.json", "--out", "out"]).fails(2, &["E082", "--junit and --out"]);
    assert!(!dir.path().join("f").exists() && !dir.path().join("out").exists());
    assert_eq!(run(&["--write-baseline", "base.toml"]).code, 0);
    fs::write(dir.path().join("gate.toml"), "max_mape = 0.5\n").unwrap();
    for args in [
        ["--baseline", "base.toml", "--write-baseline", "base.toml"],
        ["--baseline", "base.toml", "--junit", "base.toml"],
        ["--gate-file", "gate.toml", "--junit", "gate.toml"],
    ] {
        run(&[&args[..], &["--force"]].concat()).fails(2, &["E082", "that is read"]);
    }
    // Verbs that read a scenario keep it.
    fs::write(dir.path().join("s.toml"), "schema = 1\nsystem = \"hgx-h100\"\nnodes = 1\n").unwrap();
    fs::copy(dir.path().join("s.toml"), dir.path().join("s.svg")).unwrap();
    here(&["topo", "s.svg", "--plot", "./s.svg", "--force"]).fails(2, &["E082", "that is read"]);
    let bench = ["bench", "all_reduce", "--scenario", "s.toml", "-b", "8", "-e", "8", "--force"];
    here(&[&bench[..], &["--tuner", "s.toml"]].concat()).fails(2, &["E082", "that is read"]);
    here(&[&bench[..], &["--tuner", "out/chart.svg", "--out", "out"]].concat())
        .fails(2, &["E082", "--tuner and --out"]);
    here(&["import", "s.toml", "--out", "s.toml", "--force"]).fails(3, &["E092"]);
    assert!(fs::read_to_string(dir.path().join("s.toml")).unwrap().starts_with("schema"));
}

#[test]
fn a_log_without_a_comparable_row_meets_no_threshold() {
    let dir = tempfile::tempdir().unwrap();
    for (name, rows) in [
        ("zero-size.txt", " 0 0 float sum -1 5.0 0.00 0.00 0 5.0 0.00 0.00 0\n"),
        ("zero-time.txt", " 1048576 262144 float sum -1 0.0 0.00 0.00 0 0.0 0.00 0.00 0\n"),
    ] {
        fs::write(dir.path().join(name), rows).unwrap();
        for gate in [&[][..], &["--max-mape", "20%"]] {
            let ran = compare(dir.path(), &[&[name, "--op", "all_reduce"][..], gate, &CLUSTER].concat());
            assert_eq!(ran.code, 3, "{name}: {ran:?}");
            assert!(ran.err.contains("E090"), "{name}: {}", ran.err);
        }
    }
}

#[test]
fn what_flags_leave_open_is_taken_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    // Its list of ranks has the GPUs' names and hosts.
    let ran = fabricsim(&[
        "bench",
        "all_gather",
        "--system",
        "hgx-b200",
        "--nodes",
        "2",
        "-b",
        "256M",
        "-e",
        "256M",
        "--table",
        "nccl",
    ]);
    let named = ran.out.replace("b200-sxm", "NVIDIA B200");
    fs::write(dir.path().join("log.txt"), &named).unwrap();
    let ran = compare(dir.path(), &["log.txt", "--format", "json"]);
    let value = ran.json();
    assert!(value["results"]["mape"].as_f64().unwrap() < 0.001, "{value}");
    let note = value["warnings"][0].clone();
    assert_eq!(note["code"], "W031");
    for part in ["hgx-b200", "2 nodes"] {
        assert!(note["message"].as_str().unwrap().contains(part) && ran.err.contains(part), "{note} {}", ran.err);
    }
    // Flags win.
    let slower = compare(dir.path(), &["log.txt", "--system", "hgx-a100", "--nodes", "2", "--format", "json"]).json();
    assert!(slower["results"]["mape"].as_f64().unwrap() > 0.2);
    compare(dir.path(), &["log.txt", "--nodes", "3"]).fails(2, &["E017", "16 ranks"]);
}

#[test]
fn a_log_that_cannot_be_used_is_told_apart_from_a_cluster_that_is_not_known() {
    let dir = tempfile::tempdir().unwrap();
    own_log(dir.path(), "own.txt", 1.0);
    let whole = fs::read(dir.path().join("own.txt")).unwrap();
    fs::write(dir.path().join("empty.txt"), "").unwrap();
    fs::write(dir.path().join("binary.txt"), [0u8, 159, 146, 150, 7]).unwrap();
    fs::write(dir.path().join("cut.txt"), &whole[..whole.len() * 3 / 4]).unwrap();
    let run = |args: &[&str]| compare(dir.path(), &[args, &CLUSTER].concat());
    run(&["none.txt"]).fails(3, &["E090", "no such file"]);
    run(&["."]).fails(3, &["E090", "folder"]);
    run(&["empty.txt"]).fails(3, &["E090", "empty"]);
    run(&["binary.txt"]).fails(3, &["E090"]);
    assert_eq!(run(&["cut.txt"]).code, 0);
    // What can be compared is, beside what can't.
    let both = run(&["own.txt", "empty.txt", "--format", "json"]);
    assert_eq!(both.code, 3);
    let value: Value = serde_json::from_str(&both.out).unwrap();
    assert_eq!(value["results"]["logs"].as_array().unwrap().len(), 1);
    let failed = &value["results"]["failed"][0];
    assert_eq!((failed["log"].as_str(), failed["code"].as_str()), (Some("empty.txt"), Some("E090")), "{failed}");
    assert!(failed["message"].as_str().unwrap().contains("empty"), "{failed}");
    // The other forms have it, too, even where nothing could be compared.
    let page = run(&["own.txt", "empty.txt", "--format", "github", "--junit", "report.xml"]);
    assert!(page.out.contains(": failed") && page.out.contains(":x: empty.txt: E090: cannot use"), "{}", page.out);
    let report = fs::read_to_string(dir.path().join("report.xml")).unwrap();
    assert!(report.contains("errors=\"1\"") && report.contains("<error message=\"cannot use `empty.txt`"), "{report}");
    let none = run(&["none.txt", "--format", "json", "--junit", "none.xml"]);
    assert_eq!((none.code, none.out.contains("no such file")), (3, true), "{none:?}");
    assert!(fs::read_to_string(dir.path().join("none.xml")).unwrap().contains("errors=\"1\""));
    // A threshold that is missed beside it is told as well.
    let missed = run(&["bare.txt", "empty.txt", "--op", "all_reduce", "--max-mape", "0.0001"]);
    assert_eq!(missed.code, 3, "{missed:?}");
    let rows = "# nothing names the GPUs\n 1048576 262144 float sum -1 100.0 10.49 19.66 0 100.0 10.49 19.66 0\n";
    fs::write(dir.path().join("bare.txt"), rows).unwrap();
    compare(dir.path(), &["bare.txt"]).fails(2, &["which system", "--system"]);
    assert_eq!(run(&["bare.txt"]).code, 0);
    compare(dir.path(), &["bare.txt", "--system", "hgx-h10"]).fails(2, &["E020", "did you mean"]);
    compare(dir.path(), &["own.txt", "--scenario", "none.toml"]).fails(2, &["E001"]);
}

#[test]
fn operations_without_a_model_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let log = "# nThread 1 nGpus 8 minBytes 1048576 maxBytes 1048576 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 \
               validation: 0 graph: 0\n# Collective test starting: hypercube_perf\n 1048576 32768 float none 0 100.0 10.49 9.18 \
               N/A 100.0 10.49 9.18 N/A\n";
    fs::write(dir.path().join("hypercube.txt"), log).unwrap();
    compare(dir.path(), &["hypercube.txt", "--system", "hgx-h100"]).fails(2, &["E040", "hypercube", "not modelled"]);
}

#[test]
fn artifacts_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    own_log(dir.path(), "own.txt", 1.1);
    let run = |args: &[&str]| compare(dir.path(), &[&["own.txt", "--out", "out"][..], &CLUSTER, args].concat());
    assert_eq!(run(&[]).code, 0);
    let csv = fs::read_to_string(dir.path().join("out/compare.csv")).unwrap();
    assert_eq!(csv.lines().count(), 17, "{csv}");
    assert!(fs::read_to_string(dir.path().join("out/chart.svg")).unwrap().contains("predicted"));
    run(&[]).fails(2, &["E081"]);
    assert_eq!(run(&["--force"]).code, 0);
}

#[test]
fn sizes_beyond_a_limit_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    own_log(dir.path(), "own.txt", 1.0);
    let ran =
        compare(dir.path(), &[&["own.txt", "--set", "limits.events=2000", "--format", "json"][..], &CLUSTER].concat());
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.err.contains("E070") && ran.err.contains("own.txt"), "{}", ran.err);
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    let rows = value["results"]["logs"][0]["rows"].as_array().unwrap().len();
    assert!((2..16).contains(&rows), "{rows}");
}

#[test]
fn errors_are_held_to_a_baseline() {
    let dir = tempfile::tempdir().unwrap();
    own_log(dir.path(), "a.txt", 1.05);
    let run = |args: &[&str]| compare(dir.path(), &[&["a.txt"][..], &CLUSTER, args].concat());
    assert_eq!(run(&["--write-baseline", "base.toml"]).code, 0);
    let written = fs::read_to_string(dir.path().join("base.toml")).unwrap();
    assert!(written.contains("[logs.\"a.txt\".small]") && written.contains("median_abs_error"), "{written}");
    run(&["--write-baseline", "base.toml"]).fails(2, &["E081", "base.toml"]);
    assert_eq!(run(&["--baseline", "base.toml"]).code, 0);
    // Worse, by more than the tolerance or not.
    own_log(dir.path(), "a.txt", 1.3);
    let worse = run(&["--baseline", "base.toml", "--junit", "report.xml"]);
    assert_eq!(worse.code, 1, "{worse:?}");
    assert!(worse.err.contains("E091") && worse.err.contains("median |error| was 4.8 %, is 23.1 %"), "{}", worse.err);
    let report = fs::read_to_string(dir.path().join("report.xml")).unwrap();
    assert!(report.contains("failures=\"2\"") && report.contains("small messages"), "{report}");
    assert_eq!(run(&["--baseline", "base.toml", "--tolerance", "20%"]).code, 0);
    let value = run(&["--baseline", "base.toml", "--tolerance", "0.2", "--format", "json"]).json();
    assert_eq!(value["results"]["changes"].as_array().unwrap().len(), 2);
    // A log that the baseline doesn't have.
    own_log(dir.path(), "b.txt", 1.0);
    let other = compare(dir.path(), &[&["b.txt", "--baseline", "base.toml"][..], &CLUSTER].concat());
    assert_eq!(other.code, 1);
    assert!(other.err.contains("the baseline has no such band"), "{}", other.err);
    assert!(
        other.err.contains("a.txt: the baseline has it") && other.err.contains("--write-baseline"),
        "{}",
        other.err
    );
    // A log is the same by another spelling of its path, and one that is not in this run does not pass.
    own_log(dir.path(), "a.txt", 1.05);
    own_log(dir.path(), "b.txt", 1.05);
    let two = |args: &[&str]| compare(dir.path(), &[args, &CLUSTER].concat());
    fs::create_dir(dir.path().join("x")).unwrap();
    assert_eq!(two(&["./a.txt", "x/.././b.txt", "--write-baseline", "two.toml"]).code, 0);
    assert_eq!(two(&["a.txt", "b.txt", "--baseline", "two.toml"]).code, 0);
    let gone = two(&["a.txt", "--baseline", "two.toml", "--junit", "two.xml", "--format", "json"]);
    assert_eq!(gone.code, 1, "{gone:?}");
    assert!(gone.err.contains("E091") && gone.err.contains("b.txt: the baseline has it"), "{}", gone.err);
    let value: Value = serde_json::from_str(&gone.out).unwrap();
    assert_eq!(value["results"]["missing"][0], "b.txt");
    let report = fs::read_to_string(dir.path().join("two.xml")).unwrap();
    assert!(report.contains("<failure message=\"b.txt: the baseline has it"), "{report}");
    // One that could not be read is told once, as that.
    fs::write(dir.path().join("b.txt"), "").unwrap();
    let unread = two(&["a.txt", "b.txt", "--baseline", "two.toml"]);
    assert!(unread.code == 3 && !unread.err.contains("the baseline has it"), "{unread:?}");
    // Files that are no baselines.
    for bad in ["", "schema = 1\n", "schema = 2\ntool_version = \"1\"\n[logs]\n", "\u{0}", "max_mape = 1"] {
        fs::write(dir.path().join("bad.toml"), bad).unwrap();
        run(&["--baseline", "bad.toml"]).fails(2, &["E080", "bad.toml", "--write-baseline"]);
    }
    run(&["--baseline", "none.toml"]).fails(2, &["E080", "no such file"]);
    run(&["--tolerance", "1%"]).fails(2, &["--baseline"]);
    run(&["--baseline", "base.toml", "--tolerance", "x"]).fails(2, &["E080", "--tolerance 15%"]);
    run(&["--junit", "report.xml"]).fails(2, &["E081", "report.xml"]);
}

#[test]
fn markdown_for_a_job_summary() {
    let dir = tempfile::tempdir().unwrap();
    own_log(dir.path(), "slow_log.txt", 2.0);
    for form in ["github-markdown", "github"] {
        let args = ["slow_log.txt", "--max-mape", "10%", "--format", form];
        let ran = compare(dir.path(), &[&args[..], &CLUSTER].concat());
        assert_eq!(ran.code, 1, "{ran:?}");
        for part in
            ["### Predicted beside measured: missed", ":x: mape is 50.0 %", "slow\\_log.txt", "| small |", "<details>"]
        {
            assert!(ran.out.contains(part), "{part}: {}", ran.out);
        }
    }
}

/// A log of one size on ranks of these hosts, whose GPUs have this name.
fn hosted(op: &str, hosts: &[u32], gpu: &str, version: &str) -> String {
    let mut text = format!("# Collective test starting: {op}_perf\n{version}# Using devices\n");
    for (rank, host) in hosts.iter().enumerate() {
        text += &format!("#  Rank {rank} Group  0 Pid {rank} on host{host} device  {rank} [0x1b] {gpu}\n");
    }
    text + "16777216 4194304 float sum -1 300.0 55.92 97.87 0 300.0 55.92 97.87 0\n"
}

#[test]
fn ranks_lie_on_nodes_as_the_log_lists_them() {
    let dir = tempfile::tempdir().unwrap();
    let gpu = "NVIDIA H100 80GB HBM3";
    let predicted = |name: &str, hosts: &[u32], flags: &[&str]| -> (f64, String) {
        fs::write(dir.path().join(name), hosted("all_reduce", hosts, gpu, "")).unwrap();
        let ran = compare(dir.path(), &[&[name, "--format", "json"][..], flags].concat());
        (ran.json()["results"]["logs"][0]["rows"][0]["predicted_us"].as_f64().unwrap(), ran.err)
    };
    let played = |group: &str, width: &str| -> f64 {
        let work = format!(
            "workload=[{{kind=\"collective\",op=\"all_reduce\",sizes=[\"16 MiB\"],group={group},iterations=20}}]"
        );
        fs::write(dir.path().join("s.toml"), "schema = 1\nsystem = \"hgx-h100\"\nnodes = 2\n").unwrap();
        let ran =
            fabricsim_in(dir.path(), &["run", "s.toml", "--set", &work, "--gpus-per-node", width, "--format", "json"]);
        ran.json()["results"]["collectives"][0]["time_us"].as_f64().unwrap()
    };
    let (uneven, said) = predicted("uneven.txt", &[0, 0, 0, 1, 1, 1, 1, 1], &[]);
    assert!(said.contains("2 nodes") && said.contains("ranks of each node 3 and 5"), "{said}");
    assert_eq!(uneven, played("[\"0-2\", \"5-9\"]", "5"));
    let (even, said) = predicted("even.txt", &[0, 0, 0, 0, 1, 1, 1, 1], &[]);
    assert!(!said.contains("ranks of each") && even != uneven, "{said}");
    // Where the cluster is given, too: four of the eight GPUs of each node, and not all of the first.
    assert_eq!(predicted("even.txt", &[0, 0, 0, 0, 1, 1, 1, 1], &CLUSTER).0, played("[\"0-3\", \"8-11\"]", "8"));
    let (turns, said) = predicted("turns.txt", &[0, 1, 0, 1, 0, 1, 0, 1], &[]);
    assert!(said.contains("in turn"), "{said}");
    assert_eq!(turns, played("[0, 4, 1, 5, 2, 6, 3, 7]", "4"));
    // More hosts than the flags give nodes: node by node.
    let (one, _) = predicted("even.txt", &[0, 0, 0, 0, 1, 1, 1, 1], &["--system", "hgx-h100", "--nodes", "1"]);
    assert_eq!(one, played("[\"0-7\"]", "8"));
}

#[test]
fn larger_sizes_can_be_left_out() {
    let dir = tempfile::tempdir().unwrap();
    own_log(dir.path(), "own.txt", 1.0);
    let run = |most: &str| {
        compare(dir.path(), &[&["own.txt", "--max-bytes", most, "--format", "json"][..], &CLUSTER].concat())
    };
    let value = run("64K").json();
    let rows = value["results"]["logs"][0]["rows"].as_array().unwrap().clone();
    assert!(rows.len() == 10 && rows.iter().all(|row| row["bytes"].as_u64() <= Some(64 << 10)), "{rows:?}");
    run("x").fails(2, &["--max-bytes"]);
}

#[test]
fn a_log_all_of_whose_rows_are_left_out_is_a_failure_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    own_log(dir.path(), "own.txt", 1.0);
    let row = " 1073741824 268435456 float sum -1 5000.0 214.7 402.6 0 5000.0 214.7 402.6 0\n";
    fs::write(dir.path().join("big.txt"), row).unwrap();
    let most = ["--op", "all_reduce", "--max-bytes", "64K"];
    let alone = compare(dir.path(), &[&["big.txt"][..], &most, &CLUSTER].concat());
    alone.fails(3, &["E090", "big.txt", "2 measurements left out: larger than --max-bytes 64 KiB", "is 1 GiB"]);
    assert!(!alone.err.contains("of size zero"), "{}", alone.err);
    let files = ["--write-baseline", "b.toml", "--junit", "j.xml"];
    let both = |form: &str| {
        let args = [&["own.txt", "big.txt", "--format", form, "--force"][..], &most, &files, &CLUSTER].concat();
        let ran = compare(dir.path(), &args);
        assert_eq!(ran.code, 3, "{ran:?}");
        ran
    };
    let value: Value = serde_json::from_str(&both("json").out).unwrap();
    let (logs, failed) = (&value["results"]["logs"], &value["results"]["failed"]);
    assert_eq!(logs.as_array().map(Vec::len), Some(1), "{logs}");
    assert_eq!((failed[0]["log"].as_str(), failed[0]["code"].as_str()), (Some("big.txt"), Some("E090")), "{failed}");
    assert!(failed.to_string().contains("--max-bytes 64 KiB"), "{failed}");
    for form in ["text", "github"] {
        let ran = both(form);
        assert!(ran.err.contains("no row of `big.txt`"), "{}", ran.err);
        assert!(ran.out.contains("big.txt") || form == "text", "{}", ran.out);
    }
    let xml = fs::read_to_string(dir.path().join("j.xml")).unwrap();
    assert!(xml.contains("<error") && xml.contains("big.txt"), "{xml}");
    assert!(!dir.path().join("b.toml").exists());
}

#[test]
fn an_assumed_release_is_among_the_causes() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["bench", "alltoall", "--nccl", "2.29", "-b", "64M", "-e", "256M", "-f", "2", "--table", "nccl"];
    let ran = fabricsim(&[&args[..], &CLUSTER].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let rows: Vec<&str> = ran.out.lines().filter(|line| !line.starts_with('#')).collect();
    fs::write(dir.path().join("old.txt"), rows.join("\n") + "\n").unwrap();
    let said = |flags: &[&str]| {
        let ran = compare(dir.path(), &[&["old.txt", "--op", "alltoall"][..], &CLUSTER, flags].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    };
    let assumed = said(&[]);
    assert!(assumed.contains("as if NCCL 2.29 ran in place of the assumed 2.30"), "{assumed}");
    // Not where it is told, wrongly or not.
    assert!(!said(&["--nccl", "2.30"]).contains("in place of the assumed"));
}

#[test]
fn a_shared_nvlink_domain_is_told_and_questioned() {
    let dir = tempfile::tempdir().unwrap();
    let trays = ["--system", "nvl72-gb200", "--nodes", "2"];
    let args =
        ["bench", "all_gather", "--nodes-per-domain", "1", "-b", "64M", "-e", "256M", "-f", "2", "--table", "nccl"];
    let ran = fabricsim(&[&args[..], &trays].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    fs::write(dir.path().join("apart.txt"), &ran.out).unwrap();
    let run = |flags: &[&str]| compare(dir.path(), &[&["apart.txt"][..], &trays, flags].concat());
    let shared = run(&[]);
    assert!(
        shared.err.contains("assumed: ") && shared.err.contains("all 2 nodes share an NVLink domain"),
        "{}",
        shared.err
    );
    assert!(shared.out.contains("as if the hosts shared no NVLink domain"), "{}", shared.out);
    let told = run(&["--nodes-per-domain", "1"]);
    assert!(!told.err.contains("NVLink domain") && !told.out.contains("NVLink domain"), "{told:?}");
}

#[test]
fn the_version_of_nccl_and_other_gpus_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = [0; 8];
    let write = |name: &str, gpu: &str, version: &str| {
        fs::write(dir.path().join(name), hosted("all_reduce", &hosts, gpu, version)).unwrap();
    };
    write("told.txt", "NVIDIA H100 80GB HBM3", "NCCL version 2.21.5+cuda12.4\n");
    write("silent.txt", "NVIDIA H100 80GB HBM3", "");
    let told = compare(dir.path(), &["told.txt"]);
    assert!(told.out.contains("8 ranks, NCCL 2.21\n"), "{}", told.out);
    let silent = compare(dir.path(), &["silent.txt"]);
    assert!(silent.out.contains("NCCL 2.30 (assumed: the log does not tell it)"), "{}", silent.out);
    assert!(silent.err.contains("assumed: NCCL 2.30"), "{}", silent.err);
    let value = compare(dir.path(), &["silent.txt", "--nccl", "2.20", "--format", "json"]).json();
    let nccl = &value["results"]["logs"][0]["nccl"];
    assert_eq!((nccl["version"].as_str(), nccl["source"].as_str()), (Some("2.20"), Some("given")));
    let page = compare(dir.path(), &["silent.txt", "--format", "github"]).out;
    assert!(page.contains("NCCL 2.30 (assumed"), "{page}");
    // The GPUs are not those of the system, which is said once.
    let other = compare(dir.path(), &["told.txt", "silent.txt", "--system", "hgx-b200"]);
    assert_eq!(other.err.matches("W032").count(), 1, "{}", other.err);
    assert!(other.err.contains("NVIDIA H100 80GB HBM3") && other.err.contains("--system hgx-h100"), "{}", other.err);
    let value = compare(dir.path(), &["told.txt", "--system", "hgx-b200", "--format", "json"]).json();
    assert!(value["warnings"].as_array().unwrap().iter().any(|w| w["code"] == "W032"), "{value}");
    assert!(!compare(dir.path(), &["told.txt", "--system", "hgx-h100"]).err.contains("W032"));
}

#[test]
fn a_damaged_type_is_shown_with_those_that_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let row = |size: u32, name: &[u8]| -> Vec<u8> {
        let figures = b" sum -1 30.0 0.07 0.12 0 30.0 0.07 0.12 0\n";
        [format!("{size} {} ", size / 4).as_bytes(), name, figures].concat()
    };
    fs::write(dir.path().join("bad.txt"), row(1024, b"fl\xffat")).unwrap();
    compare(dir.path(), &["bad.txt", "--system", "hgx-h100"])
        .fails(3, &["E090", "no UTF-8", "bad.txt:1:10", "bfloat16"]);
    fs::write(dir.path().join("part.txt"), [row(1024, b"fl\xffat"), row(2048, b"float")].concat()).unwrap();
    let ran = compare(dir.path(), &["part.txt", "--op", "all_reduce", "--system", "hgx-h100"]);
    assert!(ran.code == 0 && ran.out.contains("is no type of nccl-tests"), "{ran:?}");
}

#[test]
fn what_does_not_count_is_told_by_its_line_and_not_scored() {
    let dir = tempfile::tempdir().unwrap();
    let text = "1024 256 float sum -1 15.30 0.07 0.12 0 15.10 0.07 0.12 7\n\
                2048 512 float sum -1 0.00 inf inf 0 15.40 0.13 0.23 0\n\
                4096 1024 float sum -1 15.60 0.26 0.46 0 15.50 0.26 0.46 0\n\
                8192 2048 flo";
    fs::write(dir.path().join("x.txt"), text).unwrap();
    let ran = compare(dir.path(), &["x.txt", "--op", "all_reduce", "--system", "hgx-h100"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for told in [
        "line 1, column 1: 1024 B in place: 7 wrong values in the result; it is left out",
        "line 2, column 1: 2048 B out of place: the time is zero; it is left out",
        "line 4, column 14: the last line is cut before its figures; it is left out",
        "4 rows: mean |error|",
    ] {
        assert!(ran.out.contains(told), "{told}: {}", ran.out);
    }
    // `fit` asks the same place.
    let fit = ["fit", "x.txt", "--op", "all_reduce", "--system", "hgx-h100", "--parameters", "launch.kernel_us"];
    let ran = fabricsim_in(dir.path(), &fit);
    assert!(ran.err.contains("W030") && ran.err.contains("7 wrong values"), "{ran:?}");
    assert!(ran.out.contains("fitted to 3 rows") || ran.code != 0, "{ran:?}");
}

#[test]
fn numbers_of_300_digits_are_shortened() {
    let dir = tempfile::tempdir().unwrap();
    let long = "7".repeat(300);
    let sound = "4096 1024 float sum -1 15.60 0.26 0.46 0 15.50 0.26 0.46 0\n";
    for damaged in [
        format!("{long} 256 float sum -1 15.30 0.07 0.12 0 15.10 0.07 0.12 0\n"),
        format!("1024 256 float sum -1 {long} 0.07 0.12 0 15.10 0.07 0.12 0\n"),
        format!("1024 256 float sum -1 15.30 0.07 0.12 0 15.10 0.07 0.12 {long}\n"),
    ] {
        fs::write(dir.path().join("x.txt"), damaged + sound).unwrap();
        let ran = compare(dir.path(), &["x.txt", "--op", "all_reduce", "--system", "hgx-h100"]);
        assert!(ran.code == 0 && ran.out.contains("line 1, column"), "{ran:?}");
        assert!(!ran.out.contains(&long[..40]) && !ran.err.contains(&long[..40]), "{ran:?}");
    }
    let ran = compare(dir.path(), &["x.txt", "--system", "hgx-h100", "--max-mape", &long]);
    assert!(ran.code == 2 && !ran.err.contains(&long[..80]), "{ran:?}");
}

#[test]
fn the_transport_that_was_assumed_is_told() {
    let dir = tempfile::tempdir().unwrap();
    own_log(dir.path(), "x.txt", 1.0);
    let err = |args: &[&str]| compare(dir.path(), &[&["x.txt"][..], &CLUSTER, args].concat()).err;
    assert!(err(&[]).contains("transport infiniband, which the log does not tell"), "{}", err(&[]));
    assert!(!err(&["--transport", "roce"]).contains("transport"), "{}", err(&["--transport", "roce"]));
    let text = fs::read_to_string(dir.path().join("x.txt")).unwrap();
    let network = "node0:1:1 [0] NCCL INFO Using network IB\n";
    fs::write(dir.path().join("x.txt"), format!("{network}{text}")).unwrap();
    assert!(err(&[]).contains("(NCCL's IB is infiniband or roce)"), "{}", err(&[]));
    // Inside a node there is none.
    let one = "4096 1024 float sum -1 15.60 0.26 0.46 0 15.50 0.26 0.46 0\n";
    fs::write(dir.path().join("one.txt"), one).unwrap();
    let ran = compare(dir.path(), &["one.txt", "--op", "all_reduce", "--system", "hgx-h100"]);
    assert!(ran.code == 0 && !ran.err.contains("transport"), "{ran:?}");
}

#[test]
fn rows_of_several_types_are_predicted_and_named_each() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["bench", "all_reduce", "--system", "hgx-h100", "-d", "all", "-b", "1K", "-e", "1K"];
    let ran = fabricsim(&args);
    assert!(ran.code == 0 && ran.out.contains("float sum") && ran.out.contains("int8 sum"), "{ran:?}");
    let json = fabricsim(&[&args[..], &["--format", "json"]].concat()).json();
    let list = json["results"]["collectives"].as_array().unwrap();
    let types: std::collections::BTreeSet<&str> = list.iter().map(|c| c["type"].as_str().unwrap()).collect();
    assert_eq!(types.len(), list.len(), "{types:?}");
    let log = "1024 1024 int8 sum -1 15.30 0.07 0.12 0 15.10 0.07 0.12 0\n\
               1024 256 float sum -1 15.40 0.07 0.12 0 15.40 0.07 0.12 0\n";
    fs::write(dir.path().join("x.txt"), log).unwrap();
    let ran = compare(dir.path(), &["x.txt", "--op", "all_reduce", "--system", "hgx-h100"]);
    assert!(ran.code == 0 && ran.out.contains("int8 sum") && ran.out.contains("4 rows"), "{ran:?}");
    let ran = fabricsim(&["bench", "all_reduce", "--system", "hgx-h100", "-b", "1K", "-e", "1K"]);
    assert!(!ran.out.contains("type"), "one type needs no column: {}", ran.out);
}

#[test]
fn a_run_of_one_rank_is_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let log = "# Collective test starting: alltoall_perf\n# Using devices\n\
               #  Rank  0 Group  0 Pid   1 on host0 device  0 [0000:00:00] NVIDIA B200\n\
               4299152 2149576 half none -1 7.09 605.97 0.00 0 0.79 5429.94 0.00 N/A\n";
    fs::write(dir.path().join("one.txt"), log).unwrap();
    let value = compare(dir.path(), &["one.txt", "--format", "json"]).json();
    let log = &value["results"]["logs"][0];
    assert_eq!(log["rows"].as_array().unwrap().len(), 1, "only the copy out of place: {log}");
    assert!(log["rows"][0]["predicted_us"].as_f64().is_some_and(|us| us > 1.0 && us < 20.0), "{log}");
    assert!(log["pattern"][0].as_str().unwrap().contains("one rank"), "{log}");
}
