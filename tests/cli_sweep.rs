//! `sweep`: rows that depend on nothing but the sweep, files that can be taken up wherever they end, shards, and what is
//! refused.

mod cli_common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cli_common::{Ran, fabricsim, fabricsim_in};
use tempfile::TempDir;

/// 60 points of some milliseconds each.
const SWEEP: &str = r#"
[base]
system = "hgx-h100"
[[base.workload]]
kind = "collective"
op = "all_reduce"
sizes = ["4 MiB"]

[[axis]]
key = "workload.0.op"
values = ["all_reduce", "all_gather", "alltoall"]
[[axis]]
key = "nodes"
values = [1, 2]
[[axis]]
name = "size"
key = "workload.0.sizes"
range = { from = "1 KiB", to = "4 MiB", factor = 8 }
[[axis]]
key = "workload.0.channels"
values = [4, 8]
"#;

fn folder(sweep: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.toml"), sweep).unwrap();
    dir
}

fn sweep(dir: &TempDir, args: &[&str]) -> Ran {
    let mut all = vec!["sweep", "s.toml"];
    all.extend(args);
    fabricsim_in(dir.path(), &all)
}

fn text(dir: &TempDir, name: &str) -> String {
    fs::read_to_string(dir.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn cells(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    reader.records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect()
}

fn done(ran: &Ran) {
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// A process that is ended if the test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A sweep under way, once `file` has so many lines.
fn begun(dir: &Path, file: &str, lines: usize, args: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabricsim"));
    command.args(["sweep", "s.toml", "--out"]).args(args).current_dir(dir);
    let running = Running(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let path = dir.join(file);
    let began = Instant::now();
    while fs::read_to_string(&path).map_or(0, |text| text.lines().count()) < lines {
        assert!(began.elapsed() < Duration::from_secs(120), "{file} has no {lines} lines");
        std::thread::sleep(Duration::from_millis(2));
    }
    running
}

/// The names of what is in a folder.
fn names(dir: &TempDir) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn rows_are_the_same_at_any_number_of_threads_and_those_of_single_runs() {
    let dir = folder(SWEEP);
    let ran = sweep(&dir, &["--out", "one.csv", "--threads", "1"]);
    done(&ran);
    assert_eq!(ran.out, "one.csv: 60 rows\n");
    let one = text(&dir, "one.csv");
    for threads in ["2", "7"] {
        let file = format!("{threads}.csv");
        done(&sweep(&dir, &["--out", &file, "--threads", threads]));
        assert_eq!(text(&dir, &file), one, "{threads} threads");
    }
    let rows = cells(&one);
    let head = "point,workload.0.op,nodes,size,workload.0.channels,algorithm,protocol,channels,time_us,algbw_GBps,busbw_GBps,\
                bottleneck,error,sweep";
    assert_eq!(rows[0].join(","), head);
    assert_eq!(rows[1][..5], ["0", "all_reduce", "1", "1 KiB", "4"]);
    assert_eq!(rows[60][..5], ["59", "alltoall", "2", "4 MiB", "8"]);
    // A row is what `run` says of the same.
    for row in [&rows[18], &rows[39]] {
        let scenario = dir.path().join("single.toml");
        let toml = format!(
            "system = \"hgx-h100\"\nnodes = {}\n[[workload]]\nkind = \"collective\"\nop = \"{}\"\nsizes = [\"{}\"]\nchannels = {}\n",
            row[2], row[1], row[3], row[4]
        );
        fs::write(&scenario, toml).unwrap();
        let json = fabricsim_in(dir.path(), &["run", "single.toml", "--format", "json"]).json();
        let single = &json["results"]["collectives"][0];
        assert_eq!(row[8], single["time_us"].to_string());
        assert_eq!(row[5], single["algorithm"].as_str().unwrap());
        assert_eq!(row[12], "");
    }
    // Settings of the command line hold at every point.
    done(&sweep(&dir, &["--out", "set.csv", "--set", "workload.0.algorithm=Ring"]));
    let rings = cells(&text(&dir, "set.csv")).iter().filter(|row| row[5] == "ring").count();
    assert!(rings > 30, "{rings}");
    assert_ne!(text(&dir, "set.csv"), one);
}

#[test]
fn a_sweep_that_was_killed_goes_on_to_the_same_file() {
    let dir = folder(SWEEP);
    done(&sweep(&dir, &["--out", "whole.csv"]));
    done(&sweep(&dir, &["--out", "whole.parquet"]));
    let whole = text(&dir, "whole.csv");
    for (out, rows) in [("a.csv", "a.csv"), ("a.parquet", "a.parquet.partial.csv")] {
        for lines in [2, 9, 30] {
            let mut running = begun(dir.path(), rows, lines, &[out, "--resume"]);
            running.0.kill().unwrap();
            running.0.wait().unwrap();
        }
        assert!(cells(&text(&dir, rows)).len() < 61, "{out} was done before it was killed");
        // As if the last row had been cut off.
        let cut = fs::read(dir.path().join(rows)).unwrap();
        fs::write(dir.path().join(rows), &cut[..cut.len() - 9]).unwrap();
        let ran = sweep(&dir, &["--out", out, "--resume"]);
        done(&ran);
        assert!(ran.err.contains("are there already"), "{ran:?}");
        // Once more: nothing is left to do.
        done(&sweep(&dir, &["--out", out, "--resume"]));
    }
    assert_eq!(text(&dir, "a.csv"), whole);
    let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert_eq!(bytes("a.parquet"), bytes("whole.parquet"));
    assert_eq!(names(&dir), ["a.csv", "a.parquet", "s.toml", "whole.csv", "whole.parquet"]);
}

/// A thousand steps of 64 GPUs: two divisions with all in a node's switch or all over rails, two pipelines, gradients beside kernels
/// or after them, by how fast kernels are.
const STEPS: &str = r#"
[base]
system = "hgx-h100"
nodes = 8
[[base.workload]]
kind = "step"
model = "llama3.1-8b"
zero = 1
global_batch = 64
sequence = 4096
recompute = "full"

[[axis]]
key = "workload.0.tp"
values = [1, 8]
[[axis]]
key = "workload.0.pp"
values = [1, 2]
[[axis]]
key = "workload.0.overlap.gradients"
values = [true, false]
[[axis]]
key = "workload.0.compute.efficiency"
range = { from = 0.6, to = 0.99, count = 125 }
"#;

#[test]
#[ignore = "four times a thousand steps: some minutes"]
fn a_thousand_steps_that_were_killed_are_the_same() {
    let dir = folder(STEPS);
    done(&sweep(&dir, &["--out", "whole.csv"]));
    done(&sweep(&dir, &["--out", "whole.parquet"]));
    for (out, rows) in [("a.csv", "a.csv"), ("a.parquet", "a.parquet.partial.csv")] {
        for lines in [100, 700] {
            let mut running = begun(dir.path(), rows, lines, &[out, "--resume"]);
            running.0.kill().unwrap();
            running.0.wait().unwrap();
        }
        assert!(cells(&text(&dir, rows)).len() < 1001, "{out} was done before it was killed");
        done(&sweep(&dir, &["--out", out, "--resume"]));
    }
    assert_eq!(text(&dir, "a.csv"), text(&dir, "whole.csv"));
    assert_eq!(cells(&text(&dir, "whole.csv")).len(), 1001);
    let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert_eq!(bytes("a.parquet"), bytes("whole.parquet"));
}

#[test]
fn what_no_run_would_do_ends_a_sweep_before_it_begins() {
    let dir = folder(
        &SWEEP.replace("sizes = [\"4 MiB\"]", "sizes = [\"4 MiB\"]\nalgorithm = \"one_shot\"").replace("[1, 2]", "[2]"),
    );
    sweep(&dir, &["--out", "a.csv"]).fails(2, &["E040", "one_shot", "cannot be played"]);
    assert_eq!(names(&dir), ["s.toml"]);
}

#[cfg(unix)]
#[test]
fn an_interrupted_sweep_says_so_and_goes_on() {
    let dir = folder(SWEEP);
    done(&sweep(&dir, &["--out", "whole.csv"]));
    let mut running = begun(dir.path(), "a.csv", 5, &["a.csv", "--threads", "2"]);
    let id = running.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(running.0.wait().unwrap().code(), Some(130));
    let rows = cells(&text(&dir, "a.csv")).len();
    assert!((5..61).contains(&rows), "{rows}");
    sweep(&dir, &["--out", "a.csv"]).fails(2, &["E081", "--resume"]);
    done(&sweep(&dir, &["--out", "a.csv", "--resume"]));
    assert_eq!(text(&dir, "a.csv"), text(&dir, "whole.csv"));
}

#[test]
fn shards_put_together_are_the_whole() {
    let dir = folder(SWEEP);
    done(&sweep(&dir, &["--out", "whole.csv"]));
    done(&sweep(&dir, &["--out", "whole.parquet"]));
    for shard in ["1/3", "2/3", "3/3"] {
        for ending in ["csv", "parquet"] {
            let out = format!("part{}.{ending}", &shard[..1]);
            let ran = sweep(&dir, &["--out", &out, "--shard", shard]);
            done(&ran);
            assert!(ran.out.contains(&format!("20 rows (shard {shard} of 60)")), "{ran:?}");
        }
    }
    let merge = |out: &str, files: &[&str]| {
        let mut args = vec!["sweep", "merge", "--out", out];
        args.extend(files);
        fabricsim_in(dir.path(), &args)
    };
    done(&merge("all.csv", &["part2.csv", "part3.csv", "part1.csv"]));
    done(&merge("all.parquet", &["part1.parquet", "part2.parquet", "part3.parquet"]));
    done(&merge("mixed.csv", &["part1.parquet", "part2.csv", "part3.parquet", "part2.parquet"]));
    assert_eq!(text(&dir, "all.csv"), text(&dir, "whole.csv"));
    assert_eq!(text(&dir, "mixed.csv"), text(&dir, "whole.csv"));
    let bytes = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert_eq!(bytes("all.parquet"), bytes("whole.parquet"));
    // What is whole is also what each form says of it.
    done(&merge("again.csv", &["whole.parquet"]));
    assert_eq!(text(&dir, "again.csv"), text(&dir, "whole.csv"));

    merge("no.csv", &["part1.csv", "part2.csv"]).fails(2, &["E064", "20 points of 60 missing: 2, 5, 8"]);
    merge("whole.csv", &["part1.csv", "part2.csv", "part3.csv"]).fails(2, &["E081"]);
    merge("part1.csv", &["part1.csv"]).fails(2, &["E082"]);
    merge("no.csv", &["s.toml"]).fails(2, &["E063", "no rows of a sweep"]);
    merge("no.csv", &["none.csv"]).fails(2, &["E001"]);
    merge("no.txt", &["part1.csv"]).fails(2, &["neither in .csv nor in .parquet"]);
    done(&sweep(&dir, &["--out", "other.csv", "--shard", "1/3", "--seed", "9"]));
    merge("no.csv", &["other.csv", "part2.csv", "part3.csv"]).fails(2, &["E063", "two sweeps"]);
    let changed = text(&dir, "part2.csv").replacen(",4,", ",8,", 1);
    fs::write(dir.path().join("changed.csv"), changed).unwrap();
    merge("no.csv", &["part1.csv", "part2.csv", "changed.csv", "part3.csv"]).fails(2, &["E063", "not the same"]);
    assert!(!dir.path().join("no.csv").exists());
}

#[test]
fn files_of_something_else_are_left_alone() {
    let dir = folder(SWEEP);
    sweep(&dir, &["--out", "a.csv", "--shard", "61/61"]).fails(2, &["60 points", "fewer shards"]);
    done(&sweep(&dir, &["--out", "a.csv", "--shard", "1/20"]));
    done(&sweep(&dir, &["--out", "a.parquet", "--shard", "1/20"]));
    fs::write(dir.path().join("notes.csv"), "dear diary\n").unwrap();
    fs::write(dir.path().join("notes.parquet"), "dear diary\n").unwrap();
    let kept: Vec<_> = ["a.csv", "a.parquet", "notes.csv"].map(|n| fs::read(dir.path().join(n)).unwrap()).into();
    for (args, parts) in [
        (vec!["--out", "a.csv", "--shard", "1/20"], vec!["E081", "`a.csv` exists already", "--resume"]),
        (vec!["--out", "a.parquet", "--shard", "1/20"], vec!["E081", "`a.parquet` exists already", "--resume"]),
        (vec!["--out", "a.csv", "--resume", "--shard", "2/20"], vec!["E063", "point 0, where 1 is due"]),
        (vec!["--out", "a.csv", "--resume", "--shard", "1/30"], vec!["E063", "where 30 is due"]),
        (vec!["--out", "a.csv", "--resume", "--shard", "1/20", "--seed", "3"], vec!["E063", "the scenario"]),
        (vec!["--out", "a.parquet", "--resume", "--shard", "2/20"], vec!["E063"]),
        (vec!["--out", "notes.csv", "--resume"], vec!["E063", "column `dear diary` is there"]),
        (vec!["--out", "notes.parquet", "--resume"], vec!["E063", "left as it is"]),
        (vec!["--out", "s.toml"], vec!["neither in .csv nor in .parquet"]),
        (vec!["--out", "none/a.csv"], vec!["E082", "folder"]),
        (vec!["--out", "a.csv", "--shard", "0/3"], vec!["counted from 1"]),
        (vec![], vec!["--out"]),
    ] {
        sweep(&dir, &args).fails(2, &parts);
    }
    let now: Vec<_> = ["a.csv", "a.parquet", "notes.csv"].map(|n| fs::read(dir.path().join(n)).unwrap()).into();
    assert_eq!(now, kept);
    // An empty file is as good as none, if it may be gone on with.
    for name in ["empty.csv", "empty.parquet"] {
        fs::write(dir.path().join(name), "").unwrap();
        sweep(&dir, &["--out", name, "--shard", "1/20"]).fails(2, &["E081"]);
        done(&sweep(&dir, &["--out", name, "--shard", "1/20", "--resume"]));
    }
    assert_eq!(text(&dir, "empty.csv"), text(&dir, "a.csv"));
}

#[test]
fn points_that_cannot_be_played_have_a_row_that_says_why() {
    let bad = SWEEP.replace("values = [1, 2]", "values = [1, 2, 3]").replace(
        "[base]",
        "columns = [\"collectives.0.time_us\", \"engine.events\"]\n[base]\nfabric = { kind = \"rail-optimized\", spines = 1, leaves = 1 }\n",
    );
    let dir = folder(&bad);
    let ran = sweep(&dir, &["--out", "a.csv", "--shard", "1/5"]);
    let rows = cells(&text(&dir, "a.csv"));
    done(&ran);
    assert_eq!(rows.len(), 19);
    for row in rows.iter().skip(1) {
        // A node alone needs no spine.
        assert_eq!(row[7].starts_with("E016 out of range: spines is 1"), row[2] != "1", "{row:?}");
        assert_eq!(row[5].is_empty(), row[2] != "1", "{row:?}");
    }

    // Where not one point can be played the code says so, as often as it is asked.
    let dir = folder(&format!(
        "{}[base.limits]\nevents = 10\n",
        SWEEP.replace("[[axis]]\nkey = \"nodes\"\nvalues = [1, 2]\n", "")
    ));
    for name in ["none.csv", "none.parquet"] {
        for more in [&[][..], &["--resume"]] {
            let ran = sweep(&dir, &[&["--out", name], more].concat());
            let why = format!("not one point could be played: see `error` in `{name}`");
            assert!(ran.code == 2 && ran.err.contains(&why), "{ran:?}");
        }
    }

    // Nodes that do not exist in a group: some points only.
    let some = r#"
        columns = { time_us = "collectives.0.time_us" }
        [base]
        system = "hgx-h100"
        [[base.workload]]
        kind = "collective"
        op = "all_reduce"
        sizes = ["1 KiB"]
        ranks = 16
        [[axis]]
        key = "nodes"
        values = [2, 1, 3]
    "#;
    let dir = folder(some);
    let ran = sweep(&dir, &["--out", "a.csv"]);
    done(&ran);
    assert_eq!(ran.out, "a.csv: 3 rows, 1 of them with an `error`\n");
    assert!(ran.err.contains("1 point could not be played to the end"), "{ran:?}");
    assert!(ran.err.contains("point 1 (nodes = 1)"), "{ran:?}");
    let rows = cells(&text(&dir, "a.csv"));
    assert!(rows[2][2].is_empty() && rows[2][3].starts_with('E'), "{rows:?}");
    assert!(!rows[3][2].is_empty() && rows[3][3].is_empty(), "{rows:?}");
    let json = sweep(&dir, &["--out", "a.csv", "--resume", "--format", "json"]).json();
    assert_eq!((json["results"]["rows"].as_u64(), json["results"]["failed"].as_u64()), (Some(3), Some(1)));

    let dir = folder(&format!("on_error = \"stop\"\n{some}"));
    sweep(&dir, &["--out", "a.csv", "--threads", "1"])
        .fails(2, &["point 1 (nodes = 1) ends the sweep", "1 point of 3"]);
    assert_eq!(cells(&text(&dir, "a.csv")).len(), 2);

    // All of them: that is no result.
    let dir = folder(&some.replace("values = [2, 1, 3]", "values = [1]"));
    sweep(&dir, &["--out", "a.csv"]).fails(2, &["cannot be played"]);
    assert_eq!(names(&dir), ["s.toml"]);
}

#[test]
fn columns_that_are_none_are_told_before_hours_are_spent() {
    let dir = folder(&format!("columns = [\"collectives.0.tme_us\"]\n{SWEEP}"));
    sweep(&dir, &["--out", "a.csv"]).fails(2, &["E050", "did you mean `time_us`?"]);
    let dir = folder(&format!("columns = [\"collectives.3.time_us\"]\n{SWEEP}"));
    sweep(&dir, &["--out", "a.csv"]).fails(2, &["E050", "1 member"]);
    assert_eq!(names(&dir), ["s.toml"]);
    let dir = folder(&format!("columns = [\"collectives.3.time_us?\", \"collectives.0\"]\n{SWEEP}"));
    done(&sweep(&dir, &["--out", "a.csv", "--shard", "1/30"]));
    let rows = cells(&text(&dir, "a.csv"));
    assert_eq!(rows[0][5], "collectives.3.time_us");
    assert!(rows[1][5].is_empty() && rows[1][6].starts_with("{\"op\":\"all_reduce\""), "{rows:?}");
}

#[test]
fn a_dry_run_says_what_there_is_to_do_and_writes_nothing() {
    let dir = folder(SWEEP);
    let ran = sweep(&dir, &["--dry-run"]);
    done(&ran);
    for part in [
        "60 points",
        "size: 5 values",
        "columns: point, workload.0.op",
        "point 0: workload.0.op = all_reduce, nodes = 1",
        "and 50 more",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(ran.err.contains("if other points take as long as 0, 30, 59"), "{}", ran.err);
    let json = sweep(&dir, &["--dry-run", "--shard", "2/7", "--out", "a.csv", "--format", "json"]).json();
    assert_eq!((json["results"]["points"].as_u64(), json["results"]["rows"].as_u64()), (Some(9), Some(0)));
    assert_eq!(json["results"]["shard"], "2/7");
    assert_eq!(names(&dir), ["s.toml"]);
}

#[test]
fn bundled_sweeps_are_played() {
    let dir = tempfile::tempdir().unwrap();
    let mut played = 0;
    let mut files: Vec<PathBuf> = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/sweeps"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for path in files {
        let out = dir.path().join(path.with_extension("csv").file_name().unwrap());
        let ran = fabricsim(&["sweep", path.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        done(&ran);
        assert!(ran.err.lines().all(|line| line.contains("points in ")), "{path:?}: {}", ran.err);
        let rows = cells(&fs::read_to_string(&out).unwrap());
        assert!(rows.len() > 10, "{path:?}");
        let error = rows[0].len() - 2;
        assert!(rows.iter().skip(1).all(|row| row[error].is_empty()), "{path:?}");
        played += 1;
    }
    assert!(played >= 3, "{played}");
}

/// A step whose kernels are measured: three points, or as many as `axis` has.
fn measured(axis: &str) -> String {
    format!(
        "[base]\nsystem = \"hgx-h100\"\nnodes = 1\n[[base.workload]]\nkind = \"step\"\ntp = 8\nglobal_batch = 8\n\
         model = {{ layers = 4, hidden = 2048, heads = 16, ffn = 8192, vocab = 32000 }}\n\
         compute = {{ profile = \"k.toml\" }}\n[[axis]]\n{axis}"
    )
}

fn kernel(time: &str) -> String {
    format!("[[kernel]]\nname = \"FFN up\"\npass = \"forward\"\ntime = \"{time}\"\n")
}

#[test]
fn files_that_a_scenario_names_count_as_its_keys_do() {
    // Named by the scenario, and by one of the values of an axis.
    let axis = "key = \"workload.0.micro_batch\"\nvalues = [1, 2, 4]\n";
    let named = "key = \"workload.0.compute.profile\"\nvalues = [\"a.toml\", \"k.toml\"]\n";
    for axis in [axis, named] {
        let dir = folder(&measured(axis));
        let write = |name: &str, time: &str| fs::write(dir.path().join(name), kernel(time)).unwrap();
        write("a.toml", "2 ms");
        write("k.toml", "1 ms");
        done(&sweep(&dir, &["--out", "a.csv"]));
        let all = text(&dir, "a.csv");
        let first: String = all.split_inclusive('\n').take(2).collect();
        fs::write(dir.path().join("a.csv"), &first).unwrap();
        write("k.toml", "50 ms");
        sweep(&dir, &["--out", "a.csv", "--resume"]).fails(2, &["E063", "of sweep"]);
        assert_eq!(text(&dir, "a.csv"), first);
        write("k.toml", "1 ms");
        done(&sweep(&dir, &["--out", "a.csv", "--resume"]));
        assert_eq!(text(&dir, "a.csv"), all);
        // Line ends of another program are not mixed with these.
        fs::write(dir.path().join("a.csv"), first.replace('\n', "\r\n")).unwrap();
        sweep(&dir, &["--out", "a.csv", "--resume"]).fails(2, &["E063", "CR LF"]);
    }
}

#[test]
fn transfers_beside_a_step_have_times_of_their_own() {
    let beside = "[[base.workload]]\nkind = \"transfer\"\nwith_previous = true\npattern = \"shift\"\nshift = 1\nsize = \"1 MiB\"\n\
                  [[axis]]\nkey = \"workload.1.size\"\nvalues = [\"1 MiB\", \"4 MiB\"]\n";
    let base = measured("").replace("compute = { profile = \"k.toml\" }\n[[axis]]\n", "");
    let dir = folder(&format!("{base}{beside}"));
    done(&sweep(&dir, &["--out", "a.csv"]));
    let rows = cells(&text(&dir, "a.csv"));
    let column = |name: &str| rows[0].iter().position(|cell| cell == name);
    let us = |row: usize| rows[row][column("beside.time_us").unwrap()].parse::<f64>().unwrap();
    assert!(us(1) > 1.0 && us(2) > 2.0 * us(1), "{rows:?}");
    assert_eq!(rows[1][column("beside.times").unwrap()], "1");
    assert_eq!(column("longest_us"), None, "{rows:?}");
}

#[test]
fn grids_are_counted_before_they_are_made() {
    let axis = |key: &str| format!("[[axis]]\nkey = \"{key}\"\nrange = {{ from = 1, to = 1000000, step = 1 }}\n");
    let dir = folder(&SWEEP.replace("[[axis]]", &format!("{}{}[[axis]]", axis("seed"), axis("nodes"))));
    sweep(&dir, &["--dry-run"]).fails(2, &["E003", "the axes before them leave room for 1"]);
}
