//! Pending events, in order.
//!
//! [`Pending`] is what the loop uses: it hands out events by (instant, word) and keeps the rule for events that are
//! created for the present instant: they join the *next* sub-batch of the same instant, sorted likewise. Below it lies
//! a structure that only has to give up all events of the earliest instant: the monotone [`radix`] queue, or the
//! reference [`heap`] that tests hold it against. Events that are known to come in order can do without: they lie in
//! lanes beside it, and what is first in all is handed out.

pub mod heap;
mod lanes;
pub mod radix;

use lanes::Lanes;

use crate::event::{Event, Word};
use crate::units::{Span, Time};

/// A store of future events.
pub trait Store: Default {
    /// Adds an event. Its instant is later than that of the last event taken.
    fn push(&mut self, event: Event);

    /// The earliest event, by (instant, word), if it has been found. Those of an instant are found together.
    fn front(&self) -> Option<&Event>;

    /// Takes out the event that [`front`](Self::front) gives.
    fn take_front(&mut self);

    /// Finds the earliest event, if its instant is before `end` or at "never"; whether there is such a one. What it finds
    /// out to come soon after, it may add to `soon`.
    fn find_front(&mut self, end: Time, soon: &mut Vec<Word>) -> bool;

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
    lanes: Lanes,
    now: Time,
    /// What is left of a sub-batch that was created at `now`, in descending order of words (the next one is last). The
    /// first one of an instant stays in the store until it is handed out.
    batch: Vec<Word>,
    /// Events created for `now` since the sub-batch began.
    next: Vec<Word>,
    /// Events that were found to come soon.
    soon: Vec<Word>,
    peak: usize,
}

