//! From lanes to the engine's program: connections get routes, steps get their cost.

use sim_core::ids::LinkId;
use sim_core::program::{Cost, Layout, Program, Spacing};
use sim_core::program_builder::{ConnShape, CreditShape, Onward, ProgramBuilder};
use sim_core::units::{Bytes, Span};
use sim_topology::faults::Slowness;
use sim_topology::{DeviceId, DeviceKind, Fabric, PathChoice, Route, RouteError, RouteRequest, TransportKind, Via};

use crate::aggregation::{InNetwork, NetworkWay, SwitchTree};
use crate::lanes::{LaneOp, LaneSink, Own, Peers, Rail, Work};
use crate::machine::{Machine, apart, merged_nics};
use crate::nccl::{Protocol, QpPlan};
use crate::timing::CallTiming;

/// The largest segment of a slice on virtual links.
pub const SEGMENT: Bytes = Bytes::kib(128);
/// A clear-to-send: one entry of the sender's FIFO, written by RDMA.
const CLEAR_TO_SEND: Bytes = Bytes::new(64);

/// The time of work on a sound GPU, in millionths of it.
const NOT_SLOW: u64 = 1_000_000;

/// A way between two nodes.
struct Port {
    via: Via,
    nics: Option<(DeviceId, DeviceId)>,
}

/// Over what a connection goes, as far as kernels work differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Medium {
    /// Memory of a GPU of the same node or domain.
    Gpu,
    /// Host memory, between GPUs of a node.
    Shared,
    /// Host memory, at the end of a network path.
    Host,
    /// The network, from and to GPU memory.
    Network,
}

/// What a cost is of: the kind of work, how many operations share a pass, the host memory that is read, and slowness.
type CostOf = (Work, u32, Option<Medium>, u64);

