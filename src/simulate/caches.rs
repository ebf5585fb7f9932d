//! Caches of prompts on their way between instances: what each way takes, by the engine.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use sim_collectives::step_graph::{Message, Node, StepGraph, Work};
use sim_core::engine::Limits;
use sim_core::network::{Forwarding, Network};
use sim_core::outcome::StopReason;
use sim_core::units::{Bytes, Span, Time};
use sim_topology::{DeviceId, Fabric};
use sim_workload::serving::cache_transfer::{Side, Transport, pieces};
use sim_workload::serving::deployment::{Handover, Load};

use crate::scenario::{Inference, Moves, PoolSpec, nics_between};

/// Tokens by which ways are compared, and links' loads are measured.
const TOKENS: u64 = 4096;

/// The caches of instances for prompts on their way to those for answers, by the engine.
///
/// Ways that are alike (as many messages of as many bytes, over links that meet in the same places and have the same rates and
/// latencies) take the same time and are played once.
pub(super) struct Caches<'a> {
    fabric: &'a Fabric,
    network: &'a Network,
    asked: &'a Inference,
    second: &'a PoolSpec,
    moves: &'a Moves,
    limits: Limits,
    /// By the holders of both sides.
    ways: RefCell<BTreeMap<(u32, u32), Way>>,
    /// Kinds of ways by their form.
    kinds: RefCell<BTreeMap<Vec<u64>, usize>>,
    /// By kind and tokens.
    known: RefCell<BTreeMap<(usize, u64), Span>>,
    fault: RefCell<Option<String>>,
    stopped: Cell<Option<StopReason>>,
}

/// From a holder to another.
#[derive(Clone)]
struct Way {
    kind: usize,
    loads: Rc<[Load]>,
}

impl<'a> Caches<'a> {
    pub(super) fn new(
        (fabric, network): (&'a Fabric, &'a Network),
        asked: &'a Inference,
        (second, moves): (&'a PoolSpec, &'a Moves),
        limits: Limits,
    ) -> Self {
        Self {
            fabric,
            network,
            asked,
            second,
            moves,
            limits,
            ways: RefCell::default(),
            kinds: RefCell::default(),
            known: RefCell::default(),
            fault: RefCell::default(),
            stopped: Cell::new(None),
        }
    }

    /// Why a cache can't be sent, if one couldn't: no result stands.
    pub(super) fn fault(&self) -> Option<String> {
        self.fault.borrow().clone()
    }

    /// Why a play stopped early, if one did.
    pub(super) fn stopped(&self) -> Option<StopReason> {
        self.stopped.get()
    }

    fn transport(&self) -> Transport {
        Transport {
            nic: self.fabric.plan().nic_rate(),
            share: self.moves.share,
            nics: self.fabric.node_spec().nics.max(1).into(),
            per_block: self.moves.per_block,
            block: self.moves.block,
            base: self.moves.base,
            gpu: None,
            host: None,
        }
    }

    /// The messages of a cache of so many tokens from one holder to another, and the NIC that each is posted to.
    fn messages(&self, (from, to): (u32, u32), tokens: u64) -> Result<(Vec<Message>, Vec<Option<DeviceId>>), String> {
        let side = |pool: &PoolSpec| Side { tensor: pool.shape.tensor, pipeline: pool.shape.pipeline };
        let (first, second) = (&self.asked.first, self.second);
        let pieces = pieces(&self.asked.model, tokens, self.asked.numbers.cache, side(first), side(second));
        let mut nics = Vec::new();
        let messages = self.transport().messages(&pieces, self.moves.nics, 1, None, |rank, nic, into| {
            let (src, dst) = (self.gpu(first, from, rank)?, self.gpu(second, to, into)?);
            let ends = if self.fabric.same_domain(src, dst) {
                None
            } else {
                nics_between(self.fabric, src, dst, self.moves.nics, nic)
            };
            let request = sim_topology::RouteRequest::auto(src, dst);
            let request = match ends {
                Some((src, dst)) => request.via(sim_topology::Via::Nics { src, dst }),
                None => request,
            };
            let posted = ends.map(|(nic, _)| nic);
            nics.push(posted);
            self.fabric.route(&request).map(|route| (route.links, posted)).map_err(|e| e.to_string())
        })?;
        Ok((messages, nics))
    }

    /// The GPU of a rank of a holder: ranks of a stage are t·d apart, holders of an instance t.
    fn gpu(&self, pool: &PoolSpec, holder: u32, rank: u64) -> Result<DeviceId, String> {
        let shape = pool.shape;
        let (instance, group) = (u64::from(holder) / shape.data, u64::from(holder) % shape.data);
        let (stage, rank) = (rank / shape.tensor, rank % shape.tensor);
        let inside = stage * shape.stage() + group * shape.tensor + rank;
        let number = u64::from(pool.from) + instance * shape.gpus() + inside;
        self.fabric.gpus().get(number as usize).copied().ok_or_else(|| format!("there is no GPU {number}"))
    }

