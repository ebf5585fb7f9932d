//! CPUs of a host: which NUMA node is on which socket, how many cores a socket has.

use super::Request;
use super::fill::{Certainty, Origin, vendor_of};
use super::finding::{Finding, FindingKind as Kind};
use super::host::Host;
use super::known;
use crate::catalogue::{Row, System};
use crate::node::{CpuSpec, CpuVendor};

/// Sockets and NUMA nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Sockets.
    pub(super) sockets: u32,
    /// NUMA nodes of a socket.
    pub(super) numa_per_socket: u32,
    /// The socket of each of the host's NUMA nodes.
    pub(super) socket_of: Vec<u32>,
}

/// CPU and layout. Reports NUMA nodes that are not sockets, or that are missing.
pub(super) fn fill(
    host: &mut Host,
    request: &Request,
    like: Option<&Row<System>>,
    origins: &mut Vec<Origin>,
) -> (CpuSpec, Layout) {
    let known = known::cpu(&host.cpu);
    let usual = like.map(|s| s.node.cpu.clone()).unwrap_or_default();
    let vendor = known::cpu_vendor(&host.cpu);
    let mut say = |key, value: String, certainty, why: String| origins.push(Origin { key, value, certainty, why });
    let by_name = request.cpu.as_deref().map(|model| vendor_by_model(model).unwrap_or(usual.vendor));
    let (model, certainty, why) = match (&request.cpu, known, vendor) {
        (Some(model), ..) => (model.clone(), Certainty::Given, "--cpu".to_owned()),
        (None, Some(cpu), _) => {
            let (family, number) = (host.cpu.family.unwrap_or(0), host.cpu.model.unwrap_or(0));
            (cpu.model.to_owned(), Certainty::File, format!("{} family {family} model {number}", host.cpu.vendor))
        }
        (None, None, Some(vendor)) if vendor != usual.vendor => {
            (String::new(), Certainty::Assumed, "its family and model are not in the list; --cpu names it".to_owned())
        }
        _ => {
            let system = like.map_or("no system", |s| s.name.as_str());
            (usual.model.clone(), Certainty::Assumed, format!("as in {system}; --cpu names another"))
        }
    };
    say("cpu.model", model.clone(), certainty, why);

    let threads = Threads::of(host);
    let layout = layout(host, known.map(|c| c.most_cores), threads.as_ref());
    let mut cpu = CpuSpec {
        vendor: by_name.unwrap_or_else(|| vendor_of(vendor, usual.vendor)),
        model,
        cores: usual.cores,
        threads_per_core: usual.threads_per_core,
    };
    match threads {
        Some(threads) => {
            let cores = match threads.host_cores {
                Some(cores) => cores / layout.sockets.max(1),
                None => threads.numa_cores.saturating_mul(layout.numa_per_socket),
            };
            cpu.cores = cores.clamp(1, 4096);
            cpu.threads_per_core = threads.per_core;
            say("cpu.cores", cpu.cores.to_string(), Certainty::File, "affinities of the NUMA nodes".to_owned());
        }
        None => {
            let system = like.map_or("the default", |s| s.name.as_str());
            say(
                "cpu.cores",
                cpu.cores.to_string(),
                Certainty::Assumed,
                format!("affinities are not shown; as in {system}"),
            );
        }
    }
    (cpu, layout)
}

fn vendor_by_model(model: &str) -> Option<CpuVendor> {
    Some(match model {
        "haswell" | "broadwell" | "skylake" | "cascade-lake" | "ice-lake" | "sapphire-rapids" | "emerald-rapids"
        | "granite-rapids" => CpuVendor::Intel,
        "naples" | "rome" | "milan" | "genoa" | "bergamo" | "turin" => CpuVendor::Amd,
        "grace" | "vera" | "graviton" | "altra" => CpuVendor::Arm,
        "power9" | "power10" => CpuVendor::Power,
        _ => return None,
    })
}

/// What affinities tell of cores.
struct Threads {
    /// Cores of a NUMA node.
    numa_cores: u32,
    /// Cores of the host, where the numbers of sibling threads show it.
    host_cores: Option<u32>,
    per_core: u32,
}

