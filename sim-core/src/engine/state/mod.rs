//! The records of the loop: flat, small, and indexed by the numbers in the events' words.

mod ends;
mod flow;
mod junction;
mod lane;
mod link;
mod rings;

pub(crate) use ends::{Arrival, ConnState, Places, RecvState, SendState, Slot};
pub(crate) use flow::{FlowState, Message, Segment};
pub(crate) use junction::{Fan, JunctionState, Meeting};
pub(crate) use lane::{BarrierState, Ends, KernelState, LaneState, OpState, ProgramState};
pub(crate) use link::{Flapping, LinkState};
pub(crate) use rings::{Ring, Rings};

/// "None" in the 32-bit fields of hot records.
pub(crate) const NONE: u32 = u32::MAX;
/// More than one, where one is told by its number.
pub(crate) const MANY: u32 = u32::MAX - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_reused_last_in_first_out_and_keep_their_items() {
        let mut rings = Rings::<u32>::default();
        let a = rings.take(3);
        assert_eq!(a.capacity(), 4);
        for i in 6..9 {
            rings.items[a.at(i)] = i;
        }
        let b = rings.grow(a, 6, 9);
        assert_eq!((6..9).map(|i| rings.items[b.at(i)]).collect::<Vec<_>>(), [6, 7, 8]);
        assert_eq!(rings.take(4).base, a.base);
    }

    #[test]
    fn records_stay_small() {
        assert_eq!(size_of::<LinkState>(), 272);
        assert_eq!(size_of::<Segment>(), 24);
        assert_eq!(size_of::<FlowState>(), 128);
        assert_eq!(size_of::<OpState>(), 32);
        assert_eq!(size_of::<LaneState>(), 72);
        assert_eq!(size_of::<RecvState>(), 28);
        assert_eq!(size_of::<SendState>(), 40);
        assert_eq!(size_of::<ConnState>(), 48);
    }
}
