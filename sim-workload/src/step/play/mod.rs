//! Playing a plan: every rank goes through its streams; calls begin when all members have come to them.
//!
//! A call begins when its last member has come to it (kernels of the library that came before wait for their peers; what they could
//! send into buffers before that, at most a chunk or two, is not counted). A message to another stage begins when it is sent: its receiver, which
//! frameworks post ahead, need not have come to it, and any number may wait there. A kernel beside which messages of its rank are under way is
//! slower by the part of the GPU that they take.

mod account;
mod calls;
mod chain;
mod kernels;
mod tables;
mod together;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sim_core::units::{Span, Time};

use super::carrier::{CarryError, Start};
use super::outcome::{Breakdown, Outcome, Piece, PieceKind, Ran};
use super::plan::{Label, Op, Plan, Stage, Stream, Work};
use crate::compute::{Jitter, Slowdown};
use crate::parallel::{Group, Ranks};
use account::Books;
use chain::{Chains, NONE};
pub use tables::Communicator;
use tables::{Meetings, Table};
pub use together::{Arrived, Beside, play, play_together};

/// What a step is played with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How kernels and GPUs vary.
    pub jitter: Jitter,
    /// Ranks whose kernels take so many times as long.
    pub slow: Vec<(u32, f64)>,
    /// Ranks that begin so much later.
    pub late: Vec<(u32, Span)>,
    /// What messages take of the GPU while they are under way.
    pub slowdown: Option<Slowdown>,
    /// What kernels of their own that take tokens to experts take of it, in millionths, in place of that.
    pub exchange: u64,
    /// Ranks of which every operation is told.
    pub watch: Vec<u32>,
}

/// Why a step does not end.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    /// A call can't be carried.
    #[error(transparent)]
    Carry(#[from] CarryError),
    /// Ranks wait for each other.
    #[error("{waiting} operations wait for ever; the first is {first} of rank {rank}")]
    Stuck {
        /// How many.
        waiting: u64,
        /// The first one.
        first: String,
        /// Its rank.
        rank: u32,
    },
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// A kernel that runs.
#[derive(Clone, Copy, Debug)]
struct Running {
    op: u32,
    binding: u32,
    began: Time,
    /// Work that is left at `since`, as a span at full speed.
    left: Span,
    since: Time,
    /// Part of the GPU that messages take, in millionths.
    lost: u64,
    ends: Time,
}

/// A rank.
#[derive(Debug, Default)]
struct Rank {
    stage: u32,
    /// When it begins, if it is late and has not begun.
    begins: Option<Time>,
    /// What each operation still waits for.
    waits: Vec<u16>,
    running: Option<Running>,
    /// Messages under way within the scale-up network, beyond, and by kernels that take tokens to experts.
    under_way: [u32; 3],
    /// Messages that have come and were not taken: of each stream that receives, their nodes.
    arrived: Vec<std::collections::VecDeque<u32>>,
    /// Receiving operations that wait, of each stream.
    receiving: Vec<Option<(u32, u32, Time)>>,
    left: u32,
}

/// A call that members come to.
#[derive(Debug, Default)]
struct Meeting {
    /// The operation of each that has come, with what it waited for, and when it came.
    members: Vec<Member>,
    came: u32,
    call: u32,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    op: u32,
    joined: Time,
    /// What the rank had waited for last, unless that was a kernel of its own.
    own: u32,
}

const ABSENT: Member = Member { op: u32::MAX, joined: Time::ZERO, own: NONE };

/// A call under way.
#[derive(Debug, Default)]
struct Flight {
    communicator: u32,
    began: Time,
    binding: u32,
    members: Vec<Member>,
    left: u32,
    /// The receiver's stream, if it is a message to another stage.
    channel: Option<u32>,
    call: u32,
    takes: Takes,
}

/// What a call takes of its ranks' GPUs while it is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Takes {
    /// What messages of its network do.
    #[default]
    Messages,
    /// The processors that its kernels are given.
    Processors,
    /// Nothing.
    Nothing,
}

