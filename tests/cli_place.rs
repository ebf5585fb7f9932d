//! `place`: what is listed holds and fits, the best is first, reasons add up, and what cannot be is told.

mod cli_common;

use std::fs;

use cli_common::{Ran, fabricsim_in};
use serde_json::Value;
use tempfile::TempDir;

const STEP: &str = r#"
system = "hgx-h100"
nodes = 2
[[workload]]
kind = "step"
model = "llama3.1-8b"
tp = 2
zero = 1
global_batch = 32
sequence = 4096
"#;

fn folder(step: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.toml"), step).unwrap();
    dir
}

fn place(dir: &TempDir, args: &[&str]) -> Ran {
    let mut all = vec!["place", "s.toml"];
    all.extend(args);
    fabricsim_in(dir.path(), &all)
}

fn time(row: &Value) -> f64 {
    row["time_us"].as_f64().or(row["estimate_us"].as_f64()).unwrap()
}

#[test]
fn memory_is_not_looked_at_where_the_scenario_says_so() {
    let toml = "system = \"hgx-h100\"\nnodes = 1\n[[workload]]\nkind = \"step\"\nmodel = \"llama3.1-405b\"\nglobal_batch = 8\n\
                sequence = 4096\nmemory_check = false\n";
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.toml"), toml).unwrap();
    let args = ["place", "s.toml", "--vary", "tp,pp", "--top", "0", "--format", "json"];
    let value = fabricsim_in(dir.path(), &args).json();
    assert_eq!(value["results"]["too_large"], 0);
    assert!(value["results"]["candidates"][0]["memory_bytes"].as_u64().unwrap() > 80_000_000_000, "{value}");
    fs::write(dir.path().join("s.toml"), toml.replace("memory_check = false\n", "")).unwrap();
    fabricsim_in(dir.path(), &args).fails(2, &["E121"]);
}

#[test]
fn the_best_is_first_and_all_are_accounted_for() {
    let dir = folder(STEP);
    let json = place(&dir, &["--top", "0", "--format", "json"]).json();
    let results = &json["results"];
    let rows = results["candidates"].as_array().unwrap();
    assert!(rows.len() >= 5, "{results}");
    for pair in rows.windows(2) {
        assert!(time(&pair[0]) <= time(&pair[1]), "{pair:?}");
    }
    for row in rows {
        let n = |name: &str| row["parallelism"][name].as_u64().unwrap();
        assert_eq!(n("tp") * n("cp") * n("pp") * n("dp"), 16, "{row}");
        assert!(row["bound_us"].as_f64().unwrap() > 0.0);
        assert!(row["memory_bytes"].as_u64().unwrap() < 80_000_000_000);
        let parts: f64 = row["parts"].as_array().unwrap().iter().map(|p| p["time_us"].as_f64().unwrap()).sum();
        assert!((parts / time(row) - 1.0).abs() < 1e-6, "{row}");
    }
    let count = |name: &str| results[name].as_u64().unwrap();
    assert!(count("estimated") > count("looked_at") - count("impossible") - count("too_large") - 1);
    // The same on any number of threads.
    let again = place(&dir, &["--top", "0", "--threads", "1", "--format", "json"]).json();
    assert_eq!(json, again);
    // A sample is a part of all, the same for the same seed.
    let sample = |seed: &str| place(&dir, &["--top", "0", "--sample", "5", "--seed", seed, "--format", "json"]).json();
    assert_eq!(sample("3")["results"]["estimated"], 5);
    assert_eq!(sample("3"), sample("3"));
    assert_ne!(sample("3")["results"], sample("4")["results"]);
}

