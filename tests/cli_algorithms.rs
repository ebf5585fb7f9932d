//! Algorithms, operations and groups from the command line: what can be forced, what it gives, and what is refused.

mod cli_common;

use std::fs;

use cli_common::{Ran, fabricsim, fabricsim_in};
use serde_json::Value;

fn run(scenario: &str, args: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.toml"), scenario).unwrap();
    fabricsim_in(dir.path(), &[&["run", "s.toml", "--quiet"], args].concat())
}

fn collectives(scenario: &str) -> Vec<Value> {
    let json = run(scenario, &["--format", "json"]).json();
    json["results"]["collectives"].as_array().unwrap().clone()
}

fn time(row: &Value) -> f64 {
    row["time_us"].as_f64().unwrap()
}

fn bench(args: &[&str]) -> Vec<Value> {
    let json = fabricsim(&[&["bench"], args, &["--format", "json", "--quiet"]].concat()).json();
    json["results"]["collectives"].as_array().unwrap().clone()
}

#[test]
fn algorithms_are_forced_by_their_names() {
    let one_node: &[(&str, &[&str])] = &[
        ("all_reduce", &["ring", "tree", "nvls", "halving_doubling", "one_shot", "two_shot", "symmetric"]),
        ("reduce_scatter", &["nvls"]),
        ("all_gather", &["ring", "nvls", "pat", "halving_doubling", "two_shot", "symmetric", "copy_engine"]),
        ("alltoall", &["pairwise", "hierarchical", "copy_engine"]),
        ("barrier", &["dissemination"]),
    ];
    let two_nodes: &[(&str, &[&str])] = &[
        ("all_reduce", &["ring", "tree", "nvls", "nvls_tree", "collnet_direct", "collnet_chain", "halving_doubling"]),
        ("reduce_scatter", &["ring", "nvls", "collnet_direct", "pat", "halving_doubling"]),
        ("all_gather", &["nvls", "collnet_direct"]),
        ("alltoall", &["pairwise", "hierarchical"]),
        ("dispatch", &["pairwise", "deepep", "low_latency"]),
        ("combine", &["pairwise", "deepep", "low_latency"]),
        ("gather", &["gather"]),
        ("scatter", &["scatter"]),
    ];
    for (nodes, list) in [("1", one_node), ("2", two_nodes)] {
        for (op, names) in list {
            for name in *names {
                let system = ["--system", "hgx-h100", "--nodes", nodes, "--env", "NCCL_COLLNET_ENABLE=1"];
                let sizes = ["-b", "64K", "-e", "1M", "-f", "16", "--algorithm", name];
                let rows = bench(&[&[*op], &system[..], &sizes[..]].concat());
                assert!(!rows.is_empty());
                for row in &rows {
                    assert_eq!(row["algorithm"], *name, "{op}: {row}");
                    assert!(time(row) > 0.0, "{op}: {row}");
                }
            }
        }
    }
}

#[test]
fn engines_rules_go_by_size() {
    let rows =
        bench(&["all_reduce", "--system", "hgx-h100", "-b", "64K", "-e", "16M", "-f", "16", "--algorithm", "vLLM"]);
    let names: Vec<&str> = rows.iter().map(|row| row["algorithm"].as_str().unwrap()).collect();
    assert_eq!(names, ["one_shot", "two_shot", "nvls"]);
    // The eight GPUs of a cube mesh are not all joined by NVLink, for which the engine leaves the call to NCCL; four are.
    let mesh = |gpus: &str| {
        let args = ["all_reduce", "--system", "dgx-1v", "-b", "64K", "-e", "64K", "--algorithm", "vllm"];
        bench(&[&args[..], &["--gpus-per-node", gpus]].concat()).remove(0)["algorithm"].clone()
    };
    assert_eq!((mesh("8").as_str(), mesh("4").as_str()), (Some("ring"), Some("one_shot")));
}

