//! Serving: what an instance computes, sends and holds, and how requests go through it.
//!
//! * [`shape`]: one copy of a model over GPUs.
//! * [`batch`]: what is worked on in one step.
//! * [`kernels`]: the kernels of a step, prefill and decode; what an instance holds.
//! * [`messages`]: the messages of a step; [`played`]: their time, by the engine over a fabric.
//! * [`step`]: the time of a step.
//! * [`requests`]: when requests come, and how long they are. [`deployment`]: who serves them; [`server`]: continuous batching, prefill and decode in
//!   one pool or in two.
//! * [`report`]: what users see of it: TTFT, TPOT, throughput. [`goodput`]: the highest rate at which requests are served in time.
//! * [`cache_transfer`]: the cache of keys and values from one instance to another; [`sharing`]: several that are under way together.

pub mod batch;
pub mod cache_transfer;
pub mod deployment;
pub mod goodput;
pub mod kernels;
pub mod messages;
pub mod played;
pub mod report;
pub mod requests;
pub mod server;
pub mod shape;
pub mod sharing;
pub mod step;

#[cfg(test)]
mod tests;

use sim_core::units::{Bytes, Span};

pub use batch::{Batch, Chunk};
pub use messages::Messages;
pub use shape::{Shape, ShapeFault, ShapeSpec};

use crate::compute::{Machine, MatrixLaw, Number};
use crate::experts::Payload;
use crate::model::Model;

/// How kernels are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// Recorded once: so long from one kernel to the next.
    Graph(Span),
    /// One by one: so long from one kernel to the next on the GPU, and so long of the host for each. What takes longer holds.
    Eager {
        /// On the GPU.
        device: Span,
        /// On the host.
        host: Span,
    },
}

/// Numbers that are held and multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Weights of the layers, and what they are multiplied as. Embedding and head stay in 16 bits.
    pub weights: Number,
    /// Cached keys and values.
    pub cache: Number,
}

/// One copy of a model on the GPUs that serve it.
#[derive(Clone, Debug)]
pub struct Instance<'a> {
    /// The model.
    pub model: &'a Model,
    /// How it is divided.
    pub shape: Shape,
    /// A GPU, without launches.
    pub machine: Machine,
    /// Its numbers.
    pub numbers: Numbers,
    /// How kernels are started in steps that decode only.
    pub launch: Launch,
    /// How kernels are started in steps with a prefill.
    pub launch_prefill: Launch,
    /// What a step takes beside kernels and messages: scheduling, sampling.
    pub overhead: Span,
    /// What goes to experts.
    pub dispatch: Payload,
    /// What comes back.
    pub combine: Payload,
    /// Copies of tokens on the rank whose experts have most, over the mean, in millionths.
    pub imbalance: u64,
    /// Two halves of a batch take turns, so that the messages of one run beside the kernels of the other. Half the batch must be at
    /// least one token.
    pub two_batches: bool,
}

/// Elements of activations are two bytes.
pub(crate) const ACTIVATION: u64 = 2;

impl<'a> Instance<'a> {
    /// An instance with 16-bit numbers on `machine`, decode in graphs.
    #[must_use]
    pub fn new(model: &'a Model, shape: Shape, machine: Machine) -> Self {
        let figures = crate::compute::Figures::builtin();
        let matrix = match machine.matrix {
            MatrixLaw::Tiles(tiles) => MatrixLaw::Chosen(tiles),
            other => other,
        };
        Self {
            model,
            shape,
            machine: Machine { launch: Span::ZERO, matrix, ..machine },
            numbers: Numbers { weights: Number::Bf16, cache: Number::Bf16 },
            launch: Launch::Graph(figures.graph_launch),
            launch_prefill: Launch::Eager { device: figures.launch, host: Span::ZERO },
            overhead: Span::ZERO,
            dispatch: Payload::BF16,
            combine: Payload::BF16,
            imbalance: 1_000_000,
            two_batches: false,
        }
    }

    /// Bytes of cache of one token on one GPU of the fullest stage.
    #[must_use]
    pub fn cache_per_token(&self) -> Bytes {
        let elements = self.model.cache_per_token_of_rank(1, self.shape.tensor).get();
        let (layers, most) = (self.model.layers, self.shape.layers_of(0, self.model.layers));
        self.numbers.cache.bits().of((elements / layers) * (most.end - most.start))
    }

    /// Bytes of weights on one GPU of the fullest stage: its layers' share, and embedding or head over the tensor group.
    #[must_use]
    pub fn weights(&self) -> Bytes {
        let (model, shape) = (self.model, self.shape);
        let stage = |number: u64| {
            let layers = shape.layers_of(number, model.layers);
            let (mut dense, mut experts) = (0, 0);
            for index in layers {
                let layer = model.layer_parameters(model.kind(index));
                dense += layer.dense_of_rank(shape.tensor);
                experts += layer.experts;
            }
            let matrices = dense + experts / (shape.expert * shape.expert_tensor);
            let mut out = self.numbers.weights.bits().of(matrices).get();
            let outer = Number::Bf16.bits();
            if number == 0 {
                out += outer.of(model.embedding_parameters() / shape.tensor).get();
            }
            if number + 1 == shape.pipeline && !(model.tied && shape.pipeline == 1) {
                out += outer.of(model.vocab * model.hidden / shape.tensor).get();
            }
            out
        };
        Bytes::new((0..shape.pipeline).map(stage).max().unwrap_or(0))
    }

    /// Tokens of cache that fit in an instance whose GPUs give `memory` to weights and cache.
    #[must_use]
    pub fn room(&self, memory: Bytes) -> u64 {
        let left = memory.get().saturating_sub(self.weights().get());
        (left / self.cache_per_token().get().max(1)).saturating_mul(self.shape.data)
    }
}
