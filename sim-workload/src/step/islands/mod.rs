//! Exact reuse: what shares no link can't influence each other, and what was played once is not played again.
//!
//! Calls that are under way and share a link, directly or through others, are an *island*. To the engine an island is a *word*:
//! when which form started on which links (`forms`, `layouts`, `words`). A call joins all islands whose links it meets and
//! makes them one. An island is over when nothing of it can be felt any more: all has ended, what is left (clear-to-sends) has
//! arrived, and all links are free.
//!
//! Times are those of playing all calls in one engine ([`Whole`](super::whole::Whole)), to the picosecond. Where that can't be so
//! without playing, nothing is reused: [`Reuse::Off`] says why.

mod carried;
mod forms;
mod layouts;
#[cfg(test)]
mod tests;
mod words;

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use sim_core::engine::Limits;
use sim_core::network::Network;
use sim_core::units::{Span, Time};

use super::calls::Calls;
use super::carrier::{Carrier, CarryError, End, Start};
use forms::Forms;
use layouts::Layouts;
use words::{Next, Stopped, Words};

/// Whether what was played can stand for what is alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// To the picosecond.
    Exact,
    /// Not at all.
    Off {
        /// The reason.
        why: &'static str,
    },
}

/// Whether calls over `network` can be reused.
#[must_use]
pub fn reuse(network: &Network) -> Reuse {
    match network.packets() {
        None => Reuse::Exact,
        Some(_) => Reuse::Off {
            why: "the network carries packets: its queues and its senders' rates remember what was before a call",
        },
    }
}

/// What was done, and what was not because it was known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls that were started.
    pub calls: u64,
    /// Calls whose word had to be played.
    pub words_played: u64,
    /// Calls whose word was known.
    pub words_reused: u64,
    /// Words of several letters that were played from the first one on.
    pub replays: u64,
    /// Events that engines played.
    pub events_played: u64,
    /// Events of islands that are over, as if each had been played.
    pub events: u64,
    /// Those of them beyond the ones that were played.
    pub events_saved: u64,
    /// Calls that differ by more than their place.
    pub forms: u64,
    /// Words that were met, with those that were passed over on the way to longer ones.
    pub words: u64,
    /// The most calls that were one island.
    pub largest: u64,
}

/// A call that is under way.
#[derive(Clone, Copy, Debug)]
struct Letter {
    at: Time,
    /// Its place among all starts.
    order: u64,
    operation: u32,
    token: u32,
}

#[derive(Debug, Default)]
struct Island {
    /// In order of their starts.
    letters: Vec<Letter>,
    word: u32,
    instance: u32,
    /// Ends of the word that were taken, or came before its last letter.
    read: u32,
    /// Links of an island are known by this number; it is another for each that lies in this place.
    serial: u32,
    /// What is scheduled with another number is void.
    stamp: u32,
    /// It has a letter that is not the same at every time.
    timed: bool,
    /// It is one that nothing can join any more.
    live: bool,
}

/// What happens with an island next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// It is over.
    Rests,
    /// It has to be looked at what happens next.
    Look,
    /// Members have ended.
    Ends,
}

/// Bytes that are remembered of calls that share links at most.
const MOST_KEPT: u64 = 1 << 31;

/// Carries calls in islands.
#[derive(Debug)]
pub struct Islands<'a> {
    calls: Calls<'a>,
    forms: Forms,
    layouts: Layouts,
    words: Words,
    islands: Vec<Island>,
    free: Vec<u32>,
    /// The island that each link was last taken by: its place and serial number.
    owners: Vec<(u32, u32)>,
    due: BinaryHeap<Reverse<(Time, What, u32, u32)>>,
    /// The first instant whose ends have not been taken.
    untaken: Time,
    serial: u32,
    order: u64,
    met: Vec<u32>,
    counts: Counts,
    /// Bytes that may be remembered of calls that share links.
    most: u64,
    /// No call uses a link before so long after its beginning.
    launch: Span,
    /// How often each operation was started.
    started: Vec<u64>,
    /// Events of islands that are over.
    events: u64,
}

