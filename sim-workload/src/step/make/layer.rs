//! A unit of a model (a layer, the embedding, the head) forward and backward: its kernels with the messages between them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use sim_core::units::{Bytes, Span};

use super::super::overlap::Overlap;
use super::super::plan::{Call, Label};
use super::gradients::call_of;
use super::uneven::{self, Uneven};
use super::writer::{Item, Items};
use crate::compute::Machine;
use crate::experts::Kernels;
use crate::job::Job;
use crate::messages::experts::goes_back;
use crate::messages::{Message, Operation, Phase, Place};
use crate::model::activations::Recompute;
use crate::model::kernels::{Kernel, Pass};
use crate::parallel::Group;

/// Which gradients are worked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gradients {
    /// Both.
    Both,
    /// By the inputs.
    Data,
    /// By the weights.
    Weights,
}

/// Messages of a unit, and its kernels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit<'a> {
    pub(super) kernels: &'a [Kernel],
    pub(super) messages: &'a [Message],
    /// Its number, if it is a layer.
    pub(super) layer: Option<u32>,
    /// What its kernels are for.
    pub(super) what: &'static str,
}

/// What units are written with.
#[derive(Debug)]
pub(super) struct Passes<'a> {
    pub(super) job: &'a Job<'a>,
    machine: &'a Machine,
    overlap: &'a Overlap,
    spans: RefCell<BTreeMap<(Kernel, Pass), Span>>,
    /// Kernels of experts whose loads are uneven.
    pub(super) uneven: &'a Uneven,
    of_experts: RefCell<BTreeMap<(Kernel, Pass, usize), u32>>,
}

/// How long kernels take: on all ranks of a stage, or on each rank of a group of experts (a number of [`Uneven`]).
#[derive(Clone, Copy, Debug)]
enum Length {
    All(Span),
    Ranks(u32),
}

/// The last kernel of the first half of a layer.
const HALF: &str = "residual of attention";
const ROUTER: &str = "router";

impl<'a> Passes<'a> {
    pub(super) fn new(job: &'a Job<'a>, machine: &'a Machine, overlap: &'a Overlap, uneven: &'a Uneven) -> Self {
        let of_experts = RefCell::default();
        Self { job, machine, overlap, spans: RefCell::default(), uneven, of_experts }
    }

    /// The draw of experts' loads that a micro batch has in a layer.
    fn draw(&self, label: Label) -> Option<usize> {
        let imbalance = self.job.imbalance.filter(|_| self.job.sizes.expert > 1)?;
        Some(imbalance.of(label.micro.unwrap_or(0).into(), label.layer.unwrap_or(0).into()))
    }

    /// What a message starts as.
    fn start(&self, message: &Message, bytes: Bytes, label: Label) -> Item {
        let own = message.group == Group::Expert && message.operation == Operation::AllToAll;
        let exchange = || {
            let even = self.job.choices.kernels == Kernels::Library && self.job.imbalance.is_none();
            let draw = self.draw(label).unwrap_or(0) as u32;
            (!even).then_some(2 * draw + u32::from(goes_back(message.name)))
        };
        let call = Call { bytes, exchange: if own { exchange() } else { None }, ..call_of(message) };
        Item::Start(call, 0, Label { what: message.name, ..label })
    }

    /// How long a kernel takes in a layer, cut in pieces beside messages: where it works on tokens that experts get unevenly, on each rank.
    fn length(&self, kernel: &Kernel, pass: Pass, label: Label, whole: impl FnOnce() -> Span) -> Length {
        let Some(draw) = self.draw(label).filter(|_| uneven::by_load(kernel)) else { return Length::All(whole()) };
        let known = self.of_experts.borrow().get(&(*kernel, pass, draw)).copied();
        Length::Ranks(known.unwrap_or_else(|| {
            let factors = self.job.imbalance.map(|i| i.of_ranks(draw, self.job.sizes.expert)).unwrap_or_default();
            let of = |factor: &f64| match uneven::loaded(kernel, *factor) {
                Some(kernel) => self.machine.kernel(&kernel, pass, self.job.widths.activation),
                None => Span::ZERO,
            };
            let number = self.uneven.number(factors.iter().map(of).collect());
            self.of_experts.borrow_mut().insert((*kernel, pass, draw), number);
            number
        }))
    }

    fn compute(&self, items: &mut Items, length: Length, label: Label) {
        match length {
            Length::All(span) => items.compute(span, label),
            Length::Ranks(number) if self.uneven.is_zero(number) => {}
            Length::Ranks(number) => items.push(Item::Uneven(number, label)),
        }
    }

    /// The `i`-th of `n` parts of a length.
    fn piece(&self, length: Length, n: u64, i: u64) -> Length {
        match length {
            Length::All(span) => Length::All(piece(span, n, i)),
            Length::Ranks(number) if n == 1 => Length::Ranks(number),
            Length::Ranks(number) => Length::Ranks(self.uneven.changed(number, |span| piece(span, n, i))),
        }
    }