/// Whatever links, algorithms and schedules do, no simulation is below the bound.
#[test]
fn no_simulation_is_below_its_bound() {
    let model = "model = { layers = 8, hidden = 4096, heads = 32, ffn = 16384, vocab = 32000 }";
    let dense = |system: &str, more: &str| {
        format!(
            "system = \"{system}\"\nnodes = 1\n[[workload]]\nkind = \"step\"\n{model}\nglobal_batch = 16\nsequence = 2048\n\
             memory_check = false\n{more}"
        )
    };
    let a100 = "compute = { gpu = \"a100-sxm4-80\" }\n";
    let cases = [
        // NVLinks of different widths between pairs: rings over all of them beat any single pair.
        dense("dgx-1v", &format!("tp = 8\nsequence_parallel = false\n{a100}")),
        // Sums in switches.
        dense("hgx-h100", "tp = 8\nsequence_parallel = false\n"),
        dense("hgx-h100", "tp = 2\npp = 2\nschedule = \"dualpipe\"\n"),
        dense("hgx-h100", "tp = 2\npp = 2\nschedule = \"zb-h2\"\nrecompute = \"full\"\n"),
        // Messages of one half beside kernels of the other.
        dense(
            "hgx-h100",
            "tp = 8\nsequence_parallel = false\nmicro_batch = 2\nrecompute = \"full\"\noverlap = { two_batches = true }\n",
        ),
    ];
    for (toml, vary) in cases.iter().zip(["tp,pp", "tp", "tp", "tp", "tp"]) {
        let json = place(&folder(toml), &["--vary", vary, "--top", "1000", "--format", "json"]).json();
        let rows = json["results"]["candidates"].as_array().unwrap();
        assert!(!rows.is_empty(), "{json}");
        for row in rows {
            let (bound, played) = (row["bound_us"].as_f64().unwrap(), row["time_us"].as_f64().unwrap());
            assert!(bound <= played, "{toml}\n{row}");
            assert!(bound > 0.5 * played, "{toml}\n{row}");
        }
    }
}

/// Estimates beside simulations of all that fits: how far they are off, and whether they put it in the same order. The best of all is
/// among the three that are simulated by default.
#[test]
fn estimates_are_near_simulations() {
    let step = |keys: &str| {
        format!(
            "system = \"hgx-h100\"\nnodes = 2\n[[workload]]\nkind = \"step\"\nsequence = 4096\n{keys}\n\
             model = {{ layers = 4, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336, vocab = 32000 }}\n"
        )
    };
    let mut all = Vec::new();
    for (keys, vary, farthest) in [
        ("fsdp = true\nglobal_batch = 16", "tp,cp", 0.20),
        ("zero = 1\nglobal_batch = 32\nsequence_parallel = false", "tp,pp", 0.25),
        ("zero = 2\nglobal_batch = 32\nrecompute = \"full\"", "pp,cp", 0.25),
    ] {
        let dir = folder(&step(keys));
        let json = place(&dir, &["--vary", vary, "--top", "1000", "--format", "json"]).json();
        let rows = json["results"]["candidates"].as_array().unwrap();
        let times: Vec<(f64, f64)> =
            rows.iter().map(|row| (row["estimate_us"].as_f64().unwrap(), row["time_us"].as_f64().unwrap())).collect();
        let mut agree = 0i32;
        let mut pairs = 0;
        for (at, a) in times.iter().enumerate() {
            let error = a.0 / a.1 - 1.0;
            assert!(error.abs() < farthest, "{keys}: {}", rows[at]);
            all.push(error.abs());
            for b in times[at + 1..].iter().filter(|b| (b.1 / a.1 - 1.0).abs() > 0.02) {
                pairs += 1;
                agree += if (a.0 < b.0) == (a.1 < b.1) { 1 } else { -1 };
            }
        }
        assert!(pairs > 8 && f64::from(agree) >= 0.85 * f64::from(pairs), "{keys}: {agree} of {pairs}");
        let usual = place(&dir, &["--vary", vary, "--format", "json"]).json();
        assert_eq!(usual["results"]["candidates"][0]["time_us"], rows[0]["time_us"], "{keys}");
    }
    all.sort_by(f64::total_cmp);
    assert!(all[all.len() / 2] < 0.06, "{all:?}");
}

/// A scenario's own division is simulated whatever the estimate says of it.
#[test]
fn what_the_scenario_has_is_simulated() {
    let dir = folder(&STEP.replace("tp = 2\n", "tp = 16\nmemory_check = false\n"));
    let json = place(&dir, &["--vary", "tp", "--top", "1", "--format", "json"]).json();
    let results = &json["results"];
    assert_eq!(results["played"], 2);
    let own = results["candidates"].as_array().unwrap().iter().find(|row| row["parallelism"]["tp"] == 16).unwrap();
    assert!(own["time_us"].is_number(), "{own}");
}

