//! Training steps as text.

use core::fmt::Write as _;

use sim_core::units::Bytes;

use super::csv_file::write_csv;
use super::text::{Align, TextTable, time_text};
use crate::result::{Exposed, StepExperts, StepMessages, StepOutline, StepParts, StepRank, StepResult};

/// Rows of the critical path that are shown.
const PATH: usize = 10;
/// The part of a step from which waiting for late ranks is told.
const LATE: f64 = 0.002;
/// Stages that are shown one by one.
const STAGES: usize = 16;

/// `405.9 billion`, `8.03 billion`, `125 million`.
fn parameters(n: u64) -> String {
    match n as f64 {
        n if n >= 1e11 => format!("{:.0} billion", n / 1e9),
        n if n >= 1e9 => format!("{:.2} billion", n / 1e9),
        n => format!("{:.1} million", n / 1e6),
    }
}

/// What a step is made of: sizes, parameters, memory, work, messages.
#[must_use]
pub fn step_outline_text(outline: &StepOutline) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "step {}: {}", outline.name, outline.sizes);
    let _ = writeln!(out, "  model       {}", outline.model);
    let active = match outline.active_parameters {
        active if active == outline.parameters => String::new(),
        active => format!(", {} of a token", parameters(active)),
    };
    let fullest = parameters(outline.parameters_of_rank);
    let _ = writeln!(out, "  parameters  {}{active}; {fullest} on the fullest rank", parameters(outline.parameters));
    let _ = writeln!(out, "  memory      {}", memory(outline));
    let _ = writeln!(
        out,
        "  work        {} tokens, {:.0} TFLOP a step and GPU (causal attention, nothing recomputed); kernels of the longest \
         stage {} ({})",
        outline.tokens,
        outline.model_tflop / outline.gpus.max(1) as f64,
        time_text(outline.kernels_us),
        outline.kernels
    );
    if let Some(bubble) = outline.ideal_bubble {
        let _ = writeln!(
            out,
            "  bubble      {:.1} % of the step, if all stages were equal and messages took no time",
            bubble * 100.0
        );
    }
    if outline.messages.is_empty() {
        let _ = writeln!(out, "  messages    none");
        return out;
    }
    let of = match outline.parallelism.get("pp") {
        Some(1) | None => String::new(),
        Some(_) => format!(" of stage {}, which sends most", outline.messages_of_stage),
    };
    let _ = writeln!(out, "\nmessages of a rank{of}");
    let columns = [
        ("group", Align::Left),
        ("ranks", Align::Right),
        ("where", Align::Left),
        ("operation", Align::Left),
        ("count", Align::Right),
        ("largest", Align::Right),
        ("sent a step", Align::Right),
        ("may run beside", Align::Left),
    ];
    let mut table = TextTable::new(columns);
    for row in &outline.messages {
        table.row([
            row.group.clone(),
            row.ranks.to_string(),
            place(row),
            row.operation.clone(),
            row.count.to_string(),
            Bytes::new(row.bytes).to_string(),
            Bytes::new(row.wire_bytes).to_string(),
            row.beside.clone(),
        ]);
    }
    out + &table.render()
}

fn memory(outline: &StepOutline) -> String {
    let memory = &outline.memory;
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let parts: Vec<String> = memory.parts.iter().map(|p| format!("{} {:.1}", p.name, gib(p.bytes))).collect();
    let stage = match outline.parallelism.get("pp") {
        Some(1) | None => String::new(),
        Some(_) => format!(" in stage {}", memory.stage),
    };
    format!(
        "{:.1} of {:.1} GiB that can be filled of {:.1}{stage}: {}",
        gib(memory.total_bytes),
        gib(memory.limit_bytes),
        gib(memory.gpu_bytes),
        parts.join(", ")
    )
}

/// How groups lie: `in a node`, `4 nodes, own rail`; `17 nodes, 4 rails (1 of 2 groups)` if the others stay in their domain.
fn place(row: &StepMessages) -> String {
    let some = match row.leaving {
        n if n > 0 && n < row.groups => format!(" ({n} of {} groups)", row.groups),
        _ => String::new(),
    };
    place_of_most_spread(row) + &some
}

fn place_of_most_spread(row: &StepMessages) -> String {
    match (row.domains, row.nodes) {
        (_, 1) => "in a node".to_owned(),
        (1, nodes) => format!("in a scale-up domain, {nodes} nodes"),
        (_, nodes) if row.rails == 0 => format!("{nodes} nodes"),
        (_, nodes) if row.rails == 1 => format!("{nodes} nodes, own rail"),
        (_, nodes) => format!("{nodes} nodes, {} rails", row.rails),
    }
}

