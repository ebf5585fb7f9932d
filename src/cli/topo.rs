//! `topo`: what is connected to what, and how well.

mod drawing;

use core::fmt::Write as _;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use sim_topology::topo::{self, Pairs, TopoReport};
use sim_topology::{Fabric, FabricPlan};

use super::args::{self, Format, Output, System};
use super::context::Context;
use super::fault::Failure;
use super::output;
use crate::scenario::Input;

/// The device graph: path-class matrix, pairs by path kind, bisection, oversubscription, bill of materials
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The scenario; `-` is standard input
    #[arg(value_name = "SCENARIO")]
    scenario: Option<PathBuf>,
    /// The node whose matrix is shown
    #[arg(long, value_name = "N", default_value_t = 0)]
    node: u32,
    /// Draw that node and the network above it into this SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Overwrite the file of --plot
    #[arg(long, requires = "plot")]
    force: bool,
    #[command(flatten)]
    system: System,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
The matrix has the layout of `nvidia-smi topo -m`; `fabricsim explain path-class` has its legend.

Examples:
  fabricsim topo scenarios/rail-4x8.toml
  fabricsim topo --system hgx-h100 --nodes 4
  fabricsim topo --system hgx-h100 --nodes 4 --plot cluster.svg
  fabricsim topo scenarios/rail-4x8.toml --set software.pxn=false --format json";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let input = args::input(args.scenario.as_ref())?;
    if input == Input::Flags && !args.system.names_one() {
        return Err(args::no_cluster("topo"));
    }
    if let Some(path) = &args.plot {
        drawn(path)?;
    }
    let loaded = context.load(&input, args.system.settings()?)?;
    if let Some(path) = &args.plot {
        output::apart(&[("--plot", path.clone())], &args::files(&loaded))?;
    }
    let fabric = &loaded.fabric;
    if args.node as usize >= fabric.nodes().len() {
        return Err(no_node(args.node, fabric));
    }
    if let Some(path) = &args.plot {
        let drawing = drawing::svg(fabric, args.node, &loaded.scenario.describe());
        output::write(path, drawing.as_bytes(), args.force)?;
        context.note(&format!("saved {}", path.display()));
    }
    let report = topo::report(fabric, &loaded.catalogue, loaded.scenario.software.pxn).map_err(Failure::internal)?;
    match args.output.format {
        Format::Json => {
            let name = args::shown(args.scenario.as_ref(), &loaded.scenario);
            output::print_loaded(&name, &loaded, report)
        }
        Format::Text => {
            let matrix = topo::matrix(fabric, args.node).ok_or_else(|| no_node(args.node, fabric))?;
            let head = loaded.head();
            let notes: String = fabric.node_notes().iter().map(|note| format!("note       {note}\n")).collect();
            let notes = notes + &ratios(fabric);
            output::print(&format!("{head}\n\nnode{}\n{matrix}\n{}{notes}", args.node, text(&report)))
        }
    }
}

/// Ratios that whole links can't give as they were asked for.
fn ratios(fabric: &Fabric) -> String {
    let (spec, plan) = (fabric.spec(), fabric.plan());
    let tiers = [
        ("a leaf", spec.oversubscription, plan.oversubscription),
        ("a spine", spec.core_oversubscription, plan.core_oversubscription),
    ];
    let differs = |asked: f64, got: f64| got > 0.0 && (got / asked - 1.0).abs() > 0.02;
    let line = |(tier, asked, got): (&str, Option<f64>, f64)| {
        let asked = asked.filter(|&asked| differs(asked, got))?;
        Some(format!(
            "note       oversubscription of {tier} is {got:.2}:1, not the {asked}:1 asked for: links are whole\n"
        ))
    };
    tiers.into_iter().filter_map(line).collect()
}

/// Refuses a file whose name promises another form of picture.
fn drawn(path: &std::path::Path) -> Result<(), Failure> {
    use super::fault::Exit;
    use crate::diagnostic::{Code, Diagnostic};
    match path.extension() {
        Some(other) if !other.eq_ignore_ascii_case("svg") => {
            let (shown, svg) = (path.display(), path.with_extension("svg"));
            let fault = Diagnostic::new(Code::BadArgument, format!("`--plot {shown}`: drawings are SVG only"));
            Err(Failure::of(Exit::Usage, fault.help(format!("--plot {}", svg.display()))))
        }
        _ => Ok(()),
    }
}