impl Threads {
    /// By the first NUMA node with a plausible list: a batch job may leave a single core of it.
    fn of(host: &Host) -> Option<Self> {
        let threads = host.numas.iter().map(|n| &n.threads).find(|t| {
            t.iter().map(|(a, b)| u64::from(b - a) + 1).sum::<u64>() >= 8 && t.iter().all(|(a, b)| b - a >= 3)
        })?;
        let size = |range: &(u32, u32)| range.1 - range.0 + 1;
        match threads[..] {
            // Siblings are numbered after all cores of the host, in whichever order the list has them.
            [first, second] if size(&first) == size(&second) => {
                let host_cores = Some(second.0.abs_diff(first.0));
                Some(Self { numa_cores: size(&first), host_cores, per_core: 2 })
            }
            _ => {
                let cores = threads.iter().map(size).fold(0u32, u32::saturating_add);
                Some(Self { numa_cores: cores, host_cores: None, per_core: 1 })
            }
        }
    }
}

fn layout(host: &mut Host, most_cores: Option<u32>, threads: Option<&Threads>) -> Layout {
    let has_gpu = |numa: usize| host.gpus.iter().any(|g| g.numa == numa);
    if host.c2c {
        // Each Grace is a socket; NICs have NUMA nodes apart, and are dealt out.
        let own: Vec<usize> = (0..host.numas.len()).filter(|&n| has_gpu(n)).collect();
        let sockets = own.len().clamp(1, 16) as u32;
        let socket_of = (0..host.numas.len())
            .map(|n| own.iter().position(|&o| o == n).map_or(n as u32 % sockets, |i| i as u32 % sockets))
            .collect();
        return Layout { sockets, numa_per_socket: 1, socket_of };
    }
    let shown = host.numas.iter().map(|n| n.id + 1).max().unwrap_or(1);
    // Sibling threads tell how many NUMA nodes there must be.
    let implied = threads.and_then(|t| Some(t.host_cores? / t.numa_cores.max(1))).unwrap_or(0);
    if implied > shown && implied <= 64 && host.numas.len() == 1 {
        let numa = &host.numas[0];
        let what = format!(
            "NUMA node {} has a share of 1/{implied} of the host's cores; the others are not in the file",
            numa.id
        );
        let help = "GPUs and NICs of the other NUMA nodes are missing: the file was cut, or made in a container or job";
        host.findings.push(Finding::new(Kind::Incomplete, what).at(numa.at.clone(), "the only one").help(help));
    }
    let total = shown.max(if implied <= 64 { implied } else { 0 }).max(1);
    let cores = threads.map(|t| t.host_cores.unwrap_or(t.numa_cores.saturating_mul(total)));
    let sockets = match total {
        1 => 1,
        2 => 2,
        _ => {
            let by_cores = cores.zip(most_cores).map(|(all, most)| all.div_ceil(most.max(1)));
            let wanted = by_cores.unwrap_or(2).clamp(1, 16);
            // NUMA nodes are spread evenly, so the number divides.
            (wanted..=total.min(16)).find(|s| total % s == 0).unwrap_or(1)
        }
    };
    let each = total.div_ceil(sockets);
    if each > 1 {
        let what = format!("{total} NUMA nodes on {sockets} sockets, {each} on each");
        let at = host.numas.get(1).or(host.numas.first()).map_or(0..0, |n| n.at.clone());
        let name =
            if host.cpu.vendor == "AuthenticAMD" { format!("NPS{each}") } else { format!("SNC{each} or NPS{each}") };
        let help = "devices of two NUMA nodes of a socket are SYS to each other, though no link between sockets is crossed; \
                    if there is a socket for each NUMA node, change `sockets`, and `socket` of each row";
        host.findings.push(Finding::new(Kind::NumaLayout, what).at(at, format!("a layout like {name}")).help(help));
    }
    let socket_of = host.numas.iter().map(|n| (n.id / each).min(sockets - 1)).collect();
    Layout { sockets, numa_per_socket: each, socket_of }
}
