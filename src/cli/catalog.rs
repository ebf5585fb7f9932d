//! `catalog`: what is built in, with the source of each value.

use core::fmt::Write as _;

use clap::Args as ClapArgs;
use serde_json::{Value, json};
use sim_topology::catalogue::{Entry, Figure};

use super::args::{Format, Output};
use super::context::Context;
use super::fault::{Exit, Failure};
use super::output;
use crate::diagnostic::{Code, Diagnostic, shorten, similar};
use crate::scenario::Scenario;

/// What is built in: systems, GPUs, NICs, switches, links, with sources
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// One entry in full, by name or alias
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Only entries of a kind: system, GPU, NIC, switch ...
    #[arg(long, value_name = "KIND", conflicts_with = "name")]
    kind: Option<String>,
    /// Only entries with this text in a name, title, note or value
    #[arg(long, value_name = "TEXT", conflicts_with = "name")]
    search: Option<String>,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Values marked with ~ are provisional: recalled, not yet confirmed by a source.

Examples:
  fabricsim catalog
  fabricsim catalog hgx-h100
  fabricsim catalog --search hopper
  fabricsim catalog --kind switch --format json";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let (catalogue, findings) = Scenario::catalogue(&context.settings).map_err(Failure::usage)?;
    context.say(&findings);
    let entries: Vec<Entry<'_>> = catalogue.entries().collect();
    let chosen: Vec<&Entry<'_>> = match (&args.name, &args.kind) {
        (Some(name), _) => {
            let hits: Vec<_> = entries.iter().filter(|e| e.answers_to(name)).collect();
            if hits.is_empty() {
                return Err(unknown(name, &entries));
            }
            hits
        }
        (None, Some(kind)) => {
            let folded = kind.to_lowercase().replace(['-', ' '], "_");
            let hits: Vec<_> = entries.iter().filter(|e| e.kind == folded).collect();
            if hits.is_empty() {
                return Err(unknown_kind(kind, &entries));
            }
            hits
        }
        (None, None) => entries.iter().collect(),
    };
    let chosen: Vec<&Entry<'_>> = match &args.search {
        Some(text) => chosen.into_iter().filter(|e| mentions(e, text)).collect(),
        None => chosen,
    };
    if let (Some(text), true) = (&args.search, chosen.is_empty()) {
        let fault = Diagnostic::new(Code::UnknownSystem, format!("no row mentions `{}`", shorten(text)));
        return Err(Failure::of(Exit::Usage, fault.help("`fabricsim catalog` lists all entries")));
    }
    match args.output.format {
        Format::Json => {
            let list: Vec<Value> = chosen.iter().map(|e| in_json(e)).collect();
            output::print_json("catalog", context.seed.unwrap_or(1), Vec::new(), json!({ "entries": list }))
        }
        Format::Text if args.name.is_some() => {
            let pages: Vec<String> = chosen.iter().map(|e| page(e)).collect();
            output::print(&pages.join("\n"))
        }
        Format::Text => output::print(&list(&chosen, args.kind.is_some() || args.search.is_some())),
    }
}

