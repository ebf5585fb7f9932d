//! What a file cannot say, out of the catalogue or by the user's word: models of GPU, NIC and CPU, NVSwitch chips, links
//! between sockets. Every value is listed with its origin.

use core::fmt;
use std::collections::BTreeMap;

use sim_core::units::Rate;

use super::finding::{Finding, FindingKind as Kind, Refusal};
use super::host::{Device, Host, Nvlink};
use super::sockets::{self, Layout};
use super::write::rate_shown;
use super::{Request, known};
use crate::catalogue::{Catalogue, Gpu, Nic, Row, System, UnknownName};
use crate::node::{CpuSpec, CpuVendor, NvlinkSpec, SocketLinkSpec, XgmiSpec};

/// How sure a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// The user gave it.
    Given,
    /// The file says so.
    File,
    /// It follows from the file and the catalogue.
    Catalogue,
    /// It is a guess.
    Assumed,
}

impl fmt::Display for Certainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Given => "given",
            Self::File => "file",
            Self::Catalogue => "catalogue",
            Self::Assumed => "assumed",
        })
    }
}

/// Where a value of the node comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The key of the node's table.
    pub key: &'static str,
    /// Its value in words.
    pub value: String,
    /// How sure it is.
    pub certainty: Certainty,
    /// Why this value.
    pub why: String,
}

/// All that completes a host to a node.
#[derive(Debug)]
pub(super) struct Filled<'a> {
    pub(super) gpu: &'a Row<Gpu>,
    pub(super) nic: Option<&'a Row<Nic>>,
    pub(super) nic_rate: Option<Rate>,
    pub(super) nvlink: Option<NvlinkSpec>,
    pub(super) xgmi: Option<XgmiSpec>,
    pub(super) layout: Layout,
    pub(super) socket_link: Option<SocketLinkSpec>,
    pub(super) memory: Option<Rate>,
    pub(super) cpu: CpuSpec,
    pub(super) peer_to_peer: bool,
    pub(super) max_nodes_per_domain: u32,
    pub(super) origins: Vec<Origin>,
}

/// Fills in what `host` does not say; may add to its findings, and to its NVLinks where the file is silent.
///
/// # Errors
/// If a name that the user gave is not in the catalogue, or no GPU can be thought of.
pub(super) fn fill<'a>(host: &mut Host, request: &Request, catalogue: &'a Catalogue) -> Result<Filled<'a>, Refusal> {
    let mut origins = Vec::new();
    let gpu = gpu(host, request, catalogue, &mut origins)?;
    let like = like(host, gpu, catalogue);
    let (nvlink, xgmi) = scale_up(host, gpu, like, catalogue, &mut origins);
    host.xgmi = xgmi.is_some();
    let nic = nic(host, request, gpu, like, catalogue, &mut origins)?;
    let nic_rate = nic_rate(host, nic, &mut origins);
    let (cpu, layout) = sockets::fill(host, request, like, &mut origins);
    let (socket_link, memory) = host_links(&cpu, &layout, gpu, like, catalogue, &mut origins);
    // Only what the catalogue knows of systems with this GPU says whether its driver offers peer-to-peer.
    let peer_to_peer =
        systems_with(catalogue, gpu).next().is_none() || systems_with(catalogue, gpu).any(|s| s.node.peer_to_peer);
    if !peer_to_peer {
        let why = format!("{} systems of the catalogue have none: the driver forbids it", gpu.name);
        origins.push(Origin { key: "peer_to_peer", value: "false".into(), certainty: Certainty::Catalogue, why });
    }
    if !host.nics.is_empty() && host.nics.iter().all(|n| n.gdr == Some(false)) {
        let why = "gdr=\"0\" on every NIC".to_owned();
        origins.push(Origin { key: "gpudirect_rdma", value: "false".into(), certainty: Certainty::File, why });
    }
    let domain =
        like.filter(|s| nvlink.is_some() && s.node.gpus as usize == host.gpus.len() && s.node.max_nodes_per_domain > 1);
    let max_nodes_per_domain = domain.map_or(1, |s| s.node.max_nodes_per_domain);
    if let Some(system) = domain {
        let (value, why) = (max_nodes_per_domain.to_string(), format!("as in {}", system.name));
        origins.push(Origin { key: "max_nodes_per_domain", value, certainty: Certainty::Catalogue, why });
    }
    Ok(Filled {
        gpu,
        nic,
        nic_rate,
        nvlink,
        xgmi,
        layout,
        socket_link,
        memory,
        cpu,
        peer_to_peer,
        max_nodes_per_domain,
        origins,
    })
}

