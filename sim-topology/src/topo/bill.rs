//! What has to be bought.

use std::collections::BTreeMap;

use serde::Serialize;
use sim_core::units::Rate;

use crate::catalogue::{Catalogue, Row, Switch};
use crate::fabric::{BuildError, Fabric};

/// One line of the bill of materials.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BillItem {
    /// What it is.
    pub item: String,
    /// What it serves as: `node`, `gpu`, `nic`, `leaf`, `spine`, `nic cable`, `transceiver`, ...
    pub role: &'static str,
    /// How many.
    pub count: u64,
    /// How many of them faults left working; only these draw power.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working: Option<u64>,
    /// The part that its power is counted with, such as `node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<&'static str>,
    /// Typical power of one in watts, if known.
    pub unit_power_w: Option<f64>,
    /// Price of one in US dollars, if known; for ratios only.
    pub unit_price_usd: Option<f64>,
    /// Typical power of all that work in watts, if known and not counted with another part.
    pub power_w: Option<f64>,
    /// Price of all in US dollars, if known; for ratios only.
    pub price_usd: Option<f64>,
}

/// Sums over a bill, of the lines whose figures are known.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Watts of all lines.
    pub power_w: f64,
    /// The same for each GPU.
    pub power_w_per_gpu: f64,
    /// Watts of NICs (also where they are counted with their node), switches and transceivers.
    pub network_power_w: f64,
    /// The same for each GPU.
    pub network_power_w_per_gpu: f64,
    /// US dollars of all lines, if the price of any is known; for ratios only.
    pub price_usd: Option<f64>,
    /// Network switches.
    pub switches: u64,
    /// Network switches for 1,000 GPUs.
    pub switches_per_1000_gpus: f64,
    /// Network cables for each GPU.
    pub cables_per_gpu: f64,
    /// Roles of which no power is known; `cpu, memory, fans` where a node's power as a whole is not.
    pub without_power: Vec<&'static str>,
    /// Roles of which no price is known; parts of a node with a price are in it.
    pub without_price: Vec<&'static str>,
}

impl BillItem {
    fn new(role: &'static str, item: String, count: u64) -> Self {
        Self {
            item,
            role,
            count,
            working: None,
            within: None,
            unit_power_w: None,
            unit_price_usd: None,
            power_w: None,
            price_usd: None,
        }
    }

    /// Watts of all by themselves, wherever they are counted.
    fn own_power_w(&self) -> Option<f64> {
        self.unit_power_w.map(|unit| unit * self.working.unwrap_or(self.count) as f64)
    }

    fn is_switch(&self) -> bool {
        matches!(self.role, "leaf" | "spine" | "core")
    }

    fn is_cable(&self) -> bool {
        matches!(self.role, "nic cable" | "uplink cable" | "core cable")
    }
}

/// What a node has beside its GPUs, NVSwitches and NICs.
const REST: &str = "cpu, memory, fans";

/// The sums of a bill for so many GPUs.
#[must_use]
pub fn totals(bill: &[BillItem], gpus: u64) -> Totals {
    let each = |sum: f64| if gpus == 0 { 0.0 } else { sum / gpus as f64 };
    let count = |which: fn(&BillItem) -> bool| bill.iter().filter(|b| which(b)).map(|b| b.count).sum::<u64>();
    let whole = bill.iter().find(|b| b.role == "node");
    let unknown = |figure: fn(&BillItem) -> Option<f64>, whole: bool| {
        let missing = bill.iter().filter(|b| figure(b).is_none() && !(whole && b.within.is_some()));
        let mut roles: Vec<&'static str> = missing.map(|b| b.role).collect();
        roles.dedup();
        if !whole {
            roles.retain(|role| *role != "node");
            roles.push(REST);
        }
        roles
    };
    let network = |b: &&BillItem| b.is_switch() || matches!(b.role, "nic" | "transceiver");
    let power_w = bill.iter().filter_map(|b| b.power_w).sum();
    let network_power_w = bill.iter().filter(network).filter_map(BillItem::own_power_w).sum();
    let (switches, cables) = (count(BillItem::is_switch), count(BillItem::is_cable));
    Totals {
        power_w,
        power_w_per_gpu: each(power_w),
        network_power_w,
        network_power_w_per_gpu: each(network_power_w),
        price_usd: bill.iter().filter_map(|b| b.price_usd).reduce(|sum, price| sum + price),
        switches,
        switches_per_1000_gpus: each(switches as f64 * 1000.0),
        cables_per_gpu: each(cables as f64),
        without_power: unknown(
            |b| if b.is_cable() { Some(0.0) } else { b.power_w },
            whole.is_some_and(|n| n.power_w.is_some()),
        ),
        without_price: unknown(|b| b.price_usd, whole.is_some_and(|n| n.price_usd.is_some())),
    }
}

