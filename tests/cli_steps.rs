//! Training steps from the command line: what `check` says of them, and what it refuses.

mod cli_common;

use std::fs;

use cli_common::{Ran, fabricsim_in};

/// A step of Llama 3.1 8B on two nodes, with these keys.
fn with(keys: &str) -> String {
    format!(
        "system = \"hgx-h100\"\nnodes = 2\n[[workload]]\nkind = \"step\"\nsequence = 8192\n{}{keys}",
        if keys.contains("model") { "" } else { "model = \"llama3.1-8b\"\n" }
    )
}

fn run(toml: &str, verb: &str, args: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("step.toml"), toml).unwrap();
    fabricsim_in(dir.path(), &[&[verb, "step.toml"][..], args].concat())
}

fn check(keys: &str) -> Ran {
    run(&with(keys), "check", &[])
}

#[test]
fn a_check_shows_what_a_step_is_made_of() {
    let ran = check("tp = 8\npp = 2\nglobal_batch = 16\n");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    for part in [
        "16 GPUs: tp 8 · cp 1 · pp 2 · dp 1, 1f1b, 16 micro batches of 1 × 8192 tokens",
        "8.03 billion",
        "131072 tokens",
        "that can be filled of 74.5",
        // (p − 1)/(m + p − 1).
        "bubble      5.9 %",
        "in a node",
        "2 nodes, own rail",
        "its matrix product, if cut",
    ] {
        assert!(ran.out.contains(part), "{part} is not in\n{}", ran.out);
    }
}

#[test]
fn a_check_in_json_has_every_figure() {
    let keys = "fsdp = true\nglobal_batch = 16\n";
    let value = run(&with(keys), "check", &["--format", "json"]).json();
    let step = &value["results"]["steps"][0];
    assert_eq!(step["gpus"], 16);
    assert_eq!(step["parallelism"]["dp"], 16);
    assert_eq!(step["parameters"], 8_030_261_248_u64);
    assert_eq!(step["micro_batches"], 1);
    assert!(step.get("ideal_bubble").is_none());
    let memory = &step["memory"];
    let parts: u64 = memory["parts"].as_array().unwrap().iter().map(|p| p["bytes"].as_u64().unwrap()).sum();
    assert_eq!(memory["total_bytes"], parts);
    // Parameters are gathered twice and gradients scattered once: 2 · 2 · P and 4 · P bytes, 15/16 of them over wires.
    let sent = |operation: &str| {
        let rows = step["messages"].as_array().unwrap().iter();
        let rows = rows.filter(|m| m["operation"] == operation && m["group"] == "shard");
        rows.map(|m| m["wire_bytes"].as_u64().unwrap()).sum::<u64>() as f64
    };
    let parameters = 8_030_261_248.0 * 15.0 / 16.0;
    for (operation, bytes) in [("all-gather", 4.0), ("reduce-scatter", 4.0)] {
        let off = sent(operation) / (parameters * bytes) - 1.0;
        assert!(off.abs() < 1e-6, "{operation}: {off}");
    }
    // 6 · (P − embedding) · tokens, and attention: 51.5 GFLOP a token as Megatron-Bridge counts.
    let token = step["model_tflop"].as_f64().unwrap() * 1e3 / 131_072.0;
    assert!((token - 51.5).abs() < 0.1, "{token}");
}