fn unknown(flag: &str, error: &UnknownName) -> Refusal {
    Refusal::new(format!("{flag}: {error}")).help("`fabricsim catalog` lists all that are known")
}

/// The value that most have, the first of equals; and whether there are others.
fn most<T: Ord + Copy>(values: impl Iterator<Item = T>) -> Option<(T, bool)> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let best = counts.iter().max_by_key(|(value, count)| (**count, core::cmp::Reverse(**value)))?;
    Some((*best.0, counts.len() > 1))
}

/// A device of another model than `common`.
fn odd_one(devices: &[Device], common: (u16, u16)) -> Option<&Device> {
    devices.iter().find(|d| d.pci_id.is_some_and(|id| id != common))
}

fn gpu<'a>(
    host: &mut Host,
    request: &Request,
    catalogue: &'a Catalogue,
    origins: &mut Vec<Origin>,
) -> Result<&'a Row<Gpu>, Refusal> {
    let mut say = |name: &str, certainty, why: String| {
        origins.push(Origin { key: "gpu", value: name.to_owned(), certainty, why });
    };
    if let Some(name) = &request.gpu {
        let row = catalogue.gpu(name).map_err(|e| unknown("--gpu", &e))?;
        say(&row.name, Certainty::Given, "--gpu".into());
        return Ok(row);
    }
    if let Some((id, mixed)) = most(host.gpus.iter().filter_map(|g| g.pci_id)) {
        if mixed && let Some(odd) = odd_one(&host.gpus, id) {
            let finding = Finding::new(Kind::Mixed, "GPUs of different models");
            let finding = finding.at(odd.at.clone(), "this one differs from most");
            host.findings.push(finding.help("all are taken as the model that most are"));
        }
        if let Some(row) = known::gpu(id).and_then(|name| catalogue.gpu(name).ok()) {
            say(&row.name, Certainty::File, format!("PCI device {:04x}:{:04x}", id.0, id.1));
            return Ok(row);
        }
    }
    if let Some(gfx) = host.gpus.iter().find_map(|g| g.gfx.clone())
        && let Some(row) = known::gpu_of_gfx(&gfx).and_then(|name| catalogue.gpu(name).ok())
    {
        say(&row.name, Certainty::Catalogue, format!("architecture {gfx}; --gpu names another"));
        return Ok(row);
    }
    if let Some(amd) = host.gpus.iter().find(|g| g.gfx.is_some()) {
        let gfx = amd.gfx.clone().unwrap_or_default();
        let Some(row) = catalogue.gpus().find(|row| row.name.starts_with("mi")) else {
            let refusal = Refusal::new(format!("the catalogue has no GPU of the architecture {gfx}"));
            return Err(refusal.at(amd.at.clone(), "an AMD GPU").help("name one that is like it: --gpu NAME"));
        };
        say(
            &row.name,
            Certainty::Assumed,
            format!("the catalogue has no GPU of the architecture {gfx}; --gpu names another"),
        );
        return Ok(row);
    }
    let linked = !matches!(host.nvlink, Nvlink::None);
    if let (true, Nvlink::Pairs(pairs)) = (host.xgmi, &host.nvlink) {
        let peers = |g: u32| pairs.iter().filter(|p| p[0] == g || p[1] == g).count();
        let most = (0..host.gpus.len() as u32).map(peers).max().unwrap_or(0);
        if let Ok(row) = catalogue.gpu(if most > 3 { "mi300x" } else { "mi100" }) {
            say(&row.name, Certainty::Assumed, format!("xGMI to {most} peers; --gpu names another"));
            return Ok(row);
        }
    }
    if let Some((sm, _)) = most(host.gpus.iter().filter_map(|g| g.sm))
        && let Some(row) = known::gpu_of_sm(sm, linked).and_then(|name| catalogue.gpu(name).ok())
    {
        say(&row.name, Certainty::Assumed, format!("compute capability {sm}; --gpu names another"));
        return Ok(row);
    }
    let (name, why) = by_links(host);
    if let Ok(row) = catalogue.gpu(name) {
        say(&row.name, Certainty::Assumed, format!("{why}; --gpu names another"));
        return Ok(row);
    }
    Err(Refusal::new("which GPU? Nothing in the file or the catalogue tells").help("name it: --gpu h100-sxm"))
}