fn no_node(node: u32, fabric: &Fabric) -> Failure {
    use super::fault::Exit;
    use crate::diagnostic::{Code, Diagnostic};
    let last = fabric.nodes().len().saturating_sub(1);
    let fault = Diagnostic::new(Code::UnknownDevice, format!("there is no node {node}"));
    Failure::of(Exit::Usage, fault.help(format!("nodes go from 0 to {last}")))
}

fn text(report: &TopoReport) -> String {
    let mut out = String::new();
    pairs(&report.pairs, &mut out);
    // Writing to a String cannot fail, here and below.
    let dead = |n: Option<&u64>| n.map(|n| format!(" ({n} dead)")).unwrap_or_default();
    let one = |(kind, n)| format!("{n} {kind}{}", dead(report.dead_devices.get(kind)));
    let counts: Vec<String> = report.devices.iter().map(one).collect();
    let _ = writeln!(out, "\ndevices    {}", counts.join(", "));
    for (i, (class, links)) in report.links.iter().enumerate() {
        let head = if i == 0 { "links" } else { "" };
        let rate = if links.min_gbyte < links.max_gbyte {
            format!("{:.1} to {:.1}", links.min_gbyte, links.max_gbyte)
        } else {
            format!("{:.1}", links.max_gbyte)
        };
        let _ = writeln!(
            out,
            "{head:<11}{:<12}{:>8}   {rate} GB/s one way{}",
            class.to_string(),
            links.count,
            dead(report.dead_links.get(class))
        );
    }
    let mut hops: Vec<String> = report.hops.iter().map(|(hops, n)| format!("{n} pairs {hops}")).collect();
    if report.unreachable > 0 {
        hops.push(format!("{} pairs without a path of their own", report.unreachable));
    }
    let _ = writeln!(out, "links between GPUs    {}", hops.join(", "));
    let _ = write!(out, "bisection  {:.1} GB/s one way", report.bisection_gbyte);
    let tiers = [
        ("NICs", report.bisection.nic_gbyte),
        ("uplinks", report.bisection.uplink_gbyte),
        ("core links", report.bisection.core_gbyte),
    ];
    let tiers: Vec<String> = tiers.iter().filter_map(|(name, rate)| Some(format!("{name} {:.1}", (*rate)?))).collect();
    let _ = if tiers.is_empty() { writeln!(out) } else { writeln!(out, " ({})", tiers.join(", ")) };
    if let Some(network) = &report.network {
        tiers_of(network, &mut out);
    }
    faults(report, &mut out);
    bill(report, &mut out);
    out
}

/// The tiers of the network, from the leaves up.
fn tiers_of(network: &FabricPlan, out: &mut String) {
    let several = |n: u32, what: &str| if n > 1 { format!(", {n} {what}") } else { String::new() };
    let (planes, pods) = (several(network.planes, "planes"), several(network.pods, "pods"));
    let _ = writeln!(out, "network    {}{planes}{pods}", network.kind);
    for tier in &network.tier {
        let ratio = tier.oversubscription.map(|r| format!(", oversubscription {r:.2}:1")).unwrap_or_default();
        let lost =
            if tier.working < tier.switches { format!(", {} of them work", tier.working) } else { String::new() };
        let up = if tier.up > 0 { format!(" and {} up", tier.up) } else { String::new() };
        let _ = writeln!(
            out,
            "           {:>6} {:<6} {} down{up} of {} ports ({}){ratio}{lost}",
            tier.switches, tier.role, tier.down, tier.radix, tier.switch
        );
    }
}

/// What is broken, and what that changes against the healthy fabric.
fn faults(report: &TopoReport, out: &mut String) {
    let Some(effects) = &report.fault_effects else { return };
    let _ = writeln!(out, "\nfaults");
    for fault in &report.faults {
        let _ = writeln!(out, "  {} {}: {}", fault.kind, fault.target, fault.what);
    }
    let kinds = |p: &Pairs| {
        let all = [
            ("nvlink", p.nvlink),
            ("pcie", p.pcie),
            ("same_rail", p.same_rail),
            ("pxn", p.pxn),
            ("cross_rail", p.cross_rail),
        ];
        all.iter().filter(|(_, n)| *n > 0).map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>().join(", ")
    };
    if effects.pairs_before != effects.pairs_after {
        let (before, after) = (kinds(&effects.pairs_before), kinds(&effects.pairs_after));
        let _ = writeln!(out, "  pairs      {before}\n          -> {after}");
    }
    let counts = [
        ("GPUs dead", effects.dead_gpus),
        ("pairs over another kind of path", effects.other_kind),
        ("pairs over another class of path", effects.other_class),
        ("pairs over more links", effects.longer),
        ("pairs over a slower link", effects.slower),
        ("pairs of one rail that cross a spine more", effects.rails_broken),
        ("GPUs with other NICs", effects.nics_changed),
    ];
    for (what, n) in counts.iter().filter(|(_, n)| *n > 0) {
        let _ = writeln!(out, "  {n:<10} {what}");
    }
    for line in &effects.nics {
        let _ = writeln!(out, "             {line}");
    }
    if let Some(over) = effects.oversubscription.filter(|o| o.before < o.after || o.after < o.before) {
        let _ = writeln!(out, "  oversubscription {:.2}:1 -> {:.2}:1 at the worst leaf", over.before, over.after);
    }
    if let Some(cut) = effects.bisection.filter(|c| c.before < c.after || c.after < c.before) {
        let _ = writeln!(out, "  network bisection {:.1} -> {:.1} GB/s one way", cut.before, cut.after);
    }
}

