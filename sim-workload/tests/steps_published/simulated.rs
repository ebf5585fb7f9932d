//! Calls on the cluster's network: each as the library lowers it, played by the engine together with the same call of all groups that have
//! a rank in the first node, so that what they share is shared. The step is then played as by [`crate::played`].

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use sim_collectives::timing::Timing;
use sim_collectives::{Machine, Software, links};
use sim_core::engine::Limits;
use sim_core::units::{Bytes, Span, Time};
use sim_topology::{Catalogue, Fabric, FabricSpec, TransportKind};
use sim_workload::messages::Operation;
use sim_workload::parallel::Group;
use sim_workload::step::calls::Calls;
use sim_workload::step::carrier::{Carrier, Start};
use sim_workload::step::islands::Islands;
use sim_workload::step::plan::Call;
use sim_workload::step::play::play;

use crate::closed;
use crate::kernels::Fit;
use crate::mapping::Case;
use crate::played::{self, Parts};

/// So many nodes of a row's cluster as a network.
pub(crate) fn fabric(case: &Case, nodes: u64) -> Result<Fabric, String> {
    let catalogue = Catalogue::builtin();
    let node = catalogue.system(case.cluster.system).map_err(|e| e.to_string())?.node.clone();
    let domain = case.placement.nodes_per_domain;
    let transport = match case.row.network.as_deref() {
        Some(name) if name.starts_with("roce") || name.starts_with("ethernet") => TransportKind::Roce,
        _ => TransportKind::Infiniband,
    };
    let mut spec = FabricSpec { transport, ..FabricSpec::new(node, nodes.next_multiple_of(domain) as u32) };
    spec.nodes_per_domain = (domain > 1).then_some(domain as u32);
    Fabric::build(&spec, catalogue).map_err(|e| e.to_string())
}

/// Its links as the library's messages fill them.
fn network(fabric: &Fabric) -> sim_core::network::Network {
    let sm = Catalogue::builtin().gpu(&fabric.node_spec().gpu).expect("systems have GPUs of the catalogue").sm;
    links::by_library(fabric, &Timing::builtin(sm, fabric.spec().transport.as_str()))
}

/// The whole cluster.
fn cluster(case: &Case) -> Result<Fabric, String> {
    fabric(case, (0..case.row.gpus).map(|rank| case.placement.place(rank).node).max().unwrap_or(0) + 1)
}

/// A call on a cluster: how the cluster and its ranks are, and the call.
type Known = BTreeMap<(String, Operation, Bytes, Group), Result<Span, String>>;

/// What calls were found to take: releases of one software and plays of one row ask for the same.
static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());

/// Calls of a row on its network.
struct Network<'a> {
    case: &'a Case,
    /// What times of calls depend on, beside the call.
    key: String,
    fabric: OnceCell<Result<Fabric, String>>,
}

/// The most ranks of a group whose calls are played; those of more are taken from closed forms.
const MOST: u64 = 1024;

impl<'a> Network<'a> {
    fn new(case: &'a Case) -> Self {
        let (row, s) = (&case.row, &case.sizes);
        let sizes = [s.gpus, s.tensor, s.context, s.pipeline, s.data, s.expert, s.expert_tensor, s.shard];
        let key = format!("{:?} {:?} {sizes:?} {} {:?}", case.cluster, row.network, case.order, case.placement);
        Self { case, key, fabric: OnceCell::new() }
    }

    /// The groups of a kind that have a rank in the first node, as GPUs; of pipelines the pairs that send.
    fn groups(&self, fabric: &Fabric, group: Group) -> Vec<Vec<u32>> {
        let case = self.case;
        let per_node = fabric.gpus().len() as u64 / fabric.nodes().len() as u64;
        let gpu = |rank: &u64| {
            let place = case.placement.place(*rank);
            (place.node * per_node + place.local) as u32
        };
        let first = case.placement.place(0).node;
        let mut out = BTreeSet::new();
        for rank in (0..case.row.gpus).filter(|r| case.placement.place(*r).node == first) {
            let members: Vec<u32> = case.ranks.group(group, rank).iter().map(gpu).collect();
            if group == Group::Pipeline {
                out.extend(members.windows(2).map(<[u32]>::to_vec));
            } else {
                out.insert(members);
            }
        }
        out.into_iter().collect()
    }