#[test]
fn what_is_played_is_what_run_says() {
    let dir = folder(&STEP.replace("nodes = 2", "nodes = 1").replace("global_batch = 32", "global_batch = 8"));
    let json = place(&dir, &["--vary", "tp,order", "--top", "2", "--format", "json"]).json();
    let results = &json["results"];
    let rows = results["candidates"].as_array().unwrap();
    assert_eq!(results["played"], 2);
    assert!(time(&rows[0]) <= time(&rows[1]));
    let own = format!("workload.0.tp={}", rows[0]["parallelism"]["tp"]);
    let order = format!("workload.0.order={}", rows[0]["order"].as_str().unwrap());
    let run = fabricsim_in(dir.path(), &["run", "s.toml", "--set", &own, "--set", &order, "--format", "json"]).json();
    assert_eq!(run["results"]["step"]["time_us"], rows[0]["time_us"]);
}

#[test]
fn ranks_go_where_the_file_says() {
    let dir = folder(STEP);
    let ran = place(&dir, &["--top", "0", "--out", "ranks.txt"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("best by the estimate: "), "{}", ran.out);
    let text = fs::read_to_string(dir.path().join("ranks.txt")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), 17, "{text}");
    assert!(lines[0].starts_with("rank\tnode\tlocal\tgpu"), "{text}");
    assert!(lines[9].starts_with("8\t1\t0\tnode1.gpu0\t"), "{text}");
    for part in ["# Megatron-LM: --tensor-model-parallel-size ", "# SLURM: --ntasks-per-node=8 --distribution=block"] {
        assert!(text.contains(part), "{text}");
    }
    // Without the flag Megatron-LM divides experts as it divides the rest.
    let experts = STEP
        .replace("llama3.1-8b", "qwen3-30b-a3b")
        .replace("tp = 2\n", "tp = 2\npp = 2\nsplit = \"even\"\nep = 4\nrecompute = \"full\"\n");
    let dir = folder(&experts);
    let ran = place(&dir, &["--vary", "order", "--top", "0", "--out", "ranks.txt"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = fs::read_to_string(dir.path().join("ranks.txt")).unwrap();
    let flags = "--seq-length 4096 --expert-model-parallel-size 4 --expert-tensor-parallel-size 1 --sequence-parallel \
                 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather --recompute-granularity full";
    assert!(text.contains(flags), "{text}");
    place(&dir, &["--top", "0", "--out", "ranks.txt"]).fails(2, &["E081"]);
    place(&dir, &["--top", "0", "--out", "s.toml"]).fails(2, &["E082"]);
}

#[test]
fn what_cannot_be_is_told() {
    let dir = folder(STEP);
    place(&dir, &["--vary", "tp,ordre"]).fails(2, &["E080", "did you mean `order`?"]);
    let dir = folder("system = \"hgx-h100\"\n[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\n");
    place(&dir, &[]).fails(2, &["E060", "kind = \"step\""]);
    let dir = folder(&STEP.replace("tp = 2", "tp = 3"));
    place(&dir, &[]).fails(2, &["E120"]);
    let large = STEP.replace("llama3.1-8b", "llama3.1-405b").replace("tp = 2", "tp = 8\npp = 2\nsplit = \"even\"");
    let dir = folder(&large);
    place(&dir, &["--top", "0"]).fails(2, &["E121", "do not fit into memory"]);
    // What fits with more recomputation is listed with it; what would fit with other keys is said.
    let tight =
        STEP.replace("nodes = 2", "nodes = 1").replace("llama3.1-8b", "llama3-70b").replace("nodes = 1", "nodes = 4");
    let tight = tight.replace("sequence = 4096", "sequence = 8192\nmicro_batch = 4").replace("= 32", "= 64");
    let dir = folder(&tight);
    let json = place(&dir, &["--top", "0", "--format", "json"]).json();
    let rows = json["results"]["candidates"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["changes"]["recompute"] == "full"), "{json}");
    let without = place(&dir, &["--top", "0", "--vary", "tp,pp,order", "--format", "json"]);
    assert!(!without.out.contains("\"recompute\""), "{}", without.out);
    let dir = folder(&tight.replace("tp = 2", "tp = 8").replace("zero = 1", "zero = 0"));
    place(&dir, &["--top", "0", "--vary", "order"]).fails(2, &["E121", "would fit: --vary ", "recompute"]);
    // The scenario's own need not fit, if others do.
    let dir = folder(&STEP.replace("tp = 2", "tp = 1").replace("zero = 1", "zero = 0\nmicro_batch = 2"));
    assert_eq!(place(&dir, &["--top", "0"]).code, 0);
}
