//! The time of a step from closed forms: kernels, messages by bandwidth and hops, a pipeline that is played, and what is exposed by the
//! rules of docs/steps-accuracy.md. No engine.

use std::collections::BTreeMap;

use sim_core::units::{Bytes, Span, Time};
use sim_workload::compute::{Figures, LayerTimes, Machine};
use sim_workload::messages::{self, Message, Operation, Overlap as May, Phase, Place};
use sim_workload::model::LayerKind;
use sim_workload::model::kernels::{Kernel, Pass};
use sim_workload::parallel::{Group, Local};
use sim_workload::pipeline::{ChunkTimes, Timeline, play};

use crate::cluster::CALL_US;
use crate::mapping::Case;

/// Where a step's time went, in seconds: of the first stage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) total: f64,
    pub(crate) compute: f64,
    pub(crate) exposed: BTreeMap<String, f64>,
    pub(crate) bubble: f64,
    pub(crate) optimizer: f64,
}

/// What is fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    /// The part of the laws' rates that kernels reach.
    pub(crate) efficiency: f64,
}

impl Fit {
    pub(crate) const NONE: Self = Self { efficiency: 1.0 };
}

pub(crate) fn machine(case: &Case, fit: Fit) -> Machine {
    let figures = Figures::builtin();
    let device = figures.device(&case.row.gpu).unwrap_or_else(|e| panic!("{e}"));
    let mut machine = Machine::of(device, case.number, case.cluster.memory, figures);
    if case.graph {
        machine.launch = figures.graph_launch;
    }
    let flash_2 = matches!(case.row.family, "torchtitan" | "llm-foundry-fsdp" | "llama3" | "nemo-long-seq");
    if flash_2 && case.row.gpu.starts_with('h') {
        machine.attention = (FLASH_2_ON_HOPPER, FLASH_2_ON_HOPPER);
    }
    if case.row.family == "torchtitan" && case.row.recompute.as_deref() == Some("selective") {
        machine.again = 500_000;
    }
    machine.gradient =
        if matches!(case.row.family, "torchtitan" | "llm-foundry-fsdp") { 2 } else { 2 * case.widths.gradient };
    machine.scaled((fit.efficiency / slowest(case.row.gpus) * 1e6).round() as u64)
}

/// What FlashAttention 2 reaches of an H100's peak: the abstract of FlashAttention 3 (arXiv 2407.08608).
const FLASH_2_ON_HOPPER: u64 = 350_000;

/// GPUs of one node differ by 5 % and more (ml-engineering, accelerator chapter): a range of eight, which is 2.85 σ.
const GPU_SIGMA: f64 = 0.05 / 2.85;

/// How much longer than the median the slowest of `n` GPUs takes, for whom all others wait: the expected largest of n normal numbers.
fn slowest(n: u64) -> f64 {
    if n < 2 {
        return 1.0;
    }
    let root = (2.0 * (n as f64).ln()).sqrt();
    let largest = root - ((n as f64).ln().ln() + (4.0 * std::f64::consts::PI).ln()) / (2.0 * root) + 0.5772 / root;
    (GPU_SIGMA * largest).exp()
}

/// Messages by closed forms.
pub(crate) struct Closed<'a> {
    case: &'a Case,
    machine: Machine,
    spreads: BTreeMap<Group, (u64, u64, u64)>,
}

impl<'a> Closed<'a> {
    pub(crate) fn new(case: &'a Case, fit: Fit) -> Self {
        Self { case, machine: machine(case, fit), spreads: BTreeMap::new() }
    }

    /// Ranks of a group, most of them in a domain, and domains.
    fn spread(&mut self, group: Group) -> (u64, u64, u64) {
        let case = self.case;
        *self.spreads.entry(group).or_insert_with(|| {
            let members = case.ranks.group(group, 0);
            let spread = case.placement.spread(&members);
            let domains = if group == Group::Pipeline {
                // It is neighbours that send.
                1 + u64::from(members.windows(2).any(|pair| case.placement.spread(pair).domains > 1))
            } else {
                spread.domains
            };
            (spread.ranks, spread.most_in_domain, domains)
        })
    }

    /// Whether messages of a group leave the scale-up network.
    pub(crate) fn leaves(&mut self, group: Group) -> bool {
        self.spread(group).2 > 1
    }