impl<'a> Islands<'a> {
    /// Carries these calls. `limits` hold for each island by itself.
    #[must_use]
    pub fn new(calls: Calls<'a>, limits: Limits) -> Self {
        let network = calls.network();
        let (links, mtu) = (network.links().len(), calls.fabric().mtu());
        let forms = Forms::new(network, calls.communicators().len());
        Self {
            forms,
            layouts: Layouts::default(),
            words: Words::new(mtu, limits),
            islands: Vec::new(),
            free: Vec::new(),
            owners: vec![(0, 0); links],
            due: BinaryHeap::new(),
            untaken: Time::ZERO,
            serial: 0,
            order: 0,
            met: Vec::new(),
            counts: Counts::default(),
            most: MOST_KEPT,
            launch: calls.least_launch(),
            started: Vec::new(),
            events: 0,
            calls,
        }
    }

    /// What was done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let played = self.words.played;
        Counts {
            words_played: played.words,
            replays: played.replays,
            events_played: played.events,
            events: self.events,
            events_saved: self.events.saturating_sub(played.events),
            forms: self.forms.count() as u64,
            words: self.words.count() as u64,
            ..self.counts
        }
    }

    /// The communicators and calls.
    #[must_use]
    pub const fn calls(&self) -> &Calls<'a> {
        &self.calls
    }

    fn endless(&self, operation: u32, why: Stopped) -> CarryError {
        let of = self.forms.operation(operation);
        let what = self.calls.describe(of.communicator, of.call);
        match why {
            Stopped::At(reason) => CarryError::Stopped { what, reason },
            Stopped::Unable(why) => CarryError::Endless { what, why },
        }
    }

    fn begin(&mut self, start: &Start, at: Time) -> Result<(), CarryError> {
        let operation = self.forms.find(&mut self.calls, start.communicator, start.call)?;
        self.counts.calls += 1;
        if self.started.len() <= operation as usize {
            self.started.resize(operation as usize + 1, 0);
        }
        self.started[operation as usize] += 1;
        self.order += 1;
        let letter = Letter { at, order: self.order, operation, token: start.token };
        self.find_met(operation, at)?;
        match *self.met.as_slice() {
            [] => self.settle(letter),
            [island] => self.join(island, letter),
            _ => self.merge(letter),
        }
    }

    /// Finds the islands that an operation meets which starts at `at`.
    fn find_met(&mut self, operation: u32, at: Time) -> Result<(), CarryError> {
        self.met.clear();
        for link in &self.forms.operation(operation).links {
            let (island, serial) = self.owners[*link as usize];
            let is = self.islands.get(island as usize).is_some_and(|i| i.serial == serial && i.live);
            if is && !self.met.contains(&island) {
                self.met.push(island);
            }
        }
        let mut i = 0;
        while let Some(&island) = self.met.get(i) {
            let of = &self.islands[island as usize];
            let (word, after) = (of.word, at.since(of.letters[0].at));
            // No call uses a link before the least launch, and none that begins later does before this one: what is at rest by then
            // is not felt.
            let rests = self.words.rests_by(word, after + self.launch);
            match if rests { Ok(true) } else { self.words.is_over(&self.forms, &self.layouts, word, after) } {
                Ok(false) => i += 1,
                Ok(true) => {
                    // Its links are free; ends that are settled are still told.
                    self.islands[island as usize].live = false;
                    self.met.swap_remove(i);
                }
                Err(why) => return Err(self.endless(operation, why)),
            }
        }
        Ok(())
    }

    /// An island of its own.
    fn settle(&mut self, letter: Letter) -> Result<(), CarryError> {
        let place = self.free.pop().unwrap_or_else(|| {
            self.islands.push(Island::default());
            self.islands.len() as u32 - 1
        });
        self.serial += 1;
        let island = &mut self.islands[place as usize];
        (island.serial, island.live) = (self.serial, true);
        island.letters.push(letter);
        self.own(place, letter.operation);
        self.spell(place)
    }

    /// The links of an operation are an island's.
    #[inline]
    fn own(&mut self, island: u32, operation: u32) {
        let owner = (island, self.islands[island as usize].serial);
        for link in &self.forms.operation(operation).links {
            self.owners[*link as usize] = owner;
        }
    }

    /// Refuses to remember more than `most` bytes: calls that share links one after the other without a pause are one ever longer
    /// word.
    fn bounded(&self, operation: u32, letters: usize) -> Result<(), CarryError> {
        if self.layouts.bytes() <= self.most {
            return Ok(());
        }
        let of = self.forms.operation(operation);
        let what = self.calls.describe(of.communicator, of.call);
        let why = format!(
            "{letters} calls share links without a pause between them, and what is remembered of them fills {} MB: messages between \
             stages that cross reductions or gathers of parameters are played exactly, however many there are. Fewer chunks of a \
             stage (vp), reductions after the backward pass (overlap.gradients = false), gathers after the update \
             (overlap.parameters = false) or an order of ranks that keeps them apart need less",
            self.most >> 20
        );
        Err(CarryError::Impossible { what, why })
    }

    /// One letter more for an island.
    fn join(&mut self, place: u32, letter: Letter) -> Result<(), CarryError> {
        let timed = self.forms.form(self.forms.operation(letter.operation).form).timed;
        let island = &mut self.islands[place as usize];
        island.letters.push(letter);
        let (word, instance, first) = (island.word, island.instance, island.letters[0].at);
        let letters = island.letters.len();
        self.counts.largest = self.counts.largest.max(letters as u64);
        let anew = timed && !island.timed;
        self.own(place, letter.operation);
        if anew {
            self.words.leave(word);
            return self.spell(place);
        }
        self.bounded(letter.operation, letters)?;
        let instance = self.layouts.follow(&self.forms, instance, letter.operation);
        let next = self.words.follow(word, self.layouts.layout_of(instance), letter.at.since(first));
        // The word before is left when the next has taken its engine.
        self.come_to(place, next, instance)?;
        self.words.leave(word);
        Ok(())
    }

    /// Makes one island of all that a call meets, and the call its last letter.
    fn merge(&mut self, letter: Letter) -> Result<(), CarryError> {
        let met = core::mem::take(&mut self.met);
        let place = met[0];
        let mut letters = Vec::new();
        for island in &met {
            letters.append(&mut self.islands[*island as usize].letters);
            self.words.leave(self.islands[*island as usize].word);
            if *island != place {
                self.release(*island);
            }
        }
        self.met = met;
        letters.push(letter);
        letters.sort_unstable_by_key(|letter| (letter.at, letter.order));
        self.counts.largest = self.counts.largest.max(letters.len() as u64);
        self.bounded(letters[0].operation, letters.len())?;
        for letter in &letters {
            self.own(place, letter.operation);
        }
        self.islands[place as usize].letters = letters;
        self.spell(place)
    }

    /// Finds the word of an island from its first letter on.
    fn spell(&mut self, place: u32) -> Result<(), CarryError> {
        let letters = core::mem::take(&mut self.islands[place as usize].letters);
        let first = letters[0];
        let form = self.forms.operation(first.operation).form;
        let timed = letters.iter().any(|l| self.forms.form(self.forms.operation(l.operation).form).timed);
        let origin = if timed { first.at } else { Time::ZERO };
        let mut instance = self.layouts.alone(&self.forms, first.operation);
        let layout = self.layouts.layout_of(instance);
        let found = self.words.alone(&self.forms, form, layout, origin);
        let (mut word, known) = found.map_err(|why| self.endless(first.operation, why))?;
        for letter in letters.iter().skip(1) {
            instance = self.layouts.follow(&self.forms, instance, letter.operation);
            word = self.words.follow(word, self.layouts.layout_of(instance), letter.at.since(first.at));
        }
        let alone = letters.len() == 1;
        let island = &mut self.islands[place as usize];
        (island.letters, island.timed) = (letters, timed);
        if alone {
            self.counts.words_reused += u64::from(known);
            (island.word, island.instance, island.read) = (word, instance, 0);
            self.words.enter(word);
            self.schedule(place);
            return Ok(());
        }
        self.come_to(place, word, instance)
    }

    /// An island is at a word of several letters now.
    fn come_to(&mut self, place: u32, word: u32, instance: u32) -> Result<(), CarryError> {
        let known = self.words.begin(&self.forms, &self.layouts, word);
        let island = &mut self.islands[place as usize];
        let known = match known {
            Ok(known) => known,
            Err(why) => {
                let last = island.letters[island.letters.len() - 1].operation;
                return Err(self.endless(last, why));
            }
        };
        self.counts.words_reused += u64::from(known);
        let untaken = self.untaken.since(island.letters[0].at);
        let read = self.words.told(word).partition_point(|told| told.at < untaken) as u32;
        (island.word, island.instance, island.read) = (word, instance, read);
        self.words.enter(word);
        self.schedule(place);
        Ok(())
    }

    /// Notes what comes next of an island.
    #[inline]
    fn schedule(&mut self, place: u32) {
        let island = &mut self.islands[place as usize];
        island.stamp = island.stamp.wrapping_add(1);
        let (what, after) = match self.words.next(island.word, island.read) {
            Next::End(at) => (What::Ends, at),
            Next::NotBefore(at) => (What::Look, at),
            Next::Rest(at) => (What::Rests, at),
        };
        self.due.push(Reverse((island.letters[0].at + after, what, place, island.stamp)));
    }

    /// An island is no more.
    fn release(&mut self, place: u32) {
        let island = &mut self.islands[place as usize];
        island.letters.clear();
        (island.live, island.serial) = (false, 0);
        island.stamp = island.stamp.wrapping_add(1);
        self.free.push(place);
    }

    /// What comes first, if it is not void.
    #[inline]
    fn first(&mut self) -> Option<(Time, What, u32)> {
        loop {
            let Reverse((at, what, place, stamp)) = *self.due.peek()?;
            if self.islands[place as usize].stamp == stamp {
                return Some((at, what, place));
            }
            self.due.pop();
        }
    }

    /// Plays an island on up to `until` or what else comes first.
    fn look(&mut self, place: u32, until: Time) -> Result<(), CarryError> {
        self.due.pop();
        let other = self.first().map_or(Time::MAX, |(at, ..)| at);
        let island = &self.islands[place as usize];
        let (word, first) = (island.word, island.letters[0]);
        let until = until.min(other).since(first.at);
        match self.words.advance(&self.forms, &self.layouts, word, until) {
            Ok(()) => {
                self.schedule(place);
                Ok(())
            }
            Err(why) => Err(self.endless(first.operation, why)),
        }
    }
}

