//! Published runs over InfiniBand and RoCE with their packets played, beside the same without: where nothing is congested, packets must
//! change little.
//!
//! - `cargo test --test transport_corpus` plays sizes to 1 MiB of two nodes.
//! - `cargo test --test transport_corpus -- --ignored` sizes to 64 MiB (of runs of larger ones alone, the least), and writes the table of `docs/models.md` with `UPDATE_DOCS=1`.

#[path = "accuracy/run.rs"]
#[allow(dead_code, reason = "each test uses a part")]
mod run;
#[path = "accuracy/score.rs"]
#[allow(dead_code, reason = "each test uses a part")]
mod score;
mod transport_common;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fabricsim::scenario::Setting;
use rayon::prelude::*;

use score::{Row, median};

/// Runs whose network is InfiniBand or RoCE, of two to four nodes, by what they run over.
const RUNS: &[(&str, &[&str])] = &[
    (
        "InfiniBand",
        &[
            "h100-2n16-dell-ndr-allreduce",
            "h100-2n16-ndr-default-allreduce",
            "h100-4n32-ndr-default-allreduce",
            "b200-2n16-ib-allreduce",
            "b200-2n16-ib-allgather",
            "b200-2n16-ib-alltoall",
            "a100-2n8-ib-reducescatter",
        ],
    ),
    (
        "RoCE",
        &[
            "h100-2n16-oci-roce-allreduce",
            "a100-2n16-oci-b48-roce-allreduce-slurm",
            "a100-2n16-oci-volcano-roce-allreduce",
            "h200-2n2-1gpu1nic-roce-allreduce",
            "h20-2n4-roce-alltoall",
        ],
    ),
];

/// What a family's median error may move by, in percent of the measured times.
const MOST: f64 = 1.0;

/// Rows of a run up to a size, without and with packets.
fn both(id: &str, most: u64) -> (String, Vec<(Row, Row)>) {
    let run = run::all().into_iter().find(|run| run.id == id).unwrap_or_else(|| panic!("no run {id}"));
    let mut rows: Vec<_> = run.played().into_iter().filter(|row| row.bytes <= most).collect();
    if rows.is_empty() {
        // A run of large sizes alone: the smallest of them.
        rows.extend(run.played().into_iter().min_by_key(|row| row.bytes));
    }
    let without = score::settings(&run);
    let mut with = without.clone();
    with.push(Setting::text("packets", "transport.model", "packets"));
    let (_, without, _) = score::play(&run, &without, &rows);
    let begun = std::time::Instant::now();
    let (loaded, with, _) = score::play(&run, &with, &rows);
    let preset = loaded.packets.and_then(|packets| packets.preset).expect("packets are played");
    println!("{id}: {} rows in {:.1} s", with.len(), begun.elapsed().as_secs_f64());
    for (a, b) in without.iter().zip(&with) {
        let (bytes, how) = (a.measured.bytes, &a.how);
        assert_eq!(a.how, b.how, "{id}: {bytes} B");
        println!("    {bytes:>10} {how:24} {:10.1} {:10.1} {:+6.2} %", a.predicted, b.predicted, change(a, b));
    }
    (preset, without.into_iter().zip(with).collect())
}

/// By how much packets change a prediction, in percent.
fn change(without: &Row, with: &Row) -> f64 {
    (with.predicted / without.predicted - 1.0) * 100.0
}

/// Plays all runs to a size, and what their families' errors move by.
fn play(most: u64, runs: &[(&str, Vec<&str>)]) -> String {
    let mut table = "| over | run | preset | rows | median error without packets | with packets | time changes by, median | at most |\n\
                     |---|---|---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    let mut families: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for (over, ids) in runs {
        let all: Vec<_> = ids.par_iter().map(|id| (*id, both(id, most))).collect();
        for (id, (preset, rows)) in all {
            let errors: Vec<(f64, f64)> = rows.iter().map(|(a, b)| (a.error(), b.error())).collect();
            let changes: Vec<f64> = rows.iter().map(|(a, b)| change(a, b)).collect();
            let most = changes.iter().copied().fold(0.0, |most: f64, c| if c.abs() > most.abs() { c } else { most });
            let absolute = |errors: Vec<f64>| median(errors.iter().map(|e| e.abs()).collect()).unwrap_or(0.0);
            let (a, b) = errors.iter().copied().unzip();
            let _ = writeln!(
                table,
                "| {over} | {id} | {preset} | {} | {:.1} % | {:.1} % | {:+.2} % | {most:+.1} % |",
                rows.len(),
                absolute(a),
                absolute(b),
                median(changes).unwrap_or(0.0),
            );
            families.entry(over).or_default().extend(errors);
        }
    }
    println!("{table}");
    for (over, errors) in families {
        let (without, with): (Vec<f64>, Vec<f64>) = errors.into_iter().map(|(a, b)| (a.abs(), b.abs())).unzip();
        let (without, with) = (median(without).unwrap_or(0.0), median(with).unwrap_or(0.0));
        println!("{over}: median error {without:.2} % without packets, {with:.2} % with");
        assert!((with - without).abs() <= MOST, "{over}: {without:.2} % and {with:.2} %");
    }
    table
}

#[test]
fn packets_change_little_where_nothing_is_congested() {
    let few =
        [("InfiniBand", vec!["h100-2n16-dell-ndr-allreduce"]), ("RoCE", vec!["a100-2n16-oci-volcano-roce-allreduce"])];
    play(1 << 20, &few);
}

#[test]
fn packets_change_little_to_64_mib() {
    let all: Vec<(&str, Vec<&str>)> = RUNS.iter().map(|(over, ids)| (*over, ids.to_vec())).collect();
    let table = play(64 << 20, &all);
    transport_common::page("docs/models.md", "published runs over packets", &table);
}
