//! A communicator on a fabric: which GPU each rank is, what NCCL sees of the machine, and what it would run.

use std::collections::BTreeMap;

use sim_topology::{Catalogue, CpuVendor, DeviceId, Fabric, GpudirectLevel, NicPolicy, PathClass, TransportKind};

use crate::call::Group;
use crate::launch::Launch;
use crate::mesh;
use crate::nccl::{
    Communicator, CrossNic, Facts, FactsError, GivenChannels, HostCpu, Knob, Knobs, PathType, TunerFile, Version,
    intel_model, nic_gbps, nvlink_gbps, pci_gbps, socket_gbps,
};
use crate::timing::Timing;

/// The software of a run.
#[derive(Clone, Debug)]
pub struct Software {
    /// NCCL's release.
    pub version: Version,
    /// Its environment.
    pub knobs: Knobs,
    /// How calls are started.
    pub launch: Launch,
    /// Channels in place of those that the modelled search finds.
    pub channels: Option<GivenChannels>,
    /// What a tuner plugin is told to take.
    pub tuner: Option<TunerFile>,
}

impl Default for Software {
    fn default() -> Self {
        Self {
            version: Version::NEWEST,
            knobs: Knobs::default(),
            launch: Launch::default(),
            channels: None,
            tuner: None,
        }
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
#[derive(Clone, Debug)]
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
    /// Added to what hashes of flows are made from, where switches hash: another number is another draw of paths.
    pub draw: u64,
    /// How calls are started.
    pub launch: Launch,
    /// What a tuner plugin is told to take.
    pub tuner: Option<TunerFile>,
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
        let islands = islands(fabric, &gpus, &software.knobs);
        let mut group = Group::by(&gpus, |gpu| islands.get(gpu).copied().unwrap_or(u32::MAX));
        let facts = facts(fabric, catalogue, software, &gpus, &group)?;
        let sm = facts.compute_cap;
        let mut rings = mesh::rings(fabric, &gpus, &group);
        let facts = mesh::facts_of(facts, rings.len(), nvlink_gbps(sm, software.version));
        // Orders of as many places as a node has GPUs always fit.
        if group.nodes().len() > 1 {
            group.begin_at(near_nics(fabric, &gpus, &group.nodes()[0]));
            for (channel, ring) in rings.iter_mut().enumerate() {
                let start = group.rail(channel as u32);
                let at = ring.iter().position(|place| *place == start).unwrap_or(0);
                ring.rotate_left(at);
            }
        }
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
        if comm.graphs().ring.cross_nic {
            group.swap_nics();
        }
        let timing = Timing::builtin(sm, fabric.spec().transport.as_str());
        let mut members = vec![Vec::new(); fabric.nodes().len()];
        for gpu in &gpus {
            if let Some(node) = fabric.device(*gpu).node {
                members[node as usize].push(*gpu);
            }
        }
        let tuner = software.tuner.clone();
        Ok(Self { fabric, gpus, members, group, comm, timing, launch: software.launch, draw: 0, tuner })
    }

    /// Number of ranks.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.gpus.len() as u32
    }

    /// Every variable that cannot do on this machine what it is for, with the reason.
    #[must_use]
    pub fn notes(&self) -> Vec<(Knob, String)> {
        let (fabric, knobs) = (self.fabric, self.comm.knobs());
        let mut notes = self.comm.notes();
        let mut note = |knob: Knob, why: String| {
            if knobs.is_set(knob) && notes.iter().all(|(other, _)| *other != knob) {
                notes.push((knob, why));
            }
        };
        let transport = fabric.spec().transport;
        if !matches!(transport, TransportKind::Infiniband | TransportKind::Roce) {
            for knob in [Knob::IbQpsPerConnection, Knob::IbSplitDataOnQps, Knob::IbAdaptiveRouting, Knob::IbArThreshold]
            {
                note(knob, format!("the transport is {transport}, which has no queue pairs of NCCL's"));
            }
        }
        if matches!(transport, TransportKind::Efa | TransportKind::Tcpxo) {
            note(Knob::IbDisable, format!("the transport is {transport}, which is no InfiniBand"));
        }
        if transport != TransportKind::Tcp {
            for knob in [Knob::SocketNthreads, Knob::NsocksPerthread] {
                note(knob, format!("the transport is {transport}, and not sockets"));
            }
        }
        let far = |(a, b): (&DeviceId, &DeviceId)| fabric.nvlinks(*a, *b) == 0 && fabric.bounce(*a, *b).is_some();
        let staged = self.members.iter().any(|host| host.iter().any(|a| host.iter().any(|b| a != b && far((a, b)))));
        if !staged {
            note(Knob::ShmDisable, "all GPUs of a host reach each other directly".into());
        }
        notes
    }
}

