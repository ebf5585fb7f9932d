//! The time of a step of an instance.

use std::cell::RefCell;
use std::collections::BTreeMap;

use sim_core::units::Span;

use super::{Batch, Instance, Launch, Messages};
use crate::model::LayerKind;

/// The parts of a step's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Kernels.
    pub kernels: Span,
    /// Messages that nothing runs beside.
    pub messages: Span,
    /// Scheduling, sampling.
    pub overhead: Span,
}

impl Parts {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Span {
        self.kernels + self.messages + self.overhead
    }
}

impl core::ops::Add for Parts {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self {
            kernels: self.kernels + rhs.kernels,
            messages: self.messages + rhs.messages,
            overhead: self.overhead + rhs.overhead,
        }
    }
}

impl core::ops::Mul<u64> for Parts {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self { kernels: self.kernels * rhs, messages: self.messages * rhs, overhead: self.overhead * rhs }
    }
}

/// Steps of an instance, with times that were worked out before kept.
pub struct Steps<'a> {
    /// The instance.
    pub instance: &'a Instance<'a>,
    messages: &'a dyn Messages,
    known: RefCell<BTreeMap<(Batch, u64), Parts>>,
}

impl core::fmt::Debug for Steps<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Steps").field("instance", self.instance).finish_non_exhaustive()
    }
}

impl<'a> Steps<'a> {
    /// Steps of `instance`, whose messages take what `messages` says.
    #[must_use]
    pub fn new(instance: &'a Instance<'a>, messages: &'a dyn Messages) -> Self {
        Self { instance, messages, known: RefCell::default() }
    }

    /// Who says how long messages take.
    #[must_use]
    pub fn messages(&self) -> &'a dyn Messages {
        self.messages
    }

    fn launch(&self, batch: &Batch) -> Launch {
        if batch.prefills.is_empty() { self.instance.launch } else { self.instance.launch_prefill }
    }

    /// The time of one stage for the rank's share of a batch. Layers that are alike are worked out once.
    fn stage_of(&self, stage: u64, share: &Batch) -> Parts {
        let key = (share.clone(), stage);
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        let parts = self.work_out(stage, share);
        let mut known = self.known.borrow_mut();
        // Batches of a long run are mostly different: no more than what is soon met again is kept.
        if known.len() > 4096 {
            known.clear();
        }
        known.insert(key, parts);
        parts
    }

    fn work_out(&self, stage: u64, share: &Batch) -> Parts {
        let instance = self.instance;
        let (model, launch) = (instance.model, self.launch(share));
        let parts = |kernels: &super::kernels::Kernels, calls: &[crate::step::plan::Call]| Parts {
            kernels: instance.time_of(kernels, launch),
            messages: calls.iter().map(|call| self.messages.time(call)).sum(),
            overhead: Span::ZERO,
        };
        let mut layers: BTreeMap<(LayerKind, Option<u64>), u64> = BTreeMap::new();
        for index in instance.shape.layers_of(stage, model.layers) {
            *layers.entry((model.kind(index), model.window_of(index))).or_default() += 1;
        }
        let mut out = Parts::default();
        // Of two halves in turn: the first kernels have no messages beside them, or the last messages no kernels.
        let mut alone = Span::ZERO;
        for ((kind, window), count) in layers {
            let layer =
                |batch: &Batch| parts(&instance.layer_kernels(kind, window, batch), &instance.layer_calls(kind, batch));
            let one = if instance.two_batches && share.tokens() > 1 {
                // What takes longer of the kernels of both and the messages of both.
                let [first, second] = share.halves().map(|half| layer(&half));
                let (kernels, messages) = (first.kernels + second.kernels, first.messages + second.messages);
                alone = alone.max(first.kernels.min(second.messages));
                Parts { kernels, messages: messages - messages.min(kernels), overhead: Span::ZERO }
            } else {
                layer(share)
            };
            out = out + one * count;
        }
        out.messages += alone;
        if stage == 0 {
            out = out + parts(&instance.first_kernels(share), &instance.first_calls(share));
        }
        if stage + 1 == instance.shape.pipeline {
            out = out + parts(&instance.last_kernels(share), &instance.last_calls(share));
            out.overhead = instance.overhead;
        } else if let Some(send) = instance.send(share) {
            out.messages += self.messages.send(&send, stage);
        }
        out
    }

    /// The time of each stage for a batch of the instance, which is spread evenly over the ranks that have requests of their own.
    #[must_use]
    pub fn stages(&self, batch: &Batch) -> Vec<Parts> {
        let share = batch.share(self.instance.shape.data);
        (0..self.instance.shape.pipeline).map(|stage| self.stage_of(stage, &share)).collect()
    }

    /// The time that a batch takes through all stages.
    #[must_use]
    pub fn time(&self, batch: &Batch) -> Parts {
        self.stages(batch).into_iter().fold(Parts::default(), |a, b| a + b)
    }
}
