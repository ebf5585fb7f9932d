//! What `fabricsim compare` says of the runs: each can be read and predicted from the command line, and of those in which something
//! was wrong, the pattern of residuals points at it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use rayon::prelude::*;
use serde_json::Value;
use sim_core::units::Bytes;

use crate::run::{Health, Measured, Run, root};

/// A run in nccl-tests' columns.
pub(crate) fn log(run: &Run, rows: &[Measured], per_node: u32) -> String {
    let op = run.operation();
    let mut text = format!("# Collective test starting: {}_perf\n# Using devices\n", run.operation);
    let gpu = run.gpu.as_deref().unwrap_or("GPU");
    let w = &mut text;
    if let Some(gpus) = run.gpus_per_thread {
        writeln!(w, "# nThread 1 nGpus {gpus} minBytes 8 maxBytes 8 step: 2(factor)").unwrap();
    }
    for rank in 0..run.ranks {
        let (host, device) = (rank / per_node, rank % per_node);
        writeln!(
            w,
            "#  Rank {rank:2} Group  0 Pid {:6} on host{host} device {device:2} [0000:{device:02x}:00] {gpu}",
            1000 + rank
        )
        .unwrap();
    }
    writeln!(w, "#\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong")
        .unwrap();
    let element = match run.datatype.as_str() {
        "int8" | "uint8" => 1,
        "half" | "bfloat16" => 2,
        _ => 4,
    };
    let redop =
        if matches!(run.operation.as_str(), "all_reduce" | "reduce_scatter" | "reduce") { "sum" } else { "none" };
    for m in rows {
        let parts = if op.divides_size() { u64::from(run.ranks) } else { 1 };
        let count = m.bytes / element / parts;
        let half = |us: f64| {
            let (algbw, busbw) = op.bandwidths(Bytes::new(m.bytes), us, run.ranks);
            format!("{us:.2} {algbw:.2} {busbw:.2}")
        };
        writeln!(w, "{} {count} {} {redop} -1 {} 0 {} N/A", m.bytes, run.datatype, half(m.both.0), half(m.both.1))
            .unwrap();
    }
    text
}

/// What `compare` says of these rows of a run.
fn compare(run: &Run, rows: &[Measured], folder: &Path) -> Value {
    // As many GPUs as ranks are in each cluster's scenario.
    let nodes = crate::score::load(run, &[]).scenario.cluster.nodes;
    let path = folder.join(format!("{}.txt", run.id));
    std::fs::write(&path, log(run, rows, (run.ranks / nodes).max(1))).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_fabricsim"))
        .args(["compare", path.to_str().unwrap(), "--scenario", &run.scenario_path(), "--format", "json", "--quiet"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}: {}", run.id, String::from_utf8_lossy(&out.stderr));
    let mut value: Value = serde_json::from_slice(&out.stdout).unwrap();
    value["results"]["logs"][0].take()
}

fn sentences(log: &Value) -> Vec<String> {
    log["pattern"].as_array().unwrap().iter().map(|s| s.as_str().unwrap().to_owned()).collect()
}

/// What the pattern says of runs, by their names.
pub(crate) fn of(runs: &[&Run]) -> BTreeMap<String, Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let one = |run: &&Run| {
        let rows = if run.ranks == 1 { run.all() } else { run.played() };
        (run.id.clone(), sentences(&compare(run, &rows, folder.path())))
    };
    runs.iter().par_bridge().map(one).collect()
}

/// Fails where the pattern of a broken run doesn't name its cause.
pub(crate) fn check(runs: &[Run], said: &BTreeMap<String, Vec<String>>) {
    for run in runs.iter().filter(|run| run.health() == Health::Broken) {
        assert!(
            run.cause.is_some() && !run.pattern.is_empty(),
            "{}: a cause, and what the pattern has to say of it",
            run.id
        );
        let text = said.get(&run.id).map(|all| all.join("; ")).unwrap_or_default();
        for word in &run.pattern {
            assert!(text.contains(word.as_str()), "{}: `{word}` is not in: {text}", run.id);
        }
    }
}

/// Every run is read and predicted from the command line; its smallest size is played, or 64 KiB in place of a large one.
#[test]
fn every_run_can_be_compared_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let runs = crate::run::all();
    let published: Vec<&Run> = runs.iter().filter(|run| !run.is_scalar()).collect();
    published.into_iter().par_bridge().for_each(|run| {
        let least = run.all().into_iter().min_by_key(|m| m.bytes).unwrap();
        let least =
            if least.bytes > 64 << 20 { Measured { bytes: 64 << 10, us: 50.0, both: (50.0, 50.0) } } else { least };
        let log = compare(run, &[least], folder.path());
        assert_eq!(log["ranks"].as_u64(), Some(u64::from(run.ranks)), "{}: {log}", run.id);
        assert_eq!(log["op"].as_str(), Some(run.operation.as_str()), "{}: {log}", run.id);
        let rows = log["rows"].as_array().unwrap();
        assert_eq!(rows.len(), if run.ranks == 1 { 1 } else { 2 }, "{}: {log}", run.id);
    });
}

/// The runs have the rows of the logs that they were made from, where those are at hand (`FABRICSIM_LOG_CORPUS`, a folder with `ID.txt`).
#[test]
fn runs_have_the_rows_of_their_logs() {
    let Some(folder) = std::env::var_os("FABRICSIM_LOG_CORPUS") else { return };
    let mut wrong = Vec::new();
    for run in crate::run::all().iter().filter(|run| !run.is_scalar()) {
        let bytes = std::fs::read(Path::new(&folder).join(format!("{}.txt", run.id))).unwrap();
        let log = sim_report::nccl_log::read_named(&bytes, &format!("{}.txt", run.id)).unwrap();
        let rows: Vec<(u64, (f64, f64))> = log
            .rows()
            .filter(|row| row.bytes > Bytes::ZERO)
            .map(|row| (row.bytes.get(), (row.out_of_place.unwrap().time_us, row.in_place.unwrap().time_us)))
            .collect();
        let own: Vec<(u64, (f64, f64))> = run.all().iter().map(|m| (m.bytes, m.both)).collect();
        let table = &log.tables[0];
        if rows != own
            || table.operation != Some(run.operation())
            || table.ranks.is_some_and(|ranks| ranks != run.ranks)
            || log.rows().any(|row| row.dtype.name() != run.datatype)
        {
            wrong.push(run.id.clone());
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
