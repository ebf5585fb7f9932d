//! What the lines around the rows say.

use sim_core::units::parse::nccl_size;

use super::row::{integer, words};
use super::types::{Device, Layout, OutOfBounds, Parameters};
use crate::metrics::Operation;

/// One fact from a line that is no row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fact {
    /// The line of options that nccl-tests prints first.
    Banner(Parameters),
    /// `# nccl-tests version …`, with NCCL's version from the library number.
    TestsVersion(String, Option<String>),
    /// `# Collective test starting: all_reduce_perf`.
    Starting(Operation),
    /// `# Collective test concluded: …`.
    Concluded(Operation),
    UsingDevices,
    Device(Device),
    NcclVersion(String),
    Ranks(u32),
    Env(String, String),
    Network(String),
    /// The line of column names; `None` if it is not whole.
    Columns(Option<Layout>),
    OutOfBounds(OutOfBounds),
    Average(f64),
    /// A shell line that starts the program.
    Command(Operation, Parameters),
    /// A complaint of the run.
    Failure,
}

/// The label that `mpirun --tag-output` (`[1,0]<stdout>:`) or `srun -l` (`0:`) put before a line.
pub(super) fn label(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if let Some((inside, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(">:"))
        && let Some((label, "<stdout" | "<stderr" | "<stddiag")) = inside.split_once(']')
    {
        return Some(label).filter(|l| l.bytes().all(|b| b.is_ascii_digit() || b == b','));
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    ((1..=7).contains(&digits) && line[digits..].starts_with(": ")).then(|| &line[..digits])
}

/// The facts in a line.
pub(super) fn facts(line: &str) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(at) = line.find("nThread ") {
        facts.push(Fact::Banner(banner(&line[at..])));
    } else if let Some(rest) = after(line, "nccl-tests version ") {
        let version = first_word(rest).to_owned();
        let library = after(rest, "nccl-library=").and_then(|n| integer(first_word(n))).map(library_version);
        facts.push(Fact::TestsVersion(version, library));
    } else if let Some(op) = after(line, "Collective test starting:").and_then(operation) {
        facts.push(Fact::Starting(op));
    } else if let Some(op) = after(line, "Collective test concluded:").and_then(operation) {
        facts.push(Fact::Concluded(op));
    } else if line.contains("Using devices") {
        facts.push(Fact::UsingDevices);
    } else if let Some(rest) = after(line, "Avg bus bandwidth") {
        facts.extend(number_after_colon(rest).map(Fact::Average));
    } else if let Some(rest) = after(line, "Out of bounds values") {
        let count = number_after_colon(rest).filter(|n| *n >= 0.0);
        let ok = rest.split_whitespace().any(|word| word == "OK");
        facts.extend(count.map(|n| Fact::OutOfBounds(OutOfBounds { count: n as u64, ok })));
    } else if let Some(columns) = columns(line) {
        facts.push(Fact::Columns(columns));
    } else {
        other(line, &mut facts);
    }
    facts
}

fn other(line: &str, facts: &mut Vec<Fact>) {
    for (at, _) in line.match_indices("Rank ") {
        // The next rank line may follow on the same line where two processes wrote at once.
        let end = line[at + 5..].find("Rank ").map_or(line.len(), |next| at + 5 + next);
        facts.extend(device(&line[at..end]).map(Fact::Device));
    }
    if let Some(rest) = after(line, "NCCL version ") {
        let version = first_word(rest);
        if version.starts_with(|c: char| c.is_ascii_digit()) {
            facts.push(Fact::NcclVersion(version.to_owned()));
        }
    }
    if let Some(n) = after(line, " nranks ").or_else(|| after(line, " nRanks ")).map(first_word).and_then(integer) {
        facts.extend(u32::try_from(n).ok().filter(|n| *n > 0).map(Fact::Ranks));
    }
    if let Some(network) = after(line, "Using network ") {
        facts.push(Fact::Network(first_word(network).to_owned()));
    }
    if let Some((before, value)) = line.split_once(" set by environment to ") {
        let name = before.split_whitespace().next_back().unwrap_or_default();
        if is_variable(name) {
            facts.push(Fact::Env(name.to_owned(), value.trim().trim_end_matches('.').to_owned()));
        }
    } else if line.contains("NCCL_") {
        for word in line.split_whitespace() {
            if let Some((name, value)) = word.trim_matches(['"', '\'', ';', '\\']).split_once('=')
                && is_variable(name)
            {
                facts.push(Fact::Env(name.to_owned(), value.trim_matches(['"', '\'']).to_owned()));
            }
        }
    }
    if line.contains("_perf") {
        facts.extend(command(line));
    }
    let missing = line.contains("_perf") && line.contains("No such file or directory");
    if missing || FAILURES.iter().any(|sign| line.contains(sign)) {
        facts.push(Fact::Failure);
    }
}

/// What a run says when it goes wrong.
const FAILURES: [&str; 14] = [
    "NCCL failure",
    "CUDA failure",
    "Cuda failure",
    "unhandled system error",
    "unhandled cuda error",
    "Segmentation fault",
    "out of memory",
    "command not found",
    "error while loading shared libraries",
    "Invalid number of GPUs",
    "mpirun noticed",
    "mpirun was unable",
    "srun: error",
    "remote process exited",
];

fn after<'t>(line: &'t str, key: &str) -> Option<&'t str> {
    line.find(key).map(|at| &line[at + key.len()..])
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