/// The answer in one line: `llama3.1-405b on 1024 GPUs: 21.3 s a step, 393 TFLOP/s a GPU (MFU 39.7 %), 98,400 tokens/s`.
#[must_use]
pub fn step_headline(step: &StepResult) -> String {
    let outline = &step.outline;
    // A job of a name of its own still runs a model.
    let model = outline.model.split_once(": ").map_or("", |(name, _)| name);
    let model = if model.is_empty() || model == outline.name { String::new() } else { format!(" ({model})") };
    format!(
        "{}{model} on {} GPUs: {} a step, {:.0} TFLOP/s a GPU (MFU {:.1} %), {:.0} tokens/s.",
        outline.name,
        outline.gpus,
        time_text(step.time_us),
        step.tflops_per_gpu,
        step.mfu * 100.0,
        step.tokens_per_s
    )
}

/// What a step came to: where the time went, the critical path, slow ranks, what was simulated.
#[must_use]
pub fn step_text(step: &StepResult) -> String {
    let mut out = String::new();
    let outline = &step.outline;
    let _ = writeln!(out, "step {}: {}", outline.name, outline.sizes);
    let _ = writeln!(out, "kernels: {}; MFU is of {:.0} TFLOP/s", outline.kernels, outline.peak_tflops);
    if let Some(hint) = kernels_hint(step) {
        let _ = writeln!(out, "{hint}");
    }
    let _ = write!(out, "\nwhere the time goes\n{}", parts_text(step));
    if let Some(alone) = step_alone_text(step) {
        let _ = writeln!(out, "{alone}");
    }
    if step.stages.len() > 1 {
        let _ = write!(out, "\nby stage, the mean of its ranks\n{}", stages_text(step));
    }
    if !step.critical_path.is_empty() {
        let _ = write!(out, "\nthe chain of work that the end waited for\n{}", path_text(step));
    }
    if step.critical_path.iter().any(|row| !matches!(row.kind.as_str(), "compute" | "late")) {
        let _ = writeln!(
            out,
            "a message counts here with all its time, above as exposed only while no kernel ran on its rank"
        );
    }
    if let Some(experts) = &step.experts {
        let _ = write!(out, "\n{}", experts_text(experts));
    }
    for late in step.late.iter().filter(|late| late.time_us > LATE * step.time_us).take(4) {
        let _ = writeln!(
            out,
            "late: the mean rank waits {} for ranks that come late from {}, most of all for rank {} ({}): {}",
            time_text(late.time_us),
            late.what,
            late.rank,
            late.device,
            time_text(late.of_rank_us)
        );
    }
    for slow in step.slow_ranks.iter().take(4) {
        let _ = writeln!(
            out,
            "slow: rank {} ({}) takes x{:.3} as long for its kernels as the ranks of its stage",
            slow.rank, slow.device, slow.factor
        );
    }
    if step.slow_ranks.len() > 4 {
        let _ = writeln!(out, "slow: and {} more ranks", step.slow_ranks.len() - 4);
    }
    if step.steps_us.len() > 1 {
        let times: Vec<String> = step.steps_us.iter().take(12).map(|us| time_text(*us)).collect();
        let more = if step.steps_us.len() > 12 { ", ..." } else { "" };
        let _ = writeln!(out, "steps: {}{more}; the time above is their median", times.join(", "));
    }
    let _ = writeln!(out, "{}", reuse_text(step));
    out
}

/// What the model's work comes to while kernels run, if nothing says how fast the user's own are.
fn kernels_hint(step: &StepResult) -> Option<String> {
    let outline = &step.outline;
    let seconds = step.parts.compute_us / 1e6;
    if !outline.best_kernels || seconds <= 0.0 || outline.peak_tflops <= 0.0 {
        return None;
    }
    let share = outline.model_tflop / outline.gpus.max(1) as f64 / seconds / outline.peak_tflops;
    Some(format!(
        "kernels do the model's work at {:.0} % of that, the best that was measured; most systems are slower: `compute.efficiency`, \
         docs/steps-accuracy.md",
        share * 100.0
    ))
}

/// Messages of a dimension in words.
#[must_use]
pub fn step_messages(dimension: &str) -> String {
    Exposed::named(dimension).map_or_else(|| format!("{dimension} messages"), |kind| kind.words().to_owned())
}

/// The same in a few words for the first line: `Alone: 12.3 ms (+4.5 %).`
#[must_use]
pub fn step_alone_short(step: &StepResult) -> Option<String> {
    let alone = step.alone.as_ref()?;
    Some(format!("Alone: {} ({:+.1} %).", time_text(alone.time_us), more_than(step, alone.time_us)))
}

