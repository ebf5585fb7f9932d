//! Before the update all ranks agree on the norm of the gradient and on whether a number overflowed.

use sim_core::units::Bytes;

use super::{Message, Operation, Overlap, Per, Phase, Place};
use crate::job::Job;
use crate::parallel::{Group, Zero};

pub(super) fn write(job: &Job<'_>, _stage: u64, out: &mut Vec<Message>) {
    // With shards each rank has a part of the norm; else all replicas have the same.
    let group = if job.sizes.zero == Zero::Replicated { Group::Model } else { Group::All };
    for name in ["norm of gradients", "overflow flag"] {
        out.push(Message {
            name,
            operation: Operation::AllReduce,
            bytes: Bytes::new(4),
            group,
            phase: Phase::Update,
            per: Per::Step,
            count: 1,
            place: Place::Gradients,
            overlap: Overlap::Nothing,
        });
    }
}
