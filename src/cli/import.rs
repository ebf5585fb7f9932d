//! `import`: what hosts print, as TOML.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, ValueEnum};
use sim_topology::import::{self, Certainty, Finding, FindingKind, Imported, Kind, Refusal, Request};

use super::context::Context;
use super::fault::{Exit, Failure};
use super::output;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, SourceId, shorten};
use crate::scenario::Scenario;

/// Read what a host printed (NCCL topology XML, nvidia-smi topo -m, rocm-smi --showtopo, NCCL's channels) and write it as TOML
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What the file is; without it, told by its content
    #[arg(long, value_name = "KIND", default_value = "auto")]
    kind: FileKind,
    /// The GPU's name in `fabricsim catalog`, where the file does not tell or tells wrong
    #[arg(long, value_name = "NAME")]
    gpu: Option<String>,
    /// The NIC's name in `fabricsim catalog`
    #[arg(long, value_name = "NAME")]
    nic: Option<String>,
    /// The CPU's family, such as sapphire-rapids
    #[arg(long, value_name = "FAMILY")]
    cpu: Option<String>,
    /// Lift PCIe links that trained down to those of their peers (of all, to the cards')
    #[arg(long)]
    full_links: bool,
    /// For channels: the system that they are of, by its name in `fabricsim catalog`
    #[arg(long, value_name = "NAME", conflicts_with = "extends")]
    system: Option<String>,
    /// For channels: the scenario that they go into, such as an imported node
    #[arg(long, value_name = "FILE")]
    extends: Option<String>,
    /// Where to write; `-` is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    /// Overwrite the file of --out
    #[arg(long)]
    force: bool,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FileKind {
    /// By its content.
    Auto,
    /// NCCL's topology: NCCL_TOPO_DUMP_FILE, or a vendor's NCCL_TOPO_FILE.
    NcclXml,
    /// The matrix of `nvidia-smi topo -m`.
    TopoM,
    /// The tables of `rocm-smi --showtopo`.
    RocmTopo,
    /// The channels of an NCCL_GRAPH_DUMP_FILE.
    NcclGraph,
    /// The channels of an NCCL_DEBUG=INFO log.
    NcclLog,
}

const EXAMPLES: &str = "\
The TOML goes to standard output, what was found and filled in to standard error.

Examples:
  nvidia-smi topo -m | fabricsim import - --gpu h200-sxm > node.toml
  fabricsim import nccl-topo.xml --out node.toml
  fabricsim import nccl.log --extends node.toml --out job.toml   NCCL's channels, from an NCCL_DEBUG=INFO log
  fabricsim topo node.toml               the same matrix, and what else follows
  fabricsim bench all_reduce --scenario node.toml --nodes 4";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let text = read(&args.file)?;
    let name = if args.file.as_os_str() == "-" { "standard input".to_owned() } else { args.file.display().to_string() };
    let mut found = Diagnostics::new();
    let source = found.sources.add(&name, text.as_str());
    let kind = match args.kind {
        FileKind::NcclXml => Some(Kind::NcclXml),
        FileKind::TopoM => Some(Kind::TopoM),
        FileKind::RocmTopo => Some(Kind::RocmTopo),
        FileKind::NcclGraph => Some(Kind::NcclGraph),
        FileKind::NcclLog => Some(Kind::NcclLog),
        FileKind::Auto => import::detect(&text),
    };
    let refused = |refusal: Refusal, mut found: Diagnostics| {
        found.push(refusal_of(refusal, source));
        Failure { diagnostics: found, exit: Exit::Unreadable }
    };
    let Some(kind) = kind else {
        let fault = Diagnostic::new(Code::BadImport, format!("cannot tell what `{}` is", shorten(&name)));
        let fault = fault.help("NCCL topology XML or the output of `nvidia-smi topo -m` is due; --kind says which");
        return Err(Failure::of(Exit::Unreadable, fault));
    };
    let shown = args.file.file_name().filter(|n| *n != "-").map_or(name.clone(), |n| n.to_string_lossy().into_owned());
    let channels = match kind {
        Kind::NcclGraph => Some(import::graph_file(&text)),
        Kind::NcclLog => Some(import::log(&text)),
        Kind::NcclXml | Kind::TopoM | Kind::RocmTopo => None,
    };
    if let Some(channels) = channels {
        let graphs = channels.map_err(|refusal| refused(refusal, found.clone()))?;
        graphs.findings.iter().for_each(|f| found.push(finding(f, source)));
        context.say(&found);
        let head = head(args, graphs.shape);
        if head.is_empty() {
            context.note(
                "note: channels alone are no scenario: --extends node.toml or --system NAME says what they are of",
            );
        }
        return write(args, &import::graphs_toml(&graphs, kind, &shown, &head), !head.is_empty(), context);
    }
    let request =
        Request { gpu: args.gpu.clone(), nic: args.nic.clone(), cpu: args.cpu.clone(), full_links: args.full_links };
    let (catalogue, changes) = Scenario::catalogue(&context.settings).map_err(Failure::usage)?;
    context.say(&changes);
    let imported = match import::node(&text, kind, &request, &catalogue) {
        Ok(imported) => imported,
        Err(refusal) => return Err(refused(refusal, found)),
    };
    let toml = import::to_toml(&imported, &shown).map_err(Failure::internal)?;
    imported.findings.iter().for_each(|f| found.push(finding(f, source)));
    context.say(&found);
    say_filled(&imported, context);
    write(args, &toml, true, context)
}