/// Goes through a plan. It is told what ended, and says what begins.
pub struct Player<'a> {
    plan: &'a Plan,
    options: &'a Options,
    tables: Vec<Table>,
    meetings: Meetings,
    /// For each communicator whether its messages go over NICs alone.
    out: Vec<bool>,
    ranks: Vec<Rank>,
    /// Of each communicator and lane the meetings that not all have come to, the oldest first.
    open: Vec<[std::collections::VecDeque<Meeting>; LANES]>,
    flights: Vec<Flight>,
    free: Vec<u32>,
    pool: Vec<Vec<Member>>,
    chains: Chains,
    books: Books,
    watched: Vec<bool>,
    factors: Vec<Box<dyn FnMut(Span) -> Span + Send>>,
    /// The place of each rank in its group of experts, where some of these get more than others.
    places: Vec<u32>,
    /// Of each call how often it was made, and the sum of its times.
    made: Vec<(u64, Span)>,
    ready: Vec<(u32, u32, u32)>,
    timers: BinaryHeap<Reverse<(Time, u32)>>,
    starts: Vec<Start>,
    now: Time,
    last: u32,
    ran: Vec<Ran>,
    operations: u64,
    /// Ranks that have not done all.
    busy: u32,
    ends: Vec<Time>,
    /// When each rank had something to do, beside waiting for a message.
    began: Vec<Option<Time>>,
}

/// Streams of a kind of group.
const LANES: usize = 2;

impl<'a> Player<'a> {
    /// A player at the beginning; `nics_alone` says of a communicator whether its messages go over NICs alone
    /// ([`Spread::over_nics_alone`](crate::parallel::Spread::over_nics_alone)), which take another part of the GPU.
    #[must_use]
    pub fn new(
        plan: &'a Plan,
        ranks: &Ranks,
        options: &'a Options,
        nics_alone: impl Fn(&Communicator) -> bool,
    ) -> Self {
        let n = ranks.len() as usize;
        let stages: Vec<u32> = (0..n as u64).map(|r| ranks.coordinates(r).stage as u32).collect();
        let tables: Vec<Table> = plan.stages.iter().map(Table::new).collect();
        let meetings = Meetings::new(plan, ranks, &stages);
        let out = meetings.communicators.iter().map(nics_alone).collect();
        let of = |stage: &u32| {
            let (table, streams) = (&tables[*stage as usize], plan.stages[*stage as usize].streams.len());
            Rank {
                stage: *stage,
                waits: table.waits.clone(),
                arrived: vec![std::collections::VecDeque::new(); streams],
                receiving: vec![None; streams],
                left: table.waits.len() as u32,
                ..Rank::default()
            }
        };
        let mut watched = vec![false; n];
        for rank in &options.watch {
            if let Some(w) = watched.get_mut(*rank as usize) {
                *w = true;
            }
        }
        let mut places = Vec::new();
        if !plan.uneven.is_empty() {
            places.resize(n, 0);
            for members in ranks.groups(Group::Expert) {
                members.iter().zip(0u32..).for_each(|(rank, place)| places[*rank as usize] = place);
            }
        }
        let busy = stages.iter().filter(|s| !tables[**s as usize].waits.is_empty()).count() as u32;
        let open = meetings.communicators.iter().map(|_| Default::default()).collect();
        Self {
            plan,
            options,
            ranks: stages.iter().map(of).collect(),
            tables,
            out,
            open,
            meetings,
            flights: Vec::new(),
            free: Vec::new(),
            pool: Vec::new(),
            chains: Chains::default(),
            books: Books::new(n),
            watched,
            factors: kernels::factors(options, n),
            places,
            made: vec![(0, Span::ZERO); plan.calls.len()],
            ready: Vec::new(),
            timers: BinaryHeap::new(),
            starts: Vec::new(),
            now: Time::ZERO,
            last: NONE,
            ran: Vec::new(),
            operations: 0,
            busy,
            ends: vec![Time::ZERO; n],
            began: vec![None; n],
        }
    }

    /// The communicators, whose indices starts name.
    #[must_use]
    pub fn communicators(&self) -> &[Communicator] {
        &self.meetings.communicators
    }

