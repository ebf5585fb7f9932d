//! The plan of a step from a job: what each stage does in the order of its schedule, with every message of
//! [`messages`] where its place is.
//!
//! In the order of frameworks: kernels in one stream; calls of a kind of group in one stream, those of shards in two (gathers, and
//! reductions of units); messages to and from each neighbour in a stream of their own. A gradient by the weights is worked out while
//! the sum of that by the inputs is under way (Megatron-LM core/tensor_parallel/layers.py); gradients are reduced bucket by bucket as
//! they become whole; parameters that the step before has updated are gathered in the first forward pass, so that a step is one period
//! of a training run.

mod count;
mod gradients;
mod layer;
mod uneven;
mod writer;

#[cfg(test)]
mod tests;

pub use count::{Operations, operations};
use gradients::{Bucket, Buckets, Ready, call_of, step_label};
use layer::{Gradients, Passes, Unit};
use uneven::Uneven;
use writer::{Item, Items, Shared, Writer};

use super::exchange;
use super::overlap::Overlap;
use super::plan::{Call, Channel, Label, Plan, Stream, Work};
use crate::compute::Machine;
use crate::job::{Job, Mode};
use crate::messages::{self, Message, Operation, Per, Phase, Place};
use crate::model::LayerKind;
use crate::model::kernels::Kernel;
use crate::parallel::{Group, Local, Zero};
use crate::pipeline::{Cell, Slot};

/// What each stage does in a step.
#[must_use]
pub fn plan(job: &Job<'_>, machine: &Machine, overlap: &Overlap) -> Plan {
    let pipes = job.sizes.schedule.pipes(job.sizes.shape());
    let mut shared = Shared::default();
    let mut of_place = Vec::new();
    for pipe in &pipes {
        let mut list = Vec::new();
        for (at, (stage, _)) in pipe.iter().enumerate() {
            let mut neighbour = |to: usize, phase| {
                let to = pipe.get(to).map(|(s, _)| *s).filter(|s| s != stage)?;
                let all = messages::of_stage(job, *stage).into_iter().map(|(m, _)| m);
                let message = all.filter(|m| m.per == Per::Boundary).find(|m| m.phase == phase)?;
                let call = shared.call(call_of(&message));
                shared.channels.push(Channel { from: *stage as u32, to: to as u32, call });
                Some(shared.channels.len() as u32 - 1)
            };
            let next = neighbour(at + 1, Phase::Forward);
            let previous = at.checked_sub(1).and_then(|to| neighbour(to, Phase::Backward));
            list.push((next, previous));
        }
        of_place.push(list);
    }
    let shifted = job.sizes.schedule.validates_later() && job.sizes.pipeline > 1 && job.mode == Mode::Training;
    let mut states = Vec::new();
    for stage in (0..job.sizes.pipeline - 1).filter(|_| shifted) {
        let mut all = messages::of_stage(job, stage).into_iter().map(|(m, _)| m);
        let message = all.find(|m| m.per == Per::Boundary && m.phase == Phase::Update);
        states.extend(message.map(|message| {
            let call = shared.call(call_of(&message));
            shared.channels.push(Channel { from: stage as u32, to: stage as u32 + 1, call });
            shared.channels.len() as u32 - 1
        }));
    }
    let uneven = Uneven::default();
    let passes = Passes::new(job, machine, overlap, &uneven);
    let maker = Maker { job, overlap, passes, pipes: &pipes, channels: &of_place, states };
    let stages = (0..job.sizes.pipeline).map(|stage| maker.stage(stage, machine, &mut shared)).collect();
    drop(maker);
    let (calls, channels) = (shared.calls, shared.channels);
    Plan { stages, calls, channels, shifted, exchanges: exchange::of_job(job), uneven: uneven.lists() }
}

/// What all stages are written with.
struct Maker<'a> {
    job: &'a Job<'a>,
    overlap: &'a Overlap,
    passes: Passes<'a>,
    pipes: &'a [Vec<(u64, u64)>],
    /// For each place of each pipe the channels on which it sends forward and backward.
    channels: &'a [Vec<(Option<u32>, Option<u32>)>],
    /// Where each stage passes on what its gradients say, if the update waits for no more than those before it.
    states: Vec<u32>,
}

/// What a slot does: before its kernels, its kernels (of one half of a micro batch and of the other, where these take turns), after them.
#[derive(Debug, Default)]
struct Parts {
    head: Items,
    first: Items,
    second: Items,
    tail: Items,
}

