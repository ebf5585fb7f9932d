//! Networks of packets under DCQCN and PFC, for both benches.

use fabricsim::scenario::{Input, Loaded, Scenario};
use sim_report::result::RunResults;

/// Name, hosts, spines (and hosts of a leaf), Gb/s, the keys of the transfers.
pub(crate) const CASES: &[(&str, u32, u32, u32, &str)] = &[
    ("packets, 64 hosts, 64 KiB a pair", 64, 8, 100, "pattern = \"all_to_all\"\nsize = \"64 KiB\""),
    ("packets, 1,024 hosts, 1 MiB to another", 1024, 32, 400, "pattern = \"permutation\"\nsize = \"1 MiB\""),
    ("packets, 64 hosts, 1 MiB a pair", 64, 8, 100, "pattern = \"all_to_all\"\nsize = \"1 MiB\""),
];

/// A case, ready to play.
pub(crate) fn load(case: usize) -> Loaded {
    let (_, hosts, spines, gbit, transfers) = CASES[case];
    let leaves = hosts / spines;
    let text = format!(
        "schema = 1\nsystem = \"hgx-h100\"\nnodes = {hosts}\ngpus_per_node = 1\nnics = \"1x{gbit}Gb/s\"\n\
         [fabric]\nkind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\nlink_latency = \"1 us\"\n\
         [transport]\npreset = \"roce-{gbit}g\"\ndcqcn = {{ set = \"simulated\" }}\n\
         [[workload]]\nkind = \"transfer\"\nendpoints = \"nics\"\n{transfers}\n"
    );
    let input = Input::Text { name: "packets".to_owned(), text };
    Scenario::load(&input, &[]).map_err(|faults| faults.warning_lines()).expect("a sound scenario")
}

/// Hops of packets, acknowledgements and notices among them.
pub(crate) fn hops(results: &RunResults) -> u64 {
    let totals = results.transport.as_ref().expect("packets are played").totals;
    totals.data_hops + totals.control_hops
}
