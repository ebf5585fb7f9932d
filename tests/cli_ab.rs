//! The α-β calculator from the command line, held to published worked figures.

mod cli_common;

use cli_common::fabricsim;
use serde_json::Value;

const LINKS: [&str; 6] = ["--link", "nvlink=450GBps,1us", "--link", "pcie5=55GBps,2us", "--link", "ib400=50GBps,3us"];

fn ab(args: &[&str]) -> Value {
    let all: Vec<&str> = ["ab", "--format", "json"].into_iter().chain(args.iter().copied()).collect();
    fabricsim(&all).json()["results"].clone()
}

fn near(found: &Value, wanted: f64, tolerance: f64) {
    let found = found.as_f64().unwrap_or_else(|| panic!("{found} is no number"));
    assert!((found - wanted).abs() <= tolerance, "{found}, wanted {wanted} ± {tolerance}");
}

#[test]
fn the_table_of_three_links() {
    let results = ab(&LINKS);
    let bytes = [4096, 65_536, 1 << 20, 16 << 20, 256 << 20];
    for (link, name, rates, half) in [
        (0, "nvlink", [4.1, 57.2, 314.9, 438.2, 449.2], 450_000.0),
        (1, "pcie5", [2.0, 20.5, 49.8, 54.6, 55.0], 110_000.0),
        (2, "ib400", [1.3, 15.2, 43.7, 49.6, 50.0], 150_000.0),
    ] {
        let link = &results["links"][link];
        assert_eq!(link["name"], name);
        near(&link["half_bandwidth_bytes"], half, 1e-6 * half);
        for (i, rate) in rates.into_iter().enumerate() {
            assert_eq!(link["rows"][i]["bytes"], bytes[i]);
            near(&link["rows"][i]["achieved_GBps"], rate, 0.1);
        }
    }
    for (row, us) in [1.009, 1.146, 3.330, 38.28, 597.5].into_iter().enumerate() {
        near(&results["links"][0]["rows"][row]["time_us"], us, us * 1e-3);
    }
}

#[test]
fn the_text_table_prints_the_same_figures() {
    let ran = fabricsim(&[&["ab"][..], &LINKS].concat());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let numbers = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<_> = ran.out.lines().map(numbers).collect();
    assert_eq!(lines[3][..5], ["1", "MiB", "314.9", "49.8", "43.7"]);
    assert_eq!(lines[6][..8], ["half", "rate", "439", "KiB", "107", "KiB", "146", "KiB"]);
    assert_eq!(lines[7][..2], ["450000", "B"]);
}

#[test]
fn messages_of_decode_and_prefill() {
    let decode = ab(&[&LINKS[..2], &["--message", "tokens=32 hidden=8192 dtype=bf16"]].concat());
    assert_eq!(decode["message"]["bytes"], 524_288);
    near(&decode["message"]["one_hop_us"], 2.165, 0.001);
    near(&decode["message"]["fixed_share"], 0.4619, 0.0005);
    assert!(decode["message"].get("ring_us").is_none());
    let prefill = ab(&[&LINKS[..2], &["--message", "tokens=8192 hidden=8192 dtype=bf16"]].concat());
    assert_eq!(prefill["message"]["bytes"], 128 << 20);
    near(&prefill["message"]["one_hop_us"], 299.3, 0.1);
    near(&prefill["message"]["fixed_share"], 0.0033, 0.0005);
}

#[test]
fn sizes_that_reach_a_rate() {
    let reach = ab(&["--link", "x=200GBps,5us", "--reach", "100GBps,180GBps,250GBps"])["reach"].clone();
    near(&reach[0]["target_GBps"], 100.0, 1e-9);
    near(&reach[0]["bytes"], 1e6, 1e-3);
    near(&reach[1]["bytes"], 9e6, 1e-2);
    assert!(reach[2]["bytes"].is_null());
    let shares = ab(&["--link", "x=450GBps,1us", "--reach", "50%,90%,95%,99%"])["reach"].clone();
    for (i, times) in [1.0, 9.0, 19.0, 99.0].into_iter().enumerate() {
        near(&shares[i]["bytes"], times * 450_000.0, 0.01);
    }
}

