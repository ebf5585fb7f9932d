//! Scenarios from the command line: `check`, `init`, `schema`, `explain`, and bad input of every kind.

mod cli_common;

use std::fs;

use cli_common::{Ran, fabricsim, fabricsim_fed, fabricsim_in};
use tempfile::TempDir;

/// A folder with these files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

fn check(toml: &str, args: &[&str]) -> Ran {
    let dir = folder(&[("cluster.toml", toml.as_bytes())]);
    fabricsim_in(dir.path(), &[&["check", "cluster.toml"][..], args].concat())
}

#[test]
fn without_arguments_five_examples_are_printed() {
    let ran = fabricsim(&[]);
    assert_eq!(ran.code, 0);
    assert_eq!(ran.out.lines().filter(|l| l.starts_with("  fabricsim ")).count(), 5);
}

#[test]
fn every_verb_helps_with_examples() {
    let verbs = [
        "init",
        "check",
        "ab",
        "topo",
        "path",
        "bench",
        "run",
        "compare",
        "catalog",
        "explain",
        "schema",
        "completions",
    ];
    for verb in verbs {
        let ran = fabricsim(&[verb, "--help"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        for part in ["Examples:", "--set", "--seed", "--quiet", "--format"] {
            assert!(ran.out.contains(part), "{verb}: {part}");
        }
    }
}

#[test]
fn bundled_scenarios_pass_the_check() {
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            let ran = fabricsim(&["check", path.to_str().unwrap()]);
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{path:?}");
            assert!(ran.out.starts_with("ok: "), "{ran:?}");
        }
    }
}

#[test]
fn faults_are_shown_with_line_and_caret() {
    let toml = "system = \"hgx-h100\"\nnodes = 2\n[fabric]\nspine = 3\n[transport]\nmtu = 4096\n";
    check(toml, &[]).fails(
        2,
        &[
            "error[E050]: unknown key `spine`",
            "--> cluster.toml:4:1",
            "did you mean `spines`?",
            "error[E012]",
            "2 errors",
        ],
    );
}

#[test]
fn findings_in_the_forms_of_review_bots() {
    let toml = "system = \"hgx-h100\"\nnodes = \"2\"\n";
    let json = check(toml, &["--format", "json"]);
    assert_eq!((json.code, json.err.as_str()), (2, ""));
    let value: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(value["results"]["valid"], false);
    assert_eq!(value["results"]["diagnostics"][0]["code"], "E010");
    assert_eq!(value["results"]["diagnostics"][0]["place"]["line"], 2);
    assert_eq!(value["schema_version"], 1);
    let github = check(toml, &["--format", "github"]);
    assert!(github.out.starts_with("::error file=cluster.toml,line=2,endLine=2,col=9"), "{github:?}");
    let sarif: serde_json::Value = serde_json::from_str(&check(toml, &["--format", "sarif"]).out).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "E010");
    let good = check("system = \"hgx-h100\"\n", &["--format", "json"]).json();
    assert_eq!(good["results"]["valid"], true);
}

#[test]
fn unreadable_files_are_refused() {
    let huge = vec![b'#'; (4 << 20) + 1];
    let dir = folder(&[
        ("binary.toml", b"\x7fELF\x00\x01\xff"),
        ("latin.toml", b"name = \"\xe9\"\n"),
        ("utf16.toml", b"\xff\xfen\x00"),
        ("huge.toml", &huge),
        ("cut.toml", b"system = \"hgx-h1"),
        ("empty.toml", b""),
    ]);
    let run = |name: &str| fabricsim_in(dir.path(), &["check", name]);
    run("none.toml").fails(2, &["E001", "no such file"]);
    run("emtpy.toml").fails(2, &["E001", "did you mean `empty.toml`?"]);
    run("hgx-h100-2nod.toml").fails(2, &["E001", "fabricsim init hgx-h100-2node"]);
    run(".").fails(2, &["E001", "folder"]);
    run("binary.toml").fails(2, &["E002", "NUL byte at byte 4"]);
    run("latin.toml").fails(2, &["E002", "0xe9 at byte 8"]);
    run("utf16.toml").fails(2, &["E002", "UTF-16"]);
    run("huge.toml").fails(2, &["E003", "4.0 MiB"]);
    run("cut.toml").fails(2, &["E004", "--> cut.toml:1:"]);
    run("empty.toml").fails(2, &["E011", "Neither `system` nor `[node]`"]);
}

