//! Carries calls in one engine over the whole network: nothing is reused.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use sim_core::engine::{Engine, Limits, Notice};
use sim_core::outcome::{Outcome, StopReason};
use sim_core::program::Program;
use sim_core::units::Time;

use super::calls::Calls;
use super::carrier::{Carrier, CarryError, End, Start};

/// Carries calls in one engine.
#[derive(Debug)]
pub struct Whole<'a> {
    calls: Calls<'a>,
    engine: Engine,
    programs: FxHashMap<(u32, u32), Program>,
    /// The call of each program of the engine.
    starts: Vec<Start>,
    /// Ends that are settled.
    told: BinaryHeap<Reverse<End>>,
    heard: Vec<Notice>,
    /// Members that have not ended, or whose ends were not taken.
    members: u64,
}

impl<'a> Whole<'a> {
    /// Carries these calls.
    ///
    /// # Errors
    /// If the part of the network that carries packets is not described consistently.
    pub fn new(calls: Calls<'a>, limits: Limits) -> Result<Self, CarryError> {
        let limits = Limits { open: true, one_program: false, ..limits };
        let mut engine = Engine::new(calls.network(), calls.fabric().mtu(), limits);
        if let Some(plan) = calls.network().packets() {
            let fault = |e: sim_core::net::SpecError| CarryError::Impossible {
                what: "a network of packets".into(),
                why: e.to_string(),
            };
            engine.set_net(plan.clone()).map_err(fault)?;
        }
        Ok(Self {
            calls,
            engine,
            programs: FxHashMap::default(),
            starts: Vec::new(),
            told: BinaryHeap::new(),
            heard: Vec::new(),
            members: 0,
        })
    }

    /// What the engine measured, when all that is left is at rest.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        let reason = self.engine.run(|_, _| {});
        self.engine.finish(reason)
    }

    /// Events that were played.
    #[must_use]
    pub fn events(&self) -> u64 {
        let (events, repeated) = self.engine.events();
        events - repeated
    }

    fn endless(&self, why: impl core::fmt::Display) -> CarryError {
        let last = self.starts.last();
        let what = last.map_or_else(|| "a call".into(), |s| self.calls.describe(s.communicator, s.call));
        CarryError::Endless { what, why: why.to_string() }
    }
}

impl Carrier for Whole<'_> {
    fn start(&mut self, starts: &[Start], at: Time) -> Result<(), CarryError> {
        for start in starts {
            let key = (start.communicator, start.call);
            if !self.programs.contains_key(&key) {
                let program = self.calls.program(start.communicator, start.call)?;
                self.programs.insert(key, program);
            }
            let program = self.programs[&key].clone();
            let kernels = program.kernels.len() as u64;
            match self.engine.load(program, at) {
                Ok(number) => debug_assert_eq!(number as usize, self.starts.len()),
                Err(fault) => return Err(self.endless(fault)),
            }
            self.members += kernels;
            self.starts.push(*start);
        }
        Ok(())
    }

    fn next(&mut self, until: Time) -> Result<Option<Time>, CarryError> {
        loop {
            let told = self.told.peek().map(|Reverse(end)| end.at).filter(|at| *at <= until);
            let limit = told.unwrap_or(until);
            // What is left when all members have ended may wait.
            let over = self.told.len() as u64 == self.members;
            let stop = if over { None } else { self.engine.go_to(limit, &mut self.heard) };
            if self.heard.is_empty() {
                return match stop {
                    Some(StopReason::Finished) | None => Ok(told),
                    Some(reason) => Err(self.endless(format_args!("it stopped: {reason:?}"))),
                };
            }
            for notice in self.heard.drain(..) {
                if let Notice::Kernel { program, kernel, ended, .. } = notice {
                    let token = self.starts[program as usize].token;
                    self.told.push(Reverse(End { at: ended, token, member: kernel }));
                }
            }
        }
    }

    fn take(&mut self, out: &mut Vec<End>) {
        let Some(Reverse(End { at: now, .. })) = self.told.peek().copied() else { return };
        while let Some(Reverse(end)) = self.told.peek()
            && end.at == now
        {
            out.push(*end);
            self.told.pop();
            self.members -= 1;
        }
    }
}
