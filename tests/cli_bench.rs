//! `bench`: the options of nccl-tests, limits of sizes, and what command lines that are none are told.

mod cli_common;

use cli_common::{Ran, fabricsim};

fn bench(op: &str, args: &[&str]) -> Ran {
    fabricsim(&[&["bench", op, "--system", "hgx-h100"][..], args].concat())
}

/// Sizes, and algorithms, of the rows.
fn rows(ran: &Ran) -> Vec<(u64, String)> {
    let value = ran.json();
    let row = |r: &serde_json::Value| (r["bytes"].as_u64().unwrap(), r["algorithm"].as_str().unwrap().to_owned());
    value["results"]["collectives"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn sizes_by_a_step() {
    let sizes = |args: &[&str]| -> Vec<u64> {
        rows(&bench("all_reduce", &[args, &["--format", "json"]].concat())).into_iter().map(|r| r.0).collect()
    };
    let by_step: Vec<u64> = (1..=4).map(|n| n << 20).collect();
    assert_eq!(sizes(&["-b", "1M", "-e", "4M", "-i", "1M"]), by_step);
    // As in nccl-tests: a step of 1M where the factor is 1, and a larger factor comes before a step.
    assert_eq!(sizes(&["-b", "1M", "-e", "4M", "-f", "1"]), by_step);
    assert_eq!(sizes(&["-b", "1M", "-e", "4M", "--stepbytes", "1M", "-f", "2"]), [1 << 20, 2 << 20, 4 << 20]);
    let both = bench("all_reduce", &["-b", "1M", "-e", "1M", "-i", "1M", "-f", "2"]);
    assert!(both.err.contains("W010") && both.err.contains("`-i` has no effect"), "{}", both.err);
    bench("all_reduce", &["-b", "8", "-e", "8G", "-i", "8"]).fails(2, &["E080", "at most 1000"]);
    bench("all_reduce", &["-b", "8", "-e", "8G", "-i", "0"]).fails(2, &["E080", "steps of zero"]);
    bench("all_reduce", &["-f", "0"]).fails(2, &["E080", "--step-factor", "fabricsim bench --help"]);
}

#[test]
fn types_and_operators() {
    let of = |args: &[&str]| {
        rows(&bench("all_reduce", &[&["-b", "64M", "-e", "64M", "--format", "json"][..], args].concat()))
    };
    let algorithm = |args: &[&str]| of(args)[0].1.clone();
    assert_eq!(algorithm(&["-d", "half"]), "nvls");
    assert_eq!(algorithm(&["-d", "fp16", "-o", "sum"]), "nvls", "another name of half");
    // NVSwitches add, and nothing else but for minima and maxima of some types.
    assert_eq!(algorithm(&["-o", "prod"]), "ring");
    assert_eq!(algorithm(&["--op", "max"]), "ring");
    assert_eq!(algorithm(&["--redop", "max", "--datatype", "bfloat16"]), "nvls");
    assert_eq!(of(&["-d", "all", "-o", "all"]).len(), 12 * 6);
    let table = bench("all_reduce", &["-b", "64M", "-e", "64M", "-d", "half", "-o", "avg", "--table", "nccl"]);
    assert!(table.out.contains("half     avg"), "{}", table.out);
    bench("all_reduce", &["-d", "flot"]).fails(2, &["E080", "unknown data type `flot`", "did you mean `float`"]);
    bench("all_gather", &["-o", "summ"]).fails(2, &["E080", "unknown operator `summ`"]);
    let root = bench("broadcast", &["-r", "3", "-b", "1K", "-e", "1K", "--table", "nccl"]);
    assert!(root.out.contains("float    none       3"), "{}", root.out);
    bench("broadcast", &["-r", "8", "-b", "1K", "-e", "1K"]).fails(2, &["E016", "root 8"]);
}

#[test]
fn options_without_effect_are_taken_and_told() {
    let size = ["-b", "1M", "-e", "1M"];
    let usual = [
        "-t", "1", "-m", "1", "-N", "1", "-p", "0", "-c", "1", "-z", "0", "-y", "0", "-T", "60", "-C", "0", "-a", "1",
        "-R", "0",
    ];
    let plain = bench("all_reduce", &size);
    let quiet = bench("all_reduce", &[&size[..], &usual].concat());
    assert_eq!((quiet.code, &quiet.out), (0, &plain.out));
    assert!(!quiet.err.contains("W010"), "{}", quiet.err);
    let told = bench("all_reduce", &[&size[..], &["-m", "4", "-R", "1", "--format", "json"]].concat());
    let warnings = told.json()["warnings"].to_string();
    assert!(warnings.contains("`-m` has no effect") && warnings.contains("`-R` has no effect"), "{warnings}");
    let graph = bench("alltoall", &[&size[..], &["-G", "1"]].concat());
    assert_eq!(graph.out, bench("alltoall", &[&size[..], &["--graph"]].concat()).out);
    // A barrier has no size: nothing to warn of unless one is given.
    assert!(!bench("barrier", &[]).err.contains("W010"));
    assert!(bench("barrier", &["-b", "8", "-e", "8"]).err.contains("W010"));
}

#[test]
fn sizes_beyond_counting_are_refused() {
    for size in ["1025T", "9999999T"] {
        bench("all_reduce", &["-e", size]).fails(2, &["E015", "more than 1 PiB"]);
    }
    let set = "workload=[{kind=\"collective\",op=\"all_reduce\",sizes=[\"2048 TiB\"]}]";
    let checked = fabricsim(&["check", "--system", "hgx-h100", "--set", set]);
    assert!(checked.code == 2 && format!("{}{}", checked.out, checked.err).contains("E015"), "{checked:?}");
    // The largest is played, in the smallest steps, too.
    let slow = ["-b", "1024T", "-e", "1024T", "--env", "NCCL_ALGO=Ring", "--env", "NCCL_PROTO=Simple"];
    assert_eq!(bench("all_reduce", &[&slow[..], &["--env", "NCCL_BUFFSIZE=4096"]].concat()).code, 0);
}

/// Rows whose channels are named as the bound, with their share in percent.
fn channel_shares(args: &[&str]) -> Vec<f64> {
    let value = bench("broadcast", &[args, &["--format", "json"]].concat()).json();
    let share = |row: &serde_json::Value| -> Option<f64> {
        row["bottleneck"].as_str()?.strip_prefix("channel rate ")?.strip_suffix(" %")?.parse().ok()
    };
    value["results"]["collectives"].as_array().unwrap().iter().filter_map(share).collect()
}

#[test]
fn channels_are_never_busier_than_all_of_the_time() {
    // The first pass of a step of LL moves faster than the rest, of which narrow blocks and large chunks have most.
    for args in [
        &["-b", "64K", "-e", "1M", "--env", "NCCL_MAX_NCHANNELS=1"][..],
        &["-b", "64M", "-e", "64M", "--env", "NCCL_NTHREADS=64", "--env", "NCCL_PROTO=LL"],
    ] {
        let shares = channel_shares(args);
        assert!(!shares.is_empty() && shares.iter().all(|share| *share < 100.0), "{args:?}: {shares:?}");
        assert!(shares.last().is_some_and(|share| *share > 90.0), "{args:?}: {shares:?}");
    }
}

#[test]
fn a_tuner_file_of_which_no_line_fits_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let with = |line: &str| {
        std::fs::write(dir.path().join("t.conf"), line).unwrap();
        let file = format!("NCCL_TUNER_CONFIG_FILE={}", dir.path().join("t.conf").display());
        bench("all_reduce", &["-b", "1M", "-e", "1M", "--env", &file])
    };
    let fits = with("allreduce,0,9999999,ring,ll,1,-1,-1,-1,-1\n");
    assert!(fits.out.contains("ring/LL            1") && !fits.err.contains("W010"), "{fits:?}");
    for line in [
        "allreduce,0,9999999,ring,ll,1,4,32,-1,-1\n",
        "allreduce,0,1024,ring,ll,1,-1,-1,-1,-1\n",
        "allreduce,0,9999999,nvls,ll,1,-1,-1,-1,-1\n",
    ] {
        let idle = with(line);
        assert!(idle.code == 0 && idle.err.contains("W010") && idle.err.contains("no line is for"), "{line}: {idle:?}");
    }
    bench("all_reduce", &["-d", "all", "--tuner", "none.conf"]).fails(2, &["E080", "does not tell types"]);
}

#[test]
fn what_goes_through_host_memory_is_told_with_the_reason() {
    let said = |args: &[&str]| -> (Vec<String>, String) {
        let size = ["-b", "1M", "-e", "1M"];
        let ran = fabricsim(&[&["bench", "all_reduce"], args, &size].concat());
        let value = fabricsim(&[&["bench", "all_reduce"], args, &size, &["--format", "json"]].concat()).json();
        let list = value["results"]["through_host"].as_array().cloned().unwrap_or_default();
        (list.iter().map(|why| why.as_str().unwrap().to_owned()).collect(), ran.out)
    };
    let two = ["--system", "hgx-h100", "--nodes", "2"];
    assert!(said(&two).0.is_empty());
    let (off, text) = said(&[&two[..], &["--env", "NCCL_NET_GDR_LEVEL=0"]].concat());
    assert!(off.len() == 1 && off[0].starts_with("between GPUs and NICs, since"), "{off:?}");
    assert!(text.contains(&format!("through host memory: {}", off[0])), "{text}");
    let (peers, _) = said(&["--system", "pcie-4090-8"]);
    assert!(peers.len() == 1 && peers[0].contains("no PCIe peer-to-peer"), "{peers:?}");
    // All of one rack by NVLink: nothing to tell.
    assert!(said(&["--system", "nvl72-gb200", "--nodes", "2"]).0.is_empty());
}

#[test]
fn command_lines_that_are_none_are_faults_like_others() {
    for (args, parts) in [
        (&["bench"][..], &["E080", "<OP>", "fabricsim bench --help"][..]),
        (&["bench", "all_reduce", "--sytem", "x"], &["E080", "--sytem", "--system", "help"]),
        (&["bench", "all_reduce", "--nodes", "x"], &["E080", "--nodes", "fabricsim bench --help"]),
        (&["bench", "all_reduce", "--best=x"], &["E080", "possible values: nccl, all"]),
        (&["benhc"], &["E080", "benhc", "'bench'", "fabricsim --help"]),
        (&["topo", "--seed", "-1"], &["E080", "--flag=-1"]),
    ] {
        fabricsim(args).fails(2, parts);
    }
    assert_eq!(fabricsim(&["bench", "--help"]).code, 0);
}

#[test]
fn channels_that_bound_a_message_are_named_and_not_the_nic_they_half_fill() {
    let bottleneck = |channels: &str| {
        let env = format!("NCCL_NCHANNELS_PER_NET_PEER={channels}");
        let args =
            ["bench", "sendrecv", "--system", "hgx-h100", "--nodes", "2", "--env", &env, "-b", "16M", "-e", "16M"];
        let json = fabricsim(&[&args[..], &["--format", "json"]].concat()).json();
        json["results"]["collectives"][0]["bottleneck"].as_str().unwrap().to_owned()
    };
    for few in ["1", "2"] {
        let named = bottleneck(few);
        assert!(named.starts_with("channel rate 9"), "{few}: {named}");
    }
    let named = bottleneck("4");
    assert!(named.contains("nic0->leaf"), "{named}");
}