/// The GPU that comes to mind, where only links are known.
fn by_links(host: &Host) -> (&'static str, String) {
    let generation = host.devices().filter_map(|d| d.link.generation).max();
    match &host.nvlink {
        Nvlink::Switched { links, .. } => {
            let links = links.iter().copied().max().unwrap_or(0);
            let name = match links {
                _ if host.c2c => "gb200",
                13.. => "h100-sxm",
                9..=12 => "a100-sxm4-80",
                7..=8 => "h800-sxm",
                _ => "v100-sxm2",
            };
            (name, format!("{links} NVLinks through switches"))
        }
        Nvlink::Pairs(pairs) => {
            let each = |g: usize| pairs.iter().filter(move |p| p[0] as usize == g || p[1] as usize == g).map(|p| p[2]);
            let links = (0..host.gpus.len()).map(|g| each(g).sum::<u32>()).max().unwrap_or(0);
            let peers = (0..host.gpus.len()).map(|g| each(g).count()).max().unwrap_or(0);
            let name = match (links, peers) {
                (13.., _) => "h100-sxm",
                (12, 1) => "a100-pcie-80",
                (7..=12, _) => "a100-sxm4-40",
                (5..=6, _) => "v100-sxm2",
                (4, 1) => "a40",
                (_, 1) => "a100-pcie-80",
                _ => "v100-sxm2",
            };
            (name, format!("{links} NVLinks of a GPU, to {peers} of its peers"))
        }
        Nvlink::Unknown => {
            let (name, of) = match generation {
                Some(5) => ("h100-sxm", "5"),
                Some(4) => ("a100-sxm4-80", "4"),
                Some(3) => ("v100-sxm2", "3"),
                _ => ("h100-sxm", "unknown"),
            };
            (name, format!("PCIe generation {of}"))
        }
        Nvlink::None => match generation {
            Some(5..) => ("h100-pcie", "PCIe generation 5, no NVLink".to_owned()),
            Some(1..=3) => ("v100-pcie", "PCIe generation 3, no NVLink".to_owned()),
            _ => ("l40s", "no NVLink".to_owned()),
        },
    }
}

fn systems_with<'a>(catalogue: &'a Catalogue, gpu: &Row<Gpu>) -> impl Iterator<Item = &'a Row<System>> {
    let name = gpu.name.clone();
    catalogue.systems().filter(move |s| catalogue.gpu(&s.node.gpu).is_ok_and(|g| g.name == name))
}

/// The system of the catalogue that is most like the host: the same GPU, as many of them, as many NICs.
fn like<'a>(host: &Host, gpu: &Row<Gpu>, catalogue: &'a Catalogue) -> Option<&'a Row<System>> {
    let all: Vec<&Row<System>> = systems_with(catalogue, gpu).collect();
    let model = known::cpu(&host.cpu).map(|c| c.model);
    let score = |s: &Row<System>| {
        let gpus = s.node.gpus as usize == host.gpus.len();
        let cpu = model.is_some_and(|m| s.node.cpu.model == m);
        let nics = s.node.nics as usize == host.nics.len();
        (u8::from(gpus) * 4) + (u8::from(cpu) * 2) + u8::from(nics)
    };
    // The first of equals: the data file has plain systems before the clouds'.
    all.into_iter().rev().max_by_key(|s| score(s))
}

