//! The messages of a step of an instance, and their time.
//!
//! A layer has two all-reduces of N·h·w over t ranks, for N tokens (Megatron's form: one after attention, one after the FFN); a layer
//! of experts with ranks to itself sends its tokens to experts and back instead of the second, then gathers over t what each has of the
//! tokens; shared experts, divided over t, are summed with a reduce-scatter before. The head gathers the logits of
//! the sequences that get a token; embedding divided over t has one all-reduce more. A pipeline sends N·h·w from stage to stage.
//! Source of the counts: Megatron-LM and the engines' model code; the rule for the kernel of an all-reduce is that of
//! `sim_collectives::algorithms::serving`.

use std::collections::BTreeMap;

use sim_core::units::{Bytes, Span};

use super::{ACTIVATION, Batch, Instance};
use crate::experts::{Copies, Routing};
use crate::messages::Operation;
use crate::model::LayerKind;
use crate::parallel::Group;
use crate::step::plan::Call;

/// Who says how long a call takes.
pub trait Messages {
    /// The time of a call from its start, with nothing else in its way, to its last end.
    fn time(&self, call: &Call) -> Span;

    /// The time of what a stage sends to the next, stages from 0.
    fn send(&self, call: &Call, _stage: u64) -> Span {
        self.time(call)
    }
}

/// What sends tokens to experts, in the names of calls.
pub const DISPATCH: &str = "dispatch";
/// What brings them back.
pub const COMBINE: &str = "combine";
/// The same in a step with prompts, for which engines have other kernels.
pub const DISPATCH_OF_PROMPTS: &str = "dispatch of prompts";
/// What brings them back.
pub const COMBINE_OF_PROMPTS: &str = "combine of prompts";

/// Calls of one kind in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The call.
    pub call: Call,
    /// How often it is made.
    pub count: u64,
}

impl Instance<'_> {
    /// The calls of a layer of a kind for the rank's share of a batch, in order. Of dispatch and combine the size is what a rank
    /// sends to experts, one copy of a token for each; where loads are uneven, what the fullest rank gets.
    #[must_use]
    pub fn layer_calls(&self, kind: LayerKind, batch: &Batch) -> Vec<Call> {
        let (shape, hidden, tokens) = (self.shape, self.model.hidden, batch.tokens());
        let reduce = |name| Call {
            name,
            operation: Operation::AllReduce,
            bytes: Bytes::new(tokens * hidden * ACTIVATION),
            group: Group::Tensor,
            exchange: None,
        };
        let mut out = Vec::new();
        if shape.tensor > 1 {
            out.push(reduce("sum of attention"));
        }
        match (kind, self.model.experts) {
            (LayerKind::Experts, Some(layer)) if shape.expert > 1 => {
                let routing = Routing::of(layer, shape.expert, 1);
                // Ranks of a tensor group have the same tokens: each sends its part of them.
                let own = tokens.div_ceil(shape.tensor);
                let names = if batch.prefills.is_empty() {
                    [DISPATCH, COMBINE]
                } else {
                    [DISPATCH_OF_PROMPTS, COMBINE_OF_PROMPTS]
                };
                for (name, payload) in names.into_iter().zip([self.dispatch, self.combine]) {
                    let bytes = Bytes::new(self.uneven(routing.sent(own, hidden, payload, Copies::Every).get()));
                    out.push(Call {
                        name,
                        operation: Operation::AllToAll,
                        bytes,
                        group: Group::Expert,
                        exchange: None,
                    });
                }
                if shape.tensor > 1 {
                    let bytes = Bytes::new(tokens * hidden * ACTIVATION);
                    if layer.shared > 0 {
                        let (name, operation) = ("sum of shared experts", Operation::ReduceScatter);
                        out.push(Call { name, operation, bytes, group: Group::Tensor, exchange: None });
                    }
                    let (name, operation) = ("tokens of the tensor group", Operation::AllGather);
                    out.push(Call { name, operation, bytes, group: Group::Tensor, exchange: None });
                }
            }
            _ if shape.tensor > 1 => out.push(reduce("sum of FFN")),
            _ => {}
        }
        out
    }

    /// The calls before the first layer.
    #[must_use]
    pub fn first_calls(&self, batch: &Batch) -> Vec<Call> {
        if self.shape.tensor == 1 {
            return Vec::new();
        }
        let bytes = Bytes::new(batch.tokens() * self.model.hidden * ACTIVATION);
        vec![Call {
            name: "sum of embedding",
            operation: Operation::AllReduce,
            bytes,
            group: Group::Tensor,
            exchange: None,
        }]
    }

    /// The calls after the last layer.
    #[must_use]
    pub fn last_calls(&self, batch: &Batch) -> Vec<Call> {
        if self.shape.tensor == 1 || batch.ends() == 0 {
            return Vec::new();
        }
        let bytes = Bytes::new(batch.ends() * self.model.vocab * ACTIVATION);
        vec![Call { name: "logits", operation: Operation::AllGather, bytes, group: Group::Tensor, exchange: None }]
    }

    /// What goes from one stage to the next: each rank of a tensor group sends its own copy.
    #[must_use]
    pub fn send(&self, batch: &Batch) -> Option<Call> {
        let bytes = Bytes::new(batch.tokens() * self.model.hidden * ACTIVATION);
        let (name, operation, group) = ("to the next stage", Operation::Send, Group::Pipeline);
        (self.shape.pipeline > 1).then_some(Call { name, operation, bytes, group, exchange: None })
    }

    /// All calls of a step with their numbers, for the rank's share of a batch.
    #[must_use]
    pub fn calls(&self, batch: &Batch) -> Vec<Counted> {
        let mut counts: BTreeMap<Call, u64> = BTreeMap::new();
        let model = self.model;
        for (kind, layers) in [(LayerKind::Dense, model.dense_layers), (LayerKind::Experts, model.expert_layers())] {
            if layers > 0 {
                self.layer_calls(kind, batch).into_iter().for_each(|c| *counts.entry(c).or_default() += layers);
            }
        }
        let ends = self.first_calls(batch).into_iter().chain(self.last_calls(batch));
        ends.for_each(|c| *counts.entry(c).or_default() += 1);
        if let Some(send) = self.send(batch) {
            *counts.entry(send).or_default() += self.shape.pipeline - 1;
        }
        counts.into_iter().map(|(call, count)| Counted { call, count }).collect()
    }
}
