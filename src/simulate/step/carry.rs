//! Who carries the messages of a step over the scenario's fabric.

use sim_core::units::{Rate, Span, Time};
use sim_report::result::StepReuse;
use sim_workload::messages::{Message, Operation, Overlap, Per, Phase, Place};
use sim_workload::step::carrier::{Carrier, CarryError, End, Start};
use sim_workload::step::plan::Call;
use sim_workload::step::play::Communicator;

use super::super::World;
use crate::scenario::Step;

#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) calls: u64,
    pub(super) played: u64,
    pub(super) events: u64,
    pub(super) exact: bool,
    pub(super) why: Option<String>,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.played += other.played;
        self.events += other.events;
        self.exact |= other.exact;
        self.why = self.why.take().or_else(|| other.why.clone());
    }
    pub(super) fn result(self) -> StepReuse {
        StepReuse { calls: self.calls, played: self.played, exact: self.exact, why: self.why }
    }
}

pub(super) struct Plain {
    sizes: Vec<u64>,
    out: Vec<bool>,
    calls: Vec<Call>,
    ends: std::collections::BTreeSet<(Time, u32, u32)>,
    at: Time,
    n: u64,
}
impl Plain {
    pub(super) fn as_mut(&mut self) -> &mut dyn Carrier {
        self
    }
    pub(super) fn counts(&self) -> Counts {
        Counts { calls: self.n, played: 3, events: 0, exact: true, why: None }
    }
}

pub(super) fn carrier(_world: &World<'_>, step: &Step, communicators: &[Communicator], calls: &[Call]) -> Plain {
    let out = communicators
        .iter()
        .map(|c| {
            let m: Vec<u64> = c.ranks.iter().map(|r| u64::from(*r)).collect();
            step.placement.spread(&m).scales_out()
        })
        .collect();
    Plain {
        sizes: communicators.iter().map(|c| c.ranks.len() as u64).collect(),
        out,
        calls: calls.to_vec(),
        ends: Default::default(),
        at: Time::ZERO,
        n: 0,
    }
}

impl Carrier for Plain {
    fn start(&mut self, starts: &[Start], at: Time) -> Result<(), CarryError> {
        for s in starts {
            self.n += 1;
            let call = &self.calls[s.call as usize];
            let n = self.sizes[s.communicator as usize];
            let message = Message {
                name: call.name,
                operation: call.operation,
                bytes: call.bytes,
                group: call.group,
                phase: Phase::Forward,
                per: Per::Step,
                count: 1,
                place: Place::Update,
                overlap: Overlap::Nothing,
            };
            let rate = Rate::gbyte(if self.out[s.communicator as usize] { 45 } else { 350 });
            let _ = Operation::Send;
            let end = at + Span::from_us(10) + rate.time_for(message.wire_bytes(n));
            for member in 0..n as u32 {
                self.ends.insert((end, s.token, member));
            }
        }
        Ok(())
    }
    fn next(&mut self, until: Time) -> Result<Option<Time>, CarryError> {
        let next = self.ends.first().map(|e| e.0).filter(|t| *t <= until);
        if let Some(t) = next {
            self.at = t;
        }
        Ok(next)
    }
    fn take(&mut self, out: &mut Vec<End>) {
        while let Some(e) = self.ends.first().copied().filter(|e| e.0 == self.at) {
            self.ends.pop_first();
            out.push(End { at: e.0, token: e.1, member: e.2 });
        }
    }
}