    /// The time until all groups have done a call that they begin at once.
    fn call(&self, call: &Call) -> Result<Span, String> {
        let key = (self.key.clone(), call.operation, call.bytes, call.group);
        let known = KNOWN.lock().expect("no thread panics with the map").get(&key).cloned();
        known.unwrap_or_else(|| {
            let span = self.play(call);
            if std::env::var_os("CALLS").is_some() {
                let us = span.as_ref().map_or(0.0, |s| s.as_us());
                let alone = closed::way(self.case, call.group).usual(call.operation, call.bytes).as_us();
                println!("{call:?}: {us:.1} us, {alone:.1} us by closed forms");
            }
            KNOWN.lock().expect("no thread panics with the map").insert(key, span.clone());
            span
        })
    }

    fn play(&self, call: &Call) -> Result<Span, String> {
        let size = call.group.size(&self.case.sizes);
        if size < 2 {
            return Ok(Span::ZERO);
        }
        if size > MOST {
            return Ok(closed::way(self.case, call.group).usual(call.operation, call.bytes));
        }
        let fabric = self.fabric.get_or_init(|| cluster(self.case)).as_ref().map_err(Clone::clone)?;
        let groups = self.groups(fabric, call.group);
        let starts: Vec<Start> =
            (0..groups.len() as u32).map(|i| Start { communicator: i, call: 0, token: i }).collect();
        let make = |ranks: &[u32]| {
            Machine::new(fabric, Catalogue::builtin(), &Software::default(), ranks).map_err(|e| e.to_string())
        };
        let calls = Calls::new(fabric, network(fabric), Box::new(make), groups, vec![*call]);
        let calls = calls.announced((0..starts.len() as u32).map(|i| (i, 0))).map_err(|e| e.to_string())?;
        let mut carrier = Islands::new(calls, Limits::default());
        carrier.start(&starts, Time::ZERO).map_err(|e| e.to_string())?;
        let (mut last, mut ends) = (Time::ZERO, Vec::new());
        while let Some(at) = carrier.next(Time::MAX).map_err(|e| e.to_string())? {
            carrier.take(&mut ends);
            last = at;
        }
        Ok(last.since(Time::ZERO))
    }
}

/// The step.
pub(crate) fn step(case: &Case, fit: Fit) -> Parts {
    let network = Network::new(case);
    played::step(case, fit, &|call| {
        network.call(call).unwrap_or_else(|why| panic!("{} {}: {why}", case.row.family, case.row.name))
    })
}

/// The step with every rank and all calls on one network, where they get in each other's way.
pub(crate) fn whole(case: &Case, fit: Fit) -> Parts {
    let fabric = cluster(case).unwrap_or_else(|why| panic!("{}: {why}", case.row.name));
    let per_node = fabric.gpus().len() as u64 / fabric.nodes().len() as u64;
    let gpu = |rank: &u32| {
        let place = case.placement.place(u64::from(*rank));
        (place.node * per_node + place.local) as u32
    };
    let make = |ranks: &[u32]| {
        Machine::new(&fabric, Catalogue::builtin(), &Software::default(), ranks).map_err(|e| e.to_string())
    };
    played::over(case, &case.ranks, fit, &|plan, player, _| {
        let groups = player.communicators().iter().map(|c| c.ranks.iter().map(gpu).collect()).collect();
        let all = player.calls();
        let calls = Calls::new(&fabric, network(&fabric), Box::new(make), groups, plan.calls.clone());
        let calls = calls.announced(all).map_err(sim_workload::step::play::PlayError::from)?;
        play(player, &mut Islands::new(calls, Limits::default()), &|| false)
    })
}