    fn span(&self, kernel: &Kernel, pass: Pass) -> Span {
        let width = self.job.widths.activation;
        *self.spans.borrow_mut().entry((*kernel, pass)).or_insert_with(|| self.machine.kernel(kernel, pass, width))
    }

    /// Messages of a place, those to experts outside those within an expert.
    fn at(unit: &Unit<'_>, phase: Phase, place: Place) -> Vec<Message> {
        let mut out: Vec<Message> =
            unit.messages.iter().filter(|m| m.phase == phase && m.place == place).copied().collect();
        let inner = |m: &Message| u8::from(m.group == Group::ExpertTensor);
        let before = matches!(place, Place::Before(_));
        out.sort_by_key(|m| if before { inner(m) } else { 1 - inner(m) });
        out
    }

    fn labels(unit: &Unit<'_>, phase: Phase, micro: u64) -> Vec<Label> {
        let half = unit.kernels.iter().position(|k| k.name == HALF);
        let what = |i: usize| if half.is_some_and(|half| i <= half) { "attention" } else { unit.what };
        let label = |i| Label { what: what(i), phase, micro: Some(micro as u32), layer: unit.layer };
        (0..unit.kernels.len()).map(label).collect()
    }

    /// Whether a message and the matrix product next to it are cut in pieces.
    fn pieces(&self, message: &Message) -> u64 {
        let cut = message.overlap == crate::messages::Overlap::SplitGemm;
        if cut { self.overlap.tensor.clamp(1, 64) } else { 1 }
    }

    /// The time of a kernel beside messages, cut as they are.
    fn cut(&self, kernel: &Kernel, pass: Pass, before: &[Message], after: &[Message]) -> Span {
        let single = |list: &[Message]| if let [only] = list { self.pieces(only) } else { 1 };
        match single(before).max(single(after)) {
            1 => self.span(kernel, pass),
            pieces => self.machine.cut(kernel, pass, self.job.widths.activation, pieces),
        }
    }

    /// Writes the forward pass of a unit.
    pub(super) fn forward(&self, items: &mut Items, unit: &Unit<'_>, phase: Phase, micro: u64) {
        let labels = Self::labels(unit, phase, micro);
        let mut early = None;
        for (kernel, label) in unit.kernels.iter().zip(labels) {
            let mut before = Self::at(unit, phase, Place::Before(kernel.name));
            let after = Self::at(unit, phase, Place::After(kernel.name));
            if let Some(number) = early.filter(|_| before.iter().any(|m| m.group == Group::Expert)) {
                before.retain(|m| m.group != Group::Expert);
                items.wait(number);
                early = None;
            }
            let span = self.length(kernel, Pass::Forward, label, || self.cut(kernel, Pass::Forward, &before, &after));
            self.surround(items, &before, span, &after, label, |_| {});
            if kernel.name == ROUTER && self.hides_dispatch(unit) {
                let of =
                    |m: &&Message| m.phase == phase && m.group == Group::Expert && matches!(m.place, Place::Before(_));
                if let Some(message) = unit.messages.iter().find(of) {
                    early = Some(items.start(self.start(message, message.bytes, label)));
                }
            }
        }
    }

    /// Whether tokens are on their way to experts while shared experts work.
    fn hides_dispatch(&self, unit: &Unit<'_>) -> bool {
        self.overlap.experts && unit.kernels.iter().any(|k| k.name == "shared experts up")
    }

    /// Writes the backward pass of a unit.
    pub(super) fn backward(&self, items: &mut Items, unit: &Unit<'_>, micro: u64, parts: Gradients) {
        let phase = Phase::Backward;
        if parts != Gradients::Weights && self.job.sizes.recompute == Recompute::Full && unit.layer.is_some() {
            self.forward(items, unit, Phase::Recompute, micro);
        }
        let labels = Self::labels(unit, phase, micro);
        let mut late = None;
        for (kernel, label) in unit.kernels.iter().zip(labels).rev() {
            let frozen = self.job.choices.adapters.is_some();
            let weights = if frozen {
                Length::All(Span::ZERO)
            } else {
                self.length(kernel, Pass::WeightGradient, label, || self.span(kernel, Pass::WeightGradient))
            };
            let again = Self::at(unit, phase, Place::BeforeWeights(kernel.name));
            if parts == Gradients::Weights {
                self.block(items, &again, label);
                self.compute(items, weights, label);
                continue;
            }
            let before = Self::at(unit, phase, Place::Before(kernel.name));
            let mut after = Self::at(unit, phase, Place::After(kernel.name));
            let data = self.length(kernel, Pass::DataGradient, label, || {
                let data = self.cut(kernel, Pass::DataGradient, &before, &after);
                let again = self.job.sizes.recompute == Recompute::Selective && kernel.is_core();
                if again { data + self.span(kernel, Pass::Forward) } else { data }
            });
            if kernel.name == ROUTER
                && let Some(number) = late.take()
            {
                items.wait(number);
            }
            let mut hidden = None;
            if self.hides_dispatch(unit) {
                let at = after.iter().position(|m| m.group == Group::Expert);
                hidden = at.map(|at| after.remove(at));
            }
            let both = parts == Gradients::Both;
            let mut inputs = Vec::new();
            if both {
                // Needed by the gradient by the weights only: on its way while that by the inputs is worked out.
                let list = again.iter().filter(|_| !matches!(weights, Length::All(Span::ZERO)));
                inputs = list.map(|m| items.start(self.start(m, m.bytes, label))).collect();
            }
            self.surround(items, &before, data, &after, label, |items| {
                if let Some(message) = hidden {
                    late = Some(items.start(self.start(&message, message.bytes, label)));
                }
                if both {
                    inputs.iter().for_each(|number| items.wait(*number));
                    self.compute(items, weights, label);
                }
            });
        }
        if let Some(number) = late {
            items.wait(number);
        }
    }