/// How much longer a step takes than `alone`, in per cent, without a negative zero.
fn more_than(step: &StepResult, alone: f64) -> f64 {
    let tenths = ((step.time_us / alone.max(f64::MIN_POSITIVE) - 1.0) * 1000.0).round();
    tenths / 10.0 + 0.0
}

/// What the others cost a step: `Alone 12.3 ms: +4.5 % beside the others, most of it exposed dp messages (+0.5 ms).`
fn step_alone_text(step: &StepResult) -> Option<String> {
    let alone = step.alone.as_ref()?;
    let more = more_than(step, alone.time_us);
    let before = rows(&alone.parts);
    let grown = |(name, us): &(String, f64)| {
        let was = before.iter().find(|(known, _)| known == name).map_or(0.0, |(_, us)| *us);
        (name.clone(), us - was)
    };
    let most = rows(&step.parts).iter().map(grown).reduce(|a, b| if b.1 > a.1 { b } else { a });
    // What is below a thousandth is no reason.
    let why = most.filter(|(_, us)| *us > 0.001 * alone.time_us).map_or_else(String::new, |(name, us)| {
        let name = name.strip_prefix("exposed ").map_or(name.clone(), |d| format!("exposed {}", step_messages(d)));
        format!(", most of it {name} (+{})", time_text(us))
    });
    Some(format!(
        "Alone {} takes {}: {more:+.1} % beside the others{why}.",
        step.outline.name,
        time_text(alone.time_us)
    ))
}

/// Tokens on their way to experts: by what, how uneven, how fast.
fn experts_text(experts: &StepExperts) -> String {
    let plural = if experts.domains == 1 { "node or domain" } else { "nodes or domains" };
    let mut out = format!("experts: {}, {} ranks on {} {plural}", experts.kernel, experts.ranks, experts.domains);
    if experts.fullest > 1.0 + 1e-9 {
        let _ = write!(out, "; the fullest rank gets x{:.2} of the mean", experts.fullest);
        if experts.draws > 1 {
            let _ = write!(out, " (at most x{:.2}) in {} draws", experts.fullest_of_draws, experts.draws);
        }
    }
    if experts.dropped > 0.0 {
        let _ = write!(out, "; {:.1} % of all copies are dropped, whose work MFU counts", experts.dropped * 100.0);
    }
    out.push('\n');
    let columns = [
        ("of a rank", Align::Left),
        ("count", Align::Right),
        ("mean time", Align::Right),
        ("logical", Align::Right),
        ("GB/s", Align::Right),
        ("over NICs", Align::Right),
        ("GB/s", Align::Right),
        ("scale-up", Align::Right),
        ("GB/s", Align::Right),
    ];
    let mut table = TextTable::new(columns);
    let bytes = |bytes: f64| Bytes::new(bytes as u64).to_string();
    let rate = |rate: f64| format!("{rate:.1}");
    for row in &experts.messages {
        table.row([
            row.what.clone(),
            row.count.to_string(),
            time_text(row.time_us),
            bytes(row.logical_bytes),
            rate(row.logical_gbyte_per_s),
            bytes(row.network_bytes),
            rate(row.network_gbyte_per_s),
            bytes(row.scale_up_bytes),
            rate(row.scale_up_gbyte_per_s),
        ]);
    }
    out + &table.render()
}

fn reuse_text(step: &StepResult) -> String {
    let reuse = &step.reuse;
    let calls = reuse.together.unwrap_or(reuse.calls);
    let of =
        reuse.together.map_or_else(String::new, |_| format!(" of all that ran together, {} of this step", reuse.calls));
    match &reuse.why {
        Some(why) => format!("messages: all {calls}{of} were simulated ({why})"),
        None if reuse.played < calls => {
            format!("messages: {} different ones were simulated for {calls}{of}; exact", reuse.played)
        }
        None => format!("messages: {calls}{of} were simulated"),
    }
}

/// The parts of the time: name, mean, worst rank.
fn rows(parts: &StepParts) -> Vec<(String, f64)> {
    let mut out = vec![("compute".to_owned(), parts.compute_us)];
    for (dimension, us) in &parts.exposed_us {
        out.push((format!("exposed {dimension}"), *us));
    }
    out.push(("pipeline bubble".to_owned(), parts.bubble_us));
    out.push(("optimizer".to_owned(), parts.optimizer_us));
    out.push(("waiting for late ranks".to_owned(), parts.straggler_wait_us));
    out
}

