//! Playing lanes with sets of contributions in place of data.

use std::collections::{BTreeMap, VecDeque};

use super::{Contributions, FlowError};
use crate::lanes::{LaneOp, Lanes, Own, Peers};

/// A block that a rank stored: (channel, loop, block).
pub(super) type Key = (u32, u32, u64);

/// A message: blocks by number, and what is in them.
type Parcel = Vec<(u64, Contributions)>;

/// Plays `lanes` and returns what every rank stored.
///
/// # Errors
/// If lanes get stuck, messages are left over, or one is taken for another.
pub fn play(lanes: &Lanes) -> Result<Vec<BTreeMap<Key, Contributions>>, FlowError> {
    let mut player = Player::new(lanes);
    while player.round() {}
    player.finish()
}

struct Player<'a> {
    lanes: &'a Lanes,
    /// Per connection and receiving side, the messages under way.
    queues: Vec<Vec<VecDeque<Parcel>>>,
    /// Per reduction, the parts of the messages that are not complete.
    partial: Vec<Vec<VecDeque<Parcel>>>,
    stored: Vec<BTreeMap<Key, Contributions>>,
    /// What every rank keeps for later operations.
    kept: Vec<BTreeMap<Key, Contributions>>,
    mixed: Option<FlowError>,
    /// Per lane: loop, operation, repetition, and whether its barrier is behind it.
    places: Vec<(u32, usize, u32, bool)>,
    here: Vec<u32>,
    opened: Vec<u32>,
    passed: Vec<BTreeMap<u32, u32>>,
}

impl<'a> Player<'a> {
    fn new(lanes: &'a Lanes) -> Self {
        let sides = |senders: bool| {
            let count = move |c: &crate::lanes::Connection| match (&c.peers, senders) {
                (Peers::Reduce { from, .. }, true) => from.len(),
                (Peers::Multicast { to, .. }, false) => to.len(),
                (Peers::Network { from, .. }, true) => from.len(),
                (Peers::Network { to, .. }, false) => to.len(),
                _ => 1,
            };
            lanes.connections.iter().map(|c| vec![VecDeque::new(); count(c)]).collect::<Vec<_>>()
        };
        Self {
            lanes,
            queues: sides(false),
            partial: sides(true),
            stored: vec![BTreeMap::new(); lanes.ranks as usize],
            kept: vec![BTreeMap::new(); lanes.ranks as usize],
            mixed: None,
            places: vec![(0, 0, 0, false); lanes.lanes.len()],
            here: vec![0; lanes.barriers.len()],
            opened: vec![0; lanes.barriers.len()],
            passed: vec![BTreeMap::new(); lanes.lanes.len()],
        }
    }

    /// Lets every lane go as far as it can; false if none moved.
    fn round(&mut self) -> bool {
        let mut moved = false;
        for i in 0..self.lanes.lanes.len() {
            while self.step(i) {
                moved = true;
            }
        }
        moved
    }

