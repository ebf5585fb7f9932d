//! Junctions: equal segments of several flows meet and leave as one on every output.

use super::Engine;
use super::state::{Meeting, NONE, Segment};
use crate::event::Word;
use crate::program::Sink;
use crate::queue::Store;
use crate::units::Time;

impl<S: Store> Engine<S> {
    /// A segment has crossed the last link before a junction, where its head will be at `head`. That is final, so the
    /// junction knows of it at once; there is one event for all inputs, when the last of the heads is there.
    pub(super) fn join(&mut self, flow: u32, number: u32, segment: Segment, head: Time) {
        let state = &mut self.flows[flow as usize];
        let Sink::Junction(index) = state.sink else { return };
        let order = state.delivered;
        state.delivered = state.delivered.wrapping_add(1);
        if number != NONE {
            self.release(flow, number);
        }
        self.enter_junction(index, order, &segment, head);
    }

    /// The `order`-th segment of an input is on its way to a junction with nothing before it.
    #[inline]
    pub(super) fn enter_junction(&mut self, index: u32, order: u32, segment: &Segment, head: Time) {
        self.engine.bytes_joined += u64::from(segment.bytes);
        let junction = &mut self.junctions[index as usize];
        let place = order.wrapping_sub(junction.first) as usize;
        if junction.waiting.len() <= place {
            junction.waiting.resize(place + 1, Meeting::default());
        }
        let meeting = &mut junction.waiting[place];
        meeting.here += 1;
        meeting.head = meeting.head.max(head);
        meeting.tail = meeting.tail.max(segment.tail);
        if meeting.here == junction.inputs {
            (meeting.bytes, meeting.packets, meeting.last) = (segment.bytes, segment.packets, segment.ends > 0);
            self.pending.push(meeting.head, Word::meeting(index));
        }
    }

    /// The heads of a segment are there on all inputs: it goes out on every output; its tail is the latest of the inputs'.
    /// Inputs are in order, so segments are complete in order.
    pub(super) fn meet(&mut self, junction: u32, now: Time) {
        let state = &mut self.junctions[junction as usize];
        let Some(Meeting { last, bytes, packets, tail, .. }) = state.waiting.pop_front() else { return };
        state.first = state.first.wrapping_add(1);
        if state.fan != NONE {
            return self.fan_out(
                junction,
                &Segment { tail, bytes, packets, ends: u16::from(last), ..Segment::default() },
                now,
            );
        }
        for output in state.outputs.clone() {
            let state = &self.flows[output as usize];
            if state.oldest == state.next {
                self.moving += 1;
            }
            let segment = Segment { tail, route: state.route, bytes, packets, hop: 0, ends: u16::from(last) };
            self.engine.bytes_forked += u64::from(bytes);
            let link = self.routes[state.route as usize];
            self.cross(link, output, NONE, segment, now);
            let state = &self.flows[output as usize];
            if state.oldest == state.next {
                self.moving -= 1;
            }
        }
    }
}
