//! Inference, caches on their way and failing runs from the command line.

mod cli_common;

use std::fs;

use cli_common::{Ran, fabricsim_in};
use serde_json::Value;

fn run(toml: &str, args: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.toml"), toml).unwrap();
    fabricsim_in(dir.path(), &[&["run", "s.toml", "--quiet"][..], args].concat())
}

fn results(toml: &str) -> Value {
    run(toml, &["--format", "json"]).json()["results"].clone()
}

fn inference(keys: &str) -> String {
    format!("system = \"hgx-h100\"\nnodes = 2\n[[workload]]\nkind = \"inference\"\nmodel = \"llama3-70b\"\n{keys}")
}

fn number(value: &Value, path: &str) -> f64 {
    let found = path.split('.').fold(value, |v, part| match part.parse::<usize>() {
        Ok(index) => &v[index],
        Err(_) => &v[part],
    });
    found.as_f64().unwrap_or_else(|| panic!("{path}: {found}"))
}

#[test]
fn steps_have_kernels_and_messages() {
    let all = results(&inference("tp = 8\nprompt = 2048\noutput = 512\nbatch = [1, 128]\n"));
    let pool = &all["inference"][0]["pools"][0];
    let step = |i: usize, key: &str| number(pool, &format!("steps.{i}.{key}"));
    // 141 GB of weights over eight GPUs at 3.35 TB/s, and 160 all-reduces.
    assert!(step(1, "kernels_us") > 5250.0 && step(1, "kernels_us") < 8500.0, "{pool}");
    assert!(step(1, "messages_us") > 160.0 * 3.0 && step(1, "messages_us") < 160.0 * 15.0, "{pool}");
    assert!(step(2, "time_us") > step(1, "time_us") && step(2, "time_us") < 4.0 * step(1, "time_us"), "{pool}");
    let calls = pool["calls"].as_array().unwrap();
    let sums: u64 =
        calls.iter().filter(|c| c["count"].as_u64() == Some(80)).map(|c| c["count"].as_u64().unwrap()).sum();
    assert_eq!(sums, 160, "{pool}");
    assert_eq!(number(pool, "cache_bytes_per_token").to_bits(), 40_960f64.to_bits());
}

#[test]
fn tensor_parallelism_over_two_nodes_decodes_slower() {
    // A small all-reduce over two nodes costs more than the 16 µs that halving the weights saves.
    let time = |keys: &str| number(&results(&inference(keys)), "inference.0.pools.0.steps.1.time_us");
    let (eight, sixteen) = (time("tp = 8\nbatch = [8]\n"), time("tp = 16\nall_reduce = \"nccl\"\nbatch = [8]\n"));
    assert!(sixteen > eight, "{eight} {sixteen}");
}

#[test]
fn two_pools_show_transfers_and_goodput() {
    let keys = "precision = \"fp8\"\ntp = 4\nreplicas = 2\nprompt = 2000\noutput = 50\nrequests = 80\nrate = 4.0\n\
                usd_per_gpu_hour = 2.5\n[workload.decode]\ntp = 8\n[workload.slo]\nttft = \"500 ms\"\ntpot = \"30 ms\"\n";
    let text = inference(keys);
    let all = results(&text);
    let one = &all["inference"][0];
    assert!(number(one, "served.transfer.p50_ms") > 0.0, "{one}");
    assert!(number(one, "served.ttft.p50_ms") > number(one, "pools.0.steps.0.time_us") / 1e3, "{one}");
    assert!(number(one, "goodput.rate") > 4.0, "{one}");
    assert!(number(one, "served.output_mtokens_per_usd") > 0.0);
    // The whole cache after the prefill takes longer than what is left of one that is sent layer by layer.
    let bulk = results(&text.replace("tp = 8\n[workload.slo]", "tp = 8\nby_layer = false\n[workload.slo]"));
    assert!(number(&bulk, "inference.0.served.transfer.p50_ms") > 2.0 * number(one, "served.transfer.p50_ms"));
    // One seed, one result.
    assert_eq!(all["inference"], results(&text)["inference"]);
    let shown = run(&text, &[]);
    for part in ["first token (TTFT)", "goodput:", "prefill  2 x 4 GPUs", "decode   1 x 8 GPUs"] {
        assert!(shown.out.contains(part), "{part}: {shown:?}");
    }
}

