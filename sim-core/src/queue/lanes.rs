//! Lanes of events that come in order: whoever adds to a lane adds later events than before, so that there is nothing to sort.

use crate::event::{Event, Word};
use crate::units::Time;

/// The most lanes.
const LANES: usize = 4;

/// After all events.
const NONE: Event = Event::new(Time::MAX, Word(u64::MAX));

/// A lane: a ring of events in order.
#[derive(Debug)]
struct Lane {
    /// As many as a power of two.
    ring: Vec<Event>,
    /// How many events were taken out, and put in.
    taken: usize,
    put: usize,
    /// The one that was put in last.
    last: Event,
}

impl Lane {
    /// Where an event lies, by how many were put in before it.
    #[inline]
    fn at(&self, number: usize) -> usize {
        number & (self.ring.len() - 1)
    }

    #[cold]
    fn grow(&mut self) {
        let mut ring = Vec::with_capacity(self.ring.len() * 2);
        ring.extend((self.taken..self.put).map(|number| self.ring[self.at(number)]));
        (self.taken, self.put) = (0, ring.len());
        ring.resize(self.ring.len() * 2, NONE);
        self.ring = ring;
    }
}

/// Lanes of events in order.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: [Lane; LANES],
    /// The first event of each, [`NONE`] if there is none; that of all, and its lane.
    firsts: [Event; LANES],
    first: Event,
    at: usize,
    len: usize,
    /// Lanes from here on were never used.
    used: usize,
}

impl Default for Lanes {
    fn default() -> Self {
        let lane = || Lane { ring: vec![NONE; 1], taken: 0, put: 0, last: Event::new(Time::ZERO, Word(0)) };
        let lanes = core::array::from_fn(|_| lane());
        Self { lanes, firsts: [NONE; LANES], first: NONE, at: 0, len: 0, used: 0 }
    }
}

impl Lanes {
    /// The first event; one that comes after all others if there is none.
    #[inline]
    pub(super) fn first(&self) -> Event {
        self.first
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds an event, which comes after all that were taken out, to a lane, if it comes after those that are in it.
    #[inline]
    pub(super) fn push(&mut self, number: usize, event: Event) -> bool {
        let number = number % LANES;
        let lane = &mut self.lanes[number];
        if event < lane.last {
            return false;
        }
        if lane.put - lane.taken == lane.ring.len() {
            lane.grow();
        }
        let at = lane.at(lane.put);
        lane.ring[at] = event;
        lane.last = event;
        lane.put += 1;
        self.len += 1;
        if lane.put - lane.taken == 1 {
            self.firsts[number] = event;
            self.used = self.used.max(number + 1);
            if event < self.first {
                (self.first, self.at) = (event, number);
            }
        }
        true
    }

    /// Takes out the first event. There is one.
    #[inline(never)]
    pub(super) fn take(&mut self) {
        let number = self.at % LANES;
        let lane = &mut self.lanes[number];
        lane.taken += 1;
        self.len -= 1;
        self.firsts[number] = if lane.taken == lane.put { NONE } else { lane.ring[lane.at(lane.taken)] };
        self.first = self.firsts[0];
        self.at = 0;
        for number in 1..self.used.min(LANES) {
            if self.firsts[number] < self.first {
                (self.first, self.at) = (self.firsts[number], number);
            }
        }
    }

    /// All events, in any order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.lanes.iter().flat_map(|lane| (lane.taken..lane.put).map(|number| lane.ring[lane.at(number)]))
    }

    /// Takes out all events, in any order.
    pub(super) fn drain(&mut self) -> Vec<Event> {
        let events = self.iter().collect();
        *self = Self::default();
        events
    }
}
