//! Embedding and head with the vocabulary over t ranks.
//!
//! First stage: T·h·w reduced, or reduced and scattered with sequence parallelism, whose gradient is gathered. Last stage: the
//! input of the head gathered with sequence parallelism, its gradient reduced; of the loss three all-reduces of T fp32 numbers
//! (largest logit, logit of the target, sum of exponentials). Each layer of multi-token prediction goes through the head once more.

use sim_core::units::Bytes;

use super::{Message, Operation, Overlap, Per, Phase, Place, ends};
use crate::job::{Job, Mode};
use crate::parallel::Group;

pub(super) fn write(job: &Job<'_>, stage: u64, out: &mut Vec<Message>) {
    let tokens = job.sizes.share().tokens();
    let bytes = Bytes::new(tokens * job.model.hidden * job.widths.activation);
    let (first, last) = ends(job, stage);
    let mut push = |name, operation, bytes, phase, per, count, place| {
        let (group, overlap) = (Group::Tensor, Overlap::Nothing);
        out.push(Message { name, operation, bytes, group, phase, per, count, place, overlap });
    };
    let parallel = job.sizes.sequence_parallel;
    if first {
        let operation = if parallel { Operation::ReduceScatter } else { Operation::AllReduce };
        push("embedding", operation, bytes, Phase::Forward, Per::Micro, 1, Place::After("embedding"));
        if parallel {
            let place = Place::Before("embedding");
            push("gradient of embedding", Operation::AllGather, bytes, Phase::Backward, Per::Micro, 1, place);
        }
    }
    for per in [Per::Micro, Per::Prediction].into_iter().filter(|_| last) {
        if parallel {
            let gather = Operation::AllGather;
            push("input of head", gather, bytes, Phase::Forward, per, 1, Place::Before("head"));
            push("input of head again", gather, bytes, Phase::Backward, per, 1, Place::BeforeWeights("head"));
        }
        let operation = if parallel { Operation::ReduceScatter } else { Operation::AllReduce };
        push("gradient of head", operation, bytes, Phase::Backward, per, 1, Place::After("head"));
        if job.mode == Mode::Training {
            let parts = Bytes::new(4 * tokens);
            push("loss", Operation::AllReduce, parts, Phase::Forward, per, 3, Place::After("head"));
        }
    }
}