#[test]
fn the_achieved_rate_is_an_identity() {
    let results = ab(&["--link", "x=123.4GBps,1.7us", "--sizes", "1,777,64KiB,209780,1G"]);
    let (alpha, beta) = (1.7e-6, 123.4e9);
    for row in results["links"][0]["rows"].as_array().unwrap() {
        let n = row["bytes"].as_f64().unwrap();
        let identity = beta / (1.0 + alpha * beta / n) / 1e9;
        near(&row["achieved_GBps"], identity, 1e-12 * identity);
    }
    near(&results["links"][0]["rows"][3]["achieved_GBps"], 61.7, 1e-9);
}

#[test]
fn an_all_reduce_three_ways() {
    let args = ["--link", "nvlink=450GBps,1us", "--message", "512KiB", "--ranks", "8"];
    let message = ab(&args)["message"].clone();
    near(&message["ring_us"], 16.04, 0.005);
    near(&message["two_shot_us"], 4.04, 0.005);
    near(&message["one_shot_us"], 9.16, 0.005);
    near(&message["one_shot_two_shot_bytes"], 83.7 * 1024.0, 0.05 * 1024.0);
    near(&message["one_shot_ring_bytes"], 1.06 * 1_048_576.0, 0.005 * 1_048_576.0);
    let text = fabricsim(&[&["ab"][..], &args].concat()).out;
    for part in ["one-shot 9.16 µs (11 %)", "two-shot 4.04 µs (50 %)", "ring 16.04 µs (87 %)", "two-shot; one-shot"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn the_sum_of_both_directions_is_warned_of() {
    let ran = fabricsim(&["ab", "--link", "nvlink4=900GBps,1us", "--format", "json"]);
    assert!(ran.err.contains("W003") && ran.err.contains("450 GB/s per GPU in each direction"), "{ran:?}");
    assert_eq!(ran.json()["warnings"][0]["code"], "W003");
    let quiet = fabricsim(&["ab", "--link", "nvlink4=900GBps,1us", "--format", "json", "--quiet"]);
    assert!(quiet.err.is_empty());
    assert_eq!(quiet.json()["warnings"][0]["code"], "W003");
    assert!(fabricsim(&["ab", "--link", "nvlink5=900GBps,1us"]).err.is_empty());
}

#[test]
fn bad_flags_point_at_the_part() {
    let link = |value: &str| fabricsim(&["ab", "--link", value]);
    link("x=450,1us").fails(2, &["E012", "--link:1:3", "450 Gb/s"]);
    link("x=450GB,1us").fails(2, &["E013", "--link:1:6"]);
    link("x=450GB/s,1").fails(2, &["E012", "--link:1:11"]);
    link("x=0GB/s,1us").fails(2, &["E014"]);
    link("x=nanGB/s,1us").fails(2, &["E014"]);
    link("x=1e30GB/s,1us").fails(2, &["E015"]);
    link("450GB/s,1us").fails(2, &["E080", "NAME=RATE,LATENCY"]);
    fabricsim(&["ab"]).fails(2, &["E080", "--link nvlink=450GBps,1us"]);
    fabricsim(&["ab", "--link", "x=1GBps,1us", "--sizes", "0"]).fails(2, &["zero bytes"]);
    fabricsim(&["ab", "--link", "x=1GBps,1us", "--reach", "100%"]).fails(2, &["between 0 % and 100 %"]);
    fabricsim(&["ab", "--link", "x=1GBps,1us", "--message", "tokns=1 hidden=2"]).fails(2, &["did you mean `tokens`?"]);
    let huge = "tokens=9999999999999999999 hidden=9999999999999999999";
    fabricsim(&["ab", "--link", "x=1GBps,1us", "--message", huge]).fails(2, &["larger than can be counted"]);
    // Two faults in one call are both reported.
    fabricsim(&["ab", "--link", "x=1,1us", "--sizes", "1 parsec"]).fails(2, &["E012", "parsec", "2 errors"]);
}
