//! A monotone radix queue with 64 slots a level, and a sorted run of what comes next.
//!
//! An event lies at the level of the highest six-bit digit in which its instant differs from the start of the slot that
//! was opened last, in the slot of that digit. Times only grow, so an event moves down at most once per level,
//! sequentially in memory. The cost is flat from a thousand to ten million pending events
//! (Ahuja, Mehlhorn, Orlin, Tarjan: Faster algorithms for the shortest path problem, J. ACM 37, 1990).
//!
//! A slot of a few events is not dealt out any further: it is sorted once and handed out from its end. What is added
//! later within its time is put in its place there. If that makes the run long, its later half goes back to slots.
//!
//! A few events are kept in a heap instead, which lies in one piece of memory: the slots only pay off where there are many.

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

/// Most events of a slot that is sorted rather than dealt out.
const SHORT: usize = 64;

/// Events at which a run is halved.
const LONG: usize = 4 * SHORT;

/// The level from which on a slot is dealt one level down rather than by its first instant.
const WIDE: usize = 3;

/// Most events that are said to come soon at once.
const WAVE: usize = 256;

/// The radix queue.
#[derive(Debug)]
pub struct RadixStore {
    /// The start of the slot that was opened last, in picoseconds; what lies in slots is later.
    last: u64,
    /// The last instant of the run: nothing up to it lies in slots.
    run_end: u64,
    len: usize,
    /// The next events, in descending order.
    run: Vec<Event>,
    /// What comes before this was said to come soon.
    told_to: u64,
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
            run_end: 0,
            len: 0,
            run: Vec::new(),
            told_to: 0,
            occupied: [0; LEVELS],
            levels: 0,
            slots: Vec::new(),
            few: BinaryHeap::new(),
            scratch: Vec::new(),
        }
    }
}

/// Only "never" has no instant after it.
#[inline]
fn in_time(at: Time, end: Time) -> bool {
    at < end || end == Time::MAX
}