/// The keys before the tables of channels: what they are of, and how many nodes the log tells of.
fn head(args: &Args, shape: Option<(u32, u32)>) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let mut out = String::new();
    if let Some(file) = &args.extends {
        out += &format!("extends = {}\n", quoted(file));
    }
    if let Some(name) = &args.system {
        out += &format!("system = {}\n", quoted(name));
    }
    if let (false, Some((nodes, _))) = (out.is_empty(), shape) {
        out += &format!("nodes = {nodes}\n");
    }
    out
}

/// Writes the TOML; `runs` says whether it is a scenario by itself.
fn write(args: &Args, toml: &str, runs: bool, context: &Context) -> Result<(), Failure> {
    if args.out == Path::new("-") {
        return output::print(toml);
    }
    let extended = args.extends.iter().map(|file| ("the scenario", PathBuf::from(file)));
    let read: Vec<_> = core::iter::once(("the file", args.file.clone())).chain(extended).collect();
    output::apart(&[("--out", args.out.clone())], &read)?;
    output::write(&args.out, toml.as_bytes(), args.force)?;
    let out = args.out.display();
    let next = if runs {
        format!("fabricsim topo {out}")
    } else {
        // Channels alone are no cluster.
        format!("fabricsim import {} --system NAME --out {out} --force", args.file.display())
    };
    context.note(&format!("wrote {out}; next: {next}"));
    Ok(())
}

/// The text of the file. Bytes that are not UTF-8 are taken as one strange character each.
fn read(path: &Path) -> Result<String, Failure> {
    let unreadable = |why: String| {
        let fault =
            Diagnostic::new(Code::BadImport, format!("cannot read `{}`: {why}", shorten(&path.display().to_string())));
        Failure::of(Exit::Unreadable, fault)
    };
    let io = |error: std::io::Error| {
        unreadable(match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
            std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        })
    };
    if path.is_dir() {
        return Err(unreadable("it is a folder".to_owned()));
    }
    let most = import::MOST_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes).map_err(io)?;
    } else {
        std::fs::File::open(path).map_err(io)?.take(most).read_to_end(&mut bytes).map_err(io)?;
    }
    if bytes.len() as u64 == most {
        return Err(unreadable(format!("it is larger than {} MiB", import::MOST_BYTES >> 20)));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(unreadable("it is UTF-16; save it as UTF-8".to_owned()));
    }
    if bytes.contains(&0) {
        return Err(unreadable("it is no text".to_owned()));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn refusal_of(refusal: Refusal, source: SourceId) -> Diagnostic {
    let fault = Diagnostic::new(Code::BadImport, refusal.message).maybe_help(refusal.help);
    match refusal.at {
        Some(span) => fault.at(Place { source, span }, refusal.label),
        None => fault,
    }
}

fn finding(finding: &Finding, source: SourceId) -> Diagnostic {
    let code = match finding.kind {
        FindingKind::NvlinkLost => Code::NvlinkLost,
        FindingKind::LinkDown => Code::LinkDown,
        FindingKind::Far => Code::DistantNic,
        FindingKind::NvlinkTarget => Code::NvlinkTarget,
        FindingKind::NumaLayout => Code::NumaLayout,
        FindingKind::Contradiction => Code::ImportContradiction,
        FindingKind::Incomplete => Code::ImportIncomplete,
        FindingKind::Duplicate => Code::ImportDuplicate,
        FindingKind::Mixed => Code::MixedDevices,
        FindingKind::BadValue => Code::ImportValue,
    };
    let warning = Diagnostic::new(code, &finding.message).maybe_help(finding.help.clone());
    match &finding.at {
        Some(span) => warning.at(Place { source, span: span.clone() }, &finding.label),
        None => warning,
    }
}

/// What the file did not say, and where it is taken from.
fn say_filled(imported: &Imported, context: &Context) {
    for origin in imported.origins.iter().filter(|o| o.certainty != Certainty::File) {
        context.note(&format!("{:>9}: {} = {} ({})", origin.certainty, origin.key, origin.value, origin.why));
    }
    let nvlinks = imported.node.nvlink.is_some() || imported.node.xgmi.is_some();
    if !nvlinks && imported.node.gpus > 1 {
        context.note("     note: no file shows whether access control (ACS) sends peer traffic through the CPU; if it does, set `acs = true`");
    }
}
