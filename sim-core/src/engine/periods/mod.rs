//! Periods: where the whole state comes back, put off by some time, all that follows is the same again and is not
//! played but counted.
//!
//! A pipeline of many equal chunks soon gets into a rhythm. When a watched lane has done a chunk, the state of the engine
//! relative to the present ([`state`]) is held against one that was kept before. If they are equal, number by number, what
//! happened in between happens again, at instants that are a period later, until a lane comes to a chunk of another size,
//! to the end of its operation or of its last iteration ([`progress`]). Pending instants are put off by as many periods as
//! that, counters grow by as many times what they grew by in the one that was played, and the loop goes on from there. The result is the
//! one of playing everything, to the picosecond and to the byte.
//!
//! Nothing is looked for where a state can't come back or is not all of it: links that are down at times, networks of
//! packets, timers of the driver.

mod progress;
mod state;

use super::state::{LaneState, LinkState, NONE};
use super::{Engine, EngineCounters, Notice};
use crate::event::{Event, Word};
use crate::outcome::Repeated;
use crate::queue::Store;
use crate::units::{Span, Time};

use progress::Marks;
use state::Pass;

/// Steps that a lane must have before it for being watched.
const LEAST_STEPS: u64 = 12;

/// What is kept of a state, to hold later ones against it.
#[derive(Debug)]
struct Kept {
    at: Time,
    hash: u64,
    pending: Vec<Event>,
    state: Vec<u64>,
    marks: Marks,
    links: Vec<LinkState>,
    engine: EngineCounters,
    trace: Trace,
    heard: usize,
}

/// Sums over all events from which the fingerprint is made: of their contents, and of these times their instants. They
/// can be taken on over periods that are not played.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trace {
    contents: u64,
    moments: u64,
}

/// What is watched, and what was kept.
#[derive(Debug)]
pub(super) struct Watch {
    /// Whether periods are looked for.
    on: bool,
    /// The lane after whose steps the state is looked at; [`NONE`] without one.
    pub(super) lane: u32,
    /// It has done one; or another lane is to be chosen.
    pub(super) due: bool,
    choose: bool,
    /// Looks in all, and since a state was kept.
    looks: u32,
    since: u32,
    /// Looks since something came again.
    barren: u32,
    /// Events when a state was last kept of an engine that others load.
    imaged: u64,
    /// Events when it was last looked, and when a state was last kept.
    looked: u64,
    chosen: u64,
    /// Lanes that may be watched, of the first `seen`; those that are done are dropped when one is chosen.
    worth: Vec<u32>,
    seen: usize,
    kept: Option<Box<Kept>>,
    /// The state after the last leap.
    landed: Option<Box<Kept>>,
    /// Kernels' notices since the first state was kept.
    heard: Vec<Notice>,
    pub(super) repeated: Repeated,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            on: false,
            lane: NONE,
            due: false,
            choose: false,
            looks: 0,
            since: 0,
            barren: 0,
            imaged: 0,
            looked: 0,
            chosen: 0,
            worth: Vec::new(),
            seen: 0,
            kept: None,
            landed: None,
            heard: Vec::new(),
            repeated: Repeated::default(),
        }
    }
}

impl Trace {
    /// An event. The number of a segment is left out: it says only which of its flow's it is.
    #[inline]
    pub(super) fn add(&mut self, now: Time, word: Word) {
        let word = word.without_number();
        let content = (word ^ word.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        self.contents = self.contents.wrapping_add(content);
        self.moments = self.moments.wrapping_add(content.wrapping_mul(now.as_ps()));
    }

    /// What happened since `before` happens `times` more, each time `period` later than the time before.
    fn repeat(&mut self, before: Self, times: u64, period: Span) {
        let contents = self.contents.wrapping_sub(before.contents);
        let moments = self.moments.wrapping_sub(before.moments);
        let periods = (u128::from(times) * (u128::from(times) + 1) / 2) as u64;
        let later = contents.wrapping_mul(period.as_ps()).wrapping_mul(periods);
        self.moments = self.moments.wrapping_add(moments.wrapping_mul(times)).wrapping_add(later);
        self.contents = self.contents.wrapping_add(contents.wrapping_mul(times));
    }

    /// One number of it.
    pub(super) fn hash(self) -> u64 {
        crate::random::mix(self.moments ^ crate::random::mix(self.contents))
    }
}

impl<S: Store> Engine<S> {
    /// What is loaded has changed.
    pub(super) fn watch_anew(&mut self) {
        let Watch { repeated, imaged, seen, .. } = self.watch;
        let worth = core::mem::take(&mut self.watch.worth);
        let on = !self.limits.play_all && self.flapping.is_empty() && self.net.is_none();
        self.watch = Watch { on, due: on, choose: on, repeated, imaged, worth, seen, ..Watch::default() };
    }

