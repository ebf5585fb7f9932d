//! Embedding and head with the vocabulary over t ranks.
//!
//! First stage: T·h·w reduced, or reduced and scattered with sequence parallelism, whose gradient is gathered. Last stage: the
//! input of the head gathered with sequence parallelism, its gradient reduced; of the loss three all-reduces of T fp32 numbers
//! (largest logit, logit of the target, sum of exponentials).

use sim_core::units::Bytes;

use super::{Message, Operation, Overlap, Per, Phase, Place, ends};
use crate::job::{Job, Mode};
use crate::parallel::Group;

pub(super) fn write(job: &Job<'_>, stage: u64, out: &mut Vec<Message>) {
    let tokens = job.sizes.share().tokens();
    let bytes = Bytes::new(tokens * job.model.hidden * job.widths.activation);
    let (first, last) = ends(job, stage);
    let mut push = |name, operation, bytes, phase, count, place| {
        let (group, per, overlap) = (Group::Tensor, Per::Micro, Overlap::Nothing);
        out.push(Message { name, operation, bytes, group, phase, per, count, place, overlap });
    };
    let parallel = job.sizes.sequence_parallel;
    if first {
        let operation = if parallel { Operation::ReduceScatter } else { Operation::AllReduce };
        push("embedding", operation, bytes, Phase::Forward, 1, Place::After("embedding"));
        if parallel {
            let place = Place::Before("embedding");
            push("gradient of embedding", Operation::AllGather, bytes, Phase::Backward, 1, place);
        }
    }
    if last {
        if parallel {
            let gather = Operation::AllGather;
            push("input of head", gather, bytes, Phase::Forward, 1, Place::Before("head"));
            push("input of head again", gather, bytes, Phase::Backward, 1, Place::BeforeWeights("head"));
        }
        let operation = if parallel { Operation::ReduceScatter } else { Operation::AllReduce };
        push("gradient of head", operation, bytes, Phase::Backward, 1, Place::After("head"));
        if job.mode == Mode::Training {
            push("loss", Operation::AllReduce, Bytes::new(4 * tokens), Phase::Forward, 3, Place::After("head"));
        }
    }
}
