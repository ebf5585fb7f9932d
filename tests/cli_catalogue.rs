//! Catalogue rows of one's own from the command line: what they change, that every answer says so, and bad ones.

mod cli_common;

use std::fs;

use cli_common::{Ran, fabricsim_in};
use serde_json::Value;

const BOX: &str = r#"
system = "my-box"
nodes = 2

[catalogue.system.my-box]
like = "hgx-h100"
node.gpu = "my-h100"

[catalogue.gpu.my-h100]
like = "h100"
nvlink_gen = 40

[catalogue.nvlink.nvlink40]
like = "nvlink4"
generation = 40
link_GBps = "20 GB/s"

[catalogue.switch.qm9790]
latency_ns = "0.3 us"
"#;

const SAID: &str = "catalogue: 4 rows of your own: system my-box (like hgx-h100; gpu h100-sxm -> my-h100), \
                    gpu my-h100 (like h100-sxm; nvlink_gen 4 -> 40), \
                    nvlink nvlink40 (like nvlink4; generation 4 -> 40, link 25 -> 20 GB/s), \
                    switch qm9700 (latency 230 -> 300 ns)";

fn run(files: &[(&str, &str)], args: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    fabricsim_in(dir.path(), args)
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran:?}"))
}

/// The codes of the errors of a scenario on `hgx-h100` with these rows.
fn codes(rows: &str) -> Vec<String> {
    let text = format!("system = \"hgx-h100\"\n{rows}");
    let ran = run(&[("s.toml", &text)], &["check", "s.toml", "--format", "json"]);
    assert_eq!(ran.code, 2, "{rows}: {ran:?}");
    let found = json(&ran);
    let list = found["results"]["diagnostics"].as_array().unwrap();
    list.iter().map(|d| d["code"].as_str().unwrap().to_owned()).filter(|c| c.starts_with('E')).collect()
}

#[test]
fn rows_act_and_every_answer_says_so() {
    let files = [("box.toml", BOX)];
    let args: &[&[&str]] = &[
        &["check", "box.toml"],
        &["topo", "box.toml"],
        &["path", "box.toml", "0", "8"],
        &["bench", "all_reduce", "--scenario", "box.toml", "-b", "8", "-e", "8"],
        &["bench", "all_reduce", "--scenario", "box.toml", "-b", "8", "-e", "8", "--table", "nccl"],
    ];
    for args in args {
        let ran = run(&files, args);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.out.contains(SAID), "{args:?}: {}", ran.out);
    }
    // 70 ns more in the one switch on the way, 20 of 25 GB/s on each of 18 links.
    let hops = |args: &[&str]| json(&run(&files, args))["results"].clone();
    let ours = hops(&["path", "box.toml", "0", "8", "--format", "json"]);
    let plain = hops(&["path", "--system", "hgx-h100", "--nodes", "2", "0", "8", "--format", "json"]);
    let of = |v: &Value, key: &str| v[key].as_f64().unwrap();
    assert!((of(&ours, "latency_ns") - of(&plain, "latency_ns") - 70.0).abs() < 1e-6);
    let near = hops(&["path", "box.toml", "0", "1", "--format", "json"]);
    assert!((of(&near, "bandwidth_GBps") - 360.0).abs() < 1e-6, "{near}");
}

#[test]
fn json_and_stored_results_carry_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("box.toml"), BOX).unwrap();
    let args =
        ["bench", "all_reduce", "--scenario", "box.toml", "-b", "8", "-e", "8", "--out", "o", "--format", "json"];
    let ran = fabricsim_in(dir.path(), &args);
    let stored: Value = serde_json::from_str(&fs::read_to_string(dir.path().join("o/result.json")).unwrap()).unwrap();
    for found in [json(&ran), stored] {
        let rows = found["catalogue_overrides"].as_array().unwrap();
        assert_eq!(rows.len(), 4);
        let switch = rows.iter().find(|r| r["kind"] == "switch").unwrap();
        assert_eq!((&switch["name"], &switch["added"]), (&"qm9700".into(), &false.into()));
        let figure = &switch["figures"][0];
        assert_eq!((&figure["name"], &figure["unit"]), (&"latency".into(), &"ns".into()));
        assert_eq!((&figure["from"], &figure["to"]), (&"230".into(), &"300".into()));
    }
    let plain = run(&[], &["check", "--system", "hgx-h100", "--format", "json"]);
    assert!(json(&plain).get("catalogue_overrides").is_none());
}

