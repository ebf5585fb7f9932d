//! Gradients in buckets, and buckets of updated parameters: which are whole when.

use sim_core::units::Bytes;

use super::super::plan::{Call, Label};
use crate::job::Job;
use crate::messages::{Message, Operation, Per, Phase, Place};
use crate::parallel::{Group, Local};

/// Parameters of a part of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) dense: u64,
    pub(super) experts: u64,
}

impl From<Local> for Ready {
    fn from(local: Local) -> Self {
        Self { dense: local.dense, experts: local.experts }
    }
}

/// A bucket of gradients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// Its reduction over those that have the same parameters; none where there is only one.
    pub(super) call: Option<Call>,
    /// The reduction of its shard over the holders of it.
    pub(super) replicas: Option<Call>,
    pub(super) label: Label,
}

/// Buckets that fill up one after the other.
#[derive(Clone, Debug, Default)]
struct Line {
    /// Parameters up to the end of each.
    ends: Vec<u64>,
    buckets: Vec<Bucket>,
    filled: u64,
    next: usize,
    /// How often all will still begin anew when all are full.
    again: u64,
}

impl Line {
    /// Whether the last is full.
    fn is_full(&self) -> bool {
        self.ends.last().is_none_or(|end| *end <= self.filled)
    }

    /// The next buckets, up to that number.
    fn take(&mut self, upto: usize, out: &mut Vec<Bucket>) {
        // Copies of shards are reduced when nothing more comes.
        let last = self.again == 0;
        let taken = self.buckets[self.next..upto].iter();
        out.extend(taken.map(|bucket| Bucket { replicas: bucket.replicas.filter(|_| last), ..*bucket }));
        self.next = upto;
    }

    /// The buckets that are full.
    fn full(&mut self, out: &mut Vec<Bucket>) {
        loop {
            let full = self.ends.partition_point(|end| *end <= self.filled).max(self.next);
            self.take(full, out);
            if self.again == 0 || !self.is_full() {
                return;
            }
            // What is more than full is of the next micro batch.
            self.filled -= self.ends.last().copied().unwrap_or(self.filled);
            self.next = 0;
            self.again = if self.ends.is_empty() { 0 } else { self.again - 1 };
        }
    }
}

/// Buckets of parameters that are gathered.
#[derive(Clone, Debug, Default)]
struct Gathers {
    /// Parameters up to the end of each, and its operation.
    list: Vec<(u64, u32)>,
    used: u64,
    next: usize,
}

impl Gathers {
    fn uses(&mut self, more: u64, out: &mut Vec<u32>) {
        self.used += more;
        while let Some((_, op)) = self.list.get(self.next).filter(|_| {
            let from = self.next.checked_sub(1).map_or(0, |before| self.list[before].0);
            from < self.used
        }) {
            out.push(*op);
            self.next += 1;
        }
    }
}

/// The buckets of a stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Buckets {
    dense: Line,
    experts: Line,
    /// None before all are full; kernels that follow wait for them.
    pub(super) late: bool,
    gathers: [Gathers; 2],
}

/// The label of a message of the step.
pub(super) const fn step_label(what: &'static str, phase: Phase) -> Label {
    Label { what, phase, micro: None, layer: None }
}

/// The call of a message.
pub(super) const fn call_of(message: &Message) -> Call {
    Call {
        name: message.name,
        operation: message.operation,
        bytes: message.bytes,
        group: message.group,
        exchange: None,
    }
}

fn reduces(message: &Message) -> bool {
    message.per == Per::Step && message.place == Place::Gradients && message.phase != Phase::Update
}

impl Buckets {
    /// The buckets of a stage, from its messages; `late`: none is reduced before all are full. They are filled `rounds` times.
    pub(super) fn new(job: &Job<'_>, messages: &[(Message, u64)], rounds: u64, late: bool) -> Self {
        let each = |groups: &[Group]| -> Vec<(Call, Label)> {
            let of = messages.iter().filter(|m| reduces(&m.0) && groups.contains(&m.0.group));
            of.flat_map(|(message, count)| {
                let count = if message.phase == Phase::Backward { count / rounds.max(1) } else { *count };
                let one = (call_of(message), step_label(message.name, message.phase));
                core::iter::repeat_n(one, usize::try_from(count).unwrap_or(0))
            })
            .collect()
        };
        let line = |reductions: Vec<(Call, Label)>, copies: Vec<(Call, Label)>| {
            let mut line = Line { again: rounds.saturating_sub(1), ..Line::default() };
            let mut end = 0;
            // A shard on each rank is all that it has: nothing is scattered.
            let sizes = if reductions.is_empty() { &copies } else { &reductions };
            for (i, (sized, label)) in sizes.iter().enumerate() {
                end += sized.bytes.get() / job.widths.gradient.max(1);
                line.ends.push(end);
                let call = |of: &[(Call, Label)]| of.get(i).map(|(call, _)| *call);
                line.buckets.push(Bucket { call: call(&reductions), replicas: call(&copies), label: *label });
            }
            line
        };
        let dense = line(each(&[Group::Shard, Group::DataContext]), each(&[Group::Replicas]));
        let experts = line(each(&[Group::ExpertData]), Vec::new());
        Self { dense, experts, late, gathers: Default::default() }
    }

    /// The buckets that are full with these gradients.
    pub(super) fn whole(&mut self, ready: Ready) -> Vec<Bucket> {
        self.dense.filled += ready.dense;
        self.experts.filled += ready.experts;
        let mut out = Vec::new();
        if !self.late || self.dense.is_full() && self.experts.is_full() {
            self.dense.full(&mut out);
            self.experts.full(&mut out);
        }
        out
    }

    /// The buckets that were not full before the end.
    pub(super) fn rest(&mut self) -> Vec<Bucket> {
        let mut out = Vec::new();
        for line in [&mut self.dense, &mut self.experts] {
            line.take(line.buckets.len(), &mut out);
        }
        out
    }

    /// The gathers of updated parameters of a stage.
    pub(super) fn gathers(messages: &[(Message, u64)]) -> Vec<(Call, Label)> {
        let of = |m: &&(Message, u64)| m.0.place == Place::Update && m.0.operation == Operation::AllGather;
        let each = |(m, n): &(Message, u64)| {
            core::iter::repeat_n((call_of(m), step_label(m.name, m.phase)), usize::try_from(*n).unwrap_or(0))
        };
        messages.iter().filter(of).flat_map(each).collect()
    }

    /// Notes that `op` gathers `bytes` of parameters of `width` bytes.
    pub(super) fn gathers_by(&mut self, op: u32, group: Group, bytes: Bytes, width: u64) {
        let line = &mut self.gathers[usize::from(group == Group::ExpertData)].list;
        let from = line.last().map_or(0, |(end, _)| *end);
        line.push((from + bytes.get() / width.max(1), op));
    }

    /// The gathers that bring parameters which are now used for the first time.
    pub(super) fn gathered(&mut self, ready: Ready) -> Vec<u32> {
        let mut out = Vec::new();
        self.gathers[0].uses(ready.dense, &mut out);
        self.gathers[1].uses(ready.experts, &mut out);
        out
    }
}