    fn step(&mut self, index: usize) -> bool {
        let lane = &self.lanes.lanes[index];
        let layout = &self.lanes.layouts[lane.layout as usize];
        let (turn, at, repetition, _) = self.places[index];
        if turn >= layout.loops() {
            return false;
        }
        let Some(op) = lane.ops.get(at) else {
            self.places[index] = (turn + 1, 0, 0, false);
            return true;
        };
        if !self.through_barrier(index, op) {
            return false;
        }
        if repetition >= op.repeat {
            self.places[index] = (turn, at + 1, 0, false);
            return true;
        }
        let chunk = (u64::from(op.chunk) + u64::from(repetition) * u64::from(op.stride)) % u64::from(layout.chunks);
        if layout.span_bytes(turn, chunk as u32, op.span) > 0 {
            if op.recv.iter().any(|e| self.queues[e.connection as usize][e.side as usize].is_empty()) {
                return false;
            }
            // Only chunks that hold data are in a message.
            let chunks = u64::from(layout.chunks);
            let there = |k: &u64| layout.chunk_bytes(turn, *k as u32) > 0;
            let blocks = |first: u64| {
                let named = |i: u64| if op.apart == 1 { (first + i) % chunks } else { first + i * op.apart };
                let held = (0..u64::from(op.span)).filter(|i| there(&((first + i) % chunks)));
                held.map(|i| op.block + named(i)).collect::<Vec<u64>>()
            };
            let row = u64::from(op.spread).min(chunks).max(1);
            let of_end = |i: usize| if op.spread > 0 { chunk / row * row + (chunk + i as u64) % row } else { chunk };
            let rank = lane.rank as usize;
            let key = |block: u64| (lane.channel, turn, block);
            // Either one value goes to, or is summed from, all ends; or each end has its own.
            let ends = if op.spread > 0 { op.recv.len().max(op.send.len()).max(1) } else { 1 };
            let mut values: Vec<Parcel> = (0..ends)
                .map(|i| blocks(of_end(i)).into_iter().map(|block| (block, Contributions::default())).collect())
                .collect();
            for (i, end) in op.recv.iter().enumerate() {
                let parcel = self.queues[end.connection as usize][end.side as usize].pop_front().unwrap_or_default();
                let value = &mut values[i.min(ends - 1)];
                for ((found, part), (expected, sum)) in parcel.iter().zip(value.iter_mut()) {
                    if found != expected {
                        let (rank, channel, found, expected) = (lane.rank, lane.channel, *found, *expected);
                        self.mixed.get_or_insert(FlowError::Mixed { rank, channel, found, expected });
                    }
                    sum.add(*part);
                }
            }
            for (block, sum) in values.iter_mut().flatten() {
                match op.action.adds {
                    Own::Nothing => {}
                    Own::Input => sum.add(Contributions::of(lane.rank)),
                    Own::Kept => sum.add(self.kept[rank].get(&key(*block)).copied().unwrap_or_default()),
                }
                if op.action.keeps {
                    self.kept[rank].insert(key(*block), *sum);
                }
                if op.action.stores {
                    self.stored[rank].insert(key(*block), *sum);
                }
            }
            for (i, end) in op.send.iter().enumerate() {
                let parcel = values[i.min(ends - 1)].clone();
                self.send(end.connection as usize, end.side as usize, parcel);
            }
        }
        self.places[index] = (turn, at, repetition + 1, true);
        true
    }

    fn through_barrier(&mut self, index: usize, op: &LaneOp) -> bool {
        let (turn, at, repetition, behind) = self.places[index];
        let Some(barrier) = op.after else { return true };
        if behind {
            return true;
        }
        let b = barrier as usize;
        let passed = self.passed[index].entry(barrier).or_default();
        let waiting = *passed % 2 == 1;
        if !waiting {
            *passed += 1;
            self.here[b] += 1;
        }
        if self.here[b] == self.lanes.barriers[b].lanes {
            self.here[b] = 0;
            self.opened[b] += 1;
        }
        let passed = self.passed[index].entry(barrier).or_default();
        if self.opened[b] > *passed / 2 {
            *passed += 1;
            self.places[index] = (turn, at, repetition, true);
            return true;
        }
        false
    }

    fn send(&mut self, connection: usize, side: usize, value: Parcel) {
        match &self.lanes.connections[connection].peers {
            Peers::Reduce { .. } | Peers::Network { .. } => {
                self.partial[connection][side].push_back(value);
                if self.partial[connection].iter().all(|q| !q.is_empty()) {
                    let mut parcels = self.partial[connection].iter_mut().filter_map(VecDeque::pop_front);
                    let mut sum = parcels.next().unwrap_or_default();
                    for parcel in parcels {
                        for ((block, part), (of, sum)) in parcel.iter().zip(sum.iter_mut()) {
                            if block != of {
                                let (found, expected) = (*block, *of);
                                self.mixed.get_or_insert(FlowError::Mixed { rank: 0, channel: 0, found, expected });
                            }
                            sum.add(*part);
                        }
                    }
                    for queue in &mut self.queues[connection] {
                        queue.push_back(sum.clone());
                    }
                }
            }
            Peers::Multicast { .. } => {
                for queue in &mut self.queues[connection] {
                    queue.push_back(value.clone());
                }
            }
            Peers::Pair { .. } | Peers::Local { .. } => self.queues[connection][side].push_back(value),
        }
    }

    fn finish(self) -> Result<Vec<BTreeMap<Key, Contributions>>, FlowError> {
        let stuck: Vec<_> = (0..self.lanes.lanes.len())
            .filter(|i| self.places[*i].0 < self.lanes.layouts[self.lanes.lanes[*i].layout as usize].loops())
            .collect();
        if let Some(first) = stuck.first() {
            let lane = &self.lanes.lanes[*first];
            return Err(FlowError::Stuck { lanes: stuck.len(), rank: lane.rank, channel: lane.channel });
        }
        let messages = self.queues.iter().chain(&self.partial).flatten().map(VecDeque::len).sum();
        if messages > 0 {
            return Err(FlowError::Unreceived { messages });
        }
        if let Some(mixed) = self.mixed {
            return Err(mixed);
        }
        Ok(self.stored)
    }
}
