//! What calls take as the library itself predicts it when it chooses an algorithm, and what its sends take on top of their bytes.
//!
//! Collectives: the time by which [`Communicator::choose`](sim_collectives::nccl::Communicator::choose) takes an algorithm and a protocol, from the links
//! that the library finds between these ranks, but not less than the bytes of a ring at the rates of the links that are its members' own. Sends and exchanges have no such prediction: `α + wire / rate`, where α is what the engine plays
//! for the same call of a few bytes, and the rest is [`Way::usual`]'s without hops.
//!
//! Ranks that lie alike have the same times: groups are told apart by how their members lie on nodes, not by which nodes these are.

use core::cell::RefCell;
use core::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use sim_collectives::{Machine, nccl};
use sim_core::engine::Limits;
use sim_core::network::Network;
use sim_core::units::{Bytes, Span, Time};
use sim_topology::Fabric;

use super::step::{Takes, neighbours};
use super::{Cluster, Way};
use crate::messages::Operation;
use crate::parallel::{Group, Placement, Ranks};
use crate::step::calls::Calls;
use crate::step::carrier::{Carrier, Start};
use crate::step::plan::Call;
use crate::step::whole::Whole;

/// Makes the communicator of GPUs, by their numbers in the fabric; or says why not.
pub type Make<'a> = dyn Fn(&[u32]) -> Result<Machine<'a>, String> + Send + Sync + 'a;

/// How the members of a group lie: of each its node, these numbered as they come, and its place there.
type Shape = Vec<(u32, u32)>;

/// Calls as the library predicts them.
pub struct Library<'a> {
    fabric: &'a Fabric,
    network: &'a Network,
    make: Box<Make<'a>>,
    cluster: Cluster,
    communicators: Mutex<FxHashMap<Shape, Arc<Option<Machine<'a>>>>>,
    /// What sends of a few bytes take.
    starts: Mutex<FxHashMap<(Shape, Operation, bool), Option<Span>>>,
}

impl fmt::Debug for Library<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl<'a> Library<'a> {
    /// The library on a fabric, over `network`, which has the fabric's links as the library fills them.
    #[must_use]
    pub fn new(fabric: &'a Fabric, network: &'a Network, make: Box<Make<'a>>) -> Self {
        let cluster = Cluster::of(fabric);
        Self { fabric, network, make, cluster, communicators: Mutex::default(), starts: Mutex::default() }
    }

    /// How GPUs lie.
    fn shape(&self, gpus: &[u32]) -> Shape {
        let per_node = self.fabric.nodes().first().map_or(1, |node| node.gpus.len() as u32).max(1);
        let mut nodes: FxHashMap<u32, u32> = FxHashMap::default();
        let place = |gpu: &u32| {
            let next = nodes.len() as u32;
            (*nodes.entry(gpu / per_node).or_insert(next), gpu % per_node)
        };
        gpus.iter().map(place).collect()
    }

