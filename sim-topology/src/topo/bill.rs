//! What has to be bought.

use serde::Serialize;

use crate::catalogue::{Catalogue, Row, Switch};
use crate::fabric::{BuildError, Fabric};

/// One line of the bill of materials.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BillItem {
    /// What it is.
    pub item: String,
    /// What it serves as: `gpu`, `nic`, `leaf`, `spine`, `nic cable`, `transceiver`, ...
    pub role: &'static str,
    /// How many.
    pub count: u64,
    /// Typical power of one in watts, if known.
    pub unit_power_w: Option<f64>,
    /// Price of one in US dollars, if known; for ratios only.
    pub unit_price_usd: Option<f64>,
}

impl BillItem {
    fn new(role: &'static str, item: String, count: u64) -> Self {
        Self { item, role, count, unit_power_w: None, unit_price_usd: None }
    }
}

/// The parts of `fabric`, from GPUs to transceivers.
///
/// # Errors
/// If a part is not in the catalogue that is given.
pub fn bill_of_materials(fabric: &Fabric, catalogue: &Catalogue) -> Result<Vec<BillItem>, BuildError> {
    let spec = fabric.spec();
    let nodes = fabric.nodes().len() as u64;
    let gpu = catalogue.gpu(&spec.node.gpu)?;
    let mut bill = vec![BillItem {
        unit_power_w: gpu.power_w,
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
    let plan = fabric.plan();
    if plan.leaves == 0 {
        return Ok(bill);
    }
    let switch = catalogue.switch(&plan.switch)?;
    bill.push(of_switch("leaf", switch, u64::from(plan.leaves)));
    if plan.spines > 0 {
        bill.push(of_switch("spine", switch, u64::from(plan.spines)));
    }
    let uplinks = u64::from(plan.leaves) * u64::from(plan.uplinks);
    let runs = [
        ("nic cable", spec.nic_cable_m, nodes * u64::from(plan.rails)),
        ("uplink cable", spec.switch_cable_m, uplinks),
    ];
    let mut transceivers = 0;
    let mut transceiver_power = None;
    for (role, metres, count) in runs.into_iter().filter(|&(_, _, count)| count > 0) {
        let cable = catalogue.cable(metres)?;
        bill.push(BillItem::new(role, format!("{}, {metres} m, {}", cable.title, plan.rate), count));
        transceivers += count * u64::from(cable.transceivers);
        transceiver_power = cable.transceiver_power_w.or(transceiver_power);
    }
    if transceivers > 0 {
        let item = BillItem::new("transceiver", format!("Transceiver, {} a side", plan.rate), transceivers);
        bill.push(BillItem { unit_power_w: transceiver_power, ..item });
    }
    Ok(bill)
}

fn of_switch(role: &'static str, switch: &Row<Switch>, count: u64) -> BillItem {
    BillItem {
        unit_power_w: switch.power_w,
        unit_price_usd: switch.price_usd,
        ..BillItem::new(role, switch.title.clone(), count)
    }
}