#[test]
fn relations_that_fail_are_told_with_the_nearest_that_would_do() {
    for (keys, parts) in [
        (
            "tp = 3\nglobal_batch = 16\n",
            &["E120", "`heads % tp = 0` does not hold", "near: tp = 1, 2, 4 or 8", "^ heads = 32, tp = 3"][..],
        ),
        ("tp = 3\nglobal_batch = 16\n", &["`tp · cp · pp · dp = ranks` does not hold", "ranks = 15"]),
        ("pp = 16\nvp = 4\nglobal_batch = 16\n", &["`layers % (pp · vp) = 0`", "near: vp = 1 or 2", "pp = 16"]),
        ("tp = 8\nglobal_batch = 17\n", &["`global_batch % (dp · micro_batch) = 0`", "near: global_batch = 16 or 18"]),
        (
            "pp = 4\nvp = 2\ntp = 4\nglobal_batch = 6\n",
            &["`m % pp = 0`", "near: m = 4 or 8, which is global_batch = 4 or 8"],
        ),
        ("tp = 8\nep = 2\nglobal_batch = 16\n", &["expert parallelism needs a model with experts"]),
        ("tp = 8\ncp = 2\nsequence = 100\nglobal_batch = 16\n", &["E004"]),
        ("tp = 8\nglobal_batch = 16\norder = \"tp-cp-pp\"\n", &["E120", "leaves out `dp`", "tp-cp-pp-dp"]),
        ("tp = 8\nglobal_batch = 16\norder = \"tp-xx\"\n", &["E120", "expected `tp`, `cp`, `ep`, `dp` or `pp`"]),
        ("pp = 2\nchunk_layers = [16, 15]\nglobal_batch = 16\n", &["E120", "2 entries, 31 layers in all"]),
        ("zero = 1\nshard = 3\nglobal_batch = 16\n", &["`(dp · cp) % shard = 0`", "near: shard = 1, 2, 4 or 8"]),
        ("zero = 0\nshard = 4\nglobal_batch = 16\n", &["`shard` needs something to divide", "set `zero` to 1, 2 or 3"]),
        ("tp = 0\nglobal_batch = 16\n", &["E016", "`tp` is out of range"]),
        ("global_batch = 0\n", &["E016"]),
        ("ranks = 12\nglobal_batch = 16\n", &["E017", "do not fill nodes"]),
        ("global_batch = 16\nmodel = \"llama3.1-8bb\"\n", &["E024", "did you mean `llama3.1-8b`?"]),
        (
            "global_batch = 16\nmodel = { layers = 2, hidden = 30, heads = 4, vocab = 10, ffn = 8 }\n",
            &["E120", "`hidden % heads = 0`"],
        ),
        (
            "global_batch = 16\nmodel = { layers = 2, hiden = 32, heads = 4, vocab = 10, ffn = 8 }\n",
            &["E050", "did you mean `hidden`?", "`hidden` is missing"],
        ),
        (
            "global_batch = 16\nmodel = { layers = 2, hidden = 32, heads = 4, vocab = 10, ffn = 8, top_k = 2 }\n",
            &["E120", "`experts` of the model"],
        ),
        ("tp = 8\n", &["E011", "`global_batch` is missing", "grad_accumulation = 8"]),
        ("tp = 8\nglobal_batch = 16\ngrad_accumulation = 8\n", &["E030"]),
        ("fsdp = true\nzero = 3\nglobal_batch = 16\n", &["E030"]),
        ("tp = 8\nglobal_batch = 16\nslow_ranks = [{ rank = 16 }]\n", &["E022", "ranks go from 0 to 15"]),
        (
            "tp = 8\nglobal_batch = 16\nplacement = { locals = [0, 1, 1, 3, 4, 5, 6, 7] }\n",
            &["E120", "each of 0 to 7 once"],
        ),
        ("tp = 8\nglobal_batch = 16\nplacement = { nodes = [0, 2] }\n", &["E120", "rank 8 would take GPU 16 of 16"]),
        ("tp = 8\nglobal_batch = 16\ncompute = { gpu = \"h100\" }\n", &["E025", "did you mean `h100-sxm`?"]),
        ("tp = 8\nglobal_batch = 16\ncompute = { profile = \"none.toml\" }\n", &["E001", "there is no such file"]),
        ("tp = 8\nglobal_batch = 16\nschedule = \"1f1c\"\n", &["E021", "did you mean `1f1b`?"]),
    ] {
        let ran = check(keys);
        ran.fails(2, parts);
    }
}

#[test]
fn memory_comes_first_and_says_what_would_fit() {
    let keys = "global_batch = 16\n";
    check(keys).fails(2, &["E121", "by parts: ", "weights", "would fit", "74.51 GiB of h100-sxm"]);
    let ran = check(&format!("{keys}memory_check = false\n"));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("W120") && ran.out.starts_with("ok, 1 warning"), "{ran:?}");
    check("tp = 8\nglobal_batch = 16\nmemory = { size = \"20 GB\", buffers = \"3 GB\", usable = 0.5 }\n")
        .fails(2, &["E121", "50 % of the 18.63 GiB"]);
}

