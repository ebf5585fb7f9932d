//! A monotone radix queue with 64 slots a level, and a sorted run of what comes next.
//!
//! An event lies at the level of the highest six-bit digit in which its instant differs from the start of the slot that
//! was opened last, in the slot of that digit. Times only grow, so an event moves down at most once per level,
//! sequentially in memory. The cost is flat from a thousand to ten million pending events
//! (Ahuja, Mehlhorn, Orlin, Tarjan: Faster algorithms for the shortest path problem, J. ACM 37, 1990).
//!
//! A slot of a few events is not dealt out any further: it is sorted once and handed out from its beginning. What is added
//! later within its time is put in its place there. If that makes the run long, its later half goes back to slots.
//!
//! A few events are kept in a heap instead, which lies in one piece of memory: the slots only pay off where there are many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Store, in_time};
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
    /// The last instant of the run: nothing up to it lies in slots. The end of time where nothing lies in slots at all.
    run_end: u64,
    /// The next events, in ascending order, and how many of them were taken.
    run: Vec<Event>,
    taken: usize,
    /// What comes before this was said to come soon.
    told_to: u64,
    /// Events in slots.
    slotted: usize,
    /// One bit per slot that holds events.
    occupied: [u64; LEVELS],
    slots: Box<[Vec<Event>; LEVELS * SLOTS]>,
    /// Whether all events are in the heap.
    are_few: bool,
    few: BinaryHeap<Reverse<Event>>,
    scratch: Vec<Event>,
}

impl Default for RadixStore {
    fn default() -> Self {
        Self {
            last: 0,
            run_end: u64::MAX,
            run: Vec::new(),
            taken: 0,
            told_to: 0,
            slotted: 0,
            occupied: [0; LEVELS],
            slots: Box::new([const { Vec::new() }; LEVELS * SLOTS]),
            are_few: true,
            few: BinaryHeap::new(),
            scratch: Vec::new(),
        }
    }
}

fn earliest(events: &[Event]) -> Time {
    events.iter().copied().min().map_or(Time::MAX, Event::at)
}

// What is rare is a call at the end, so that what is frequent has nothing to keep for it.
#[cold]
#[inline(never)]
fn push_and_grow(events: &mut Vec<Event>, event: Event) {
    events.push(event);
}

impl RadixStore {
    #[inline]
    fn place(&mut self, event: Event) {
        let at = event.at().as_ps();
        let differing = at ^ self.last;
        let level = ((63 - (differing | 1).leading_zeros()) / DIGIT) as usize;
        let slot = (at >> (level as u32 * DIGIT)) as usize & (SLOTS - 1);
        self.occupied[level] |= 1 << slot;
        self.slotted += 1;
        let events = &mut self.slots[level * SLOTS + slot];
        if events.len() == events.capacity() {
            return push_and_grow(events, event);
        }
        events.push(event);
    }

    /// An event that does not go into a slot.
    #[inline(never)]
    fn push_near(&mut self, event: Event) {
        if self.are_few && self.run.last().is_none_or(|last| last.at() < event.at()) {
            if self.few.len() < FEW {
                self.few.push(Reverse(event));
            } else {
                self.place_few();
                self.place(event);
            }
            return;
        }
        if self.taken >= LONG {
            self.run.drain(..self.taken);
            self.taken = 0;
        }
        // What is new tends to come late.
        let at = self.taken + self.run[self.taken..].partition_point(|other| *other < event);
        self.run.insert(at, event);
        if self.run.len() - self.taken > LONG && !self.are_few {
            self.halve();
        }
    }

    /// The later half of the run goes back to slots.
    #[cold]
    fn halve(&mut self) {
        let keep = self.run[self.taken + LONG / 2].at();
        // Events of one instant stay together.
        let cut = self.run.partition_point(|event| event.at() <= keep);
        let Some(next) = self.run.get(cut) else { return };
        self.run_end = next.at().as_ps() - 1;
        let mut events = core::mem::take(&mut self.scratch);
        events.extend(self.run.drain(cut..));
        events.drain(..).for_each(|event| self.place(event));
        self.scratch = events;
    }

    /// There are many now: all go into slots.
    #[cold]
    fn place_few(&mut self) {
        self.are_few = false;
        self.run_end = self.last;
        for Reverse(event) in core::mem::take(&mut self.few) {
            self.place(event);
        }
    }

    /// The lowest level that holds events.
    #[inline]
    fn lowest_level(&self) -> Option<usize> {
        self.occupied.iter().position(|slots| *slots != 0)
    }

    #[inline]
    fn clear_bit(&mut self, level: usize, slot: usize) {
        self.occupied[level] &= !(1 << slot);
    }