#[test]
fn a_circle_of_extends_is_refused_and_a_chain_is_followed() {
    let dir = folder(&[
        ("a.toml", b"extends = \"b.toml\"\nnodes = 3\n"),
        ("b.toml", b"extends = \"a.toml\"\n"),
        ("self.toml", b"extends = \"self.toml\"\n"),
        ("base.toml", b"system = \"hgx-h100\"\nnodes = 2\n[fabric]\nspins = 2\n"),
        ("child.toml", b"extends = \"base.toml\"\nnodes = 4\n"),
        ("lost.toml", b"extends = \"nowhere.toml\"\nsystem = \"hgx-h100\"\n"),
    ]);
    let run = |name: &str| fabricsim_in(dir.path(), &["check", name]);
    run("a.toml").fails(2, &["E005", "b.toml:1:11", "`a.toml` extends `b.toml` extends `a.toml`"]);
    run("self.toml").fails(2, &["E005", "`self.toml` extends `self.toml`"]);
    // The fault is shown where it stands: in the file that is extended.
    run("child.toml").fails(2, &["E050", "base.toml:4:1"]);
    run("lost.toml").fails(2, &["E001", "nowhere.toml", "lost.toml:1:11"]);
}

#[test]
fn settings_replace_keys_and_are_checked() {
    let dir = folder(&[("c.toml", b"system = \"hgx-h100\"\nnodes = 2\n")]);
    let run = |args: &[&str]| fabricsim_in(dir.path(), &[&["check", "c.toml"][..], args].concat());
    let ran = run(&["--set", "nodes=4", "--set", "fabric.kind=leaf-spine", "--set", "transport.mtu=1 KiB"]);
    assert!(ran.out.contains("x4, 32 GPUs, leaf-spine"), "{ran:?}");
    run(&["--set", "nodes=0"]).fails(2, &["E016", "--set:1:7"]);
    run(&["--set", "nods=4"]).fails(2, &["E050", "did you mean `nodes`?"]);
    run(&["--set", "nodes"]).fails(2, &["E080", "key=value"]);
    run(&["--nodes", "3", "--system", "hgx-b2"]).fails(2, &["E020", "hgx-b200", "--> --system:1:1"]);
    run(&["--env", "NCCL_ALGO"]).fails(2, &["E080", "NAME=VALUE"]);
    run(&["--env", "NCCL_ALGO=Rong"]).fails(2, &["E021"]);
    let warned = run(&["--env", "NCCL_DEBUG=INFO"]);
    assert!(warned.code == 0 && warned.err.contains("W010"), "{warned:?}");
    assert!(run(&["--env", "NCCL_DEBUG=INFO", "--quiet"]).err.is_empty());
}

#[test]
fn standard_input_is_a_scenario_too() {
    assert_eq!(fabricsim_fed(b"system = \"hgx-h100\"\n", &["check", "-"]).code, 0);
    fabricsim_fed(b"\x00", &["check", "-"]).fails(2, &["E002"]);
    fabricsim_fed(b"system = 1\n", &["check", "-"]).fails(2, &["E010", "<stdin>:1:10"]);
}

#[test]
fn init_writes_what_check_accepts_and_overwrites_nothing() {
    let dir = folder(&[]);
    let run = |args: &[&str]| fabricsim_in(dir.path(), args);
    assert_eq!(run(&["init"]).code, 0);
    assert_eq!(run(&["check", "scenario.toml"]).code, 0);
    assert_eq!(run(&["init", "rail-4x8"]).code, 0);
    fs::write(dir.path().join("rail-4x8.toml"), "mine").unwrap();
    run(&["init", "rail-4x8"]).fails(2, &["E081", "--force"]);
    assert_eq!(fs::read(dir.path().join("rail-4x8.toml")).unwrap(), b"mine");
    assert_eq!(run(&["init", "rail-4x8", "--force"]).code, 0);
    assert_eq!(run(&["check", "rail-4x8.toml"]).code, 0);
    run(&["init", "rail-4x9"]).fails(2, &["E020", "did you mean `rail-4x8`?"]);
    run(&["init", "--out", "no/such/folder/x.toml"]).fails(2, &["E082", "folder does not exist"]);
    assert!(run(&["init", "hgx-b200", "--out", "-"]).out.contains("system = \"hgx-b200\""));
    let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["rail-4x8.toml", "scenario.toml"]);
}

#[test]
fn usage_errors_exit_with_2() {
    for args in [
        &["chek"][..],
        &["check"],
        &["topo"],
        &["bench", "all_reduce"],
        &["bench", "al_reduce", "--system", "hgx-h100"],
        &["bench", "all_reduce", "--system", "hgx-h100", "-b", "8 parsec"],
        &["bench", "all_reduce", "--system", "hgx-h100", "-b", "16", "-e", "8"],
        &["bench", "all_reduce", "--system", "hgx-h100", "-f", "1"],
        &["bench", "all_reduce", "--system", "hgx-h100", "--nodes", "-1"],
        &["compare", "x.log", "--max-mape", "15"],
        &["path", "0", "1"],
        &["path", "--system", "hgx-h100", "node0.gpu0", "node0.gpu9"],
        &["path", "--system", "hgx-h100", "0", "8"],
        &["path", "--system", "hgx-h100", "0", "0"],
        &["catalog", "hgx-h999x"],
        &["explain", "E999"],
        &["completions", "tcsh"],
        &["ab", "--ranks", "8", "--link", "x=1GBps,1us"],
        &["run", "scenarios/rail-4x8.toml", "--set", "workload=[]"],
    ] {
        let ran = fabricsim(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.out.is_empty() && ran.err.contains("error"), "{args:?}: {ran:?}");
    }
}

