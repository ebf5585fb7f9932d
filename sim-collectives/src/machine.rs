//! A communicator on a fabric: which GPU each rank is, what NCCL sees of the machine, and what it would run.

use sim_topology::{Catalogue, CpuVendor, DeviceId, Fabric, GpudirectLevel, NicPolicy, PathClass};

use crate::call::Group;
use crate::mesh;
use crate::nccl::{
    Communicator, CrossNic, Facts, FactsError, GivenChannels, HostCpu, Knob, Knobs, PathType, Version, nic_gbps,
    nvlink_gbps, pci_gbps, socket_gbps,
};
use crate::timing::Timing;

/// The software of a run.
#[derive(Clone, Debug)]
pub struct Software {
    /// NCCL's release.
    pub version: Version,
    /// Its environment.
    pub knobs: Knobs,
    /// Whether launches are captured in a graph.
    pub graph: bool,
    /// Channels in place of those that the modelled search finds.
    pub channels: Option<GivenChannels>,
}

impl Default for Software {
    fn default() -> Self {
        Self { version: Version::NEWEST, knobs: Knobs::default(), graph: false, channels: None }
    }
}

/// Why a communicator can't be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MachineError {
    /// A rank that does not exist.
    #[error("rank {rank} does not exist: the fabric has {gpus} GPUs")]
    Rank {
        /// The rank.
        rank: u32,
        /// GPUs of the fabric.
        gpus: usize,
    },
    /// No ranks.
    #[error("a communicator needs at least one rank")]
    Empty,
    /// The catalogue does not know the GPU.
    #[error("{0}")]
    Gpu(String),
    /// AMD's library chooses otherwise, and its timing is not known.
    #[error(
        "collectives on {gpu} are not modelled: what is chosen and what a step costs follow NCCL, and AMD's RCCL differs; \
         `topo`, `path` and `run` with transfers work"
    )]
    NotNccl {
        /// The GPU.
        gpu: String,
    },
    /// Rings are given whose lengths are not those of the communicator.
    #[error(
        "the given ring of channel {channel} has {given} members; the communicator has {ranks} ranks on {nodes} nodes"
    )]
    Rings {
        /// The first such channel.
        channel: usize,
        /// Members of its ring.
        given: usize,
        /// Ranks of the communicator.
        ranks: u32,
        /// Its nodes.
        nodes: usize,
    },
    /// The machine has no figures that NCCL could plan with.
    #[error(transparent)]
    Facts(#[from] FactsError),
}

/// A communicator on a fabric.
#[derive(Debug)]
pub struct Machine<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// The GPU of each rank.
    pub gpus: Vec<DeviceId>,
    /// The members on each host of the fabric, in order of rank.
    pub members: Vec<Vec<DeviceId>>,
    /// How ranks lie on nodes.
    pub group: Group,
    /// NCCL's view and choice.
    pub comm: Communicator,
    /// The timing model.
    pub timing: Timing,
}

