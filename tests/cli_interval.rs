//! 90 % intervals and the origins of parameters, in every form of output.

mod cli_common;

use std::fs;

use cli_common::{fabricsim, fabricsim_in};
use fabricsim::scenario::{Input, Scenario};
use fabricsim::simulate::predict_ranged;
use serde_json::Value;
use sim_collectives::Request;
use sim_collectives::nccl::Operation;
use sim_core::engine::Limits;
use sim_core::units::Bytes;

const SMALL: [&str; 11] =
    ["bench", "all_reduce", "--system", "hgx-h100", "-b", "1K", "-e", "64M", "-f", "65536", "--interval"];

fn width(row: &Value) -> f64 {
    let of = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
    assert!(0.0 < of("low_us") && of("low_us") < of("time_us") && of("time_us") < of("high_us"), "{row}");
    (of("high_us") / of("low_us")).ln()
}

#[test]
fn times_carry_their_intervals_and_parameters_their_origins() {
    let value = fabricsim(&[&SMALL[..], &["--format", "json"]].concat()).json();
    let rows = value["results"]["collectives"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let widths: Vec<f64> = rows.iter().map(width).collect();
    let list = value["results"]["parameters"].as_array().unwrap();
    let of = |name: &str| list.iter().find(|p| p["name"] == name);
    let nvls = of("nvls.loop_us").unwrap();
    assert!(nvls["value"].as_f64().unwrap() > 0.0 && !nvls["source"].as_str().unwrap().is_empty(), "{nvls}");
    assert_eq!(of("link.nvlink_share").unwrap()["origin"], "spec");
    // One node: nothing is asked of the network.
    assert!(of("network.ll_us").is_none() && of("link.network_share").is_none(), "{list:?}");

    let text = fabricsim(&SMALL);
    assert!(text.out.contains("90 % interval") && text.out.contains("\nparameters: 1 S (spec), "), "{}", text.out);
    let plain = fabricsim(&SMALL[..10]);
    assert!(!plain.out.contains("90 % interval") && plain.out.contains("\nparameters: "), "{}", plain.out);

    // Values that are known better give narrower intervals.
    let dir = tempfile::tempdir().unwrap();
    let mut profile = "[profile]\norigin = \"fitted\"\nsource = \"x.log\"\n".to_owned();
    let mut spread = "[profile.spread]\n".to_owned();
    for p in list.iter().filter(|p| p["origin"] != "spec") {
        profile += &format!("{} = {:?}\n", p["name"], p["value"].as_f64().unwrap());
        spread += &format!("{} = 0.001\n", p["name"]);
    }
    fs::write(dir.path().join("p.toml"), profile + &spread).unwrap();
    let known = [&SMALL[..], &["--format", "json", "--profile", "p.toml"]].concat();
    let known = fabricsim_in(dir.path(), &known).json();
    for (row, before) in known["results"]["collectives"].as_array().unwrap().iter().zip(&widths) {
        assert!(width(row) < *before, "{row}");
    }
    let fitted = known["results"]["parameters"].as_array().unwrap();
    assert!(fitted.iter().any(|p| p["origin"] == "fitted" && p["source"] == "x.log"), "{fitted:?}");

    let out = fabricsim_in(dir.path(), &[&SMALL[..], &["--out", "o"]].concat());
    assert_eq!(out.code, 0, "{out:?}");
    let csv = fs::read_to_string(dir.path().join("o/collectives.csv")).unwrap();
    assert!(csv.lines().next().unwrap().ends_with(",bottleneck,low_us,high_us"), "{csv}");
}

#[test]
fn a_comparison_says_how_many_rows_are_in() {
    let dir = tempfile::tempdir().unwrap();
    let table = fabricsim(&[
        "bench",
        "all_reduce",
        "--system",
        "hgx-h100",
        "-b",
        "1K",
        "-e",
        "1M",
        "-f",
        "32",
        "--table",
        "nccl",
    ]);
    fs::write(dir.path().join("own.txt"), &table.out).unwrap();
    let args = ["compare", "own.txt", "--system", "hgx-h100", "--interval"];
    let value = fabricsim_in(dir.path(), &[&args[..], &["--format", "json"]].concat()).json();
    assert_eq!(value["results"]["in_interval"].as_f64(), Some(1.0));
    let log = &value["results"]["logs"][0];
    assert!(log["parameters"].as_array().unwrap().len() > 3, "{log}");
    for row in log["rows"].as_array().unwrap() {
        assert!(row["low_us"].as_f64() < row["measured_us"].as_f64(), "{row}");
    }
    let text = fabricsim_in(dir.path(), &args);
    assert!(
        text.out.contains("in the 90 % interval: 100 % of the rows") && text.out.contains("parameters: "),
        "{}",
        text.out
    );
}

#[test]
fn hashed_paths_are_drawn_again() {
    let of = |choice: &str| {
        let text = format!(
            "system = \"hgx-h100\"\nnodes = 8\ngpus_per_node = 1\nfabric.kind = \"leaf-spine\"\nfabric.leaves = 2\ntransport.path_choice = \"{choice}\"\n"
        );
        let loaded = Scenario::load(&Input::Text { name: "t.toml".to_owned(), text }, &[]).unwrap();
        let machine = loaded.machine(&(0..8).collect::<Vec<_>>()).unwrap();
        let request = Request::new(Operation::AllToAll, Bytes::mib(64));
        predict_ranged(&machine, None, &request, (1, 20), &Limits::default()).unwrap().deviations
    };
    let paths = |list: &[(String, f64)]| list.iter().find(|(name, _)| name == "paths").map(|p| p.1);
    let (hash, table) = (of("hash"), of("destination"));
    assert!(paths(&hash).is_some_and(|d| d > 0.0 && d < 0.5), "{hash:?}");
    assert_eq!(paths(&table), None);
    for name in ["form", "jitter", "launch", "network", "p2p", "link.network_share"] {
        assert!(hash.iter().any(|(n, d)| n == name && *d > 0.0), "{name}: {hash:?}");
    }
    // One seed, one result.
    assert_eq!(hash, of("hash"));
}
