//! What a step came to, from what the player wrote down.

use std::collections::BTreeMap;

use sim_core::units::{Span, Time};
use sim_report::plot::{SpanKind, Timeline, TimelineRank, TimelineSpan};
use sim_report::result::{
    Exposed, MAX_PATH, StepParts, StepPath, StepRank, StepResult, StepReuse, StepSlow, StepStage,
};
use sim_topology::Fabric;
use sim_workload::messages::Phase;
use sim_workload::parallel::{Group, Ranks};
use sim_workload::step::outcome::{Breakdown, Outcome, Piece, PieceKind, Ran};
use sim_workload::step::plan::{Label, Plan, Stream};

use super::super::PlayedStep;
use super::experts;
use crate::scenario::Step;

/// Factor of a rank's kernels from which it is told as slow.
const SLOW: f64 = 1.01;
/// Slow ranks that are listed.
const MOST_SLOW: usize = 32;

/// The dimension whose messages a kind of group has.
pub(crate) const fn exposed_kind(group: Group) -> Exposed {
    match group {
        Group::Tensor => Exposed::Tensor,
        Group::Context => Exposed::Context,
        Group::Data | Group::DataContext | Group::Shard | Group::Replicas | Group::ExpertData => Exposed::Data,
        Group::Pipeline => Exposed::Pipeline,
        Group::Ends => Exposed::Ends,
        Group::Expert => Exposed::Expert,
        Group::ExpertTensor => Exposed::ExpertTensor,
        Group::Model | Group::All => Exposed::All,
    }
}

const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::FirstForward => "first forward",
        Phase::Forward => "forward",
        Phase::Recompute => "recompute",
        Phase::Backward => "backward",
        Phase::LastBackward => "last backward",
        Phase::Update => "update",
    }
}

/// Time in picoseconds, added up over ranks.
#[derive(Clone, Debug, Default)]
struct Sums {
    ranks: u128,
    compute: u128,
    exposed: BTreeMap<Exposed, u128>,
    bubble: u128,
    optimizer: u128,
    straggler: u128,
}

impl Sums {
    fn add(&mut self, rank: &Breakdown) {
        let ps = |span: Span| u128::from(span.as_ps());
        self.ranks += 1;
        self.compute += ps(rank.compute);
        for (group, span) in &rank.exposed {
            *self.exposed.entry(exposed_kind(*group)).or_default() += ps(*span);
        }
        self.bubble += ps(rank.bubble);
        self.optimizer += ps(rank.optimizer);
        self.straggler += ps(rank.straggler);
    }

    /// The mean rank.
    fn mean(&self) -> StepParts {
        let us = |ps: u128| ps as f64 / self.ranks.max(1) as f64 / 1e6;
        StepParts {
            compute_us: us(self.compute),
            exposed_comm_us: us(self.exposed.values().sum()),
            exposed_us: self
                .exposed
                .iter()
                .filter(|(_, ps)| **ps > 0)
                .map(|(kind, ps)| (kind.name().to_owned(), us(*ps)))
                .collect(),
            bubble_us: us(self.bubble),
            optimizer_us: us(self.optimizer),
            straggler_wait_us: us(self.straggler),
        }
    }
}

fn parts(rank: &Breakdown) -> StepParts {
    let mut one = Sums::default();
    one.add(rank);
    one.mean()
}

/// The mean of ranks.
pub(super) fn mean(ranks: &[Breakdown]) -> StepParts {
    let mut all = Sums::default();
    ranks.iter().for_each(|rank| all.add(rank));
    all.mean()
}

/// A rank's time without kernels.
fn waited(rank: &Breakdown) -> Span {
    rank.communication() + rank.bubble + rank.straggler
}

/// Names of ranks, and where they are.
struct Names<'a> {
    fabric: &'a Fabric,
    step: &'a Step,
    stages: Vec<u64>,
}

impl Names<'_> {
    fn device(&self, rank: u32) -> String {
        let gpu = self.step.gpus.get(rank as usize).and_then(|gpu| self.fabric.gpus().get(*gpu as usize));
        gpu.map_or_else(String::new, |gpu| self.fabric.device(*gpu).name.clone())
    }

    fn stage(&self, rank: u32) -> u64 {
        self.stages.get(rank as usize).copied().unwrap_or(0)
    }

    fn rank(&self, rank: u32, time: &Breakdown) -> StepRank {
        StepRank { rank, device: self.device(rank), stage: self.stage(rank), parts: parts(time) }
    }
}