impl<'a> Machine<'a> {
    /// A communicator of these GPUs of `fabric` (by their rank in the fabric; empty means all of them).
    ///
    /// # Errors
    /// If a GPU does not exist or NCCL could not run there.
    pub fn new(
        fabric: &'a Fabric,
        catalogue: &Catalogue,
        software: &Software,
        ranks: &[u32],
    ) -> Result<Self, MachineError> {
        let all = fabric.gpus();
        let gpus: Vec<DeviceId> = if ranks.is_empty() {
            all.to_vec()
        } else {
            let gpu = |rank: &u32| {
                all.get(*rank as usize).copied().ok_or(MachineError::Rank { rank: *rank, gpus: all.len() })
            };
            ranks.iter().map(gpu).collect::<Result<_, _>>()?
        };
        if gpus.is_empty() {
            return Err(MachineError::Empty);
        }
        let mut group = Group::by(&gpus, |gpu| fabric.domain_of(*gpu).unwrap_or(u32::MAX));
        let facts = facts(fabric, catalogue, software, &gpus, &group)?;
        let sm = facts.compute_cap;
        let rings = mesh::rings(fabric, &gpus, &group);
        let facts = mesh::facts_of(facts, rings.len(), nvlink_gbps(sm, software.version));
        // Orders of as many places as a node has GPUs always fit.
        let _ = group.take_rings(&rings);
        let mut comm = Communicator::new(facts, software.version, software.knobs.clone())?;
        if let Some(given) = &software.channels {
            let graphs = given.over(comm.graphs());
            let (facts, knobs) = (comm.facts().clone(), software.knobs.clone());
            comm = Communicator::from_graphs(facts, graphs, given.count, software.version, knobs)?;
            if let Some(channel) = group.take_rings(&given.orders) {
                let (ranks, nodes) = (group.ranks(), group.nodes().len());
                return Err(MachineError::Rings { channel, given: given.orders[channel].len(), ranks, nodes });
            }
        }
        let timing = Timing::builtin(sm, fabric.spec().transport.as_str());
        let mut members = vec![Vec::new(); fabric.nodes().len()];
        for gpu in &gpus {
            if let Some(node) = fabric.device(*gpu).node {
                members[node as usize].push(*gpu);
            }
        }
        Ok(Self { fabric, gpus, members, group, comm, timing })
    }

    /// Number of ranks.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.gpus.len() as u32
    }
}

/// NICs of a GPU that the library drives as one device (`NCCL_NET_MAX_DEVS_PER_NIC`, NCCL 2.23 on; network plugins did so
/// before).
pub(crate) const MERGED_NICS: usize = 4;