/// What is one node to the library for each GPU: its NVLink domain, or where shared memory is off (`NCCL_SHM_DISABLE`) those
/// of it that reach each other directly.
fn islands(fabric: &Fabric, gpus: &[DeviceId], knobs: &Knobs) -> BTreeMap<DeviceId, u32> {
    if knobs.number(Knob::ShmDisable) != Some(1) {
        return gpus.iter().filter_map(|&gpu| Some((gpu, fabric.domain_of(gpu)?))).collect();
    }
    let mut first_of: Vec<DeviceId> = Vec::new();
    let mut islands = BTreeMap::new();
    for &gpu in gpus {
        let same =
            |&other: &DeviceId| fabric.domain_of(other) == fabric.domain_of(gpu) && !apart(fabric, knobs, other, gpu);
        let island = first_of.iter().position(same).unwrap_or_else(|| {
            first_of.push(gpu);
            first_of.len() - 1
        });
        islands.insert(gpu, island as u32);
    }
    islands
}

/// Whether two GPUs of a host reach each other through NICs only, since they can't directly and shared memory is off.
pub(crate) fn apart(fabric: &Fabric, knobs: &Knobs, a: DeviceId, b: DeviceId) -> bool {
    knobs.number(Knob::ShmDisable) == Some(1) && a != b && fabric.nvlinks(a, b) == 0 && fabric.bounce(a, b).is_some()
}

/// Most NICs of a GPU that the library drives as one device (`NCCL_NET_MAX_DEVS_PER_NIC`, NCCL 2.23 on; network plugins did
/// so before).
const MERGED_NICS: usize = 4;

