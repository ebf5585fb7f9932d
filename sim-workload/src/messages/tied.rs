//! A tied head in another stage than the embedding: their gradients, w·V·h/t, are summed at the end of a step.

use sim_core::units::Bytes;

use super::{Message, Operation, Overlap, Per, Phase, Place, ends};
use crate::job::Job;
use crate::parallel::Group;

pub(super) fn write(job: &Job<'_>, stage: u64, out: &mut Vec<Message>) {
    let (first, last) = ends(job, stage);
    if !job.model.tied || !(first || last) || job.choices.adapters.is_some() {
        return;
    }
    let parameters = (job.model.vocab * job.model.hidden).div_ceil(job.sizes.tensor);
    out.push(Message {
        name: "tied embedding",
        operation: Operation::AllReduce,
        bytes: Bytes::new(parameters * job.widths.gradient),
        group: Group::Ends,
        phase: Phase::Update,
        per: Per::Step,
        count: 1,
        place: Place::Gradients,
        overlap: Overlap::Nothing,
    });
}
