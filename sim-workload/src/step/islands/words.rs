//! Words: which forms started when on which links, and what came of it.
//!
//! Words are a tree: a word is the one before it with a letter more, a form that started so long after the first letter. What is
//! known of a word serves everywhere where it is met. The last word that was played keeps its engine as long as an island is at
//! it, advanced no farther than anyone asked: the next letter is loaded into it. Only a word that has none is played from its
//! first letter on.

use rustc_hash::FxHashMap;
use sim_core::engine::{Engine, Limits, Notice};
use sim_core::ids::LinkId;
use sim_core::outcome::StopReason;
use sim_core::program::Program;
use sim_core::units::{Bytes, Span, Time};

use super::forms::{Forms, NONE};
use super::layouts::Layouts;

/// A member of a letter has done its part, so long after the word began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Told {
    pub(super) at: Span,
    pub(super) letter: u32,
    pub(super) member: u32,
}

/// What comes next in a word behind what was read of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// An end.
    End(Span),
    /// Nothing before this instant; what then, is not known yet.
    NotBefore(Span),
    /// Nothing more; nothing of it can be felt from this instant on.
    Rest(Span),
}

#[derive(Debug)]
struct Word {
    parent: u32,
    layout: u32,
    /// When its last letter started.
    delta: Span,
    /// The instant at which it begins, where times are not all alike; otherwise zero.
    origin: Time,
    /// Ends from the last letter's start on, those up to `upto` in order and complete.
    known: Vec<Told>,
    upto: Span,
    rest: Option<Span>,
    /// Instants at which it was not at rest.
    alive: Option<Span>,
    engine: Option<Box<Engine>>,
    /// Events of it from its beginning on; those that were counted without being played.
    events: u64,
    users: u32,
    /// Whether anything of it was played.
    played: bool,
}

/// What playing came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Played {
    /// Letters that were put to an engine because their word was not known.
    pub(super) words: u64,
    /// Words that were played from the first letter on, of several letters.
    pub(super) replays: u64,
    /// Events that engines played.
    pub(super) events: u64,
}

/// All words that were met.
#[derive(Debug)]
pub(super) struct Words {
    mtu: Bytes,
    limits: Limits,
    words: Vec<Word>,
    /// The word of each form alone that is the same at every time.
    of_form: Vec<u32>,
    next: FxHashMap<(u32, u32, Span), u32>,
    heard: Vec<Notice>,
    pub(super) played: Played,
}

/// Why a word does not end.
#[derive(Debug)]
pub(super) enum Stopped {
    /// Its engine stopped.
    At(StopReason),
    /// Its engine can't take it.
    Unable(String),
}

impl From<String> for Stopped {
    fn from(why: String) -> Self {
        Self::Unable(why)
    }
}

/// Puts an end where it belongs, which tends to be behind the others.
fn insert(known: &mut Vec<Told>, told: Told) {
    let mut at = known.len();
    while at > 0 && known[at - 1] > told {
        at -= 1;
    }
    known.insert(at, told);
}

fn placed(program: &Program, places: &[u32]) -> Program {
    let mut program = program.clone();
    program.routes.iter_mut().for_each(|link| *link = LinkId(places[link.index()]));
    program
}

impl Words {
    /// None yet.
    pub(super) fn new(mtu: Bytes, limits: Limits) -> Self {
        let limits = Limits { open: true, one_program: false, ..limits };
        let (words, of_form, next, heard) = (Vec::new(), Vec::new(), FxHashMap::default(), Vec::new());
        Self { mtu, limits, words, of_form, next, heard, played: Played::default() }
    }

    fn add(&mut self, parent: u32, layout: u32, delta: Span, origin: Time) -> u32 {
        self.words.push(Word {
            parent,
            layout,
            delta,
            origin,
            known: Vec::new(),
            upto: delta,
            rest: None,
            alive: None,
            engine: None,
            events: 0,
            users: 0,
            played: false,
        });
        self.words.len() as u32 - 1
    }

    /// How many words there are.
    pub(super) fn count(&self) -> usize {
        self.words.len()
    }