/// NVLink or xGMI of the node.
fn scale_up(
    host: &mut Host,
    gpu: &Row<Gpu>,
    like: Option<&Row<System>>,
    catalogue: &Catalogue,
    origins: &mut Vec<Origin>,
) -> (Option<NvlinkSpec>, Option<XgmiSpec>) {
    let count = host.gpus.len() as u32;
    let mut say = |key, value: String, certainty, why: String| origins.push(Origin { key, value, certainty, why });
    // A file that is silent: as systems with this GPU are.
    if host.nvlink == Nvlink::Unknown {
        host.nvlink = Nvlink::None;
        if let Some(system) = like {
            let wiring = system.node.nvlink.as_ref();
            if let Some(nvlink) = wiring.filter(|n| n.chip.is_some() || system.node.gpus == count) {
                let why = format!("the file says nothing of NVLink; as in {}", system.name);
                say("nvlink", "as there".into(), Certainty::Catalogue, why);
                host.nvlink = match nvlink.chip {
                    Some(_) => {
                        Nvlink::Switched { links: vec![nvlink.links.iter().sum(); count as usize], chips: vec![] }
                    }
                    None => Nvlink::Pairs(nvlink.pairs.clone()),
                };
                return (Some(nvlink.clone()), None);
            }
        }
        return (None, None);
    }
    match &mut host.nvlink {
        Nvlink::Unknown | Nvlink::None => (None, None),
        Nvlink::Pairs(pairs) if gpu.gcn.is_some() || host.xgmi || gpu.nvlink_gen.is_none() => {
            let link = catalogue.gpu_link(gpu).ok().flatten().filter(|_| gpu.gcn.is_some());
            match link {
                Some(link) => {
                    let why = format!("a link of {}", gpu.name);
                    say("xgmi.rate", rate_shown(link.link_rate), Certainty::Catalogue, why);
                    (None, Some(xgmi(link.link_rate, pairs, count)))
                }
                None if host.xgmi || host.gpus.iter().any(|g| g.gfx.is_some()) => {
                    let rate = Rate::gbyte(32);
                    let why = "the catalogue has no xGMI of this GPU; one link of 16 lanes at 16 GT/s".to_owned();
                    say("xgmi.rate", rate_shown(rate), Certainty::Assumed, why);
                    (None, Some(xgmi(rate, pairs, count)))
                }
                None => {
                    let finding = Finding::new(Kind::Contradiction, format!("{} has no NVLink", gpu.name));
                    host.findings.push(finding.help("the file's NVLinks are left out; --gpu names another model"));
                    host.nvlink = Nvlink::None;
                    (None, None)
                }
            }
        }
        Nvlink::Pairs(pairs) => {
            // More links than the model has cannot be built.
            let used = |g: u32| pairs.iter().filter(|p| p[0] == g || p[1] == g).map(|p| p[2]).sum::<u32>();
            if let Some(over) = (0..count).find(|&g| used(g) > gpu.nvlinks) {
                let what = format!("gpu{over} has {} NVLinks, but {} has {}", used(over), gpu.name, gpu.nvlinks);
                let finding = Finding::new(Kind::Contradiction, what);
                host.findings.push(finding.help("the file's NVLinks are left out; --gpu names another model"));
                host.nvlink = Nvlink::None;
                return (None, None);
            }
            (Some(NvlinkSpec { pairs: pairs.clone(), ..NvlinkSpec::default() }), None)
        }
        Nvlink::Switched { links, chips } => {
            let full = links.iter().copied().max().unwrap_or(0);
            let wired = systems_with(catalogue, gpu).find_map(|s| {
                let nvlink = s.node.nvlink.as_ref().filter(|n| n.chip.is_some())?;
                Some((s, nvlink))
            });
            let Some((system, theirs)) = wired.filter(|_| full <= gpu.nvlinks) else {
                let what = format!("{full} NVLinks through switches, but {} has {}", gpu.name, gpu.nvlinks);
                let finding = Finding::new(Kind::Contradiction, what);
                host.findings.push(finding.help("the file's NVLinks are left out; --gpu names another model"));
                host.nvlink = Nvlink::None;
                return (None, None);
            };
            let (wiring, certainty, why) = if chips.iter().sum::<u32>() == full {
                (chips.clone(), Certainty::File, "chips by their bus ids".to_owned())
            } else if theirs.links.iter().sum::<u32>() == full {
                (
                    theirs.links.clone(),
                    Certainty::Catalogue,
                    format!("the file does not show the chips; as in {}", system.name),
                )
            } else {
                let n = theirs.links.len().max(1) as u32;
                let spread = (0..n).map(|i| full / n + u32::from(i < full % n)).filter(|&l| l > 0).collect();
                (spread, Certainty::Assumed, format!("spread over as many chips as {} has", system.name))
            };
            say("nvlink.links", format!("{wiring:?}"), certainty, why);
            let chip = theirs.chip.clone();
            let why = format!("as {} with {}", system.name, gpu.name);
            say("nvlink.chip", chip.clone().unwrap_or_default(), Certainty::Catalogue, why);
            let lost = (0..count).filter(|&g| links[g as usize] == 0).collect();
            (Some(NvlinkSpec { chip, links: wiring, lost, ..NvlinkSpec::default() }), None)
        }
    }
}

