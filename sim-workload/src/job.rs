//! A job: a model, sizes, widths of numbers, and the choices of a framework.

use crate::experts::{Copies, Imbalance, Kernels, Payload};
use crate::messages::Buckets;
use crate::model::{Adapters, Model};
use crate::parallel::Sizes;

/// What memory and messages are worked out for.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The model.
    pub model: &'a Model,
    /// The sizes.
    pub sizes: &'a Sizes,
    /// Widths of numbers.
    pub widths: Widths,
    /// Choices of a framework.
    pub choices: Choices,
    /// Training, or the forward pass alone.
    pub mode: Mode,
    /// How uneven loads of experts are; without it they are even.
    pub imbalance: Option<&'a Imbalance>,
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// Forward, backward, optimizer.
    #[default]
    Training,
    /// Forward alone: prefill or decode.
    Inference,
}

/// Bytes of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    /// Of weights as the kernels read them.
    pub weight: u64,
    /// Of activations, and of their gradients, in messages and memory.
    pub activation: u64,
    /// Of gradients of parameters: 4 (fp32) or 2, in memory and in their reduction.
    pub gradient: u64,
    /// Of parameters when they are gathered: 2, or 1 for fp8.
    pub gather: u64,
    /// Of inputs of matrix products when a tensor group gathers them (sequence parallelism): 2, or 1 where they are put in 8 bits before,
    /// as Transformer Engine does with fp8 and torchtitan with scales by tensor.
    pub inputs: u64,
    /// Of the optimizer's states: 12 for Adam with fp32 main weights.
    pub optimizer: u64,
    /// Of a logit while the loss is worked out: 4 (fp32) where its parts are fused, up to 10 where a copy in 16 bits, one in fp32
    /// and its gradient are there at once.
    pub logit: u64,
}

impl Default for Widths {
    /// bf16 with fp32 main gradients.
    fn default() -> Self {
        Self { weight: 2, activation: 2, gradient: 4, gather: 2, inputs: 2, optimizer: 12, logit: 4 }
    }
}

/// Choices of a framework.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// How gradients are cut into messages.
    pub buckets: Buckets,
    /// Without sequence parallelism: whether each rank of a tensor group sends a part of what passes to the next stage.
    pub scatter_gather: bool,
    /// ZeRO-3: whether parameters are let go after the forward pass, and gathered again.
    pub reshard: bool,
    /// ZeRO-3: units of parameters that are gathered ahead of the one in use.
    pub prefetch: u64,
    /// The same in the backward pass, at most as many: 0 where a unit is gathered only when gradients of the one before are done (PyTorch FSDP's
    /// `BACKWARD_POST`, Composer's default).
    pub prefetch_back: u64,
    /// ZeRO-2: whether gradients are summed over the micro batches before they are reduced.
    pub accumulate: bool,
    /// Only adapters are trained.
    pub adapters: Option<Adapters>,
    /// Which copies of a token are sent to experts.
    pub copies: Copies,
    /// What takes tokens to experts.
    pub kernels: Kernels,
    /// What is sent to experts.
    pub dispatch: Payload,
    /// What comes back.
    pub combine: Payload,
    /// Each micro batch is worked on in two halves that take turns: kernels of one run while messages of the other are under way
    /// (two-batch overlap).
    pub two_batches: bool,
}

impl Default for Choices {
    fn default() -> Self {
        Self {
            buckets: Buckets::Megatron,
            scatter_gather: true,
            reshard: true,
            prefetch: 1,
            prefetch_back: 1,
            accumulate: true,
            adapters: None,
            copies: Copies::Every,
            kernels: Kernels::Library,
            dispatch: Payload::BF16,
            combine: Payload::BF16,
            two_batches: false,
        }
    }
}

impl<'a> Job<'a> {
    /// Training with the usual widths and choices.
    #[must_use]
    pub fn training(model: &'a Model, sizes: &'a Sizes) -> Self {
        Self {
            model,
            sizes,
            widths: Widths::default(),
            choices: Choices::default(),
            mode: Mode::Training,
            imbalance: None,
        }
    }
}