#[test]
fn what_the_machine_or_the_operation_has_not_is_refused() {
    let refused = |args: &[&str], code: i32, parts: &[&str]| {
        fabricsim(&[&["bench"], args, &["--system", "hgx-h100", "-b", "1M", "-e", "1M", "--quiet"]].concat())
            .fails(code, parts);
    };
    refused(&["all_reduce", "--algorithm", "rong"], 2, &["unknown algorithm `rong`", "ring"]);
    refused(&["all_reduce", "--nodes", "2", "--algorithm", "one_shot"], 2, &["one_shot does not do all_reduce here"]);
    refused(&["all_reduce", "--nodes", "2", "--algorithm", "collnet_direct"], 2, &["SHARP", "NCCL_COLLNET_ENABLE"]);
    let roce = ["--nodes", "2", "--transport", "roce", "--env", "NCCL_COLLNET_ENABLE=1"];
    refused(&[&["all_reduce", "--algorithm", "collnet_chain"], &roce[..]].concat(), 2, &["SHARP"]);
    refused(&["alltoall", "--algorithm", "one_shot"], 2, &["one_shot does not do alltoall here"]);
}

#[test]
fn reduction_in_the_network_is_chosen_where_it_is_enabled() {
    let row = |env: &str| {
        let args = ["all_reduce", "--system", "hgx-h100", "--nodes", "4", "-b", "256M", "-e", "256M", "--env", env];
        bench(&args).remove(0)
    };
    let (off, on) = (row("NCCL_COLLNET_ENABLE=0"), row("NCCL_COLLNET_ENABLE=1"));
    assert_eq!((&off["algorithm"], &on["algorithm"]), (&"nvls_tree".into(), &"nvls".into()));
    assert!(time(&on) < time(&off), "{on} {off}");
}

#[test]
fn nics_on_ports_of_their_own_share_out_the_channels() {
    // Two NICs of 100 Gb/s a node: on ports of their own each has two of the channels; behind one switch they are one device.
    let run = |node: &str| {
        let text = format!(
            "nodes = 2\n{node}\n[transport]\nkind = \"roce\"\n[[workload]]\nkind = \"collective\"\nop = \"all_gather\"\nsizes = [\"1 GiB\"]\n"
        );
        collectives(&text)[0].clone()
    };
    let spark = run("system = \"dgx-spark\"\n");
    assert_eq!(spark["channels"], 4, "{spark}");
    // Both NICs are filled but for what the library leaves.
    assert!((22.5..24.6).contains(&spark["busbw_GBps"].as_f64().unwrap()), "{spark}");
    let merged = run(
        "cpu = \"amd\"\n[node]\ngpu = \"h100-pcie\"\ngpus = 1\nnic = \"connectx-7\"\nnics = 2\nnic_rate = \"100 Gb/s\"\nsockets = 1\n\
         pcie = [{ socket = 0, uplink = { gen = 5, lanes = 16 }, down = [\"gpu0\", \"nic0\", \"nic1\"] }]\n",
    );
    assert_eq!(merged["channels"], 2, "{merged}");
}

#[test]
fn groups_are_ranges_with_strides() {
    let scenario = |group: &str| {
        format!(
            "system = \"hgx-h100\"\nnodes = 4\n[[workload]]\nkind = \"collective\"\nop = \"all_gather\"\n\
             sizes = [\"1 MiB\"]\ngroup = {group}\n"
        )
    };
    let same = ["\"0-31/8\"", "[0, 8, 16, 24]", "[\"0-8/8\", 16, \"24\"]"].map(|g| collectives(&scenario(g)));
    assert!(same.iter().all(|rows| rows == &same[0]), "{same:?}");
    for (group, part) in [
        ("\"0-32/8\"", "there is no rank 32"),
        ("\"8-0\"", "before it begins"),
        ("\"0-x\"", "is no range of ranks"),
        ("[0, \"0-3\"]", "in the group twice"),
        ("\"3\"", "at least 2 ranks"),
        ("true", "group"),
    ] {
        run(&scenario(group), &[]).fails(2, &[part]);
    }
}

const PAIR: &str = "system = \"hgx-h100\"\nnodes = 4\n[[workload]]\nkind = \"collective\"\nop = \"alltoall\"\n\
                    sizes = [\"128 MiB\"]\n[[workload]]\nkind = \"collective\"\nop = \"alltoall\"\nsizes = [\"128 MiB\"]\n";