    /// All calls that will be started, each a communicator and a call, once.
    #[must_use]
    pub fn calls(&self) -> Vec<(u32, u32)> {
        let plan = self.plan;
        let of_stage = |stage: &Stage| {
            let mut calls: Vec<(u16, u32)> = stage
                .ops
                .iter()
                .filter_map(|op| {
                    let call = match op.work {
                        Work::Call(call) => call,
                        Work::Send(channel) => plan.channels[channel as usize].call,
                        Work::Compute(_) | Work::Uneven(_) | Work::Receive(_) => return None,
                    };
                    Some((op.stream, call))
                })
                .collect();
            calls.sort_unstable();
            calls.dedup();
            calls
        };
        let of_stages: Vec<_> = plan.stages.iter().map(of_stage).collect();
        let mut all = Vec::new();
        for (rank, streams) in self.ranks.iter().zip(&self.meetings.of) {
            all.extend(of_stages[rank.stage as usize].iter().map(|(s, call)| (streams[usize::from(*s)].0, *call)));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether all ranks have done all.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.busy == 0
    }

    /// Begins.
    pub fn begin(&mut self) {
        for (rank, late) in &self.options.late {
            if let Some(state) = self.ranks.get_mut(*rank as usize).filter(|_| *late > Span::ZERO) {
                let at = Time::ZERO + *late;
                state.begins = Some(at);
                self.timers.push(Reverse((at, *rank)));
            }
        }
        for rank in (0..self.ranks.len() as u32).rev() {
            if self.ranks[rank as usize].begins.is_none() {
                self.begin_rank(rank);
            }
        }
        self.settle();
    }

    /// A rank begins with what waits for nothing.
    fn begin_rank(&mut self, rank: u32) {
        let first = &self.tables[self.ranks[rank as usize].stage as usize].first;
        self.ready.extend(first.iter().rev().map(|op| (rank, *op, NONE)));
    }

    /// What begins now, sorted.
    pub fn starts(&mut self, out: &mut Vec<Start>) {
        out.clear();
        out.append(&mut self.starts);
        out.sort_unstable();
    }

    fn label(&self, rank: u32, op: u32) -> Label {
        self.plan.stages[self.ranks[rank as usize].stage as usize].ops[op as usize].label
    }

    /// Starts all that waits for nothing more.
    fn settle(&mut self) {
        while let Some((rank, op, binding)) = self.ready.pop() {
            self.start(rank, op, binding);
        }
    }

    /// Starts an operation, which holds `binding`, the last that it waited for.
    fn start(&mut self, rank: u32, op: u32, binding: u32) {
        let plan = self.plan;
        let stage = &plan.stages[self.ranks[rank as usize].stage as usize];
        let (work, stream) = (stage.ops[op as usize].work, usize::from(stage.ops[op as usize].stream));
        if !matches!(work, Work::Receive(_)) {
            self.began[rank as usize].get_or_insert(self.now);
        }
        match work {
            Work::Compute(span) => self.compute(rank, op, binding, span),
            Work::Uneven(list) => {
                let place = self.places.get(rank as usize).map_or(0, |place| *place as usize);
                let span = plan.uneven.get(list as usize).and_then(|list| list.get(place)).copied().unwrap_or_default();
                self.compute(rank, op, binding, span);
            }
            Work::Call(call) => {
                let Stream::Messages(_, lane) = stage.streams[stream] else { return };
                self.join(rank, op, binding, call, (stream, usize::from(lane).min(LANES - 1)));
            }
            Work::Send(channel) => {
                let own = self.own(binding);
                let (communicator, _) = self.meetings.of[rank as usize][stream];
                let mut members = self.pool.pop().unwrap_or_default();
                members.clear();
                members.push(Member { op, joined: self.now, own });
                members.push(ABSENT);
                let call = self.plan.channels[channel as usize].call;
                self.depart(communicator, call, members, binding, Some(channel));
            }
            Work::Receive(_) => {
                if let Some(node) = self.ranks[rank as usize].arrived[stream].pop_front() {
                    // It was there before: the rank's own past is what it waited for.
                    self.chains.release(node);
                    let own = self.own(binding);
                    self.end(rank, op, binding, [self.now; 3], own);
                    self.chains.release(own);
                    self.chains.release(binding);
                } else {
                    self.ranks[rank as usize].receiving[stream] = Some((op, binding, self.now));
                }
            }
        }
    }

    fn op_of(&self, rank: u32, op: u32) -> &'a Op {
        &self.plan.stages[self.ranks[rank as usize].stage as usize].ops[op as usize]
    }

    /// An operation has ended that began with `binding` as the last it waited for.
    fn end(&mut self, rank: u32, op: u32, binding: u32, times: [Time; 3], own: u32) {
        let node = self.chains.add(Chains::node(binding, rank, op, times, own));
        let stage = &self.plan.stages[self.ranks[rank as usize].stage as usize];
        let entry = &stage.ops[op as usize];
        if self.watched[rank as usize] && !matches!(entry.work, Work::Receive(_)) {
            let stream = stage.streams[usize::from(entry.stream)];
            self.ran.push(Ran { rank, stream, label: entry.label, from: times[1], to: times[2] });
        }
        let kernel = entry.work.is_kernel();
        self.done(rank, op, node);
        if kernel {
            // Its running entry held it; calls hold theirs as long as they are under way.
            self.chains.release(binding);
        }
        self.chains.unless_held(node);
    }