/// The parts of `fabric`, from GPUs to transceivers.
///
/// # Errors
/// If a part is not in the catalogue that is given.
pub fn bill_of_materials(fabric: &Fabric, catalogue: &Catalogue) -> Result<Vec<BillItem>, BuildError> {
    let mut bill = nodes(fabric, catalogue);
    bill.extend(parts_of_nodes(fabric, catalogue)?);
    let (power, price) = bill
        .first()
        .filter(|b| b.role == "node")
        .map_or((false, false), |node| (node.unit_power_w.is_some(), node.unit_price_usd.is_some()));
    network(fabric, catalogue, &mut bill)?;
    for item in &mut bill {
        let role = item.role;
        let dead = fabric.devices().iter().filter(|d| !d.alive && d.kind.as_str() == role).count() as u64;
        // An NVSwitch device stands for all chips of its board.
        let each = if role == "nvswitch" { u64::from(fabric.nvswitch_chips()) } else { 1 };
        let working = item.count.saturating_sub(dead * each);
        item.working = (dead > 0).then_some(working);
        let inside = matches!(role, "gpu" | "nvswitch" | "nic");
        item.within = (inside && (power || price)).then_some("node");
        item.power_w = item.unit_power_w.filter(|_| !(inside && power)).map(|unit| unit * working as f64);
        item.price_usd = item.unit_price_usd.filter(|_| !(inside && price)).map(|unit| unit * item.count as f64);
    }
    Ok(bill)
}

/// The nodes as wholes, if they are a system of the catalogue, with its GPUs and NICs, of which it knows power or price.
fn nodes(fabric: &Fabric, catalogue: &Catalogue) -> Vec<BillItem> {
    let spec = fabric.spec();
    let Some(Ok(system)) = spec.system.as_deref().map(|name| catalogue.system(name)) else { return Vec::new() };
    let (node, whole) = (&spec.node, &system.node);
    let alike = node.gpu == whole.gpu
        && node.gpus == whole.gpus
        && spec.gpus_per_node.is_none_or(|gpus| gpus == whole.gpus)
        && (&node.nic, node.nics) == (&whole.nic, whole.nics)
        && spec.nics.is_none();
    if !alike || (system.power_w.is_none() && system.price_usd.is_none()) {
        return Vec::new();
    }
    let item = format!("{} with GPUs, NVSwitches, NICs, CPUs, memory, fans", system.name);
    let item = BillItem::new("node", item, fabric.nodes().len() as u64);
    vec![BillItem { unit_power_w: system.power_w, unit_price_usd: system.price_usd, ..item }]
}

/// GPUs, NVSwitches and NICs.
fn parts_of_nodes(fabric: &Fabric, catalogue: &Catalogue) -> Result<Vec<BillItem>, BuildError> {
    let spec = fabric.spec();
    let gpu = catalogue.gpu(&spec.node.gpu)?;
    let mut bill = vec![BillItem {
        unit_power_w: gpu.power_w,
        unit_price_usd: gpu.price_usd,
        ..BillItem::new("gpu", gpu.title.clone(), fabric.gpus().len() as u64)
    }];
    let domains = fabric.nodes().last().map_or(0, |n| u64::from(n.domain) + 1);
    if let Some(chip) = spec.node.nvlink.as_ref().and_then(|n| n.chip.as_ref()) {
        let chip = catalogue.nvswitch(chip)?;
        bill.push(BillItem::new("nvswitch", chip.title.clone(), domains * u64::from(fabric.nvswitch_chips())));
    }
    let nics = fabric.nodes().iter().map(|n| n.nics.len() as u64).sum::<u64>();
    if nics > 0 {
        let item = match (&spec.nics, &spec.node.nic) {
            (Some(other), _) => BillItem::new("nic", format!("NIC of {}", other.rate), nics),
            (None, Some(name)) => {
                let nic = catalogue.nic(name)?;
                BillItem { unit_power_w: nic.power_w, ..BillItem::new("nic", nic.title.clone(), nics) }
            }
            (None, None) => BillItem::new("nic", "NIC".into(), nics),
        };
        bill.push(item);
    }
    Ok(bill)
}

/// Switches by tier, cables by what they join, and the transceivers at their ends.
fn network(fabric: &Fabric, catalogue: &Catalogue, bill: &mut Vec<BillItem>) -> Result<(), BuildError> {
    let (spec, plan) = (fabric.spec(), fabric.plan());
    for tier in &plan.tier {
        bill.push(of_switch(tier.role.as_str(), catalogue.switch(&tier.switch)?, u64::from(tier.switches)));
    }
    let cables = &plan.cables;
    let long = spec.core_cable_m.unwrap_or(spec.switch_cable_m);
    let runs = [
        ("nic cable", spec.nic_cable_m, cables.nic_leaf, plan.rate),
        ("uplink cable", spec.switch_cable_m, cables.leaf_spine + cables.local, plan.uplink_rate),
        ("core cable", long, cables.spine_core + cables.global, plan.core_rate),
    ];
    let mut transceivers: BTreeMap<Rate, (u64, Option<f64>)> = BTreeMap::new();
    for (role, metres, count, rate) in runs.into_iter().filter(|&(_, _, count, _)| count > 0) {
        let cable = catalogue.cable(metres)?;
        let item = BillItem::new(role, format!("{}, {metres} m, {rate}", cable.title), count);
        bill.push(BillItem { unit_price_usd: cable.price_usd, ..item });
        let at = transceivers.entry(rate).or_default();
        at.0 += count * u64::from(cable.transceivers);
        at.1 = cable.transceiver_power_w.or(at.1);
    }
    for (rate, (count, power)) in transceivers.into_iter().filter(|(_, (count, _))| *count > 0) {
        let item = BillItem::new("transceiver", format!("Transceiver, {rate} a side"), count);
        bill.push(BillItem { unit_power_w: power, ..item });
    }
    Ok(())
}

fn of_switch(role: &'static str, switch: &Row<Switch>, count: u64) -> BillItem {
    BillItem {
        unit_power_w: switch.power_w,
        unit_price_usd: switch.price_usd,
        ..BillItem::new(role, switch.title.clone(), count)
    }
}
