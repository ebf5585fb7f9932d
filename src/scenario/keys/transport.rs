//! The keys of `[transport]`. Those of controllers of rates are with the controllers.

use super::super::transport::controls;
use super::tables::TRANSPORTS;
use super::{KeySpec, Kind, TableSpec, key};

/// The ways in which one of several equal paths is taken: fixed for a flow, then those that switches choose packet by packet.
pub(crate) const PATH_CHOICES: &[&str] =
    &["hash", "destination", "min-hop", "adaptive", "flowlet", "spray", "round-robin"];
/// What keeps the buffers of switches from overflowing.
pub(crate) const FLOW_CONTROLS: &[&str] = &["none", "pfc", "drop", "credits"];
/// What is done about losses.
pub(super) const RECOVERIES: &[&str] = &["none", "go-back-n", "go-back-0", "selective"];

const SHARE: Kind = Kind::Number(0.0, 1.0);

pub(crate) static TRANSPORT: TableSpec = TableSpec {
    name: "transport",
    doc: "The protocol between NICs, and how its packets fare. `docs/transport.md` explains it by example.",
    keys: &KEYS,
};

const OWN: &[KeySpec] = &[
    key(
        "preset",
        Kind::Named("a catalogue name", "roce-400g"),
        "A set-up of the transport: its keys hold where this table doesn't set them. `fabricsim catalog NAME` shows them with \
         sources. Without it, where packets are played: ib-hdr, ib-ndr or ib-xdr, roce-lossless, or efa, by `kind` and the rate \
         of the NICs' ports.",
    ),
    key(
        "model",
        Kind::Choice(&["virtual", "packets"]),
        "virtual: links between NICs queue without bound and lose nothing. packets: every packet is played, with queues, \
         buffers, marks, pauses, credits and rate control; takes much longer. Without it, packets where a key of this \
         table is given that has no meaning without them, else virtual.",
    ),
    key(
        "kind",
        Kind::Choice(TRANSPORTS),
        "InfiniBand, RoCE v2, AWS EFA, TCP sockets, or GPUDirect-TCPXO. Without it, what the system uses, \
         else infiniband.",
    ),
    key("mtu", Kind::Size(true), "Largest payload of a packet, 256 B to 9000 B. Without it, the transport's own."),
    key(
        "packet_overhead",
        Kind::Size(true),
        "Wire bytes of a packet beyond its payload. Without it, the transport's own: 26 B on InfiniBand, 82 B with RoCE v2 (IBTA, \
         IEEE 802.3: headers, check sums, preamble and gap).",
    ),
    key(
        "path_choice",
        Kind::Choice(PATH_CHOICES),
        "How one of several equal paths is taken. Once for a flow: by a hash of it (ECMP); by the destination (d-mod-k, as \
         fat-tree tables of InfiniBand do); or dealt in turn at each switch (min-hop tables). By switches, packet by \
         packet: the shortest queue (adaptive); the same after a pause of the flow only (flowlet); by chance (spray); in \
         turn (round-robin). Without it, what the transport's switches do: destination on InfiniBand, else hash.",
    ),
    key(
        "qps",
        Kind::Integer(1, 1024),
        "Queue pairs over which a transfer is spread, each with a path of its own. Collectives have \
         NCCL_IB_QPS_PER_CONNECTION.",
    )
    .default("1"),
    key(
        "flow_control",
        Kind::Choice(FLOW_CONTROLS),
        "none: buffers have no bound. pfc: what shares a switch's buffer is paused before it overflows. drop: what finds no \
         room is lost. credits: nobody sends without room at the other end. Without it, credits on InfiniBand, drop with EFA, \
         else pfc.",
    ),
    key(
        "rate_control",
        Kind::Choice(controls::WORDS),
        "How senders slow down: not at all; a fixed window; DCQCN as published, or as in adapters' firmware; DCTCP; HPCC, with what \
         packets read in ports; Swift; TIMELY; receivers that grant what may be sent; InfiniBand's FECN/BECN with its table. Without it, none on InfiniBand, swift with EFA, else \
         dcqcn-firmware.",
    ),
    key(
        "window",
        Kind::Size(false),
        "Payload of a queue pair that may be unacknowledged, whatever the rate control allows. Without it, with rate_control fixed \
         one bandwidth-delay product of the longest path, else no bound.",
    ),
    key(
        "recovery",
        Kind::Choice(RECOVERIES),
        "What is done about losses. go-back-n: all from the gap on again. selective: what is missing again; needed where paths \
         reorder. go-back-0: the whole message again, as the first adapters did. Without it, none with credits, selective \
         where packets are dropped or reordered, else go-back-n.",
    ),
    key("packet_loss", SHARE, "Probability that a data packet is lost on each link of the network.").default("0.0"),
    key("ack_every", Kind::Integer(1, 4096), "Packets that one acknowledgement covers (assumed).").default("4"),
    key(
        "ack_size",
        Kind::Size(false),
        "Wire bytes of acknowledgements and notices. Without it, 30 B on InfiniBand, else 86 B (derived: headers with the \
         4 B of an acknowledgement).",
    ),
    key(
        "reorder",
        Kind::Integer(1, 1 << 20),
        "recovery selective: a packet counts as lost once one has come that was sent so many later. Without it, 256 where switches \
         choose paths packet by packet, else 1 (assumed).",
    ),
    key(
        "rto",
        Kind::Time,
        "Time without progress after which a sender goes back. Without it, 67.1 ms (InfiniBand's timeout 14: 4.096 us x 2^14); \
         acts where something can be lost.",
    ),
    key("retries", Kind::Integer(0, 255), "Timeouts in a row after which a sender gives up.").default("7"),
    key("flowlet_gap", Kind::Time, "path_choice flowlet: the pause after which a new path may be taken (assumed).")
        .default("50 us"),
    key(
        "inputs",
        Kind::Choice(&["fifo", "round-robin", "head-of-line"]),
        "How a port of a switch takes turns: by arrival; one packet of each \
         input in turn; or by arrival where a packet also holds up those behind it in its input, wherever they go (an input \
         queue without virtual outputs).",
    )
    .default("fifo"),
    key(
        "grain",
        Kind::IntegerOr(1, sim_core::net::spec::MOST_PACKETS as i64, &["auto"]),
        "Packets that may move as one, with an event where each had one. Messages are cut in 8 units at least, so messages of 8 times \
         as many packets use the most. auto: 16 as long as nothing can be marked, paused, dropped or lack a credit, else 1; results say \
         which and why. W118 where more than 1 met back-pressure.",
    )
    .default("1"),
    key(
        "control_class",
        Kind::Named("express, data or the name of a class", "data"),
        "Whether acknowledgements and notices go before all data and are never held (express), queue in the class of their \
         data (data), or in the class that is named. Pause frames and credits always go first.",
    )
    .default("express"),
    key("stall_check", Kind::Time, "How often ports that are held are looked through for a circle.")
        .default("1 ms"),
    key("ecn", Kind::Table(&ECN), "Marks that tell of congestion."),
    key("pfc", Kind::Table(&PFC), "flow_control pfc: pauses."),
    key("buffer", Kind::Table(&BUFFER), "flow_control pfc and drop: the buffer of a switch."),
    key("credits", Kind::Table(&CREDITS), "flow_control credits: the credits of a link."),
    key(
        "lanes",
        Kind::Integer(1, 2),
        "Virtual lanes of each class on a dragonfly: behind a link between groups a packet goes on in the second, so that ports \
         never wait for each other in a circle. Without it, 2 on a dragonfly with flow_control credits, else 1.",
    ),
    key(
        "class",
        Kind::Tables(&CLASS),
        "Classes of data, 8 with their lanes at most (priorities of IEEE 802.1Q, virtual lanes of InfiniBand): \
         `[[transport.class]]`. Workloads say by `class` which is theirs; without it, the first. Without any, there is one.",
    ),
    key("endpoint", Kind::Table(&ENDPOINT), "The NICs."),
];