#[test]
fn what_has_no_effect_is_warned_of() {
    for (keys, part) in [
        ("experts = { copies = \"rank\" }\n", "the model has no experts"),
        ("schedule = \"1f1b\"\n", "a single stage has no schedule"),
        ("reshard = false\n", "it is of ZeRO-3"),
        ("overlap = { tensor = 4 }\nsequence_parallel = false\n", "it needs sequence parallelism"),
        ("gather = \"fp8\"\n", "parameters are gathered only if"),
    ] {
        let ran = check(&format!("tp = 8\nglobal_batch = 16\n{keys}"));
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains("W010") && ran.err.contains(part), "{part}: {ran:?}");
    }
    let ran = check("tp = 8\norder = \"dp-tp\"\nglobal_batch = 16\n");
    assert!(ran.code == 0 && ran.err.contains("W121"), "{ran:?}");
}

#[test]
fn a_gpu_without_rates_takes_those_of_another() {
    let toml = with("tp = 8\nglobal_batch = 16\nmemory_check = false\n").replace("hgx-h100", "dgx-1v");
    run(&toml, "check", &[]).fails(2, &["E025", "no rates of kernels", "compute = { gpu ="]);
    let ran = run(&format!("{toml}compute = {{ gpu = \"a100-sxm4-80\", efficiency = 0.4 }}\n"), "check", &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("a100-sxm4-80 by tiles, times 0.4"), "{ran:?}");
}

#[test]
fn measured_kernels_take_the_place_of_the_law() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("step.toml"), with("tp = 8\nglobal_batch = 16\ncompute = { profile = \"k.toml\" }\n"))
        .unwrap();
    let kernel = "[[kernel]]\nname = \"FFN up\"\npass = \"forward\"\ntime = \"100 ms\"\n";
    fs::write(dir.path().join("k.toml"), kernel).unwrap();
    let value = fabricsim_in(dir.path(), &["check", "step.toml", "--format", "json"]).json();
    // 8 micro batches of 32 layers, 0.1 s each and more.
    assert!(value["results"]["steps"][0]["kernels_us"].as_f64().unwrap() > 8.0 * 32.0 * 1e5, "{value}");
    fs::write(dir.path().join("k.toml"), format!("{kernel}{kernel}")).unwrap();
    fabricsim_in(dir.path(), &["check", "step.toml"]).fails(2, &["E001", "stands twice"]);
}

