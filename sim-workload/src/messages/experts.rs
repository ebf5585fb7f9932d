//! Expert parallelism: tokens to the ranks of their experts, results back; backward the gradients the same ways.
//!
//! A rank has T tokens, or T/t with sequence parallelism. Sizes: [`crate::experts`].

use super::{Message, Operation, Overlap, Per, Phase, Place};
use crate::experts::Routing;
use crate::job::Job;
use crate::model::LayerKind;
use crate::model::activations::Recompute;
use crate::parallel::Group;

pub(super) fn write(job: &Job<'_>, _stage: u64, out: &mut Vec<Message>) {
    let Some(experts) = job.model.experts else { return };
    let (tokens, hidden) = (job.sizes.share().outer_tokens(), job.model.hidden);
    let mut routing = Routing::of(experts, job.sizes.expert, 1);
    if let Some((groups, top)) = experts.groups.filter(|(groups, _)| job.sizes.expert.is_multiple_of(*groups)) {
        // Whole ranks in a group of experts: a token goes to those of some groups only.
        routing = Routing { nodes: groups, top_nodes: Some(top), ..routing };
    }
    let size = |payload| routing.sent(tokens, hidden, payload, job.choices.copies);
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
        push("ep dispatch", dispatch, phase, Place::Before("experts up"));
        push("ep combine", combine, phase, Place::After("experts down"));
    }
    // Gradients are not sent in fewer bits than results.
    push("ep gradient of combine", combine, Phase::Backward, Place::Before("experts down"));
    push("ep gradient of dispatch", combine, Phase::Backward, Place::After("experts up"));
}
