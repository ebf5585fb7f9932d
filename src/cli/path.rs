//! `path`: the exact hops between two devices.

use core::fmt::Write as _;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use sim_core::units::Span;
use sim_topology::topo::{Hop, PathReport, path};
use sim_topology::{DeviceId, Fabric, HostUse, RouteRequest, Via};

use super::args::{self, Format, Output, System};
use super::context::Context;
use super::fault::{Exit, Failure};
use super::output;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, shorten};

/// The exact hops between two devices, each with its latency and rate, and the bottleneck
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES, override_usage = "fabricsim path [OPTIONS] <SCENARIO> <A> <B>\n       fabricsim path [OPTIONS] --system <NAME> <A> <B>")]
pub(super) struct Args {
    /// The scenario (not with --system alone), and two devices: a rank number, node0.gpu3, node1.nic0, leaf4 ...
    #[arg(value_name = "SCENARIO A B", num_args = 1.., required = true)]
    words: Vec<String>,
    /// Stay off NVLink
    #[arg(long)]
    no_nvlink: bool,
    /// By way of host memory (always), or not whatever the distance (never)
    #[arg(long, value_name = "auto|always|never", default_value = "auto", value_parser = ["auto", "always", "never"])]
    host: String,
    /// Pick another of several equal paths: the input of the hash
    #[arg(long, value_name = "N", default_value_t = 0)]
    entropy: u64,
    #[command(flatten)]
    system: System,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  fabricsim path cluster.toml node0.gpu0 node1.gpu0
  fabricsim path --system hgx-h100 --nodes 4 node0.gpu0 node3.gpu5
  fabricsim path --system hgx-h100 0 1 --no-nvlink";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let (scenario, from, to) = match args.words.as_slice() {
        [scenario, from, to] => (Some(PathBuf::from(scenario)), from, to),
        [from, to] if args.system.names_one() => (None, from, to),
        _ => {
            let fault = Diagnostic::new(Code::BadArgument, "`path` takes a scenario and two devices")
                .help("fabricsim path cluster.toml node0.gpu0 node1.gpu0")
                .help("or, without a scenario: fabricsim path --system hgx-h100 --nodes 2 node0.gpu0 node1.gpu0");
            return Err(Failure::of(Exit::Usage, fault));
        }
    };
    let input = args::input(scenario.as_ref())?;
    let loaded = context.load(&input, args.system.settings()?)?;
    let fabric = &loaded.fabric;
    let (from, to) = (device(from, fabric)?, device(to, fabric)?);
    let via = if args.no_nvlink { Via::NoNvlink } else { Via::Auto };
    let host = match args.host.as_str() {
        "always" => HostUse::Always,
        "never" => HostUse::Never,
        _ => HostUse::Auto,
    };
    let request = RouteRequest::auto(from, to).via(via).host(host).entropy(args.entropy);
    let route = fabric.route(&request).map_err(|error| {
        let fault = Diagnostic::new(Code::NoPath, format!("no path: {error}"));
        // Rails that no switch joins meet over NVLink only.
        let relay = fabric.pxn_relay(from, to).map(|pxn| {
            let [relay, nic] = [pxn.relay, pxn.src].map(|id| fabric.device(id).name.clone());
            format!("no switch joins the two rails: PXN goes over NVLink to {relay} and out of its {nic}")
        });
        Failure::of(Exit::Usage, fault.maybe_help(relay))
    })?;
    let report = path(fabric, &route, loaded.packets.is_some());
    match args.output.format {
        Format::Json => {
            let name = args::shown(scenario.as_ref(), &loaded.scenario);
            output::print_loaded(&name, &loaded, report)
        }
        Format::Text => {
            let own = loaded.own_rows().map_or_else(String::new, |rows| format!("catalogue: {rows}\n"));
            output::print(&(text(&report) + &own))
        }
    }
}

/// The device that a word means: a rank number or a name.
fn device(word: &str, fabric: &Fabric) -> Result<DeviceId, Failure> {
    let fault = |message: String, help: Option<String>| {
        let mut faults = Diagnostics::new();
        let source = faults.sources.add("device", word);
        let place = Place { source, span: 0..word.len() };
        let list = "devices are named like node0.gpu3, node0.nic1, node0.socket0, leaf4, spine2; a number is a rank";
        faults.push(Diagnostic::new(Code::UnknownDevice, message).at(place, "").maybe_help(help).help(list));
        Failure::usage(faults)
    };
    if let Ok(rank) = word.parse::<usize>() {
        let last = fabric.gpus().len().saturating_sub(1);
        let range = || fault(format!("there is no rank {rank}"), Some(format!("ranks go from 0 to {last}")));
        return fabric.gpus().get(rank).copied().ok_or_else(range);
    }
    fabric.find(word).map_err(|error| {
        let alike = error.suggestion.map(|s| format!("did you mean `{s}`?"));
        fault(format!("there is no device `{}`", shorten(word)), alike)
    })
}

fn text(report: &PathReport) -> String {
    let mut out = String::new();
    let latency = |ns: f64| Span::from_ps((ns * 1e3).round() as u64).to_string();
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        out,
        "{}, {} hops, {}, {:.1} GB/s one way ({:.1} after headers)",
        report.kind,
        report.hops.len(),
        latency(report.latency_ns),
        report.bandwidth_gbyte,
        report.effective_gbyte
    );
    let _ = match &report.bottleneck {
        Some(link) => writeln!(out, ". Bottleneck: {link}"),
        None => writeln!(out),
    };
    if report.equal_paths > 1 {
        let _ = writeln!(out, "one of {} equal paths; --entropy picks another", report.equal_paths);
    }
    let width = |pick: fn(&Hop) -> &str, head: &str| {
        report.hops.iter().map(|h| pick(h).chars().count()).chain([head.len()]).max().unwrap_or(0) + 2
    };
    let (from, to, class) = (width(|h| &h.from, "from"), width(|h| &h.to, "to"), width(|h| h.class, "class"));
    let head = ["latency", "GB/s", "net GB/s"];
    let _ =
        writeln!(out, "{:<from$}{:<to$}{:<class$}{:>12}{:>10}{:>10}", "from", "to", "class", head[0], head[1], head[2]);
    for hop in &report.hops {
        let mark = if hop.effective_gbyte <= report.effective_gbyte { "  <" } else { "" };
        let fault = hop.fault.as_ref().map_or_else(String::new, |fault| format!("  fault: {fault}"));
        let _ = writeln!(
            out,
            "{:<from$}{:<to$}{:<class$}{:>12}{:>10.1}{:>10.1}{mark}{fault}",
            hop.from,
            hop.to,
            hop.class,
            latency(hop.latency_ns),
            hop.bandwidth_gbyte,
            hop.effective_gbyte
        );
    }
    for note in &report.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}
