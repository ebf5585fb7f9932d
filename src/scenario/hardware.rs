//! What the hardware makes of a scenario that is valid: warnings that need the fabric.

use sim_topology::{Catalogue, Fabric, NicPolicy, PairKind};

use super::tree::Table;
use super::view::View;
use super::workload::Workload;
use super::{Transfers, keys::ROOT};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, counted};

/// Warns if the policy gives GPUs NICs that are farther than need be; the first such GPU stands for all.
pub(super) fn far_nics(table: &Table, fabric: &Fabric, out: &mut Diagnostics) {
    let software = View::new(table, &ROOT).table_or_empty("software");
    let Some(place) = software.node("nic_map").or_else(|| software.node("nic_policy")) else { return };
    let (Some(node), false) = (fabric.nodes().first(), fabric.node_spec().nic_policy == NicPolicy::Nearest) else {
        return;
    };
    let mut far = Vec::new();
    for &gpu in &node.gpus {
        let Some(&used) = fabric.nics_of(gpu).first() else { continue };
        let rank = |nic| fabric.path_class(gpu, nic).rank();
        let Some(&near) = node.nics.iter().min_by_key(|&&nic| (rank(nic), nic)) else { continue };
        if rank(near) < rank(used) {
            far.push((gpu, used, near));
        }
    }
    let Some(&(gpu, used, near)) =
        far.iter().max_by_key(|(gpu, used, _)| (fabric.path_class(*gpu, *used).rank(), gpu.0))
    else {
        return;
    };
    let name = |id| fabric.device(id).name.trim_start_matches("node0.").to_owned();
    let (class, best) = (fabric.path_class(gpu, used), fabric.path_class(gpu, near));
    let (gpu_name, used_name, near_name) = (name(gpu), name(used), name(near));
    let what = format!("{} of {} use NICs that are not the nearest", far.len(), counted(node.gpus.len() as u32, "GPU"));
    let label = format!("{gpu_name} to {used_name} is {class}; {near_name} is {best}");
    let bounce = fabric.bounce(gpu, used).map(|why| format!("data go through host memory: {why}"));
    out.push(
        Diagnostic::new(Code::FarNic, what)
            .at(place.place.clone(), label)
            .maybe_help(bounce)
            .help(format!("nic_policy = \"nearest\" gives {gpu_name} {near_name}")),
    );
}

/// Warns if the transfers are of the kind that collapses on some switches.
pub(super) fn posted_writes(
    workload: &Workload,
    place: &Place,
    fabric: &Fabric,
    catalogue: &Catalogue,
    out: &mut Diagnostics,
) {
    let Workload::Transfer(Transfers { traffic, .. }) = workload else { return };
    let spec = fabric.node_spec();
    let chip = |row: usize| catalogue.pcie_switch(spec.pcie[row].model.as_deref()?).ok();
    let needed = |row: usize| chip(row)?.collapse_writers.map(|writers| writers as usize);
    if (0..spec.pcie.len()).all(|row| needed(row).is_none()) {
        return;
    }
    // Writers and the root ports they write to, by root port of the writers.
    let mut by_row = vec![(Vec::new(), Vec::new()); spec.pcie.len()];
    for transfer in traffic.iter() {
        let (a, b) = (fabric.device(transfer.src), fabric.device(transfer.dst));
        let gpus = fabric.rank_of(transfer.src).is_some() && fabric.rank_of(transfer.dst).is_some();
        if !gpus || a.node != b.node {
            continue;
        }
        let direct = fabric
            .route(&transfer.way.request(transfer.src, transfer.dst))
            .is_ok_and(|route| route.kind == PairKind::Pcie);
        let (Some(from), Some(to)) = (spec.root_row_of_gpu(a.index), spec.root_row_of_gpu(b.index)) else { continue };
        if direct && from != to {
            by_row[from].0.push((a.node, a.index));
            by_row[from].1.push(to);
        }
    }
    for (row, (mut writers, mut ports)) in by_row.into_iter().enumerate() {
        writers.sort_unstable();
        writers.dedup();
        ports.sort_unstable();
        ports.dedup();
        if let Some(least) = needed(row)
            && writers.len() >= least
            && ports.len() >= 2
        {
            let model = spec.pcie[row].model.as_deref().unwrap_or("switch");
            let label = format!(
                "{} below row {row} of `pcie` ({model}) write to {} at once",
                counted(writers.len() as u32, "GPU"),
                counted(ports.len() as u32, "other root port")
            );
            let fault = Diagnostic::new(Code::PostedWrites, "writes that are known to collapse");
            let help = match chip(row).map(|chip| (chip.collapse_from, chip.collapse_to)) {
                Some((Some(from), Some(to))) => {
                    let (from, to) = (from.as_gbyte(), to.as_gbyte());
                    format!("measured: {from} falls to {to} GB/s; the model has no such fall")
                }
                _ => "the model has no such fall".to_owned(),
            };
            out.push(fault.at(place.clone(), label).help(help));
            return;
        }
    }
}