/// What every transport has, then the tables of controllers.
static KEYS: [KeySpec; OWN.len() + controls::TABLES.len()] = {
    let mut keys = [OWN[0]; OWN.len() + controls::TABLES.len()];
    let mut i = 0;
    while i < keys.len() {
        keys[i] = if i < OWN.len() { OWN[i] } else { controls::TABLES[i - OWN.len()] };
        i += 1;
    }
    keys
};

static CLASS: TableSpec = TableSpec {
    name: "transport.class",
    doc: "A class of data: a queue and a turn of its own at every port, and accounts of its own in buffers.",
    keys: &[
        key("name", Kind::Named("a name", "storage"), "By which workloads and results name it.").required(),
        key("priority", Kind::Integer(0, 7), "Classes of a higher priority go first.").default("0"),
        key(
            "weight",
            Kind::Integer(1, 1000),
            "Share of wire bytes among classes of one priority that have something to send (deficit round-robin).",
        )
        .default("1"),
        key(
            "lossless",
            Kind::Boolean,
            "flow_control pfc: whether it is paused before a buffer overflows, with a reserve and a headroom of its own at each \
             input, or dropped at egress (`buffer.alpha_lossy`). Without it, true with pfc, false with drop.",
        ),
        key(
            "credits",
            Kind::Size(true),
            "flow_control credits: buffer of its lane behind each link. Without it, `credits.per_lane`.",
        ),
        key("ecn", Kind::Table(&CLASS_ECN), "Marks that differ from `[transport.ecn]`."),
    ],
};

