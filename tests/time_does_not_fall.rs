//! More bytes take no less time, but for the sizes at which the library itself changes its algorithm or protocol: it goes by a
//! table of its own, or by a fixed size, and not by time.

mod cli_common;

use cli_common::fabricsim;

/// What twice the bytes may save where nothing changes but the channels.
const SAME: f64 = 1.02;

/// What they may save where the library changes its algorithm or protocol. On 8 B200 sends of 512 KiB and 1 MiB, with LL and
/// with Simple, take 35.1 and 27.9 us (b200-1n8-sendrecv): 1.26.
const CHANGE: f64 = 1.6;

/// The same before Hopper, where sends are taken to need LL's passes as long as rings do; no run shows them.
const CHANGE_BEFORE_HOPPER: f64 = 2.2;

/// Systems of GPUs before Hopper.
const BEFORE_HOPPER: [&str; 5] = ["hgx-a100", "nvlink-pair-a100", "a100-4gpu", "dgx-1v", "dgx-2"];

const SYSTEMS: [&str; 9] = [
    "hgx-a100",
    "hgx-h100",
    "hgx-b200",
    "nvlink-pair-a100",
    "nvlink-pair-h100nvl",
    "a100-4gpu",
    "dgx-1v",
    "dgx-2",
    "nvl36x2-gb200",
];

const OPERATIONS: [&str; 9] =
    ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv", "gather", "scatter"];

#[test]
fn more_bytes_take_no_less_time() {
    let mut fallen = Vec::new();
    let mut changes = 0;
    for system in SYSTEMS {
        for operation in OPERATIONS {
            for nodes in ["1", "2"] {
                let sweep = ["-b", "1K", "-e", "64M", "-f", "2", "--format", "json", "--quiet"];
                let run =
                    fabricsim(&[&["bench", operation, "--system", system, "--nodes", nodes], &sweep[..]].concat());
                let json = run.json();
                let rows = json["results"]["collectives"].as_array().unwrap();
                assert_eq!(rows.len(), 17);
                for pair in rows.windows(2) {
                    let (one, two) = (&pair[0], &pair[1]);
                    let saved = one["time_us"].as_f64().unwrap() / two["time_us"].as_f64().unwrap();
                    let same = one["algorithm"] == two["algorithm"] && one["protocol"] == two["protocol"];
                    changes += u32::from(!same);
                    let change = if BEFORE_HOPPER.contains(&system) { CHANGE_BEFORE_HOPPER } else { CHANGE };
                    if saved > if same { SAME } else { change } {
                        fallen.push(format!("{operation} on {nodes} x {system}, {saved:.2} times: {one}\n{two}"));
                    }
                }
            }
        }
    }
    assert!(fallen.is_empty(), "{}", fallen.join("\n"));
    // Most sweeps go through some.
    assert!(changes > 100, "{changes}");
}