impl Parts {
    /// The half that comes last.
    const fn later(&mut self, halves: bool) -> &mut Items {
        if halves { &mut self.second } else { &mut self.first }
    }

    /// A unit begins whose parameters are there.
    fn begin(&mut self, halves: bool) {
        if halves {
            self.first.push(Item::UnitBegins);
            self.second.push(Item::UnitBegins);
        }
    }

    /// One after the other.
    fn joined(&self) -> Items {
        let mut out = Items::default();
        [&self.head, &self.first, &self.second, &self.tail].into_iter().for_each(|items| out.append(items));
        out
    }
}

/// A chunk of a stage: a place of a pipe.
struct Chunk<'a> {
    units: Vec<OwnUnit>,
    messages: &'a StageMessages,
    /// Where activations come from and go to, and gradients.
    from: Option<u32>,
    to: Option<u32>,
    gradient_from: Option<u32>,
    gradient_to: Option<u32>,
}

/// A unit with its kernels.
struct OwnUnit {
    kernels: Vec<Kernel>,
    layer: Option<u32>,
    kind: UnitKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UnitKind {
    Embedding,
    Layer(LayerKind),
    Prediction(LayerKind),
    Head,
}

/// The messages of a stage by what they are of.
struct StageMessages {
    all: Vec<(Message, u64)>,
    /// Of a layer by its kind: of the model, and of multi-token prediction.
    dense: [Vec<Message>; 2],
    experts: [Vec<Message>; 2],
    micro: Vec<Message>,
}

impl StageMessages {
    fn new(all: Vec<(Message, u64)>) -> Self {
        let of = |kind: LayerKind| {
            [false, true].map(|prediction| {
                let layer = |m: &&(Message, u64)| match m.0.per {
                    Per::Layer(of) => of.is_none_or(|of| of == kind),
                    Per::Prediction => prediction,
                    _ => false,
                };
                all.iter().filter(layer).map(|(m, _)| *m).collect()
            })
        };
        let (dense, experts) = (of(LayerKind::Dense), of(LayerKind::Experts));
        let micro = all.iter().filter(|m| m.0.per == Per::Micro).map(|(m, _)| *m).collect();
        Self { all, dense, experts, micro }
    }

    fn of(&self, kind: UnitKind) -> &[Message] {
        match kind {
            UnitKind::Layer(LayerKind::Dense) => &self.dense[0],
            UnitKind::Layer(LayerKind::Experts) => &self.experts[0],
            UnitKind::Prediction(LayerKind::Dense) => &self.dense[1],
            UnitKind::Prediction(LayerKind::Experts) => &self.experts[1],
            UnitKind::Embedding | UnitKind::Head => &self.micro,
        }
    }