/// Keys of marks that a class may have of its own: those of its queues, not of how marks come back.
static CLASS_ECN: TableSpec = TableSpec {
    name: "transport.class.ecn",
    doc: "Marks of a class; what it leaves out is as `[transport.ecn]` says.",
    keys: ECN_KEYS.split_at(8).0,
};

static ECN: TableSpec = TableSpec {
    name: "transport.ecn",
    doc: "Marks at the egress queues of switches, and how they come back to the sender.",
    keys: ECN_KEYS,
};

const ECN_KEYS: &[KeySpec] = &[
    key(
        "marking",
        Kind::Choice(&["off", "red", "step", "root"]),
        "red: never up to `kmin`, with a probability that rises to `pmax` at `kmax`, always beyond. step: beyond `step`. root: \
             beyond `threshold` where the port has the credit to send (InfiniBand's FECN). Without it, red for the DCQCNs, step \
             for DCTCP, root for fecn, else off.",
    ),
    key(
        "kmin",
        Kind::Size(true),
        "Wire bytes in the queue. Without it, 4 KB for each Gb/s of a NIC's port (HPCC's ns-3).",
    ),
    key(
        "kmax",
        Kind::Size(true),
        "Wire bytes in the queue. Without it, 16 KB for each Gb/s of a NIC's port (HPCC's ns-3).",
    ),
    key("pmax", SHARE, "Probability at `kmax` (HPCC's ns-3).").default("0.2"),
    key(
        "step",
        Kind::Size(true),
        "Wire bytes in the queue. Without it, a seventh of a bandwidth-delay product (DCTCP's paper).",
    ),
    key("threshold", Kind::Size(true), "Wire bytes in the queue. Without it, half of a lane's credits (assumed)."),
    key("victims", Kind::Boolean, "marking root: mark also where credits are missing.").default("false"),
    key(
        "at",
        Kind::Choice(&["enqueue", "dequeue"]),
        "Which depth counts: what a packet finds, or what it leaves behind.",
    )
    .default("enqueue"),
    key(
        "notice",
        Kind::Choice(&["packet", "echo"]),
        "How marks come back: in a packet of their own (CNP, BECN), or in the acknowledgement. Without it, packet for the DCQCNs \
             and fecn, else echo.",
    ),
    key(
        "cnp_interval",
        Kind::Time,
        "notice packet: least time between two of a flow. Without it, 4 us for dcqcn-firmware (dumps of adapters), 50 us for dcqcn \
             (its paper), else 0 us.",
    ),
    key("cnp_delay", Kind::Time, "notice packet: from the marked packet to the dispatch.").default("0 us"),
];

