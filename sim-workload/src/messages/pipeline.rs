//! Between stages: (s/c)·b·h·w forward, its gradient backward; over t ranks of a tensor group each sends a t-th with sequence
//! parallelism, or when the tensor is scattered for the way and gathered behind it.

use sim_core::units::Bytes;

use super::{Message, Operation, Overlap, Per, Phase, Place};
use crate::job::Job;
use crate::parallel::Group;

pub(super) fn write(job: &Job<'_>, _stage: u64, out: &mut Vec<Message>) {
    let share = job.sizes.share();
    let whole = share.tokens() * job.model.hidden * job.widths.activation;
    let parts = if job.sizes.sequence_parallel || job.choices.scatter_gather { job.sizes.tensor } else { 1 };
    let bytes = Bytes::new(whole.div_ceil(parts));
    for (name, phase) in [("pp activation", Phase::Forward), ("pp gradient", Phase::Backward)] {
        out.push(Message {
            name,
            operation: Operation::Send,
            bytes,
            group: Group::Pipeline,
            phase,
            per: Per::Boundary,
            count: 1,
            place: Place::Chunk,
            overlap: Overlap::OtherMicros,
        });
        if parts > 1 && !job.sizes.sequence_parallel && job.sizes.pipeline > 1 {
            out.push(Message {
                name: "pp gather of what was scattered",
                operation: Operation::AllGather,
                bytes: Bytes::new(whole),
                group: Group::Tensor,
                phase,
                per: Per::Arrival,
                count: 1,
                place: Place::Chunk,
                overlap: Overlap::OtherMicros,
            });
        }
    }
}