/// How many of a GPU's NICs the library drives as one device: only those behind the same PCIe switch or root port.
pub(crate) fn merged_nics(fabric: &Fabric, nics: &[DeviceId]) -> usize {
    let Some(first) = nics.first() else { return 1 };
    let together = nics.iter().all(|nic| path_type(fabric.path_class(*first, *nic)) <= PathType::Pxb);
    if together { nics.len().min(MERGED_NICS) } else { 1 }
}

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
    // NCCL agrees on the least over all ranks; a node with the fewest members stands for those that are like it, and each
    // node that a fault has touched is looked at by itself.
    let members = |n: &Vec<u32>| -> Vec<DeviceId> { n.iter().map(|&rank| gpus[rank as usize]).collect() };
    let ailing = fabric.ailing_domains();
    let ails = |n: &&Vec<u32>| {
        n.first().is_some_and(|&r| fabric.domain_of(gpus[r as usize]).is_some_and(|d| ailing.contains(&d)))
    };
    let first = group.nodes().iter().min_by_key(|n| (n.len(), ails(n))).unwrap_or(&group.nodes()[0]);
    let mut seen = Interior::of(fabric, &members(first), gpu.nvlinks, ails(&first));
    for other in group.nodes().iter().filter(ails) {
        seen = seen.or_worse(Interior::of(fabric, &members(other), gpu.nvlinks, true));
    }
    let Interior { bundle, switch, .. } = seen;
    let pci = pci_gbps(gpu.pcie_gen, gpu.pcie_lanes);
    let cpu = match node.cpu.vendor {
        CpuVendor::Intel => HostCpu::Intel,
        CpuVendor::Amd => HostCpu::Amd,
        CpuVendor::Arm => HostCpu::Arm,
        _ => HostCpu::Other,
    };
    // Behind switches a bundle is all of a GPU's links; some of them may be lost.
    let links = if switch && !ailing.is_empty() { bundle.min(gpu.nvlinks) } else { gpu.nvlinks };
    let nvlink_total = if bundle > 0 { f64::from(links) * link } else { 0.0 };
    // What the ports negotiate; a cable that is slow for other reasons looks as it should.
    let nic_rate =
        if seen.cabled { nic_gbps((fabric.plan().rate.get() / 125_000) as u32 * fabric.ports_per_nic()) } else { 0.0 };
    Ok(Facts {
        compute_cap: gpu.sm,
        uniform_compute_cap: true,
        nodes,
        gpus_per_node: per_node,
        cpu,
        nvlink_total_gbps: nvlink_total,
        nvlink_link_gbps: if bundle > 0 { link } else { 0.0 },
        intra_gbps: if bundle > 0 { if switch { nvlink_total } else { f64::from(bundle) * link } } else { pci },
        intra_path: seen.intra_path,
        nvswitch: switch,
        multicast: switch && gpu.sm >= 90 && per_node >= 2 && group.nodes().iter().all(|n| n.len() == first.len()),
        nics_per_node: if nodes > 1 { seen.nics } else { seen.nics.max(1) },
        gpus_near_nic: seen.gpus_near_nic.max(1),
        nic_gbps: nic_rate * f64::from(seen.merged),
        nic_pci_gbps: pci,
        gpu_host_gbps: match gpu.c2c_rate {
            Some(rate) if node.c2c.is_some() => rate.get() as f64 / 1e9,
            _ => pci,
        },
        nic_path: seen.nic_path,
        nic_latency_us: 0.0,
        socket_gbps: socket_gbps(cpu, intel_model(&node.cpu.model), version),
        // The relay must read and write through its NIC directly.
        pxn: bundle > 0 && seen.direct,
        cross_nic: CrossNic::Auto,
        collnet: reduces_in_network(fabric, catalogue, software),
    })
}

/// What the library finds among the members in one node.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Interior {
    /// The narrowest NVLink bundle between ring neighbours; 0 if a pair has none.
    bundle: u32,
    /// Whether NVSwitches join them.
    switch: bool,
    /// The worst path between ring neighbours.
    intra_path: PathType,
    /// Ports of a GPU's NICs are one device to the library, which stripes requests over them: how many.
    merged: u32,
    /// Such devices that the members use.
    nics: u32,
    /// Whether the first NIC has a cable.
    cabled: bool,
    /// The path from a GPU to its NIC.
    nic_path: PathType,
    /// GPUs that are as near to the first NIC.
    gpus_near_nic: u32,
    /// Whether the NIC reads and writes the GPU's memory.
    direct: bool,
}