/// The bundles as a mesh, where they are that of every group of so many GPUs, each by one link.
fn xgmi(rate: Rate, pairs: &[[u32; 3]], count: u32) -> XgmiSpec {
    let mut sorted = pairs.to_vec();
    sorted.sort_unstable();
    let whole = |size: &u32| {
        let mesh = (0..count).flat_map(|a| (a + 1..((a / size + 1) * size).min(count)).map(move |b| [a, b, 1]));
        mesh.eq(sorted.iter().copied())
    };
    match (2..=count).find(whole) {
        Some(size) => XgmiSpec { rate, mesh: Some(size), pairs: Vec::new() },
        None => XgmiSpec { rate, mesh: None, pairs: sorted },
    }
}

fn nic<'a>(
    host: &mut Host,
    request: &Request,
    gpu: &Row<Gpu>,
    like: Option<&Row<System>>,
    catalogue: &'a Catalogue,
    origins: &mut Vec<Origin>,
) -> Result<Option<&'a Row<Nic>>, Refusal> {
    let mut say = |name: &str, certainty, why: String| {
        origins.push(Origin { key: "nic", value: name.to_owned(), certainty, why });
    };
    if let Some(name) = &request.nic {
        let row = catalogue.nic(name).map_err(|e| unknown("--nic", &e))?;
        say(&row.name, Certainty::Given, "--nic".into());
        return Ok(Some(row));
    }
    if host.nics.is_empty() {
        return Ok(None);
    }
    if let Some((id, mixed)) = most(host.nics.iter().filter_map(|n| n.pci_id)) {
        if mixed && let Some(odd) = odd_one(&host.nics, id) {
            let finding = Finding::new(Kind::Mixed, "NICs of different models");
            let finding = finding.at(odd.at.clone(), "this one differs from most");
            host.findings.push(finding.help("all are taken as the model that most are"));
        }
        if let Some(row) = known::nic(id).and_then(|name| catalogue.nic(name).ok()) {
            say(&row.name, Certainty::File, format!("PCI device {:04x}:{:04x}", id.0, id.1));
            return Ok(Some(row));
        }
    }
    let stated = host.nics.iter().any(|n| n.rate.is_some());
    if let Some(system) = like.filter(|s| !stated && s.node.nics as usize == host.nics.len())
        && let Some(row) = system.node.nic.as_ref().and_then(|name| catalogue.nic(name).ok())
    {
        say(&row.name, Certainty::Assumed, format!("as in {}, which has as many; --nic names another", system.name));
        return Ok(Some(row));
    }
    let gbit = most(host.nics.iter().filter_map(|n| n.rate)).map(|(rate, _)| rate.get() / 125_000_000);
    let generation = host.nics.iter().filter_map(|n| n.link.generation).max().unwrap_or(gpu.pcie_gen);
    let (name, why) = match (gbit, generation) {
        (Some(500..), _) => ("connectx-8", "its speed"),
        (Some(201..), _) => ("connectx-7", "its speed"),
        (Some(101..), _) => ("connectx-6", "its speed"),
        (Some(_), _) => ("connectx-6-dx", "its speed"),
        (None, 5..) => ("connectx-7", "PCIe generation"),
        (None, 4) => ("connectx-6", "PCIe generation"),
        (None, _) => ("connectx-5", "PCIe generation"),
    };
    let row = catalogue.nic(name).map_err(|e| unknown("--nic", &e))?;
    say(&row.name, Certainty::Assumed, format!("{why}; --nic names another"));
    Ok(Some(row))
}