    /// The word of a form alone, played to its end; and whether it was known.
    pub(super) fn alone(
        &mut self,
        forms: &Forms,
        form: u32,
        layout: u32,
        origin: Time,
    ) -> Result<(u32, bool), Stopped> {
        let known = self.of_form.get(form as usize).copied().unwrap_or(NONE);
        if origin == Time::ZERO && known != NONE {
            return Ok((known, true));
        }
        let of = forms.form(form);
        let word = self.add(NONE, layout, Span::ZERO, origin);
        let limits = Limits { one_program: true, ..self.limits.clone() };
        let mut engine: Engine = Engine::new(&forms.network(&of.classes), self.mtu, limits);
        engine.load(of.program.clone(), origin).map_err(|e| e.to_string())?;
        let mut known = Vec::with_capacity(of.program.kernels.len());
        let stop = engine.run(|_, notice| {
            if let Notice::Kernel { kernel, ended, .. } = notice {
                known.push(Told { at: ended.since(origin), letter: 0, member: kernel });
            }
        });
        if stop != StopReason::Finished {
            return Err(Stopped::At(stop));
        }
        known.sort_unstable();
        let (events, repeated) = engine.events();
        self.played.words += 1;
        self.played.events += events - repeated;
        let rest = engine.rest().since(origin);
        let state = &mut self.words[word as usize];
        (state.known, state.upto, state.rest, state.events, state.played) =
            (known, Span::from_ps(u64::MAX), Some(rest), events, true);
        if origin == Time::ZERO {
            if self.of_form.len() <= form as usize {
                self.of_form.resize(form as usize + 1, NONE);
            }
            self.of_form[form as usize] = word;
        }
        Ok((word, false))
    }

    /// The word with one letter more; nothing of it need be known.
    pub(super) fn follow(&mut self, word: u32, layout: u32, delta: Span) -> u32 {
        if let Some(known) = self.next.get(&(word, layout, delta)) {
            return *known;
        }
        let origin = self.words[word as usize].origin;
        let next = self.add(word, layout, delta, origin);
        self.next.insert((word, layout, delta), next);
        let before = &mut self.words[word as usize];
        before.alive = before.alive.max(Some(delta));
        next
    }

    /// Sees to it that the word's last letter is being played, or has been; whether it was so before.
    pub(super) fn begin(&mut self, forms: &Forms, layouts: &Layouts, word: u32) -> Result<bool, Stopped> {
        let &Word { parent, layout, delta, origin, played, .. } = &self.words[word as usize];
        if played {
            return Ok(true);
        }
        let before = &mut self.words[parent as usize];
        let in_time = |engine: &Engine| engine.now() <= origin + delta;
        if before.engine.as_deref().is_none_or(|engine| !in_time(engine)) {
            self.replay(forms, layouts, word)?;
        } else {
            self.advance(forms, layouts, parent, delta)?;
            let before = &mut self.words[parent as usize];
            let Some(mut engine) = before.engine.take() else { return Ok(false) };
            let known = before.known.iter().filter(|told| told.at >= delta).copied().collect();
            let (form, places) = layouts.last(layout);
            engine.move_to(&forms.network(layouts.classes(layout)), &places.parent);
            let program = placed(&forms.form(form).program, &places.own);
            engine.load(program, origin + delta).map_err(|e| e.to_string())?;
            let state = &mut self.words[word as usize];
            (state.known, state.engine) = (known, Some(engine));
        }
        self.played.words += 1;
        self.words[word as usize].played = true;
        Ok(false)
    }

    /// Plays a word from its first letter on, up to the start of its last.
    fn replay(&mut self, forms: &Forms, layouts: &Layouts, word: u32) -> Result<(), Stopped> {
        let &Word { layout, origin, delta: last, .. } = &self.words[word as usize];
        let mut deltas = Vec::new();
        let mut at = word;
        while at != NONE {
            deltas.push(self.words[at as usize].delta);
            at = self.words[at as usize].parent;
        }
        let network = forms.network(layouts.classes(layout));
        let mut engine: Box<Engine> = Box::new(Engine::new(&network, self.mtu, self.limits.clone()));
        let mut known = Vec::new();
        for ((form, places), delta) in layouts.forms(layout).into_iter().zip(deltas.into_iter().rev()) {
            self.play(&mut engine, origin, delta, delta, &mut known, false)?;
            let program = placed(&forms.form(form).program, &places);
            engine.load(program, origin + delta).map_err(|e| e.to_string())?;
        }
        self.played.replays += 1;
        known.retain(|told| told.at >= last);
        let state = &mut self.words[word as usize];
        (state.known, state.engine) = (known, Some(engine));
        Ok(())
    }

