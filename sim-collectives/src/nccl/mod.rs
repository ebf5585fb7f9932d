//! How NCCL decides: pure functions from what the library sees to what it does.
//!
//! The model follows NCCL 2.30.7 (`src/graph/*.cc`, `src/enqueue.cc`, `src/include/device.h`); what differs from 2.18
//! on is applied by [`Version`]. It works in the order in which the library does:
//!
//! 1. [`Facts`] are what the topology detection finds; [`search`] turns them into [`Graphs`].
//! 2. [`Communicator`] holds the graphs, the channel count and one [`CostTable`] per collective.
//! 3. [`Communicator::choose`] picks the cheapest [`Algorithm`] and [`Protocol`], then channels and threads;
//!    [`Communicator::candidates`] says why a combination is not offered.
//! 4. [`split`] divides the data over channels, [`Communicator::chunking`] cuts a channel's portion into chunks.
//! 5. [`double_binary_tree`], [`p2p_rounds`] and [`qp_split`] give the shapes that the transfers follow.
//!
//! Units are NCCL's own, so that its constants can be read against the source: latencies in µs, bandwidths in GB/s
//! (10⁹ bytes per second, **one direction**), sizes in bytes. The predicted times pick an algorithm; they are
//! not what the simulator reports.
//!
//! ```
//! use sim_collectives::nccl::{Algorithm, Communicator, Facts, Knobs, Operation, Version};
//!
//! let facts = Facts::nvswitch(90, 8, 1);
//! let comm = Communicator::new(facts, Version::NEWEST, Knobs::default())?;
//! assert_eq!(comm.channels(), 24);
//! assert_eq!(comm.choose(Operation::AllReduce, 1 << 20)?.algorithm, Algorithm::Ring);
//! assert_eq!(comm.choose(Operation::AllReduce, 1 << 30)?.algorithm, Algorithm::Nvls);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod algorithm;
mod channels;
mod choose;
mod chunks;
mod communicator;
mod datatype;
mod facts;
mod given;
mod graph;
mod graph_search;
mod knobs;
mod links;
mod nccl_tests;
mod notes;
mod nvls;
mod operation;
mod p2p;
mod path;
mod protocol;
mod qp;
mod rings;
mod tree;
mod tuner;
mod tuning;
mod version;

pub(crate) use algorithm::fold;
pub use algorithm::{Algorithm, UnknownName};
pub use channels::{Blocks, ChannelCursor, ChannelPart, ChannelSplit, blocks, split, threshold};
pub use choose::{Candidate, Choice, NoCandidate, Verdict};
pub use chunks::{Buffers, Chunking};
pub use communicator::Communicator;
pub use datatype::{Datatype, Element, Reduction};
pub use facts::{CrossNic, Facts, FactsError, HostCpu};
pub use given::{GivenChannels, GivenGraph};
pub use graph::{Graph, Graphs, Pattern};
pub use graph_search::{search, search_as};
pub use knobs::{Effect, Knob, KnobError, Knobs, NameList, Reader};
pub use links::{intel_model, nic_gbps, nvlink_gbps, pci_gbps, socket_gbps};
pub use nccl_tests::{TestCount, algorithm_bandwidth, bus_bandwidth, bus_factor, test_count};
pub use nvls::NvlsPlan;
pub use operation::Operation;
pub use p2p::{P2pPlan, PeerLink, p2p_rounds};
pub use path::PathType;
pub use protocol::Protocol;
pub use qp::{QpPlan, qp_split};
pub use rings::{RingLoops, ring_loops, slices_of_chunk};
pub use tree::{TreeNode, double_binary_tree};
pub use tuner::{Tuned, TunerError, TunerFile};
pub use tuning::{Cost, CostTable, Reason, cost_table};
pub use version::{Version, VersionError};