#[test]
fn experts_and_segments_in_a_rack() {
    let toml = "system = \"nvl72-gb200\"\nnodes = 36\n[[workload]]\nkind = \"step\"\nmodel = \"qwen3-235b-a22b\"\nranks = 128\n\
                pp = 2\nep = 64\nzero = 1\nrecompute = \"full\"\nglobal_batch = 128\nplacement = { segment = 64 }\n";
    let ran = run(toml, "check", &[]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(ran.out.contains("in a scale-up domain, 16 nodes  all-to-all"), "{ran:?}");
    // Without segments the second stage begins in the first rack.
    let ran = run(&toml.replace("segment = 64", "segment = 72"), "check", &["--format", "json"]).json();
    let rows = ran["results"]["steps"][0]["messages"].as_array().unwrap().clone();
    let experts = rows.iter().find(|m| m["group"] == "ep").unwrap();
    assert!(experts["domains"].as_u64() >= Some(1), "{experts}");
    run(&toml.replace("segment = 64", "segment = 30"), "check", &[])
        .fails(2, &["E120", "near: segment = 24, 28, 32 or 36"]);
    run(&toml.replace("ep = 64", "ep = 48"), "check", &[]).fails(2, &["`experts % ep = 0`", "near: ep = "]);
}

/// A model of a few layers on two nodes, played in no time.
const SMALL: &str = "model = { layers = 4, hidden = 2048, heads = 16, ffn = 8192, gated = true, vocab = 32000 }\n";

fn small(keys: &str) -> String {
    with(&format!("{SMALL}global_batch = 32\n{keys}"))
}

fn step(toml: &str, args: &[&str]) -> serde_json::Value {
    let value = run(toml, "run", &[args, &["--format", "json"]].concat()).json();
    value["results"]["step"].clone()
}

fn us(step: &serde_json::Value, key: &str) -> f64 {
    step[key].as_f64().unwrap_or_else(|| panic!("{key} in {step}"))
}

/// The parts of a rank's time.
fn parts(of: &serde_json::Value) -> f64 {
    ["compute_us", "exposed_comm_us", "bubble_us", "optimizer_us", "straggler_wait_us"]
        .map(|key| us(of, key))
        .iter()
        .sum()
}

#[test]
fn parts_of_a_step_add_up() {
    for keys in
        ["tp = 4\npp = 2\nzero = 1\n", "fsdp = true\n", "pp = 4\ncp = 2\n", "tp = 8\noverlap = { tensor = 4 }\n"]
    {
        let step = step(&small(keys), &[]);
        let time = us(&step, "time_us");
        for of in [&step, &step["worst"]] {
            assert!((parts(of) / time - 1.0).abs() < 1e-6, "{keys}: {} of {time}", parts(of));
        }
        let shares: f64 = step["critical_path"].as_array().unwrap().iter().map(|p| p["share"].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-6, "{keys}: {shares}");
        let exposed: f64 = step["exposed_us"].as_object().unwrap().values().map(|v| v.as_f64().unwrap()).sum();
        assert!((exposed - us(&step, "exposed_comm_us")).abs() < 1e-3, "{keys}");
        // Nothing is faster than its kernels, and MFU is what the work and the time say.
        assert!(time > step["outline"]["kernels_us"].as_f64().unwrap(), "{keys}");
        let tflops = step["outline"]["model_tflop"].as_f64().unwrap() / 16.0 / (time / 1e6);
        assert!((us(&step, "tflops_per_gpu") / tflops - 1.0).abs() < 1e-9, "{keys}");
    }
}

#[test]
fn what_is_not_simulated_again_changes_no_picosecond() {
    for keys in ["tp = 4\npp = 2\nzero = 1\n", "fsdp = true\n", "tp = 2\ncp = 2\npp = 2\nvp = 2\n"] {
        let toml = small(keys);
        let (with, without) = (step(&toml, &[]), step(&toml, &["--set", "workload.0.reuse=false"]));
        for key in ["time_us", "compute_us", "exposed_us", "bubble_us", "straggler_wait_us", "worst", "critical_path"] {
            assert_eq!(with[key], without[key], "{keys}: {key}");
        }
        assert!(with["reuse"]["played"].as_u64() < with["reuse"]["calls"].as_u64(), "{keys}");
        assert_eq!(with["reuse"]["calls"], without["reuse"]["calls"]);
        assert_eq!(without["reuse"]["why"], "reuse = false");
    }
}

#[test]
fn links_of_a_step_carry_the_same_however_it_is_played() {
    let toml = small("tp = 8\nzero = 1\n");
    let links = |args: &[&str]| {
        let value = run(&toml, "run", &[args, &["--format", "json"]].concat()).json();
        let rows = value["results"]["links"].as_array().unwrap().clone();
        rows.iter().map(|link| link["bytes"].as_u64().unwrap()).collect::<Vec<u64>>()
    };
    let with = links(&[]);
    assert!(with.iter().any(|bytes| *bytes > 0));
    assert_eq!(with, links(&["--set", "workload.0.reuse=false"]));
}

#[test]
fn slow_ranks_are_found() {
    let toml = small("tp = 4\n");
    let all = step(&toml, &[]);
    assert!(all.get("slow_ranks").is_none(), "{all}");
    let slow = step(&toml, &["--set", "workload.0.slow_ranks=[{ rank = 5, factor = 1.2 }]"]);
    let rows = slow["slow_ranks"].as_array().unwrap();
    assert_eq!(
        (rows.len(), &rows[0]["rank"], &rows[0]["device"]),
        (1, &serde_json::json!(5), &serde_json::json!("node0.gpu5"))
    );
    assert!((rows[0]["factor"].as_f64().unwrap() - 1.2).abs() < 0.02, "{rows:?}");
    assert!(us(&slow, "straggler_wait_us") > us(&all, "straggler_wait_us"), "{slow}");
    // The same as a fault of the GPU, which also slows its part in collectives, and is compared with the healthy cluster.
    let value = run(&toml, "run", &["--fault", "node0.gpu5 slowdown=1.2", "--format", "json"]).json();
    let results = &value["results"];
    assert_eq!(results["step"]["slow_ranks"][0]["rank"], 5, "{value}");
    assert_eq!(results["healthy"]["steps_us"][0], all["time_us"]);
}

#[test]
fn steps_vary_by_jitter_alone() {
    let toml = small("tp = 8\nsteps = 3\n");
    let same = step(&toml, &[]);
    let times = |step: &serde_json::Value| -> Vec<f64> {
        step["steps_us"].as_array().unwrap().iter().map(|t| t.as_f64().unwrap()).collect()
    };
    assert_eq!(times(&same), vec![us(&same, "time_us"); 3]);
    let args = ["--set", "workload.0.jitter={ kernel_sigma = 0.02 }"];
    let drawn = step(&toml, &args);
    let mut list = times(&drawn);
    assert_eq!(drawn, step(&toml, &args));
    list.sort_by(f64::total_cmp);
    assert!(list[0] < list[2] && list[1] == us(&drawn, "time_us"), "{list:?}");
    let seeds = run(&toml, "run", &["--seeds", "2", "--format", "json"]).json();
    assert_eq!(seeds["results"]["seeds"]["measures"][0]["name"], "step step", "{seeds}");
}

#[test]
fn a_run_says_where_the_time_goes() {
    let ran = run(&small("tp = 4\npp = 2\n"), "run", &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for part in [
        "a step, ",
        "MFU",
        "tokens/s. Largest loss: ",
        "where the time goes",
        "by stage, the mean of its ranks",
        "the chain of work that the end waited for",
        "different ones were simulated for",
        "busiest links",
    ] {
        assert!(ran.out.contains(part), "{part} is not in\n{}", ran.out);
    }
}

#[test]
fn files_of_a_step() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("step.toml"), small("tp = 4\npp = 2\n")).unwrap();
    let go = |args: &[&str]| fabricsim_in(dir.path(), &[&["run", "step.toml"][..], args].concat());
    assert_eq!(go(&["--out", "out", "--timeline", "t.json"]).code, 0);
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(read("out/step.csv").lines().count(), 17);
    assert!(
        read("out/critical_path.csv").starts_with("workload,from_us,to_us,rank,kind,what,phase,micro_batch,layer\n")
    );
    assert!(read("out/timeline.svg").contains("stage 1"));
    assert_eq!(read("out/timeline.json"), read("t.json"));
    let trace: serde_json::Value = serde_json::from_str(&read("t.json")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|e| e["args"]["name"] == "rank 8 (node1.gpu0), stage 1"));
    assert!(events.iter().any(|e| e["ph"] == "X" && e["cat"] == "backward"));
    // Nothing that is there is written over, and what can't be is told before anything is played.
    go(&["--timeline", "t.json"]).fails(2, &["E081"]);
    assert_eq!(go(&["--timeline", "t.json", "--force"]).code, 0);
    go(&["--timeline", "t.txt"]).fails(2, &["E080", ".json or .svg"]);
}