    fn block(&self, items: &mut Items, messages: &[Message], label: Label) {
        for message in messages {
            for _ in 0..message.count {
                items.block(self.start(message, message.bytes, label));
            }
        }
    }

    /// A kernel with the messages that it needs and that it makes; `beside` is done while those that it makes are under way.
    fn surround(
        &self,
        items: &mut Items,
        before: &[Message],
        span: Length,
        after: &[Message],
        label: Label,
        beside: impl FnOnce(&mut Items),
    ) {
        let ring = |m: &&Message| m.overlap == crate::messages::Overlap::Attention && self.overlap.context;
        // Blocks of keys and values, that are on their way while attention works on those before.
        if before.iter().chain(after).any(|m| ring(&m)) {
            let hops = self.job.sizes.context.saturating_sub(1);
            let (sent, blocking): (Vec<Message>, Vec<Message>) = before.iter().partition(|m| ring(m));
            let (back, made): (Vec<Message>, Vec<Message>) = after.iter().partition(|m| ring(m));
            self.block(items, &blocking, label);
            let round = |items: &mut Items, list: &[Message], hop: u64| -> Vec<usize> {
                let of_hop = list.iter().filter(|m| hop < m.count);
                of_hop.map(|m| items.start(self.start(m, m.bytes, label))).collect()
            };
            let arrivals: Vec<Vec<usize>> = (0..hops).map(|hop| round(items, &sent, hop)).collect();
            // What goes on after each block, one message after the other; the block after the next needs it.
            let each = back.iter().flat_map(|m| core::iter::repeat_n(m, usize::try_from(m.count).unwrap_or(0)));
            let mut each = each.take(usize::try_from(hops).unwrap_or(0));
            let mut returned = Vec::new();
            for block in 0..=hops {
                if let Some(arrived) = block.checked_sub(1).and_then(|b| arrivals.get(b as usize)) {
                    arrived.iter().for_each(|number| items.wait(*number));
                }
                if let Some(number) = block.checked_sub(2).and_then(|b| returned.get(b as usize)) {
                    items.wait(*number);
                }
                self.compute(items, self.piece(span, hops + 1, block), label);
                returned.extend(each.next().map(|m| items.start(self.start(m, m.bytes, label))));
            }
            beside(items);
            returned.iter().rev().take(2).for_each(|number| items.wait(*number));
            self.block(items, &made, label);
            return;
        }
        let split = |list: &[Message]| match list {
            [only] => self.pieces(only),
            _ => 1,
        };
        let (into, out) = (split(before), split(after));
        let pieces = into.max(out);
        let mut arrivals = Vec::new();
        if into > 1 {
            for message in before {
                arrivals =
                    (0..into).map(|i| items.start(self.start(message, part(message.bytes, into, i), label))).collect();
            }
        } else {
            self.block(items, before, label);
        }
        let mut made = Vec::new();
        for i in 0..pieces {
            if let Some(number) = arrivals.get(i as usize) {
                items.wait(*number);
            }
            self.compute(items, self.piece(span, pieces, i), label);
            if out > 1 {
                made.extend(after.iter().map(|m| items.start(self.start(m, part(m.bytes, out, i), label))));
            }
        }
        if out == 1 {
            // Those that follow one another (the parts of the loss) wait for each other by their stream.
            for message in after {
                made.extend((0..message.count).map(|_| items.start(self.start(message, message.bytes, label))));
            }
        }
        beside(items);
        made.iter().for_each(|number| items.wait(*number));
    }
}

/// The `i`-th of `n` parts of a span; they add up to it.
fn piece(span: Span, n: u64, i: u64) -> Span {
    let upto = |i: u64| (u128::from(span.as_ps()) * u128::from(i) / u128::from(n.max(1))) as u64;
    Span::from_ps(upto(i + 1) - upto(i))
}

/// The `i`-th of `n` parts of a message; they add up to it.
fn part(bytes: Bytes, n: u64, i: u64) -> Bytes {
    let upto = |i: u64| (u128::from(bytes.get()) * u128::from(i) / u128::from(n.max(1))) as u64;
    Bytes::new(upto(i + 1) - upto(i))
}
