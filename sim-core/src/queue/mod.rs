//! Pending events, in order.
//!
//! [`Pending`] is what the loop uses: it hands out events by (instant, word) and keeps the rule for events that are
//! created for the present instant: they join the *next* sub-batch of the same instant, sorted likewise. Below it lies
//! a structure that only has to give up all events of the earliest instant: the monotone [`radix`] queue, or the
//! reference [`heap`] that tests hold it against.

pub mod heap;
pub mod radix;

use crate::event::{Event, Word};
use crate::units::{Span, Time};

/// A store of future events.
pub trait Store: Default {
    /// Adds an event. Its instant is never earlier than that of the last batch taken.
    fn push(&mut self, event: Event);

    /// Takes out the earliest event, by (instant, word), if its instant is before `end`, and moves the other events of that
    /// instant into `batch` (which is empty), in descending order. What it finds out to come soon after, it may add to
    /// `soon`.
    fn take_earliest(&mut self, end: Time, batch: &mut Vec<Word>, soon: &mut Vec<Word>) -> Option<Event>;

    /// The earliest instant at which something is stored.
    fn earliest(&self) -> Option<Time>;

    /// All stored events, in any order.
    fn iter(&self) -> impl Iterator<Item = Event> + '_;

    /// Takes all stored events out, in any order.
    fn drain(&mut self) -> Vec<Event>;

    /// How many events are stored.
    fn len(&self) -> usize;

    /// Whether none is stored.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Events in order of (instant, sub-batch, word).
#[derive(Debug)]
pub struct Pending<S> {
    store: S,
    now: Time,
    /// The sub-batch being handed out, in descending order of words (the next one is last).
    batch: Vec<Word>,
    /// Events created for `now` since the sub-batch began.
    next: Vec<Word>,
    /// Events that were found to come soon.
    soon: Vec<Word>,
    peak: usize,
}

impl<S: Store> Default for Pending<S> {
    fn default() -> Self {
        Self { store: S::default(), now: Time::ZERO, batch: Vec::new(), next: Vec::new(), soon: Vec::new(), peak: 0 }
    }
}

impl<S: Store> Pending<S> {
    /// The instant of the event that was handed out last.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Adds an event at `at`.
    ///
    /// An instant in the past would be a fault of the engine: it is asserted against in debug builds and runs at `now`
    /// otherwise.
    #[inline]
    pub fn push(&mut self, at: Time, word: Word) {
        debug_assert!(at >= self.now, "an event at {at} is in the past of {}", self.now);
        if at <= self.now {
            self.next.push(word);
        } else {
            self.store.push(Event::new(at, word));
        }
    }

    /// The next event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, Word)> {
        self.pop_before(Time::MAX)
    }

    /// The next event, if it is due before `end` or at "never", the end of time.
    #[inline]
    pub fn pop_before(&mut self, end: Time) -> Option<(Time, Word)> {
        if let Some(word) = self.batch.pop() {
            return Some((self.now, word));
        }
        self.refill(end)
    }

    /// When the next event is due.
    pub fn earliest(&self) -> Option<Time> {
        if self.is_between() { self.store.earliest() } else { Some(self.now) }
    }

    /// Events that were found to come soon since this was last cleared.
    #[inline]
    pub fn soon(&mut self) -> &mut Vec<Word> {
        &mut self.soon
    }

    #[inline]
    fn refill(&mut self, end: Time) -> Option<(Time, Word)> {
        if self.next.is_empty() {
            self.peak = self.peak.max(self.store.len());
            let event = self.store.take_earliest(end, &mut self.batch, &mut self.soon)?;
            self.now = event.at();
            return Some((self.now, event.word()));
        }
        if self.next.len() == 1 {
            return self.next.pop().map(|word| (self.now, word));
        }
        core::mem::swap(&mut self.batch, &mut self.next);
        self.batch.sort_unstable_by(|a, b| b.cmp(a));
        self.batch.pop().map(|word| (self.now, word))
    }

    /// Whether no event of the present instant is left.
    #[inline]
    pub fn is_between(&self) -> bool {
        self.batch.is_empty() && self.next.is_empty()
    }

    /// All events of later instants, in any order.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.store.iter()
    }

    /// Goes `by` further in time with all that is pending.
    pub fn put_off(&mut self, by: Span) {
        self.now += by;
        for event in self.store.drain() {
            self.store.push(Event::new(event.at() + by, event.word()));
        }
    }

    /// Takes out all events of later instants, in any order.
    pub fn drain(&mut self) -> Vec<Event> {
        self.store.drain()
    }

    /// An empty queue at `now`.
    pub fn starting_at(now: Time) -> Self {
        Self { now, ..Self::default() }
    }

    /// Makes `now` the present instant.
    pub fn skip_to(&mut self, now: Time) {
        self.now = now;
    }

    /// How many events are pending.
    pub fn len(&self) -> usize {
        self.store.len() + self.batch.len() + self.next.len()
    }

    /// Whether none is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most events that were pending at once.
    pub fn peak(&self) -> usize {
        self.peak.max(self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::heap::HeapStore;
    use super::radix::RadixStore;
    use super::*;
    use proptest::prelude::*;

    /// Plays a script of increments against a queue: every event that is handed out creates the next ones.
    fn play<S: Store>(script: &[(u64, u64)]) -> Vec<(Time, u64)> {
        let mut queue = Pending::<S>::default();
        let mut steps = script.iter();
        let mut order = Vec::new();
        for &(delta, word) in steps.by_ref().take(4) {
            queue.push(Time::from_ps(delta), Word(word));
        }
        while let Some((now, word)) = queue.pop() {
            order.push((now, word.0));
            for &(delta, word) in steps.by_ref().take(1 + (word.0 % 2) as usize) {
                queue.push(Time::from_ps(now.as_ps().saturating_add(delta)), Word(word));
            }
        }
        order
    }

    proptest! {
        #[test]
        fn radix_and_heap_hand_out_the_same_order(
            script in prop::collection::vec(
                (prop_oneof![Just(0u64), 0u64..8, 0u64..100_000, 0u64..1 << 50], 0u64..50),
                4..400,
            )
        ) {
            prop_assert_eq!(play::<RadixStore>(&script), play::<HeapStore>(&script));
        }
    }

    #[test]
    fn events_created_for_now_join_the_next_sub_batch() {
        let mut q = Pending::<RadixStore>::default();
        let t = Time::from_ps(5);
        q.push(t, Word(7));
        q.push(t, Word(9));
        assert_eq!(q.pop(), Some((t, Word(7))));
        q.push(t, Word(1));
        assert_eq!(q.pop(), Some((t, Word(9))));
        assert_eq!(q.pop(), Some((t, Word(1))));
        assert_eq!(q.pop(), None);
    }
}
