//! `[fabric]`: the network between the nodes.

use sim_topology::{Catalogue, DragonflySpec, Fabric, FabricKind, FabricSpec};

use super::cluster::advice;
use super::tree::{Node, Value};
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, counted, shorten};

/// Reads the table into `spec`; keys that another kind of fabric has are warned of.
pub(super) fn network(root: &View<'_>, spec: &mut FabricSpec, catalogue: &Catalogue, out: &mut Diagnostics) {
    let view = root.table_or_empty("fabric");
    spec.fabric = view.choice("kind").and_then(|t| t.parse().ok()).unwrap_or_default();
    spec.tiers = view.integer("tiers");
    spec.leaves = view.integer("leaves");
    spec.spines = view.integer("spines");
    spec.cores = view.integer("cores");
    spec.pods = view.integer("pods");
    spec.pod_nodes = view.integer("pod_nodes");
    spec.planes = view.integer("planes");
    spec.k = view.integer("k");
    spec.dragonfly = view.table("dragonfly").and_then(|d| {
        Some(DragonflySpec { p: d.integer("p")?, a: d.integer("a")?, h: d.integer("h")?, groups: d.integer("groups") })
    });
    (spec.oversubscription, spec.core_oversubscription) = match view.node("oversubscription") {
        Some(node) => match node.as_array() {
            Some(ratios) => (ratios.first().and_then(number), ratios.get(1).and_then(number)),
            None => (view.number("oversubscription"), None),
        },
        None => (None, None),
    };
    spec.uplink_rate = view.rate("uplink");
    spec.core_rate = view.rate("core_link");
    if let Some(length) = view.length("nic_cable") {
        spec.nic_cable_m = length.0;
    }
    if let Some(length) = view.length("switch_cable") {
        spec.switch_cable_m = length.0;
    }
    spec.core_cable_m = view.length("core_cable").map(|length| length.0);
    spec.link_latency = view.time("link_latency");
    spec.switch = switch(&view, "switch", catalogue, out);
    spec.spine_switch = switch(&view, "spine_switch", catalogue, out);
    spec.core_switch = switch(&view, "core_switch", catalogue, out);
    without_effect(&view, spec, out);
}

fn number(node: &Node) -> Option<f64> {
    match node.value {
        Value::Integer(Some(value)) => Some(value as f64),
        Value::Float(value) => Some(value),
        _ => None,
    }
}

fn switch(view: &View<'_>, key: &str, catalogue: &Catalogue, out: &mut Diagnostics) -> Option<String> {
    let node = view.node(key)?;
    let name = node.as_text()?;
    match catalogue.switch(name) {
        Ok(row) => Some(row.name.clone()),
        Err(error) => {
            let fault = Diagnostic::new(Code::UnknownModel, format!("unknown switch `{}`", shorten(name)));
            out.push(fault.at(node.place.clone(), "not in the catalogue").help(advice(&error)));
            None
        }
    }
}

/// Takes out and warns of keys that this kind of fabric does not have.
fn without_effect(view: &View<'_>, spec: &mut FabricSpec, out: &mut Diagnostics) {
    let counts: &[&str] = &["leaves", "spines", "cores", "pods", "pod_nodes", "oversubscription", "tiers"];
    let (label, help, keys): (&str, &str, Vec<&str>) = match spec.fabric {
        FabricKind::SingleSwitch => {
            let above = ["switch_cable", "core_cable", "spine_switch", "core_switch", "uplink", "core_link"];
            let label = "a single-switch fabric has one switch and no spines";
            (label, "kind = \"leaf-spine\" or \"rail-optimized\"", [counts, &above].concat())
        }
        FabricKind::FatTree => {
            ("the k of a fat tree sets all its counts", "set `k`, or use kind = \"leaf-spine\"", counts.to_vec())
        }
        FabricKind::Dragonfly => {
            let label = "a dragonfly has routers in groups, no tiers";
            let keys = [counts, &["spine_switch", "core_switch", "core_link"]].concat();
            (label, "set p, a, h and groups in [fabric.dragonfly]", keys)
        }
        _ => ("", "", Vec::new()),
    };
    let no_effect = |key: &str, label: &str, help: &str, out: &mut Diagnostics| {
        if let Some(node) = view.node(key) {
            let fault = Diagnostic::new(Code::NoEffect, format!("`{key}` has no effect"));
            out.push(fault.at(node.place.clone(), label).help(help));
        }
    };
    for key in &keys {
        no_effect(key, label, help, out);
    }
    if !keys.is_empty() {
        (spec.leaves, spec.spines, spec.cores, spec.pods, spec.pod_nodes, spec.tiers) =
            (None, None, None, None, None, None);
        (spec.oversubscription, spec.core_oversubscription) = (None, None);
    }
    if !matches!(spec.fabric, FabricKind::MultiPlane | FabricKind::DualTor) {
        spec.planes = None;
        let label = "only the ports of a multi-plane or dual-tor fabric's NICs go to several planes";
        no_effect("planes", label, "kind = \"multi-plane\"", out);
    }
    if spec.fabric != FabricKind::FatTree {
        spec.k = None;
        no_effect("k", "only a fat tree has a k", "kind = \"fat-tree\"", out);
    }
    if spec.fabric != FabricKind::Dragonfly {
        spec.dragonfly = None;
        no_effect("dragonfly", "this fabric is none", "kind = \"dragonfly\"", out);
    }
}

