//! The frozen fabric: flat arrays, and the questions that others ask of them.

use sim_core::ids::LinkId;
use sim_core::network::{LinkSpec, Network};
use sim_core::units::Bytes;

use super::blueprint::SwitchPlace;
use super::build::Attach;
use super::{BuildError, FabricPlan, FabricSpec, PathChoice, SwitchRoutes};
use crate::catalogue::Catalogue;
use crate::device::{Device, DeviceId, DeviceKind, Link, Node};
use crate::faults::Ailments;
use crate::node::{Bounce, NodeSpec, NodeTemplate, NvlinkKind};
use crate::path_class::PathClass;
use crate::text::closest;

/// A cluster, ready to be routed and simulated.
#[derive(Clone, Debug)]
pub struct Fabric {
    pub(super) devices: Vec<Device>,
    pub(super) links: Vec<Link>,
    pub(super) nodes: Vec<Node>,
    pub(super) planes: Vec<Option<DeviceId>>,
    /// `[(node * NICs + NIC) * ports + port]`.
    pub(super) attach: Vec<Attach>,
    /// The network's switches, from device number `first_switch` on.
    pub(super) switches: Vec<SwitchPlace>,
    pub(super) first_switch: u32,
    pub(super) nics_of: Vec<Vec<DeviceId>>,
    pub(super) spec: FabricSpec,
    pub(super) node: NodeSpec,
    /// The interiors of nodes, the undisturbed one first; all have the same devices and links in the same places.
    pub(super) templates: Vec<NodeTemplate>,
    pub(super) plan: FabricPlan,
    pub(super) routes: SwitchRoutes,
    pub(super) gpus: Vec<DeviceId>,
    pub(super) mtu: Bytes,
    pub(super) per_domain: u32,
    pub(super) path_choice: PathChoice,
    /// The packet buffers of leaves, spines and cores, as far as their rows have them.
    pub(super) buffers: [Option<Bytes>; 3],
    /// What faults left; nothing in a healthy fabric.
    pub(crate) ailments: Ailments,
}

/// A device name that the fabric does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no device `{name}`{}", .suggestion.as_ref().map(|s| format!("; did you mean `{s}`?")).unwrap_or_default())]
pub struct UnknownDevice {
    /// The name as given.
    pub name: String,
    /// A device that is close to it.
    pub suggestion: Option<String>,
}

impl Fabric {
    /// Builds and checks the fabric that `spec` describes.
    ///
    /// # Errors
    /// If a name is unknown, a count out of range, a port budget exceeded, or a part cut off.
    pub fn build(spec: &FabricSpec, catalogue: &Catalogue) -> Result<Self, BuildError> {
        super::build::build(spec, catalogue)
    }

    /// All devices: node by node (GPUs, PCIe switches, sockets, memories, NICs, NVSwitches), then leaves and spines.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// One device.
    ///
    /// # Panics
    /// If `id` is not of this fabric.
    #[must_use]
    pub fn device(&self, id: DeviceId) -> &Device {
        &self.devices[id.index()]
    }