fn parts_text(step: &StepResult) -> String {
    let worst = format!("rank {}", step.worst.rank);
    let columns = [
        ("", Align::Left),
        ("mean rank", Align::Right),
        ("share", Align::Right),
        (worst.as_str(), Align::Right),
        ("share", Align::Right),
    ];
    let mut table = TextTable::new(columns);
    let share = |us: f64| format!("{:.1} %", us / step.time_us.max(f64::MIN_POSITIVE) * 100.0);
    let worst = rows(&step.worst.parts);
    let mut all = rows(&step.parts);
    for (name, _) in &worst {
        if !all.iter().any(|(known, _)| known == name) {
            all.insert(1, (name.clone(), 0.0));
        }
    }
    let shown = |name: &str| {
        let kind = name.strip_prefix("exposed ").and_then(Exposed::named);
        kind.map_or_else(|| name.to_owned(), |kind| format!("exposed {}", kind.row()))
    };
    for (name, us) in &all {
        let other = worst.iter().find(|(known, _)| known == name).map_or(0.0, |(_, us)| *us);
        if *us == 0.0 && other == 0.0 {
            continue;
        }
        table.row([shown(name), time_text(*us), share(*us), time_text(other), share(other)]);
    }
    table.row(["step".to_owned(), time_text(step.time_us), String::new(), String::new(), String::new()]);
    table.render() + &format!("rank {} ({}) waits longest\n", step.worst.rank, step.worst.device)
}

/// A time, or a dash for none.
fn cell(us: f64) -> String {
    if us == 0.0 { "-".to_owned() } else { time_text(us) }
}

fn stages_text(step: &StepResult) -> String {
    let columns = ["stage", "compute", "exposed", "bubble", "optimizer", "late ranks"];
    let mut table = TextTable::new(columns.map(|name| (name, Align::Right)));
    let count = step.stages.len();
    for (at, row) in step.stages.iter().enumerate() {
        // The first and the last ones of many.
        if count > STAGES && at >= STAGES / 2 && at < count - STAGES / 2 {
            if at == STAGES / 2 {
                table.row(["..."]);
            }
            continue;
        }
        let parts = &row.parts;
        table.row([
            row.stage.to_string(),
            cell(parts.compute_us),
            cell(parts.exposed_comm_us),
            cell(parts.bubble_us),
            cell(parts.optimizer_us),
            cell(parts.straggler_wait_us),
        ]);
    }
    table.render()
}

fn path_text(step: &StepResult) -> String {
    let columns = [
        ("what", Align::Left),
        ("kind", Align::Left),
        ("phase", Align::Left),
        ("pieces", Align::Right),
        ("time", Align::Right),
        ("share", Align::Right),
    ];
    let mut table = TextTable::new(columns);
    for row in step.critical_path.iter().take(PATH) {
        table.row([
            row.what.clone(),
            row.kind.clone(),
            row.phase.clone(),
            row.count.to_string(),
            time_text(row.time_us),
            format!("{:.1} %", row.share * 100.0),
        ]);
    }
    let rest: f64 = step.critical_path.iter().skip(PATH).map(|row| row.share).sum();
    if rest > 0.0 {
        let last = format!("{:.1} %", rest * 100.0);
        table.row(["all else".to_owned(), String::new(), String::new(), String::new(), String::new(), last]);
    }
    table.render()
}

/// Writes where the time of each rank went, one per line; of each workload its name and its ranks.
///
/// # Errors
/// If writing fails.
pub fn step_csv<'a>(
    out: impl std::io::Write,
    workloads: impl IntoIterator<Item = (&'a str, &'a [StepRank])>,
) -> Result<(), csv::Error> {
    let mut header = vec!["workload", "rank", "device", "stage", "compute_us", "exposed_comm_us"];
    let names = Exposed::ALL.map(|kind| format!("exposed_{}_us", kind.name()));
    header.extend(names.iter().map(String::as_str));
    header.extend(["bubble_us", "optimizer_us", "straggler_wait_us"]);
    let rows = workloads.into_iter().flat_map(|(name, ranks)| ranks.iter().map(move |rank| (name, rank)));
    let row = |(name, rank): (&'a str, &'a StepRank)| {
        let parts = &rank.parts;
        let exposed = Exposed::ALL.map(|kind| parts.exposed_us.get(kind.name()).copied().unwrap_or(0.0));
        let first = (name, rank.rank, rank.device.as_str(), rank.stage, parts.compute_us, parts.exposed_comm_us);
        (first, exposed, (parts.bubble_us, parts.optimizer_us, parts.straggler_wait_us))
    };
    write_csv(out, &header, rows.map(row))
}