    /// The first `dropped` lanes are dropped.
    pub(super) fn watch_fewer(&mut self, dropped: usize) {
        let watch = &mut self.watch;
        watch.seen = watch.seen.saturating_sub(dropped);
        watch.worth.retain(|lane| *lane as usize >= dropped);
        watch.worth.iter_mut().for_each(|lane| *lane -= dropped as u32);
    }

    /// Nothing is looked for any more in what is loaded.
    pub(super) fn watch_nothing(&mut self) {
        let Watch { repeated, seen, .. } = self.watch;
        let worth = core::mem::take(&mut self.watch.worth);
        self.watch = Watch { repeated, worth, seen, ..Watch::default() };
    }

    /// What was kept is no state to come back to: something is pending that was not.
    pub(super) fn forget_states(&mut self) {
        self.watch.kept = None;
        self.watch.landed = None;
        self.watch.heard.clear();
    }

    /// The watched lane has ended, or a kernel begins and none is watched.
    pub(super) fn watch_another(&mut self) {
        self.watch.choose = self.watch.on;
        self.watch.due = self.watch.on;
    }

    /// Takes the lane that has most steps before it.
    fn choose_lane(&mut self) {
        // To go through lanes costs about as much as so many events; those that were leapt over cost nothing.
        let played = self.engine.events - self.watch.repeated.events;
        let size = (self.watch.worth.len() + self.lanes.len() - self.watch.seen) as u64;
        if self.watch.chosen > 0 && played - self.watch.chosen < size {
            return;
        }
        self.watch.chosen = played.max(1);
        self.watch.choose = false;
        let mut worth = core::mem::take(&mut self.watch.worth);
        worth.extend(self.watch.seen as u32..self.lanes.len() as u32);
        self.watch.seen = self.lanes.len();
        let steps = |lane: &LaneState| {
            if lane.done {
                return 0;
            }
            let (kernel, layout) = (&self.kernels[lane.kernel as usize], &self.layouts[lane.layout as usize]);
            let ops = &self.ops[lane.ops.start as usize..lane.ops.end as usize];
            let chunks: u64 = ops.iter().map(|op| u64::from(op.repeat)).sum();
            let chunk = layout.chunk_bytes(0, 0);
            let slices = chunk.div_ceil(layout.slice_bytes(chunk).max(1));
            let calls = u64::from(self.programs[kernel.program as usize].iterations - kernel.iteration);
            let now = u64::from(lane.loops - lane.turn) + (calls - 1) * u64::from(lane.loops);
            now.saturating_mul(chunks).saturating_mul(slices)
        };
        // Steps become fewer only.
        worth.retain(|lane| steps(&self.lanes[*lane as usize]) >= LEAST_STEPS);
        let most = worth.iter().max_by_key(|lane| (steps(&self.lanes[**lane as usize]), core::cmp::Reverse(**lane)));
        self.watch.lane = most.copied().unwrap_or(NONE);
        self.watch.worth = worth;
    }

    /// Looks whether the state has come back, between two instants.
    #[inline(never)]
    pub(super) fn look(&mut self) {
        self.watch.due = false;
        if self.watch.choose {
            self.choose_lane();
        }
        // A look costs about as much as a few events; it is never more than a small part of all.
        let pending = self.pending.len() as u64;
        if self.timers > 0 || self.watch.lane == NONE || self.engine.events - self.watch.looked < 2 * pending {
            return;
        }
        self.watch.looked = self.engine.events;
        self.watch.looks += 1;
        self.watch.since += 1;
        self.watch.barren += 1;
        let hash = self.hash_of_pending();
        if let Some(kept) = self.watch.kept.take() {
            if let Some(times) = self.comes_again(&kept, hash) {
                self.leap(&kept, times);
                self.land(hash);
                self.watch.barren = 0;
            }
            // Kept also after a leap: what came again a few times can be part of a longer period.
            self.watch.kept = Some(kept);
        }
        // Where each load begins the search anew, states are kept no more often than they cost.
        let size = if self.limits.open { self.flows.len() + self.lanes.len() + self.links.len() } else { 0 };
        let paid = self.engine.events - self.watch.imaged >= 8 * size as u64 || self.limits.one_program;
        if self.watch.since >= 2 + self.watch.looks / 4 && paid {
            self.watch.imaged = self.engine.events;
            self.watch.since = 0;
            self.watch.kept = Some(Box::new(self.image(hash)));
        }
        self.consider_regions(self.watch.barren);
    }

