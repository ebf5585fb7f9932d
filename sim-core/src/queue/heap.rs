//! The reference: a binary heap. Slow when many events are pending, and obviously right.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Store;
use crate::event::{Event, Word};
use crate::units::Time;

/// A binary heap of events.
#[derive(Debug, Default)]
pub struct HeapStore(BinaryHeap<Reverse<Event>>);

impl Store for HeapStore {
    fn push(&mut self, event: Event) {
        self.0.push(Reverse(event));
    }

    fn front(&self) -> Option<&Event> {
        self.0.peek().map(|Reverse(event)| event)
    }

    fn take_front(&mut self) {
        self.0.pop();
    }

    fn find_front(&mut self, _end: Time, _soon: &mut Vec<Word>) -> bool {
        !self.0.is_empty()
    }

    fn earliest(&self) -> Option<Time> {
        self.0.peek().map(|Reverse(event)| event.at())
    }

    fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.0.iter().map(|Reverse(event)| *event)
    }

    fn drain(&mut self) -> Vec<Event> {
        self.0.drain().map(|Reverse(event)| event).collect()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
