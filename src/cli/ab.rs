//! `ab`: the α-β calculator.

mod parse;
mod view;

use clap::Args as ClapArgs;
use sim_core::units::Bytes;
use sim_report::result::{AbLink, AbMessage, AbReach, AbResults, AbRow};

use super::args::{Format, Output};
use super::context::{Context, warnings};
use super::fault::Failure;
use super::output;
use crate::alpha_beta::AlphaBeta;
use crate::diagnostic::Diagnostics;
use parse::{NamedLink, Target};

/// What a message costs on a link: T = α + n/β, and the inverse questions
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A link by name, rate of one direction and latency (repeatable); --reach and --message ask about the first
    #[arg(long, value_name = "NAME=RATE,LATENCY")]
    link: Vec<String>,
    /// Rates to reach (`180GBps`), or shares of the link's (`90%`): at which size?
    #[arg(long, value_name = "RATE,...", value_delimiter = ',')]
    reach: Vec<String>,
    /// Sizes of the table
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "4KiB,64KiB,1MiB,16MiB,256MiB")]
    sizes: Vec<String>,
    /// One message: a size, or "tokens=32 hidden=8192 dtype=bf16"
    #[arg(long, value_name = "SIZE|SHAPE")]
    message: Option<String>,
    /// Price the message as an all-reduce of so many ranks, too
    #[arg(long, value_name = "N", requires = "message", value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    ranks: Option<u32>,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  fabricsim ab --link nvlink=450GBps,1us --link pcie5=55GBps,2us --link ib400=400Gbps,3us
  fabricsim ab --link x=200GBps,5us --reach 100GBps,90%
  fabricsim ab --link nvlink=450GBps,1us --message \"tokens=32 hidden=8192 dtype=bf16\" --ranks 8";

/// What was asked, ready to compute.
#[derive(Debug)]
pub(super) struct Question {
    links: Vec<NamedLink>,
    reach: Vec<Target>,
    sizes: Vec<Bytes>,
    message: Option<Bytes>,
    ranks: Option<u32>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let (question, findings) = parse::question(args).map_err(Failure::usage)?;
    let findings = no_settings(context, findings);
    context.say(&findings);
    let results = answer(&question);
    match args.output.format {
        Format::Json => output::print_json("ab", context.seed.unwrap_or(1), warnings(&findings), results),
        Format::Text => output::print(&view::text(&question, &results)),
    }
}

/// `--set` changes nothing here, and that is worth a word.
fn no_settings(context: &Context, mut findings: Diagnostics) -> Diagnostics {
    use crate::diagnostic::{Code, Diagnostic};
    if context.settings.iter().any(|s| s.origin == "--set") {
        findings.push(Diagnostic::new(Code::NoEffect, "`--set` has no effect: `ab` reads no scenario"));
    }
    findings
}

fn answer(question: &Question) -> AbResults {
    let first = question.links.first().map(|l| l.model);
    AbResults {
        links: question.links.iter().map(|link| curve(link, &question.sizes)).collect(),
        reach: first.map_or_else(Vec::new, |link| question.reach.iter().map(|t| reach(link, t)).collect()),
        message: first.and_then(|link| question.message.map(|bytes| message(link, bytes, question.ranks))),
    }
}

fn curve(link: &NamedLink, sizes: &[Bytes]) -> AbLink {
    let rows = sizes.iter().map(|size| {
        let bytes = size.get() as f64;
        AbRow { bytes: size.get(), time_us: link.model.time(bytes) * 1e6, achieved: link.model.achieved(bytes) / 1e9 }
    });
    AbLink { name: link.name.clone(), half_bandwidth_bytes: round(link.model.half_bandwidth()), rows: rows.collect() }
}

fn reach(link: AlphaBeta, target: &Target) -> AbReach {
    let rate = target.rate(link.beta);
    AbReach { target: rate / 1e9, bytes: link.size_for(rate).map(round) }
}

fn message(link: AlphaBeta, bytes: Bytes, ranks: Option<u32>) -> AbMessage {
    let n = bytes.get() as f64;
    let us = |time: f64| time * 1e6;
    AbMessage {
        bytes: bytes.get(),
        one_hop_us: us(link.time(n)),
        fixed_share: link.fixed_share(n),
        ring_us: ranks.map(|r| us(link.ring(n, r))),
        one_shot_us: ranks.map(|r| us(link.one_shot(n, r))),
        two_shot_us: ranks.map(|r| us(link.two_shot(n, r))),
        one_shot_two_shot_bytes: ranks.and_then(|r| link.one_shot_two_shot(r)),
        one_shot_ring_bytes: ranks.and_then(|r| link.one_shot_ring(r)),
    }
}

/// Takes away what binary fractions add: 449999.99999999994 is 450000.
fn round(bytes: f64) -> f64 {
    (bytes * 1e6).round() / 1e6
}
