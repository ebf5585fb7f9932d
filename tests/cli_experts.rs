//! Tokens of a step on their way to experts: by which kernels, how uneven, and what is refused.

mod cli_common;

use std::fs;

use cli_common::{Ran, fabricsim_in};
use serde_json::Value;

/// Two layers of experts over two nodes, with these keys of `[workload.experts]`.
fn with(keys: &str, experts: &str) -> String {
    format!(
        "system = \"hgx-h100\"\nnodes = 2\n[[workload]]\nkind = \"step\"\nsequence = 4096\nglobal_batch = 32\n{keys}\n[workload.model]\n\
         layers = 2\nhidden = 4096\nheads = 32\nvocab = 32000\nexperts = 64\ntop_k = 8\nexpert_ffn = 2048\n\
         {}\n[workload.experts]\n{experts}\n",
        if keys.contains("free") { "" } else { "expert_groups = 4\ntop_groups = 2" }
    )
    .replace("free = 1", "")
}

fn run(toml: &str, verb: &str, args: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("step.toml"), toml).unwrap();
    fabricsim_in(dir.path(), &[&[verb, "step.toml"][..], args].concat())
}

fn results(keys: &str, experts: &str) -> Value {
    let ran = run(&with(keys, experts), "run", &["--quiet", "--format", "json"]);
    assert_eq!(ran.code, 0, "{experts}: {ran:?}");
    ran.json()["results"].clone()
}

fn time(results: &Value) -> f64 {
    results["step"]["time_us"].as_f64().unwrap()
}

/// A figure of one kind of message.
fn of(results: &Value, what: &str, figure: &str) -> f64 {
    let rows = results["step"]["experts"]["messages"].as_array().unwrap();
    let row = rows.iter().find(|row| row["what"] == what).unwrap_or_else(|| panic!("no {what} in {rows:?}"));
    row[figure].as_f64().unwrap()
}

#[test]
fn what_is_not_simulated_again_changes_no_picosecond_with_experts_either() {
    for experts in [
        "hot = 1.5",
        "zipf = 0.6\ndraws = 3\ncopies = \"rank\"",
        "kernel = \"deepep-normal\"\nhot = 1.4\ndraws = 2",
        "kernel = \"deepep-normal\"",
        "kernel = \"deepep-low-latency\"\nzipf = 0.4\ncapacity = 1.2",
    ] {
        let keys = "ep = 16\nzero = 1";
        let played = |reuse: &str| results(&format!("{keys}\nreuse = {reuse}"), experts);
        let (with, without) = (played("true"), played("false"));
        for figure in ["time_us", "exposed_comm_us", "straggler_wait_us", "compute_us"] {
            assert_eq!(with["step"][figure], without["step"][figure], "{experts}: {figure}");
        }
        assert_eq!(with["step"]["experts"], without["step"]["experts"], "{experts}");
        assert!(with["step"]["reuse"]["played"].as_u64() < without["step"]["reuse"]["played"].as_u64(), "{experts}");
    }
}

#[test]
fn a_rank_with_more_tokens_is_waited_for() {
    let even = results("ep = 16", "dispatch = \"bf16\"");
    let hot = results("ep = 16", "hot = 2.0");
    assert!(time(&hot) > 1.1 * time(&even), "{} {}", time(&hot), time(&even));
    // Its messages take longer, too: it gets twice as much.
    for what in ["ep dispatch", "ep combine"] {
        let ratio = of(&hot, what, "time_us") / of(&even, what, "time_us");
        assert!((1.5..2.3).contains(&ratio), "{what}: {ratio}");
        let logical = of(&hot, what, "logical_bytes") / of(&even, what, "logical_bytes");
        assert!((logical - 1.0).abs() < 1e-6, "{what}: {logical}");
    }
    let late = &hot["step"]["late"][0];
    assert_eq!((late["what"].as_str(), late["rank"].as_u64()), (Some("experts"), Some(0)), "{late}");
    assert_eq!(hot["step"]["slow_ranks"][0]["rank"], 0);
    assert_eq!(hot["step"]["experts"]["fullest"], 2.0);
    let waits = |results: &Value| results["step"]["straggler_wait_us"].as_f64().unwrap();
    assert!(waits(&hot) > 10.0 * waits(&even));
    // Dropping what is over a capacity costs tokens and saves time.
    let dropped = results("ep = 16", "hot = 2.0\ncapacity = 1.25");
    assert!(time(&dropped) < time(&hot));
    // 0.75 of 1/16 of all copies.
    let share = dropped["step"]["experts"]["dropped"].as_f64().unwrap();
    assert!((share - 0.75 / 16.0).abs() < 1e-9, "{share}");
    // Full places all around take longer than even loads, and nobody is waited for.
    let padded = results("ep = 16", "hot = 2.0\ncapacity = 1.25\npad = true");
    assert!(time(&padded) > time(&even) && padded["step"]["experts"]["fullest"] == 1.25);
    let ran = run(&with("ep = 16", "hot = 2.0"), "run", &["--quiet"]);
    for part in
        ["late: the mean rank waits", "come late from experts, most of all for rank 0", "the fullest rank gets x2.00"]
    {
        assert!(ran.out.contains(part), "{part} is not in\n{}", ran.out);
    }
}