/// The rate of a port, where the file states one that is not the model's.
fn nic_rate(host: &mut Host, nic: Option<&Row<Nic>>, origins: &mut Vec<Origin>) -> Option<Rate> {
    let nic = nic?;
    let (rate, mixed) = most(host.nics.iter().filter_map(|n| n.rate))?;
    if mixed && let Some(odd) = host.nics.iter().find(|n| n.rate.is_some_and(|r| r != rate)) {
        let shown = odd.rate.map(rate_shown).unwrap_or_default();
        let finding = Finding::new(Kind::Mixed, "NICs of different speeds");
        let finding = finding.at(odd.at.clone(), format!("{shown}; most have {}", rate_shown(rate)));
        host.findings.push(finding.help("all are taken at the speed that most have"));
    }
    // A speed that no port has is a planning figure of the host's owner; the wire is the port's.
    let gbit = rate.get() as f64 / 125e6;
    let standard = [10.0, 25.0, 40.0, 50.0, 56.0, 100.0, 200.0, 400.0, 800.0, 1600.0];
    let near = standard.into_iter().find(|s: &f64| (gbit / s - 1.0).abs() < 0.15);
    let rate = match near {
        Some(port) if (gbit - port).abs() > 0.5 => {
            let odd = host.nics.iter().find(|n| n.rate == Some(rate));
            let finding = Finding::new(Kind::BadValue, format!("{gbit:.0} Gb/s is the speed of no port"));
            let label = format!("taken as a port of {port:.0} Gb/s");
            let help =
                format!("NCCL plans with {gbit:.0} Gb/s; to simulate that rate, set nic_rate = \"{gbit:.0} Gb/s\"");
            host.findings.push(finding.at(odd.map_or(0..0, |n| n.at.clone()), label).help(help));
            Rate::gbit(port as u64)
        }
        _ => rate,
    };
    if rate == nic.port_rate {
        return None;
    }
    let why = format!("{} has ports of {}", nic.name, rate_shown(nic.port_rate));
    origins.push(Origin { key: "nic_rate", value: rate_shown(rate), certainty: Certainty::File, why });
    Some(rate)
}

/// The link between sockets and the rate of memory, as systems of the catalogue with this CPU have them.
fn host_links(
    cpu: &CpuSpec,
    layout: &Layout,
    gpu: &Row<Gpu>,
    like: Option<&Row<System>>,
    catalogue: &Catalogue,
    origins: &mut Vec<Origin>,
) -> (Option<SocketLinkSpec>, Option<Rate>) {
    let systems = || like.into_iter().chain(systems_with(catalogue, gpu)).chain(catalogue.systems());
    let same_cpu = systems().find(|s| s.node.cpu.model == cpu.model && s.node.socket_link.is_some());
    let same_vendor = || systems().find(|s| s.node.cpu.vendor == cpu.vendor && s.node.socket_link.is_some());
    let (system, certainty) = match (same_cpu, same_vendor()) {
        (Some(system), _) => (Some(system), Certainty::Catalogue),
        (None, other) => (other, Certainty::Assumed),
    };
    let system = system.or_else(|| systems().find(|s| s.node.socket_link.is_some()));
    let Some(system) = system else { return (None, None) };
    let why = if certainty == Certainty::Catalogue {
        format!("as in {}, which has this CPU", system.name)
    } else {
        format!("as in {}, whose CPU ({}) is of the same make", system.name, system.node.cpu.model)
    };
    let memory = system.node.memory;
    if let Some(rate) = memory {
        let value = rate_shown(rate);
        origins.push(Origin { key: "memory", value, certainty, why: why.clone() });
    }
    let link = system.node.socket_link.clone().filter(|_| layout.sockets > 1);
    if let Some(link) = &link {
        let value = format!("{} x {}", link.links, link.name);
        origins.push(Origin { key: "socket_link", value, certainty, why });
    }
    (link, memory)
}

/// The vendor in words of the node's table.
pub(super) const fn vendor_of(vendor: Option<CpuVendor>, gpu_system: CpuVendor) -> CpuVendor {
    match vendor {
        Some(vendor) => vendor,
        None => gpu_system,
    }
}