#[test]
fn rows_come_from_files_and_single_keys_too() {
    let rows = "[catalogue.switch.qm9700]\nlatency_ns = 300\nports = 32\n";
    let files =
        [("rows.toml", rows), ("base.toml", rows), ("s.toml", "extends = \"base.toml\"\nsystem = \"hgx-h100\"\n")];
    let said = "switch qm9700 (latency 230 -> 300 ns, ports 64 -> 32)";
    for args in [
        &["check", "s.toml"][..],
        &["check", "--system", "hgx-h100", "--catalogue", "rows.toml"],
        &["check", "s.toml", "--catalogue", "rows.toml"],
    ] {
        let ran = run(&files, args);
        assert!(ran.code == 0 && ran.out.contains(said), "{ran:?}");
    }
    let args = [
        "check",
        "--system",
        "hgx-h100",
        "--catalogue",
        "rows.toml",
        "--set",
        "catalogue.switch.qm9700.latency_ns=310",
    ];
    assert!(run(&files, &args).out.contains("latency 230 -> 310 ns"));
    let args = ["check", "--system", "hgx-h100", "--set", "catalogue.socket_link.\"upi-10.4\".link_GBps=21"];
    assert!(run(&files, &args).out.contains("socket_link upi-10.4 (link 20.8 -> 21 GB/s)"));
    let shown = run(&files, &["catalog", "qm9700", "--catalogue", "rows.toml"]);
    assert!(shown.out.contains("yours"), "{shown:?}");
}

#[test]
fn a_file_of_rows_holds_nothing_else() {
    let check = |text: &str| run(&[("r.toml", text)], &["check", "--system", "hgx-h100", "--catalogue", "r.toml"]);
    for (text, part) in [
        ("nodes = 3\n[catalogue.nic.cx7]\nports = 1\n", "has no place in a file of catalogue rows"),
        ("", "has no catalogue rows"),
        ("[catalogue.nic.cx7\n", "not valid TOML"),
    ] {
        let ran = check(text);
        assert!(ran.code == 2 && ran.err.contains(part), "{text}: {ran:?}");
    }
    let ran = run(&[], &["catalog", "--catalogue", "none.toml"]);
    assert!(ran.code == 2 && ran.err.contains("E001"), "{ran:?}");
}

#[test]
fn faulty_rows_are_told_with_code_and_place() {
    for (rows, expected) in [
        ("[catalogue.gpus.x]\nsm = 9\n", "E050"),
        ("[catalogue.gpu.h100]\nsms = 9\n", "E050"),
        ("[catalogue.gpu.x]\nlike = \"h1000-sxm\"\n", "E023"),
        ("[catalogue.gpu.x]\nlike = 3\n", "E010"),
        ("[catalogue.gpu.h100]\nsm = \"90\"\n", "E010"),
        ("[catalogue.gpu.h100]\nnvlinks = -3\n", "E016"),
        ("[catalogue.gpu.h100]\nnvlinks = 99999999999999999999\n", "E016"),
        ("[catalogue.gpu.\"a b\"]\nlike = \"h100\"\n", "E018"),
        ("[catalogue.gpu.\"\"]\nlike = \"h100\"\n", "E018"),
        ("[catalogue.gpu]\nh100 = 3\n", "E010"),
        ("[[catalogue.gpu]]\nsm = 90\n", "E010"),
        ("catalogue = 3\n", "E010"),
        ("[catalogue.switch.qm9700]\nlatency_ns = nan\n", "E016"),
        ("[catalogue.switch.qm9700]\nlatency_ns = inf\n", "E016"),
        ("[catalogue.switch.qm9700]\nlatency_ns = -1\n", "E016"),
        ("[catalogue.switch.qm9700]\nlatency_ns = 1e300\n", "E016"),
        ("[catalogue.switch.qm9700]\nlatency_ns = \"3 GB/s\"\n", "E013"),
        ("[catalogue.switch.qm9700]\nport_gbit = \"400\"\n", "E012"),
        ("[catalogue.switch.qm9700]\nport_gbit = 0\n", "E016"),
        ("[catalogue.switch.qm9700]\nfamily = \"token-ring\"\n", "E021"),
        ("[catalogue.nvlink.nvlink4]\nlink_GBps = { both = 3 }\n", "E050"),
        ("[catalogue.nvlink.nvlink4]\npayload_bytes = 1.5\n", "E010"),
        ("[catalogue.nic.a]\nlike = \"b\"\n[catalogue.nic.b]\nlike = \"a\"\n", "E005"),
        ("[catalogue.nic.a]\nlike = \"a\"\n", "E005"),
        ("[catalogue.nic.cx7]\nports = 1\n[catalogue.nic.connectx-7]\nports = 1\n", "E030"),
        ("[catalogue.cable.mine]\nmax_m = 5\n", "E011"),
        ("[catalogue.system.x]\nlike = \"hgx-h100\"\nnode.gpus = 0\n", "E016"),
        ("[catalogue.system.x]\nnode.gpus = 8\n", "E011"),
    ] {
        let found = codes(rows);
        assert!(found.iter().any(|code| code == expected), "{rows}: {found:?}");
    }
    // One fault, one finding: what rests on a faulty row is not told again.
    assert_eq!(codes("[catalogue.nic.a]\nports = -1\n[catalogue.nic.b]\nlike = \"a\"\n").len(), 1);
}

