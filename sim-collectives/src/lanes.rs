//! Lanes: what each rank does on each channel, as an algorithm writes it down.
//!
//! This is the second level of a schedule. A [`Lane`] is one small sequential program; a ring all-reduce over a thousand
//! ranks is five [`LaneOp`]s a lane. Nothing here knows of routes or time: [`lower`](crate::lower) adds those, and
//! [`check`](crate::check) follows the data instead.

use sim_core::program::Layout;

/// Which NICs a transfer between nodes uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rail {
    /// Each side its own nearest one, shared out over channels.
    Own,
    /// The NICs of this GPU (index within its node) on both sides, reached over NVLink where it is another's (PXN).
    OfGpu(u32),
}

/// Between whom a connection runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peers {
    /// From one rank to another.
    Pair {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
        /// NICs, where they are on different nodes.
        rail: Rail,
    },
    /// The switch reads equal data of many ranks, reduces, and hands the result to one.
    Reduce {
        /// Whose data.
        from: Vec<u32>,
        /// Who gets the sum.
        to: u32,
    },
    /// The switch copies what one rank stores to many.
    Multicast {
        /// Who stores.
        from: u32,
        /// Who gets a copy.
        to: Vec<u32>,
    },
    /// Switches of the network reduce equal data of those on one side and hand the sum to all on the other: all-reduction
    /// where both are the same, reduction where one gets it, multicast where one sends.
    Network {
        /// Whose data; each on another node.
        from: Vec<u32>,
        /// Who gets the sum; each on another node.
        to: Vec<u32>,
    },
    /// Between lanes of one rank, in its own memory.
    Local {
        /// The rank.
        rank: u32,
    },
}

/// A connection of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Between whom.
    pub peers: Peers,
    /// The channel it belongs to.
    pub channel: u32,
    /// How many slices a sender may be ahead.
    pub slots: u16,
}

/// One end of a connection: of its `side`-th sender or receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Index in [`Lanes::connections`].
    pub connection: u32,
    /// Which sender or receiver of it; 0 on a pair.
    pub side: u32,
}

impl End {
    /// The only end on this side of a connection.
    #[must_use]
    pub const fn of(connection: u32) -> Self {
        Self { connection, side: 0 }
    }
}

/// What of its own a rank takes into an operation's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Own {
    /// Nothing.
    #[default]
    Nothing,
    /// Its input.
    Input,
    /// What an earlier operation kept of the same chunk, in its scratch memory or in its output.
    Kept,
}

/// What an operation does to data: the value is the sum of what is received and what the rank adds of its own. It is
/// stored as output if `stores`, kept for a later operation if `keeps`, and sent to every send end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// What the rank adds.
    pub adds: Own,
    /// Writes the rank's output.
    pub stores: bool,
    /// Leaves the value where a later operation of the rank finds it.
    pub keeps: bool,
}

impl Action {
    /// Sends own input, or receives, reduces and sends.
    pub const REDUCE_SEND: Self = Self { adds: Own::Input, stores: false, keeps: false };
    /// Receives, reduces, stores (and sends).
    pub const REDUCE_STORE: Self = Self { adds: Own::Input, stores: true, keeps: false };
    /// Receives, stores (and sends on).
    pub const STORE: Self = Self { adds: Own::Nothing, stores: true, keeps: false };
    /// Receives and sends on.
    pub const FORWARD: Self = Self { adds: Own::Nothing, stores: false, keeps: false };
    /// Sends what was kept, or reduces it with what is received.
    pub const KEPT: Self = Self { adds: Own::Kept, stores: false, keeps: false };

    /// The same, and the value is kept.
    #[must_use]
    pub const fn keep(self) -> Self {
        Self { keeps: true, ..self }
    }

    /// The same, and the value is the rank's output.
    #[must_use]
    pub const fn store(self) -> Self {
        Self { stores: true, ..self }
    }
}

/// What kind of work holds the lane; the timing model gives each its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// A step of a ring: copy or reduce from one peer to another.
    Ring,
    /// The last step of a ring where the peer writes straight into the output buffer.
    DirectReceive,
    /// A step of a tree.
    Tree,
    /// Copying into, or out of, the buffers that multicast works on.
    Stage,
    /// The head's multicast load-reduce and store.
    Multimem,
    /// The head's part between nodes of an NVLS tree.
    MultimemTree,
    /// One message of a point-to-point batch, of which `width` share the block's threads.
    PointToPoint {
        /// Messages in each direction that the block works on at once.
        width: u16,
    },
    /// A receive of such a message from a peer that writes straight into the output buffer.
    DirectPointToPoint {
        /// Messages that the block works on at once.
        width: u16,
    },
    /// One pass of a kernel whose threads read and write their peers' memory: the first of a phase, that waits for the
    /// peers' flags.
    Direct,
    /// A rank's share of reduction or multicast by the switch on buffers that it sees directly.
    Symmetric {
        /// Ranks that share the work.
        heads: u16,
        /// Whether it reduces and stores, or only one of the two.
        reduces: bool,
    },
    /// A copy by one of the GPU's copy engines.
    Copy,
    /// A step in which a block hands out, or collects, a chunk for each of `width` peers.
    Spread {
        /// The peers.
        width: u16,
    },
    /// Nothing that takes time.
    Free,
}