    /// How often what happened since `kept` comes again; `None` if it does not.
    fn comes_again(&self, kept: &Kept, hash: u64) -> Option<u64> {
        if kept.hash != hash || kept.pending.len() != self.pending.len() {
            return None;
        }
        let mut pass = Pass::Compare(kept.state.iter());
        self.walk(&mut pass)?;
        if !pass.is_over() || self.relative_events() != kept.pending {
            return None;
        }
        let (now, period) = (self.now(), self.now().since(kept.at));
        let events = self.engine.events - kept.engine.events;
        if period == Span::ZERO || events == 0 {
            return None;
        }
        let horizon = Time::from_ps(self.horizon.as_ps() - 1);
        let end = self.limits.time.min(horizon).min(Time::from_ps(u64::MAX / 4));
        let times = self
            .room(&kept.marks, period)
            .min(end.since(now).as_ps() / period.as_ps())
            .min((self.limits.events - self.engine.events) / events)
            .min(u64::from(u32::MAX));
        // A short way is sooner played than leapt over, and a longer period may be on its way.
        (times > 0 && times.saturating_mul(events) >= kept.state.len() as u64).then_some(times)
    }

    /// Goes on from a state that has come back to the last time that it will, `times` periods later.
    fn leap(&mut self, kept: &Kept, times: u64) {
        let period = self.now().since(kept.at);
        self.take_on(&kept.marks, times, period);
        self.put_off(period * times);
        let more = |now: u64, before: u64| now + (now - before) * times;
        let mut hops = 0;
        for (link, before) in self.links.iter_mut().zip(&kept.links) {
            link.payload = more(link.payload, before.payload);
            link.packets = more(link.packets, before.packets);
            link.wait_bytes += (link.wait_bytes - before.wait_bytes) * u128::from(times);
            for (now, before) in link.waits.iter_mut().zip(&before.waits) {
                hops += *now - *before;
                *now = more(*now, *before);
            }
        }
        let (engine, before) = (&mut self.engine, &kept.engine);
        self.watch.repeated.leaps += 1;
        self.watch.repeated.periods += times;
        self.watch.repeated.events += (engine.events - before.events) * times;
        self.watch.repeated.segment_hops += hops * times;
        engine.events = more(engine.events, before.events);
        engine.bytes_sent = more(engine.bytes_sent, before.bytes_sent);
        engine.bytes_delivered = more(engine.bytes_delivered, before.bytes_delivered);
        engine.bytes_joined = more(engine.bytes_joined, before.bytes_joined);
        engine.bytes_forked = more(engine.bytes_forked, before.bytes_forked);
        self.trace.repeat(kept.trace, times, period);
        self.hear_again(kept, times, period);
    }

    /// The notices since `kept`, once more for each period.
    fn hear_again(&mut self, kept: &Kept, times: u64, period: Span) {
        let heard: Vec<Notice> = self.watch.heard[kept.heard..].to_vec();
        for turn in 1..=times {
            for notice in &heard {
                let Notice::Kernel { program, kernel, iteration, started, ended } = *notice else { continue };
                let index = self.programs[program as usize].kernels.start + kernel;
                // Taken on already: what is left is the number of iterations in a period.
                let step = self.iterations_since(&kept.marks, index as usize) / (times as u32 + 1);
                let later = period * turn;
                let (started, ended) = (started + later, ended + later);
                let iteration = iteration + step * turn as u32;
                self.hear(Notice::Kernel { program, kernel, iteration, started, ended });
            }
        }
    }

    /// A kernel has ended an iteration.
    pub(super) fn hear(&mut self, notice: Notice) {
        self.notices.push(notice);
        if self.regions.is_some() {
            self.told.push(self.now());
        }
        if self.watch.kept.is_some() || self.watch.landed.is_some() {
            self.watch.heard.push(notice);
        }
    }

    /// After a leap: what comes is compared with what came after the one before, which can be in the iteration before.
    fn land(&mut self, hash: u64) {
        if let Some(before) = self.watch.landed.take()
            && let Some(times) = self.comes_again(&before, hash)
        {
            self.leap(&before, times);
        }
        self.watch.landed = Some(Box::new(self.image(hash)));
    }

    fn image(&self, hash: u64) -> Kept {
        let mut state = Vec::new();
        let _ = self.walk(&mut Pass::Take(&mut state));
        Kept {
            at: self.now(),
            hash,
            pending: self.relative_events(),
            state,
            marks: self.marks(),
            links: self.links.clone(),
            engine: self.engine,
            trace: self.trace,
            heard: self.watch.heard.len(),
        }
    }
}
