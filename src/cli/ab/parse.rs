//! Reads the flags of `ab`.

use sim_core::units::{Bytes, Rate, Span, UnitError, parse::nccl_size};

use super::{Args, Question};
use crate::alpha_beta::AlphaBeta;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, shorten, suggest};
use crate::scenario::diagnose;

/// A link with its name.
#[derive(Clone, Debug)]
pub(super) struct NamedLink {
    pub(super) name: String,
    pub(super) model: AlphaBeta,
}

/// A rate that is to be reached.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// Bytes per second.
    Rate(f64),
    /// A share of the link's rate, 0 to 1.
    Share(f64),
}

impl Target {
    pub(super) fn rate(self, beta: f64) -> f64 {
        match self {
            Self::Rate(rate) => rate,
            Self::Share(share) => share * beta,
        }
    }
}

/// The question with its warnings, or all faults of the flags.
pub(super) fn question(args: &Args) -> Result<(Question, Diagnostics), Diagnostics> {
    let mut out = Diagnostics::new();
    let links: Vec<_> = args.link.iter().filter_map(|text| link(text, &mut out)).collect();
    if args.link.is_empty() {
        let fault = Diagnostic::new(Code::BadArgument, "no link given");
        out.push(fault.help("--link nvlink=450GBps,1us: a name, the rate of one direction, the latency"));
    }
    for (i, named) in links.iter().enumerate() {
        if links[..i].iter().any(|l| l.name == named.name) {
            out.push(Diagnostic::new(Code::BadArgument, format!("two links are called `{}`", named.name)));
        }
    }
    let question = Question {
        links,
        reach: args.reach.iter().filter_map(|text| target(text, &mut out)).collect(),
        sizes: args.sizes.iter().filter_map(|text| size("--sizes", text, &mut out)).collect(),
        message: args.message.as_deref().and_then(|text| message(text, &mut out)),
        ranks: args.ranks,
    };
    if out.has_errors() { Err(out) } else { Ok((question, out)) }
}

fn flag<T>(flag: &str, key: &str, text: &str, parsed: Result<T, UnitError>, out: &mut Diagnostics) -> Option<T> {
    part(flag, key, text, 0, text, parsed, out)
}

/// A quantity that is `text[at..]` of a flag's value, `piece`.
fn part<T>(
    flag: &str,
    key: &str,
    text: &str,
    at: usize,
    piece: &str,
    parsed: Result<T, UnitError>,
    out: &mut Diagnostics,
) -> Option<T> {
    parsed
        .map_err(|error| {
            let source = out.sources.add(flag, text);
            let place = Place { source, span: at..at + piece.len() };
            let fault = diagnose(key, &error, piece, &place, &out.sources);
            out.push(fault);
        })
        .ok()
}

fn complain(flag: &str, text: &str, message: String, label: &str, help: &str, out: &mut Diagnostics) {
    let source = out.sources.add(flag, text);
    let place = Place { source, span: 0..text.len() };
    out.push(Diagnostic::new(Code::BadArgument, message).at(place, label).help(help));
}

fn link(text: &str, out: &mut Diagnostics) -> Option<NamedLink> {
    const HELP: &str = "a name, the rate of one direction and the latency: --link nvlink=450GBps,1us";
    let parts = text.split_once('=').and_then(|(name, rest)| Some((name, rest.split_once(',')?)));
    let Some((name, (rate, latency))) = parts.filter(|(name, _)| !name.trim().is_empty()) else {
        complain("--link", text, format!("`--link` takes NAME=RATE,LATENCY, not `{}`", shorten(text)), "", HELP, out);
        return None;
    };
    let rate_at = name.len() + 1;
    let beta = part("--link", "rate", text, rate_at, rate, rate.parse::<Rate>(), out);
    let alpha = part("--link", "latency", text, rate_at + rate.len() + 1, latency, latency.parse::<Span>(), out);
    let (beta, alpha) = (beta?, alpha?);
    if let Some(fault) = both_directions(name.trim(), beta, text, rate_at..rate_at + rate.len(), out) {
        out.push(fault);
    }
    let model = AlphaBeta { alpha: alpha.as_secs(), beta: beta.get() as f64 };
    Some(NamedLink { name: name.trim().to_owned(), model })
}