impl<S: Store> Default for Pending<S> {
    fn default() -> Self {
        Self {
            store: S::default(),
            lanes: Lanes::default(),
            now: Time::ZERO,
            batch: Vec::new(),
            next: Vec::new(),
            soon: Vec::new(),
            peak: 0,
        }
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

    /// Adds an event at `at`, which is later than `now`, to one of a few lanes, whose events are best added in order.
    #[inline(never)]
    pub fn push_in_order(&mut self, lane: u8, at: Time, word: Word) {
        if at <= self.now || !self.lanes.push(usize::from(lane), Event::new(at, word)) {
            self.push(at, word);
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
        loop {
            let in_order = self.lanes.first();
            let (event, from_lane) = if let Some(stored) = self.store.front() {
                if *stored < in_order { (*stored, false) } else { (in_order, true) }
            } else {
                if self.lanes.len() == 0 || in_order.at() != self.now {
                    if self.has_created() {
                        return self.pop_of_now();
                    }
                    if self.store.find_front(end, &mut self.soon) {
                        continue;
                    }
                    if self.lanes.len() == 0 {
                        return None;
                    }
                }
                (in_order, true)
            };
            if event.at() != self.now {
                if self.has_created() {
                    return self.pop_of_now();
                }
                if !in_time(event.at(), end) {
                    return None;
                }
                self.peak = self.peak.max(self.store.len() + self.lanes.len());
                self.now = event.at();
            }
            if from_lane {
                self.lanes.take();
            } else {
                self.store.take_front();
            }
            return Some((self.now, event.word()));
        }
    }

    /// Whether events were created at the present instant for it.
    #[inline]
    fn has_created(&self) -> bool {
        !(self.batch.is_empty() && self.next.is_empty())
    }

    /// The next of the events that were created at the present instant for it.
    fn pop_of_now(&mut self) -> Option<(Time, Word)> {
        if self.batch.is_empty() {
            core::mem::swap(&mut self.batch, &mut self.next);
            if self.batch.len() > 1 {
                self.batch.sort_unstable_by(|a, b| b.cmp(a));
            }
        }
        self.batch.pop().map(|word| (self.now, word))
    }

    /// When the next event is due.
    pub fn earliest(&self) -> Option<Time> {
        if !self.is_between() {
            return Some(self.now);
        }
        let in_order = (self.lanes.len() > 0).then(|| self.lanes.first().at());
        self.store.earliest().into_iter().chain(in_order).min()
    }

    /// Events that were found to come soon since this was last cleared.
    #[inline]
    pub fn soon(&mut self) -> &mut Vec<Word> {
        &mut self.soon
    }

    /// Whether no event of the present instant is left.
    #[inline]
    pub fn is_between(&self) -> bool {
        !self.has_created()
            && self.store.front().is_none_or(|event| event.at() != self.now)
            && (self.lanes.len() == 0 || self.lanes.first().at() != self.now)
    }

    /// All events of later instants, in any order.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.store.iter().chain(self.lanes.iter())
    }

    /// Goes `by` further in time with all that is pending.
    pub fn put_off(&mut self, by: Span) {
        self.now += by;
        for event in self.drain() {
            self.store.push(Event::new(event.at() + by, event.word()));
        }
    }

    /// Takes out all events of later instants, in any order.
    pub fn drain(&mut self) -> Vec<Event> {
        let mut events = self.store.drain();
        events.append(&mut self.lanes.drain());
        events
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
        self.store.len() + self.lanes.len() + self.batch.len() + self.next.len()
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

/// Only "never" has no instant after it.
#[inline]
fn in_time(at: Time, end: Time) -> bool {
    at < end || end == Time::MAX
}

#[cfg(test)]
mod tests {
    use super::heap::HeapStore;
    use super::radix::RadixStore;
    use super::*;
    use proptest::prelude::*;

    /// Plays a script of increments against a queue: every event that is handed out creates the next ones, some of them in
    /// lanes if there are `lanes`.
    fn play<S: Store>(script: &[(u64, u64)], lanes: bool) -> Vec<(Time, u64)> {
        let mut queue = Pending::<S>::default();
        let mut steps = script.iter();
        let mut order = Vec::new();
        for &(delta, word) in steps.by_ref().take(4) {
            queue.push(Time::from_ps(delta), Word(word));
        }
        while let Some((now, word)) = queue.pop() {
            order.push((now, word.0));
            for &(delta, word) in steps.by_ref().take(1 + (word.0 % 2) as usize) {
                let at = Time::from_ps(now.as_ps().saturating_add(delta));
                if lanes && word % 3 > 0 {
                    queue.push_in_order((word % 7) as u8, at, Word(word));
                } else {
                    queue.push(at, Word(word));
                }
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
            let order = play::<HeapStore>(&script, false);
            prop_assert_eq!(&play::<RadixStore>(&script, false), &order);
            prop_assert_eq!(&play::<RadixStore>(&script, true), &order);
            prop_assert_eq!(&play::<HeapStore>(&script, true), &order);
        }
    }

    #[test]
    fn many_events_come_in_order() {
        // Beyond what the heap takes, with ties, in lanes and out of them.
        let script: Vec<(u64, u64)> = (0..20_000)
            .map(|i| (crate::random::mix(i) % 64 * 997 + 300_000 * (i % 3), crate::random::mix(i) >> 40))
            .collect();
        let load = |lanes: bool| {
            let mut queue = Pending::<RadixStore>::default();
            for (at, word) in &script[..5_000] {
                queue.push(Time::from_ps(1 + at), Word(*word));
            }
            let mut order = Vec::new();
            let mut steps = script[5_000..].iter();
            while let Some((now, word)) = queue.pop() {
                order.push((now, word));
                if let Some((delta, word)) = steps.next() {
                    let at = Time::from_ps(now.as_ps() + delta);
                    if lanes {
                        queue.push_in_order((word % 4) as u8, at, Word(*word));
                    } else {
                        queue.push(at, Word(*word));
                    }
                }
            }
            order
        };
        let order = load(true);
        assert_eq!((order.len(), order.is_sorted_by_key(|(at, _)| *at)), (20_000, true));
        assert_eq!(order, load(false));
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
