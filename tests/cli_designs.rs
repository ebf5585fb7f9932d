//! `[[design]]`: one scenario several ways.

mod cli_common;

use std::fs;

use cli_common::{Ran, fabricsim_in};

const BASE: &str = r#"
name = "two ways"
system = "hgx-h100"
nodes = 2

[[workload]]
kind = "collective"
op = "all_reduce"
sizes = ["1 MiB"]

[[design]]
name = "four nics"
nics = "4x400Gb/s"

[[design]]
name = "one nic"
nics = "1x400Gb/s"
workload = { 0 = { op = "all_gather" } }
"#;

fn with(text: &str, args: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.toml"), text).unwrap();
    fabricsim_in(dir.path(), args)
}

#[test]
fn run_plays_all_and_shows_the_first_in_full() {
    let value = with(BASE, &["run", "s.toml", "--format", "json"]).json();
    let designs = value["results"]["designs"].as_array().unwrap();
    let names: Vec<&str> = designs.iter().map(|d| d["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["four nics", "one nic"]);
    // Each is what it gives alone.
    for (design, name) in designs.iter().zip(names) {
        let alone = with(BASE, &["run", "s.toml", "--design", name, "--format", "json"]).json();
        assert!(alone["results"].get("designs").is_none());
        assert_eq!(design["measures"][0]["p50_us"], alone["results"]["collectives"][0]["time_us"]);
    }
    assert_eq!(value["results"]["collectives"][0]["time_us"], designs[0]["measures"][0]["p50_us"]);
    // Keys of members of arrays are laid upon them; a time that the first lacks has no ratio.
    assert_eq!(designs[1]["measures"][0]["name"], "all_gather of 1 MiB");
    assert!(designs[1]["ratios"][0].is_null());
    let text = with(BASE, &["run", "s.toml"]).out;
    assert!(text.starts_with("2 designs: all_reduce of 1 MiB"), "{text}");
    assert!(text.contains("all below is of `four nics`"), "{text}");
}

#[test]
fn diff_takes_one_file_with_several_and_settings_lie_above_designs() {
    let ran = with(BASE, &["diff", "s.toml", "--set", "nodes=4", "--format", "json"]).json();
    assert_eq!(ran["results"]["designs"].as_array().unwrap().len(), 2);
    let ran = with(BASE, &["run", "s.toml", "--design", "one nic", "--nics", "8x400Gb/s", "--format", "json"]).json();
    let other =
        with(BASE, &["run", "s.toml", "--set", "design=one nic", "--nics", "8x400Gb/s", "--format", "json"]).json();
    assert_eq!(ran["results"]["collectives"], other["results"]["collectives"]);
    let ran =
        with("system = \"hgx-h100\"\n[[workload]]\nkind = \"collective\"\nop = \"all_reduce\"\n", &["diff", "s.toml"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("nothing to set side by side"), "{}", ran.err);
}

#[test]
fn check_looks_at_all() {
    let ran = with(BASE, &["check", "s.toml"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let bad = BASE.replace("nics = \"1x400Gb/s\"", "nodes = 0\ntransport = { kind = \"ether\" }");
    let ran = with(&bad, &["check", "s.toml"]);
    assert_eq!(ran.code, 2);
    for part in ["nodes", "ether", "s.toml:18"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    // Each finding once.
    assert_eq!(ran.err.matches("`ether`").count(), 1, "{}", ran.err);
}

#[test]
fn faults_of_designs_are_told_with_their_place() {
    let refused = |text: &str, args: &[&str], what: &str| {
        let ran = with(text, args);
        assert_eq!(ran.code, 2, "{what}");
        assert!(ran.err.contains(what), "{what}: {}", ran.err);
    };
    refused(BASE, &["run", "s.toml", "--design", "one nik"], "one nic");
    refused(&BASE.replace("one nic\"", "four nics\""), &["run", "s.toml"], "two designs are called `four nics`");
    refused(&BASE.replace("name = \"one nic\"\n", ""), &["run", "s.toml"], "a design has no `name`");
    refused(&BASE.replace("name = \"one nic\"", "name = 3"), &["check", "s.toml"], "`name` takes a text");
    refused("system = \"hgx-h100\"\ndesign = 3\n", &["check", "s.toml"], "array of tables");
    refused("system = \"hgx-h100\"\ndesign = [1]\n", &["check", "s.toml"], "not a table");
    refused("system = \"hgx-h100\"\n", &["check", "s.toml", "--design", "x"], "no `[[design]]`");
    let inner = BASE.replace("nics = \"1x400Gb/s\"", "schema = 1");
    refused(&inner, &["check", "s.toml"], "`schema` has no place in a design");
}
