//! Results for people: the answer and its bottleneck first, the evidence after.

use core::fmt::Write as _;

use sim_core::units::Bytes;
use sim_report::result::{DesignResult, DiffResults, ExplainResult, RunResults};
use sim_report::table::{
    Align, TextTable, collectives_text, diff_text, inference_text, links_text, long_run_text, parameters_line,
    seeds_text, series_text, step_text, time_text, transfers_text, transport_text,
};

use crate::scenario::Loaded;
use crate::simulate::Report;
use crate::simulate::healthy::CHEAP;

/// Transfers shown at most, the slowest first.
const TRANSFERS: usize = 20;
/// Links shown.
const LINKS: usize = 8;

pub(super) fn text(loaded: &Loaded, report: &Report) -> String {
    let results = &report.results;
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    if !results.designs.is_empty() {
        let _ = writeln!(out, "{}", best_and_worst(&results.designs));
    } else if !report.headline.is_empty() {
        let _ = writeln!(out, "{}", report.headline);
    }
    let scenario = &loaded.scenario;
    let _ = writeln!(out, "{}, seed {}, fabricsim {}", scenario.describe(), scenario.seed, env!("CARGO_PKG_VERSION"));
    if let Some(rows) = loaded.own_rows() {
        let _ = writeln!(out, "catalogue: {rows}");
    }
    for why in &results.through_host {
        let _ = writeln!(out, "through host memory: {why}");
    }
    faults(report, &mut out);
    if let Some(first) = results.designs.first() {
        let seeds = results.seeds.as_ref().map_or(1, |seeds| seeds.count);
        let _ = write!(out, "\n{}", diff_text(&DiffResults { seeds, designs: results.designs.clone() }));
        let _ = writeln!(out, "\nall below is of `{}` (--design NAME shows another one)", first.name);
        if !report.headline.is_empty() {
            let _ = writeln!(out, "{}", report.headline);
        }
    } else if let Some(name) = loaded.designs.name() {
        let _ = writeln!(out, "design: {name}");
    }
    if !results.collectives.is_empty() {
        let _ = write!(out, "\n{}", collectives_text(&results.collectives));
    }
    for step in results.step.iter().chain(&results.further_steps) {
        let _ = write!(out, "\n{}", step_text(step));
    }
    out += &super::best::text(&results.best);
    for one in &results.inference {
        let _ = write!(out, "\n{}", inference_text(one));
    }
    for one in &results.long_runs {
        let _ = write!(out, "\n{}", long_run_text(one));
    }
    transfers(results, &mut out);
    let used: Vec<_> = results.links.iter().filter(|l| l.bytes > 0).cloned().collect();
    if !used.is_empty() {
        let _ = write!(out, "\nbusiest links, over all of the above\n{}", links_text(&used, LINKS));
    }
    if let Some(transport) = &results.transport {
        let _ = write!(out, "\n{}", transport_text(transport));
    }
    out += &series_text(&results.series);
    if let Some(seeds) = &results.seeds {
        let _ = write!(out, "\n{}", seeds_text(seeds));
    }
    explain(&results.explain, &mut out);
    if !results.parameters.is_empty() {
        let _ = writeln!(out, "\n{}", parameters_line(&results.parameters));
    }
    out
}

/// Of each time the design that has the least and the one that has the most.
fn best_and_worst(designs: &[DesignResult]) -> String {
    let mut parts = Vec::new();
    for measure in designs.iter().flat_map(|design| &design.measures) {
        let name = &measure.name;
        let of = |design: &'_ DesignResult| design.measures.iter().find(|m| m.name == *name).map(|m| m.p50_us);
        let mut times: Vec<(f64, &str)> = designs.iter().filter_map(|d| Some((of(d)?, d.name.as_str()))).collect();
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(best), Some(worst)) = (times.first(), times.last()) else { continue };
        let part = if best.0 >= worst.0 {
            format!("{name} {} by all", time_text(best.0))
        } else {
            let ratio = worst.0 / best.0.max(f64::MIN_POSITIVE);
            format!("{name} {} ({}) to {} ({}, x{ratio:.2})", time_text(best.0), best.1, time_text(worst.0), worst.1)
        };
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    const MOST: usize = 4;
    let rest = parts.len().saturating_sub(MOST);
    parts.truncate(MOST);
    if rest > 0 {
        parts.push(format!("{rest} more below"));
    }
    format!("{} designs: {}.", designs.len(), parts.join("; "))
}

/// What is broken, and what that costs against the healthy fabric: at the largest size of each collective, and in the
/// longest transfer.
fn faults(report: &Report, out: &mut String) {
    let results = &report.results;
    for fault in &results.faults {
        let _ = writeln!(out, "fault: {} {}: {}", fault.kind, fault.target, fault.what);
    }
    let Some(healthy) = &results.healthy else {
        if !results.faults.is_empty() && report.work > CHEAP {
            let most = CHEAP / 1_000_000;
            let _ = writeln!(
                out,
                "what the faults cost: not played again without them, as this took more than {most} M events or operations; \
                 --without-faults gives the other times"
            );
        }
        return;
    };
    let mut lines: Vec<(String, f64, f64)> = Vec::new();
    for (row, well) in results.collectives.iter().zip(&healthy.collectives_us) {
        let line = (format!("{} of {}", row.op, Bytes::new(row.bytes)), row.time_us, *well);
        match lines.last_mut() {
            Some(last) if last.0.starts_with(&format!("{} of ", row.op)) => *last = line,
            _ => lines.push(line),
        }
    }
    if results.transfer_totals.transfers > 0 {
        lines.push((
            "the longest transfer".to_owned(),
            results.transfer_totals.longest_us,
            healthy.longest_transfer_us,
        ));
    }
    let steps = results.step.iter().chain(&results.further_steps).zip(&healthy.steps_us);
    lines.extend(steps.map(|(step, well)| (format!("step {}", step.outline.name), step.time_us, *well)));
    for (what, ill, well) in lines {
        let change = if well > 0.0 { format!(" ({:+.1} %)", (ill / well - 1.0) * 100.0) } else { String::new() };
        let _ = writeln!(out, "{what}: {}, without the faults {}{change}", time_text(ill), time_text(well));
    }
}