    /// Goes on from `upto` up to `until`, or to the first end behind `upto` if `to_end`; returns how far that was, and whether all
    /// is over.
    fn play(
        &mut self,
        engine: &mut Engine,
        origin: Time,
        upto: Span,
        until: Span,
        known: &mut Vec<Told>,
        to_end: bool,
    ) -> Result<(Span, bool), Stopped> {
        let (events, repeated) = engine.events();
        // An end can have come to light before its turn.
        let first = known.iter().rev().map(|told| told.at).take_while(|at| *at > upto).last();
        let mut limit = origin + first.filter(|_| to_end).map_or(until, |first| until.min(first));
        let over = loop {
            let stop = engine.go_to(limit, &mut self.heard);
            if let Some(reason) = stop
                && reason != StopReason::Finished
            {
                return Err(Stopped::At(reason));
            }
            if self.heard.is_empty() {
                break stop.is_some();
            }
            for notice in self.heard.drain(..) {
                if let Notice::Kernel { program, kernel, ended, .. } = notice {
                    insert(known, Told { at: ended.since(origin), letter: program, member: kernel });
                    limit = if to_end { limit.min(ended.max(engine.now())) } else { limit };
                }
            }
        };
        let (events_now, repeated_now) = engine.events();
        self.played.events += (events_now - events) - (repeated_now - repeated);
        Ok((limit.since(origin), over))
    }

    /// Plays a word that has begun up to `until`, or to the next end that comes to light.
    pub(super) fn advance(&mut self, forms: &Forms, layouts: &Layouts, word: u32, until: Span) -> Result<(), Stopped> {
        let state = &mut self.words[word as usize];
        if state.rest.is_some() || until < state.upto {
            return Ok(());
        }
        let (origin, upto) = (state.origin, state.upto);
        if state.engine.is_none() {
            // It has gone to a word that follows.
            self.replay(forms, layouts, word)?;
            self.go_on(word, origin, upto, false)?;
        }
        self.go_on(word, origin, until, true)
    }

    fn go_on(&mut self, word: u32, origin: Time, until: Span, to_end: bool) -> Result<(), Stopped> {
        let state = &mut self.words[word as usize];
        let Some(mut engine) = state.engine.take() else { return Ok(()) };
        let mut known = core::mem::take(&mut state.known);
        let before = state.upto;
        let (upto, over) = self.play(&mut engine, origin, before, until, &mut known, to_end)?;
        let state = &mut self.words[word as usize];
        state.upto = state.upto.max(upto);
        if over {
            state.rest = Some(engine.rest().since(origin));
            state.events = engine.events().0;
        }
        (state.known, state.engine) = (known, Some(engine));
        Ok(())
    }

    /// Whether nothing of the word can be felt from `at` on.
    pub(super) fn is_over(&mut self, forms: &Forms, layouts: &Layouts, word: u32, at: Span) -> Result<bool, Stopped> {
        let state = &self.words[word as usize];
        if state.rest.is_none() && state.alive.is_none_or(|alive| alive < at) {
            self.advance(forms, layouts, word, at)?;
        }
        let state = &mut self.words[word as usize];
        let over = state.rest.is_some_and(|rest| rest <= at);
        if !over {
            state.alive = state.alive.max(Some(at));
        }
        Ok(over)
    }

    /// Whether it is known already that nothing of the word can be felt from `at` on.
    pub(super) fn rests_by(&self, word: u32, at: Span) -> bool {
        self.words[word as usize].rest.is_some_and(|rest| rest <= at)
    }

    /// What comes behind the first `read` ends that are known.
    #[inline]
    pub(super) fn next(&self, word: u32, read: u32) -> Next {
        let state = &self.words[word as usize];
        let told = state.known.get(read as usize).map(|told| told.at);
        if let Some(rest) = state.rest {
            return told.map_or(Next::Rest(rest), Next::End);
        }
        let due = state.engine.as_deref().and_then(Engine::next_event).map(|at| at.since(state.origin));
        let unknown = state.upto + Span::from_ps(1);
        let unknown = due.map_or(unknown, |due| due.max(unknown));
        match told {
            Some(at) if at < unknown => Next::End(at),
            _ => Next::NotBefore(unknown),
        }
    }

    /// Ends that are known.
    #[inline]
    pub(super) fn told(&self, word: u32) -> &[Told] {
        &self.words[word as usize].known
    }

    /// Events of a word that is over, from its beginning on.
    pub(super) fn events(&self, word: u32) -> u64 {
        self.words[word as usize].events
    }

    /// An island is at this word.
    #[inline]
    pub(super) fn enter(&mut self, word: u32) {
        self.words[word as usize].users += 1;
    }

    /// It is not any more.
    #[inline]
    pub(super) fn leave(&mut self, word: u32) {
        let state = &mut self.words[word as usize];
        state.users -= 1;
        if state.users == 0 {
            state.engine = None;
            if state.origin != Time::ZERO {
                state.known = Vec::new();
            }
        }
    }
}
