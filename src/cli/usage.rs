//! Command lines that are none: what clap finds, said as every other fault is.

use clap::error::{ContextKind, ContextValue};

use super::fault::{Exit, Failure};
use crate::diagnostic::{Code, Diagnostic};

/// The finding about a command line of a verb, if it has one, that could not be read.
pub(super) fn failure(error: &clap::Error, verb: Option<&str>) -> Failure {
    let text = error.to_string();
    let mut paragraphs = text.trim().split("\n\n").map(str::trim);
    let first = paragraphs.next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let mut lines = first.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut message = lines.next().unwrap_or("the command line cannot be read").to_owned();
    let rest: Vec<&str> = lines.collect();
    if message.ends_with(':') && !rest.is_empty() {
        message = format!("{message} {}", rest.join(", "));
    }
    let mut fault = Diagnostic::new(Code::BadArgument, message.clone());
    if !message.contains(&rest.join(", ")) {
        // `[possible values: a, b]`.
        fault = rest.iter().fold(fault, |fault, line| fault.help(line.trim_matches(['[', ']'])));
    }
    for paragraph in paragraphs {
        if let Some(tip) = paragraph.strip_prefix("tip: ") {
            // Several tips stand below each other.
            fault = tip.split("\n").map(|tip| tip.trim().trim_start_matches("tip: ")).fold(fault, Diagnostic::help);
        } else if let Some(usage) = paragraph.strip_prefix("Usage: ") {
            fault = fault.note(format!("usage: {}", usage.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }
    if let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg)
        && is_number(arg)
    {
        fault = fault.help("a value that begins with `-` follows a `=`: --flag=-1");
    }
    let help = verb.map_or_else(|| "fabricsim --help".to_owned(), |verb| format!("fabricsim {verb} --help"));
    Failure::of(Exit::Usage, fault.help(format!("`{help}` has examples")))
}

fn is_number(text: &str) -> bool {
    text.starts_with('-') && text[1..].starts_with(|c: char| c.is_ascii_digit())
}
