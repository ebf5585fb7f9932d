//! The time of calls as the engine plays them over a fabric.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use sim_collectives::experts::Experts;
use sim_collectives::nccl::{Datatype, Element, Operation as Collective, Reduction};
use sim_collectives::plan::Traffic;
use sim_collectives::step_graph::{Message, Node, StepGraph, Work};
use sim_collectives::{Machine, PlanError, Request, bench};
use sim_core::engine::Limits;
use sim_core::network::Network;
use sim_core::outcome::StopReason;
use sim_core::units::{Bytes, Span};
use sim_topology::{DeviceId, Fabric, RouteRequest};

use super::messages::{COMBINE, COMBINE_OF_PROMPTS, DISPATCH, DISPATCH_OF_PROMPTS, Messages};
use crate::messages::Operation;
use crate::parallel::Group;
use crate::step::plan::Call;

/// Sizes that are played: this many between a power of two and the next. Between two of them times are a straight line.
const STEPS: u64 = 4;

/// Senders and their receivers.
pub type Pairs = Vec<(DeviceId, DeviceId)>;

/// Calls of each group alone on the network, played once for each size of a grid and kept.
///
/// A step of an instance is a chain: no two of its calls are under way at once, so that each may be played alone. Instances
/// share no links that they could disturb each other on, except where groups leave their nodes.
#[derive(Debug)]
pub struct Played<'a> {
    network: &'a Network,
    machines: BTreeMap<Group, Machine<'a>>,
    algorithms: BTreeMap<Operation, sim_collectives::algorithms::Name>,
    experts: Option<Experts>,
    /// In steps that decode, and in those with prompts.
    dispatch: [Option<sim_collectives::algorithms::Name>; 2],
    /// Who sends to whom from each stage to the next.
    stages: Option<(&'a Fabric, Vec<Pairs>)>,
    limits: Limits,
    known: RefCell<BTreeMap<(Call, u64, u64), Span>>,
    fault: RefCell<Option<String>>,
    stopped: Cell<Option<StopReason>>,
}

impl<'a> Played<'a> {
    /// Calls of groups that `machines` run. Graphs start them: what hosts take belongs to kernels.
    #[must_use]
    pub fn new(network: &'a Network, machines: BTreeMap<Group, Machine<'a>>) -> Self {
        Self {
            network,
            machines,
            algorithms: BTreeMap::new(),
            experts: None,
            dispatch: [None, None],
            stages: None,
            limits: Limits::default(),
            known: RefCell::default(),
            fault: RefCell::default(),
            stopped: Cell::new(None),
        }
    }

    /// From each stage of a pipeline to the next: who sends to whom, all at the same time.
    #[must_use]
    pub fn stages(mut self, fabric: &'a Fabric, pairs: Vec<Pairs>) -> Self {
        self.stages = Some((fabric, pairs));
        self
    }

    /// Limits of each play.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Why a play stopped early, if one did: no result stands.
    #[must_use]
    pub fn stopped(&self) -> Option<StopReason> {
        self.stopped.get()
    }

    /// All-reduces by the rule or algorithm `name` in place of NCCL's choice.
    #[must_use]
    pub fn all_reduce(mut self, name: sim_collectives::algorithms::Name) -> Self {
        self.algorithms.insert(Operation::AllReduce, name);
        self
    }

    /// Tokens go to `experts` by these kernels (`None`: sends and receives) in steps that decode, and in those with prompts.
    #[must_use]
    pub fn experts(mut self, experts: Experts, kernels: [Option<sim_collectives::algorithms::Name>; 2]) -> Self {
        self.experts = Some(experts);
        self.dispatch = kernels;
        self
    }