fn earliest(events: &[Event]) -> Time {
    events.iter().copied().min().map_or(Time::MAX, Event::at)
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

    /// Puts an event into the run.
    #[inline]
    fn insert(&mut self, event: Event) {
        // What is new tends to come late.
        let at = self.run.partition_point(|other| *other > event);
        self.run.insert(at, event);
        if self.run.len() > LONG {
            self.halve();
        }
    }

    /// The later half of the run goes back to slots.
    #[cold]
    fn halve(&mut self) {
        let keep = self.run.len() / 2;
        let first = self.run[keep].at();
        // Events of one instant stay together.
        let cut = self.run.partition_point(|event| event.at() > first);
        if cut == 0 {
            return;
        }
        self.run_end = self.run[cut - 1].at().as_ps() - 1;
        let mut events = core::mem::take(&mut self.scratch);
        events.extend(self.run.drain(..cut));
        events.drain(..).for_each(|event| self.place(event));
        self.scratch = events;
    }

    /// There are many now: all go into slots.
    #[cold]
    fn place_few(&mut self) {
        if self.slots.is_empty() {
            self.slots.resize_with(LEVELS * SLOTS, Vec::new);
        }
        self.run_end = self.last;
        for Reverse(event) in core::mem::take(&mut self.few) {
            self.place(event);
        }
    }

    /// Takes the only event of the earliest slot.
    #[inline]
    fn take_alone(&mut self, event: Event, level: usize, slot: usize, end: Time) -> Option<Event> {
        if !in_time(event.at(), end) {
            return None;
        }
        self.slots[level * SLOTS + slot].clear();
        self.clear_bit(level, slot);
        self.len -= 1;
        self.last = event.at().as_ps();
        self.run_end = self.last;
        Some(event)
    }

    #[inline]
    fn clear_bit(&mut self, level: usize, slot: usize) {
        self.occupied[level] &= !(1 << slot);
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    /// Makes the earliest slot the run, if it begins before `end`; or its first instant the batch, if it holds many events.
    fn open(&mut self, end: Time, batch: &mut Vec<Word>, soon: &mut Vec<Word>) -> Option<()> {
        while self.levels != 0 {
            let level = self.levels.trailing_zeros() as usize;
            let slot = self.occupied[level].trailing_zeros() as usize;
            let shift = level as u32 * DIGIT;
            let before = self.last.checked_shr(shift + DIGIT).map_or(0, |high| high << (shift + DIGIT));
            let start = before | (slot as u64) << shift;
            let events = &self.slots[level * SLOTS + slot];
            let by_first = level < WIDE && events.len() > SHORT;
            let first = if by_first { earliest(events) } else { Time::from_ps(start) };
            if !in_time(first, end) {
                return None;
            }
            self.clear_bit(level, slot);
            self.last = start;
            let events = &mut self.slots[level * SLOTS + slot];
            if level >= 2 && start >= self.told_to && events.len() > 1 && events.len() <= WAVE {
                soon.extend(events.iter().map(|event| event.word()));
                self.told_to = start.saturating_add(1 << shift);
            }
            if events.len() <= SHORT {
                core::mem::swap(&mut self.run, events);
                self.run.sort_unstable_by(|a, b| b.cmp(a));
                // What comes after all of these is not put among them.
                self.run_end = self.run.first().map_or(start, |event| event.at().as_ps());
                return Some(());
            }
            let mut dealt = core::mem::take(&mut self.scratch);
            core::mem::swap(&mut dealt, events);
            if by_first {
                self.deal_first(first, dealt, batch);
                return Some(());
            }
            // All go one level down: the first of its slots is opened next, so nothing comes to lie below it.
            let (level, shift) = (level - 1, shift - DIGIT);
            let slots = &mut self.slots[level * SLOTS..][..SLOTS];
            let mut occupied = 0;
            for event in &dealt {
                let slot = (event.at().as_ps() >> shift) as usize & (SLOTS - 1);
                occupied |= 1 << slot;
                slots[slot].push(*event);
            }
            self.occupied[level] = occupied;
            self.levels |= 1 << level;
            dealt.clear();
            self.scratch = dealt;
        }
        None
    }

    /// The events of the first instant are a batch; the others go to the levels where they differ from it.
    fn deal_first(&mut self, first: Time, mut dealt: Vec<Event>, batch: &mut Vec<Word>) {
        self.last = first.as_ps();
        self.run_end = self.last;
        for event in dealt.drain(..) {
            if event.at() == first {
                batch.push(event.word());
            } else {
                self.place(event);
            }
        }
        batch.sort_unstable_by(|a, b| b.cmp(a));
        self.scratch = dealt;
    }

    fn take_of_few(&mut self, end: Time, batch: &mut Vec<Word>) -> Option<Event> {
        let Reverse(first) = self.few.peek().copied().filter(|Reverse(event)| in_time(event.at(), end))?;
        self.few.pop();
        while let Some(Reverse(event)) = self.few.peek()
            && event.at() == first.at()
        {
            batch.push(event.word());
            self.few.pop();
        }
        batch.reverse();
        self.len = self.few.len();
        self.last = first.at().as_ps();
        Some(first)
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
        if event.at().as_ps() <= self.run_end {
            self.insert(event);
        } else {
            self.place(event);
        }
    }

    #[inline]
    fn take_earliest(&mut self, end: Time, batch: &mut Vec<Word>, soon: &mut Vec<Word>) -> Option<Event> {
        if self.run.is_empty() {
            if self.len == self.few.len() {
                return self.take_of_few(end, batch);
            }
            let level = self.levels.trailing_zeros() as usize;
            let slot = self.occupied[level].trailing_zeros() as usize;
            if let [event] = self.slots[level * SLOTS + slot][..] {
                return self.take_alone(event, level, slot, end);
            }
            self.open(end, batch, soon)?;
            if let Some(word) = batch.pop() {
                self.len -= batch.len() + 1;
                return Some(Event::new(Time::from_ps(self.last), word));
            }
        }
        let first = *self.run.last()?;
        if !in_time(first.at(), end) {
            return None;
        }
        self.run.pop();
        self.len -= 1;
        while let Some(event) = self.run.last()
            && event.at() == first.at()
        {
            batch.push(event.word());
            self.run.pop();
            self.len -= 1;
        }
        if batch.len() > 1 {
            batch.reverse();
        }
        Some(first)
    }

    fn earliest(&self) -> Option<Time> {
        if let Some(Reverse(event)) = self.few.peek() {
            return Some(event.at());
        }
        if let Some(event) = self.run.last() {
            return Some(event.at());
        }
        let level = self.levels.trailing_zeros() as usize;
        let slot = self.occupied.get(level)?.trailing_zeros() as usize;
        Some(earliest(&self.slots[level * SLOTS + slot]))
    }

    fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let occupied = move |level: usize| (0..SLOTS).filter(move |slot| self.occupied[level] >> slot & 1 != 0);
        let slots = (0..LEVELS).flat_map(move |level| occupied(level).map(move |slot| level * SLOTS + slot));
        let few = self.few.iter().map(|Reverse(event)| *event);
        let run = self.run.iter().copied();
        few.chain(run).chain(slots.flat_map(|index| self.slots[index].iter().copied()))
    }

    fn drain(&mut self) -> Vec<Event> {
        let events = self.iter().collect();
        self.slots.iter_mut().for_each(Vec::clear);
        self.few.clear();
        self.run.clear();
        self.occupied = [0; LEVELS];
        (self.levels, self.len, self.last, self.run_end, self.told_to) = (0, 0, 0, 0, 0);
        events
    }

    fn len(&self) -> usize {
        self.len
    }
}