    /// Messages of the unit's parameters (ZeRO-3), of a phase and operation.
    fn of_unit(&self, kind: UnitKind, operation: Operation, phase: Phase) -> Vec<Message> {
        let named = |m: &&Message| match kind {
            UnitKind::Embedding => m.name.ends_with(" embedding"),
            UnitKind::Head => m.name.ends_with(" head") || m.name.ends_with(" prediction"),
            UnitKind::Layer(_) | UnitKind::Prediction(_) => true,
        };
        let place = if operation == Operation::AllGather { Place::Unit } else { Place::Gradients };
        let own = |m: &&Message| m.operation == operation && m.phase == phase && m.place == place;
        self.of(kind).iter().filter(own).filter(named).copied().collect()
    }
}

impl Maker<'_> {
    fn stage(&self, stage: u64, machine: &Machine, shared: &mut Shared) -> super::plan::Stage {
        let job = self.job;
        let of_stage = StageMessages::new(messages::of_stage(job, stage));
        let rounds = messages::rounds(job, stage);
        let buckets = Buckets::new(job, &of_stage.all, rounds, !self.overlap.gradients);
        let mut writer = Writer::new(shared, self.passes.uneven, job, buckets);
        let hidden = self.overlap.parameters && job.mode == Mode::Training;
        if hidden {
            writer.gathers = Buckets::gathers(&of_stage.all);
            // A stage may be in the step before until it gets something to do.
            if stage == 0 || self.states.is_empty() {
                writer.gather(&[]);
            }
        }
        let mut slots = job.sizes.schedule.slots(job.sizes.shape(), stage);
        if job.mode == Mode::Inference {
            slots = slots.into_iter().filter_map(|s| s.forward().map(Slot::Forward)).collect();
        }
        let chunks = self.chunks(stage, &of_stage);
        let chunk = |cell: Cell| &chunks[usize::try_from(cell.chunk).unwrap_or(0).min(chunks.len() - 1)];
        // The first and the last micro batch that passes each chunk.
        let first: Vec<Option<Cell>> = (0..chunks.len() as u64)
            .map(|c| slots.iter().filter_map(|s| s.forward()).find(|cell| cell.chunk == c))
            .collect();
        let last: Vec<Option<Cell>> = (0..chunks.len() as u64)
            .map(|c| slots.iter().rev().filter_map(|s| s.frees()).find(|cell| cell.chunk == c))
            .collect();
        let is_first = |cell: Cell| hidden && first.contains(&Some(cell));
        let is_last = |cell: Cell| rounds > 1 || last.contains(&Some(cell));
        for slot in &slots {
            match *slot {
                Slot::Forward(cell) => self.slot(&mut writer, &self.forward(chunk(cell), cell, is_first(cell))),
                Slot::Backward(cell) => {
                    let items = self.backward(chunk(cell), cell, Gradients::Both, is_last(cell));
                    self.slot(&mut writer, &items);
                }
                Slot::Data(cell) => {
                    self.slot(&mut writer, &self.backward(chunk(cell), cell, Gradients::Data, false));
                }
                Slot::Weight(cell) => {
                    let items = self.backward(chunk(cell), cell, Gradients::Weights, is_last(cell));
                    self.slot(&mut writer, &items);
                }
                Slot::Both { forward, backward } => {
                    let there = self.forward(chunk(forward), forward, is_first(forward)).joined();
                    let back = self.backward(chunk(backward), backward, Gradients::Both, is_last(backward)).joined();
                    writer.both(&there, &back);
                }
            }
        }
        if job.mode == Mode::Training {
            self.update(&mut writer, &of_stage.all, stage, machine);
        }
        writer.done()
    }

    /// Writes a slot: all of it in order, or two halves of the micro batch in turn.
    fn slot(&self, writer: &mut Writer<'_>, parts: &Parts) {
        if self.job.choices.two_batches {
            writer.halves(&parts.head, [&parts.first, &parts.second], &parts.tail);
        } else {
            writer.slot(&parts.joined());
        }
    }

