//! What looks wrong with a host: lost NVLinks, links that trained down, NICs and GPUs far from each other.

use super::finding::{Finding, FindingKind as Kind};
use super::host::{Device, Host, Lanes, Nvlink};
use crate::catalogue::{Gpu, Row};
use crate::path_class::PathClass;

/// Adds what looks wrong to the host's findings.
pub(super) fn find(host: &mut Host, gpu: &Row<Gpu>) {
    let mut found = lost_nvlinks(host);
    found.extend(links_down(host, gpu));
    found.extend(far(host));
    found.extend(hidden(host));
    host.findings.extend(found);
}

/// `gpu1, gpu2 and 3 more`.
fn listed(kind: &str, which: &[usize]) -> String {
    let shown = which.iter().take(6).map(|i| format!("{kind}{i}")).collect::<Vec<_>>().join(", ");
    if which.len() > 6 { format!("{shown} and {} more", which.len() - 6) } else { shown }
}

fn lost_nvlinks(host: &Host) -> Vec<Finding> {
    let count = host.gpus.len();
    let links: Vec<u32> = match &host.nvlink {
        Nvlink::None | Nvlink::Unknown => return Vec::new(),
        Nvlink::Switched { links, .. } => links.clone(),
        Nvlink::Pairs(pairs) => {
            let of = |g: usize| pairs.iter().filter(|p| p[0] as usize == g || p[1] as usize == g).map(|p| p[2]).sum();
            (0..count).map(of).collect()
        }
    };
    let most = links.iter().copied().max().unwrap_or(0);
    let full = links.iter().filter(|&&n| n == most).count();
    // With pairs, a mesh that is uneven by design is told by how many have less.
    if matches!(host.nvlink, Nvlink::Pairs(_)) && full * 2 <= count {
        return Vec::new();
    }
    let mut out = Vec::new();
    for (g, &n) in links.iter().enumerate().filter(|(_, n)| **n < most) {
        let at = host.gpus[g].at.clone();
        out.push(if n == 0 {
            let finding = Finding::new(Kind::NvlinkLost, format!("gpu{g} has no NVLink, others have {most}"));
            finding.at(at, "its traffic to peers goes over PCIe").help(
                "look at `nvidia-smi nvlink -s` and the fabric manager's log; the node is written as it is, with the GPU under \
                 `nvlink.lost`",
            )
        } else {
            let finding = Finding::new(Kind::NvlinkLost, format!("gpu{g} has {n} NVLinks, others have {most}"));
            finding.at(at, format!("{} are down", most - n)).help(match host.nvlink {
                Nvlink::Pairs(_) => "the node is written as it is".to_owned(),
                _ => "the node is written with all, and a [[fault]] that takes away those that are down".to_owned(),
            })
        });
    }
    out
}

/// Whether a link is below another in speed or width.
fn below(link: Lanes, full: Lanes) -> bool {
    let less = |a: Option<u32>, b: Option<u32>| a.zip(b).is_some_and(|(a, b)| a < b);
    less(link.generation, full.generation) || less(link.lanes, full.lanes)
}

/// Lifts what trained down: devices to the best of their peers, a switch to its peers' width and to the speed of what
/// hangs below. Where every device of a kind shows a speed of idle links (generation 1 or 2), its card's is taken.
pub(super) fn lift(host: &mut Host) {
    for devices in [&mut host.gpus, &mut host.nics] {
        let mut full = best(devices.iter().map(|d| d.link));
        full.generation = full.generation.filter(|&generation| generation > 2);
        for device in devices.iter_mut() {
            if full.generation.is_none() || below(device.link, full) {
                device.link = Lanes { generation: full.generation, lanes: full.lanes.max(device.link.lanes) };
            }
        }
    }
    let width = best(host.switches.iter().filter(|s| s.parent.is_none()).map(|s| s.link)).lanes;
    for s in (0..host.switches.len()).rev() {
        let devices = host.devices().filter(|d| d.switch == Some(s)).map(|d| d.link);
        let switches = host.switches.iter().filter(|d| d.parent == Some(s)).map(|d| d.link);
        let fastest = best(devices.chain(switches)).generation;
        let link = &mut host.switches[s].link;
        // Without a figure below, an idle one is as the node's builder fills it in.
        link.generation = link.generation.max(fastest).filter(|&generation| generation > 2);
        if link.lanes.is_some() {
            link.lanes = link.lanes.max(width);
        }
    }
}

fn best(links: impl Iterator<Item = Lanes>) -> Lanes {
    links.fold(Lanes::default(), |best, link| Lanes {
        generation: best.generation.max(link.generation),
        lanes: best.lanes.max(link.lanes),
    })
}

fn shown(link: Lanes) -> String {
    let generation = link.generation.map_or("?".to_owned(), |g| g.to_string());
    format!("PCIe {generation}.0 x{}", link.lanes.map_or("?".to_owned(), |l| l.to_string()))
}

