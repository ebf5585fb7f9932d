//! The variables that something here looks at.

/// The part of the model that obeys a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reader {
    /// The search, or the facts that it sees.
    Search,
    /// The choice of algorithm, protocol, channels and chunks.
    Selection,
    /// How sends and receives are cut and ordered.
    PointToPoint,
    /// How a request becomes network messages; whoever lowers transfers reads it from [`super::Knobs`].
    Network,
    /// Which devices are joined how; whoever builds [`crate::nccl::Facts`] reads it from [`super::Knobs`].
    Topology,
}

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Algorithms,
    Protocols,
    Level,
    /// The name of a network: sockets, or another.
    Net,
    Number {
        least: i64,
        most: i64,
    },
}

const fn number(least: i64, most: i64) -> Form {
    Form::Number { least, most }
}
/// 0 or 1, or 2 for "automatic".
const SWITCH: Form = number(0, 2);
const CHANNELS: Form = number(1, 1024);
const SIZE: Form = number(4096, 1 << 40);

macro_rules! knobs {
    ($($(#[$doc:meta])* $knob:ident = $name:literal, $reader:ident, $form:expr;)*) => {
        /// An environment variable that something here looks at.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Knob {
            $($(#[$doc])* $knob,)*
        }

        impl Knob {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$knob),*];

            /// The variable's name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$knob => $name,)* }
            }

            /// The part of the model that obeys it.
            #[must_use]
            pub const fn reader(self) -> Reader {
                match self { $(Self::$knob => Reader::$reader,)* }
            }

            pub(super) const fn form(self) -> Form {
                match self { $(Self::$knob => $form,)* }
            }
        }
    };
}

