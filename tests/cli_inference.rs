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
        &inference("tp = 8\nrequests = 20000\nrate = 0.001\n"),
        &["E016", "requests would come for 20000000 seconds"],
    );
    run_fails(
        &inference("tp = 8\nrequests = 20\nwarm = 20\n"),
        &["`warm` leaves out all requests", "below requests = 20"],
    );
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

/// The warnings of a scenario.
fn warned(text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.toml"), text).unwrap();
    let ran = fabricsim_in(dir.path(), &["run", "s.toml"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.err
}

#[test]
fn the_queue_of_a_nic_bounds_all_that_is_posted_to_it() {
    let text = "system = \"hgx-h100\"\nnodes = 2\n[[workload]]\nkind = \"kv-transfer\"\nmodel = \"llama3-70b\"\ntp = 8\ntokens = 8192\n\
                block = \"64 KiB\"\nper_block = \"100 us\"\n";
    let longest = |keys: &str| number(&results(&format!("{text}{keys}")), "transfer_totals.longest_us");
    let own = longest("");
    // 8192 · 327,680 B, an eighth on each NIC, 64 KiB each 100 µs.
    let bound = 8192.0 * 327_680.0 / 8.0 / 65_536.0 * 100.0;
    assert!((own / bound - 1.0).abs() < 0.01, "{own} {bound}");
    for (keys, factor) in [
        ("nics = \"pinned\"\n", 8.0),
        ("requests = 8\n", 8.0),
        ("qps = 4\n", 1.0),
        ("qps = 4\nnics = \"pinned\"\nrequests = 2\n", 16.0),
        ("nics = \"striped\"\n", 1.0),
        // Receivers have no queue.
        ("decode_tp = 2\n", 1.0),
    ] {
        let found = longest(keys) / own;
        assert!((found / factor - 1.0).abs() < 0.02, "{keys}: {found}");
    }
    // Caches of workloads that are played together are posted to the same queues.
    let again = text.split_once("[[workload]]").unwrap().1;
    let both = longest(&format!("[[workload]]{again}with_previous = true\nstart = \"1 us\"\n"));
    assert!((both / own - 2.0).abs() < 0.02, "{both} {own}");
    let said = run(text, &[]);
    assert!(said.out.contains("Bottleneck: the queue of node0.nic"), "{said:?}");
    // The share at which software feeds a NIC.
    let fed = longest("nic_share = 0.5\n");
    assert!((fed / own - 1.0).abs() < 0.01, "{fed} {own}");
    let plain = text.replace("per_block = \"100 us\"\n", "").replace("block = \"64 KiB\"\n", "");
    let half = number(&results(&format!("{plain}nic_share = 0.5\n")), "transfer_totals.longest_us");
    assert!((half / (8192.0 * 327_680.0 / 8.0 / 25e3) - 1.0).abs() < 0.01, "{half}");
}

/// Instances for prompts and for answers, requests one after the other or at once.
fn apart(first: &str, decode: &str) -> Value {
    let keys = format!("prompt = 4000\noutput = 200\n{first}\n[workload.decode]\nby_layer = false\n{decode}\n");
    results(&inference(&keys))["inference"][0]["served"].clone()
}

#[test]
fn caches_take_as_long_as_their_way() {
    // One sender in node 0; decoders on the other half of its node, and two on node 1: each gets one of three prompts, which are made one
    // after the other.
    let at_once = "arrivals = \"at-once\"\nprecision = \"fp8\"\n";
    let near = apart(&format!("{at_once}tp = 4\nrequests = 1"), "tp = 4");
    let all = apart(
        &format!("{at_once}tp = 4\nrequests = 3\norder = \"prefill-first\"\nmax_tokens = 4000"),
        "tp = 4\nreplicas = 3",
    );
    // 4000 · 327,680 B over four NVLinks of 450 GB/s, or over four NICs of 50.
    let (least, most) = (number(&near, "transfer.p50_ms"), number(&all, "transfer.p99_ms"));
    assert!(least > 0.7 && least < 0.9, "{near}");
    assert!(most > 6.5 && most < 7.2, "{all}");
    assert!((number(&all, "transfer.p50_ms") / most - 1.0).abs() < 0.05, "two of three go over the network: {all}");
}

#[test]
fn caches_share_the_nics_of_their_receiver() {
    // Two prefill instances of node 0 over four GPUs each end at the same time; one decoding instance of four GPUs has four NICs.
    let at_once = "arrivals = \"at-once\"\nprecision = \"fp8\"\norder = \"prefill-first\"\nmax_tokens = 4000\ntp = 4\nreplicas = 2\n";
    let (one, two) =
        (apart(&format!("{at_once}requests = 1"), "tp = 4"), apart(&format!("{at_once}requests = 2"), "tp = 4"));
    let ratio = number(&two, "transfer.p50_ms") / number(&one, "transfer.p50_ms");
    assert!((ratio - 2.0).abs() < 0.03, "{ratio}");
    // The queue of a NIC is shared by those who post to it, not by those who don't.
    let slow = "tp = 4\nblock = \"64 KiB\"\nper_block = \"10 us\"";
    let (one, two) = (apart(&format!("{at_once}requests = 1"), slow), apart(&format!("{at_once}requests = 2"), slow));
    let ratio = number(&two, "transfer.p50_ms") / number(&one, "transfer.p50_ms");
    assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
    // One NIC for all that a node sends.
    let pinned = format!("{slow}\nnics = \"pinned\"");
    let pinned = apart(&format!("{at_once}requests = 1"), &pinned);
    let ratio = number(&pinned, "transfer.p50_ms") / number(&one, "transfer.p50_ms");
    assert!((ratio - 4.0).abs() < 0.05, "{ratio}");
}

#[test]
fn stages_send_with_all_their_ranks() {
    // Two stages of eight ranks, whose nodes have a NIC each: eight messages share it.
    let time = |nics: u32| {
        let text = inference("tp = 8\npp = 2\nprompt = 8192\n")
            .replace("nodes = 2\n", &format!("nodes = 2\nnics = \"{nics}x400Gb/s\"\n"));
        let all = results(&text);
        number(&all, "inference.0.pools.0.steps.0.messages_us")
    };
    let (one, eight) = (time(1), time(8));
    // 8192 · 8192 · 2 B of each rank: 2.7 ms by a NIC of its own, eight times as long by one.
    assert!(one - eight > 15_000.0 && one - eight < 25_000.0, "{one} {eight}");
}

#[test]
fn keys_without_effect_are_warned_of() {
    let steps = "tp = 8\nrate = 7.0\nvariation = 3.0\nwarm = 5\nmax_batch = 8\nexpert_kernel = \"deepep\"\nimbalance = 2.0\n\
                 [workload.decode]\ntp = 8\nper_block = \"1 us\"\n[workload.slo]\nttft = \"1 s\"\ntpot = \"50 ms\"\n";
    let said = warned(&inference(steps));
    for key in ["rate", "variation", "warm", "slo", "max_batch", "expert_kernel", "imbalance", "decode.per_block"] {
        assert!(said.contains(&format!("`{key}` has no effect")), "{key}: {said}");
    }
    let said =
        warned(&inference("tp = 8\nrequests = 3\noutput = 3\narrivals = \"at-once\"\nrate = 7.0\nvariation = 3.0\n"));
    for key in ["rate", "variation"] {
        assert!(said.contains(&format!("`{key}` has no effect")), "{key}: {said}");
    }
    let kv = "system = \"hgx-h100\"\n[[workload]]\nkind = \"kv-transfer\"\nmodel = \"qwen3-8b\"\ntp = 4\nto = 4\ntokens = 100\n\
              per_block = \"1 us\"\nnic = 3\n";
    let said = warned(kv);
    for key in ["per_block", "nic"] {
        assert!(said.contains(&format!("`{key}` has no effect")), "{key}: {said}");
    }
    let said = warned(&inference("tp = 8\nrequests = 3\noutput = 3\n"));
    assert!(!said.contains("no effect"), "{said}");
    // Heads are divided by the same rule on their way as in instances.
    run_fails(&kv.replace("tp = 4\nto = 4", "tp = 3\nto = 4"), &["heads % tp = 0", "near: tp = 1, 2, 4 or 8"]);
    run_fails(&kv.replace("to = 4", "to = 4\ndecode_tp = 3"), &["heads % tp = 0", "near: decode_tp = 1, 2, 4 or 8"]);
}

#[test]
fn limits_of_batches_are_of_each_rank_with_requests_of_its_own() {
    let text = |dp: u32| {
        format!(
            "system = \"hgx-h100\"\n[[workload]]\nkind = \"inference\"\nmodel = \"qwen3-30b-a3b\"\nattention_dp = {dp}\nrequests = 256\n\
             arrivals = \"at-once\"\nprompt = 64\noutput = 100\nmax_tokens = 1000\nmax_batch = 8\n"
        )
    };
    let batch = |dp| number(&results(&text(dp)), "inference.0.served.batch");
    let (two, eight) = (batch(2), batch(8));
    assert!(two > 14.0 && two <= 16.0 && eight > 52.0 && eight <= 64.0, "{two} {eight}");
}

#[test]
fn long_runs_say_what_they_lose() {
    let text = "system = \"hgx-h100\"\n[[workload]]\nkind = \"failures\"\n";
    // An interval is played as it is asked for.
    let short = results(&format!("{text}gpus = 16384\npause = \"1 ms\"\ninterval = \"100 us\"\ndays = 0.5\n"));
    let run = &short["long_runs"][0];
    let (closed, played) = (number(run, "effective"), number(run, "effective_played"));
    assert!((closed - 0.0861).abs() < 0.01 && (played - closed).abs() < 0.01, "{run}");
    run_fails(&format!("{text}pause = \"1 ms\"\ninterval = \"0 s\"\n"), &["E016", "an interval of no work"]);
    run_fails(&format!("{text}pause = \"0 s\"\n"), &["cost nothing", "interval = "]);
    let endless =
        format!("{text}gpus = 16777216\ngpu_hours = 1\ndays = 100000\npause = \"1 us\"\nrestart = \"1 us\"\n");
    run_fails(&endless, &["checkpoints and failures are more than can be played", "a failure every 214.6"]);
    run_fails(
        &format!("{text}pause = \"1 us\"\ninterval = \"1 us\"\n"),
        &["a checkpoint every 1 ", "longer `interval`"],
    );
}

#[test]
fn designs_seeds_and_sweeps_compare_what_inference_and_long_runs_come_to() {
    let dir = tempfile::tempdir().unwrap();
    let go = |text: &str, args: &[&str]| {
        fs::write(dir.path().join("s.toml"), text).unwrap();
        fabricsim_in(dir.path(), args)
    };
    let failing =
        "system = \"hgx-h100\"\n[[workload]]\nkind = \"failures\"\ngpus = 16384\npause = \"10 s\"\ndays = 10\n";
    let seeds = go(failing, &["run", "s.toml", "--quiet", "--seeds", "3", "--format", "json"]).json();
    let measure = &seeds["results"]["seeds"]["measures"][0];
    assert!(measure["name"].as_str().unwrap().starts_with("lost of 10 days"), "{seeds}");
    // A tenth: 4 % of the time for checkpoints, 5 % for restarts, the rest is lost work.
    let lost = number(measure, "p50_us") / 864e9;
    assert!(lost > 0.05 && lost < 0.25, "{measure}");
    let designs = inference("tp = 8\n")
        + "[[design]]\nname = \"a\"\n[[design]]\nname = \"b\"\nworkload = [{ efficiency = 0.5 }]\n";
    let designs =
        designs.replace("workload = [{", "workload = [{ kind = \"inference\", model = \"llama3-70b\", tp = 8,");
    let found = go(&designs, &["diff", "s.toml", "--quiet", "--format", "json"]).json();
    let measures = found["results"]["designs"][1]["measures"].as_array().unwrap().clone();
    assert!(measures.len() == 4 && measures[0]["name"].as_str().unwrap().starts_with("prefill of 1 x 1024"), "{found}");
    assert!(found["results"]["designs"][1]["ratios"][0].as_f64().unwrap() > 1.3, "{found}");
    for (base, expected) in [
        (inference("tp = 8\nbatch = [1, 8]\n"), "prefill_us,decode_1_us,decode_8_us"),
        (
            inference("tp = 8\nrequests = 5\noutput = 5\n"),
            "ttft_p50_ms,ttft_p99_ms,tpot_p50_ms,output_tokens_per_s_per_gpu",
        ),
        (failing.to_owned(), "effective,effective_played,interval_s,failures"),
    ] {
        let file = format!("{}.csv", expected.len());
        let base = base.replace("[[workload]]", "[[base.workload]]");
        let text = format!("[base]\n{base}\n[[axis]]\nkey = \"seed\"\nvalues = [1, 2]\n");
        let ran = go(&text, &["sweep", "s.toml", "--quiet", "--out", &file]);
        let rows = fs::read_to_string(dir.path().join(&file)).unwrap_or_default();
        assert!(ran.code == 0 && rows.contains(expected) && rows.lines().count() == 3, "{expected}: {rows} {ran:?}");
    }
}

#[test]
fn rents_of_the_catalogue_are_prices() {
    let all = results(&inference("tp = 8\nrequests = 5\noutput = 20\nprecision = \"fp8\"\n"));
    let one = &all["inference"][0];
    let price = |key: &str| format!("{:.2}", number(one, &format!("price.{key}")));
    assert_eq!((price("min_usd_per_hour"), price("max_usd_per_hour")), ("1.99".to_owned(), "5.00".to_owned()));
    let each = number(one, "served.output_tokens_per_s_per_gpu") * 3600.0 / 1e6;
    assert!((number(one, "served.output_mtokens_per_usd") / (each / 3.495) - 1.0).abs() < 1e-6, "{one}");
    assert!((number(one, "served.output_mtokens_per_usd_range.1") / (each / 1.99) - 1.0).abs() < 1e-6, "{one}");
    assert!(number(one, "pools.0.steps.1.mtokens_per_usd") > 0.0);
    let own = results(&inference("tp = 8\nusd_per_gpu_hour = 2.0\n"));
    assert_eq!(own["inference"][0]["price"]["source"], "usd_per_gpu_hour");
    let none = results(&inference("tp = 8\ngpu = \"h100-sxm\"\n").replace("hgx-h100", "hgx-h800"));
    assert!(none["inference"][0].get("price").is_none());
}

#[test]
fn limits_and_interrupts_end_inference() {
    let keys = "precision = \"fp8\"\ntp = 4\nrequests = 20\n[workload.decode]\ntp = 8\n";
    // Every play has the events that are allowed.
    let ran = run(&(inference(keys) + "[limits]\nevents = 100\n"), &[]);
    assert!(ran.code == 4 && ran.err.contains("event"), "{ran:?}");
}

#[test]
#[cfg(unix)]
fn long_serving_ends_when_it_is_interrupted() {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    let dir = tempfile::tempdir().unwrap();
    let text = "system = \"hgx-h100\"\n[[workload]]\nkind = \"inference\"\nmodel = \"llama3.1-8b\"\nprompt = 1000\noutput = 100\n\
                rate = 50.0\nrequests = 10000000\n";
    fs::write(dir.path().join("s.toml"), text).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_fabricsim"))
        .current_dir(dir.path())
        .args(["run", "s.toml", "--quiet", "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let began = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["results"]["engine"]["stopped"], "interrupted");
}

#[test]
fn what_has_no_room_in_memory_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let check = |text: &str| {
        fs::write(dir.path().join("s.toml"), text).unwrap();
        let ran = fabricsim_in(dir.path(), &["check", "s.toml"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.err
    };
    // Eight ranks have 72 GB each, of which weights take 17.6; a token takes 40,960 B on each: room for 1.3 million.
    let serving = |batch: &str| check(&inference(&format!("tp = 8\nprompt = 8192\noutput = 2\n{batch}")));
    let told = serving("batch = [8, 500]\n");
    assert!(told.contains("W120") && told.contains("500 sequences of 8193 tokens"), "{told}");
    assert_eq!(serving("batch = [8, 150]\n"), "");
    // Rows that nobody asked for are left out.
    let long = inference("tp = 8\nprompt = 131072\noutput = 2\n");
    assert_eq!(check(&long), "");
    let pools = results(&long)["inference"].clone();
    assert!(
        pools.to_string().contains("\"sequences\":8,") && !pools.to_string().contains("\"sequences\":64,"),
        "{pools}"
    );
    let kv = |tokens: u64| {
        check(&format!(
            "system = \"hgx-h100\"\nnodes = 2\n[[workload]]\nkind = \"kv-transfer\"\nmodel = \"llama3-70b\"\ntp = 8\n\
             tokens = {tokens}\n"
        ))
    };
    // 40,960 B a token and rank.
    assert_eq!(kv(1_900_000), "");
    assert!(kv(2_000_000).contains("W120"), "{}", kv(2_000_000));
}