fn operation(text: &str) -> Option<Operation> {
    program(first_word(text))
}

/// The operation of a program name, with or without a path.
pub(super) fn program(word: &str) -> Option<Operation> {
    let base = word.rsplit('/').next().unwrap_or(word);
    let at = base.find("_perf")?;
    base[..at].parse().ok()
}

fn number_after_colon(line: &str) -> Option<f64> {
    let (_, value) = line.split_once(':')?;
    first_word(value).parse().ok().filter(|x: &f64| x.is_finite())
}

fn is_variable(name: &str) -> bool {
    name.starts_with("NCCL_") && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// `22903` is 2.29.3; before 2.9 four digits said the same (`2804`).
pub(super) fn library_version(number: u64) -> String {
    if number >= 10_000 {
        format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
    } else {
        format!("{}.{}.{}", number / 1000, number / 100 % 10, number % 100)
    }
}

fn banner(line: &str) -> Parameters {
    let text = |key: &str| after(line, key).map(first_word).filter(|w| !w.is_empty());
    let number = |key: &str| text(key).and_then(integer);
    let small = |key: &str| number(key).and_then(|n| u32::try_from(n).ok());
    let iters = line
        .match_indices("iters:")
        .find(|(at, _)| !line[..*at].ends_with("warmup ") && !line[..*at].ends_with("agg "))
        .and_then(|(at, key)| integer(first_word(&line[at + key.len()..])))
        .and_then(|n| u32::try_from(n).ok());
    Parameters {
        threads: small("nThread "),
        gpus: small("nGpus "),
        min_bytes: number("minBytes "),
        max_bytes: number("maxBytes "),
        step: text("step:").map(str::to_owned),
        warmup_iters: small("warmup iters:"),
        iters,
        agg_iters: small("agg iters:"),
        validation: number("validation:").map(|n| n != 0),
        graph: small("graph:"),
        unalign: small("unalign:"),
    }
}

/// `Rank  0 Group  0 Pid  12300 on  host0 device  0 [0x1b] NVIDIA H100`; Group is absent before 2022.
fn device(text: &str) -> Option<Device> {
    let words = words(text);
    let small = |text: &str| integer(text).and_then(|n| u32::try_from(n).ok());
    let value = |key: &str| words.windows(2).find(|w| w[0].text == key).map(|w| w[1].text);
    let rank = small(words.get(1)?.text)?;
    let device = small(value("device")?)?;
    let (bus_id, gpu) = match (text.find('['), text.find(']')) {
        (Some(open), Some(close)) if open < close => (text[open + 1..close].trim(), text[close + 1..].trim()),
        _ => ("", ""),
    };
    Some(Device {
        rank,
        group: value("Group").and_then(small).unwrap_or(0),
        pid: value("Pid").and_then(integer),
        host: value("on")?.to_owned(),
        device,
        bus_id: bus_id.to_owned(),
        gpu: gpu.trim_end_matches(['#', ' ']).to_owned(),
    })
}

/// The line of column names, if this is one.
fn columns(line: &str) -> Option<Option<Layout>> {
    if !["type", "time", "busbw"].iter().all(|name| line.contains(name)) {
        return None;
    }
    let words: Vec<_> = words(line).into_iter().map(|w| w.text.trim_start_matches('#')).collect();
    let has = |name: &str| words.contains(&name);
    if !(has("size") && has("count") || has("bytes") && has("N")) {
        return None;
    }
    let twice = |name: &str| words.iter().filter(|w| **w == name).count() == 2;
    let checked = twice("wrong") || twice("error") || twice("res");
    let whole = twice("algbw") && twice("busbw") && checked && (twice("time") || twice("cputime"));
    Some(whole.then(|| Layout {
        redop: has("redop") || has("op"),
        root: has("root"),
        copybw: has("copybw"),
        spread: has("i_min"),
        stamp: false,
        max_error: has("error") || has("res"),
        cpu_time: has("cputime"),
        milliseconds: has("bytes"),
    }))
}

/// A command line that runs one of the programs, with the options that matter.
fn command(line: &str) -> Option<Fact> {
    let words: Vec<_> = words(line).into_iter().map(|w| w.text).collect();
    let at = words.iter().position(|w| program(w).is_some())?;
    let op = program(words[at])?;
    let mut parameters = Parameters::default();
    for pair in words[at + 1..].windows(2) {
        let small = integer(pair[1]).and_then(|n| u32::try_from(n).ok());
        let size = || nccl_size(pair[1]).ok().map(sim_core::units::Bytes::get);
        match pair[0] {
            "-t" | "--nthreads" => parameters.threads = small,
            "-g" | "--ngpus" => parameters.gpus = small,
            "-b" | "--minbytes" => parameters.min_bytes = size(),
            "-e" | "--maxbytes" => parameters.max_bytes = size(),
            "-n" | "--iters" => parameters.iters = small,
            "-w" | "--warmup_iters" => parameters.warmup_iters = small,
            "-m" | "--agg_iters" => parameters.agg_iters = small,
            "-c" | "--check" => parameters.validation = small.map(|n| n != 0),
            "-G" | "--cudagraph" => parameters.graph = small,
            _ => {}
        }
    }
    Some(Fact::Command(op, parameters))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        assert_eq!(label("[1,0]<stdout>:  8 2 float"), Some("1,0"));
        assert_eq!(label("   [1,12]<stderr>:x"), Some("1,12"));
        assert_eq!(label("3:   8 2 float"), Some("3"));
        assert_eq!(label("12:30:01 8 2 float"), None);
        assert_eq!(label("   1024 256 float"), None);
        assert_eq!(label("[host:12] PMIX ERROR"), None);
        assert_eq!(label("[é>:"), None);
    }

    #[test]
    fn options_of_the_banner() {
        let line = "[1,0]<stdout>:# nThread 1 nGpus 8 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 3 validation: 1 graph: 7";
        let [Fact::Banner(p)] = &facts(line)[..] else { panic!("no banner") };
        assert_eq!(
            (p.gpus, p.warmup_iters, p.iters, p.agg_iters, p.graph),
            (Some(8), Some(5), Some(20), Some(3), Some(7))
        );
        assert_eq!(p.step.as_deref(), Some("2(factor)"));
        assert_eq!(p.unalign, None);
    }

    #[test]
    fn two_rank_lines_in_one() {
        let line = "#  Rank  0 Group  0 Pid  1 on a device  0 [0x0f] NVIDIA A40#  Rank  1 Group  0 Pid  2 on b device  1 [0x10] NVIDIA A40";
        let found: Vec<_> = facts(line)
            .into_iter()
            .filter_map(|f| if let Fact::Device(d) = f { Some((d.rank, d.host, d.device, d.gpu)) } else { None })
            .collect();
        assert_eq!(found, [(0, "a".into(), 0, "NVIDIA A40".into()), (1, "b".into(), 1, "NVIDIA A40".into())]);
    }

    #[test]
    fn variables_and_versions() {
        let env = |line: &str| {
            facts(line).into_iter().find_map(|f| if let Fact::Env(k, v) = f { Some((k, v)) } else { None })
        };
        assert_eq!(
            env("host0:1:2 [0] NCCL INFO NCCL_IB_TC set by environment to 160."),
            Some(("NCCL_IB_TC".into(), "160".into()))
        );
        assert_eq!(env("mpirun -x NCCL_ALGO=Ring ./x"), Some(("NCCL_ALGO".into(), "Ring".into())));
        assert_eq!(library_version(22_903), "2.29.3");
        assert_eq!(library_version(2708), "2.7.8");
        assert_eq!(
            facts("# nccl-tests version 2.17.9 nccl-headers=22903 nccl-library=22903"),
            [Fact::TestsVersion("2.17.9".into(), Some("2.29.3".into()))]
        );
    }

    #[test]
    fn command_lines() {
        let Some(Fact::Command(op, p)) =
            command("+ srun ./build/all_reduce_perf_mpi -b 51.2M -e 8G -d half -G 1 -n 50")
        else {
            panic!("no command")
        };
        assert_eq!((op, p.graph, p.iters, p.max_bytes), (Operation::AllReduce, Some(1), Some(50), Some(8 << 30)));
        assert!(command("see ib_write_perf").is_none());
    }
}
