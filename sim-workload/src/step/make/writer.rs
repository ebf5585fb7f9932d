//! Writing a stage's operations: items of a slot, given streams and what they wait for.

use std::collections::{BTreeMap, VecDeque};

use sim_core::units::Span;

use super::super::plan::{Call, Channel, Label, Op, Stage, Stream, Work};
use super::gradients::{Bucket, Buckets, Ready};
use super::uneven::Uneven;
use crate::job::Job;
use crate::messages::Phase;
use crate::parallel::Group;

/// What comes next in a slot. What is started is waited for by its number within the slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// Kernels.
    Compute(Span, Label),
    /// Kernels that take as long as the experts of a rank get tokens: a number of [`Uneven`].
    Uneven(u32, Label),
    /// A call starts when all kernels of the slot so far have ended.
    Start(Call, u8, Label),
    /// A unit's parameters are gathered: when the unit so many before it has been used.
    Gather(Call, Label),
    /// Gradients of a unit are reduced when all kernels of the slot so far have ended; the update waits for it.
    Reduce(Bucket),
    /// A message to another stage starts when all kernels of the slot so far have ended.
    Send(u32, Label),
    /// A message from another stage.
    Receive(u32, Label),
    /// Kernels that follow wait for what was started as that number.
    Wait(usize),
    /// Of two halves of a slot: a unit begins, whose parameters the first half has waited for. The second one waits for the same.
    UnitBegins,
    /// A unit has been used.
    UnitDone,
    /// What the step before has updated is gathered, if it has not begun.
    Updated,
    /// Kernels that follow use these parameters for the first time in the step.
    Uses(Ready),
    /// Gradients of so many parameters are whole.
    Gradients(Ready),
}

/// The items of a slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Items {
    pub(super) list: Vec<Item>,
    started: usize,
}

impl Items {
    pub(super) fn compute(&mut self, span: Span, label: Label) {
        if span > Span::ZERO {
            self.list.push(Item::Compute(span, label));
        }
    }

    /// Starts something, and says its number.
    pub(super) fn start(&mut self, item: Item) -> usize {
        self.list.push(item);
        self.started += 1;
        self.started - 1
    }

    pub(super) fn wait(&mut self, number: usize) {
        self.list.push(Item::Wait(number));
    }

    /// Starts something that what follows waits for.
    pub(super) fn block(&mut self, item: Item) {
        let number = self.start(item);
        self.wait(number);
    }

    pub(super) fn push(&mut self, item: Item) {
        self.list.push(item);
    }

    /// Others behind these.
    pub(super) fn append(&mut self, others: &Self) {
        let before = self.started;
        self.list.extend(others.list.iter().map(|item| match item {
            Item::Wait(number) => Item::Wait(number + before),
            other => *other,
        }));
        self.started += others.started;
    }
}

/// One of two slots that are done at once, or the only one.
#[derive(Debug, Default)]
struct Thread {
    /// What was started, by its number.
    started: Vec<u32>,
    /// What the next kernels wait for.
    waits: Vec<u32>,
    /// The last kernels.
    last: Option<u32>,
    /// Kernels that are not written yet.
    pending: Option<Pending>,
}

/// Kernels one after the other: as long on all ranks, and those that depend on what experts get.
#[derive(Clone, Copy, Debug)]
struct Pending {
    span: Span,
    uneven: Option<u32>,
    label: Label,
}

/// The calls and channels of all stages.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) calls: Vec<Call>,
    numbers: BTreeMap<Call, u32>,
    pub(super) channels: Vec<Channel>,
}

impl Shared {
    pub(super) fn call(&mut self, call: Call) -> u32 {
        *self.numbers.entry(call).or_insert_with(|| {
            self.calls.push(call);
            self.calls.len() as u32 - 1
        })
    }
}