#[test]
fn over_packets_everything_is_played() {
    let keys = "model = { layers = 1, hidden = 1024, heads = 8, ffn = 2048, vocab = 1024 }\nglobal_batch = 2\nsequence = 512\ndp = 2\nranks = 16\ntp = 8\n";
    let toml = with(keys).replace("sequence = 8192\n", "");
    let toml = toml.replace("[[workload]]", "[transport]\npreset = \"roce-400g\"\n[[workload]]");
    let step = step(&toml, &[]);
    assert_eq!(step["reuse"]["calls"], step["reuse"]["played"]);
    assert!(step["reuse"]["why"].as_str().unwrap().contains("packets"), "{step}");
}

#[test]
fn steps_without_end_are_refused_and_single_stages_have_no_schedule() {
    for verb in ["check", "run"] {
        let ran = run(&with("fsdp = true\nglobal_batch = 4294967296\n"), verb, &[]);
        ran.fails(2, &["E120", "too large to be gone through", "micro batches would do, which is global_batch = "]);
        // As many messages as bytes: neither is there the memory for them.
        let ran = run(&with("global_batch = 16\ntp = 8\nbucket_size = \"1 B\"\n"), verb, &[]);
        ran.fails(2, &["E003", "too many messages of gradients", "bucket_size = "]);
        let ran = run(&with("global_batch = 80000\ntp = 8\noverlap = { tensor = 64 }\n"), verb, &[]);
        ran.fails(2, &["E003", "kernels and messages of a rank", "set `overlap.tensor` or `global_batch` lower"]);
    }
    let dual = step(&small("fsdp = true\nschedule = \"dualpipe\"\n"), &[]);
    assert_eq!(dual["time_us"], step(&small("fsdp = true\n"), &[])["time_us"]);
    // Without a pipeline nothing is a bubble.
    assert_eq!(dual["bubble_us"], 0.0);
}

