//! Published times of engines' own kernels beside predictions: the table of `docs/algorithms.md`.
//!
//! The figures and their scenarios are in `tests/data/kernels.toml`. `UPDATE_DOCS=1 cargo test --test kernels` writes the table;
//! without it the page must be as it would be written.

mod cli_common;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use cli_common::fabricsim_in;
use serde::Deserialize;
use serde_json::Value;
use sim_collectives::experts::Experts;

const BEGIN: &str = "<!-- kernels: written by `UPDATE_DOCS=1 cargo test --test kernels` -->\n";
const END: &str = "<!-- end -->";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    figure: Vec<Figure>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    what: String,
    source: String,
    us: Option<f64>,
    gbyte_per_s: Option<f64>,
    copies: Option<Copies>,
    fitted: Option<String>,
    scenario: String,
}

/// What a published bandwidth counts.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Copies {
    Nodes,
    Ranks,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn collective(scenario: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("s.toml"), scenario).unwrap();
    let json = fabricsim_in(dir.path(), &["run", "s.toml", "--quiet", "--format", "json"]).json();
    let rows = json["results"]["collectives"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{scenario}");
    rows[0].clone()
}

impl Figure {
    /// Copies of a token that are counted, its own node's or rank's too.
    fn copies(&self) -> f64 {
        let table: toml::Table = toml::from_str(&self.scenario).unwrap();
        let workload = &table["workload"].as_array().unwrap()[0];
        let of = |key: &str| workload.get(key).and_then(toml::Value::as_integer).map(|n| n as u32);
        let nodes = table.get("nodes").and_then(toml::Value::as_integer).unwrap_or(1) as u32;
        let (experts, top_k) = (of("experts").unwrap(), of("top_k").unwrap());
        let experts = Experts { top_nodes: of("top_nodes"), ..Experts::free(experts, top_k) };
        // In parts of a million bytes, one copy of all tokens.
        let routed = experts.routed(1_000_000, nodes, 8, None);
        let (each, many) = match self.copies.expect("a bandwidth says what it counts") {
            Copies::Nodes => (routed.to_node[0], nodes),
            Copies::Ranks => (routed.to_rank[0], 8 * nodes),
        };
        each as f64 * 1e-6 * f64::from(many)
    }

    fn line(&self) -> String {
        let row = collective(&self.scenario);
        let us = row["time_us"].as_f64().unwrap();
        let (published, predicted, ratio) = match (self.us, self.gbyte_per_s) {
            (Some(published), None) => (format!("{published} µs"), format!("{us:.1} µs"), us / published),
            (None, Some(published)) => {
                let rate = row["bytes"].as_f64().unwrap() * self.copies() / us / 1e3;
                (format!("{published} GB/s"), format!("{rate:.0} GB/s"), published / rate)
            }
            _ => panic!("{}: a time or a bandwidth", self.what),
        };
        let fitted = self.fitted.as_ref().map_or_else(String::new, |key| format!(" (`{key}` fitted to it)"));
        let error = (ratio - 1.0) * 100.0;
        format!("| {}{fitted} | {} | {published} | {predicted} | {error:+.0} % |\n", self.what, self.source)
    }
}

#[test]
fn published_figures_are_as_near_as_the_page_says() {
    let file: File = toml::from_str(&fs::read_to_string(root().join("tests/data/kernels.toml")).unwrap()).unwrap();
    let mut table =
        String::from("| run | source | published | predicted | error of the time |\n|---|---|---|---|---|\n");
    for figure in &file.figure {
        write!(table, "{}", figure.line()).unwrap();
    }
    println!("{table}");
    let page = root().join("docs/algorithms.md");
    let old = fs::read_to_string(&page).unwrap().replace("\r\n", "\n");
    let (head, rest) = old.split_once(BEGIN).expect("the page has the mark after which the table begins");
    let (found, tail) = rest.split_once(END).expect("the table has an end");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&page, format!("{head}{BEGIN}{table}{END}{tail}")).unwrap();
    } else {
        assert_eq!(found, table, "docs/algorithms.md is old: UPDATE_DOCS=1 cargo test --test kernels");
    }
}

#[test]
fn one_shot_crosses_the_ring_where_it_was_published_to() {
    let file: File = toml::from_str(&fs::read_to_string(root().join("tests/data/kernels.toml")).unwrap()).unwrap();
    let v100 = file.figure.iter().find(|f| f.what.contains("V100")).unwrap();
    let time = |algorithm: &str, size: &str| {
        let scenario = v100.scenario.replace("one_shot", algorithm).replace("4 KiB", size);
        collective(&scenario)["time_us"].as_f64().unwrap()
    };
    // Four V100 behind one PCIe switch: between 128 and 384 KiB (haohervchb/sglang-V100, pull request 2).
    assert!(time("one_shot", "128 KiB") < time("ring", "128 KiB"));
    assert!(time("one_shot", "384 KiB") > time("ring", "384 KiB"));
}
