//! What a row has of the results: paths into them, or what suits the workloads.

use serde_json::Value as Json;
use sim_report::result::RunResults;

use super::axis::TAKEN;
use super::cell;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, counted, shorten, suggest};
use crate::scenario::tree::Node;
use crate::scenario::view::View;
use crate::scenario::{Loaded, Workload};

/// The most columns that are chosen without being asked for.
const MOST_USUAL: usize = 96;

/// A column of the results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    parts: Vec<String>,
    /// Whether a point may be without it: its path ends in `?`.
    optional: bool,
}

impl Column {
    fn new(name: &str, path: &str) -> Self {
        let (path, optional) = path.trim().strip_suffix('?').map_or((path.trim(), false), |path| (path, true));
        let path = path.strip_prefix("results.").unwrap_or(path);
        Self {
            name: cell::one_line(name.trim().trim_end_matches('?')),
            parts: path.split('.').map(|part| part.trim().to_owned()).collect(),
            optional,
        }
    }

    pub(super) fn path(&self) -> String {
        self.parts.join(".")
    }

    /// The value in `results`; what is wrong with the path if it isn't there and must be.
    pub(super) fn find<'a>(&self, results: &'a Json) -> Result<Option<&'a Json>, String> {
        let mut value = results;
        for (depth, part) in self.parts.iter().enumerate() {
            let next = match value {
                Json::Array(list) => part.parse::<usize>().ok().and_then(|at| list.get(at)),
                _ => value.get(part),
            };
            value = match next {
                Some(next) => next,
                None if self.optional => return Ok(None),
                None => {
                    let of = match depth {
                        0 => "the results".to_owned(),
                        depth => format!("`{}`", self.parts[..depth].join(".")),
                    };
                    let known = match value {
                        Json::Object(map) => one_of(part, map.keys().map(String::as_str)),
                        Json::Array(list) => format!("it has {}, numbered from 0", counted(list.len(), "member")),
                        _ => "it is a single value".to_owned(),
                    };
                    return Err(format!("`{}` is not in {of}: {known}", shorten(part)));
                }
            };
        }
        Ok(Some(value))
    }
}

/// A did-you-mean and the names that there are.
pub(super) fn one_of<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    suggest(name, names.iter().copied())
}

/// The columns of `columns = …`, if it is given.
pub(super) fn given(view: &View<'_>, out: &mut Diagnostics) -> Option<Vec<Column>> {
    let node = view.node("columns")?;
    let refuse = |node: &Node, label: &str| {
        let fault = Diagnostic::new(Code::WrongType, "`columns` takes paths into the results");
        let fault = fault.at(node.place.clone(), label.to_owned());
        fault.help("columns = [\"collectives.0.time_us\"], or columns = { time_us = \"collectives.0.time_us\" }")
    };
    let mut list: Vec<(String, &Node)> = Vec::new();
    if let Some(table) = node.as_table() {
        list.extend(table.entries.iter().map(|entry| (entry.key.clone(), &entry.node)));
    } else if let Some(items) = node.as_array() {
        list.extend(items.iter().map(|item| (item.as_text().unwrap_or_default().to_owned(), item)));
    } else {
        out.push(refuse(node, node.describe()));
        return None;
    }
    let mut columns = Vec::new();
    for (name, node) in list {
        let Some(path) = node.as_text().filter(|path| !path.trim().is_empty()) else {
            out.push(refuse(node, node.describe()));
            continue;
        };
        let column = Column::new(&name, path);
        if column.path() == "engine.wall_s" || column.path() == "engine" {
            let fault = Diagnostic::new(Code::BadArgument, "wall-clock time is no column");
            let fault = fault.at(node.place.clone(), "it differs from call to call, and no other result does");
            out.push(fault.help("`engine.events` counts the work"));
            continue;
        }
        columns.push(column);
    }
    if columns.is_empty() && !out.has_errors() {
        out.push(refuse(node, "none is given"));
    }
    Some(columns)
}

/// Reports names that are there twice.
pub(super) fn apart(header: &[String], columns: Option<&Node>, out: &mut Diagnostics) {
    for (at, name) in header.iter().enumerate() {
        if header[..at].contains(name) {
            let message = format!("two columns are called `{}`", shorten(name));
            let fault = Diagnostic::new(Code::Exclusive, message);
            let help = if TAKEN.contains(&name.as_str()) {
                "that name is taken: give an axis another `name`, or a column another name"
            } else {
                "give an axis a `name`, or columns names of their own: columns = { time = \"…\" }"
            };
            let fault = match columns {
                Some(node) => fault.at(node.place.clone(), "beside the axes' own"),
                None => fault,
            };
            out.push(fault.help(help));
        }
    }
}

