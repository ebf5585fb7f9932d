//! The cluster of a log: what flags say, else what the log says.

use sim_collectives::nccl::{Effect, Knobs, Version};
use sim_report::nccl_log::{NcclLog, Table};
use sim_topology::Catalogue;

use super::super::context::Context;
use super::super::fault::{Exit, Failure};
use super::{Request, guess};
use crate::diagnostic::{Code, Diagnostic, counted, shorten};
use crate::scenario::{Input, Loaded, Scenario, Setting, acts};

/// What settings from a log are said to come from.
const ORIGIN: &str = "the log";

/// Loads the cluster that a table was measured on; what was not told but taken from the log goes to `taken`.
pub(super) fn load(
    name: &str,
    log: &NcclLog,
    table: &Table,
    request: &Request,
    context: &Context,
    taken: &mut Vec<String>,
) -> Result<Loaded, Failure> {
    let given = |key: &str| {
        let is = |s: &Setting| match &s.key {
            Some(k) => k == key,
            None => s.text.split_once('=').is_some_and(|(k, _)| k.trim() == key),
        };
        request.settings.iter().chain(&context.settings).any(is)
    };
    let mut settings = Vec::new();
    if request.input == Input::Flags {
        let (catalogue, _) = Scenario::catalogue(&context.settings).map_err(Failure::usage)?;
        if !given("system") && !given("node") {
            let system = table.gpu().and_then(guess::system).ok_or_else(|| no_system(name, table))?;
            taken.push(format!("system {system}, by its GPUs, {}", table.gpu().unwrap_or_default()));
            settings.push(Setting::text(ORIGIN, "system", system));
        }
        shape(name, table, request, &settings, &given, &catalogue, taken)?.into_iter().for_each(|s| settings.push(s));
    }
    software(log, table, &given, taken).into_iter().for_each(|s| settings.push(s));
    settings.extend(request.settings.iter().cloned());
    settings.extend(context.settings.iter().cloned());
    let loaded = Scenario::load(&request.input, &settings).map_err(Failure::usage)?;
    context.say(&loaded.diagnostics);
    if let Some(rows) = loaded.own_rows() {
        context.note(&format!("catalogue: {rows}"));
    }
    Ok(loaded)
}

fn no_system(name: &str, table: &Table) -> Failure {
    let seen = match table.gpu() {
        Some(gpu) => format!("no system of the catalogue is known by its GPUs, `{}`", shorten(gpu)),
        None => "it does not name its GPUs".to_owned(),
    };
    let fault = Diagnostic::new(Code::BadArgument, format!("which system was `{name}` measured on? {seen}"));
    Failure::of(Exit::Usage, fault.help("give it: --system hgx-h100 --nodes 2; `fabricsim catalog` lists all"))
}

/// Nodes, and GPUs of each, where flags leave them open.
fn shape(
    name: &str,
    table: &Table,
    request: &Request,
    own: &[Setting],
    given: &dyn Fn(&str) -> bool,
    catalogue: &Catalogue,
    taken: &mut Vec<String>,
) -> Result<Vec<Setting>, Failure> {
    let text = |key: &str| {
        let all = own.iter().chain(&request.settings);
        all.filter(|s| s.key.as_deref() == Some(key)).map(|s| s.text.as_str()).next_back()
    };
    let mut out = Vec::new();
    let Some(ranks) = table.ranks else { return Ok(out) };
    // Of an unknown system, loading says more than could be said here.
    let Some(system) = text("system").and_then(|s| Some(catalogue.system(s).ok()?.data.clone())) else {
        return Ok(out);
    };
    let most = system.node.gpus;
    let most = text("gpus_per_node").and_then(|t| t.parse().ok()).unwrap_or(most).max(1);
    let nodes = match text("nodes").and_then(|t| t.parse::<u32>().ok()) {
        Some(nodes) => nodes.max(1),
        None if given("nodes") => return Ok(out),
        None => {
            let nodes = table.nodes().unwrap_or_else(|| ranks.div_ceil(most)).max(1);
            taken.push(counted(nodes, "node"));
            out.push(Setting::value(ORIGIN, "nodes", nodes));
            nodes
        }
    };
    // Trays of several racks: as many in each, where their number allows it.
    let racks = nodes.div_ceil(system.node.max_nodes_per_domain.max(1));
    if system.node.max_nodes_per_domain > 1 && racks > 1 && nodes.is_multiple_of(racks) && !given("nodes_per_domain") {
        taken.push(format!("{racks} NVLink domains of {} nodes", nodes / racks));
        out.push(Setting::value(ORIGIN, "nodes_per_domain", nodes / racks));
    }
    if given("gpus_per_node") {
        return Ok(out);
    }
    if !ranks.is_multiple_of(nodes) || ranks / nodes > most {
        let (nodes, most) = (counted(nodes, "node"), counted(most, "GPU"));
        let message = format!("`{name}` has {ranks} ranks, which {nodes} of {most} do not give");
        let fault = Diagnostic::new(Code::NotDivisible, message);
        return Err(Failure::of(Exit::Usage, fault.help("give the shape: --system, --nodes and --gpus-per-node")));
    }
    let each = ranks / nodes;
    if each < most {
        taken.push(format!("{} a node", counted(each, "GPU")));
        out.push(Setting::value(ORIGIN, "gpus_per_node", each));
    }
    Ok(out)
}

/// The library as the log tells of it.
fn software(log: &NcclLog, table: &Table, given: &dyn Fn(&str) -> bool, taken: &mut Vec<String>) -> Vec<Setting> {
    let mut out = Vec::new();
    let version = table.nccl_version.as_ref().or(log.nccl_version.as_ref());
    if let Some(version) = version.and_then(|v| nearest(v)).filter(|_| !given("software.nccl")) {
        taken.push(format!("NCCL {version}"));
        out.push(Setting::text(ORIGIN, "software.nccl", version.to_string()));
    }
    if let Some(gpus) = table.parameters.gpus.filter(|n| *n > 1)
        && !given("software.gpus_per_thread")
    {
        taken.push(format!("{gpus} GPUs for each host thread"));
        out.push(Setting::value(ORIGIN, "software.gpus_per_thread", gpus));
    }
    if table.parameters.graph.is_some_and(|n| n > 0) && !given("software.graph") {
        taken.push("launches by CUDA graphs".to_owned());
        out.push(Setting::value(ORIGIN, "software.graph", true));
    }
    let transport = log.network.as_deref().and_then(guess::transport);
    if let Some(transport) = transport.filter(|_| !given("transport.kind")) {
        taken.push(format!("transport {transport}"));
        out.push(Setting::text(ORIGIN, "transport.kind", transport));
    }
    for (variable, value) in &log.env {
        let key = format!("software.env.{variable}");
        let plain = variable.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        // Most variables of a log concern what is not modelled; they need no warning here.
        if plain
            && !given(&key)
            && matches!(Knobs::default().set(variable, value), Ok(Effect::Read { knob, .. }) if acts(knob))
        {
            taken.push(format!("{variable}={}", shorten(value)));
            out.push(Setting::text(ORIGIN, key, value));
        }
    }
    out
}

/// The modelled version nearest to that of a log.
fn nearest(text: &str) -> Option<Version> {
    let mut parts = text.trim_start_matches(['v', 'V']).split(|c: char| !c.is_ascii_digit());
    let (major, minor) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    (major == 2).then(|| Version::nearest(major, minor))
}