    fn way(&self, from: u32, to: u32) -> Option<Way> {
        if let Some(way) = self.ways.borrow().get(&(from, to)) {
            return Some(way.clone());
        }
        let (messages, nics) = self.kept(self.messages((from, to), TOKENS))?;
        let form = self.form(&messages);
        let mut kinds = self.kinds.borrow_mut();
        let next = kinds.len();
        let way = Way { kind: *kinds.entry(form).or_insert(next), loads: self.loads_of(&messages, &nics) };
        self.ways.borrow_mut().insert((from, to), way.clone());
        Some(way)
    }

    /// All that the time of messages depends on, links by the order in which they are met.
    fn form(&self, messages: &[Message]) -> Vec<u64> {
        let mut met: BTreeMap<usize, u64> = BTreeMap::new();
        let mut out = Vec::new();
        for message in messages {
            let pace = message.pace.map_or(0, |rate| rate.get());
            out.extend([message.bytes.get(), message.launch.as_ps(), pace, message.route.len() as u64]);
            for link in &message.route {
                let next = met.len() as u64;
                let number = *met.entry(link.index()).or_insert(next);
                out.push(number);
                if number == next {
                    let spec = self.network.link(*link);
                    let end = |end: Forwarding| match end {
                        Forwarding::CutThrough { header } => header.get() << 2,
                        Forwarding::StoreAndForward => 1,
                        Forwarding::Relay => 2,
                    };
                    out.extend([spec.rate.get(), spec.latency.as_ps(), spec.packet_overhead.get()]);
                    // A link that is down at times is like no other.
                    let down = spec.outage.map_or(0, |_| 1 + link.index() as u64);
                    out.extend([end(spec.near), end(spec.far), down]);
                }
            }
        }
        out
    }

    /// How long each link, and the queue of each NIC, is busy with a token.
    fn loads_of(&self, messages: &[Message], nics: &[Option<DeviceId>]) -> Rc<[Load]> {
        let (links, mtu) = (self.network.links().len() as u64, self.fabric.mtu().get().max(1));
        let mut busy: BTreeMap<u64, u128> = BTreeMap::new();
        for (message, nic) in messages.iter().zip(nics) {
            for link in &message.route {
                let spec = self.network.link(*link);
                let packets = message.bytes.get().div_ceil(mtu);
                let wire = Bytes::new(message.bytes.get() + packets * spec.packet_overhead.get());
                *busy.entry(link.index() as u64).or_default() += u128::from(spec.rate.time_for(wire).as_ps());
            }
            if let (Some(pace), Some(nic)) = (message.pace, nic) {
                let queue = links + nic.index() as u64;
                *busy.entry(queue).or_default() += u128::from(pace.time_for(message.bytes).as_ps());
            }
        }
        let load = |(link, ps): (u64, u128)| Load {
            link: u32::try_from(link).unwrap_or(u32::MAX),
            ps_per_token: ps as f64 / TOKENS as f64,
        };
        busy.into_iter().map(load).collect()
    }

    fn at(&self, (from, to): (u32, u32), kind: usize, tokens: u64) -> Span {
        if let Some(known) = self.known.borrow().get(&(kind, tokens)) {
            return *known;
        }
        let time = self.kept(self.play((from, to), tokens)).unwrap_or_default();
        self.known.borrow_mut().insert((kind, tokens), time);
        time
    }

    fn play(&self, way: (u32, u32), tokens: u64) -> Result<Span, String> {
        let (messages, _) = self.messages(way, tokens)?;
        let mut graph = StepGraph::default();
        let node = Node { work: Work::Transfers(messages), after: Vec::new(), start: Span::ZERO };
        graph.add(node).map_err(|e| e.to_string())?;
        let limits = self.limits.clone();
        let run = graph.execute(self.network, self.fabric.mtu(), &[], limits).map_err(|e| e.to_string())?;
        if run.outcome.reason != StopReason::Finished {
            self.stopped.set(self.stopped.get().or(Some(run.outcome.reason)));
            return Ok(Span::ZERO);
        }
        let ended = run.nodes.first().and_then(|n| n.ended).ok_or("a transfer of a cache does not end")?;
        Ok(ended.since(Time::ZERO))
    }

    /// Why the first holders of both sides can't send and receive, if they can't.
    pub(super) fn refused(&self) -> Result<(), String> {
        self.play((0, 0), 1).map(drop)
    }

    /// What is there; the first fault is kept.
    fn kept<T>(&self, found: Result<T, String>) -> Option<T> {
        found.map_err(|why| self.fault.borrow_mut().get_or_insert(why).clone()).ok()
    }
}

impl Handover for Caches<'_> {
    /// Played for powers of two; a straight line between them, as bytes grow with tokens.
    fn time(&self, from: u32, to: u32, tokens: u64) -> Span {
        if self.stopped.get().is_some() {
            return Span::ZERO;
        }
        let Some(way) = self.way(from, to) else { return Span::ZERO };
        let tokens = tokens.max(1);
        let low = 1u64 << tokens.ilog2();
        let at = |tokens| self.at((from, to), way.kind, tokens);
        let (less, more) = (at(low), at(low * 2));
        let part = (more - less).as_ps() as f64 * (tokens - low) as f64 / low as f64;
        less + Span::from_ps(part as u64)
    }

    fn loads(&self, from: u32, to: u32) -> Rc<[Load]> {
        self.way(from, to).map_or_else(|| Rc::from([]), |way| way.loads)
    }

    fn by_layer(&self) -> bool {
        self.moves.by_layer
    }
}