/// Turns what an algorithm writes into a program, as it is written.
pub(crate) struct Lowering<'a> {
    machine: &'a Machine<'a>,
    timing: CallTiming<'a>,
    protocol: Protocol,
    qps: QpPlan,
    /// Bytes above which messages of a queue pair begin apart.
    begin_apart: Option<Bytes>,
    segment: Bytes,
    builder: ProgramBuilder,
    /// First send end and first receive end of every connection, and over what it goes.
    ends: Vec<(u32, u32, Medium)>,
    /// How slow each rank's GPU is.
    slow: Vec<Option<Slowness>>,
    costs: Vec<(CostOf, u32)>,
    /// What the last reduction in the network ran over.
    in_network: Option<InNetwork>,
    error: Option<RouteError>,
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(
        machine: &'a Machine<'a>,
        timing: CallTiming<'a>,
        protocol: Protocol,
        segment: Bytes,
        launch: Span,
    ) -> Self {
        let mut builder = ProgramBuilder::new();
        let slow: Vec<Option<Slowness>> = machine.gpus.iter().map(|gpu| machine.fabric.slowness_of(*gpu)).collect();
        for slow in &slow {
            let late = slow.map_or(Span::ZERO, |s| s.delay);
            builder.kernel(launch + late, Span::ZERO);
        }
        Self {
            machine,
            timing,
            protocol,
            qps: queue_pairs(machine),
            begin_apart: begin_apart(machine),
            segment,
            builder,
            ends: Vec::new(),
            slow,
            costs: Vec::new(),
            in_network: None,
            error: None,
        }
    }

    /// The program, every kernel of which runs `iterations` times.
    pub(crate) fn finish(mut self, iterations: u32, floor: Span) -> Result<Program, RouteError> {
        self.builder.iterate(iterations, floor);
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.builder.finish()),
        }
    }

    fn fabric(&self) -> &'a Fabric {
        self.machine.fabric
    }

    fn gpu(&self, rank: u32) -> DeviceId {
        self.machine.gpus[rank as usize]
    }

    fn route(&mut self, request: &RouteRequest) -> Vec<LinkId> {
        match self.fabric().route(request) {
            // Kernels read and write host memory themselves: no copy is started there.
            Ok(Route { links, .. }) => {
                let fabric = self.fabric();
                let memory = |device| fabric.device(device).kind == DeviceKind::HostMemory;
                let kernel = |link: &LinkId| !memory(fabric.link(*link).from) && !memory(fabric.link(*link).to);
                links.into_iter().filter(kernel).collect()
            }
            Err(error) => {
                self.error.get_or_insert(error);
                vec![LinkId(0)]
            }
        }
    }

    /// Time for a word to travel back over a route of the same links in the other direction.
    fn reverse_latency(&self, route: &[LinkId]) -> Span {
        route.iter().map(|l| self.fabric().link(*l).latency).sum()
    }

    fn pair(&mut self, from: u32, to: u32, rail: Rail, channel: u32, slots: u16) -> (u32, u32, Medium) {
        let (a, b) = (self.gpu(from), self.gpu(to));
        let fabric = self.fabric();
        let apart = apart(fabric, self.machine.comm.knobs(), a, b);
        if !apart && (fabric.same_domain(a, b) || fabric.device(a).node == fabric.device(b).node) {
            let route = self.route(&RouteRequest::auto(a, b));
            let shape = ConnShape {
                segment: self.segment,
                latency: self.timing.local_latency(fabric.nvlinks(a, b) > 0),
                credit: CreditShape::After(self.reverse_latency(&route)),
                spacing: Spacing::NONE,
            };
            let ends = self.builder.connect(&[&route], false, slots, &shape);
            let staged = fabric.nvlinks(a, b) == 0 && fabric.bounce(a, b).is_some();
            return (ends.send, ends.recv, if staged { Medium::Shared } else { Medium::Gpu });
        }
        let ports = self.ports(from, to, rail, channel);
        // A NIC of several ports sends on all of them: at least one queue pair each.
        let planes = fabric.ports_per_nic().max(1);
        let qps = self.qps.qps.max(1).next_multiple_of(planes);
        // A table by destination knows no queue pairs; a hash sees each as a flow of its own.
        let hashed = fabric.path_choice() == PathChoice::Hash;
        let entropy = |qp: u32| {
            let pair = u64::from(from) << 40 ^ u64::from(to) << 16 ^ u64::from(channel) << 8 ^ u64::from(qp);
            let draw = self.machine.draw << 56;
            let (pair, planes) = (if hashed { pair ^ draw } else { 0 }, u64::from(planes));
            pair.wrapping_mul(planes).wrapping_add(u64::from(qp) % planes)
        };
        let mut routes: Vec<Vec<LinkId>> = Vec::new();
        for port in &ports {
            for qp in 0..qps {
                routes.push(self.route(&RouteRequest::auto(a, b).via(port.via).entropy(entropy(qp))));
            }
        }
        let back = match ports[0].nics {
            Some((src, dst)) if src == dst => {
                self.route(&RouteRequest::auto(b, a).via(Via::Nics { src: dst, dst: src }))
            }
            Some((src, dst)) => self.route(&RouteRequest::auto(dst, src).entropy(entropy(qps))),
            None => self.route(&RouteRequest::auto(b, a)),
        };
        let routes: Vec<&[LinkId]> = routes.iter().map(Vec::as_slice).collect();
        let delay = self.timing.clear_to_send();
        let shape = ConnShape {
            segment: self.segment,
            latency: self.timing.network_latency(),
            credit: CreditShape::ClearToSend { route: &back, bytes: CLEAR_TO_SEND, delay },
            spacing: self.timing.spacing(self.begin_apart),
        };
        let split = self.qps.split || ports.len() > 1 || planes > 1;
        let ends = self.builder.connect(&routes, split, slots, &shape);
        // A coherent link is no bottleneck for a kernel's reads, as PCIe is.
        let coherent = fabric.spec().node.c2c.is_some();
        let staged = !coherent && ports[0].nics.is_some_and(|(_, dst)| fabric.bounce(dst, b).is_some());
        (ends.send, ends.recv, if staged { Medium::Host } else { Medium::Network })
    }

    /// The NICs between two nodes (several where a GPU's are driven as one), with the relay where the sender's are another
    /// GPU's.
    fn ports(&self, from: u32, to: u32, rail: Rail, channel: u32) -> Vec<Port> {
        let fabric = self.fabric();
        let (a, b) = (self.gpu(from), self.gpu(to));
        // Only members of the communicator relay.
        let of_place = |rank: u32, place: u32| {
            let members = &self.machine.members[fabric.device(self.gpu(rank)).node? as usize];
            members.get(place as usize % members.len().max(1)).copied()
        };
        let (mut src_gpu, mut dst_gpu) = (a, b);
        let facts = self.machine.comm.facts();
        let relays = |relay: DeviceId| facts.pxn && fabric.nvlinks(a, relay) > 0;
        // Without a relay, a ring that keeps its NIC goes there through the host.
        let through_host = !facts.pxn && facts.nvlink_total_gbps > 0.0 && !self.machine.comm.graphs().ring.cross_nic;
        if let Rail::OfGpu(place) = rail
            // On one host, each goes by its own.
            && fabric.device(a).node != fabric.device(b).node
            && let (Some(relay), Some(near)) = (of_place(from, place), of_place(to, place))
            && (relay == a || relays(relay) || through_host)
            && !fabric.nics_of(relay).is_empty()
            && !fabric.nics_of(near).is_empty()
        {
            (src_gpu, dst_gpu) = (relay, near);
        }
        let (src, dst) = (fabric.nics_of(src_gpu), fabric.nics_of(dst_gpu));
        let shared = src.len().min(dst.len());
        if shared == 0 {
            return vec![Port { via: Via::Auto, nics: None }];
        }
        // NICs that are devices of their own share out the channels.
        let count = shared.min(merged_nics(fabric, src)).min(merged_nics(fabric, dst));
        let first = if count < shared { channel as usize / self.gpus_of_node(from) * count % shared } else { 0 };
        (first..first + count)
            .map(|k| k % shared)
            .map(|k| {
                let (src, dst) = (src[k], dst[k]);
                let via = if src_gpu == a || !relays(src_gpu) {
                    Via::Nics { src, dst }
                } else {
                    Via::Pxn { relay: src_gpu, src, dst }
                };
                Port { via, nics: Some((src, dst)) }
            })
            .collect()
    }

    /// Members of the communicator on a rank's node: channels go round them before they take another NIC of a GPU.
    fn gpus_of_node(&self, rank: u32) -> usize {
        let node = self.fabric().device(self.gpu(rank)).node.and_then(|node| self.machine.members.get(node as usize));
        node.map_or(1, |members| members.len().max(1))
    }

    /// The link from a GPU up to its NVSwitch plane, and the one down.
    fn switch_links(&mut self, rank: u32, other: u32) -> (Vec<LinkId>, Vec<LinkId>) {
        let (a, b) = (self.gpu(rank), self.gpu(other));
        if a == b {
            return (vec![LinkId(0)], vec![LinkId(0)]);
        }
        let up = self.route(&RouteRequest::auto(a, b));
        let down = self.route(&RouteRequest::auto(b, a));
        (up[..1].to_vec(), down[down.len() - 1..].to_vec())
    }

    /// In-switch reduction or multicast among ranks of one domain.
    fn junction(&mut self, from: &[u32], to: &[u32], slots: u16) -> (u32, u32, Medium) {
        let everyone = if from.len() > 1 { from } else { to };
        let partner = |rank: u32| everyone.iter().copied().find(|r| *r != rank).unwrap_or(rank);
        let inputs: Vec<Vec<LinkId>> = from.iter().map(|r| self.switch_links(*r, partner(*r)).0).collect();
        let outputs: Vec<Vec<LinkId>> = to.iter().map(|r| self.switch_links(*r, partner(*r)).1).collect();
        let slices = |list: &'_ [Vec<LinkId>]| list.iter().map(|r| r.to_vec()).collect::<Vec<_>>();
        let (inputs, outputs) = (slices(&inputs), slices(&outputs));
        let inputs: Vec<&[LinkId]> = inputs.iter().map(Vec::as_slice).collect();
        let outputs: Vec<&[LinkId]> = outputs.iter().map(Vec::as_slice).collect();
        let back = self.reverse_latency(inputs[0]) + self.reverse_latency(outputs[0]);
        let shape = ConnShape {
            segment: self.segment,
            latency: Span::ZERO,
            credit: CreditShape::After(back),
            spacing: Spacing::NONE,
        };
        let (send, recv) = self.builder.connect_junction(&inputs, &outputs, slots, &shape);
        (send.start, recv.start, Medium::Gpu)
    }

    /// Reduction and multicast by the network's switches among ranks of different nodes.
    fn in_network(&mut self, from: &[u32], to: &[u32], channel: u32, slots: u16) -> (u32, u32, Medium) {
        // Where one sends, or one receives, it is a member on the other side.
        let members = if from.len() > 1 { from } else { to };
        // All-gather and reduce-scatter ask for the same members as often as there are.
        let same = |network: &InNetwork| network.channel == channel && network.members == members;
        let known = self.in_network.take().filter(same).or_else(|| self.members_in_network(members, channel));
        let Some(network) = known else {
            let fabric = self.fabric();
            let name = |r: Option<&u32>| fabric.device(self.gpu(r.copied().unwrap_or(0))).name.clone();
            let error = RouteError::NoPath { from: name(members.first()), to: name(members.last()) };
            self.error.get_or_insert(error);
            return self.junction(&members[..1], &members[..1], slots);
        };
        let ways = &network.ways;
        let way = |rank: &u32| &ways[members.iter().position(|member| member == rank).unwrap_or(0)];
        let place = |rank: &u32| network.tree.place(way(rank).leaf);
        let meetings = network.tree.meetings(from.iter().map(place), to.iter().map(place));
        let inputs: Vec<(&[LinkId], usize)> =
            from.iter().map(|rank| (&way(rank).up[..], meetings.up[place(rank)])).collect();
        let mut outputs: Vec<Vec<(&[LinkId], Onward)>> = meetings
            .onward
            .iter()
            .map(|list| list.iter().map(|(link, to)| (core::slice::from_ref(link), Onward::Meeting(*to))).collect())
            .collect();
        for (i, rank) in to.iter().enumerate() {
            outputs[meetings.down[place(rank)]].push((&way(rank).down, Onward::Receiver(i)));
        }
        let back = self.reverse_latency(&ways[0].up) + self.reverse_latency(&ways[0].down);
        let credit = CreditShape::After(back + self.timing.clear_to_send());
        let shape =
            ConnShape { segment: self.segment, latency: self.timing.network_latency(), credit, spacing: Spacing::NONE };
        let (send, recv) = self.builder.connect_meetings(&inputs, &outputs, slots, &shape);
        self.in_network = Some(network);
        (send.start, recv.start, Medium::Network)
    }

    /// How members get to the tree of switches over them and back; `None` if some don't.
    fn members_in_network(&mut self, members: &[u32], channel: u32) -> Option<InNetwork> {
        let fabric = self.fabric();
        let nic = |rank: u32| {
            let nics = fabric.nics_of(self.gpu(rank));
            nics.get(channel as usize % nics.len().max(1)).copied()
        };
        let nics: Vec<DeviceId> = members.iter().map(|rank| nic(*rank)).collect::<Option<_>>()?;
        // Each member's way to its leaf and back is the beginning and the end of its ways to and from another.
        let network = |link: &LinkId| fabric.device(fabric.link(*link).to).kind.is_network_switch();
        let mut ways: Vec<NetworkWay> = Vec::with_capacity(members.len());
        for (i, rank) in members.iter().enumerate() {
            let other = (i + 1) % members.len();
            let (a, b) = (self.gpu(*rank), self.gpu(members[other]));
            let (near, far) = (nics[i], nics[other]);
            let up = self.route(&RouteRequest::auto(a, b).via(Via::Nics { src: near, dst: far }));
            let down = self.route(&RouteRequest::auto(b, a).via(Via::Nics { src: far, dst: near }));
            let at = up.iter().position(network)?;
            let leaf = fabric.link(up[at]).to;
            let from = down.iter().rposition(network).map_or(0, |last| last + 1);
            ways.push(NetworkWay { up: up[..=at].to_vec(), down: down[from..].to_vec(), leaf });
        }
        let mut leaves: Vec<DeviceId> = ways.iter().map(|way| way.leaf).collect();
        leaves.sort_unstable();
        leaves.dedup();
        let tree = SwitchTree::over(fabric, &leaves, channel).filter(|_| members.len() > 1)?;
        Some(InNetwork { members: members.to_vec(), channel, ways, tree })
    }

    /// The cost of `work` that shares its pass with others like it, `together` in all, where it reads host memory from there.
    fn cost(&mut self, work: Work, together: u32, host: Option<Medium>, rank: u32) -> u32 {
        let millionths = self.slow[rank as usize].map_or(NOT_SLOW, |s| s.millionths);
        let key = (work, together, host, millionths);
        if let Some((_, cost)) = self.costs.iter().find(|(known, _)| *known == key) {
            return *cost;
        }
        let mut cost: Cost = match host {
            Some(medium) => self.timing.cost_of_host(work, medium == Medium::Shared),
            None => self.timing.cost(work),
        };
        if together > 1 {
            cost.fixed = cost.fixed.scaled(1_000_000 / u64::from(together));
        }
        if millionths != NOT_SLOW {
            cost = cost.scaled(millionths);
        }
        let index = self.builder.cost(cost);
        self.costs.push((key, index));
        index
    }
}