fn unknown(name: &str, entries: &[Entry<'_>]) -> Failure {
    let alike = similar(name, entries.iter().flat_map(Entry::all_names));
    let found: Vec<&str> = entries.iter().filter(|e| mentions(e, name)).map(|e| e.name).take(6).collect();
    let found = (alike.is_none() && !found.is_empty()).then(|| format!("rows that mention it: {}", found.join(", ")));
    let fault = Diagnostic::new(Code::UnknownSystem, format!("the catalogue has no `{}`", shorten(name)))
        .maybe_help(alike.map(|a| format!("did you mean `{a}`?")))
        .maybe_help(found)
        .help("`fabricsim catalog` lists all entries, `--search TEXT` those that mention a text");
    Failure::of(Exit::Usage, fault)
}

fn unknown_kind(kind: &str, entries: &[Entry<'_>]) -> Failure {
    let mut kinds: Vec<&str> = entries.iter().map(|e| e.kind).collect();
    kinds.dedup();
    let help = crate::diagnostic::suggest(kind, kinds);
    let fault = Diagnostic::new(Code::BadArgument, format!("no kind `{}` in the catalogue", shorten(kind)));
    Failure::of(Exit::Usage, fault.help(help))
}

/// Whether names, title, note or a value have the text.
fn mentions(entry: &Entry<'_>, text: &str) -> bool {
    let wanted = text.trim().to_lowercase();
    let texts = entry.all_names().chain([entry.summary, entry.note.unwrap_or_default()]);
    let mut texts = texts.chain(entry.figures.iter().map(|f| f.value.as_str()));
    texts.any(|t| t.to_lowercase().contains(&wanted))
}

/// The widest line.
const WIDTH: usize = 110;

/// The figures that a listing shows of each kind.
const SHOWN: &[(&str, &[&str])] = &[
    ("gpu", &["memory_gb", "memory_GBps", "fp16_tflops"]),
    ("nvlink", &["link_GBps"]),
    ("pcie", &["lane_GBps"]),
    ("pcie_switch", &["lanes", "latency_ns"]),
    ("c2c", &["link_GBps"]),
    ("socket_link", &["link_GBps"]),
    ("nic", &["ports", "port_gbit"]),
    ("switch", &["ports", "port_gbit", "latency_ns"]),
    ("transport", &["packet_overhead_bytes"]),
    ("latency", &["latency_ns"]),
    ("cable", &["max_m", "delay_ns_per_m"]),
    ("optic", &["ports", "port_gbit", "power_w", "max_power_w"]),
    ("fec", &["latency_ns", "interleaved_latency_ns"]),
    ("path_latency", &["path_us"]),
    ("constant", &["value", "min", "max"]),
    ("price", &["amount", "min", "max"]),
    ("rental", &["min_usd_per_hour", "max_usd_per_hour"]),
    ("power", &["power_w", "max_power_w"]),
    ("measured", &["rate_GBps", "rate_gbit", "busbw_GBps", "latency_us", "tflops"]),
];

/// Kinds of which only the count is shown where none was asked for.
const FOLDED: &[&str] = &["path_latency", "constant", "price", "rental", "power", "measured"];

fn list(entries: &[&Entry<'_>], all: bool) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    let mut rest = entries;
    while let Some(first) = rest.first() {
        let end = rest.iter().position(|e| e.kind != first.kind).unwrap_or(rest.len());
        let (rows, others) = rest.split_at(end);
        rest = others;
        let head = format!("{} ({})", first.kind, rows.len());
        if !all && FOLDED.contains(&first.kind) {
            let _ = writeln!(out, "{head:<20} fabricsim catalog --kind {}", first.kind);
            continue;
        }
        let _ = writeln!(out, "{head}");
        let name = rows.iter().map(|e| e.name.chars().count()).max().unwrap_or(0) + 2;
        let title = rows.iter().map(|e| e.summary.chars().count()).max().unwrap_or(0) + 2;
        let title = title.min(62).min(WIDTH.saturating_sub(name + 20));
        for entry in rows {
            let mark = if entry.is_provisional() { "~" } else { " " };
            let figures = shown(entry);
            let line = format!("{mark} {:<name$}{:<title$}{figures}", entry.name, entry.summary);
            let plain = format!("{mark} {:<name$}{}  {figures}", entry.name, entry.summary);
            let fits = [&line, &plain].into_iter().find(|line| line.trim_end().chars().count() <= WIDTH);
            let _ = match fits {
                Some(line) => writeln!(out, "{}", line.trim_end()),
                None if figures.is_empty() => writeln!(out, "{mark} {:<name$}{}", entry.name, entry.summary),
                None => writeln!(out, "{mark} {:<name$}{}\n  {:<name$}{figures}", entry.name, entry.summary, ""),
            };
        }
        out.push('\n');
    }
    if entries.iter().any(|e| e.is_provisional()) {
        out.push_str("\n~ has values that are provisional: `fabricsim catalog NAME` shows which\n");
    }
    out.replace("\n\n\n", "\n\n")
}

/// The figures of a row that a listing shows, in a phrase.
fn shown(entry: &Entry<'_>) -> String {
    let Some((_, keys)) = SHOWN.iter().find(|(kind, _)| *kind == entry.kind) else { return String::new() };
    let find = |key: &str| entry.figures.iter().find(|f| f.key == key);
    let unit = find("unit").or(find("currency")).map(|f| f.value.as_str());
    let mut out: Vec<String> = Vec::new();
    for figure in keys.iter().filter_map(|key| find(key)) {
        let unit = figure.unit.or(unit).map_or_else(String::new, |unit| format!(" {unit}"));
        let last = out.last_mut();
        match (figure.key.as_str(), last) {
            ("unit" | "currency", _) => {}
            ("lanes", _) => out.push(format!("{} lanes", figure.value)),
            ("ports", _) => out.push(format!("{} x", figure.value)),
            ("port_gbit", Some(ports)) => *ports = format!("{ports} {}{unit}", figure.value),
            (key, Some(least)) if key.starts_with("max") && *least == format!("{}{unit}", figure.value) => {}
            (key, Some(least)) if key.starts_with("max") && least.ends_with(&unit) => {
                let number = least.strip_suffix(&unit).unwrap_or(least);
                *least = format!("{number} to {}{unit}", figure.value);
            }
            _ => out.push(format!("{}{unit}", figure.value)),
        }
    }
    out.join(", ").replace(" x,", " ports,")
}

fn page(entry: &Entry<'_>) -> String {
    let mut out = format!("{} ({}): {}\n", entry.name, entry.kind, entry.summary);
    if !entry.aliases.is_empty() {
        let _ = writeln!(out, "also known as {}", entry.aliases.join(", "));
    }
    out.push('\n');
    let names = entry.figures.iter().map(|f| f.name.as_str()).chain(entry.computed.iter().map(|f| f.name.as_str()));
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0) + 2;
    let value = |f: &Figure| match f.unit {
        Some(unit) => format!("{} {unit}{}", f.value, direction(f)),
        None => rows(&f.value, width + 2),
    };
    let values: Vec<String> = entry.figures.iter().map(value).collect();
    let short = values.iter().map(|v| v.chars().count()).filter(|n| *n <= 40).max().unwrap_or(0) + 2;
    for (figure, value) in entry.figures.iter().zip(&values) {
        let mark = if figure.standing.is_provisional() { "~" } else { " " };
        let gap = if value.chars().count() < short { "" } else { "  " };
        let _ = writeln!(out, "{mark} {:<width$}{value:<short$}{gap}{}", figure.name, figure.standing);
    }
    if !entry.computed.is_empty() {
        let _ = writeln!(out, "\nfrom which follows");
        let short = entry.computed.iter().map(|f| f.value.chars().count()).max().unwrap_or(0) + 2;
        for figure in &entry.computed {
            let _ = writeln!(out, "  {:<width$}{:<short$}= {}", figure.name, figure.value, figure.formula);
        }
    }
    out.push('\n');
    if let Some(note) = entry.note {
        out.push_str(&wrapped("note: ", note));
    }
    for source in &entry.sources {
        let date = source.date.as_deref().map_or_else(String::new, |d| format!(", {d}"));
        out.push_str(&wrapped("source: ", &format!("{}, {}{date}", source.title, source.place)));
    }
    if entry.is_provisional() {
        out.push_str("~ is provisional: recalled and not re-checked against a data sheet\n");
    }
    out
}

/// Rates of links are of one direction; those of memory, and sums of both, are not.
fn direction(figure: &Figure) -> &'static str {
    let rate = matches!(figure.unit, Some("GB/s" | "Gb/s"));
    let other = ["memory", "busbw", "both_directions"].iter().any(|word| figure.name.contains(word));
    if rate && !other { " one way" } else { "" }
}

/// A text after a word, in lines of at most `WIDTH`.
fn wrapped(head: &str, text: &str) -> String {
    let mut out = head.to_owned();
    let mut column = head.chars().count();
    for (i, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if i > 0 && column + 1 + length > WIDTH {
            let _ = write!(out, "\n{:1$}", "", head.len());
            column = head.len();
        } else if i > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}

/// An array of tables with a line for each, indented by `indent`; any other value as it is.
fn rows(value: &str, indent: usize) -> String {
    match value.strip_prefix('[').and_then(|v| v.strip_suffix(']')) {
        Some(inner) if inner.starts_with('{') => inner.replace("}, {", &format!("}}\n{:indent$}{{", "")),
        _ => value.to_owned(),
    }
}

fn in_json(entry: &Entry<'_>) -> Value {
    let figures: Vec<Value> = entry
        .figures
        .iter()
        .map(|f| {
            json!({
                "key": f.key, "name": f.name, "value": f.value, "unit": f.unit,
                "standing": f.standing, "provisional": f.standing.is_provisional(),
            })
        })
        .collect();
    let sources: Vec<Value> =
        entry.sources.iter().map(|s| json!({ "title": s.title, "place": s.place, "date": s.date })).collect();
    let computed: Vec<Value> =
        entry.computed.iter().map(|f| json!({ "name": f.name, "value": f.value, "formula": f.formula })).collect();
    json!({
        "name": entry.name, "aliases": entry.aliases, "kind": entry.kind, "summary": entry.summary, "note": entry.note,
        "provisional": entry.is_provisional(), "figures": figures, "computed": computed,
        "sources": sources,
    })
}
