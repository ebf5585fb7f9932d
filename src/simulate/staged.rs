//! Why data of collectives went through host memory.

use std::collections::BTreeMap;

use sim_topology::{DeviceId, Fabric, LinkClass};

use super::Carried;
use crate::scenario::{Loaded, Workload};

/// Which data of the collectives stop over in host memory, and why; empty if no memory of a host carried anything.
pub(super) fn reasons(loaded: &Loaded, carried: &[Carried]) -> Vec<String> {
    let fabric = &loaded.fabric;
    let through = |(link, sum): (&sim_topology::Link, &Carried)| link.class == LinkClass::Memory && sum.payload > 0;
    if !fabric.links().iter().zip(carried).any(through) {
        return Vec::new();
    }
    let mut out: Vec<String> = Vec::new();
    for workload in &loaded.scenario.workloads {
        let Workload::Collective(collective) = workload else { continue };
        let gpus = collective.group.iter().filter_map(|rank| fabric.gpus().get(*rank as usize).copied());
        for why in of_group(fabric, &gpus.collect::<Vec<_>>()) {
            if !out.contains(&why) {
                out.push(why);
            }
        }
    }
    out
}

fn of_group(fabric: &Fabric, gpus: &[DeviceId]) -> Vec<String> {
    let mut hosts: BTreeMap<Option<u32>, Vec<DeviceId>> = BTreeMap::new();
    for gpu in gpus {
        hosts.entry(fabric.device(*gpu).node).or_default().push(*gpu);
    }
    let mut out: Vec<String> = Vec::new();
    let mut say = |what: &str, why: String| {
        let text = format!("{what}, since {why}");
        if !out.contains(&text) {
            out.push(text);
        }
    };
    let far = |a: DeviceId, b: DeviceId| fabric.bounce(a, b).filter(|_| fabric.nvlinks(a, b) == 0);
    for list in hosts.values() {
        for (at, a) in list.iter().enumerate() {
            if let Some(why) = list[at + 1..].iter().find_map(|b| far(*a, *b)) {
                say("from GPU to GPU of a node", why.to_string());
            }
        }
    }
    // Trays of one NVLink domain need no NIC.
    let apart = gpus.windows(2).any(|pair| {
        !fabric.same_domain(pair[0], pair[1]) && fabric.device(pair[0]).node != fabric.device(pair[1]).node
    });
    for gpu in gpus.iter().filter(|_| apart) {
        if let Some(why) = fabric.nics_of(*gpu).iter().find_map(|nic| fabric.bounce(*gpu, *nic)) {
            say("between GPUs and NICs", why.to_string());
        }
    }
    out
}