/// What NCCL's topology detection would find.
fn facts(
    fabric: &Fabric,
    catalogue: &Catalogue,
    software: &Software,
    gpus: &[DeviceId],
    group: &Group,
) -> Result<Facts, MachineError> {
    let node = fabric.node_spec();
    let gpu = catalogue.gpu(&node.gpu).map_err(|e| MachineError::Gpu(e.to_string()))?;
    if gpu.gcn.is_some() {
        return Err(MachineError::NotNccl { gpu: gpu.title.clone() });
    }
    let (version, per_node) = (software.version, group.nodes().iter().map(Vec::len).max().unwrap_or(1) as u32);
    let nodes = group.nodes().len() as u32;
    let link = nvlink_gbps(gpu.sm, version);
    // NCCL agrees on the least over all ranks; the node with the fewest members stands for it.
    let first = group.nodes().iter().min_by_key(|n| n.len()).unwrap_or(&group.nodes()[0]);
    let at = |rank: u32| gpus[rank as usize];
    // The narrowest NVLink bundle and the worst path between ring neighbours of the first node.
    let neighbours = first.windows(2).map(|pair| (at(pair[0]), at(pair[1])));
    let bundle = neighbours.clone().map(|(a, b)| fabric.nvlinks(a, b)).min().unwrap_or(gpu.nvlinks);
    let switch = bundle > 0 && fabric.domain_of(at(first[0])).and_then(|d| fabric.nvswitch_of(d)).is_some();
    let pci = pci_gbps(gpu.pcie_gen, gpu.pcie_lanes);
    let cpu = match node.cpu.vendor {
        CpuVendor::Intel => HostCpu::Intel,
        CpuVendor::Amd => HostCpu::Amd,
        CpuVendor::Arm => HostCpu::Arm,
        _ => HostCpu::Other,
    };
    let intra_path = if bundle > 0 {
        PathType::Nvl
    } else {
        neighbours.map(|(a, b)| path_type(fabric.host_path_class(a, b))).max().unwrap_or(PathType::Pix)
    };
    let nvlink_total = if bundle > 0 { f64::from(gpu.nvlinks) * link } else { 0.0 };
    let nics = fabric.nics_of(at(first[0]));
    let nic_rate = nics
        .first()
        .and_then(|nic| fabric.links().iter().find(|l| l.from == *nic && l.class.is_network()))
        .map_or(0.0, |l| nic_gbps((l.rate.get() / 125_000) as u32 * fabric.ports_per_nic()));
    // Ports of one GPU's NICs are one device to the library, which stripes requests over them.
    let merged = nics.len().clamp(1, MERGED_NICS);
    let nic_count: u32 = {
        let mut list: Vec<DeviceId> = first.iter().flat_map(|r| fabric.nics_of(at(*r)).iter().copied()).collect();
        list.sort_unstable();
        list.dedup();
        (list.len() / merged).max(usize::from(!list.is_empty())) as u32
    };
    let path_of = |rank: u32| {
        let nic = fabric.nics_of(at(rank)).first();
        nic.map_or(PathType::Dis, |nic| path_type(fabric.path_class(at(rank), *nic)))
    };
    let nic_path = match node.nic_policy {
        NicPolicy::Nearest => path_of(first[0]),
        // The farthest pair decides what all can agree on.
        _ => first.iter().map(|&rank| path_of(rank)).max().unwrap_or(PathType::Dis),
    };
    let near = nics.first().map_or(1, |nic| {
        first.iter().filter(|r| path_type(fabric.path_class(at(**r), *nic)) <= nic_path).count() as u32
    });
    Ok(Facts {
        compute_cap: gpu.sm,
        uniform_compute_cap: true,
        nodes,
        gpus_per_node: per_node,
        cpu,
        nvlink_total_gbps: nvlink_total,
        nvlink_link_gbps: if bundle > 0 { link } else { 0.0 },
        intra_gbps: if bundle > 0 { if switch { nvlink_total } else { f64::from(bundle) * link } } else { pci },
        intra_path,
        nvswitch: switch,
        multicast: switch && gpu.sm >= 90 && per_node >= 2 && group.nodes().iter().all(|n| n.len() == first.len()),
        nics_per_node: if nodes > 1 { nic_count } else { nic_count.max(1) },
        gpus_near_nic: near.max(1),
        nic_gbps: nic_rate * merged as f64,
        nic_pci_gbps: pci,
        nic_path,
        nic_latency_us: 0.0,
        socket_gbps: socket_gbps(cpu, 0x8F, version),
        // The relay must read and write through its NIC directly.
        pxn: bundle > 0 && nics.first().is_none_or(|nic| fabric.bounce(at(first[0]), *nic).is_none()),
        cross_nic: CrossNic::Auto,
        collnet: false,
    })
}

/// How far GPUDirect may go by `NCCL_NET_GDR_LEVEL`, if that is set.
#[must_use]
pub fn gpudirect_level(knobs: &Knobs) -> Option<GpudirectLevel> {
    Some(match knobs.level(Knob::NetGdrLevel)? {
        PathType::Loc | PathType::Nvl | PathType::Nvb | PathType::C2c => GpudirectLevel::Loc,
        PathType::Pix => GpudirectLevel::Pix,
        PathType::Pxb => GpudirectLevel::Pxb,
        PathType::P2c | PathType::Pxn => GpudirectLevel::P2c,
        PathType::Phb => GpudirectLevel::Phb,
        PathType::Sys | PathType::Net | PathType::Dis => GpudirectLevel::Sys,
    })
}

/// NCCL's class of a path.
const fn path_type(class: PathClass) -> PathType {
    match class {
        PathClass::X => PathType::Loc,
        PathClass::Nvl(_) | PathClass::Xgmi(_) => PathType::Nvl,
        PathClass::Pix => PathType::Pix,
        PathClass::Pxb => PathType::Pxb,
        PathClass::Phb | PathClass::Node => PathType::Phb,
        PathClass::Sys => PathType::Sys,
        PathClass::Net => PathType::Net,
    }
}