knobs! {
    /// Algorithms that may be used.
    Algo = "NCCL_ALGO", Selection, Form::Algorithms;
    /// Protocols that may be used.
    Proto = "NCCL_PROTO", Selection, Form::Protocols;
    /// Least channels.
    MinNchannels = "NCCL_MIN_NCHANNELS", Selection, CHANNELS;
    /// Most channels.
    MaxNchannels = "NCCL_MAX_NCHANNELS", Selection, CHANNELS;
    /// Least thread blocks of a communicator.
    MinCtas = "NCCL_MIN_CTAS", Selection, CHANNELS;
    /// Most thread blocks of a communicator.
    MaxCtas = "NCCL_MAX_CTAS", Selection, CHANNELS;
    /// Threads per block.
    Nthreads = "NCCL_NTHREADS", Selection, number(64, 1024);
    /// Threads per block with LL128.
    Ll128Nthreads = "NCCL_LL128_NTHREADS", Selection, number(64, 1024);
    /// Buffer of Simple, bytes.
    Buffsize = "NCCL_BUFFSIZE", Selection, SIZE;
    /// Buffer of LL, bytes.
    LlBuffsize = "NCCL_LL_BUFFSIZE", Selection, SIZE;
    /// Buffer of LL128, bytes.
    Ll128Buffsize = "NCCL_LL128_BUFFSIZE", Selection, SIZE;
    /// LL128 over chip-to-chip links.
    Ll128C2c = "NCCL_LL128_C2C", Selection, SWITCH;
    /// Per-step cost of the network, ns.
    NetOverhead = "NCCL_NET_OVERHEAD", Selection, number(0, 1_000_000_000);
    /// Reduction in the NVSwitch.
    NvlsEnable = "NCCL_NVLS_ENABLE", Search, SWITCH;
    /// Channels of NVLS.
    NvlsNchannels = "NCCL_NVLS_NCHANNELS", Selection, CHANNELS;
    /// Largest chunk of NVLS, bytes.
    NvlsChunksize = "NCCL_NVLS_CHUNKSIZE", Selection, SIZE;
    /// Largest chunk of an NVLS tree, bytes.
    NvlstreeMaxChunksize = "NCCL_NVLSTREE_MAX_CHUNKSIZE", Selection, SIZE;
    /// PAT.
    PatEnable = "NCCL_PAT_ENABLE", Selection, SWITCH;
    /// Reduction in the network.
    CollnetEnable = "NCCL_COLLNET_ENABLE", Search, number(0, 1);
    /// Least nodes for it.
    CollnetNodeThreshold = "NCCL_COLLNET_NODE_THRESHOLD", Search, number(0, 1 << 24);
    /// Changing the NIC inside a node.
    CrossNic = "NCCL_CROSS_NIC", Search, SWITCH;
    /// No NIC of another GPU.
    PxnDisable = "NCCL_PXN_DISABLE", Search, number(0, 1);
    /// PXN for sends: 0 never, 1 where the path needs it, 2 always.
    P2pPxnLevel = "NCCL_P2P_PXN_LEVEL", PointToPoint, SWITCH;
    /// Least channels of sends and receives.
    MinP2pNchannels = "NCCL_MIN_P2P_NCHANNELS", PointToPoint, CHANNELS;
    /// Most channels of sends and receives.
    MaxP2pNchannels = "NCCL_MAX_P2P_NCHANNELS", PointToPoint, CHANNELS;
    /// Channels per peer over the network.
    NchannelsPerNetPeer = "NCCL_NCHANNELS_PER_NET_PEER", PointToPoint, CHANNELS;
    /// Rate that one channel is counted on for over the network, GB/s.
    P2pPerChannelNetBw = "NCCL_P2P_PER_CHANNEL_NET_BW", PointToPoint, number(1, 10_000);
    /// Step over the network, bytes.
    P2pNetChunksize = "NCCL_P2P_NET_CHUNKSIZE", PointToPoint, SIZE;
    /// Step over PCIe, bytes.
    P2pPciChunksize = "NCCL_P2P_PCI_CHUNKSIZE", PointToPoint, SIZE;
    /// Step over NVLink, bytes.
    P2pNvlChunksize = "NCCL_P2P_NVL_CHUNKSIZE", PointToPoint, SIZE;
    /// Bytes per channel up to which LL is used.
    P2pLlThreshold = "NCCL_P2P_LL_THRESHOLD", PointToPoint, number(0, 1 << 40);
    /// Local ranks that are scheduled together.
    P2pScheduleGroupSize = "NCCL_P2P_SCHEDULE_GROUP_SIZE", PointToPoint, number(1, 1024);
    /// Queue pairs per connection.
    IbQpsPerConnection = "NCCL_IB_QPS_PER_CONNECTION", Network, number(1, 128);
    /// Whether each request is cut over them.
    IbSplitDataOnQps = "NCCL_IB_SPLIT_DATA_ON_QPS", Network, number(0, 1);
    /// Threads of a connection over sockets.
    SocketNthreads = "NCCL_SOCKET_NTHREADS", Network, number(1, 16);
    /// Sockets of such a thread.
    NsocksPerthread = "NCCL_NSOCKS_PERTHREAD", Network, number(1, 16);
    /// Message size above which adaptive routing is used, bytes.
    IbArThreshold = "NCCL_IB_AR_THRESHOLD", Network, number(0, 1 << 40);
    /// Adaptive routing.
    IbAdaptiveRouting = "NCCL_IB_ADAPTIVE_ROUTING", Network, SWITCH;
    /// Farthest path for direct copies between GPUs.
    P2pLevel = "NCCL_P2P_LEVEL", Topology, Form::Level;
    /// No direct copies between GPUs.
    P2pDisable = "NCCL_P2P_DISABLE", Topology, number(0, 1);
    /// No shared host memory between GPUs that don't reach each other directly.
    ShmDisable = "NCCL_SHM_DISABLE", Topology, number(0, 1);
    /// No InfiniBand or RoCE: sockets in their place.
    IbDisable = "NCCL_IB_DISABLE", Topology, number(0, 1);
    /// The network by name; `Socket` is read.
    Net = "NCCL_NET", Topology, Form::Net;
    /// Farthest path for GPUDirect RDMA.
    NetGdrLevel = "NCCL_NET_GDR_LEVEL", Topology, Form::Level;
    /// NVLink domains over several hosts.
    MnnvlEnable = "NCCL_MNNVL_ENABLE", Topology, SWITCH;
}

impl Knob {
    /// The variable of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        // Names that NCCL still reads beside those that took their place.
        let name = match name {
            "NCCL_MIN_NRINGS" => "NCCL_MIN_NCHANNELS",
            "NCCL_MAX_NRINGS" => "NCCL_MAX_NCHANNELS",
            "NCCL_IB_GDR_LEVEL" => "NCCL_NET_GDR_LEVEL",
            name => name,
        };
        Self::ALL.iter().copied().find(|knob| knob.name() == name)
    }

    /// The name of a variable that `name` may be a slip of.
    #[must_use]
    pub fn similar(name: &str) -> Option<&'static str> {
        let upper = name.to_uppercase();
        let distance = |knob: &Self| strsim::damerau_levenshtein(knob.name(), &upper);
        let nearest = Self::ALL.iter().min_by_key(|knob| distance(knob))?;
        (distance(nearest) <= 2).then(|| nearest.name())
    }
}