/// The flows of a connection: queue pairs, or over TCP sockets.
fn queue_pairs(machine: &Machine<'_>) -> QpPlan {
    match machine.fabric.spec().transport {
        TransportKind::Infiniband | TransportKind::Roce => machine.comm.queue_pairs(),
        TransportKind::Tcp => machine.comm.sockets(),
        // Plugins of their own, that read none of these variables.
        TransportKind::Efa | TransportKind::Tcpxo => QpPlan { qps: 1, split: false },
    }
}

/// Bytes above which messages of a queue pair begin apart: those whose signal NCCL's own plugin for verbs sends apart; all
/// of other plugins.
fn begin_apart(machine: &Machine<'_>) -> Option<Bytes> {
    match machine.fabric.spec().transport {
        TransportKind::Infiniband => machine.comm.signals_apart(true).map(Bytes::new),
        TransportKind::Roce => machine.comm.signals_apart(false).map(Bytes::new),
        TransportKind::Efa | TransportKind::Tcp | TransportKind::Tcpxo => Some(Bytes::ZERO),
    }
}

impl LaneSink for Lowering<'_> {
    fn connect(&mut self, peers: Peers, channel: u32, slots: u16) -> u32 {
        let ends = match peers {
            Peers::Pair { from, to, rail } => self.pair(from, to, rail, channel, slots),
            Peers::Reduce { from, to } => self.junction(&from, &[to], slots),
            Peers::Multicast { from, to } => self.junction(&[from], &to, slots),
            Peers::Network { from, to } => self.in_network(&from, &to, channel, slots),
            Peers::Local { .. } => {
                let shape = ConnShape {
                    segment: self.segment,
                    latency: Span::ZERO,
                    credit: CreditShape::After(Span::ZERO),
                    spacing: Spacing::NONE,
                };
                let ends = self.builder.connect(&[], false, slots, &shape);
                (ends.send, ends.recv, Medium::Gpu)
            }
        };
        self.ends.push(ends);
        self.ends.len() as u32 - 1
    }

    fn layout(&mut self, layout: Layout) -> u32 {
        let wire = |bytes: u64| on_wire(self.protocol, bytes);
        self.builder.layout(Layout {
            total: wire(layout.total),
            chunk: wire(layout.chunk),
            last_chunk: wire(layout.last_chunk),
            min_slice: wire(layout.min_slice),
            ..layout
        })
    }

    fn lane(&mut self, rank: u32, _channel: u32, layout: u32, ops: &[LaneOp]) {
        let costs: Vec<u32> = ops
            .iter()
            .map(|op| {
                let direct = matches!(op.work, Work::Ring | Work::PointToPoint { .. })
                    && op.send.is_empty()
                    && op.recv.iter().all(|e| self.ends[e.connection as usize].2 == Medium::Gpu)
                    && !op.recv.is_empty()
                    && op.action.adds == Own::Nothing;
                let mut media = op.recv.iter().map(|e| self.ends[e.connection as usize].2);
                let host = media.find(|m| matches!(m, Medium::Shared | Medium::Host));
                let work = match op.work {
                    Work::PointToPoint { width } if direct => Work::DirectPointToPoint { width },
                    _ if direct => Work::DirectReceive,
                    work => work,
                };
                self.cost(work, op.together.max(1), host, rank)
            })
            .collect();
        let ends = &self.ends;
        self.builder.lane(rank, layout, |lane| {
            for (op, cost) in ops.iter().zip(costs) {
                if op.repeat == 0 && op.after.is_none() {
                    continue;
                }
                let recv: Vec<u32> = op.recv.iter().map(|e| ends[e.connection as usize].1 + e.side).collect();
                let send: Vec<u32> = op.send.iter().map(|e| ends[e.connection as usize].0 + e.side).collect();
                lane.step(&recv, &send, cost, op.repeat, op.chunk, op.stride);
                lane.spanning(op.span);
                if let Some(barrier) = op.after {
                    lane.after_barrier(barrier);
                }
            }
        });
    }

    fn barrier(&mut self, lanes: u32) -> u32 {
        self.builder.barrier(lanes)
    }
}

/// Bytes on the wire, flags included, of `bytes` of data.
fn on_wire(protocol: Protocol, bytes: u64) -> u64 {
    match protocol {
        Protocol::Simple => bytes,
        Protocol::Ll => bytes.saturating_mul(2),
        Protocol::Ll128 => (u128::from(bytes) * 16).div_ceil(15).min(u128::from(u64::MAX)) as u64,
    }
}
