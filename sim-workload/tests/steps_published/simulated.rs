//! The time of a step by the player over the cluster's network: every rank, every call as the library lowers it, on the links that it shares
//! with others.

use std::cell::RefCell;

use sim_collectives::{Machine, Software};
use sim_core::engine::Limits;
use sim_topology::{Catalogue, Fabric, FabricSpec, TransportKind};
use sim_workload::compute::Figures;
use sim_workload::step::calls::Calls;
use sim_workload::step::islands::{Counts, Islands};
use sim_workload::step::play::{Options, Player, play};

use crate::closed::{Closed, Fit, Parts};
use crate::mapping::Case;
use crate::played::{from_plays, parts, plan_of};

/// The cluster of a row as a network.
pub(crate) fn fabric(case: &Case) -> Result<Fabric, String> {
    let catalogue = Catalogue::builtin();
    let node = catalogue.system(case.cluster.system).map_err(|e| e.to_string())?.node.clone();
    let nodes = (0..case.row.gpus).map(|rank| case.placement.place(rank).node).max().unwrap_or(0) + 1;
    let domain = case.placement.nodes_per_domain;
    let nodes = nodes.next_multiple_of(domain);
    let transport = match case.row.network.as_deref() {
        Some(name) if name.starts_with("roce") || name.starts_with("ethernet") => TransportKind::Roce,
        _ => TransportKind::Infiniband,
    };
    let mut spec = FabricSpec { transport, ..FabricSpec::new(node, nodes as u32) };
    spec.nodes_per_domain = (domain > 1).then_some(domain as u32);
    Fabric::build(&spec, catalogue).map_err(|e| e.to_string())
}

/// The step, and what its network carried.
pub(crate) fn step(case: &Case, fit: Fit) -> Result<(Parts, Counts), String> {
    let fabric = fabric(case)?;
    let catalogue = Catalogue::builtin();
    let per_node = fabric.gpus().len() as u64 / fabric.nodes().len() as u64;
    let gpu = |rank: u32| {
        let place = case.placement.place(u64::from(rank));
        (place.node * per_node + place.local) as u32
    };
    let closed = RefCell::new(Closed::new(case, fit));
    let counts = RefCell::new(Counts::default());
    let fault = RefCell::new(None);
    let out = from_plays(&case.sizes, |sizes| {
        let plan = plan_of(case, sizes, fit);
        let options = Options { slowdown: Some(Figures::builtin().overlap), ..Options::default() };
        let player = Player::new(&plan, &case.ranks, &options, |c| closed.borrow_mut().leaves(c.group));
        let communicators = player.communicators().iter().map(|c| c.ranks.iter().map(|r| gpu(*r)).collect()).collect();
        let make = |ranks: &[u32]| {
            Machine::new(&fabric, catalogue, &Software::default(), ranks).map_err(|e| e.to_string())
        };
        let calls = Calls::new(&fabric, fabric.network(), Box::new(make), communicators, plan.calls.clone());
        let mut carrier = Islands::new(calls, Limits::default());
        match play(player, &mut carrier, &|| false) {
            Ok(outcome) => {
                *counts.borrow_mut() = carrier.counts();
                parts(&outcome)
            }
            Err(e) => {
                *fault.borrow_mut() = Some(e.to_string());
                Parts::default()
            }
        }
    });
    match fault.into_inner() {
        Some(why) => Err(why),
        None => Ok((out, counts.into_inner())),
    }
}
