//! Carries calls by closed forms, each as if it were alone, in the [least](crate::closed::Way::least) that any algorithm takes: for bounds, and
//! for a quick look at many placements.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use sim_core::units::{Span, Time};

use super::calls::Calls;
use super::carrier::{Carrier, CarryError, End, Start};
use crate::closed::Way;

/// Carries calls by closed forms.
#[derive(Debug)]
pub struct Coarse<'a> {
    calls: Calls<'a>,
    ways: Vec<Option<Way>>,
    spans: FxHashMap<(u32, u32), Span>,
    ends: BinaryHeap<Reverse<End>>,
}

impl<'a> Coarse<'a> {
    /// Carries these calls.
    #[must_use]
    pub fn new(calls: Calls<'a>) -> Self {
        let ways = vec![None; calls.communicators().len()];
        Self { calls, ways, spans: FxHashMap::default(), ends: BinaryHeap::new() }
    }

    /// The least that a call of a communicator takes.
    ///
    /// # Errors
    /// If there is no such call, or its members don't reach each other.
    pub fn span(&mut self, communicator: u32, call: u32) -> Result<Span, CarryError> {
        if let Some(span) = self.spans.get(&(communicator, call)) {
            return Ok(*span);
        }
        let fault = |why: String| CarryError::Impossible { what: self.calls.describe(communicator, call), why };
        let of = *self.calls.calls().get(call as usize).ok_or_else(|| fault(format!("there is no call {call}")))?;
        let ranks = self.calls.communicators().get(communicator as usize);
        let ranks = ranks.ok_or_else(|| fault(format!("there is no communicator {communicator}")))?;
        let way = match self.ways[communicator as usize] {
            Some(way) => way,
            None => Way::of(self.calls.fabric(), ranks).map_err(fault)?,
        };
        self.ways[communicator as usize] = Some(way);
        let span = way.least(of.operation, of.bytes);
        self.spans.insert((communicator, call), span);
        Ok(span)
    }
}

impl Carrier for Coarse<'_> {
    fn start(&mut self, starts: &[Start], at: Time) -> Result<(), CarryError> {
        for start in starts {
            let at = at + self.span(start.communicator, start.call)?.max(Span::from_ps(1));
            let members = self.calls.communicators()[start.communicator as usize].len() as u32;
            let end = |member| Reverse(End { at, token: start.token, member });
            self.ends.extend((0..members).map(end));
        }
        Ok(())
    }

    fn next(&mut self, until: Time) -> Result<Option<Time>, CarryError> {
        Ok(self.ends.peek().map(|Reverse(end)| end.at).filter(|at| *at <= until))
    }

    fn take(&mut self, out: &mut Vec<End>) {
        let Some(now) = self.ends.peek().map(|Reverse(end)| end.at) else { return };
        while let Some(Reverse(end)) = self.ends.peek()
            && end.at == now
        {
            out.push(*end);
            self.ends.pop();
        }
    }
}
