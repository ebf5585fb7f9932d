//! Junctions: equal segments of several flows meet and leave as one on every output.

use super::Engine;
use super::state::{NONE, Segment};
use crate::program::Sink;
use crate::queue::Store;
use crate::units::Time;

impl<S: Store> Engine<S> {
    /// The head of a segment is at the junction where its flow ends. When the last input is here, the segment goes out
    /// on every output; its tail is the latest of the inputs' tails.
    pub(super) fn join(&mut self, flow: u32, number: u32, segment: Segment, now: Time) {
        let state = &mut self.flows[flow as usize];
        let Sink::Junction(index) = state.sink else { return };
        let order = state.delivered;
        state.delivered = state.delivered.wrapping_add(1);
        self.release(flow, number);
        self.engine.bytes_joined += u64::from(segment.bytes);
        let junction = &mut self.junctions[index as usize];
        let place = order.wrapping_sub(junction.first) as usize;
        if junction.waiting.len() <= place {
            junction.waiting.resize(place + 1, (0, Time::ZERO));
        }
        let (here, tail) = &mut junction.waiting[place];
        *here += 1;
        *tail = (*tail).max(segment.tail);
        if *here < junction.inputs {
            return;
        }
        // Inputs are in order, so segments are complete in order.
        let tail = *tail;
        junction.waiting.pop_front();
        junction.first = junction.first.wrapping_add(1);
        for output in junction.outputs.clone() {
            let state = &self.flows[output as usize];
            if state.oldest == state.next {
                self.moving += 1;
            }
            let segment = Segment { tail, route: state.route, hop: 0, done: false, ..segment };
            self.engine.bytes_forked += u64::from(segment.bytes);
            let link = self.routes[state.route as usize];
            if self.links[link.index()].queued {
                let number = self.keep(output, NONE, segment);
                self.enqueue(link, output, number, now);
                continue;
            }
            self.cross(link, output, NONE, segment, now, now);
            let state = &self.flows[output as usize];
            if state.oldest == state.next {
                self.moving -= 1;
            }
        }
    }
}