/// Warns if the ratio that was asked for is not the one that whole links give, and of what else is not as asked.
pub(super) fn clamped(root: &View<'_>, spec: &FabricSpec, fabric: &Fabric, out: &mut Diagnostics) {
    let plan = fabric.plan();
    if let (Some(nics), Some(node)) = (spec.nics, root.node("nics"))
        && plan.leaves > 0
        && plan.nic_rate() < nics.rate
    {
        let fault =
            Diagnostic::new(Code::NoEffect, format!("NICs of {} are faster than their links can be", nics.rate));
        let label = format!("the links run at {}, the least of NIC, switch port and cable", plan.rate);
        out.push(fault.at(node.place.clone(), label).help("`Gb/s` is bits and `GB/s` is bytes: 400 Gb/s is 50 GB/s"));
    }
    let view = root.table_or_empty("fabric");
    tiers_missing(&view, spec, fabric, out);
    let Some(node) = view.node("oversubscription") else { return };
    let tiers = [
        (spec.oversubscription, plan.oversubscription, plan.downlinks, plan.uplinks, "a leaf"),
        (spec.core_oversubscription, plan.core_oversubscription, plan.spine_downlinks, plan.spine_uplinks, "a spine"),
    ];
    if plan.leaves > 0 && plan.spines == 0 && spec.oversubscription.is_some_and(|asked| asked != 1.0) {
        let fault = Diagnostic::new(Code::NoEffect, "`oversubscription` has no effect: there are no uplinks");
        let label = "every NIC of a rail fits one leaf, so no spine is needed";
        out.push(fault.at(node.place.clone(), label).help("set `leaves` to spread the nodes over more leaves"));
        return;
    }
    if plan.leaves > 0 && plan.cores == 0 && spec.core_oversubscription.is_some() {
        let fault = Diagnostic::new(Code::NoEffect, "the second `oversubscription` has no effect: there are no cores");
        out.push(fault.at(node.place.clone(), "two tiers hold all nodes").help("set `pods` or `tiers = 3`"));
    }
    for (asked, got, down, up, what) in tiers {
        let Some(asked) = asked.filter(|asked| got > 0.0 && (got / asked - 1.0).abs() > 0.25) else { continue };
        let (down, up) = (counted(down, "downlink"), counted(up, "uplink"));
        let label = format!("{what} has {down} and {up} here, which is {got:.2}:1");
        let fault = Diagnostic::new(Code::NoEffect, format!("`oversubscription` of {asked} is not reached"));
        out.push(fault.at(node.place.clone(), label));
    }
}

/// Warns of keys of tiers that have turned out not to be needed.
fn tiers_missing(view: &View<'_>, spec: &FabricSpec, fabric: &Fabric, out: &mut Diagnostics) {
    let plan = fabric.plan();
    // Of these the kind has told already.
    if plan.leaves == 0 || matches!(spec.fabric, FabricKind::SingleSwitch | FabricKind::FatTree | FabricKind::Dragonfly)
    {
        return;
    }
    let mut warn = |keys: &[&str], label: &str| {
        for key in keys {
            if let Some(node) = view.node(key) {
                let fault = Diagnostic::new(Code::NoEffect, format!("`{key}` has no effect"));
                out.push(fault.at(node.place.clone(), label));
            }
        }
    };
    if plan.spines == 0 {
        warn(&["spine_switch", "uplink", "switch_cable"], "the leaves hold all NICs, and there are no spines");
    }
    if plan.cores == 0 {
        warn(&["core_switch", "core_link", "core_cable"], "there are no cores");
    }
}
