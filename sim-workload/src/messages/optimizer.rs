//! Before the update all ranks agree on the norm of the gradient and on whether a number overflowed.
//!
//! Where that is checked later ([`Schedule::validates_later`](crate::pipeline::Schedule::validates_later)), the ranks of a stage agree, and pass both on to the next
//! stage. What comes back from the last stage in the next step is 8 bytes that nothing waits for, and is not listed.

use sim_core::units::Bytes;

use super::{Message, Operation, Overlap, Per, Phase, Place};
use crate::job::Job;
use crate::parallel::{Group, Zero};

pub(super) fn write(job: &Job<'_>, _stage: u64, out: &mut Vec<Message>) {
    let mut push = |name, operation, bytes, group, per| {
        let (phase, place, overlap) = (Phase::Update, Place::Gradients, Overlap::Nothing);
        out.push(Message { name, operation, bytes: Bytes::new(bytes), group, phase, per, count: 1, place, overlap });
    };
    // With shards each rank has a part of the norm; else all replicas have the same.
    let shards = job.sizes.zero != Zero::Replicated;
    let later = job.sizes.schedule.validates_later() && job.sizes.pipeline > 1;
    let groups: &[Group] = match (later, shards) {
        (false, false) => &[Group::Model],
        (false, true) => &[Group::All],
        (true, false) => &[Group::Tensor],
        (true, true) => &[Group::Tensor, Group::DataContext],
    };
    for group in groups {
        for name in ["norm of gradients", "overflow flag"] {
            push(name, Operation::AllReduce, 4, *group, Per::Step);
        }
    }
    if later {
        push("norm and flag so far", Operation::Send, 8, Group::Pipeline, Per::Boundary);
    }
}
