//! Symmetric memory: every rank's buffer is mapped where the NVSwitch can reduce and multicast it, so a kernel works on
//! the user's data in place, without the staging copies of NVLS.
//!
//! Rank r reads part r reduced by the switch and stores the sum to all. Links carry as much as with NVLS, S(1 + 1/n) per
//! GPU and direction; what is saved is the copies and the loop over a small buffer.

use sim_core::program::Layout;

use super::nvls::{Domain, MAX_HEADS};
use super::{Algorithm, Cut};
use crate::call::Call;
use crate::lanes::{Action, End, LaneOp, LaneSink, Work};
use crate::nccl::Operation;
use crate::timing::Key;

/// A kernel goes through its part piece by piece, of so many bytes at least and so many pieces at most.
const PIECE: u64 = 64 << 10;
const PIECES: u32 = 64;

/// The switch's reduction and multicast on user buffers.
#[derive(Debug)]
pub(super) struct Symmetric;

impl Algorithm for Symmetric {
    fn name(&self) -> &'static str {
        "symmetric"
    }

    fn can(&self, operation: Operation, call: &Call) -> bool {
        use Operation::{AllGather, AllReduce, ReduceScatter};
        let ranks = call.group.ranks() as usize;
        matches!(operation, AllReduce | AllGather | ReduceScatter)
            && call.group.nodes().len() == 1
            && (2..=MAX_HEADS).contains(&ranks)
    }

    fn cut(&self) -> Cut {
        Cut::Whole(Key::SymmetricKernel)
    }

    fn write(&self, operation: Operation, call: &Call, lanes: &mut dyn LaneSink) {
        let node = &call.group.nodes()[0];
        let n = node.len() as u32;
        for work in &call.channels {
            let domain = Domain::connect(lanes, work, node);
            let layout = match operation {
                Operation::AllReduce => work.equal_loops_of(n),
                _ => work.parts_of(n),
            };
            let layout = lanes.layout(Layout { slices: PIECES, min_slice: PIECE, ..layout });
            for (place, rank) in node.iter().enumerate() {
                let side = |connection: &u32| End { connection: *connection, side: place as u32 };
                let (reduce, multicast) = (End::of(domain.reduce[place]), End::of(domain.multicast[place]));
                let reduces = operation == Operation::AllReduce;
                let share = Work::Symmetric { heads: n as u16, reduces };
                let op = |action| LaneOp::new(action, share, place as u32);
                // What the switch reads of this rank, and what it writes there, holds none of its threads.
                let read = LaneOp::new(Action::REDUCE_SEND, Work::Free, 0).spread();
                let read = domain.reduce.iter().fold(read, |op, c| op.send(side(c)));
                let written = LaneOp::new(Action::STORE, Work::Free, 0).spread();
                let written = domain.multicast.iter().fold(written, |op, c| op.recv(side(c)));
                if operation != Operation::AllGather {
                    lanes.lane(*rank, work.channel, layout, &[read]);
                }
                if operation != Operation::ReduceScatter {
                    lanes.lane(*rank, work.channel, layout, &[written]);
                }
                let own = match operation {
                    Operation::AllReduce => op(Action::FORWARD).recv(reduce).send(multicast),
                    Operation::AllGather => op(Action::REDUCE_SEND).send(multicast),
                    _ => op(Action::STORE).recv(reduce),
                };
                lanes.lane(*rank, work.channel, layout, &[own]);
            }
        }
    }
}