#[test]
fn faults_blame_the_key_that_is_wrong() {
    // 16 ranks are no multiple of 3: batch and sequence have no part in it.
    let ran = check("tp = 3\nglobal_batch = 16\n");
    assert!(ran.err.contains("it would with tp = 1, 2, 4 or 8 or ranks = 15 or ranks = 18"), "{}", ran.err);
    assert!(!ran.err.contains("global_batch %") && !ran.err.contains("sequence %"), "{}", ran.err);
    let ran = check("tp = 2\nglobal_batch = 16\nchunk_layers = [3, 4]\n");
    ran.fails(2, &["`chunk_layers` has 2 entries, 7 layers in all", "= 1 entry with 32 layers"]);
    let ran = check("tp = 2\nglobal_batch = 16\n[workload.compute]\nefficiency = 1e308\n");
    ran.fails(2, &["^ 1e308; a number from"]);
    let ran = check("tp = 8\npp = 2\nzero = 1\nglobal_batch = 16\ntitle = \"x\"\n");
    ran.fails(2, &["did you mean `name`?"]);
    let ran = check("tp = 8\npp = 2\nzero = 1\nglobal_batch = 16\n");
    assert!(ran.err.contains("`zero` has no effect") && ran.err.contains("nobody to divide with"), "{}", ran.err);
}

#[test]
fn a_named_job_keeps_its_model_and_the_output_says_what_it_rests_on() {
    let ran = run(&small("name = \"mine\"\nfsdp = true\n"), "run", &[]);
    assert!(ran.out.starts_with("mine on 16 GPUs: "), "{}", ran.out);
    assert!(
        ran.out.contains("the best that was measured; most systems are slower: `compute.efficiency`"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("a message counts here with all its time"), "{}", ran.out);
    let own = "fsdp = true\n[workload.compute]\nefficiency = 0.8\n";
    assert!(!run(&small(own), "run", &[]).out.contains("the best that was measured"));
    let named = "name = \"mine\"\nmodel = \"llama3.1-8b\"\nfsdp = true\nglobal_batch = 16\n";
    let ran = run(&with(named), "run", &[]);
    assert!(ran.out.starts_with("mine (llama3.1-8b) on 16 GPUs: "), "{}", ran.out);
}

#[test]
fn files_are_of_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("step.toml"), small("fsdp = true\n")).unwrap();
    let ran = fabricsim_in(dir.path(), &["run", "step.toml", "--out", "o"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let there = |name: &str| dir.path().join("o").join(name).exists();
    assert!(there("step.csv") && there("critical_path.csv") && there("links.csv"));
    assert!(!there("collectives.csv") && !there("transfers.csv") && !there("chart.svg"));
}

#[test]
fn measured_kernels_count_as_the_scenario() {
    let dir = tempfile::tempdir().unwrap();
    let step = small("fsdp = true\n[workload.compute]\nprofile = \"kernels.toml\"\n");
    fs::write(dir.path().join("step.toml"), step).unwrap();
    let sweep = "scenario = \"step.toml\"\n[[axis]]\nkey = \"workload.0.micro_batch\"\nvalues = [1]\n";
    fs::write(dir.path().join("sweep.toml"), sweep).unwrap();
    let id = |time: &str| {
        let row = format!("[[kernel]]\nname = \"FFN up\"\npass = \"forward\"\ntime = \"{time}\"\n");
        fs::write(dir.path().join("kernels.toml"), row).unwrap();
        let ran = fabricsim_in(dir.path(), &["sweep", "sweep.toml", "--dry-run", "--format", "json"]);
        ran.json()["results"]["sweep"].as_str().unwrap().to_owned()
    };
    let (one, other) = (id("1 ms"), id("2 ms"));
    assert_ne!(one, other);
    assert_eq!(one, id("1 ms"));
}