/// The columns that suit the workloads of a scenario.
pub(super) fn usual(loaded: &Loaded) -> Result<Vec<Column>, Box<Diagnostic>> {
    let workloads = &loaded.scenario.workloads;
    let sizes: usize = workloads.iter().map(|w| if let Workload::Collective(c) = w { c.sizes.len() } else { 0 }).sum();
    let mut columns = Vec::new();
    let mut add = |name: &str, path: &str| columns.push(Column::new(name, path));
    match sizes {
        0 => {}
        1 => {
            for name in ["algorithm", "protocol", "channels", "time_us", "algbw_GBps", "busbw_GBps", "bottleneck"] {
                add(name, &format!("collectives.0.{name}"));
            }
        }
        several => {
            for at in 0..several {
                for name in ["bytes", "time_us", "busbw_GBps"] {
                    add(&format!("collectives.{at}.{name}"), &format!("collectives.{at}.{name}?"));
                }
            }
        }
    }
    let (beside, own) = transfers(workloads);
    if own {
        add("bytes", "transfer_totals.bytes");
        add("longest_us", "transfer_totals.longest_us");
    }
    for at in 0..beside {
        let prefix = if beside == 1 { "beside".to_owned() } else { format!("beside_steps.{at}") };
        add(&format!("{prefix}.times"), &format!("beside_steps.{at}.times"));
        // What has not arrived by the end of the step took no time that is known.
        add(&format!("{prefix}.time_us"), &format!("beside_steps.{at}.time_us?"));
    }
    if workloads.iter().any(|w| matches!(w, Workload::Step(_))) {
        let parts = ["compute_us", "exposed_comm_us", "bubble_us", "optimizer_us", "straggler_wait_us"];
        for name in ["time_us", "tokens_per_s_per_gpu", "mfu"].into_iter().chain(parts) {
            add(name, &format!("step.{name}"));
        }
    }
    for (at, one) in workloads.iter().filter_map(Workload::inference).enumerate() {
        let name = |part: &str| if at == 0 { part.to_owned() } else { format!("{part}_{at}") };
        let mut of = |part: &str, path: &str| add(&name(part), &format!("inference.{at}.{path}"));
        if one.serves {
            of("ttft_p50_ms", "served.ttft.p50_ms");
            of("ttft_p99_ms", "served.ttft.p99_ms");
            of("tpot_p50_ms", "served.tpot.p50_ms");
            of("output_tokens_per_s_per_gpu", "served.output_tokens_per_s_per_gpu");
            if one.goal.is_some() {
                of("goodput_per_gpu", "goodput.rate_per_gpu");
            }
        } else {
            // A prefill first, then decode steps; in two pools these are of the second.
            let (pool, before) = if one.second.is_some() { (1, 0) } else { (0, 1) };
            of("prefill_us", "pools.0.steps.0.time_us");
            let shown = one.batches.iter().enumerate();
            for (index, sequences) in shown.filter(|(index, n)| !one.batches[..*index].contains(n)) {
                of(&format!("decode_{sequences}_us"), &format!("pools.{pool}.steps.{}.time_us?", before + index));
            }
        }
    }
    let runs = workloads.iter().filter(|w| matches!(w, Workload::Failures(_))).count();
    for at in 0..runs {
        for part in ["effective", "effective_played", "interval_s", "failures"] {
            let name = if at == 0 { part.to_owned() } else { format!("{part}_{at}") };
            add(&name, &format!("long_runs.{at}.{part}"));
        }
    }
    if loaded.packets.is_some() {
        for name in ["ecn_marked", "pfc_pause_us", "drops"] {
            add(name, &format!("link_totals.{name}"));
        }
    }
    if columns.len() > MOST_USUAL {
        let fault = Diagnostic::new(Code::TooLarge, format!("{sizes} sizes of collectives at a point"));
        let help = "make the size an axis: key = \"workload.0.sizes\", values = [\"1 MiB\", \"1 GiB\"]";
        return Err(Box::new(fault.help(help).help("or say what a row has: columns = [\"collectives.0.time_us\"]")));
    }
    Ok(columns)
}

/// How many workloads of transfers run beside steps, and whether there are others.
fn transfers(workloads: &[Workload]) -> (usize, bool) {
    let (mut beside, mut own, mut with_step) = (0, false, false);
    for workload in workloads {
        if !workload.with_previous() {
            with_step = matches!(workload, Workload::Step(_));
        }
        if matches!(workload, Workload::Transfer(_)) {
            beside += usize::from(with_step);
            own |= !with_step;
        }
    }
    (beside, own)
}

/// The results as far as columns look into them: lists of thousands of links are left out unless asked for.
pub(super) fn needed(columns: &[Column], mut results: RunResults) -> Json {
    let asked = |name: &str| columns.iter().any(|column| column.parts.first().is_some_and(|part| part == name));
    if !asked("links") {
        results.links = Vec::new();
    }
    if !asked("transfers") {
        results.transfers = Vec::new();
    }
    if !asked("series") {
        results.series = Vec::new();
    }
    if !asked("parameters") {
        results.parameters = Vec::new();
    }
    let mut json = serde_json::to_value(&results).unwrap_or_default();
    if let Some(engine) = json.get_mut("engine").and_then(Json::as_object_mut) {
        engine.remove("wall_s");
    }
    json
}
