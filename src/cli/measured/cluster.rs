//! The cluster of a log: what flags say, else what the log says.

use sim_collectives::nccl::{Effect, Knobs, Version};
use sim_report::compare::{Library, LibrarySource};
use sim_report::nccl_log::{NcclLog, Table};
use sim_report::result::Warning;
use sim_topology::Catalogue;

use super::super::context::{Context, warnings};
use super::super::fault::{Exit, Failure};
use super::{Request, Taken, guess};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, counted, shorten};
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
    taken: &mut Taken,
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
            taken.log.push(format!("system {system}, by its GPUs, {}", table.gpu().unwrap_or_default()));
            settings.push(Setting::text(ORIGIN, "system", system));
        }
        shape(name, table, request, &settings, &given, &catalogue, &mut taken.log)?
            .into_iter()
            .for_each(|s| settings.push(s));
    }
    software(log, table, &given, &mut taken.log).into_iter().for_each(|s| settings.push(s));
    settings.extend(request.settings.iter().cloned());
    settings.extend(context.settings.iter().cloned());
    let loaded = Scenario::load(&request.input, &settings).map_err(Failure::usage)?;
    if library(log, table, &loaded).source == LibrarySource::Assumed {
        taken.assumed.push(format!("NCCL {}", loaded.scenario.software.nccl));
    }
    if let Some(transport) = assumed_transport(log, &loaded, &request.input, &given) {
        taken.assumed.push(transport);
    }
    let hosts = loaded.fabric.nodes().len() as u32;
    let each = loaded.fabric.nodes_per_domain().min(hosts);
    if request.input == Input::Flags && each > 1 && !given("nodes_per_domain") {
        // A log does not say so: NCCL may have been told otherwise, or the trays may be of different racks.
        let which = if each == hosts { format!("all {hosts}") } else { format!("each {each} of {hosts}") };
        taken.assumed.push(format!("{which} nodes share an NVLink domain (else --nodes-per-domain 1)"));
    }
    context.say(&loaded.diagnostics);
    if let Some(rows) = loaded.own_rows() {
        context.note(&format!("catalogue: {rows}"));
    }
    Ok(loaded)
}

/// The transport, in words, where ranks of several domains use one and neither flags, a scenario nor the log say which.
fn assumed_transport(log: &NcclLog, loaded: &Loaded, input: &Input, given: &dyn Fn(&str) -> bool) -> Option<String> {
    let nodes = loaded.fabric.nodes().len() as u32;
    let told = given("transport.kind") || *input != Input::Flags;
    if told || nodes <= loaded.fabric.nodes_per_domain() {
        return None;
    }
    let kind = loaded.scenario.cluster.transport.as_str();
    match log.network.as_deref() {
        // What decides it has been said.
        Some(network) if guess::transport(network).is_some() => None,
        // `IB` is what NCCL calls both.
        Some(network) => Some(format!("transport {kind} (NCCL's {} is infiniband or roce)", shorten(network))),
        None => Some(format!("transport {kind}, which the log does not tell")),
    }
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
        out.push(Setting::value(ORIGIN, "nodes_per_domain", nodes / racks));
    }
    if given("gpus_per_node") {
        return Ok(out);
    }
    // As many GPUs of each node as the fullest host has ranks.
    let full = hosts(table, nodes).and_then(|hosts| hosts.into_iter().max()).filter(|full| *full <= most);
    let even = Some(ranks / nodes).filter(|each| ranks.is_multiple_of(nodes) && *each <= most);
    let Some(each) = full.or(even) else {
        let (nodes, most) = (counted(nodes, "node"), counted(most, "GPU"));
        let message = format!("`{name}` has {ranks} ranks, which {nodes} of {most} do not give");
        let fault = Diagnostic::new(Code::NotDivisible, message);
        return Err(Failure::of(Exit::Usage, fault.help("give the shape: --system, --nodes and --gpus-per-node")));
    };
    if each < most {
        taken.push(format!("{} a node", counted(each, "GPU")));
        out.push(Setting::value(ORIGIN, "gpus_per_node", each));
    }
    Ok(out)
}