/// What the times of steps in order come to, and all ranks, pieces and spans of the median one if they are `kept`.
pub(super) fn result(
    (step, fabric): (&Step, &Fabric),
    (plan, ranks): (&Plan, &Ranks),
    (times, outcome): (&[Time], &Outcome),
    reuse: StepReuse,
    kept: bool,
) -> (StepResult, PlayedStep) {
    let outline = step.outline();
    let stages = (0..ranks.len()).map(|rank| ranks.coordinates(rank).stage).collect();
    let names = Names { fabric, step, stages };
    let time_us = outcome.end.as_us();
    let seconds = (time_us / 1e6).max(f64::MIN_POSITIVE);
    let mut all = Sums::default();
    let mut by_stage: BTreeMap<u64, Sums> = BTreeMap::new();
    for (rank, time) in outcome.ranks.iter().enumerate() {
        all.add(time);
        by_stage.entry(names.stage(rank as u32)).or_default().add(time);
    }
    // The first of equals.
    let worst = (0..outcome.ranks.len()).rev().max_by_key(|rank| waited(&outcome.ranks[*rank])).unwrap_or(0);
    let tflops = outline.model_tflop / outline.gpus.max(1) as f64 / seconds;
    let stages = by_stage.iter().map(|(stage, sums)| StepStage { stage: *stage, parts: sums.mean() });
    let result = StepResult {
        time_us,
        parts: all.mean(),
        tokens_per_s: outline.tokens as f64 / seconds,
        tokens_per_s_per_gpu: outline.tokens as f64 / seconds / outline.gpus.max(1) as f64,
        tflops_per_gpu: tflops,
        mfu: tflops / outline.peak_tflops.max(f64::MIN_POSITIVE),
        worst: outcome.ranks.get(worst).map(|time| names.rank(worst as u32, time)).unwrap_or_default(),
        stages: if by_stage.len() > 1 { stages.collect() } else { Vec::new() },
        critical_path: path(&outcome.path, time_us),
        slow_ranks: slow(&outcome.ranks, &names),
        late: experts::late(outcome, |rank| names.device(rank)),
        experts: experts::experts(step, plan, ranks, outcome),
        steps_us: if times.len() > 1 { times.iter().map(|t| t.as_us()).collect() } else { Vec::new() },
        reuse,
        alone: None,
        outline,
    };
    let mut played = PlayedStep { name: step.title().to_owned(), ..PlayedStep::default() };
    if kept {
        let rows = outcome.ranks.iter().enumerate();
        played.ranks = rows.map(|(rank, time)| names.rank(rank as u32, time)).collect();
        played.path.clone_from(&outcome.path);
        played.timeline = timeline(plan, outcome, &names);
    }
    (result, played)
}