    /// All links, each one direction.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// One link.
    ///
    /// # Panics
    /// If `id` is not of this fabric.
    #[must_use]
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }

    /// `node0.gpu3->node0.nvswitch`, or `node0.socket0 (peer)` for a limit inside a device; the second and further
    /// parallel links end in `#1`, `#2`, ...
    ///
    /// # Panics
    /// If `id` is not of this fabric.
    #[must_use]
    pub fn link_name(&self, id: LinkId) -> String {
        let link = self.link(id);
        let (from, to) = (&self.device(link.from).name, &self.device(link.to).name);
        if link.from == link.to {
            let number = if link.parallel == 0 { String::new() } else { format!("#{}", link.parallel) };
            return format!("{from} ({}){number}", link.class);
        }
        if link.parallel == 0 { format!("{from}->{to}") } else { format!("{from}->{to}#{}", link.parallel) }
    }

    /// All nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All GPUs in the order of ranks: node by node.
    #[must_use]
    pub fn gpus(&self) -> &[DeviceId] {
        &self.gpus
    }

    /// The specification that the fabric was built from.
    #[must_use]
    pub fn spec(&self) -> &FabricSpec {
        &self.spec
    }

    /// The node as built: the specification's, with the GPUs and NICs that the fabric asked for.
    #[must_use]
    pub fn node_spec(&self) -> &NodeSpec {
        &self.node
    }

    /// The network's dimensions.
    #[must_use]
    pub fn plan(&self) -> &FabricPlan {
        &self.plan
    }

    /// Payload of a network packet.
    #[must_use]
    pub fn mtu(&self) -> Bytes {
        self.mtu
    }

    /// Nodes in an NVLink domain.
    #[must_use]
    pub fn nodes_per_domain(&self) -> u32 {
        self.per_domain
    }

    /// How one of several equal paths is chosen.
    #[must_use]
    pub fn path_choice(&self) -> PathChoice {
        self.path_choice
    }

    /// NVSwitch chips behind a domain's `nvswitch` device, 0 without NVSwitches.
    #[must_use]
    pub fn nvswitch_chips(&self) -> u32 {
        match &self.templates[0].nvlink {
            NvlinkKind::Switched { chips, .. } => *chips,
            _ => 0,
        }
    }

    /// The NVSwitches of an NVLink domain; `None` if its GPUs have none.
    #[must_use]
    pub fn nvswitch_of(&self, domain: u32) -> Option<DeviceId> {
        self.planes.get(domain as usize).copied().flatten()
    }

    /// The NVSwitches of an NVLink domain, one device a board: the two of a DGX-2 or of an NVL36x2, else one.
    pub fn nvswitches_of(&self, domain: u32) -> impl Iterator<Item = DeviceId> + use<> {
        let boards = self.templates[0].trunk().map_or(1, |t| t.boards);
        let first = self.nvswitch_of(domain);
        (0..boards).filter_map(move |board| first.map(|f| DeviceId(f.0 + board)))
    }

    /// The board of NVSwitches of a GPU: 0 where there is one.
    pub(crate) fn board_of(&self, gpu: DeviceId) -> u32 {
        let device = self.device(gpu);
        device.node.map_or(0, |node| self.template_of(node).board_of(node % self.per_domain, device.index))
    }

    /// The trunk from one board of NVSwitches to another of a domain.
    pub(crate) fn trunk_link(&self, domain: u32, from: u32, to: u32) -> Option<LinkId> {
        let boards = self.templates[0].trunk()?.boards;
        // They come before the links of the domain's first node.
        let first = self.nodes.get((domain * self.per_domain) as usize)?.first_link - boards * (boards - 1);
        (from != to).then(|| LinkId(first + from * (boards - 1) + if to > from { to - 1 } else { to }))
    }

    /// What is worth saying about the nodes as built: links that train below what a card could, NICs that serve more
    /// GPUs than others.
    #[must_use]
    pub fn node_notes(&self) -> &[String] {
        &self.templates[0].notes
    }

    /// The device called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn find(&self, name: &str) -> Result<DeviceId, UnknownDevice> {
        let name = name.trim();
        let range = self.range_of(name);
        if let Some(i) = self.devices[range.clone()].iter().position(|d| d.name == name) {
            return Ok(DeviceId((range.start + i) as u32));
        }
        // Alike within its node, so that 100,000 names need not be ranked.
        let part = name.split('.').next().unwrap_or(name);
        let near = |d: &&Device| d.name.split('.').next() == Some(part) || d.node.is_none_or(|n| n == 0);
        let shown: String = name.chars().take(60).collect();
        let suggestion = closest(&shown, self.devices.iter().filter(near).map(|d| d.name.as_str()));
        Err(UnknownDevice { name: shown, suggestion })
    }

    /// Where among the devices one of this name would be: inside its node, if it names one.
    fn range_of(&self, name: &str) -> std::ops::Range<usize> {
        let number = name.split_once('.').and_then(|(node, _)| node.strip_prefix("node")?.parse::<usize>().ok());
        let Some(node) = number.and_then(|n| self.nodes.get(n)) else { return 0..self.devices.len() };
        let first = node.first_device as usize;
        // Beyond what the template holds: the node's own NVSwitches.
        let boards = self.templates[0].trunk().map_or(1, |t| t.boards as usize);
        first..(first + self.templates[0].devices.len() + boards).min(self.devices.len())
    }

    /// The links as the engine takes them, in the same order.
    #[must_use]
    pub fn network(&self) -> Network {
        let spec = |(i, link): (usize, &Link)| LinkSpec {
            rate: link.rate,
            latency: link.latency,
            packet_overhead: link.packet_overhead,
            near: self.device(link.from).forwarding,
            far: self.device(link.to).forwarding,
            outage: self.outage_of(LinkId::new(i)),
        };
        Network::new(self.links.iter().enumerate().map(spec).collect())
    }

    /// The NICs that a GPU uses, its own rail first; empty for other devices and without NICs.
    ///
    /// GPUs that see the same nearest NICs share them evenly, as NCCL does.
    #[must_use]
    pub fn nics_of(&self, gpu: DeviceId) -> &[DeviceId] {
        match self.rank_of(gpu) {
            Some(rank) => &self.nics_of[rank as usize],
            None => &[],
        }
    }

    /// The rank of a GPU; `None` for other devices.
    #[must_use]
    pub fn rank_of(&self, gpu: DeviceId) -> Option<u32> {
        let device = self.devices.get(gpu.index()).filter(|d| d.kind == DeviceKind::Gpu)?;
        Some(device.node? * self.templates[0].gpus + device.index)
    }

    /// The GPU that uses a NIC first, or else is nearest to it: the relay on that rail. `None` for other devices.
    #[must_use]
    pub fn gpu_of_nic(&self, nic: DeviceId) -> Option<DeviceId> {
        let device = self.devices.get(nic.index()).filter(|d| d.kind == DeviceKind::Nic)?;
        let node = &self.nodes[device.node? as usize];
        self.template_of(device.node?)
            .gpu_of_nic
            .get(device.index as usize)
            .map(|&gpu| DeviceId(node.first_device + gpu))
    }

    /// The rail of a NIC: its number within its node.
    #[must_use]
    pub fn rail_of(&self, nic: DeviceId) -> u32 {
        self.devices.get(nic.index()).map_or(0, |d| d.index)
    }

    /// The leaf that a NIC's first port is cabled to; `None` for other devices and without a network.
    #[must_use]
    pub fn leaf_of(&self, nic: DeviceId) -> Option<DeviceId> {
        self.attached(nic).first().map(|a| a.leaf)
    }

    /// The leaves that a NIC's ports are cabled to, port by port.
    pub fn leaves_of(&self, nic: DeviceId) -> impl Iterator<Item = DeviceId> {
        self.attached(nic).iter().map(|a| a.leaf)
    }

    /// Where the ports of a NIC are cabled to; empty for other devices and without a network.
    pub(crate) fn attached(&self, nic: DeviceId) -> &[Attach] {
        let ports = self.plan.ports as usize;
        let at = self.devices.get(nic.index()).filter(|d| d.kind == DeviceKind::Nic).and_then(|d| {
            let number = d.node? * self.templates[0].nics + d.index;
            Some(number as usize * ports)
        });
        at.and_then(|at| self.attach.get(at..at + ports)).unwrap_or(&[])
    }

    /// Ports of a NIC that are cabled each by itself: a flow uses one of them.
    #[must_use]
    pub fn ports_per_nic(&self) -> u32 {
        self.plan.ports
    }

    /// Where a network switch stands; `None` for other devices.
    #[must_use]
    pub fn switch_place(&self, switch: DeviceId) -> Option<SwitchPlace> {
        let number = switch.0.checked_sub(self.first_switch)?;
        self.switches.get(number as usize).copied()
    }

    /// The rail of each leaf in their order, where all NIC ports on it are of one rail.
    #[must_use]
    pub fn leaf_rails(&self) -> Vec<Option<u32>> {
        let mut rails: Vec<Option<Option<u32>>> = vec![None; self.plan.leaves as usize];
        for &nic in self.nodes.iter().flat_map(|n| &n.nics) {
            let rail = Some(self.rail_of(nic));
            for port in self.attached(nic) {
                if let Some(leaf) = rails.get_mut(self.switch_number(port.leaf)) {
                    *leaf = Some(leaf.map_or(rail, |known| known.filter(|_| known == rail)));
                }
            }
        }
        rails.into_iter().map(Option::flatten).collect()
    }

    /// The NVLink domain of a device in a node.
    #[must_use]
    pub fn domain_of(&self, device: DeviceId) -> Option<u32> {
        let node = self.devices.get(device.index())?.node?;
        Some(self.nodes[node as usize].domain)
    }

    /// Whether two devices are in nodes of one NVLink domain.
    #[must_use]
    pub fn same_domain(&self, a: DeviceId, b: DeviceId) -> bool {
        matches!((self.domain_of(a), self.domain_of(b)), (Some(a), Some(b)) if a == b)
    }

    /// NVLinks between two GPUs, directly or through NVSwitches, that they may use; 0 if there are none.
    #[must_use]
    pub fn nvlinks(&self, a: DeviceId, b: DeviceId) -> u32 {
        let off =
            |id: DeviceId| self.local(id).is_some_and(|(node, _)| self.template_of(node).peers_up_to == PathClass::X);
        if off(a) || off(b) { 0 } else { self.wired_nvlinks(a, b) }
    }

    /// The same, whether they may or not.
    fn wired_nvlinks(&self, a: DeviceId, b: DeviceId) -> u32 {
        let (da, db) = (self.device(a), self.device(b));
        if a == b || da.kind != DeviceKind::Gpu || db.kind != DeviceKind::Gpu || !self.same_domain(a, b) {
            return 0;
        }
        let (Some(na), Some(nb)) = (da.node, db.node) else { return 0 };
        let links =
            self.template_of(na).nvlinks(da.index, db.index).min(self.template_of(nb).nvlinks(da.index, db.index));
        if self.ailments.is_empty() { links } else { links.min(self.narrowest(na, da.index, nb, db.index)) }
    }

    /// Links that are left of the bundles between two GPUs and their NVSwitches.
    fn narrowest(&self, na: u32, a: u32, nb: u32, b: u32) -> u32 {
        let width = |node: u32, local: u32| {
            let link = &self.links[(self.nodes[node as usize].first_link + local) as usize];
            if link.alive { link.width } else { 0 }
        };
        match &self.templates[0].nvlink {
            NvlinkKind::Switched { up, down, .. } => {
                let ends = [width(na, up[a as usize]), width(na, down[a as usize])];
                let others = [width(nb, up[b as usize]), width(nb, down[b as usize])];
                ends.into_iter().chain(others).min().unwrap_or(0)
            }
            _ => u32::MAX,
        }
    }

    /// The class of the path between two devices.
    #[must_use]
    pub fn path_class(&self, a: DeviceId, b: DeviceId) -> PathClass {
        if a == b {
            return PathClass::X;
        }
        let links = self.wired_nvlinks(a, b);
        if links > 0 {
            return self
                .device(a)
                .node
                .map_or(PathClass::Nvl(links), |node| self.template_of(node).scale_up_class(links));
        }
        match (self.local(a), self.local(b)) {
            (Some((na, la)), Some((nb, lb))) if na == nb => self.template_of(na).host_class(la, lb),
            _ => PathClass::Net,
        }
    }

    /// The class of the path over PCIe and sockets between two devices of a node, NVLink left aside.
    #[must_use]
    pub fn host_path_class(&self, a: DeviceId, b: DeviceId) -> PathClass {
        match (self.local(a), self.local(b)) {
            (Some((na, la)), Some((nb, lb))) if na == nb => self.template_of(na).host_class(la, lb),
            _ => PathClass::Net,
        }
    }

    /// Why data between two devices of a node go through host memory; `None` if they go straight.
    ///
    /// It concerns a GPU and a NIC or drive (GPUDirect), two GPUs (peer-to-peer), and a drive and a NIC.
    #[must_use]
    pub fn bounce(&self, from: DeviceId, to: DeviceId) -> Option<Bounce> {
        let ((na, a), (nb, b)) = (self.local(from)?, self.local(to)?);
        if na != nb {
            return None;
        }
        let template = self.template_of(na);
        match (self.device(from).kind, self.device(to).kind) {
            (DeviceKind::Gpu, DeviceKind::Gpu) if !template.peer_to_peer => Some(Bounce::NoPeers),
            (DeviceKind::Gpu, DeviceKind::Gpu) => {
                let (class, most) = (template.host_class(a, b), template.peers_up_to);
                (class.rank() > most.rank()).then_some(Bounce::PeersFar { class, most })
            }
            (DeviceKind::Nvme, DeviceKind::Nic) | (DeviceKind::Nic, DeviceKind::Nvme) => Some(Bounce::DriveToNic),
            _ => template.direct(a, b).err(),
        }
    }

    /// The node and the number within it; `None` for devices that are not stamped from the node.
    pub(crate) fn local(&self, device: DeviceId) -> Option<(u32, u32)> {
        let d = self.devices.get(device.index())?;
        let node = d.node.filter(|_| d.kind != DeviceKind::NvSwitch)?;
        Some((node, device.0 - self.nodes[node as usize].first_device))
    }

    /// The interior of the node of this number.
    pub(crate) fn template_of(&self, node: u32) -> &NodeTemplate {
        &self.templates[self.nodes[node as usize].template as usize]
    }

    /// Where the network's switches stand: leaves, spines, cores.
    pub fn switch_places(&self) -> impl Iterator<Item = SwitchPlace> {
        self.switches.iter().copied()
    }

    /// The interiors of nodes.
    pub(crate) fn templates(&self) -> &[NodeTemplate] {
        &self.templates
    }

    /// The number of a network switch among them.
    pub(crate) fn switch_number(&self, switch: DeviceId) -> usize {
        switch.index().saturating_sub(self.first_switch as usize)
    }

    pub(crate) fn switch_routes(&self) -> &SwitchRoutes {
        &self.routes
    }
}
