//! Continuous batching: a small discrete-event simulation of the instances that serve requests.
//!
//! An instance works in steps. At the start of one it admits waiting requests in the order of their arrival, as long as there is
//! room in the batch and in the cache; a request is given room for its prompt and its whole answer at once, so none is ever evicted
//! (engines that give room token by token fit more, and sometimes begin again). A pipeline of p stages has p lanes, each with requests of
//! its own, that follow each other through the stages.
//!
//! In one pool the end of a prompt's prefill brings the first token. In two pools the cache goes to a decoding instance after (or,
//! layer by layer, during) the prefill, and the first token comes from the first step there. Where it goes is decided when a step begins
//! that makes layers to be sent, else when all is made: to the instance with most room, first come first served; a prompt for which there
//! is no room goes whole when there is. Caches that are under way together share links ([`sharing`](super::sharing)).

mod handing_on;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use sim_core::units::{Span, Time};

pub use super::deployment::{Deployment, Handover, Limits, Load, Order, Pool};
use super::requests::Request;
use super::sharing::Sharing;
use super::{Batch, Chunk};
use handing_on::UnderWay;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// What was asked.
    pub request: Request,
    /// When its prefill began.
    pub begun: Time,
    /// When its prefill ended.
    pub filled: Time,
    /// When its cache had arrived where it is decoded.
    pub landed: Time,
    /// When its first token came.
    pub first: Time,
    /// When its last token came.
    pub last: Time,
}

/// What an instance did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Did {
    /// Time that its stages worked, the mean over them.
    pub busy: Span,
    /// Steps.
    pub steps: u64,
    /// Sequences that got a token, over all steps.
    pub decoded: u64,
    /// Most tokens of cache that were reserved.
    pub most_cache: u64,
    /// Tokens of cache over time: token-microseconds.
    pub cache_us: u128,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Requests in the order of their arrival.
    pub served: Vec<Served>,
    /// Instances, those for prompts first.
    pub did: Vec<Did>,
    /// When the last token came.
    pub end: Time,
}

/// Why requests can't be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// A request that never fits.
    #[error(
        "a request of {prompt} + {output} tokens does not fit in the cache of an instance, which has room for {room}: use more GPUs \
         for an instance, fewer bytes for weights or cache, or shorter requests"
    )]
    Room {
        /// Its prompt.
        prompt: u64,
        /// Its answer.
        output: u64,
        /// Tokens of cache.
        room: u64,
    },
    /// It was stopped from outside.
    #[error("stopped")]
    Stopped,
}

#[derive(Clone, Copy, Debug)]
struct Sequence {
    /// Which request.
    index: usize,
    /// Tokens of its prompt that are in the cache.
    filled: u64,
    /// Tokens of its answer that have come.
    made: u64,
}

#[derive(Debug, Default)]
struct Lane {
    /// Prompts that are not all in the cache.
    filling: VecDeque<Sequence>,
    /// Sequences that decode.
    decoding: Vec<Sequence>,
    /// Sequences that decode from the next step on.
    joining: Vec<Sequence>,
    /// A step of it is under way or about to start.
    taken: bool,
    /// The prompts of the step that is under way, with the tokens of each.
    step: Vec<(Sequence, u64)>,
    /// Whether it decodes in that step.
    decodes: bool,
}

#[derive(Debug)]
struct Server {
    /// Index of its pool.
    pool: usize,
    waiting: VecDeque<usize>,
    lanes: Vec<Lane>,
    /// When each stage is free.
    free: Vec<Time>,
    /// Tokens of cache that are reserved.
    reserved: u64,
    /// Tokens that wait or are reserved: what new requests are spread by.
    load: u64,
    sequences: u64,
    /// Since when `reserved` is what it is.
    since: Time,
    did: Did,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A step of a lane has ended.
    Done(usize, usize),
    /// Something changes among the caches that are under way; of several such words the last counts.
    Moved(u64),
    /// A lane may start a step.
    Start(usize, usize),
}

struct World<'a> {
    pools: Vec<&'a Pool<'a>>,
    handover: Option<&'a dyn Handover>,
    requests: &'a [Request],
    served: Vec<Served>,
    servers: Vec<Server>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    number: u64,
    /// Prompts that are done and wait for room where they are decoded, with the server that has them.
    homeless: VecDeque<(usize, usize)>,
    /// Caches on their way, by request.
    under_way: BTreeMap<usize, UnderWay>,
    sharing: Sharing,
    /// The last word about what is under way.
    word: u64,
}

/// Serves `requests` (in order of their arrival).
///
/// # Errors
/// If a request never fits.
pub fn serve(deployment: &Deployment<'_>, requests: &[Request]) -> Result<Run, ServeError> {
    serve_until(deployment, requests, &|| false)
}