    /// The time of a call alone.
    pub(crate) fn call(&mut self, operation: Operation, size: Bytes, group: Group) -> f64 {
        let (n, k, domains) = self.spread(group);
        if n <= 1 {
            return 0.0;
        }
        let (up, up_step) = self.case.cluster.up;
        let (out, out_step) = self.case.cluster.out;
        let (up, out) = (up.get() as f64, out.get() as f64);
        let bytes = size.get() as f64;
        let call = CALL_US * 1e-6;
        match operation {
            Operation::Send => {
                let (rate, step) = if domains > 1 { (out, out_step) } else { (up, up_step) };
                call + step.as_secs() + bytes / rate
            }
            Operation::AllToAll => {
                let each = bytes / n as f64;
                let inside = each * (k - 1) as f64 / up;
                let outside = each * (n - k) as f64 / out;
                call + up_step.as_secs() + if domains > 1 { out_step.as_secs() } else { 0.0 } + inside.max(outside)
            }
            Operation::AllReduce | Operation::AllGather | Operation::ReduceScatter => {
                let rate = if domains > 1 { (out * k as f64).min(up) } else { up };
                let rounds = if operation == Operation::AllReduce { 2.0 } else { 1.0 };
                let wire = rounds * bytes * (n - 1) as f64 / n as f64;
                // A ring's hops; trees take a logarithm of them for small messages.
                let ring = (n - domains) as f64 * up_step.as_secs() + (domains - 1) as f64 * out_step.as_secs();
                let tree = (n as f64).log2().ceil() * 2.0 * out_step.as_secs().max(up_step.as_secs());
                call + wire / rate + rounds * ring.min(if bytes < 1e6 { tree } else { f64::INFINITY })
            }
        }
    }

    fn message(&mut self, message: &Message) -> f64 {
        self.call(message.operation, message.bytes, message.group)
    }

    /// The kernel that a message is at.
    fn at<'k>(kernels: &'k [Kernel], message: &Message) -> Option<&'k Kernel> {
        let (Place::Before(name) | Place::After(name) | Place::BeforeWeights(name)) = message.place else {
            return None;
        };
        kernels.iter().find(|k| k.name == name)
    }

    /// What of a message inside a layer is not hidden, and what cutting the product beside it adds.
    fn exposed(&mut self, kernels: &[Kernel], message: &Message) -> f64 {
        let time = self.message(message);
        let (overlap, width) = (self.case.overlap, self.case.widths.activation);
        let lost = Figures::builtin().overlap.scale_up as f64 / 1e6;
        let Some(kernel) = Self::at(kernels, message) else { return time };
        let frozen = self.case.choices.adapters.is_some();
        let kernel_time = |pass| self.machine.kernel(kernel, pass, width).as_secs();
        let back = message.phase == Phase::Backward;
        let pass = if back { Pass::DataGradient } else { Pass::Forward };
        let mut hides = 0.0;
        let mut more = 0.0;
        if message.overlap == May::SplitGemm && overlap.tensor > 1 && !matches!(message.place, Place::BeforeWeights(_))
        {
            let parts = overlap.tensor as f64;
            hides += kernel_time(pass).min(time) * (parts - 1.0) / parts;
            more = self.machine.cut(kernel, pass, width, overlap.tensor).as_secs() - kernel_time(pass);
        }
        match message.place {
            // Inputs again, for the gradient by the weights: while that by the inputs is worked out.
            Place::BeforeWeights(_) if frozen => return 0.0,
            Place::BeforeWeights(_) => hides += kernel_time(Pass::DataGradient),
            // The sum of a gradient by the inputs: while that by the weights is worked out.
            Place::After(_) if back && !frozen => hides += kernel_time(Pass::WeightGradient),
            _ => {}
        }
        if message.overlap == May::Attention && overlap.context {
            // Each block's attention hides the next block's way.
            hides += kernel_time(pass) / self.case.sizes.context as f64;
        }
        let hidden = hides.min(time);
        time - hidden * (1.0 - lost) + more
    }

    /// What a layer's messages add to it, forward and backward, by group.
    fn layer_messages(&mut self, kind: LayerKind, list: &[(Message, u64)]) -> (Sums, Sums) {
        let kernels = self.case.model.kernels_of(kind, None, &self.case.sizes.share());
        let (mut forward, mut backward) = (Sums::default(), Sums::default());
        for (message, _) in list {
            let messages::Per::Layer(of) = message.per else { continue };
            if of.is_some_and(|k| k != kind)
                || message.overlap == May::PreviousUnit
                || message.place == Place::Gradients
            {
                continue;
            }
            let time = self.exposed(&kernels, message) * message.count as f64;
            match message.phase {
                Phase::Forward => forward.add(message.group, time),
                Phase::Backward | Phase::Recompute => backward.add(message.group, time),
                _ => {}
            }
        }
        (forward, backward)
    }

    /// ZeRO-3: a layer's own units beside its kernels; returns the longer of the two less the kernels.
    fn units(&mut self, kind: LayerKind, times: LayerTimes, list: &[(Message, u64)]) -> (f64, f64) {
        let (mut gathers, mut returns) = (0.0, 0.0);
        for (message, _) in list {
            let messages::Per::Layer(Some(of)) = message.per else { continue };
            if of != kind || !(message.overlap == May::PreviousUnit || message.place == Place::Gradients) {
                continue;
            }
            let time = self.message(message);
            if message.phase == Phase::Forward { gathers += time } else { returns += time }
        }
        let (_, _, domains) = self.spread(Group::Shard);
        let figures = Figures::builtin();
        let lost = if domains > 1 { figures.overlap.scale_out } else { figures.overlap.scale_up } as f64 / 1e6;
        let over = |work: f64, messages: f64| {
            // Work beside messages goes on at a part of its rate.
            let slowed = if messages * (1.0 - lost) >= work { work / (1.0 - lost) } else { work + messages * lost };
            slowed.max(messages) - work
        };
        (over(times.forward.as_secs(), gathers), over((times.data + times.weight).as_secs(), returns))
    }
}