#[test]
fn one_nic_takes_eight_times_as_long_for_a_cache() {
    let text = "system = \"hgx-h100\"\nnodes = 2\n[[workload]]\nkind = \"kv-transfer\"\nmodel = \"qwen3-8b\"\ntp = 8\ntokens = 32768\n";
    let longest = |keys: &str| number(&results(&format!("{text}{keys}")), "transfer_totals.longest_us");
    let own = longest("");
    // 32,768 · 147,456 B, an eighth on each NIC of 50 GB/s.
    let bound = 32_768.0 * 147_456.0 / 8.0 / 50e3;
    assert!(own > bound && own < bound * 1.05, "{own} {bound}");
    assert!((longest("nics = \"pinned\"\n") / own - 8.0).abs() < 0.1);
    // Blocks of 64 KiB that take 10.8 µs each.
    let blocks = longest("block = \"64 KiB\"\nper_block = \"10.8 us\"\n");
    assert!((blocks / (32_768.0 * 147_456.0 / 8.0 / 65_536.0 * 10.8) - 1.0).abs() < 0.02, "{blocks}");
    // A receiver of a quarter of the ranks gets four caches' parts over its NIC.
    assert!((longest("decode_tp = 2\n") / own - 4.0).abs() < 0.1);
}

#[test]
fn a_long_run_is_as_effective_as_published() {
    let text = "system = \"hgx-h100\"\n[[workload]]\nkind = \"failures\"\ngpus = 16384\ncheckpoint = \"5700 GB\"\nstorage = \"2000 GB/s\"\n";
    let all = results(text);
    let run = &all["long_runs"][0];
    assert!(number(run, "effective") > 0.9 && number(run, "effective_played") > 0.9, "{run}");
    assert!((number(run, "hours_between") - 3.09).abs() < 0.01, "{run}");
    run_fails("system = \"hgx-h100\"\n[[workload]]\nkind = \"failures\"\n", &["E011", "checkpoint = "]);
}

fn run_fails(text: &str, parts: &[&str]) {
    let ran = run(text, &[]);
    assert_eq!(ran.code, 2, "{ran:?}");
    for part in parts {
        assert!(ran.err.contains(part), "{part}: {ran:?}");
    }
}

#[test]
fn what_cannot_be_says_what_could() {
    run_fails(&inference("tp = 3\n"), &["heads % tp = 0", "near: tp = 1, 2, 4 or 8"]);
    run_fails(&inference("tp = 1\n"), &["do not fit", "raise `tp`"]);
    run_fails(&inference("tp = 8\nreplicas = 3\n"), &["need 24 GPUs, and there are 16"]);
    run_fails(&inference("tp = 8\nattention_dp = 2\n"), &["no experts to share"]);
    run_fails(
        &inference("tp = 8\n").replace("70b", "70c"),
        &["unknown model `llama3-70c`", "did you mean `llama3-70b`"],
    );
    let kv =
        "system = \"hgx-h100\"\n[[workload]]\nkind = \"kv-transfer\"\nmodel = \"qwen3-8b\"\ntp = 8\ntokens = 100\n";
    run_fails(kv, &["8 ranks from GPU 8 on, and there are 8"]);
}

#[test]
fn a_check_shows_what_inference_is_made_of_and_refuses_what_a_run_would() {
    let dir = tempfile::tempdir().unwrap();
    let check = |keys: &str, args: &[&str]| {
        fs::write(dir.path().join("s.toml"), inference(keys)).unwrap();
        fabricsim_in(dir.path(), &[&["check", "s.toml"][..], args].concat())
    };
    let ran = check("tp = 8\nprompt = 2048\noutput = 512\nbatch = [1, 128]\n", &["--format", "json"]);
    let outline = &ran.json()["results"]["inference"][0];
    let played = results(&inference("tp = 8\nprompt = 2048\noutput = 512\nbatch = [1, 128]\n"));
    let pool = &played["inference"][0]["pools"][0];
    for key in ["weights_bytes", "cache_bytes_per_token", "cache_tokens", "gpus", "sizes"] {
        assert_eq!(outline["pools"][0][key], pool[key], "{key}");
    }
    for step in 0..3 {
        assert_eq!(outline["pools"][0]["steps"][step]["kernels_us"], pool["steps"][step]["kernels_us"]);
    }
    assert_eq!(outline["pools"][0]["calls"][0]["bytes"], pool["calls"][0]["bytes"]);
    let text = check("tp = 8\nprompt = 2048\noutput = 512\n", &[]);
    assert!(text.out.contains("message of the last step"), "{}", text.out);
    // One shot does not leave a node.
    let keys = "tp = 16\nprompt = 2000\noutput = 100\nall_reduce = \"one_shot\"\n";
    check(keys, &[]).fails(2, &["E040", "one_shot does not do all_reduce here"]);
    run_fails(&inference(keys), &["E040"]);
}

#[test]
fn steps_go_into_a_table() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.toml"), inference("tp = 8\nprompt = 2048\noutput = 512\nbatch = [1]\n")).unwrap();
    assert_eq!(fabricsim_in(dir.path(), &["run", "s.toml", "--out", "o"]).code, 0);
    let csv = fs::read_to_string(dir.path().join("o/inference.csv")).unwrap();
    assert!(csv.starts_with("workload,pool,phase,sequences,tokens,time_us,"), "{csv}");
    assert_eq!(csv.lines().count(), 3, "{csv}");
}
