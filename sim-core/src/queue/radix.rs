//! A monotone radix queue with 64 slots a level.
//!
//! An event lies at the level of the highest six-bit digit in which its instant differs from the last instant taken,
//! in the slot of that digit. Times only grow, so an event moves down at most once per level, sequentially in memory,
//! and events of one instant travel together. The cost is flat from a thousand to ten million pending events
//! A few events are kept in a heap instead, which lies in one piece of memory: the slots only pay off where there are many.
//!
//! (Ahuja, Mehlhorn, Orlin, Tarjan: Faster algorithms for the shortest path problem, J. ACM 37, 1990).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Store;
use crate::event::{Event, Word};
use crate::units::Time;

const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
const LEVELS: usize = 64usize.div_ceil(DIGIT as usize);

/// Events beyond which they are put into slots.
const FEW: usize = 1 << 10;

/// Most events that are said to come soon at once.
const WAVE: usize = 256;

/// The radix queue.
#[derive(Debug)]
pub struct RadixStore {
    /// The last instant taken, in picoseconds; every stored event is later.
    last: u64,
    len: usize,
    /// One bit per slot that holds events.
    occupied: [u64; LEVELS],
    /// One bit per level that holds events.
    levels: u32,
    /// Empty as long as there were never many events.
    slots: Vec<Vec<Event>>,
    /// All events, as long as they are few.
    few: BinaryHeap<Reverse<Event>>,
    scratch: Vec<Event>,
}

impl Default for RadixStore {
    fn default() -> Self {
        Self {
            last: 0,
            len: 0,
            occupied: [0; LEVELS],
            levels: 0,
            slots: Vec::new(),
            few: BinaryHeap::new(),
            scratch: Vec::new(),
        }
    }
}

impl RadixStore {
    #[inline]
    fn place(&mut self, event: Event) {
        let at = event.at().as_ps();
        let differing = at ^ self.last;
        let level = ((63 - (differing | 1).leading_zeros()) / DIGIT) as usize;
        let slot = (at >> (level as u32 * DIGIT)) as usize & (SLOTS - 1);
        self.occupied[level] |= 1 << slot;
        self.levels |= 1 << level;
        self.slots[level * SLOTS + slot].push(event);
    }

    /// There are many now: all go into slots.
    #[cold]
    fn place_few(&mut self) {
        if self.slots.is_empty() {
            self.slots.resize_with(LEVELS * SLOTS, Vec::new);
        }
        for Reverse(event) in core::mem::take(&mut self.few) {
            self.place(event);
        }
    }

    #[inline]
    fn clear_bit(&mut self, level: usize, slot: usize) {
        self.occupied[level] &= !(1 << slot);
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }
}

impl Store for RadixStore {
    #[inline]
    fn push(&mut self, event: Event) {
        if self.len == self.few.len() {
            if self.len < FEW {
                self.len += 1;
                self.few.push(Reverse(event));
                return;
            }
            self.place_few();
        }
        self.len += 1;
        self.place(event);
    }

    #[inline]
    fn take_earliest(&mut self, end: Time, batch: &mut Vec<Word>, soon: &mut Vec<Word>) -> Option<Time> {
        if self.len == 0 {
            return None;
        }
        // Only "never" has no instant after it.
        let in_time = |at: Time| at < end || end == Time::MAX;
        if self.len == self.few.len() {
            let at = self.few.peek().map(|Reverse(event)| event.at()).filter(|at| in_time(*at))?;
            while let Some(Reverse(event)) = self.few.peek()
                && event.at() == at
            {
                batch.push(event.word());
                self.few.pop();
            }
            self.len = self.few.len();
            self.last = at.as_ps();
            return Some(at);
        }
        let level = self.levels.trailing_zeros() as usize;
        let slot = self.occupied[level].trailing_zeros() as usize;
        let index = level * SLOTS + slot;
        // A slot of level 0 is one instant; so is any slot with a single event.
        if level == 0 || self.slots[index].len() == 1 {
            let at = self.slots[index][0].at();
            if !in_time(at) {
                return None;
            }
            self.clear_bit(level, slot);
            let events = &mut self.slots[index];
            self.len -= events.len();
            batch.extend(events.drain(..).map(Event::word));
            self.last = at.as_ps();
            return Some(at);
        }
        let first = self.slots[index].iter().copied().min().map_or(Time::ZERO, Event::at);
        if !in_time(first) {
            return None;
        }
        self.clear_bit(level, slot);
        let first = first.as_ps();
        let mut events = core::mem::take(&mut self.scratch);
        core::mem::swap(&mut events, &mut self.slots[index]);
        self.last = first;
        if level >= 2 && events.len() <= WAVE {
            soon.extend(events.iter().map(|event| event.word()));
        }
        for event in events.drain(..) {
            if event.at().as_ps() == first {
                batch.push(event.word());
                self.len -= 1;
            } else {
                self.place(event);
            }
        }
        self.scratch = events;
        Some(Time::from_ps(first))
    }

    fn earliest(&self) -> Option<Time> {
        if let Some(Reverse(event)) = self.few.peek() {
            return Some(event.at());
        }
        let level = self.levels.trailing_zeros() as usize;
        let slot = self.occupied.get(level)?.trailing_zeros() as usize;
        self.slots[level * SLOTS + slot].iter().copied().min().map(Event::at)
    }

    fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let occupied = move |level: usize| (0..SLOTS).filter(move |slot| self.occupied[level] >> slot & 1 != 0);
        let slots = (0..LEVELS).flat_map(move |level| occupied(level).map(move |slot| level * SLOTS + slot));
        let few = self.few.iter().map(|Reverse(event)| *event);
        few.chain(slots.flat_map(|index| self.slots[index].iter().copied()))
    }

    fn drain(&mut self) -> Vec<Event> {
        let events = self.iter().collect();
        self.slots.iter_mut().for_each(Vec::clear);
        self.few.clear();
        self.occupied = [0; LEVELS];
        self.levels = 0;
        self.len = 0;
        events
    }

    fn len(&self) -> usize {
        self.len
    }
}