/// Seconds by group.
#[derive(Clone, Debug, Default)]
struct Sums(BTreeMap<Group, f64>);

impl Sums {
    fn add(&mut self, group: Group, time: f64) {
        *self.0.entry(group).or_default() += time;
    }

    fn total(&self) -> f64 {
        self.0.values().sum()
    }
}

fn span(seconds: f64) -> Span {
    Span::from_us_f64(seconds * 1e6)
}

/// The step.
pub(crate) fn step(case: &Case, fit: Fit) -> Parts {
    let (job, sizes) = (case.job(), &case.sizes);
    let mut closed = Closed::new(case, fit);
    let mut parts = Parts::default();
    let mut of = Vec::new();
    let chunks = sizes.virtual_stages;
    let width = case.widths.activation;
    for stage in 0..sizes.pipeline {
        let list = messages::of_stage(&job, stage);
        let mut layers: BTreeMap<LayerKind, (Sums, Sums, f64, f64)> = BTreeMap::new();
        for chunk in 0..chunks {
            let times = closed.machine.chunk(&job, stage, chunk);
            let (mut forward, mut backward) = (times.forward.as_secs(), times.data.as_secs());
            let weight = times.weight.as_secs();
            if stage == 0 {
                parts.compute += (forward + backward + weight) * sizes.micros() as f64;
            }
            for index in sizes.layers_of(stage, chunk) {
                let kind = case.model.kind(index);
                let (f, b, uf, ub) = layers.entry(kind).or_insert_with(|| {
                    let (f, b) = closed.layer_messages(kind, &list);
                    let mut layer = closed.machine.layer(&case.model, index, &sizes.share(), width);
                    if sizes.recompute == sim_workload::model::activations::Recompute::Full {
                        layer.data += layer.forward;
                    }
                    let (uf, ub) = closed.units(kind, layer, &list);
                    (f, b, uf, ub)
                });
                forward += f.total() + *uf;
                backward += b.total() + *ub;
                if stage == 0 {
                    for (group, time) in f.0.iter().chain(&b.0) {
                        *parts.exposed.entry(group.name().to_owned()).or_default() += time * sizes.micros() as f64;
                    }
                    *parts.exposed.entry("shard".to_owned()).or_default() += (*uf + *ub) * sizes.micros() as f64;
                }
            }
            // Embedding and head.
            for (message, _) in &list {
                if message.per != messages::Per::Micro
                    || message.place == Place::Unit
                    || message.place == Place::Gradients
                {
                    continue;
                }
                let first = message.name.contains("embedding");
                if first == (chunk == 0) && (first || chunk + 1 == chunks) {
                    let time = closed.message(message) * message.count as f64;
                    if message.phase == Phase::Forward { forward += time } else { backward += time }
                }
            }
            of.push([span(forward), span(backward), span(weight), span((forward + backward + weight) * 0.95)]);
        }
    }
    let boundary = messages::of_stage(&job, 0)
        .into_iter()
        .find(|(m, _)| m.operation == Operation::Send && m.group == Group::Pipeline);
    let mut transfer = 0.0;
    if let Some((message, _)) = boundary {
        transfer = closed.message(&message);
    }
    if !case.overlap.pipeline {
        for times in &mut of {
            times[0] += span(transfer);
            times[1] += span(transfer);
        }
        transfer = 0.0;
    }
    let times = ChunkTimes { of, chunks, transfer: span(transfer) };
    let timeline = play(sizes.schedule, sizes.shape(), &times).unwrap_or_else(|e| panic!("{e}"));
    let end = timeline.end().since(Time::ZERO).as_secs();
    parts.bubble = timeline.idle(0).as_secs();
    let (reduced, gathered) = data(&mut closed, &timeline, &times, end);
    let update = (0..sizes.pipeline)
        .map(|s| {
            let local = messages_trained(case, s);
            let shards = if case.sizes.zero >= sim_workload::parallel::Zero::Optimizer { sizes.shard } else { 1 };
            closed.machine.update(local.div_ceil(shards), &case.widths).as_secs()
        })
        .fold(0.0, f64::max);
    let mut agreed = 0.0;
    for (message, n) in messages::of_stage(&job, 0).iter().filter(|(m, _)| m.phase == Phase::Update) {
        agreed += closed.message(message) * *n as f64;
    }
    *parts.exposed.entry("dp".to_owned()).or_default() += reduced + gathered;
    *parts.exposed.entry("update".to_owned()).or_default() += agreed;
    parts.optimizer = update;
    parts.total = end + reduced + agreed + update + gathered;
    parts
}