fn transfers(results: &RunResults, out: &mut String) {
    let list = &results.transfers;
    if list.is_empty() {
        return;
    }
    if list.len() <= TRANSFERS {
        let _ = write!(out, "\n{}", transfers_text(list));
        return;
    }
    let mut slowest = list.clone();
    slowest.sort_by(|a, b| b.time_us.total_cmp(&a.time_us));
    slowest.truncate(TRANSFERS);
    let all = results.transfer_totals.transfers;
    let _ = write!(out, "\nthe slowest {TRANSFERS} of {all} transfers\n{}", transfers_text(&slowest));
}

/// Per size the combinations that NCCL weighs; those that are not offered, once for all sizes of an operation that
/// agree on them.
fn explain(list: &[ExplainResult], out: &mut String) {
    let refused = |e: &ExplainResult| -> Vec<(String, String)> {
        let name = |c: &sim_report::result::CandidateResult| format!("{}/{}", c.algorithm, c.protocol);
        e.candidates.iter().filter_map(|c| Some((name(c), c.reason.clone()?))).collect()
    };
    let mut said: Option<(String, Vec<(String, String)>)> = None;
    if let Some(source) = list.iter().find_map(|e| e.channels_from.as_ref()) {
        let _ = writeln!(out, "\nchannels from the imported graph{}, not from the modelled search", named(source));
    }
    for e in list {
        let reasons = refused(e);
        if said.as_ref().is_none_or(|(op, list)| *op != e.op || *list != reasons) {
            not_offered(e, &reasons, out);
            said = Some((e.op.clone(), reasons));
        }
        let offered: Vec<String> = e
            .candidates
            .iter()
            .filter_map(|c| {
                let mark = if c.chosen { "*" } else { "" };
                Some(format!("{}/{}{mark} {}", c.algorithm, c.protocol, time_text(c.predicted_us?)))
            })
            .collect();
        let runs = format!("{}/{}", e.algorithm, e.protocol);
        if e.candidates.iter().any(|c| c.simulated_us.is_some()) {
            simulated(e, out);
            continue;
        }
        let list =
            if offered.is_empty() { "made of sends and receives, no choice".to_owned() } else { offered.join(", ") };
        let _ = writeln!(out, "{:>10}  {runs:<16} of {list}", Bytes::new(e.bytes).to_string());
    }
}

/// One size with the simulated times of all that NCCL weighs.
fn simulated(e: &ExplainResult, out: &mut String) {
    let chunks = match (e.chunk_bytes, e.slices) {
        (Some(chunk), Some(1)) => format!(", chunks of {}", Bytes::new(chunk)),
        (Some(chunk), Some(slices)) => format!(", chunks of {} in {slices} slices", Bytes::new(chunk)),
        _ => String::new(),
    };
    let _ = writeln!(
        out,
        "\n{} of {}: * is what runs, on {} of {} channels with {} threads each{chunks}",
        e.op,
        Bytes::new(e.bytes),
        e.channels,
        e.most_channels,
        e.threads
    );
    let columns = ["algo/proto", "NCCL's model", "simulated", "channels"];
    let mut table =
        TextTable::new(columns.map(|name| (name, if name == "algo/proto" { Align::Left } else { Align::Right })));
    for c in e.candidates.iter().filter(|c| c.predicted_us.is_some() || c.simulated_us.is_some()) {
        let time = |us: Option<f64>, none: &str| us.map_or(none.to_owned(), time_text);
        table.row([
            format!("{}/{}{}", c.algorithm, c.protocol, if c.chosen { " *" } else { "" }),
            time(c.predicted_us, "-"),
            time(c.simulated_us, "not modelled"),
            c.channels.map_or(String::new(), |n| n.to_string()),
        ]);
    }
    let _ = write!(out, "{}", table.render());
}

/// ` (FILE)`, if the file is known.
fn named(source: &str) -> String {
    if source.is_empty() { String::new() } else { format!(" ({source})") }
}

fn not_offered(e: &ExplainResult, reasons: &[(String, String)], out: &mut String) {
    let _ = writeln!(out, "\nhow NCCL chooses for {}: the least time by its own model (not the simulated one)", e.op);
    if reasons.is_empty() {
        return;
    }
    let mut table = TextTable::new([("not offered", Align::Left), ("because", Align::Left)]);
    // One line a reason, with all the combinations that it rules out.
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, reason) in reasons {
        match by_reason.iter_mut().find(|(r, _)| r == reason) {
            Some((_, names)) => names.push(name),
            None => by_reason.push((reason, vec![name])),
        }
    }
    for (reason, names) in by_reason {
        table.row([names.join(", "), reason.to_owned()]);
    }
    let _ = write!(out, "{}", table.render());
}