fn links_down(host: &Host, gpu: &Row<Gpu>) -> Vec<Finding> {
    let mut out = Vec::new();
    let help = "the node is written as it is; a GPU that idles may show a low speed and train up under load: `--full-links` lifts \
                what trained down";
    for (kind, devices) in [("gpu", &host.gpus), ("nic", &host.nics)] {
        for (i, device) in devices.iter().enumerate() {
            // Ports of one card share a link; one finding is enough.
            if devices[..i].iter().any(|d| d.name == device.name) {
                continue;
            }
            let alike = devices.iter().filter(|d| kind == "gpu" || d.pci_id == device.pci_id).map(|d| d.link);
            let full = best(alike);
            if below(device.link, full) {
                let what = format!("{kind}{i} has a link of {}, its peers {}", shown(device.link), shown(full));
                let label = format!("{} trained down", device.name);
                out.push(Finding::new(Kind::LinkDown, what).at(device.at.clone(), label).help(help));
            }
        }
    }
    let card = Lanes { generation: Some(gpu.pcie_gen), lanes: Some(gpu.pcie_lanes) };
    let all = best(host.gpus.iter().map(|g| g.link));
    if below(all, card)
        && let Some(first) = host.gpus.first()
    {
        let what = format!("all GPUs have links of {}, but {} can {}", shown(all), gpu.name, shown(card));
        let label = "a slot or host of an older generation, or a virtual machine's figure";
        out.push(Finding::new(Kind::LinkDown, what).at(first.at.clone(), label).help(help));
    }
    let mut slow: Vec<(usize, Lanes, Lanes)> = Vec::new();
    for (s, switch) in host.switches.iter().enumerate() {
        let devices = host.devices().filter(|d| d.switch == Some(s)).map(|d| d.link);
        let switches = host.switches.iter().filter(|d| d.parent == Some(s)).map(|d| d.link);
        let fastest = best(devices.chain(switches));
        // A switch may have a narrower uplink by design, but not one of a slower generation.
        let down = Lanes { lanes: None, ..switch.link };
        if below(down, fastest) {
            slow.push((s, switch.link, fastest));
        }
    }
    if let Some(&(first, link, fastest)) = slow.first() {
        let switch = &host.switches[first];
        let more = if slow.len() > 1 { format!(" ({} switches)", slow.len()) } else { String::new() };
        let what =
            format!("a PCIe switch has an uplink of {}, the devices below {}{more}", shown(link), shown(fastest));
        let label = format!("{} to the CPU", switch.name);
        out.push(Finding::new(Kind::LinkDown, what).at(switch.at.clone(), label).help(
            "NCCL plans with that figure; some switches show the speed of a part inside. The node is written as it is: \
             `--full-links` lifts \
             what trained down",
        ));
    }
    out
}

fn nearest(host: &Host, device: &Device, others: &[Device]) -> Option<PathClass> {
    others.iter().map(|o| host.host_class(device, o)).min_by_key(|c| c.rank())
}

fn far(host: &Host) -> Vec<Finding> {
    if host.c2c || host.nics.is_empty() || host.gpus.is_empty() {
        return Vec::new();
    }
    let gpus: Vec<Option<PathClass>> = host.gpus.iter().map(|g| nearest(host, g, &host.nics)).collect();
    let nics: Vec<Option<PathClass>> = host.nics.iter().map(|n| nearest(host, n, &host.gpus)).collect();
    let at = |list: &[Device], which: &[usize]| which.first().map_or(0..0, |&i| list[i].at.clone());
    let with = |list: &[Option<PathClass>], test: &dyn Fn(PathClass) -> bool| -> Vec<usize> {
        (0..list.len()).filter(|&i| list[i].is_some_and(test)).collect()
    };
    let far = |class: PathClass| class.rank() > PathClass::Pxb.rank();
    let (far_gpus, far_nics) = (with(&gpus, &far), with(&nics, &far));
    let across = with(&gpus, &|class| class == PathClass::Sys);
    let mut out = Vec::new();
    let some_near = far_nics.len() < nics.len();
    if some_near && !far_gpus.is_empty() {
        let what = format!("{}: no NIC below the same PCIe switch", listed("gpu", &far_gpus));
        let finding = Finding::new(Kind::Far, what).at(at(&host.gpus, &far_gpus), "other GPUs have a NIC near them");
        out.push(finding.help("their traffic crosses the CPU, or goes through another GPU's NIC (PXN)"));
    } else if !across.is_empty() && across.len() < gpus.len() {
        let what = format!("{}: every NIC is across the link between NUMA nodes", listed("gpu", &across));
        let finding = Finding::new(Kind::Far, what).at(at(&host.gpus, &across), "SYS to all NICs");
        out.push(finding.help("GPUDirect RDMA is off by default at this distance: data go through host memory"));
    } else if !some_near {
        let what = "no NIC is below a PCIe switch with a GPU";
        let finding = Finding::new(Kind::Far, what).at(at(&host.nics, &far_nics), "as all NICs");
        out.push(finding.help("which NIC serves which GPU cannot be told from this; they are dealt out in order"));
    }
    if some_near && !far_nics.is_empty() {
        let what = format!("{}: no GPU below the same PCIe switch", listed("nic", &far_nics));
        let finding = Finding::new(Kind::Far, what).at(at(&host.nics, &far_nics), "a NIC for storage or management?");
        out.push(finding.help("if they carry no GPU traffic, take them out: NCCL_IB_HCA chooses NICs on the host"));
    }
    out
}

/// A virtual machine or container that hides switches.
fn hidden(host: &Host) -> Vec<Finding> {
    let all: Vec<&Device> = host.devices().collect();
    let one_bridge = all.len() > 2
        && host.switches.is_empty()
        && all.iter().all(|d| d.bridge.is_some() && d.bridge == all[0].bridge && d.numa == all[0].numa);
    if !one_bridge {
        return Vec::new();
    }
    let what = "every device hangs on one host bridge: the layout is hidden";
    let finding = Finding::new(Kind::NumaLayout, what).at(all[0].at.clone(), "as in a virtual machine or container");
    vec![
        finding.help(
            "PHB between all: import the file of the host itself, or NCCL_TOPO_FILE of the vendor, for real paths",
        ),
    ]
}