/// NVLink rates are sold as the sum of both directions; a link named after its generation with that sum is suspect.
fn both_directions(
    name: &str,
    rate: Rate,
    text: &str,
    span: core::ops::Range<usize>,
    out: &mut Diagnostics,
) -> Option<Diagnostic> {
    let folded: String = name.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    let (generation, one_way) = match folded.as_str() {
        "nvlink3" | "nvlink30" => (3, 300),
        "nvlink4" | "nvlink40" => (4, 450),
        "nvlink5" | "nvlink50" => (5, 900),
        // Without a generation only values that are the sum of a generation and the rate of none are suspect.
        "nvlink" if rate == Rate::gbyte(600) => (3, 300),
        "nvlink" if rate == Rate::gbyte(1800) => (5, 900),
        _ => return None,
    };
    if rate.get() * 2 < Rate::gbyte(one_way).get() * 3 {
        return None;
    }
    let source = out.sources.add("--link", text);
    let label = format!("NVLink {generation} carries {one_way} GB/s per GPU in each direction");
    let fault = Diagnostic::new(Code::BothDirections, "looks like the sum of both directions");
    Some(fault.at(Place { source, span }, label).help(format!("use {one_way}GBps")))
}

fn size(name: &str, text: &str, out: &mut Diagnostics) -> Option<Bytes> {
    let size = flag(name, "size", text, nccl_size(text), out)?;
    if size == Bytes::ZERO {
        complain(name, text, "a size of zero bytes".to_owned(), "at least one byte is due", "", out);
        return None;
    }
    Some(size)
}

fn target(text: &str, out: &mut Diagnostics) -> Option<Target> {
    if let Some(number) = text.trim().strip_suffix('%') {
        match number.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent < 100.0 => return Some(Target::Share(percent / 100.0)),
            _ => {
                let message = format!("`{}` is not a share between 0 % and 100 %", shorten(text));
                complain("--reach", text, message, "", "--reach 90%: the full rate is reached by no size", out);
                return None;
            }
        }
    }
    flag("--reach", "rate", text, text.parse::<Rate>(), out).map(|rate| Target::Rate(rate.get() as f64))
}

/// A size, or `tokens=32 hidden=8192 dtype=bf16`.
fn message(text: &str, out: &mut Diagnostics) -> Option<Bytes> {
    if !text.contains('=') {
        return size("--message", text, out);
    }
    const HELP: &str = "--message \"tokens=32 hidden=8192 dtype=bf16\"";
    let (mut tokens, mut hidden, mut bits) = (None, None, None);
    for word in text.split([' ', ',']).filter(|w| !w.is_empty()) {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let count = || value.replace('_', "").parse::<u64>().ok().filter(|n| *n > 0);
        match key {
            "tokens" | "hidden" => match count() {
                Some(n) if key == "tokens" => tokens = Some(n),
                Some(n) => hidden = Some(n),
                None => {
                    let message = format!("`{key}` takes a whole number above zero, not `{}`", shorten(value));
                    complain("--message", text, message, "", HELP, out);
                    return None;
                }
            },
            "dtype" => match DTYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(value)) {
                Some((_, width)) => bits = Some(*width),
                None => {
                    let help = suggest(value, DTYPES.iter().map(|(name, _)| *name));
                    complain("--message", text, format!("unknown dtype `{}`", shorten(value)), "", &help, out);
                    return None;
                }
            },
            _ => {
                let help = suggest(key, ["tokens", "hidden", "dtype"]);
                complain("--message", text, format!("unknown word `{}`", shorten(key)), "", &help, out);
                return None;
            }
        }
    }
    let (Some(tokens), Some(hidden)) = (tokens, hidden) else {
        let message = "a message needs `tokens` and `hidden`".to_owned();
        complain("--message", text, message, "", HELP, out);
        return None;
    };
    let bytes = tokens.checked_mul(hidden).and_then(|n| n.checked_mul(bits.unwrap_or(16))).map(|n| n.div_ceil(8));
    if bytes.is_none() {
        complain("--message", text, "the message is larger than can be counted".to_owned(), "", HELP, out);
    }
    bytes.map(Bytes::new)
}

/// Data types and their bits.
const DTYPES: &[(&str, u64)] = &[
    ("bf16", 16),
    ("bfloat16", 16),
    ("fp16", 16),
    ("half", 16),
    ("fp32", 32),
    ("float", 32),
    ("fp64", 64),
    ("double", 64),
    ("fp8", 8),
    ("int8", 8),
    ("fp4", 4),
    ("int32", 32),
    ("int64", 64),
];