/// The same, unless `stop` says so on the way.
///
/// # Errors
/// If a request never fits, or it was stopped.
pub fn serve_until(
    deployment: &Deployment<'_>,
    requests: &[Request],
    stop: &dyn Fn() -> bool,
) -> Result<Run, ServeError> {
    let (pools, handover): (Vec<_>, _) = match *deployment {
        Deployment::Together(pool) => (vec![pool], None),
        Deployment::Apart { prefill, decode, handover } => (vec![prefill, decode], Some(handover)),
    };
    for (number, pool) in pools.iter().enumerate() {
        let alone = handover.is_some() && number == 0;
        let need = |r: &Request| if alone { r.prompt } else { r.prompt.saturating_add(r.output) };
        if let Some(r) = requests.iter().find(|r| need(r) > pool.limits.cache) {
            let output = if alone { 0 } else { r.output };
            return Err(ServeError::Room { prompt: r.prompt, output, room: pool.limits.cache });
        }
    }
    let mut servers = Vec::new();
    for (index, pool) in pools.iter().enumerate() {
        let stages = pool.steps.instance.shape.pipeline as usize;
        for _ in 0..pool.count.max(1) {
            servers.push(Server {
                pool: index,
                waiting: VecDeque::new(),
                lanes: (0..stages).map(|_| Lane::default()).collect(),
                free: vec![Time::ZERO; stages],
                reserved: 0,
                load: 0,
                sequences: 0,
                since: Time::ZERO,
                did: Did::default(),
            });
        }
    }
    let nothing = |r: &Request| Served {
        request: *r,
        begun: Time::MAX,
        filled: Time::ZERO,
        landed: Time::ZERO,
        first: Time::ZERO,
        last: Time::ZERO,
    };
    let mut world = World {
        pools,
        handover,
        requests,
        served: requests.iter().map(nothing).collect(),
        servers,
        events: BinaryHeap::new(),
        number: 0,
        homeless: VecDeque::new(),
        under_way: BTreeMap::new(),
        sharing: Sharing::default(),
        word: 0,
    };
    let (mut end, mut coming, mut events) = (Time::ZERO, 0, 0u64);
    loop {
        events += 1;
        if events.is_multiple_of(LOOKS) && stop() {
            return Err(ServeError::Stopped);
        }
        // Of what comes at one instant requests are first.
        let next = world.events.peek().map(|Reverse((at, ..))| *at);
        if let Some(request) = requests.get(coming).filter(|request| next.is_none_or(|at| request.at <= at)) {
            end = end.max(request.at);
            world.arrive(coming, request.at);
            coming += 1;
            continue;
        }
        let Some(Reverse((at, _, event))) = world.events.pop() else { break };
        match event {
            Event::Moved(word) if word != world.word => continue,
            Event::Moved(_) => world.moved(at),
            Event::Start(server, lane) => world.start(server, lane, at),
            Event::Done(server, lane) => world.done(server, lane, at),
        }
        end = end.max(at);
    }
    for server in 0..world.servers.len() {
        world.reserve(server, 0, 0, end);
    }
    Ok(Run { served: world.served, did: world.servers.into_iter().map(|s| s.did).collect(), end })
}

/// Events from one look at the outside to the next.
const LOOKS: u64 = 256;

