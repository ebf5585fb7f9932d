//! `catalog`: what is built in, with the source of each value.

use core::fmt::Write as _;

use clap::Args as ClapArgs;
use serde_json::{Value, json};
use sim_topology::catalogue::Entry;

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
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Values marked with ~ are provisional: recalled, not yet confirmed by a source.

Examples:
  fabricsim catalog
  fabricsim catalog hgx-h100
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
            let folded = kind.to_lowercase().replace(['_', '-'], " ");
            let hits: Vec<_> = entries.iter().filter(|e| e.kind.to_lowercase().replace('-', " ") == folded).collect();
            if hits.is_empty() {
                return Err(unknown_kind(kind, &entries));
            }
            hits
        }
        (None, None) => entries.iter().collect(),
    };
    match args.output.format {
        Format::Json => {
            let list: Vec<Value> = chosen.iter().map(|e| in_json(e)).collect();
            output::print_json("catalog", context.seed.unwrap_or(1), Vec::new(), json!({ "entries": list }))
        }
        Format::Text if args.name.is_some() => {
            let pages: Vec<String> = chosen.iter().map(|e| page(e)).collect();
            output::print(&pages.join("\n"))
        }
        Format::Text => output::print(&list(&chosen)),
    }
}

fn unknown(name: &str, entries: &[Entry<'_>]) -> Failure {
    let alike = similar(name, entries.iter().flat_map(Entry::all_names));
    let fault = Diagnostic::new(Code::UnknownSystem, format!("the catalogue has no `{}`", shorten(name)))
        .maybe_help(alike.map(|a| format!("did you mean `{a}`?")))
        .help("`fabricsim catalog` lists all entries");
    Failure::of(Exit::Usage, fault)
}

fn unknown_kind(kind: &str, entries: &[Entry<'_>]) -> Failure {
    let mut kinds: Vec<&str> = entries.iter().map(|e| e.kind).collect();
    kinds.dedup();
    let help = crate::diagnostic::suggest(kind, kinds);
    let fault = Diagnostic::new(Code::BadArgument, format!("no kind `{}` in the catalogue", shorten(kind)));
    Failure::of(Exit::Usage, fault.help(help))
}

fn list(entries: &[&Entry<'_>]) -> String {
    let width = entries.iter().map(|e| e.name.chars().count()).max().unwrap_or(0) + 2;
    let mut out = String::new();
    let mut kind = "";
    for entry in entries {
        if entry.kind != kind {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{}{}", if kind.is_empty() { "" } else { "\n" }, entry.kind);
            kind = entry.kind;
        }
        let mark = if entry.is_provisional() { "~" } else { " " };
        let _ = writeln!(out, "{mark} {:<width$}{}", entry.name, entry.summary);
    }
    if entries.iter().any(|e| e.is_provisional()) {
        out.push_str("\n~ has values that are provisional: `fabricsim catalog NAME` shows which\n");
    }
    out
}

fn page(entry: &Entry<'_>) -> String {
    let mut out = format!("{} ({}): {}\n", entry.name, entry.kind, entry.summary);
    if !entry.aliases.is_empty() {
        let _ = writeln!(out, "also known as {}", entry.aliases.join(", "));
    }
    let width = entry.figures.iter().map(|f| f.name.chars().count()).max().unwrap_or(0) + 2;
    for figure in &entry.figures {
        let mark = if figure.standing.is_provisional() { "~" } else { " " };
        let value = match figure.unit {
            Some(unit) => format!("{} {unit}", figure.value),
            None => rows(&figure.value, width + 2),
        };
        let _ = writeln!(out, "{mark} {:<width$}{value}   ({})", figure.name, figure.standing);
    }
    if let Some(note) = entry.note {
        let _ = writeln!(out, "note: {note}");
    }
    for source in &entry.sources {
        let date = source.date.as_deref().map_or_else(String::new, |d| format!(", {d}"));
        let _ = writeln!(out, "source: {}, {}{date}", source.title, source.place);
    }
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
                "name": f.name, "value": f.value, "unit": f.unit, "standing": f.standing,
                "provisional": f.standing.is_provisional(),
            })
        })
        .collect();
    let sources: Vec<Value> =
        entry.sources.iter().map(|s| json!({ "title": s.title, "place": s.place, "date": s.date })).collect();
    json!({
        "name": entry.name, "aliases": entry.aliases, "kind": entry.kind, "summary": entry.summary, "note": entry.note,
        "provisional": entry.is_provisional(), "figures": figures, "sources": sources,
    })
}