    fn chunks<'m>(&self, stage: u64, messages: &'m StageMessages) -> Vec<Chunk<'m>> {
        let job = self.job;
        let share = if job.choices.two_batches { job.sizes.halved().share() } else { job.sizes.share() };
        let model = job.model;
        let mut out = Vec::new();
        let mut places: Vec<(u64, usize, usize)> = Vec::new();
        for (p, pipe) in self.pipes.iter().enumerate() {
            for (at, (s, chunk)) in pipe.iter().enumerate() {
                if *s == stage {
                    places.push((*chunk, p, at));
                }
            }
        }
        places.sort_unstable();
        for (_, pipe, at) in places {
            let last = self.pipes[pipe].len() - 1;
            let sizes = &job.sizes.chunk_layers;
            let from: u64 = sizes.iter().take(at).sum();
            let mut units = Vec::new();
            if at == 0 {
                let kernels = model.embedding_kernels(&share);
                units.push(OwnUnit { kernels, layer: None, kind: UnitKind::Embedding });
            }
            for index in from..from + sizes.get(at).copied().unwrap_or(0) {
                let mut kernels = model.layer_kernels(index, &share);
                kernels.extend(job.choices.adapters.iter().flat_map(|a| a.kernels(model, &share)));
                units.push(OwnUnit { kernels, layer: Some(index as u32), kind: UnitKind::Layer(model.kind(index)) });
            }
            if at == last {
                for i in 0..model.mtp_layers {
                    let kind = UnitKind::Prediction(model.kind(model.layers.saturating_sub(1)));
                    let layer = Some((model.layers + i) as u32);
                    units.push(OwnUnit { kernels: model.prediction_kernels(&share), layer, kind });
                }
                units.push(OwnUnit { kernels: model.head_kernels(&share), layer: None, kind: UnitKind::Head });
            }
            let channels = &self.channels[pipe];
            out.push(Chunk {
                units,
                messages,
                from: at.checked_sub(1).and_then(|before| channels[before].0),
                to: channels[at].0,
                gradient_from: channels.get(at + 1).and_then(|behind| behind.1),
                gradient_to: channels[at].1,
            });
        }
        out
    }

    /// What arrives from another stage, put together where each rank of a tensor group got a part.
    fn arrives(&self, items: &mut Items, chunk: &Chunk<'_>, channel: Option<u32>, phase: Phase, cell: Cell) {
        let Some(channel) = channel else { return };
        let micro = Some(cell.micro as u32);
        let what = if phase == Phase::Forward { "pp activation" } else { "pp gradient" };
        items.block(Item::Receive(channel, Label { what, phase, micro, layer: None }));
        let gathers = chunk.messages.all.iter().filter(|(m, _)| m.per == Per::Arrival && m.phase == phase);
        for (message, _) in gathers {
            items.block(Item::Start(call_of(message), 0, Label { what: message.name, phase, micro, layer: None }));
        }
    }

    fn leaves(&self, items: &mut Items, channel: Option<u32>, phase: Phase, cell: Cell) {
        let Some(channel) = channel else { return };
        let what = if phase == Phase::Forward { "pp activation" } else { "pp gradient" };
        let item = Item::Send(channel, Label { what, phase, micro: Some(cell.micro as u32), layer: None });
        if self.overlap.pipeline {
            items.start(item);
        } else {
            items.block(item);
        }
    }

    fn forward(&self, chunk: &Chunk<'_>, cell: Cell, first: bool) -> Parts {
        let mut parts = Parts::default();
        let halves = self.job.choices.two_batches;
        self.arrives(&mut parts.head, chunk, chunk.from, Phase::Forward, cell);
        if first {
            parts.head.push(Item::Updated);
        }
        for unit in &chunk.units {
            self.gather(&mut parts.first, chunk, unit, Phase::Forward, cell);
            if first {
                parts.first.push(Item::Uses(self.parameters(unit)));
            }
            parts.begin(halves);
            let of_unit = self.unit(chunk, unit);
            self.passes.forward(&mut parts.first, &of_unit, Phase::Forward, cell.micro);
            if halves {
                self.passes.forward(&mut parts.second, &of_unit, Phase::Forward, cell.micro);
            }
            parts.later(halves).push(Item::UnitDone);
        }
        self.leaves(&mut parts.tail, chunk.to, Phase::Forward, cell);
        parts
    }

    fn backward(&self, chunk: &Chunk<'_>, cell: Cell, gradients: Gradients, last: bool) -> Parts {
        let mut parts = Parts::default();
        let halves = self.job.choices.two_batches;
        if gradients != Gradients::Weights {
            self.arrives(&mut parts.head, chunk, chunk.gradient_from, Phase::Backward, cell);
        }
        for unit in chunk.units.iter().rev() {
            if gradients != Gradients::Weights {
                self.gather(&mut parts.first, chunk, unit, Phase::Backward, cell);
            }
            parts.begin(halves);
            let of_unit = self.unit(chunk, unit);
            self.passes.backward(&mut parts.first, &of_unit, cell.micro, gradients);
            if halves {
                self.passes.backward(&mut parts.second, &of_unit, cell.micro, gradients);
            }
            // The second half adds its gradients to those of the first.
            let items = parts.later(halves);
            if gradients != Gradients::Data {
                self.reductions(items, chunk, unit, cell, last);
                if last {
                    items.push(Item::Gradients(self.trained(unit)));
                }
            }
            // Gradients by the weights need no weights.
            if gradients != Gradients::Weights {
                items.push(Item::UnitDone);
            }
        }
        if gradients != Gradients::Weights {
            self.leaves(&mut parts.tail, chunk.gradient_to, Phase::Backward, cell);
        }
        parts
    }

    fn unit<'u>(&self, chunk: &'u Chunk<'_>, unit: &'u OwnUnit) -> Unit<'u> {
        let what = match unit.kind {
            UnitKind::Embedding => "embedding",
            UnitKind::Layer(LayerKind::Dense) => "FFN",
            UnitKind::Layer(LayerKind::Experts) => "experts",
            UnitKind::Prediction(_) => "prediction",
            UnitKind::Head => "head",
        };
        Unit { kernels: &unit.kernels, messages: chunk.messages.of(unit.kind), layer: unit.layer, what }
    }

    fn unit_label(&self, message: &Message, unit: &OwnUnit, cell: Cell) -> Label {
        Label { what: message.name, phase: message.phase, micro: Some(cell.micro as u32), layer: unit.layer }
    }

    fn gather(&self, items: &mut Items, chunk: &Chunk<'_>, unit: &OwnUnit, phase: Phase, cell: Cell) {
        for message in chunk.messages.of_unit(unit.kind, Operation::AllGather, phase) {
            items.block(Item::Gather(call_of(&message), self.unit_label(&message, unit, cell)));
        }
    }

    /// Reductions of a unit's gradients (ZeRO-3), in the last micro batch over the holders of copies, too.
    fn reductions(&self, items: &mut Items, chunk: &Chunk<'_>, unit: &OwnUnit, cell: Cell, last: bool) {
        let of = |operation, phase| chunk.messages.of_unit(unit.kind, operation, phase);
        let copies = if last { of(Operation::AllReduce, Phase::LastBackward) } else { Vec::new() };
        let mut copies = copies.iter();
        for message in of(Operation::ReduceScatter, Phase::Backward) {
            let copy = if message.group == Group::Shard { copies.next() } else { None };
            let replicas = copy.map(call_of);
            let label = self.unit_label(&message, unit, cell);
            items.push(Item::Reduce(Bucket { call: Some(call_of(&message)), replicas, label }));
        }
        for message in copies {
            let label = self.unit_label(message, unit, cell);
            items.push(Item::Reduce(Bucket { call: None, replicas: Some(call_of(message)), label }));
        }
    }

    /// Parameters of a unit on a rank.
    fn parameters(&self, unit: &OwnUnit) -> Ready {
        let (model, sizes) = (self.job.model, self.job.sizes);
        match unit.kind {
            UnitKind::Embedding => Local::of_embedding(model, sizes),
            UnitKind::Layer(kind) => Local::of_layer(model, sizes, kind),
            UnitKind::Prediction(kind) => {
                let mut local = Local::of_layer(model, sizes, kind);
                local.dense += Local::of_prediction(model, sizes).dense / model.mtp_layers.max(1);
                local
            }
            UnitKind::Head => Local::of_head(model, sizes),
        }
        .into()
    }

    /// Of these those that are trained.
    fn trained(&self, unit: &OwnUnit) -> Ready {
        match (self.job.choices.adapters, unit.layer) {
            (None, _) => self.parameters(unit),
            (Some(a), Some(_)) => {
                Ready { dense: a.layer_parameters(self.job.model).div_ceil(self.job.sizes.tensor), experts: 0 }
            }
            (Some(_), None) => Ready::default(),
        }
    }

    /// The end of a step: what is left to be reduced, the norm of all gradients, the optimizer, and its result to those that
    /// do not wait for their next forward pass.
    fn update(&self, writer: &mut Writer<'_>, all: &[(Message, u64)], stage: u64, machine: &Machine) {
        let job = self.job;
        let rest = writer.buckets.rest();
        let last: Vec<u32> = writer.last().into_iter().collect();
        writer.reduce_all(&rest, 0, &last);
        let mut after = writer.outstanding();
        let of = |m: &&(Message, u64)| m.0.phase == Phase::Update && m.0.per == Per::Step;
        let (tied, norms): (Vec<&(Message, u64)>, Vec<_>) =
            all.iter().filter(of).partition(|m| m.0.group == Group::Ends);
        for (message, count) in tied.into_iter().chain(norms) {
            for _ in 0..*count {
                let call: Call = call_of(message);
                after = vec![writer.call(call, 0, &after, step_label(message.name, Phase::Update))];
            }
        }
        let trained = messages::trained(job, stage);
        let updated = if job.sizes.zero == Zero::Replicated {
            trained.total()
        } else {
            trained.dense.div_ceil(job.sizes.shard) + trained.experts.div_ceil(job.sizes.expert_data())
        };
        let before = stage.checked_sub(1).and_then(|before| self.states.get(before as usize));
        after.extend(before.map(|channel| {
            let label = step_label("norm and flag so far", Phase::Update);
            writer.op(Stream::Receive(*channel), Work::Receive(*channel), &[], label)
        }));
        if let Some(channel) = self.states.get(stage as usize) {
            let label = step_label("norm and flag so far", Phase::Update);
            writer.op(Stream::Send(*channel), Work::Send(*channel), &after, label);
        }
        let span = machine.update(updated, &job.widths);
        let op = writer.kernels(span, &after, step_label("optimizer", Phase::Update));
        if !self.overlap.parameters {
            for (call, label) in Buckets::gathers(all) {
                writer.call(call, 0, &[op], label);
            }
        }
    }
}