#[test]
fn draws_move_what_is_wanted() {
    let one = results("ep = 16", "hot = 2.0");
    let four = results("ep = 16", "hot = 2.0\ndraws = 4");
    // Each time another rank holds up the others, so that none does all the time, but they wait all the same.
    let slowest = |results: &Value| results["step"]["slow_ranks"][0]["factor"].as_f64().unwrap_or(1.0);
    assert!(slowest(&four) < slowest(&one), "{} {}", slowest(&four), slowest(&one));
    let ratio = time(&four) / time(&one);
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
    assert_eq!(four["step"]["experts"]["draws"], 4);
    // The same seed, the same step; another seed, another one.
    assert_eq!(time(&four), time(&results("ep = 16", "hot = 2.0\ndraws = 4")));
}

#[test]
fn deepep_sends_a_token_once_to_a_node() {
    // Nothing but experts crosses nodes: two of them are all ranks, so that only the norms of gradients do, too.
    let played = |experts: &str| results("ep = 16\nzero = 0", experts);
    let (nccl, rank) = (played("copies = \"expert\""), played("copies = \"rank\""));
    let (normal, direct) = (played("kernel = \"deepep-normal\""), played("kernel = \"deepep-low-latency\""));
    let crossing = |results: &Value| of(results, "ep dispatch", "network_bytes");
    // 4096 tokens of 8 KiB: eight copies, half of which leave the node; or one for each node of a token.
    let token = 4096.0 * 8192.0;
    assert!((crossing(&nccl) / token - 4.0).abs() < 1e-3, "{}", crossing(&nccl) / token);
    assert_eq!(crossing(&direct), crossing(&nccl));
    // Two of four groups: C(2,1)²/C(4,2) have one in each node, of the rest half are all there.
    assert!(crossing(&normal) / token > 0.8 && crossing(&normal) / token < 0.84, "{}", crossing(&normal) / token);
    assert!(crossing(&rank) < crossing(&nccl) && crossing(&rank) > crossing(&normal));
    // And so it takes less time; what is logical and what is physical are told apart.
    let dispatch = |results: &Value, figure: &str| of(results, "ep dispatch", figure);
    assert!(dispatch(&normal, "time_us") < 0.6 * dispatch(&nccl, "time_us"));
    assert!(time(&normal) < time(&nccl));
    assert!(dispatch(&normal, "logical_gbyte_per_s") > 1.5 * dispatch(&normal, "network_gbyte_per_s"));
    assert!(dispatch(&normal, "network_gbyte_per_s") < 50.0);
    // More processors for tokens are fewer for what runs beside them.
    let many = played("kernel = \"deepep-normal\"\nsms = 64");
    assert_ne!(time(&many), time(&normal));
}