/// One operation of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneOp {
    /// What happens to the data.
    pub action: Action,
    /// What holds the lane.
    pub work: Work,
    /// From where a slice is received.
    pub recv: Vec<End>,
    /// To where one is sent.
    pub send: Vec<End>,
    /// How often in a loop.
    pub repeat: u32,
    /// The chunk of the first repetition.
    pub chunk: u32,
    /// Added to the chunk's number (modulo the layout's chunks) from one repetition to the next.
    pub stride: u32,
    /// How many chunks, from that one on (after the layout's last its first), are one message; one where the operation
    /// repeats.
    pub span: u32,
    /// How far the numbers of a message's blocks are apart, where lanes carry different blocks of equal size.
    pub apart: u64,
    /// Added to the chunk's number to name the block of data, where lanes carry different blocks.
    pub block: u64,
    /// Every end carries a chunk of its own instead of the same one, the op's, the next and so on: chunks lie in rows of so
    /// many (the layout's own number if that is less), and after a row's last comes its first. They are of equal size. 0 if
    /// all ends carry the same.
    pub spread: u32,
    /// Of so many operations like this one a kernel makes one pass, whose fixed cost they share.
    pub together: u32,
    /// Waits for the other lanes of this barrier first, where there is one (index in [`Lanes::barriers`]).
    pub after: Option<u32>,
}

impl LaneOp {
    /// An operation on one chunk.
    #[must_use]
    pub const fn new(action: Action, work: Work, chunk: u32) -> Self {
        Self {
            action,
            work,
            recv: Vec::new(),
            send: Vec::new(),
            repeat: 1,
            chunk,
            stride: 0,
            span: 1,
            apart: 1,
            block: 0,
            spread: 0,
            together: 1,
            after: None,
        }
    }

    /// Received from `end`.
    #[must_use]
    pub fn recv(mut self, end: End) -> Self {
        self.recv.push(end);
        self
    }

    /// Sent to `end`.
    #[must_use]
    pub fn send(mut self, end: End) -> Self {
        self.send.push(end);
        self
    }

    /// Every end has a chunk of its own.
    #[must_use]
    pub const fn spread(self) -> Self {
        self.spread_in(u32::MAX)
    }

    /// Every end has a chunk of its own, of a row of so many.
    #[must_use]
    pub const fn spread_in(mut self, row: u32) -> Self {
        self.spread = row;
        self
    }

    /// One of `n` that a kernel does in one pass.
    #[must_use]
    pub const fn together(mut self, n: u32) -> Self {
        self.together = n;
        self
    }

    /// On `span` chunks at once.
    #[must_use]
    pub const fn over(mut self, span: u32) -> Self {
        self.span = span;
        self
    }

    /// Repeated `n` times, the chunk's number growing by `stride`.
    #[must_use]
    pub const fn times(mut self, n: u32, stride: u32) -> Self {
        self.repeat = n;
        self.stride = stride;
        self
    }
}

/// A sequential program of one rank on one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The rank.
    pub rank: u32,
    /// The channel.
    pub channel: u32,
    /// Index in [`Lanes::layouts`]; the operations are gone through once per loop of it.
    pub layout: u32,
    /// The operations.
    pub ops: Vec<LaneOp>,
}

/// Everything that all ranks do in one collective.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lanes {
    /// Number of ranks.
    pub ranks: u32,
    /// The connections.
    pub connections: Vec<Connection>,
    /// The layouts.
    pub layouts: Vec<Layout>,
    /// The lanes.
    pub lanes: Vec<Lane>,
    /// Barriers among lanes.
    pub barriers: Vec<Barrier>,
}

/// A barrier among consecutive lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// The first lane.
    pub first: u32,
    /// How many.
    pub lanes: u32,
}

impl Lanes {
    /// No lanes yet, for `ranks` ranks.
    #[must_use]
    pub fn new(ranks: u32) -> Self {
        Self { ranks, ..Self::default() }
    }
}

/// Takes what an algorithm writes: [`Lanes`] collects it, lowering turns it into the engine's program at once.
pub trait LaneSink {
    /// Adds a connection and returns its index.
    fn connect(&mut self, peers: Peers, channel: u32, slots: u16) -> u32;

    /// Adds a layout and returns its index.
    fn layout(&mut self, layout: Layout) -> u32;

    /// Adds a lane of `rank` on `channel`.
    fn lane(&mut self, rank: u32, channel: u32, layout: u32, ops: &[LaneOp]);

    /// Adds a barrier among the next `lanes` lanes and returns its index.
    fn barrier(&mut self, lanes: u32) -> u32;
}

impl LaneSink for Lanes {
    fn connect(&mut self, peers: Peers, channel: u32, slots: u16) -> u32 {
        self.connections.push(Connection { peers, channel, slots });
        self.connections.len() as u32 - 1
    }

    fn layout(&mut self, layout: Layout) -> u32 {
        if self.layouts.last() != Some(&layout) {
            self.layouts.push(layout);
        }
        self.layouts.len() as u32 - 1
    }

    fn lane(&mut self, rank: u32, channel: u32, layout: u32, ops: &[LaneOp]) {
        self.lanes.push(Lane { rank, channel, layout, ops: ops.to_vec() });
    }

    fn barrier(&mut self, lanes: u32) -> u32 {
        self.barriers.push(Barrier { first: self.lanes.len() as u32, lanes });
        self.barriers.len() as u32 - 1
    }
}