impl Carrier for Islands<'_> {
    fn start(&mut self, starts: &[Start], at: Time) -> Result<(), CarryError> {
        starts.iter().try_for_each(|start| self.begin(start, at))
    }

    fn next(&mut self, until: Time) -> Result<Option<Time>, CarryError> {
        while let Some((at, what, place)) = self.first() {
            if at > until {
                return Ok(None);
            }
            match what {
                What::Ends => return Ok(Some(at)),
                What::Look => self.look(place, until)?,
                What::Rests => {
                    self.due.pop();
                    let word = self.islands[place as usize].word;
                    self.events += self.words.events(word);
                    self.words.leave(word);
                    self.release(place);
                }
            }
        }
        Ok(None)
    }

    fn take(&mut self, out: &mut Vec<End>) {
        let from = out.len();
        let Some((now, What::Ends, _)) = self.first() else { return };
        self.met.clear();
        while let Some((at, What::Ends, place)) = self.first()
            && at == now
        {
            self.due.pop();
            let island = &mut self.islands[place as usize];
            let after = now.since(island.letters[0].at);
            let told = &self.words.told(island.word)[island.read as usize..];
            for told in told.iter().take_while(|told| told.at == after) {
                let token = island.letters[told.letter as usize].token;
                out.push(End { at: now, token, member: told.member });
                island.read += 1;
            }
            self.met.push(place);
        }
        // What comes next of them may come before what ends now.
        for i in 0..self.met.len() {
            self.schedule(self.met[i]);
        }
        out[from..].sort_unstable();
        self.untaken = now + Span::from_ps(1);
    }
}