    /// Makes the events of the earliest instant in the heap the run.
    #[inline]
    fn open_few(&mut self, end: Time) -> bool {
        let Some(first) = self.few.peek().map(|Reverse(event)| event.at()).filter(|first| in_time(*first, end)) else {
            return false;
        };
        while let Some(Reverse(event)) = self.few.peek()
            && event.at() == first
        {
            self.run.push(*event);
            self.few.pop();
        }
        self.last = first.as_ps();
        true
    }

    /// Makes the earliest slot the run, if it begins before `end`; or the events of its first instant, if it holds many.
    fn open(&mut self, end: Time, soon: &mut Vec<Word>) -> bool {
        while let Some(level) = self.lowest_level() {
            let slot = self.occupied[level].trailing_zeros() as usize;
            let shift = level as u32 * DIGIT;
            let before = self.last.checked_shr(shift + DIGIT).map_or(0, |high| high << (shift + DIGIT));
            let start = before | (slot as u64) << shift;
            let events = &mut self.slots[level * SLOTS + slot];
            let by_first = events.len() == 1 || level < WIDE && events.len() > SHORT;
            let first = if by_first { earliest(events) } else { Time::from_ps(start) };
            if !in_time(first, end) {
                return false;
            }
            if level >= 2 && start >= self.told_to && events.len() > 1 && events.len() <= WAVE {
                soon.extend(events.iter().map(|event| event.word()));
                self.told_to = start.saturating_add(1 << shift);
            }
            if events.len() <= SHORT {
                core::mem::swap(&mut self.run, events);
                self.slotted -= self.run.len();
                self.clear_bit(level, slot);
                if self.run.len() > 1 {
                    self.run.sort_unstable();
                }
                // What comes after all of these is not put among them.
                self.run_end = self.run.last().map_or(start, |event| event.at().as_ps());
                self.last = if by_first { self.run_end } else { start };
                return true;
            }
            self.last = start;
            let mut dealt = core::mem::take(&mut self.scratch);
            core::mem::swap(&mut dealt, events);
            self.clear_bit(level, slot);
            if by_first {
                self.deal_first(first, dealt);
                return true;
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
            dealt.clear();
            self.scratch = dealt;
        }
        false
    }

    /// The events of the first instant are the run; the others go to the levels where they differ from it.
    fn deal_first(&mut self, first: Time, mut dealt: Vec<Event>) {
        self.last = first.as_ps();
        self.run_end = self.last;
        self.slotted -= dealt.len();
        for event in dealt.drain(..) {
            if event.at() == first {
                self.run.push(event);
            } else {
                self.place(event);
            }
        }
        self.run.sort_unstable();
        self.scratch = dealt;
    }
}

impl Store for RadixStore {
    #[inline]
    fn push(&mut self, event: Event) {
        if event.at().as_ps() > self.run_end {
            self.place(event);
        } else {
            self.push_near(event);
        }
    }

    #[inline]
    fn front(&self) -> Option<&Event> {
        self.run.get(self.taken)
    }

    #[inline]
    fn take_front(&mut self) {
        self.taken += 1;
    }

    fn find_front(&mut self, end: Time, soon: &mut Vec<Word>) -> bool {
        if self.taken < self.run.len() {
            return true;
        }
        self.run.clear();
        self.taken = 0;
        if self.slotted == 0 {
            (self.are_few, self.run_end) = (true, u64::MAX);
        }
        if self.are_few { self.open_few(end) } else { self.open(end, soon) }
    }

    fn earliest(&self) -> Option<Time> {
        if let Some(event) = self.front() {
            return Some(event.at());
        }
        if let Some(Reverse(event)) = self.few.peek() {
            return Some(event.at());
        }
        let level = self.lowest_level()?;
        let slot = self.occupied[level].trailing_zeros() as usize;
        Some(earliest(&self.slots[level * SLOTS + slot]))
    }

    fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        let occupied = move |level: usize| (0..SLOTS).filter(move |slot| self.occupied[level] >> slot & 1 != 0);
        let slots = (0..LEVELS).flat_map(move |level| occupied(level).map(move |slot| level * SLOTS + slot));
        let few = self.few.iter().map(|Reverse(event)| *event);
        let run = self.run[self.taken..].iter().copied();
        few.chain(run).chain(slots.flat_map(|index| self.slots[index].iter().copied()))
    }

    fn drain(&mut self) -> Vec<Event> {
        let events = self.iter().collect();
        *self = Self::default();
        events
    }

    #[inline]
    fn len(&self) -> usize {
        self.few.len() + (self.run.len() - self.taken) + self.slotted
    }
}