static PFC: TableSpec = TableSpec {
    name: "transport.pfc",
    doc: "When an input is paused, and what is kept for what arrives after that.",
    keys: &[
        key(
            "alpha",
            Kind::Number(0.0, 128.0),
            "An input is paused at this share of the shared bytes that are free (HPCC's ns-3: 1/8). Without effect beside `xoff`.",
        )
        .default("0.125"),
        key("xon_offset", Kind::Size(true), "It resumes so far below that (HPCC's ns-3).").default("3 KiB"),
        key("xoff", Kind::Size(true), "In place of `alpha`: it is paused at so many bytes of the input."),
        key("xon", Kind::Size(true), "With `xoff`: it resumes below so many. Without it, `xoff` less two packets."),
        key("reserve", Kind::Size(true), "Bytes that an input always has (HPCC's ns-3).").default("4 KiB"),
        key(
            "headroom",
            Kind::Size(true),
            "Bytes of an input for what arrives after it has asked for a pause. Without it, what can: 2 d C + 2 packets + frame + \
             response time, at the fastest and longest link.",
        ),
        key("frame", Kind::Size(true), "Wire bytes of a pause frame (IEEE 802.1Qbb: 64 B, preamble and gap).").default("84 B"),
        key(
            "response",
            Kind::Time,
            "What a sender needs to act on a frame. Without it, the bound of IEEE 802.3 in bit times of the rate: 30,720 up to 10 Gb/s, \
             40,960 up to 25, 60,416 up to 40, 201,728 up to 100, 463,360 up to 400 Gb/s, twice that beyond (assumed).",
        ),
        key(
            "acts_after",
            Kind::Time,
            "When a pause acts, counted from the decision, in place of the frame's way and `response`: what simple simulators do.",
        ),
        key(
            "quanta",
            Kind::Integer(0, 65_535),
            "How long a frame pauses, in quanta of 512 bit times; it is sent again at half of that. 0: until it is ended.",
        )
        .default("0"),
        key(
            "watchdog",
            Kind::Time,
            "How long a port may be held before what it queues is dropped. Without it, for ever; operators set about 200 ms.",
        ),
        key(
            "nic_watchdog",
            Kind::Time,
            "How long a NIC whose receive pipeline has stopped may pause its switch before it is kept from it (a fault `pause-storm` of \
             a NIC). Without it, for ever; adapters act after 100 ms (SIGCOMM 2016).",
        ),
    ],
};

static BUFFER: TableSpec = TableSpec {
    name: "transport.buffer",
    doc: "The packet buffer of a switch.",
    keys: &[
        key(
            "size",
            Kind::Size(true),
            "Bytes of each switch. Without it, what the catalogue has for it; where it has nothing, the least of the others, else 32 MiB \
             (HPCC's ns-3).",
        ),
        key(
            "alpha_lossy",
            Kind::Number(0.0, 128.0),
            "flow_control drop: the share of free bytes that an egress queue may fill (assumed).",
        )
        .default("1.0"),
        key("limit", Kind::Size(true), "flow_control drop: the most bytes of an egress queue. Without it, no bound but the share."),
        key(
            "freed",
            Kind::Choice(&["at-end", "at-start"]),
            "When the room of a packet is free: when its tail has left, or when it begins to leave, as simple simulators do.",
        )
        .default("at-end"),
    ],
};

static CREDITS: TableSpec = TableSpec {
    name: "transport.credits",
    doc: "Credits of a link and virtual lane, in blocks of 64 B.",
    keys: &[
        key(
            "per_lane",
            Kind::Size(true),
            "Buffer behind a link, at most 128 KiB (2,048 blocks, IBTA volume 1). Without it, 64 KiB up to 200 Gb/s, else 128 KiB \
             (assumed).",
        ),
        key("release", Kind::Time, "From the departure of a packet to the dispatch of its credit (assumed).")
            .default("300 ns"),
        key("packet", Kind::Size(true), "Wire bytes of a flow-control packet (IBTA volume 1).").default("8 B"),
    ],
};

static ENDPOINT: TableSpec = TableSpec {
    name: "transport.endpoint",
    doc: "What NICs hold.",
    keys: &[
        key("fetch", Kind::Size(false), "What a NIC reads of a queue pair's messages before it sends (assumed).")
            .default("256 KiB"),
        key(
            "rx_xoff",
            Kind::Size(false),
            "A NIC holds its switch's port when so many received bytes wait for the link behind it (assumed).",
        )
        .default("512 KiB"),
        key("rx_xon", Kind::Size(true), "It lets go when no more than so many wait (assumed).").default("256 KiB"),
        key(
            "jitter",
            SHARE,
            "The largest random gap after a packet, as a share of its time. Senders that are in step otherwise decide by their phase \
             whose packets a full queue drops.",
        )
        .default("0.0"),
    ],
};