/// A stage under way.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    pub(super) shared: &'a mut Shared,
    uneven: &'a Uneven,
    stage: Stage,
    streams: BTreeMap<Stream, u16>,
    /// The last units in the order of their use, the one in use and those that are gathered ahead: the kernels that used each last.
    units: VecDeque<u32>,
    /// How many these are at most, forward and backward.
    ahead: [usize; 2],
    /// Buckets of gradients, and of parameters that are gathered while the first forward pass runs.
    pub(super) buckets: Buckets,
    /// Gathers of parameters that the step before has updated which have not begun, and the bytes of one.
    pub(super) gathers: Vec<(Call, Label)>,
    width: u64,
    /// What the update waits for: the last reduction of gradients in each stream.
    outstanding: BTreeMap<(Group, u8), u32>,
    /// The last kernels of all.
    last: Option<u32>,
    /// What the next kernels of any slot wait for.
    held: Vec<u32>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(shared: &'a mut Shared, uneven: &'a Uneven, job: &Job<'_>, buckets: Buckets) -> Self {
        Self {
            shared,
            uneven,
            stage: Stage::default(),
            streams: BTreeMap::new(),
            units: VecDeque::new(),
            ahead: [job.choices.prefetch, job.choices.prefetch_back]
                .map(|n| usize::try_from(n.saturating_add(1)).unwrap_or(usize::MAX)),
            buckets,
            gathers: Vec::new(),
            width: job.widths.gather,
            outstanding: BTreeMap::new(),
            last: None,
            held: Vec::new(),
        }
    }

    pub(super) fn done(self) -> Stage {
        self.stage
    }

    /// The last kernels written.
    pub(super) const fn last(&self) -> Option<u32> {
        self.last
    }

    pub(super) fn op(&mut self, stream: Stream, work: Work, after: &[u32], label: Label) -> u32 {
        let stage = &mut self.stage;
        let number = *self.streams.entry(stream).or_insert_with(|| {
            stage.streams.push(stream);
            stage.order.push(Vec::new());
            stage.streams.len() as u16 - 1
        });
        let index = stage.ops.len() as u32;
        let from = stage.after.len() as u32;
        stage.after.extend_from_slice(after);
        stage.order[usize::from(number)].push(index);
        stage.ops.push(Op { stream: number, work, after: from..stage.after.len() as u32, label });
        index
    }

    pub(super) fn call(&mut self, call: Call, lane: u8, after: &[u32], label: Label) -> u32 {
        let number = self.shared.call(call);
        self.op(Stream::Messages(call.group, lane), Work::Call(number), after, label)
    }

    /// A reduction of gradients, which the update waits for.
    fn reduce(&mut self, call: Call, lane: u8, after: &[u32], label: Label) -> u32 {
        let op = self.call(call, lane, after, label);
        self.outstanding.insert((call.group, lane), op);
        op
    }

    /// Reductions of buckets, of each over its shards in a stream, and then over their holders. Kernels that follow wait for them
    /// if they are not to run beside them.
    pub(super) fn reduce_all(&mut self, buckets: &[Bucket], lane: u8, after: &[u32]) {
        for bucket in buckets {
            let mut done = bucket.call.map(|call| self.reduce(call, lane, after, bucket.label));
            if let Some(replicas) = bucket.replicas {
                let label = Label { what: replicas.name, phase: Phase::LastBackward, ..bucket.label };
                let scattered = done.map(|f| [f]);
                done = Some(self.reduce(replicas, 0, scattered.as_ref().map_or(after, |f| f.as_slice()), label));
            }
            if self.buckets.late {
                self.held.extend(done);
            }
        }
    }

    /// Gathers what the step before has updated.
    pub(super) fn gather(&mut self, after: &[u32]) {
        for (call, label) in core::mem::take(&mut self.gathers) {
            let op = self.call(call, 0, after, label);
            self.buckets.gathers_by(op, call.group, call.bytes, self.width);
        }
    }

    /// What the update waits for.
    pub(super) fn outstanding(&self) -> Vec<u32> {
        self.last.into_iter().chain(self.outstanding.values().copied()).collect()
    }

    /// Writes kernels that are alone in their slot.
    pub(super) fn kernels(&mut self, span: Span, after: &[u32], label: Label) -> u32 {
        let op = self.op(Stream::Compute, Work::Compute(span), after, label);
        self.last = Some(op);
        op
    }

    /// Writes one slot.
    pub(super) fn slot(&mut self, items: &Items) {
        let mut thread = Thread { last: self.last, ..Thread::default() };
        for item in &items.list {
            self.item(&mut thread, item);
        }
        self.close(thread);
    }

    /// A slot is done. What its last messages hold up are the kernels of the next one: they are in the same stream.
    fn close(&mut self, mut thread: Thread) {
        self.flush(&mut thread);
        self.held.append(&mut thread.waits);
    }

    /// Writes two slots at once: in turn the kernels of one while messages of the other are under way.
    pub(super) fn both(&mut self, a: &Items, b: &Items) {
        let thread = || Thread { last: self.last, ..Thread::default() };
        let waits = self.in_turn([a, b], [thread(), thread()]);
        self.held.extend(waits);
    }

    /// Writes a slot in two halves, in turn as [`both`](Self::both), after what both wait for and before what waits for both.
    pub(super) fn halves(&mut self, head: &Items, halves: [&Items; 2], tail: &Items) {
        let mut begin = Thread { last: self.last, ..Thread::default() };
        for item in &head.list {
            self.item(&mut begin, item);
        }
        let last = self.flush(&mut begin);
        let thread = || Thread { last, waits: begin.waits.clone(), ..Thread::default() };
        let waits = self.in_turn(halves, [thread(), thread()]);
        let mut end = Thread { last: self.last, waits, ..Thread::default() };
        for item in &tail.list {
            self.item(&mut end, item);
        }
        self.close(end);
    }

    /// What kernels behind both would wait for.
    fn in_turn(&mut self, of: [&Items; 2], mut threads: [Thread; 2]) -> Vec<u32> {
        let mut rest = of.map(|items| items.list.as_slice());
        let mut turn = 0;
        // What the first half waited for where each unit began, and how many units the second has begun.
        let (mut began, mut met): (Vec<Vec<u32>>, usize) = (Vec::new(), 0);
        while rest.iter().any(|r| !r.is_empty()) {
            // Up to the next wait after kernels, or to a unit that the first half has not begun.
            let mut worked = false;
            while let [item, later @ ..] = rest[turn] {
                match item {
                    Item::Wait(_) if worked => break,
                    Item::UnitBegins => {
                        self.flush(&mut threads[turn]);
                        if turn == 0 {
                            began.push(threads[0].waits.clone());
                        } else {
                            let Some(waits) = began.get(met) else { break };
                            threads[1].waits.extend(waits);
                            met += 1;
                        }
                    }
                    item => {
                        worked |= matches!(item, Item::Compute(..) | Item::Uneven(..));
                        self.item(&mut threads[turn], item);
                    }
                }
                rest[turn] = later;
            }
            self.flush(&mut threads[turn]);
            turn = 1 - turn;
        }
        threads.into_iter().flat_map(|thread| thread.waits).collect()
    }

    /// Writes what is pending; the last kernels of the thread.
    fn flush(&mut self, thread: &mut Thread) -> Option<u32> {
        if let Some(Pending { span, uneven, label }) = thread.pending.take() {
            thread.waits.append(&mut self.held);
            let work = match uneven {
                None => Work::Compute(span),
                Some(number) => Work::Uneven(self.uneven.changed(number, |own| own + span)),
            };
            let op = self.op(Stream::Compute, work, &core::mem::take(&mut thread.waits), label);
            thread.last = Some(op);
            self.last = Some(op);
        }
        thread.last
    }

    fn item(&mut self, thread: &mut Thread, item: &Item) {
        match *item {
            Item::Compute(span, label) => {
                match &mut thread.pending {
                    Some(held) if held.label == label => held.span += span,
                    _ => {
                        self.flush(thread);
                        thread.pending = Some(Pending { span, uneven: None, label });
                    }
                }
                return;
            }
            Item::Uneven(number, label) => {
                match &mut thread.pending {
                    Some(held) if held.label == label => {
                        held.uneven = Some(held.uneven.map_or(number, |before| self.uneven.sum(before, number)));
                    }
                    _ => {
                        self.flush(thread);
                        thread.pending = Some(Pending { span: Span::ZERO, uneven: Some(number), label });
                    }
                }
                return;
            }
            Item::Wait(number) => {
                self.flush(thread);
                thread.waits.extend(thread.started.get(number));
                return;
            }
            _ => {}
        }
        let last = self.flush(thread);
        // What a message comes after: the kernels so far, and what kernels that come next would wait for.
        let after: Vec<u32> = last.into_iter().chain(thread.waits.iter().copied()).collect();
        match *item {
            Item::Start(call, lane, label) => {
                let op = self.call(call, lane, &after, label);
                thread.started.push(op);
            }
            Item::Reduce(bucket) => self.reduce_all(&[bucket], 1, &after),
            Item::Gather(call, label) => {
                // Of the unit in use and those ahead of it all but this one may be held.
                let ahead = self.ahead[usize::from(label.phase == Phase::Backward)];
                let free = self.units.len().checked_sub(ahead).and_then(|at| self.units.get(at)).copied();
                let op = self.call(call, 0, free.as_slice(), label);
                thread.started.push(op);
            }
            Item::Send(channel, label) => {
                let op = self.op(Stream::Send(channel), Work::Send(channel), &after, label);
                thread.started.push(op);
            }
            Item::Receive(channel, label) => {
                let op = self.op(Stream::Receive(channel), Work::Receive(channel), &[], label);
                thread.started.push(op);
            }
            Item::UnitDone => {
                self.units.extend(last);
                if self.units.len() > self.ahead[0].max(self.ahead[1]) {
                    self.units.pop_front();
                }
            }
            Item::Updated => self.gather(&after),
            Item::Uses(ready) => {
                let waits = self.buckets.gathered(ready);
                thread.waits.extend(waits);
            }
            Item::Gradients(ready) => {
                let buckets = self.buckets.whole(ready);
                self.reduce_all(&buckets, 0, &after);
            }
            Item::Compute(..) | Item::Uneven(..) | Item::Wait(_) | Item::UnitBegins => {}
        }
    }
}
