//! What is the same for all ranks of a stage, and who meets whom.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use super::super::plan::{Plan, Stage, Stream};
use crate::parallel::{Group, Ranks};

/// The operations of a stage as the player goes through them.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// For each operation where its followers begin in `followers`; one more at the end.
    from: Vec<u32>,
    followers: Vec<u32>,
    /// How many streams each waits for.
    pub(super) waits: Vec<u16>,
    /// Operations that wait for nothing.
    pub(super) first: Vec<u32>,
}

impl Table {
    pub(super) fn new(stage: &Stage) -> Self {
        let n = stage.ops.len();
        let mut before = vec![u32::MAX; n];
        for list in &stage.order {
            for pair in list.windows(2) {
                before[pair[1] as usize] = pair[0];
            }
        }
        let waits_of = |i: usize| {
            let op = &stage.ops[i];
            let own = &stage.after[op.after.start as usize..op.after.end as usize];
            let mut list: Vec<u32> = own.to_vec();
            list.extend(Some(before[i]).filter(|b| *b != u32::MAX));
            // The last of a stream is enough, since those before it have ended by then: no more waits than streams.
            let stream = |op: u32| stage.ops[op as usize].stream;
            list.sort_unstable_by_key(|op| (stream(*op), Reverse(*op)));
            list.dedup_by_key(|op| stream(*op));
            list
        };
        let mut count = vec![0u32; n + 1];
        let mut waits = vec![0u16; n];
        for (i, number) in waits.iter_mut().enumerate() {
            let list = waits_of(i);
            *number = list.len() as u16;
            for at in list {
                count[at as usize + 1] += 1;
            }
        }
        for i in 0..n {
            count[i + 1] += count[i];
        }
        let mut followers = vec![0; count[n] as usize];
        let mut next = count.clone();
        for i in 0..n {
            for at in waits_of(i) {
                followers[next[at as usize] as usize] = i as u32;
                next[at as usize] += 1;
            }
        }
        let first = (0..n as u32).filter(|i| waits[*i as usize] == 0).collect();
        Self { from: count, followers, waits, first }
    }

    /// How many operations wait for this one.
    pub(super) fn followers(&self, op: u32) -> core::ops::Range<usize> {
        self.from[op as usize] as usize..self.from[op as usize + 1] as usize
    }

    pub(super) fn follower(&self, at: usize) -> u32 {
        self.followers[at]
    }
}

/// Ranks that meet in calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Communicator {
    /// The kind of group.
    pub group: Group,
    /// Its ranks, in the order in which they are numbered.
    pub ranks: Vec<u32>,
}

/// Who each rank meets in each of its streams.
#[derive(Clone, Debug, Default)]
pub(super) struct Meetings {
    pub(super) communicators: Vec<Communicator>,
    /// For each rank and stream of its stage: the communicator and the rank's number in it.
    pub(super) of: Vec<Vec<(u32, u32)>>,
}

impl Meetings {
    pub(super) fn new(plan: &Plan, ranks: &Ranks, stages: &[u32]) -> Self {
        let n = stages.len();
        let mut out = Self { communicators: Vec::new(), of: vec![Vec::new(); n] };
        // The groups of each kind, and for each rank its group and place in it.
        let mut kinds: BTreeMap<Group, Vec<(u32, u32)>> = BTreeMap::new();
        let mut pairs: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let mut lines: Vec<Vec<u64>> = Vec::new();
        let used = |group: Group| {
            plan.stages.iter().any(|s| s.streams.iter().any(|t| matches!(t, Stream::Messages(g, _) if *g == group)))
        };
        for group in Group::ALL {
            if !used(group) {
                continue;
            }
            let mut of = vec![(u32::MAX, 0); n];
            for members in ranks.groups(group) {
                let number = out.communicators.len() as u32;
                for (at, rank) in members.iter().enumerate() {
                    of[*rank as usize] = (number, at as u32);
                }
                let ranks = members.iter().map(|r| *r as u32).collect();
                out.communicators.push(Communicator { group, ranks });
            }
            kinds.insert(group, of);
        }
        if !plan.channels.is_empty() {
            lines = vec![Vec::new(); n];
            for line in ranks.groups(Group::Pipeline) {
                for rank in &line {
                    lines[*rank as usize].clone_from(&line);
                }
            }
        }
        for (rank, stage) in stages.iter().enumerate() {
            let mut pair = |from: u64, to: u64, member: u32| {
                let number = *pairs.entry((from as u32, to as u32)).or_insert_with(|| {
                    let ranks = vec![from as u32, to as u32];
                    out.communicators.push(Communicator { group: Group::Pipeline, ranks });
                    out.communicators.len() as u32 - 1
                });
                (number, member)
            };
            for stream in &plan.stages[*stage as usize].streams {
                let at = |stage: u32| lines[rank][stage as usize];
                let entry = match stream {
                    Stream::Compute => (u32::MAX, 0),
                    Stream::Messages(group, _) => kinds[group][rank],
                    Stream::Send(channel) => pair(rank as u64, at(plan.channels[*channel as usize].to), 0),
                    Stream::Receive(channel) => pair(at(plan.channels[*channel as usize].from), rank as u64, 1),
                };
                out.of[rank].push(entry);
            }
        }
        out
    }
}