#[test]
fn a_rate_that_looks_like_both_directions_is_warned_of() {
    let warned = |rows: &str| {
        let text = format!("system = \"hgx-h100\"\n{rows}");
        let ran = run(&[("s.toml", &text)], &["check", "s.toml"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.err.contains("W003")
    };
    assert!(warned("[catalogue.nvlink.nvlink4]\nlink_GBps = 50\n"));
    assert!(warned("[catalogue.nic.mine]\nlike = \"cx7\"\nport_gbit = \"800 Gb/s\"\n"));
    assert!(warned("[catalogue.pcie.pcie5]\nlane_GBps = 8\n"));
    assert!(!warned("[catalogue.nvlink.nvlink4]\nlink_GBps = { both_directions = \"50 GB/s\" }\n"));
    assert!(!warned("[catalogue.nvlink.nvlink4]\nlink_GBps = 30\n"));
    assert!(!warned("[catalogue.nic.mine]\nlike = \"cx7\"\nport_gbit = 800\npcie_gen = 6\n"));
    assert!(!warned("[catalogue.gpu.h100]\nmemory_GBps = 9000\n"));
}

#[test]
fn the_catalogue_is_listed_searched_and_shown() {
    let list = run(&[], &["catalog"]);
    assert_eq!(list.code, 0);
    for part in
        ["gpu (32)", "nic (24)", "switch (19)", "measured (69)", "~ has values that are provisional", "64 x 400 Gb/s"]
    {
        assert!(list.out.contains(part), "{part}: {}", list.out);
    }
    assert!(list.out.lines().all(|line| line.chars().count() <= 110), "{}", list.out);
    let kind = run(&[], &["catalog", "--kind", "path-latency"]);
    assert!(kind.out.contains("nvlink-1sw") && !kind.out.contains("h100-sxm"), "{kind:?}");
    let found = run(&[], &["catalog", "--search", "Hopper"]);
    assert!(found.out.contains("h200-sxm") && !found.out.contains("a100"), "{found:?}");
    run(&[], &["catalog", "--search", "zzzz"]).fails(2, &["E020", "no row mentions `zzzz`"]);
    run(&[], &["catalog", "tomahawk-7"]).fails(2, &["E020", "tomahawk"]);
    run(&[], &["catalog", "--kind", "swich"]).fails(2, &["E080", "switch"]);
    let page = run(&[], &["catalog", "pcie5"]);
    assert!(page.out.contains("57.61 GB/s  = 63.02 x 256 / (256 + 24)"), "{page:?}");
    assert!(run(&[], &["catalog", "qm9700"]).out.contains("~ power"));
    let page = json(&run(&[], &["catalog", "qm9700", "--format", "json"]));
    let entry = &page["results"]["entries"][0];
    let power = entry["figures"].as_array().unwrap().iter().find(|f| f["key"] == "power_w").unwrap();
    assert_eq!((&power["provisional"], &power["unit"]), (&true.into(), &"W".into()));
    assert_eq!(entry["computed"][0]["formula"], "64 x 400 Gb/s");
}