impl World<'_> {
    fn push(&mut self, at: Time, event: Event) {
        self.number += 1;
        self.events.push(Reverse((at, self.number, event)));
    }

    /// Changes what is reserved of a server's cache.
    fn reserve(&mut self, server: usize, more: u64, less: u64, at: Time) {
        let s = &mut self.servers[server];
        s.did.cache_us += u128::from(s.reserved) * u128::from(at.since(s.since).as_ps() / 1_000_000);
        s.since = at;
        s.reserved = (s.reserved + more).saturating_sub(less);
        s.did.most_cache = s.did.most_cache.max(s.reserved);
    }

    /// Tokens of cache that a request needs in a pool.
    fn need(&self, pool: usize, request: usize) -> u64 {
        let r = &self.requests[request];
        if self.handover.is_some() && pool == 0 { r.prompt } else { r.prompt + r.output }
    }

    fn arrive(&mut self, request: usize, at: Time) {
        let least = self.servers.iter().enumerate().filter(|(_, s)| s.pool == 0).min_by_key(|(_, s)| s.load);
        let Some(server) = least.map(|(index, _)| index) else { return };
        let need = self.need(0, request);
        self.servers[server].load += need;
        self.servers[server].waiting.push_back(request);
        self.wake(server, at);
    }

    /// Lets each lane that has or may get work start a step when the first stage is free.
    fn wake(&mut self, server: usize, at: Time) {
        for lane in 0..self.servers[server].lanes.len() {
            let s = &mut self.servers[server];
            let l = &mut s.lanes[lane];
            let work =
                !s.waiting.is_empty() || !l.filling.is_empty() || !l.decoding.is_empty() || !l.joining.is_empty();
            if !l.taken && work {
                l.taken = true;
                let when = s.free[0].max(at);
                self.push(when, Event::Start(server, lane));
            }
        }
    }

    fn start(&mut self, server: usize, lane: usize, at: Time) {
        self.admit(server, lane, at);
        let pool = self.pools[self.servers[server].pool];
        let s = &mut self.servers[server];
        if s.free[0] > at {
            // Another lane was first.
            let when = s.free[0];
            return self.push(when, Event::Start(server, lane));
        }
        let l = &mut s.lanes[lane];
        l.decoding.append(&mut l.joining);
        let mut batch = Batch::default();
        l.decodes = !l.decoding.is_empty() && (pool.order == Order::Chunked || l.filling.is_empty());
        if l.decodes {
            batch.decodes = l.decoding.len() as u64;
            // The token that is worked on is in the cache too.
            let length = |q: &Sequence| self.requests[q.index].prompt + q.made.max(1);
            batch.contexts = l.decoding.iter().map(length).sum();
        }
        let mut left = pool.limits.tokens.saturating_sub(batch.decodes);
        while let Some(next) = l.filling.front().copied() {
            let whole = self.requests[next.index].prompt - next.filled;
            let new = match pool.order {
                Order::Chunked => whole.min(left),
                Order::PrefillFirst if whole <= left || l.step.is_empty() => whole,
                Order::PrefillFirst => 0,
            };
            if new == 0 {
                break;
            }
            left = left.saturating_sub(new);
            batch.prefills.push(Chunk { new, past: next.filled });
            batch.finished += u64::from(new == whole);
            if self.served[next.index].begun == Time::MAX {
                self.served[next.index].begun = at;
            }
            l.filling.pop_front();
            l.step.push((next, new));
        }
        if batch.is_empty() {
            l.taken = false;
            return;
        }
        s.did.steps += 1;
        s.did.decoded += batch.decodes;
        let stages = pool.steps.stages(&batch);
        let mut when = at;
        let mut work = Span::ZERO;
        for (free, parts) in s.free.iter_mut().zip(&stages) {
            when = when.max(*free) + parts.total();
            *free = when;
            work += parts.total();
        }
        s.did.busy += Span::from_ps(work.as_ps() / stages.len().max(1) as u64);
        self.push(when, Event::Done(server, lane));
        if self.handover.is_some_and(Handover::by_layer) && self.servers[server].pool == 0 {
            self.send_layers(server, lane, (at, when));
        }
    }

    /// Lets waiting requests in while there is room.
    fn admit(&mut self, server: usize, lane: usize, at: Time) {
        let pool = self.servers[server].pool;
        let limits = self.pools[pool].limits;
        loop {
            let s = &self.servers[server];
            let each = limits.sequences.max(1).div_ceil(s.lanes.len() as u64);
            let l = &s.lanes[lane];
            let Some(&request) = s.waiting.front() else { return };
            let need = self.need(pool, request);
            let full = (l.filling.len() + l.decoding.len()) as u64 >= each || s.sequences >= limits.sequences.max(1);
            if full || s.reserved + need > limits.cache {
                return;
            }
            self.reserve(server, need, 0, at);
            let s = &mut self.servers[server];
            s.sequences += 1;
            s.waiting.pop_front();
            s.lanes[lane].filling.push_back(Sequence { index: request, filled: 0, made: 0 });
        }
    }

    fn done(&mut self, server: usize, lane: usize, at: Time) {
        let apart = self.handover.is_some();
        let l = &mut self.servers[server].lanes[lane];
        l.taken = false;
        let (step, decodes) = (core::mem::take(&mut l.step), core::mem::take(&mut l.decodes));
        let mut ended = Vec::new();
        if decodes {
            for sequence in &mut l.decoding {
                sequence.made += 1;
                let served = &mut self.served[sequence.index];
                if sequence.made == 1 {
                    served.first = at;
                }
                if sequence.made >= served.request.output {
                    served.last = at;
                    ended.push(sequence.index);
                }
            }
            l.decoding.retain(|s| s.made < self.requests[s.index].output);
        }
        let mut leaving = Vec::new();
        for (mut sequence, new) in step.into_iter().rev() {
            sequence.filled += new;
            let served = &mut self.served[sequence.index];
            if sequence.filled < served.request.prompt {
                l.filling.push_front(sequence);
            } else if apart {
                served.filled = at;
                leaving.push(sequence.index);
            } else {
                (served.filled, served.landed, served.first) = (at, at, at);
                sequence.made = 1;
                if served.request.output == 1 {
                    served.last = at;
                    ended.push(sequence.index);
                } else {
                    l.decoding.push(sequence);
                }
            }
        }
        for request in ended {
            self.leave(server, request, at);
        }
        leaving.sort_unstable();
        // What has been sent on so far has its last layers under way.
        for request in leaving {
            if self.under_way.contains_key(&request) {
                self.arrived(request, at);
            } else {
                self.homeless.push_back((request, server));
            }
        }
        self.house(at);
        self.wake(server, at);
    }

    /// A request has left a server: its room is free.
    fn leave(&mut self, server: usize, request: usize, at: Time) {
        let need = self.need(self.servers[server].pool, request);
        self.reserve(server, 0, need, at);
        let s = &mut self.servers[server];
        s.load = s.load.saturating_sub(need);
        s.sequences = s.sequences.saturating_sub(1);
    }
}