#[test]
fn schema_explain_catalog_and_completions_answer() {
    let schema: serde_json::Value = serde_json::from_str(&fabricsim(&["schema"]).out).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert!(fabricsim(&["explain", "e012"]).out.starts_with("E012: a quantity without a unit"));
    assert!(fabricsim(&["explain", "busbw"]).out.contains("2 (n - 1) / n"));
    assert_eq!(fabricsim(&["explain", "pxn", "--format", "json"]).json()["results"]["name"], "pxn");
    assert!(fabricsim(&["catalog"]).out.contains("hgx-h100"));
    let entry = fabricsim(&["catalog", "dgx-h100", "--format", "json"]).json();
    assert_eq!(entry["results"]["entries"][0]["name"], "hgx-h100");
    assert!(entry["results"]["entries"][0]["sources"][0]["title"].is_string());
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(fabricsim(&["completions", shell]).out.contains("fabricsim"), "{shell}");
    }
}

#[test]
fn the_path_of_a_pair() {
    let path = |args: &[&str]| {
        let all = [&["path", "--system", "hgx-h100", "--nodes", "2", "--format", "json"][..], args].concat();
        fabricsim(&all).json()["results"].clone()
    };
    let inside = path(&["node0.gpu0", "node0.gpu7"]);
    assert_eq!(inside["bandwidth_GBps"], 450.0);
    assert_eq!(inside["hops"][0]["class"], "nvlink");
    let across = path(&["node0.gpu3", "node1.gpu3"]);
    assert_eq!(across["bandwidth_GBps"], 50.0);
    let hops = across["hops"].as_array().unwrap();
    let sum: f64 = hops.iter().map(|h| h["latency_ns"].as_f64().unwrap()).sum();
    assert!((sum - across["latency_ns"].as_f64().unwrap()).abs() < 1e-6);
    assert!(hops.windows(2).all(|w| w[0]["to"] == w[1]["from"]));
    assert!(hops.iter().any(|h| h["to"] == "leaf3"));
    let text = fabricsim(&["path", "scenarios/rail-4x8.toml", "0", "12"]).out;
    assert!(text.contains("Bottleneck: "), "{text}");
}

#[test]
fn the_kinds_of_pairs() {
    let pairs = |args: &[&str]| {
        let all = [&["topo", "scenarios/rail-4x8.toml", "--format", "json"][..], args].concat();
        let results = fabricsim(&all).json()["results"].clone();
        let pairs = &results["pairs"];
        ["nvlink", "pcie", "same_rail", "pxn", "cross_rail"].map(|k| pairs[k].as_u64().unwrap())
    };
    assert_eq!(pairs(&["--set", "software.pxn=false"]), [224, 0, 96, 0, 672]);
    assert_eq!(pairs(&["--env", "NCCL_PXN_DISABLE=1"]), [224, 0, 96, 0, 672]);
    assert_eq!(pairs(&[]), [224, 0, 96, 672, 0]);
    for (nodes, gpus) in [(1u64, 8u64), (2, 1), (3, 5), (16, 8)] {
        let counts = pairs(&[
            "--nodes",
            &nodes.to_string(),
            "--gpus-per-node",
            &gpus.to_string(),
            "--set",
            "software.pxn=false",
        ]);
        let cross = gpus * (gpus - 1) * nodes * (nodes - 1);
        assert_eq!(counts, [nodes * gpus * (gpus - 1), 0, gpus * nodes * (nodes - 1), 0, cross]);
    }
}

#[test]
fn the_matrix_and_the_bill_are_printed() {
    let ran = fabricsim(&["topo", "scenarios/rail-4x8.toml"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for part in ["NV18", "PIX", "CPU Affinity", "bisection", "pxn                672   67.7 %            87.5 %"] {
        assert!(ran.out.contains(part), "{part} is not in\n{}", ran.out);
    }
    let json = fabricsim(&["topo", "scenarios/rail-4x8.toml", "--format", "json"]).json();
    assert!(json["results"]["bisection_GBps"].as_f64().unwrap() > 0.0);
    assert!(!json["results"]["bill_of_materials"].as_array().unwrap().is_empty());
    assert!(json["results"]["devices"].is_object() && json["results"]["links"].is_object());
    fabricsim(&["topo", "scenarios/rail-4x8.toml", "--node", "4"]).fails(2, &["E022"]);
}