/// Each kind with its share of all pairs, and of those between nodes.
fn pairs(pairs: &Pairs, out: &mut String) {
    let kinds = [
        ("nvlink", pairs.nvlink, false),
        ("pcie", pairs.pcie, false),
        ("same_rail", pairs.same_rail, true),
        ("pxn", pairs.pxn, true),
        ("cross_rail", pairs.cross_rail, true),
    ];
    let total = pairs.total();
    let between: u64 = kinds.iter().filter(|(.., network)| *network).map(|(_, n, _)| n).sum();
    let share = |n: u64, of: u64| if of == 0 { 0.0 } else { 100.0 * n as f64 / of as f64 };
    let _ = writeln!(out, "{:<12}{:>10}{:>9}{:>18}", "GPU pairs", "ordered", "of all", "of those between");
    for (name, n, network) in kinds {
        let second = if network { format!("{:.1} %", share(n, between)) } else { String::new() };
        let _ = writeln!(out, "{name:<12}{n:>10}{:>9}{second:>18}", format!("{:.1} %", share(n, total)));
    }
    let _ = writeln!(out, "{:<12}{total:>10}", "all");
}

fn bill(report: &TopoReport, out: &mut String) {
    if report.bill_of_materials.is_empty() {
        return;
    }
    let width = report.bill_of_materials.iter().map(|b| b.item.chars().count()).max().unwrap_or(0).max(4) + 2;
    let role = report.bill_of_materials.iter().map(|b| b.role.chars().count()).max().unwrap_or(0).max(4) + 2;
    let head = ["W each", "W all", "USD each", "USD all"];
    let _ = write!(out, "\n{:<width$}{:<role$}{:>8}", "part", "role", "count");
    let line = |cells: [String; 4]| format!("{:>10}{:>12}{:>12}{:>14}", cells[0], cells[1], cells[2], cells[3]);
    let _ = writeln!(out, "{}", line(head.map(str::to_owned)));
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.0}"));
    for item in &report.bill_of_materials {
        let _ = write!(out, "{:<width$}{:<role$}{:>8}", item.item, item.role, item.count);
        let all = |unit: Option<f64>, all: Option<f64>| match item.within {
            Some(whole) if all.is_none() && unit.is_some() => format!("in {whole}"),
            _ => number(all),
        };
        let (watts, dollars) = (item.unit_power_w, item.unit_price_usd);
        let cells = [number(watts), all(watts, item.power_w), number(dollars), all(dollars, item.price_usd)];
        let _ = writeln!(out, "{}", line(cells));
    }
    let totals = &report.totals;
    let price = totals.price_usd.map_or_else(|| "-".to_owned(), |v| format!("{v:.0}"));
    let cells = [String::new(), format!("{:.0}", totals.power_w), String::new(), price];
    let _ = writeln!(out, "{:<width$}{:<role$}{:>8}{}", "all that is known", "", "", line(cells));
    if totals.switches > 0 {
        let _ = writeln!(
            out,
            "each GPU     {:.0} W, {:.1} W of it network; {:.2} cables; {:.1} switches for 1000 GPUs",
            totals.power_w_per_gpu,
            totals.network_power_w_per_gpu,
            totals.cables_per_gpu,
            totals.switches_per_1000_gpus
        );
    }
    if !totals.without_power.is_empty() {
        let _ = writeln!(out, "without W    {}", totals.without_power.join(", "));
    }
    if !totals.without_price.is_empty() {
        let _ = writeln!(out, "without USD  {}", totals.without_price.join(", "));
    }
}