#[test]
fn collectives_together_share_the_links() {
    let alone = collectives(PAIR);
    let both = collectives(&format!("{PAIR}with_previous = true\n"));
    // Each call takes 24 of 32 parts of its bytes through every NIC, at no more than 50 GB/s for both together.
    let wire_us = f64::from(128 << 20) * 24.0 / 32.0 / 50e3;
    let used: f64 = both.iter().map(|row| wire_us / time(row)).sum();
    assert!((0.9..1.0).contains(&used), "{used}: {both:?}");
    for (alone, both) in alone.iter().zip(&both) {
        assert!((1.7..2.2).contains(&(time(both) / time(alone))), "{alone} {both}");
    }
    // Inside one node and inside the other they don't meet.
    let apart = PAIR.replacen("op = \"alltoall\"", "group = \"0-7\"\nop = \"alltoall\"", 1);
    let apart = format!("{apart}group = \"8-15\"\n");
    let alone = collectives(&apart);
    let both = collectives(&format!("{apart}with_previous = true\n"));
    for (alone, both) in alone.iter().zip(&both) {
        assert!((time(both) / time(alone) - 1.0).abs() < 0.05, "{alone} {both}");
    }
    run("system = \"hgx-h100\"\n[[workload]]\nkind = \"collective\"\nop = \"alltoall\"\nwith_previous = true\n", &[])
        .fails(2, &["there is no collective before this one"]);
}

#[test]
fn unequal_parts_and_tokens() {
    let on_two = |keys: &str| {
        let head = "system = \"hgx-h100\"\nnodes = 2\n[[workload]]\nkind = \"collective\"\n";
        collectives(&format!("{head}{keys}")).remove(0)
    };
    let v = "op = \"alltoallv\"\nsizes = [\"64 MiB\"]\n";
    let (even, skewed) = (on_two(v), on_two(&format!("{v}skew = 1.0\n")));
    let plain = on_two("op = \"alltoall\"\nsizes = [\"64 MiB\"]\n");
    assert_eq!(time(&even), time(&plain));
    // The first of 16 gets 16/H(16) = 4.7 parts of the mean.
    assert!(time(&skewed) > 3.0 * time(&even), "{skewed}");
    let matrix = "op = \"alltoallv\"\ngroup = [0, 8]\nmatrix = [[\"0 B\", \"64 MiB\"], [\"1 MiB\", \"0 B\"]]\n";
    assert_eq!(on_two(matrix)["bytes"], 64 << 20);
    // 4096 tokens of 7168 elements of a byte with scales.
    let tokens = |more: &str| on_two(&format!("op = \"dispatch\"\ndatatype = \"f8e4m3\"\ntokens = 4096\n{more}"));
    let (naive, relayed) = (tokens(""), tokens("algorithm = \"deepep\"\n"));
    assert_eq!(naive["bytes"], 4096 * (7168 + 4 * 56));
    assert!(time(&relayed) < 0.6 * time(&naive), "{relayed} {naive}");
    let head = "system = \"hgx-h100\"\nnodes = 2\n[[workload]]\nkind = \"collective\"\n";
    for (keys, part) in [
        ("op = \"dispatch\"\ntokens = 8\nexperts = 100\n", "do not lie evenly on 16 ranks"),
        ("op = \"dispatch\"\ntokens = 8\nexperts = 16\ntop_k = 17\n", "can't have 17 of 16 experts"),
        ("op = \"dispatch\"\ntokens = 8\nsizes = [\"1 MiB\"]\n", "exclude each other"),
        ("op = \"alltoallv\"\nmatrix = [[\"1 B\"]]\n", "16 rows of 16"),
    ] {
        run(&format!("{head}{keys}"), &[]).fails(2, &[part]);
    }
    let idle = fabricsim_idle("op = \"all_reduce\"\nsizes = [\"8 B\"]\nexperts = 64\n");
    assert!(idle.err.contains("`experts` has no effect on all_reduce"), "{idle:?}");
}

fn fabricsim_idle(keys: &str) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("system = \"hgx-h100\"\n[[workload]]\nkind = \"collective\"\n{keys}");
    fs::write(dir.path().join("s.toml"), text).unwrap();
    fabricsim_in(dir.path(), &["run", "s.toml"])
}