/// Pieces of the critical path that are alike, the longest first.
fn path(pieces: &[Piece], time_us: f64) -> Vec<StepPath> {
    let mut rows: BTreeMap<(PieceKind, &'static str, Phase), (u64, u128)> = BTreeMap::new();
    for piece in pieces {
        let row = rows.entry((piece.kind, piece.label.what, piece.label.phase)).or_default();
        row.0 += 1;
        row.1 += u128::from(piece.to.since(piece.from).as_ps());
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by(|a, b| b.1.1.cmp(&a.1.1).then(a.0.cmp(&b.0)));
    rows.truncate(MAX_PATH);
    let row = |((kind, what, when), (count, ps)): ((PieceKind, &'static str, Phase), (u64, u128))| StepPath {
        what: what.to_owned(),
        kind: kind_name(kind).to_owned(),
        phase: phase(when).to_owned(),
        count,
        time_us: ps as f64 / 1e6,
        share: ps as f64 / 1e6 / time_us.max(f64::MIN_POSITIVE),
    };
    rows.into_iter().map(row).collect()
}

const fn kind_name(kind: PieceKind) -> &'static str {
    match kind {
        PieceKind::Compute => "compute",
        PieceKind::Message(group) => group.name(),
        PieceKind::Late => "late",
    }
}

/// Ranks whose kernels take longer than the median of their stage, the slowest first.
fn slow(ranks: &[Breakdown], names: &Names<'_>) -> Vec<StepSlow> {
    let mut by_stage: BTreeMap<u64, Vec<Span>> = BTreeMap::new();
    for (rank, time) in ranks.iter().enumerate() {
        by_stage.entry(names.stage(rank as u32)).or_default().push(time.compute);
    }
    for times in by_stage.values_mut() {
        times.sort_unstable();
    }
    let factor = |rank: usize| {
        let times = by_stage.get(&names.stage(rank as u32))?;
        let median = times.get((times.len() - 1) / 2)?.as_us();
        let factor = ranks[rank].compute.as_us() / median.max(f64::MIN_POSITIVE);
        (factor > SLOW && times.len() > 1).then_some((rank, factor))
    };
    let mut list: Vec<(usize, f64)> = (0..ranks.len()).filter_map(factor).collect();
    list.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    list.truncate(MOST_SLOW);
    let row = |(rank, factor): (usize, f64)| StepSlow { rank: rank as u32, device: names.device(rank as u32), factor };
    list.into_iter().map(row).collect()
}

/// What the watched ranks did.
fn timeline(plan: &Plan, outcome: &Outcome, names: &Names<'_>) -> Timeline {
    let mut ranks: BTreeMap<u32, Vec<TimelineSpan>> = BTreeMap::new();
    for ran in outcome.ran.iter().filter(|ran| ran.to > ran.from) {
        ranks.entry(ran.rank).or_default().push(span(plan, ran));
    }
    let stages = plan.stages.len();
    let row = |(rank, spans): (u32, Vec<TimelineSpan>)| {
        let stage = if stages > 1 { format!(", stage {}", names.stage(rank)) } else { String::new() };
        TimelineRank { rank, name: format!("rank {rank} ({}){stage}", names.device(rank)), spans }
    };
    Timeline {
        title: format!("{} on {} GPUs", names.step.title(), names.step.sizes.gpus),
        ranks: ranks.into_iter().map(row).collect(),
        end_us: outcome.end.as_us(),
    }
}

fn span(plan: &Plan, ran: &Ran) -> TimelineSpan {
    let channel = |channel: u32| plan.channels.get(channel as usize);
    let lane = match ran.stream {
        Stream::Compute => "compute".to_owned(),
        Stream::Messages(group, 0) => group.name().to_owned(),
        Stream::Messages(group, lane) => format!("{} {}", group.name(), lane + 1),
        Stream::Send(number) => format!("to stage {}", channel(number).map_or(0, |c| c.to)),
        Stream::Receive(number) => format!("from stage {}", channel(number).map_or(0, |c| c.from)),
    };
    let kind = match (ran.stream, ran.label.phase) {
        (Stream::Compute, Phase::Forward | Phase::FirstForward) => SpanKind::Forward,
        (Stream::Compute, Phase::Recompute) => SpanKind::Recompute,
        (Stream::Compute, Phase::Update) => SpanKind::Update,
        (Stream::Compute, _) => SpanKind::Backward,
        _ => SpanKind::Message,
    };
    TimelineSpan { lane, name: label(&ran.label), kind, from_us: ran.from.as_us(), to_us: ran.to.as_us() }
}

/// `FFN up, forward, layer 3, micro batch 0`.
fn label(label: &Label) -> String {
    let mut out = format!("{}, {}", label.what, phase(label.phase));
    if let Some(layer) = label.layer {
        out += &format!(", layer {layer}");
    }
    if let Some(micro) = label.micro {
        out += &format!(", micro batch {micro}");
    }
    out
}

/// A piece of the critical path as a row of a file.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct PathRow {
    workload: String,
    from_us: f64,
    to_us: f64,
    rank: u32,
    kind: &'static str,
    what: &'static str,
    phase: &'static str,
    micro_batch: Option<u32>,
    layer: Option<u32>,
}

impl PlayedStep {
    /// The critical path as rows of a file, in order of time.
    pub(crate) fn path_rows(&self) -> impl Iterator<Item = PathRow> {
        self.path.iter().map(|piece| PathRow {
            workload: self.name.clone(),
            from_us: piece.from.as_us(),
            to_us: piece.to.as_us(),
            rank: piece.rank,
            kind: kind_name(piece.kind),
            what: piece.label.what,
            phase: phase(piece.label.phase),
            micro_batch: piece.label.micro,
            layer: piece.label.layer,
        })
    }
}