impl Interior {
    /// As it is between these members of a node, whose GPUs have so many NVLinks. In one that `ails` the nearest NIC of any
    /// GPU counts: the library goes by those that are left.
    fn of(fabric: &Fabric, members: &[DeviceId], nvlinks: u32, ails: bool) -> Self {
        let neighbours = members.windows(2).map(|pair| (pair[0], pair[1]));
        let bundle = neighbours.clone().map(|(a, b)| fabric.nvlinks(a, b)).min().unwrap_or(nvlinks);
        let switch = bundle > 0 && fabric.domain_of(members[0]).and_then(|d| fabric.nvswitch_of(d)).is_some();
        let intra_path = if bundle > 0 {
            PathType::Nvl
        } else {
            let class = |(a, b)| {
                let class = path_type(fabric.host_path_class(a, b));
                // What stops over in host memory passes a host bridge.
                if fabric.bounce(a, b).is_some() { class.max(PathType::Phb) } else { class }
            };
            neighbours.map(class).max().unwrap_or(PathType::Pix)
        };
        let path_of = |gpu: DeviceId| {
            let nic = fabric.nics_of(gpu).first();
            nic.map_or(PathType::Dis, |nic| path_type(fabric.path_class(gpu, *nic)))
        };
        let user = if ails { members.iter().copied().min_by_key(|&gpu| path_of(gpu)) } else { None };
        let user = user.unwrap_or(members[0]);
        let nics = fabric.nics_of(user);
        let merged = merged_nics(fabric, nics);
        let mut all: Vec<DeviceId> = members.iter().flat_map(|&gpu| fabric.nics_of(gpu).iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        let nic_path = match fabric.node_spec().nic_policy {
            NicPolicy::Nearest => path_of(user),
            // The farthest pair decides what all can agree on.
            _ => members.iter().map(|&gpu| path_of(gpu)).max().unwrap_or(PathType::Dis),
        };
        let near =
            |nic: &DeviceId| members.iter().filter(|&&gpu| path_type(fabric.path_class(gpu, *nic)) <= nic_path).count();
        Self {
            bundle,
            switch,
            intra_path,
            merged: merged as u32,
            nics: (all.len() / merged).max(usize::from(!all.is_empty())) as u32,
            cabled: nics.first().is_some_and(|nic| fabric.leaf_of(*nic).is_some()),
            nic_path,
            gpus_near_nic: nics.first().map_or(1, near) as u32,
            direct: nics.first().is_none_or(|nic| fabric.bounce(user, *nic).is_none()),
        }
    }

    /// What all ranks of two nodes can agree on.
    fn or_worse(self, other: Self) -> Self {
        Self {
            bundle: self.bundle.min(other.bundle),
            switch: self.switch && other.switch,
            intra_path: self.intra_path.max(other.intra_path),
            merged: self.merged.min(other.merged),
            nics: self.nics.min(other.nics),
            cabled: self.cabled && other.cabled,
            nic_path: self.nic_path.max(other.nic_path),
            gpus_near_nic: self.gpus_near_nic.min(other.gpus_near_nic),
            direct: self.direct && other.direct,
        }
    }
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

/// The places of a node's GPUs that are nearest to the NICs in use, one for each NIC, in order of the places.
fn near_nics(fabric: &Fabric, gpus: &[DeviceId], node: &[u32]) -> Vec<u32> {
    let own: Vec<&[DeviceId]> = node.iter().map(|rank| fabric.nics_of(gpus[*rank as usize])).collect();
    let mut nics: Vec<DeviceId> = own.iter().flat_map(|nics| nics.iter().copied()).collect();
    nics.sort_unstable();
    nics.dedup();
    let mut places = Vec::new();
    for nic in nics {
        let near =
            |place: &usize| (fabric.path_class(gpus[node[*place] as usize], nic), places.contains(&(*place as u32)));
        let users = (0..node.len()).filter(|place| own[*place].contains(&nic));
        places.extend(users.min_by_key(near).map(|place| place as u32));
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// How far apart GPUs of a node may be that reach each other directly, by `NCCL_P2P_DISABLE` and `NCCL_P2P_LEVEL`, if one
/// is set. NCCL has no level between its PHB and SYS: PHB takes in what is NODE here.
#[must_use]
pub fn peer_level(knobs: &Knobs) -> Option<PathClass> {
    if knobs.number(Knob::P2pDisable).is_some_and(|n| n != 0) {
        return Some(PathClass::X);
    }
    Some(match knobs.level(Knob::P2pLevel)? {
        PathType::Loc => PathClass::X,
        PathType::Nvl | PathType::Nvb | PathType::C2c => PathClass::Nvl(0),
        PathType::Pix => PathClass::Pix,
        PathType::Pxb | PathType::P2c | PathType::Pxn => PathClass::Pxb,
        PathType::Phb => PathClass::Node,
        PathType::Sys | PathType::Net | PathType::Dis => PathClass::Net,
    })
}

/// Whether NCCL would reduce in the network's switches: asked for, over InfiniBand, and all switches can.
fn reduces_in_network(fabric: &Fabric, catalogue: &Catalogue, software: &Software) -> bool {
    let asked = software.knobs.number(Knob::CollnetEnable) == Some(1);
    let can = |name: &str| catalogue.switch(name).is_ok_and(|switch| switch.sharp.is_some());
    asked && fabric.spec().transport.as_str() == "infiniband" && fabric.plan().tier.iter().all(|tier| can(&tier.switch))
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