/// Ranks of each host, if the log lists all ranks and so many hosts.
fn hosts(table: &Table, nodes: u32) -> Option<Vec<u32>> {
    let hosts = table.host_of_ranks()?;
    let mut counts = vec![0; nodes as usize];
    for host in hosts {
        *counts.get_mut(host as usize)? += 1;
    }
    (table.hosts().len() == nodes as usize).then_some(counts)
}

/// The GPU of each rank, where the log lists all ranks with their hosts and the cluster has room for them: the ranks of the
/// first host on the first node, in their order, and so on. In words, too, if that is not node by node with equally many.
pub(super) fn placed(table: &Table, loaded: &Loaded) -> Option<(Vec<u32>, Option<String>)> {
    let host_of = table.host_of_ranks()?;
    let fabric = &loaded.fabric;
    let mut free: Vec<Vec<u32>> = vec![Vec::new(); fabric.nodes().len()];
    for (number, gpu) in fabric.gpus().iter().enumerate().rev() {
        free.get_mut(fabric.device(*gpu).node? as usize)?.push(number as u32);
    }
    let group: Vec<u32> = host_of.iter().map(|host| free.get_mut(*host as usize)?.pop()).collect::<Option<_>>()?;
    let counts = hosts(table, table.hosts().len() as u32)?;
    let uneven = counts.iter().any(|count| *count != counts[0]);
    let in_turn = host_of.windows(2).any(|pair| pair[0] > pair[1]);
    let how = match (uneven, in_turn) {
        (true, _) => Some(format!("ranks of each node {}", several(&counts))),
        (false, true) => Some("ranks dealt to the nodes in turn, as it lists them".to_owned()),
        (false, false) => None,
    };
    Some((group, how))
}

/// `3 and 5`; the first few of many.
fn several(counts: &[u32]) -> String {
    let text: Vec<String> = counts.iter().take(8).map(ToString::to_string).collect();
    match text.split_last() {
        Some((last, first)) if counts.len() <= 8 && !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => format!("{}, ...", text.join(", ")),
    }
}

/// NCCL's version as it is simulated, and how it is known.
pub(super) fn library(log: &NcclLog, table: &Table, loaded: &Loaded) -> Library {
    let software = &loaded.scenario.software;
    let told = told_version(log, table).is_some_and(|version| version == software.nccl);
    let source = match (told, software.nccl_stated) {
        (true, _) => LibrarySource::Log,
        (false, true) => LibrarySource::Given,
        (false, false) => LibrarySource::Assumed,
    };
    Library { version: software.nccl.to_string(), source }
}

fn told_version(log: &NcclLog, table: &Table) -> Option<Version> {
    table.nccl_version.as_ref().or(log.nccl_version.as_ref()).and_then(|version| nearest(version))
}

/// Warns if the log names other GPUs than the cluster has, once for each pair of them.
pub(super) fn other_gpus(name: &str, table: &Table, loaded: &Loaded, context: &Context, notes: &mut Vec<Warning>) {
    let own = &loaded.fabric.node_spec().gpu;
    let Some(seen) = table.gpu().filter(|seen| guess::differs(seen, own, &loaded.catalogue)) else { return };
    let system = loaded.scenario.system.as_deref().unwrap_or("the cluster's node");
    let what = format!("was measured on `{}`, and {system} has {own}", shorten(seen));
    if notes.iter().any(|note| note.message.ends_with(&what)) {
        return;
    }
    let hint = guess::system(seen)
        .map_or_else(|| "give the system that it ran on".to_owned(), |usual| format!("--system {usual} has such GPUs"));
    let fault = Diagnostic::new(Code::OtherGpu, format!("`{}` {what}", shorten(name))).help(hint);
    let found = Diagnostics::of(fault);
    context.say(&found);
    notes.extend(warnings(&found));
}

/// The library as the log tells of it.
fn software(log: &NcclLog, table: &Table, given: &dyn Fn(&str) -> bool, taken: &mut Vec<String>) -> Vec<Setting> {
    let mut out = Vec::new();
    if let Some(version) = told_version(log, table).filter(|_| !given("software.nccl")) {
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
