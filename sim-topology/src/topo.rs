//! Reports on a fabric: what it consists of, how its GPUs are joined, what it carries.

mod bill;
mod bisection;
mod classes;
mod hops;
mod matrix;
mod pairs;
mod path;

use std::collections::BTreeMap;

use serde::Serialize;

pub use bill::{BillItem, Totals, bill_of_materials, totals};
pub use bisection::{Bisection, bisection};
pub use hops::hop_histogram;
pub use matrix::{Matrix, MatrixRow, matrix};
pub use pairs::{Pairs, pair_kind, pairs};
pub use path::{Hop, PathReport, path};

use crate::catalogue::Catalogue;
use crate::device::{DeviceKind, LinkClass};
use crate::fabric::{BuildError, Fabric, FabricKind, FabricPlan};
use crate::faults::report::{FaultEffects, FaultLine, effects, lines};

/// Links of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LinkCount {
    /// Links, each direction counted.
    pub count: u64,
    /// The slowest, one direction.
    #[serde(rename = "min_GBps")]
    pub min_gbyte: f64,
    /// The fastest, one direction.
    #[serde(rename = "max_GBps")]
    pub max_gbyte: f64,
}

/// All that there is to say about a fabric without running anything.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TopoReport {
    /// Nodes.
    pub nodes: u64,
    /// GPUs.
    pub gpus: u64,
    /// Nodes in an NVLink domain.
    pub nodes_per_domain: u32,
    /// NVSwitch chips of a domain.
    pub nvswitch_chips: u32,
    /// All ordered pairs of GPUs by kind.
    pub pairs: Pairs,
    /// Devices that work, by kind.
    pub devices: BTreeMap<DeviceKind, u64>,
    /// Links that work, by class.
    pub links: BTreeMap<LinkClass, LinkCount>,
    /// The network's dimensions; absent where there is none.
    pub network: Option<FabricPlan>,
    /// What crosses between the two halves of the GPUs, one direction, in GB/s.
    #[serde(rename = "bisection_GBps")]
    pub bisection_gbyte: f64,
    /// The same tier by tier.
    pub bisection: Bisection,
    /// Rate down over rate up of the fullest leaf, beside faults of the worst leaf by what works; absent without uplinks.
    pub oversubscription: Option<f64>,
    /// Ordered pairs of GPUs by the number of links between them.
    pub hops: BTreeMap<u32, u64>,
    /// Ordered pairs of GPUs that live and that no path joins but over a relay GPU: those from rail to rail of a rail-only
    /// fabric, and what faults cut off.
    pub unreachable: u64,
    /// Devices that are dead, by kind; not among `devices`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dead_devices: BTreeMap<DeviceKind, u64>,
    /// Links that are dead, by class; not among `links`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dead_links: BTreeMap<LinkClass, u64>,
    /// What has to be bought.
    pub bill_of_materials: Vec<BillItem>,
    /// Its sums.
    pub totals: Totals,
    /// What is broken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultLine>,
    /// What that changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault_effects: Option<FaultEffects>,
}

/// Reports on `fabric`; `pxn` counts cross-rail pairs with a relay as such.
///
/// # Errors
/// If a part of the bill of materials is not in the catalogue.
pub fn report(fabric: &Fabric, catalogue: &Catalogue, pxn: bool) -> Result<TopoReport, BuildError> {
    let (mut devices, mut dead_devices) = (BTreeMap::new(), BTreeMap::new());
    for device in fabric.devices() {
        *(if device.alive { &mut devices } else { &mut dead_devices }).entry(device.kind).or_insert(0) += 1;
    }
    let mut dead_links = BTreeMap::new();
    for link in fabric.links().iter().filter(|l| !l.alive && l.from != l.to) {
        *dead_links.entry(link.class).or_insert(0) += 1;
    }
    let (pairs, hops) = (pairs(fabric, pxn), hop_histogram(fabric));
    let healthy = fabric.faults().is_empty();
    let bisection = bisection(fabric);
    let bill = bill_of_materials(fabric, catalogue)?;
    let plan = fabric.plan();
    Ok(TopoReport {
        nodes: fabric.nodes().len() as u64,
        gpus: fabric.gpus().len() as u64,
        nodes_per_domain: fabric.nodes_per_domain(),
        nvswitch_chips: fabric.nvswitch_chips(),
        unreachable: pairs.total() - hops.values().sum::<u64>().min(pairs.total()),
        pairs,
        devices,
        dead_devices,
        dead_links,
        links: link_counts(fabric),
        network: (plan.leaves > 0).then(|| if healthy { plan.clone() } else { as_it_works(fabric) }),
        bisection_gbyte: bisection.overall_gbyte,
        bisection,
        oversubscription: match healthy {
            true => (plan.uplinks > 0).then_some(plan.oversubscription),
            false => worst_ratio(fabric, 0),
        },
        hops,
        totals: totals(&bill, fabric.gpus().len() as u64),
        bill_of_materials: bill,
        faults: lines(fabric),
        fault_effects: if healthy {
            None
        } else {
            Some(effects(&Fabric::build(fabric.spec(), catalogue)?, fabric, pxn))
        },
    })
}

/// The plan with the ratios and the numbers of switches that faults left.
fn as_it_works(fabric: &Fabric) -> FabricPlan {
    let mut plan = fabric.plan().clone();
    for (tier, of) in plan.tier.iter_mut().enumerate() {
        of.working = fabric.devices().iter().filter(|d| d.kind == of.role && d.alive).count() as u32;
        if of.oversubscription.is_some() && plan.kind != FabricKind::Dragonfly {
            of.oversubscription = worst_ratio(fabric, tier).or(of.oversubscription);
        }
    }
    plan
}

/// The largest ratio of rate down to rate up among the switches of a tier, over what works; in a dragonfly there is none.
fn worst_ratio(fabric: &Fabric, tier: usize) -> Option<f64> {
    let mut rates: Vec<(u64, u64)> = vec![(0, 0); fabric.devices().len()];
    for link in fabric.links().iter().filter(|l| l.class.is_network() && l.alive) {
        let Some(from) = fabric.switch_place(link.from).filter(|from| from.tier() == tier) else { continue };
        let at = &mut rates[link.from.index()];
        match fabric.switch_place(link.to).map(|to| to.tier()) {
            Some(to) if to > from.tier() => at.1 += link.rate.get(),
            Some(to) if to == from.tier() => {}
            _ => at.0 += link.rate.get(),
        }
    }
    let ratios = rates.iter().filter(|(down, up)| *down > 0 && *up > 0).map(|&(down, up)| down as f64 / up as f64);
    ratios.reduce(f64::max)
}

fn link_counts(fabric: &Fabric) -> BTreeMap<LinkClass, LinkCount> {
    let mut counts: BTreeMap<LinkClass, LinkCount> = BTreeMap::new();
    // Limits inside a device are no links.
    for link in fabric.links().iter().filter(|l| l.from != l.to && l.alive) {
        let rate = link.rate.as_gbyte();
        let new = LinkCount { count: 0, min_gbyte: rate, max_gbyte: rate };
        let entry = counts.entry(link.class).or_insert(new);
        entry.count += 1;
        entry.min_gbyte = entry.min_gbyte.min(rate);
        entry.max_gbyte = entry.max_gbyte.max(rate);
    }
    counts
}

#[cfg(test)]
mod tests;