#[test]
fn what_does_not_go_together_is_refused_with_what_would() {
    let check = |keys: &str, experts: &str| run(&with(keys, experts), "check", &[]);
    let shares = |first: &str, n: usize, rest: &str| {
        let list: Vec<&str> = (0..64).map(|i| if i < n { first } else { rest }).collect();
        format!("shares = [{}]", list.join(", "))
    };
    // One expert of 1000 and 63 of 1 each: the others have 63, of which seven parts are nine each.
    let (few, one) = (shares("1", 4, "0"), shares("1000", 1, "1"));
    for (keys, experts, parts) in [
        ("ep = 16", "hot = 9.0", &["E120", "no expert can get more than 1/8", "near: hot = 8"][..]),
        ("ep = 16", "zipf = 1.5", &["E120", "near: zipf = 0.74"]),
        ("ep = 16", "shares = [1, 2, 3]", &["E120", "a number for each of 64 experts", "3 numbers"]),
        ("ep = 16", "kernel = \"deepep-normal\"\nsms = 21", &["E120", "near: sms = 18, 20, 22 or 24"]),
        ("ep = 16", "kernel = \"deepep-normal\"\nsms = 200", &["E120", "h100-sxm has 132", "near: sms = 128 or 130"]),
        ("ep = 16", "kernel = \"deepep-normal\"\nsms = 132", &["E120", "run beside", "near: sms = 128 or 130"]),
        (
            "ep = 16",
            "capacity = 9.0\npad = true",
            &["E120", "an expert with all tokens has 8.00", "near: capacity = 8"],
        ),
        ("ep = 16", &few, &["E120", "8 experts or more need shares above 0"]),
        ("ep = 16", &one, &["E120", "expert 0 would get 94.1 %", "near: no share above 9.0000"]),
        ("ep = 16", "hot = 1.5\nzipf = 0.5", &["exclude each other"]),
        ("ep = 16", "kernel = \"deepep\"", &["deepep-normal"]),
    ] {
        let ran = check(keys, experts);
        assert_eq!(ran.code, 2, "{experts}: {ran:?}");
        for part in parts {
            assert!(ran.err.contains(part), "{experts}: {part} is not in\n{}", ran.err);
        }
    }
    for (keys, experts, part) in [
        ("ep = 1", "hot = 1.5", "every rank has all experts"),
        ("ep = 16", "sms = 24", "only DeepEP's normal kernels"),
        ("ep = 16", "draws = 4", "all experts get as much"),
        ("ep = 16", "pad = true", "there is no capacity"),
        ("ep = 16", "hot = 1.5\ncapacity = 2.0", "no expert gets more than 1.50"),
        ("ep = 16", "kernel = \"deepep-normal\"\ncopies = \"rank\"", "rules of their own"),
    ] {
        let ran = check(keys, experts);
        assert_eq!(ran.code, 0, "{experts}: {ran:?}");
        assert!(ran.err.contains("W010") && ran.err.contains(part), "{experts}: {part} is not in\n{}", ran.err);
    }
}

/// Four ranks of experts of which two are on a node and two on nodes of their own: each gets what its experts get, whoever shares its node.
#[test]
fn groups_on_uneven_nodes_send_as_much_as_others() {
    let played = |kernel: &str, order: &str, loads: &str| {
        let toml = with(&format!("ep = 4\norder = \"{order}\""), &format!("kernel = \"{kernel}\"\n{loads}"));
        let toml = toml.replace("nodes = 2", "nodes = 3").replace("global_batch = 32", "global_batch = 24");
        let ran = run(&toml, "run", &["--format", "json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.json()["results"].clone()
    };
    let on_links = |results: &Value| {
        let links = results["links"].as_array().unwrap().iter().filter(|link| link["class"] == "network");
        links.map(|link| link["bytes"].as_f64().unwrap()).sum::<f64>()
    };
    for loads in ["", "hot = 1.5"] {
        let [even, uneven] =
            ["tp-cp-ep-dp-pp", "tp-cp-dp-ep-pp"].map(|order| played("deepep-low-latency", order, loads));
        let logical = |results: &Value| of(results, "ep dispatch", "logical_bytes");
        assert_eq!(logical(&even), logical(&uneven), "{loads}");
        let library = played("nccl", "tp-cp-dp-ep-pp", loads);
        assert_eq!(logical(&library), logical(&uneven), "{loads}");
        let (own, sends) = (on_links(&uneven), on_links(&library));
        assert!((own / sends - 1.0).abs() < 0.01, "{loads}: {own} {sends}");
    }
}