    fn communicator(&self, shape: &Shape, gpus: &[u32]) -> Arc<Option<Machine<'a>>> {
        let known = self.communicators.lock().unwrap_or_else(PoisonError::into_inner).get(shape).map(Arc::clone);
        known.unwrap_or_else(|| {
            let made = Arc::new((self.make)(gpus).ok());
            let mut all = self.communicators.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(shape.clone(), Arc::clone(&made));
            made
        })
    }

    /// What a call of a few bytes takes, played; `None` if it can't be.
    fn start_of(&self, shape: &Shape, gpus: &[u32], group: Group, operation: Operation) -> Option<Span> {
        let key = (shape.clone(), operation, group == Group::Pipeline);
        let known = self.starts.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        known.unwrap_or_else(|| {
            let span = self.play(gpus, Call::new("a few bytes", operation, Bytes::new(gpus.len() as u64 * 8), group));
            self.starts.lock().unwrap_or_else(PoisonError::into_inner).insert(key, span);
            span
        })
    }

    fn play(&self, gpus: &[u32], call: Call) -> Option<Span> {
        let make = Box::new(|ranks: &[u32]| (self.make)(ranks));
        let calls = Calls::new(self.fabric, self.network.clone(), make, vec![gpus.to_vec()], vec![call]);
        let mut whole = Whole::new(calls, Limits::default()).ok()?;
        whole.start(&[Start { communicator: 0, call: 0, token: 0 }], Time::ZERO).ok()?;
        let (mut last, mut ends) = (Time::ZERO, Vec::new());
        while let Some(at) = whole.next(Time::MAX).ok()? {
            whole.take(&mut ends);
            last = at;
        }
        Some(last.since(Time::ZERO))
    }

    /// What a call of a group takes.
    fn takes(&self, members: &Members, group: Group, operation: Operation, bytes: Bytes) -> Span {
        let Members { gpus, shape, way } = members;
        let of = match operation {
            Operation::AllReduce => Some(nccl::Operation::AllReduce),
            Operation::AllGather => Some(nccl::Operation::AllGather),
            Operation::ReduceScatter => Some(nccl::Operation::ReduceScatter),
            Operation::AllToAll | Operation::Send => None,
        };
        if gpus.len() < 2 {
            return way.usual(operation, bytes);
        }
        let wire = way.without_hops().usual(operation, bytes);
        let found = match of {
            Some(of) => Option::as_ref(&self.communicator(shape, gpus))
                .and_then(|machine| machine.comm.choose(of, bytes.get()).ok())
                // The library counts on all NICs that it sees; the groups beside this one need theirs.
                .map(|choice| Span::from_us_f64(choice.time_us).max(wire)),
            None => self.start_of(shape, gpus, group, operation).map(|start| start + wire),
        };
        found.unwrap_or_else(|| way.usual(operation, bytes))
    }
}

/// The members of a group, and how they lie; none where the fabric has not all of them.
struct Members {
    gpus: Vec<u32>,
    shape: Shape,
    way: Way,
}

/// Messages of ranks as the [`Library`] predicts them.
pub struct ByLibrary<'a, 'b> {
    library: &'b Library<'a>,
    ranks: &'b Ranks,
    placement: &'b Placement,
    gpus: &'b [u32],
    groups: RefCell<FxHashMap<(Group, u64), Rc<Members>>>,
}

impl<'a, 'b> ByLibrary<'a, 'b> {
    /// Of ranks that lie so; `gpus` has the GPU of each, by its number in the fabric.
    #[must_use]
    pub fn new(library: &'b Library<'a>, (ranks, placement): (&'b Ranks, &'b Placement), gpus: &'b [u32]) -> Self {
        Self { library, ranks, placement, gpus, groups: RefCell::default() }
    }

    fn members(&self, group: Group, rank: u64) -> Rc<Members> {
        let known = self.groups.borrow().get(&(group, rank)).map(Rc::clone);
        known.unwrap_or_else(|| {
            let members = neighbours(group, rank, self.ranks);
            let way = self.library.cluster.way(self.placement.spread(&members));
            let gpu = |rank: &u64| self.gpus.get(usize::try_from(*rank).ok()?).copied();
            let gpus = members.iter().map(gpu).collect::<Option<Vec<u32>>>().unwrap_or_default();
            let made = Rc::new(Members { shape: self.library.shape(&gpus), gpus, way });
            self.groups.borrow_mut().insert((group, rank), Rc::clone(&made));
            made
        })
    }
}

impl fmt::Debug for ByLibrary<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByLibrary").field("library", self.library).finish_non_exhaustive()
    }
}

impl Takes for ByLibrary<'_, '_> {
    fn takes(&self, group: Group, rank: u64, operation: Operation, bytes: Bytes) -> Span {
        self.library.takes(&self.members(group, rank), group, operation, bytes)
    }
}
