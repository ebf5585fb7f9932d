//! From a validated tree to a [`Scenario`]: the checks that need more than one key.

use std::borrow::Cow;

use sim_core::units::Span;
use sim_topology::{Catalogue, Fabric};

use super::keys::ROOT;
use super::tree::Table;
use super::view::View;
use super::{
    Fabrics, Limits, Packets, SCHEMA, Scenario, catalogue, cluster, faults, hardware, hash, impossible, observe,
    profile, software, transport, workload,
};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// Simulated time without a packet that arrives after which a run is given up, where the scenario has no other.
const STALL: Span = Span::from_us(1_000_000);

/// What comes of a tree.
pub(super) struct Built {
    pub(super) scenario: Scenario,
    pub(super) fabric: Fabric,
    pub(super) packets: Option<Packets>,
    pub(super) catalogue: Cow<'static, Catalogue>,
}

/// The scenario and its fabric. With `sound` false (the tree has faults) the fabric is not built, and with it go the
/// checks that would only find consequences. Fabrics that are kept are not built again.
pub(super) fn scenario(
    table: &Table,
    name: &str,
    sound: bool,
    fabrics: Option<&Fabrics>,
    out: &mut Diagnostics,
) -> Option<Built> {
    let root = View::new(table, &ROOT);
    schema(&root, out);
    let Some(own) = catalogue::catalogue(table, out) else {
        workload::shapes_only(&root, out);
        return None;
    };
    let catalogue: &Catalogue = &own;
    let system = cluster::system(&root, catalogue, out);
    let software = software::software(&root, out);
    let spec = system.and_then(|system| cluster::cluster(&root, system, &software, catalogue, out));
    cluster::both_directions(&root, catalogue, out);
    let Some((system, spec)) = spec else {
        workload::shapes_only(&root, out);
        return None;
    };
    impossible::node_faults(table, &spec, sound, catalogue, out);
    if !sound || out.has_errors() {
        workload::shapes_only(&root, out);
        return None;
    }
    let build = || Fabric::build(&spec, catalogue);
    let fabric = match fabrics.map_or_else(build, |kept| kept.get(&spec, hash::key(table, "catalogue"), build)) {
        Ok(fabric) => fabric,
        Err(error) => {
            out.push(impossible::impossible(&error, table));
            workload::shapes_only(&root, out);
            return None;
        }
    };
    super::network::clamped(&root, &spec, &fabric, out);
    let seed = root.integer("seed").unwrap_or(1);
    let faults = faults::faults(&root, out);
    let Some(fabric) = faults::lay(&root, fabric, &faults, (seed, software.pxn), catalogue, out) else {
        workload::shapes_only(&root, out);
        return None;
    };
    hardware::far_nics(table, &fabric, out);
    let mut packets = transport::packets(&root, table, &fabric, catalogue, out);
    faults::bear_on_packets(&root, packets.as_ref(), out);
    let observed = observe::observed(&root, &fabric, packets.is_some(), out);
    if let Some(packets) = &mut packets {
        packets.observed = observed;
        packets.no_progress = stall(&root, packets);
    }
    let workloads = workload::workloads(&root, (&fabric, catalogue), packets.as_ref(), out);
    for (workload, item) in workloads.iter().zip(root.items("workload")) {
        hardware::posted_writes(workload, &item.place, &fabric, catalogue, out);
    }
    faults::bear_on_work(&root, &fabric, &workloads, out);
    let profile = profile::profile(&root, &spec, catalogue, out);
    let limits = root.table_or_empty("limits");
    let reference = root.text("cluster").map(|name| name.trim().to_lowercase());
    let fallback = reference.as_deref().or(system.as_deref()).unwrap_or("scenario");
    let fallback = if name.is_empty() { fallback } else { name };
    let scenario = Scenario {
        name: root.text("name").unwrap_or(fallback).to_owned(),
        description: root.text("description").unwrap_or_default().to_owned(),
        seed,
        reference,
        system,
        cluster: spec,
        qps: root.table_or_empty("transport").integer("qps").unwrap_or(1),
        software,
        profile,
        workloads,
        faults,
        fault_places: root.items("fault").iter().map(|item| item.place.clone()).collect(),
        limits: Limits { events: limits.integer("events"), time: limits.time("time") },
    };
    Some(Built { scenario, fabric, packets, catalogue: own })
}

/// After how long without a packet that arrives a run is given up.
fn stall(root: &View<'_>, packets: &Packets) -> Option<Span> {
    let own = root.table_or_empty("limits").time("stall");
    let usual = || {
        // All of a sender's retries come first.
        let retries = packets.ways.iter().filter_map(|way| {
            let tries = u64::from(way.flow.retries) + 2;
            way.flow.timeout.map(|rto| Span::from_ps(rto.as_ps().saturating_mul(tries)))
        });
        retries.fold(STALL, Span::max)
    };
    Some(own.unwrap_or_else(usual)).filter(|span| *span > Span::ZERO)
}

fn schema(root: &View<'_>, out: &mut Diagnostics) {
    let Some(found) = root.integer::<i64>("schema") else { return };
    let Some(node) = root.node("schema") else { return };
    if found > SCHEMA {
        let fault = Diagnostic::new(Code::NewerSchema, format!("the scenario is of schema {found}"));
        out.push(
            fault.at(node.place.clone(), format!("this fabricsim reads up to {SCHEMA}")).help("use a newer fabricsim"),
        );
    }
}
