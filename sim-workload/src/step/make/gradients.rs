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
    /// Whether all begins anew when all are full.
    again: bool,
}

impl Line {
    /// The buckets that are full with `more` parameters.
    fn fill(&mut self, more: u64) -> Vec<Bucket> {
        self.filled += more;
        let full = self.ends.partition_point(|end| *end <= self.filled).max(self.next);
        let out = self.buckets[self.next..full].to_vec();
        self.next = full;
        if self.again && self.next == self.ends.len() {
            (self.next, self.filled) = (0, 0);
        }
        out
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
    /// Only at the end.
    late: bool,
    gathers: [Gathers; 2],
}

/// The label of a message of the step.
pub(super) const fn step_label(what: &'static str, phase: Phase) -> Label {
    Label { what, phase, micro: None, layer: None }
}

/// The call of a message.
pub(super) const fn call_of(message: &Message) -> Call {
    Call { name: message.name, operation: message.operation, bytes: message.bytes, group: message.group }
}

fn reduces(message: &Message) -> bool {
    message.per == Per::Step && message.place == Place::Gradients && message.phase != Phase::Update
}

impl Buckets {
    /// The buckets of a stage, from its messages; `late`: none is reduced before all are full.
    pub(super) fn new(job: &Job<'_>, messages: &[(Message, u64)], late: bool) -> Self {
        let line = |groups: &[Group]| {
            let mut line = Line::default();
            let of = |m: &&(Message, u64)| reduces(&m.0) && groups.contains(&m.0.group);
            let mut end = 0;
            for (message, count) in messages.iter().filter(of) {
                line.again = message.phase == Phase::Backward;
                let count = if line.again { count / job.sizes.micros().max(1) } else { *count };
                for _ in 0..count {
                    end += message.bytes.get() / job.widths.gradient.max(1);
                    line.ends.push(end);
                    let label = step_label(message.name, message.phase);
                    line.buckets.push(Bucket { call: Some(call_of(message)), replicas: None, label });
                }
            }
            line
        };
        let mut dense = line(&[Group::Shard, Group::DataContext]);
        let mut at = 0;
        for (message, count) in messages.iter().filter(|m| reduces(&m.0) && m.0.group == Group::Replicas) {
            for _ in 0..*count {
                let replicas = Some(call_of(message));
                if let Some(bucket) = dense.buckets.get_mut(at) {
                    bucket.replicas = replicas;
                } else {
                    let label = step_label(message.name, message.phase);
                    dense.buckets.push(Bucket { call: None, replicas, label });
                    dense.ends.push(u64::MAX);
                }
                at += 1;
            }
        }
        Self { dense, experts: line(&[Group::ExpertData]), late, gathers: Default::default() }
    }

    /// The buckets that are full with these gradients.
    pub(super) fn whole(&mut self, ready: Ready) -> Vec<Bucket> {
        if self.late {
            return Vec::new();
        }
        let mut out = self.dense.fill(ready.dense);
        out.extend(self.experts.fill(ready.experts));
        out
    }

    /// The buckets that were not full before the end.
    pub(super) fn rest(&mut self) -> Vec<Bucket> {
        let mut out = Vec::new();
        for line in [&mut self.dense, &mut self.experts] {
            if line.next > 0 || line.filled > 0 || !line.again || self.late {
                out.extend_from_slice(&line.buckets[line.next..]);
                line.next = line.buckets.len();
            }
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