    /// Why a call could not be played, if one couldn't: its time was taken as zero, so no result stands.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.fault.borrow().clone()
    }

    /// How many calls of different sizes were played.
    #[must_use]
    pub fn played(&self) -> usize {
        self.known.borrow().len()
    }

    fn at(&self, call: &Call, stage: u64, bytes: u64) -> Span {
        let key = (Call { bytes: Bytes::ZERO, ..*call }, stage, bytes);
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        let play = || match call.operation {
            Operation::Send => self.play_send(stage, Bytes::new(bytes)),
            _ => self.play(call, Bytes::new(bytes)),
        };
        let time = play().unwrap_or_else(|why| {
            self.fault.borrow_mut().get_or_insert(format!("`{}` of {}: {why}", call.name, Bytes::new(bytes)));
            Span::ZERO
        });
        self.known.borrow_mut().insert(key, time);
        time
    }

    fn play(&self, call: &Call, bytes: Bytes) -> Result<Span, String> {
        let Some(machine) = self.machines.get(&call.group) else {
            return Err("its group has no communicator".to_owned());
        };
        if machine.ranks() < 2 {
            return Ok(Span::ZERO);
        }
        let request = self.request(call, bytes);
        let limits = self.limits.clone();
        let timed = bench::time(machine, self.network, &request, 0, 1, limits).map_err(|e| e.to_string())?;
        self.finished(timed.outcome.reason);
        Ok(timed.range.1)
    }

    /// Why the library has no way to do a call, if it hasn't; nothing is played for it.
    #[must_use]
    pub fn refused(&self, call: &Call) -> Option<String> {
        let machine = self.machines.get(&call.group).filter(|m| m.ranks() > 1 && call.bytes > Bytes::ZERO)?;
        if call.operation == Operation::Send {
            return None;
        }
        let (_, bytes) = around(call.bytes.get());
        let why = machine.plan(&self.request(call, Bytes::new(bytes))).err()?;
        Some(format!("`{}` of {}: {why}", call.name, Bytes::new(bytes)))
    }

    /// What the library is asked for.
    fn request(&self, call: &Call, bytes: Bytes) -> Request {
        let collective = match (call.operation, call.name) {
            (Operation::AllReduce, _) => Collective::AllReduce,
            (Operation::AllGather, _) => Collective::AllGather,
            (Operation::ReduceScatter, _) => Collective::ReduceScatter,
            (_, DISPATCH | DISPATCH_OF_PROMPTS) if self.experts.is_some() => Collective::Dispatch,
            (_, COMBINE | COMBINE_OF_PROMPTS) if self.experts.is_some() => Collective::Combine,
            _ => Collective::AllToAll,
        };
        let mut request = Request::new(collective, bytes);
        request.element = Element { datatype: Datatype::Bfloat16, reduction: Reduction::Sum };
        request.algorithm = self.algorithms.get(&call.operation).copied();
        if let (Some(experts), Collective::Dispatch | Collective::Combine) = (self.experts, collective) {
            let prompts = matches!(call.name, DISPATCH_OF_PROMPTS | COMBINE_OF_PROMPTS);
            request.algorithm = self.dispatch[usize::from(prompts)];
            request.traffic = Traffic::Experts(experts);
            // The request's size is one copy of each token.
            request.bytes = Bytes::new((bytes.get() / u64::from(experts.top_k.max(1))).max(1));
        } else if request.algorithm.is_some() {
            // Kernels of engines want whole vectors of 16 bytes.
            request.bytes = Bytes::new(bytes.get().next_multiple_of(16));
        }
        request
    }

    /// A message from each rank of a stage to its like in the next, all at the same time.
    fn play_send(&self, stage: u64, bytes: Bytes) -> Result<Span, String> {
        let found = self.stages.as_ref().and_then(|(fabric, all)| Some((*fabric, all.get(stage as usize)?)));
        let Some((fabric, pairs)) = found else { return Err(format!("stage {stage} has none behind it")) };
        let message = |&(src, dst): &(DeviceId, DeviceId)| {
            let route = fabric.route(&RouteRequest::auto(src, dst)).map_err(|e| PlanError::from(e).to_string())?;
            Ok(Message::new(route.links, bytes, Span::ZERO))
        };
        let messages = pairs.iter().map(message).collect::<Result<Vec<_>, String>>()?;
        let mut graph = StepGraph::default();
        let node = Node { work: Work::Transfers(messages), after: Vec::new(), start: Span::ZERO };
        graph.add(node).map_err(|e| e.to_string())?;
        let run = graph.execute(self.network, fabric.mtu(), &[], self.limits.clone()).map_err(|e| e.to_string())?;
        self.finished(run.outcome.reason);
        let ended = run.nodes.first().and_then(|n| n.ended).unwrap_or_default();
        Ok(ended.since(sim_core::units::Time::ZERO))
    }

    fn finished(&self, reason: StopReason) {
        if reason != StopReason::Finished && self.stopped.get().is_none() {
            self.stopped.set(Some(reason));
        }
    }

    /// The time of a call, or of what is sent from a stage, by the sizes of the grid next to its own.
    fn between(&self, call: &Call, stage: u64) -> Span {
        let bytes = call.bytes.get();
        if bytes == 0 || self.stopped.get().is_some() {
            return Span::ZERO;
        }
        let (low, high) = around(bytes);
        let from = self.at(call, stage, low);
        if low == high {
            return from;
        }
        let to = self.at(call, stage, high);
        let (a, b) = (u128::from(from.as_ps()), u128::from(to.as_ps()));
        let (left, right, all) = (u128::from(high - bytes), u128::from(bytes - low), u128::from(high - low));
        Span::from_ps(u64::try_from((a * left + b * right) / all).unwrap_or(u64::MAX))
    }
}

impl Messages for Played<'_> {
    fn time(&self, call: &Call) -> Span {
        self.between(call, 0)
    }

    fn send(&self, call: &Call, stage: u64) -> Span {
        self.between(call, stage)
    }
}

/// The sizes of the grid at or below and at or above `bytes`.
fn around(bytes: u64) -> (u64, u64) {
    let floor = 1u64 << bytes.ilog2();
    let step = (floor / STEPS).max(1);
    let low = floor + (bytes - floor) / step * step;
    (low, if low == bytes { low } else { low.saturating_add(step) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_the_grid() {
        assert_eq!(around(1024), (1024, 1024));
        assert_eq!(around(1025), (1024, 1280));
        assert_eq!(around(2047), (1792, 2048));
        assert_eq!((around(1), around(3)), ((1, 1), (3, 3)));
    }
}