fn messages_trained(case: &Case, stage: u64) -> u64 {
    match case.choices.adapters {
        Some(adapters) => adapters.parameters(&case.model).div_ceil(case.sizes.tensor * case.sizes.pipeline),
        None => Local::of_stage(&case.model, &case.sizes, stage).total(),
    }
}

/// Data-parallel messages: what the step waits for after its last backward pass, and before its first forward pass.
fn data(closed: &mut Closed<'_>, timeline: &Timeline, times: &ChunkTimes, end: f64) -> (f64, f64) {
    let (case, job) = (closed.case, closed.case.job());
    let (mut latest, mut gathered) = (end, 0.0_f64);
    for stage in 0..case.sizes.pipeline {
        let list = messages::of_stage(&job, stage);
        let mut reduce = 0.0;
        let mut gather = 0.0;
        for (message, n) in &list {
            match (message.phase, message.place) {
                (Phase::LastBackward, _) => reduce += closed.message(message) * *n as f64,
                (Phase::FirstForward, _) => gather += closed.message(message) * *n as f64,
                _ => {}
            }
        }
        let chunks = case.sizes.virtual_stages;
        let ran = &timeline.stages[stage as usize];
        let last = ran.last().map_or(0.0, |r| r.end.since(Time::ZERO).as_secs());
        // Gradients become ready chunk by chunk, of a single chunk bit by bit through its last backward pass.
        let (pieces, ready): (u64, Box<dyn Fn(u64) -> f64>) = if !case.overlap.gradients {
            (1, Box::new(move |_| end))
        } else if chunks > 1 {
            let ready: Vec<f64> = (0..chunks)
                .map(|c| {
                    ran.iter()
                        .rev()
                        .find(|r| r.slot.frees().is_some_and(|cell| cell.chunk == c))
                        .map_or(last, |r| r.end.since(Time::ZERO).as_secs())
                })
                .collect();
            let mut sorted = ready;
            sorted.sort_by(f64::total_cmp);
            (chunks, Box::new(move |i| sorted[i as usize]))
        } else {
            let t = times.of[stage as usize * chunks as usize];
            let whole = (t[1] + t[2]).as_secs();
            let pieces = case.model.layers.div_ceil(case.sizes.pipeline);
            (pieces, Box::new(move |i| last - whole * (pieces - 1 - i) as f64 / pieces as f64))
        };
        let mut at = 0.0_f64;
        for i in 0..pieces {
            at = at.max(ready(i)) + reduce / pieces as f64;
        }
        latest = latest.max(at);
        if case.overlap.parameters {
            // The first chunk's come before its forward pass; the others have the forwards between.
            let t = times.of[stage as usize * chunks as usize][0].as_secs();
            let pieces = if chunks > 1 { chunks } else { case.model.layers.div_ceil(case.sizes.pipeline) };
            let between = if chunks > 1 { t * case.sizes.pipeline as f64 } else { t / pieces as f64 };
            let each = gather / pieces as f64;
            let late = (0..pieces).map(|i| each * (i + 1) as f64 - between * i as f64).fold(0.0, f64::max);
            gathered = gathered.max((late - stage as f64 * t).max(0.0));
        } else {
            gathered = gathered.max(gather);
        }
    }
    (latest - end, gathered)
}
