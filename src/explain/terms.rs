//! Half a page on each term of the field that fabricsim's output uses.

/// A term with its page.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    /// The term, in lower case.
    pub name: &'static str,
    /// Other spellings it is found by.
    pub aliases: &'static [&'static str],
    /// A line saying what it is.
    pub title: &'static str,
    /// The page: formula, example, source.
    pub page: &'static str,
}

const fn term(name: &'static str, aliases: &'static [&'static str], title: &'static str, page: &'static str) -> Term {
    Term { name, aliases, title, page }
}

/// All terms, in alphabetical order.
pub const TERMS: &[Term] = &[
    term("algbw", &["algorithm-bandwidth"], "size divided by time, GB/s", "\
algbw = S / T, with S the size column of nccl-tests and T the time of one operation. It is what an application sees: how
fast a buffer of that size is dealt with. It falls with the number of ranks even on perfect links, so it does not compare
with a link's rate; `explain busbw` does.

Example: an all-reduce of 1 GiB in 2.9 ms has algbw 1.0737 GB / 2.9 ms = 370 GB/s.
Source: NVIDIA nccl-tests, doc/PERFORMANCE.md."),
    term("alpha-beta", &["alpha", "beta", "hockney"], "time of a transfer: T = alpha + n / beta", "\
alpha is the fixed cost of a transfer (seconds), beta the rate of the link (bytes per second, one direction):

    T(n) = alpha + n / beta          achieved = n / T = beta / (1 + alpha beta / n)

Small messages pay alpha, large ones n / beta; they are equal at n = alpha beta (`explain nhalf`).

Example: 450 GB/s and 1 us: 64 KiB take 1.146 us, 57.2 GB/s.
    $ fabricsim ab --link nvlink=450GBps,1us
Source: R. Hockney, The communication challenge for MPP, Parallel Computing 20 (1994)."),
    term("bisection", &["bisection-bandwidth"], "what crosses from one half of the cluster to the other", "\
The rate, one direction, from the first half of the NVLink domains (nodes, where each is a domain) to the second, over the
network; with one domain only, from the first half of its GPUs to the second. Uniform all-to-all sends half of its network
bytes across, so its time is at least (bytes across) / bisection. A non-blocking fabric has (NICs / 2) x rate; an
oversubscription of 2:1 at the leaves halves it. It is not the least over all halvings, which is the same on fabrics whose
halves are alike.

    $ fabricsim topo cluster.toml --format json      # results.bisection_GBps"),
    term("busbw", &["bus-bandwidth"], "algbw scaled so that it compares with a link's rate, GB/s", "\
busbw = algbw x factor, n ranks:

    all_reduce                         2 (n - 1) / n
    all_gather, reduce_scatter         (n - 1) / n
    alltoall                           (n - 1) / n
    broadcast, reduce, sendrecv        1

The factor is the number of times each byte must cross a GPU's link in a ring, so a ring that fills its links shows
busbw = the link's rate, at any n. Algorithms that reduce in the switch (NVLS) move fewer bytes and can show more busbw
than the wire carries: look at `utilization` for the wire.

Example: 8 ranks, algbw 277 GB/s: busbw = 277 x 14/8 = 485 GB/s.
Source: NVIDIA nccl-tests, doc/PERFORMANCE.md."),
    term("channel", &["channels", "nchannels"], "one of NCCL's parallel pipelines, one thread block a GPU", "\
NCCL cuts an operation into channels. Each is one thread block per GPU with its own buffers and its own ring or tree, so a
GPU drives up to channels x (rate of one block, about 20 GB/s) of data. Too few channels cap the rate below the links';
too many cost latency. NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS bound the number."),
    term("chunk", &["slice", "segment", "step"], "units of pipelining: message, chunk, slice, segment", "\
A message is what the application asked for. A channel works through it chunk by chunk; a chunk is passed on in slices, and
a buffer slot holds one slice (or more) so that a sender can run ahead of its receiver. A segment is the simulator's unit on
a link: at most a slice, and one MTU where queues are modelled packet by packet. Smaller units fill pipelines sooner and
cost more per byte."),
    term("credits", &["vl", "virtual-lane", "credit"], "InfiniBand's permission to send", "\
InfiniBand never drops for lack of room: the far end of a link announces, in blocks of 64 B and for each virtual lane, what it
can hold, and a port sends only what fits. Credits come back when a packet has left the far node's buffer. With V bytes of
credit and a round of t = 2 d + release + packet of credits + one full packet,

    rate = min(C, V / t)

A port without credits waits, and so does all that is behind it, wherever it is bound for: a bottleneck at C/k settles to
exactly C/k with full buffers back to the senders.

Example: 400 Gb/s, 300 ns to release, packets of 4122 B: 64 KiB are enough up to 93 m, 128 KiB up to 224 m.
    [transport] preset = \"ib-ndr\"
Source: InfiniBand Architecture Specification, volume 1, section 7.9."),
    term("dcqcn", &["cnp", "rocev2-cc"], "RoCE's rate control by marks", "\
Switches mark packets where queues are long (`explain ecn`), the receiver sends a notice (CNP) for marked packets at most once
in an interval, and the sender cuts its rate R to R (1 - alpha / 2) and rises again: first halfway to what it had, then by a
step each timer and each so many bytes. alpha follows the share of intervals with marks.

As shipped in adapters it differs from the paper: alpha moves on a timer of its own, cuts happen once in 4 us at most, and a cut
keeps the old target unless the rate has risen since. The same incast takes 0.68 ms with the paper's timers and 1.1 ms with
firmware's, so every result lists the set in force.

    [transport] rate_control = \"dcqcn-firmware\"     # or \"dcqcn\"; [transport.dcqcn] has all values
Source: Y. Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015; docs/models.md."),
    term("dead", &["dead-link", "lost"], "a link or device that does not work at all", "\
A fault of the kind `dead` takes a link out of all routes, and of a device all its links. Routes go around it: a GPU that has
lost its NIC takes the nearest other, one that has lost its NVLinks goes over PCIe. GPUs that can't be reached any more are
an error (`explain E036`), and so is work on a dead GPU (`explain E037`).

    $ fabricsim topo cluster.toml --fault \"spine0 dead\""),
    term("dragonfly", &["router"], "groups of routers, every group linked to every other", "\
`a` routers make a group and are joined all to all; each has `p` ports for NICs and `h` links to other groups. Minimal routes
cross at most one link between groups: local, global, local. At most a h + 1 groups are possible; balanced is a = 2 p = 2 h.

    $ fabricsim explain bisection
Source: J. Kim et al., Technology-driven, highly-scalable dragonfly topology, ISCA 2008."),
    term("dual-tor", &["dual-plane"], "the two ports of a NIC go to two leaves", "\
Each NIC has two ports, each to a leaf of a pair, so that the loss of a leaf halves a NIC's rate and cuts off nobody. With two
planes each side has spines of its own; with one they are shared. A message is spread over both ports.

    $ fabricsim topo --system hgx-h100 --nodes 4 --fabric dual-tor"),
    term("ecmp", &["hash", "equal-cost"], "equal-cost paths chosen by a hash", "\
A switch with several equally short ways picks one by a hash of the packet's header, so a flow stays on one path and in
order. With few large flows the hash puts several on one link and none on another: with k flows on k links the fullest has
about ln k / ln ln k flows. More queue pairs per connection, packet spraying or adaptive routing even it out.

    $ fabricsim path cluster.toml node0.gpu0 node5.gpu0      # the path, and how many equal ones there are"),
    term("ecn", &["red", "mark", "kmin", "kmax", "fecn"], "marks that tell of a queue", "\
A switch marks a packet by the depth q of its egress queue: never up to kmin, always beyond kmax, between them with a
probability that rises to pmax:

    p(q) = pmax (q - kmin) / (kmax - kmin)

Marks look at egress, pauses (`explain pfc`) at ingress. So that senders slow down before anything is paused, kmin must be
below the threshold of pauses: with n ports that share B bytes, headroom h each and a share a,
kmin < a (B - n h) / (n (1 + a)).

Example: HPCC's simulator has kmin = 4 KB and kmax = 16 KB for each Gb/s, pmax 20 %.
Source: DCQCN, SIGCOMM 2015, section 4."),
    term("interval", &["90-interval", "uncertainty", "spread"], "where nine of ten healthy clusters measure", "\
`bench`, `run` and `compare` with `--interval` give each time of a collective a 90 % interval, time x exp(+-1.645 sigma), with

    sigma^2 = what one standard deviation of each group of timing parameters does to the time, squared and summed
            + other draws of hashed paths + what no value of the parameters follows + scatter from run to run

A measurement outside is a reason to look at the cluster. After `fabricsim fit` on a log of it, intervals are narrower.

    $ fabricsim bench all_reduce --system hgx-h100 --interval          docs/intervals.md has the shares of rows that are in"),
    term("leaf", &["spine", "leaf-spine", "core", "tor"], "switch tiers of a fabric", "\
NICs plug into leaf switches; leaves plug into spines; in three tiers, spines plug into cores. A radix-64 switch used as a
non-blocking leaf has 32 ports down and 32 up. Traffic between NICs on one leaf crosses 1 switch, on two leaves 3."),
    term("ll", &["ll128", "simple", "protocol"], "NCCL's protocols: LL, LL128, Simple", "\
LL      each 8-byte store carries 4 bytes of data and 4 of flag: no waiting, half of the wire. Small messages.
LL128   each 128-byte line carries 120 of data and 8 of flag: low latency, 94 % of the wire. Needs NVLink or equivalent.
Simple  data, then one flag per slice with a memory fence: the full wire, microseconds per slice. Large messages.

NCCL picks by the predicted time; `fabricsim bench OP --explain` shows the candidates."),
    term("nhalf", &["n1/2", "half-bandwidth", "half-bandwidth-point"], "the size at which a link reaches half its rate", "\
n1/2 = alpha x beta. A message of that size spends as long on the fixed cost as on the wire, so it runs at half the rate. A
fraction f of the rate needs f / (1 - f) times as much: 90 % needs 9 n1/2, 99 % needs 99 n1/2.

Example: 450 GB/s and 1 us: 450,000 B = 439 KiB.
    $ fabricsim ab --link nvlink=450GBps,1us --reach 225GBps,405GBps"),
    term("nvls", &["nvlink-sharp", "multicast", "nvlstree"], "reduction and multicast inside NVSwitch", "\
With NVSwitch of the Hopper generation and later a GPU can read the sum of all GPUs' values from the switch and write one
value to all. An all-reduce then loads each GPU's link by about S (1 + 1/heads) per direction in place of the ring's
2 S (n - 1) / n. NVLSTree does so within a node and runs a tree between nodes. NCCL_NVLS_ENABLE=0 turns it off."),
    term("origin", &["origins", "fitted", "assumed", "spec", "measured"], "where a timing parameter comes from: S, M, F or A", "\
S spec: a data sheet. M measured: read off a measurement. F fitted: the least error over named measurements. A assumed: nobody
measured it here, a neighbour's value or a guess. Every answer that rests on timing parameters says how many of each it asked
for; JSON lists them with value, origin and source (results.parameters).

    $ fabricsim bench all_reduce --system hgx-h100 --format json
    $ fabricsim fit nccl.log --system hgx-h100 --out profile.toml      makes A and F of elsewhere to F of this cluster"),
    term("oversubscription", &["oversub", "blocking"], "rate into the leaves divided by rate out of them", "\
Sum of the rates of a leaf's ports to NICs over the sum of its ports to spines. 1 (1:1) is non-blocking; 2 (2:1) halves what
can leave the leaf when all NICs send at once. Rail-optimized fabrics feel it little as long as traffic stays on its rail."),
    term("path-class", &["nvl", "pix", "pxb", "phb", "node", "sys", "net", "topo-m"], "NVL, PIX, PXB, PHB, NODE, SYS, NET", "\
As `nvidia-smi topo -m` prints them, best to worst:

    NV#    # bonded NVLinks
    PIX    at most one PCIe switch
    PXB    several PCIe switches, not the host bridge
    PHB    a PCIe host bridge (the CPU)
    NODE   between host bridges of one NUMA node
    SYS    between NUMA nodes, over the socket link
    NET    over the network (fabricsim's addition)

    $ fabricsim topo cluster.toml"),
    term("peer", &["peer-to-peer", "p2p"], "one device reads or writes another's memory without host memory", "\
Two GPUs below one PCIe switch or root complex are peers if the platform lets PCIe writes pass between them (ACS off, no
IOMMU in the way); data then don't stop over in host memory. Where they are no peers, they are copied there and back:
two crossings of PCIe in place of one. `via = \"direct\"` and `via = \"host\"` ask for one or the other.

    $ fabricsim path cluster.toml node0.gpu0 node0.gpu1 --no-nvlink --host never"),
    term("pfc", &["pause", "roce", "xoff", "headroom"], "pauses that keep Ethernet from dropping", "\
Priority flow control (IEEE 802.1Qbb): an input of a switch that holds too much asks its sender to pause, and lets it go when it
holds less. Nothing is dropped if there is room for what arrives after that (headroom):

    H = 2 d C + S (before the frame) + 84 B + t C (response) + S (under way)

A pause stops all of a class on a link, wherever it is bound for: flows that have no part in the congestion become victims,
and pauses spread upstream hop by hop. Ports that wait for each other in a circle deadlock. Lossless RoCE relies on pauses
and marks (`explain ecn`), lossy RoCE on marks and retransmission, InfiniBand on credits (`explain credits`).

Example: 400 Gb/s, 100 m, packets of 4178 B: H = 116.4 KB with the response time of IEEE 802.3.
    [transport] preset = \"roce-400g\"       # and `run` names roots and victims
Source: IEEE 802.1Qbb; DCQCN, SIGCOMM 2015, sections 2 and 4."),
    term("pxn", &["pcie-x-nvlink"], "PCI x NVLink: send through a GPU on the right rail", "\
In a rail-optimized fabric NIC r of every node is on the leaf of rail r. GPU 3 that sends to GPU 5 of another node would cross
the spines. With PXN it hands the data over NVLink to its node's GPU 5, whose NIC is on the target's rail: one switch in
place of three, and messages to one target can be joined. NCCL_PXN_DISABLE=1 turns it off.

Example: 4 nodes x 8 GPUs: of 992 ordered pairs 224 are NVLink, 96 same rail, 672 cross-rail; PXN takes those 672 off the
spines.   $ fabricsim topo scenarios/rail-4x8.toml"),
    term("rail", &["rail-optimized", "rails"], "the NICs of one position on all nodes, and their leaf", "\
In a rail-optimized fabric the NIC of GPU r plugs into a leaf that serves position r on all nodes of the group. Ring and tree
traffic between nodes stays on its rail: one switch. Only cross-rail traffic sees the spines."),
    term("rail-only", &["rail-only-fabric"], "rails that no switch joins", "\
Each rail is a network of its own. GPUs of different rails in different nodes have no path over switches; data go over NVLink
to the GPU on the right rail and out of its NIC (`explain pxn`). It saves the spines, or the uplinks to them.

    $ fabricsim topo --system hgx-h100 --nodes 4 --fabric rail-only
Source: W. Wang et al., Rail-only: a low-cost high-performance network for training LLMs, 2023."),
    term("rank", &["group", "communicator"], "a GPU's number in a communicator", "\
One rank is one GPU. Ranks are numbered node by node: rank 9 on nodes of 8 GPUs is `node1.gpu1`. A group (NCCL: communicator)
is the set of ranks that take part in a collective."),
    term("ring", &["tree", "collnet", "algorithm"], "NCCL's algorithms", "\
ring       2 (n - 1) steps for an all-reduce, each of S / n: full bandwidth, latency grows with n
tree       double binary tree: 2 log2(n) steps, each rank is inner in one tree and leaf in the other
nvls       reduced in the NVSwitch, one node (one NVLink domain)
nvls_tree  nvls within the node, a tree between nodes

    ring time with k = 1 slice per chunk: 2 (n - 1) (alpha + S / (n beta))
Source: NCCL src/graph/tuning.cc and src/device."),
    term("utilization", &["wire"], "share of time that a link was sending, 0 to 1", "\
Bytes on the wire (payload and headers) over what the link could have sent in the window: for a collective from its start to
its end. Above 0.9 the link is the bottleneck; all links far below 1 means latency or the library's own rate is."),
    term("xgmi", &["infinity-fabric"], "AMD's links between GPUs, a mesh within a node", "\
Every GPU of a node has a link of its own to every other, so a pair has the rate of one link while all pairs together have
that of all of them: a GPU with 7 links of 64 GB/s sends 64 GB/s to one peer, 448 GB/s to all seven. No switch is in
between, and rates are per direction, as everywhere here.

    [node]
    xgmi = { rate = \"64 GB/s\", mesh = 8 }      # docs/hardware.md, NVLink and xGMI"),
];

#[cfg(test)]
mod tests {
    use super::TERMS;

    #[test]
    fn terms_are_sorted_and_aliases_lead_to_one_page() {
        assert!(TERMS.windows(2).all(|w| w[0].name < w[1].name));
        let mut all: Vec<_> = TERMS.iter().flat_map(|t| t.aliases.iter().chain([&t.name])).collect();
        let before = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), before);
    }
}