    /// Tells those that wait for an operation that it has ended.
    fn done(&mut self, rank: u32, op: u32, node: u32) {
        self.operations += 1;
        let state = &mut self.ranks[rank as usize];
        state.left -= 1;
        self.busy -= u32::from(state.left == 0);
        self.ends[rank as usize] = self.now;
        let table = &self.tables[state.stage as usize];
        for at in table.followers(op).rev() {
            let follower = table.follower(at);
            let waits = &mut state.waits[follower as usize];
            *waits -= 1;
            if *waits == 0 {
                self.chains.hold(node);
                self.ready.push((rank, follower, node));
            }
        }
        if self.chains.get(self.last).is_none_or(|last| last.to <= self.now) {
            self.chains.hold(node);
            self.chains.release(self.last);
            self.last = node;
        }
    }

    /// What it came to.
    ///
    /// # Errors
    /// If something still waits.
    pub fn finish(self) -> Result<Outcome, PlayError> {
        let waiting: u64 = self.ranks.iter().map(|r| u64::from(r.left)).sum();
        if waiting > 0 {
            let rank = self.ranks.iter().position(|r| r.left > 0).unwrap_or(0);
            let waits = &self.ranks[rank].waits;
            let op = waits.iter().position(|w| *w > 0).unwrap_or(0);
            let label = self.label(rank as u32, op as u32);
            let first = format!("{} ({:?})", label.what, label.phase);
            return Err(PlayError::Stuck { waiting, first, rank: rank as u32 });
        }
        let last = self.ends.iter().copied().max().unwrap_or_default();
        let mut path = Vec::new();
        let mut at = self.last;
        while let Some(node) = self.chains.get(at) {
            let stage = &self.plan.stages[self.ranks[node.rank as usize].stage as usize];
            let op = &stage.ops[node.op as usize];
            let kind = match op.work {
                Work::Compute(_) | Work::Uneven(_) => PieceKind::Compute,
                _ => {
                    let (communicator, _) = self.meetings.of[node.rank as usize][usize::from(op.stream)];
                    PieceKind::Message(self.meetings.communicators[communicator as usize].group)
                }
            };
            if node.to > node.from {
                path.push(Piece { rank: node.rank, kind, label: op.label, from: node.from, to: node.to });
            }
            at = node.before;
        }
        // What is first waited for nothing but a rank that was late.
        if let Some(first) = path.last().filter(|piece: &&Piece| piece.from > Time::ZERO).copied() {
            // Of a call that began when the last of its ranks did, the late one is among them.
            let late = self.options.late.iter().find(|(_, late)| Time::ZERO + *late == first.from);
            let rank = late.map_or(first.rank, |(rank, _)| *rank);
            path.push(Piece { kind: PieceKind::Late, rank, from: Time::ZERO, to: first.from, ..first });
        }
        path.reverse();
        let tails: Vec<_> = (0..self.ranks.len()).map(|r| self.tail(r as u32)).collect();
        let late = self.books.late().iter().map(|(key, span)| (*key, *span)).collect();
        let mut ranks: Vec<Breakdown> = self.books.close(last, &self.ends, &tails, self.plan.stages.len() > 1);
        let mut end = last;
        if self.plan.shifted {
            let spans = self.ends.iter().zip(&self.began).map(|(end, began)| end.since(began.unwrap_or(*end)));
            end = Time::ZERO + spans.max().unwrap_or_default();
            let before = last.since(end);
            ranks.iter_mut().for_each(|rank| rank.shorten(before));
            path = path.into_iter().filter_map(|piece| piece.later_than(before)).collect();
        }
        let (ends, ran, operations, made) = (self.ends, self.ran, self.operations, self.made);
        Ok(Outcome { end, ends, ranks, path, ran, operations, late, made })
    }

    /// The group of a rank's last call in its plan, if that comes after its last kernel.
    fn tail(&self, rank: u32) -> Option<Group> {
        let stage = &self.plan.stages[self.ranks[rank as usize].stage as usize];
        let op = stage.ops.last()?;
        match op.work {
            Work::Compute(_) | Work::Uneven(_) => None,
            _ => {
                let (communicator, _) = self.meetings.of[rank as usize][usize::from(op.stream)];
                self.meetings.communicators.get(communicator as usize).map(|c| c.group)
            }
        }
    }
}
