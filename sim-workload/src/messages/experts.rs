//! Expert parallelism: tokens to the ranks of their experts, results back; backward the gradients the same ways.
//!
//! A rank has T tokens, or T/t with sequence parallelism. Sizes: [`crate::experts`].

use super::{Message, Operation, Overlap, Per, Phase, Place};
use crate::experts::{Copies, Kernels, Routing};
use crate::job::{Choices, Job};
use crate::model::LayerKind;
use crate::model::activations::Recompute;
use crate::parallel::Group;

/// Tokens to experts.
pub const DISPATCH: &str = "ep dispatch";
/// Results back.
pub const COMBINE: &str = "ep combine";
/// Gradients of results to experts.
pub const GRADIENT_OF_COMBINE: &str = "ep gradient of combine";
/// Gradients of tokens back.
pub const GRADIENT_OF_DISPATCH: &str = "ep gradient of dispatch";

/// Whether a message of that name goes from experts back to where tokens came from.
#[must_use]
pub fn goes_back(name: &str) -> bool {
    name == COMBINE || name == GRADIENT_OF_DISPATCH
}

/// The copies that sizes of messages count: of kernels of their own all of them, whatever these send where.
const fn sent_copies(choices: &Choices) -> Copies {
    match choices.kernels {
        Kernels::Library => choices.copies,
        Kernels::Normal { .. } | Kernels::LowLatency => Copies::Every,
    }
}

pub(super) fn write(job: &Job<'_>, _stage: u64, out: &mut Vec<Message>) {
    let Some(experts) = job.model.experts else { return };
    let (tokens, hidden) = (job.sizes.share().outer_tokens(), job.model.hidden);
    let routing = Routing::of(experts, job.sizes.expert, 1);
    let copies = sent_copies(&job.choices);
    let size = |payload| routing.sent(tokens, hidden, payload, copies);
    let (dispatch, combine) = (size(job.choices.dispatch), size(job.choices.combine));
    let mut push = |name, bytes, phase, place| {
        out.push(Message {
            name,
            operation: Operation::AllToAll,
            bytes,
            group: Group::Expert,
            phase,
            per: Per::Layer(Some(LayerKind::Experts)),
            count: 1,
            place,
            overlap: Overlap::OtherTokens,
        });
    };
    let again = job.sizes.recompute == Recompute::Full;
    for phase in [Some(Phase::Forward), again.then_some(Phase::Recompute)].into_iter().flatten() {
        push(DISPATCH, dispatch, phase, Place::Before("experts up"));
        push(COMBINE, combine, phase, Place::After("experts down"));
    }
    // Gradients are not sent in fewer bits than results.
    push(GRADIENT_OF_COMBINE, combine, Phase::Backward, Place::Before("experts down"));
    push(GRADIENT_OF_DISPATCH, combine, Phase::Backward, Place::After("experts up"));
}
