//! What a packet network is told: its ports, nodes, traffic classes, buffers and marking.
//!
//! Ports are numbered as the links whose sending side they are. Control packets (acknowledgements, notices, pause
//! frames, credits) have no class: they go before all data, are never held and take no buffer.

use super::SpecError;
use crate::network::Forwarding;
use crate::units::{Bytes, Rate, Span, Time};

/// Most traffic classes of data.
pub const MOST_CLASSES: usize = 8;

/// Most packets that move as one.
pub const MOST_PACKETS: u32 = 64;

/// A packet network. The default has no node and one lossless class; `NetSpec { ports, .., ..NetSpec::default() }` names
/// what differs.
#[derive(Clone, Debug)]
pub struct NetSpec {
    /// Seed of all draws.
    pub seed: u64,
    /// Payload of a full packet.
    pub mtu: u32,
    /// Wire bytes of a packet beside its payload.
    pub overhead: u32,
    /// Wire bytes of a control packet.
    pub control_size: u32,
    /// Whether a node is an endpoint (it has queue pairs and takes what arrives at once) or forwards.
    pub endpoints: Vec<bool>,
    /// The sending side of each link.
    pub ports: Vec<PortSpec>,
    /// Classes of data, the most urgent first.
    pub classes: Vec<ClassSpec>,
    /// What keeps buffers from overflowing.
    pub flow_control: FlowControlSpec,
    /// How a forwarding node's port takes turns between the links that packets came over.
    pub inputs: Inputs,
    /// How often a network in which ports are held is looked through for a cycle.
    pub stall_check: Span,
    /// How long a port may be held before what it queues is dropped until it is released; `None`: for ever.
    pub watchdog: Option<Span>,
    /// After how long without a packet that arrives and was not there before, although there is something to send, the run is
    /// given up; `None`: never.
    pub no_progress: Option<Span>,
    /// The most packets that move as one, 1 to [`MOST_PACKETS`] (see [`unit`](super::unit)).
    pub grain: u32,
    /// Units only as long as nothing can be marked, paused, dropped or lack a credit ([`coarse`](super::coarse)).
    pub only_if_free: bool,
    /// Units that a message is cut in at least, as long as a unit has more than one packet.
    pub least_units: u32,
    /// Whether control packets go before all data, or wait in a class of data as others do.
    pub control: Control,
    /// Buffers of single nodes that differ from what [`SharedSpec`] says.
    pub buffers: Vec<NodeBuffer>,
    /// Devices that pause the port that feeds them.
    pub storms: Vec<Storm>,
    /// What receivers grant to the queue pairs that ask ([`Receiver`](crate::rate_control::Receiver)).
    pub grants: Option<GrantSpec>,
    /// What is recorded beside the counters.
    pub observe: Observe,
    /// Ports behind whose links a packet goes on in the next class. Where every circle of ports has such a link, and no route
    /// goes round one in a single class, packets never wait for each other in a circle. Choices of a path take as few of these
    /// links as they can.
    pub raises: Vec<u32>,
    /// With credits: the buffer behind each link by class; empty: [`CreditSpec::buffer`] for all.
    pub lanes: Vec<Bytes>,
}

impl Default for NetSpec {
    fn default() -> Self {
        Self {
            seed: 1,
            mtu: 4096,
            overhead: 82,
            control_size: 86,
            endpoints: Vec::new(),
            ports: Vec::new(),
            classes: vec![ClassSpec { priority: 0, weight: 1, lossless: true, marking: Marking::Off }],
            flow_control: FlowControlSpec::Unlimited,
            inputs: Inputs::Fifo,
            stall_check: Span::from_us(1_000),
            watchdog: None,
            no_progress: None,
            grain: 1,
            only_if_free: false,
            least_units: 8,
            control: Control::Express,
            buffers: Vec::new(),
            storms: Vec::new(),
            grants: None,
            observe: Observe::default(),
            raises: Vec::new(),
            lanes: Vec::new(),
        }
    }
}

/// Who control packets (acknowledgements, reports of gaps, notices, grants) wait for. Pause frames and credits always go
/// first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Control {
    /// Nobody: before all data, never held, no buffer taken.
    #[default]
    Express,
    /// They are packets of this class, before the data of it at endpoints, and paused and dropped as such.
    Class(u8),
    /// The same in the class of the data of their queue pair.
    WithData,
}

/// The shared buffer of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeBuffer {
    /// The node.
    pub node: u32,
    /// Its bytes.
    pub size: u64,
    /// The share of its free bytes that an input may have ([`Threshold::Dynamic`]), in 2⁻¹⁶.
    pub alpha: u64,
}

/// A device that pauses a class of the port that feeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    /// The port that is paused.
    pub port: u32,
    /// The class.
    pub class: u8,
    /// From when on.
    pub from: Time,
    /// Until when; [`Time::MAX`]: for ever.
    pub until: Time,
}

/// Admission by receivers: a queue pair asks for what it has to send, and each endpoint grants in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantSpec {
    /// Payload bytes that an endpoint has granted at once and not received.
    pub budget: u64,
    /// Payload bytes of a grant.
    pub unit: u64,
}

/// What is recorded beside the counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observe {
    /// From when on depths of queues are counted.
    pub from: Time,
    /// Until when, and the last sample of a series.
    pub to: Time,
    /// Time between two samples; zero: no series.
    pub interval: Span,
    /// Ports whose queues are sampled.
    pub ports: Vec<u32>,
    /// Queue pairs that are sampled.
    pub flows: Vec<u32>,
    /// Queue pairs that are sampled as well, by their ends.
    pub between: Vec<Between>,
    /// The most samples of all ports and queue pairs together; beyond, every other instant is dropped.
    pub most: usize,
}

impl Observe {
    /// Samples of a network, in all: about 50 MB.
    pub const MOST: usize = 1 << 21;
}

/// Queue pairs by their ends: for each node whether it may be where they begin, and where they end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Between {
    /// Where they begin.
    pub from: Vec<bool>,
    /// Where they end.
    pub to: Vec<bool>,
}

impl Default for Observe {
    fn default() -> Self {
        Self {
            from: Time::ZERO,
            to: Time::MAX,
            interval: Span::ZERO,
            ports: Vec::new(),
            flows: Vec::new(),
            between: Vec::new(),
            most: Self::MOST,
        }
    }
}

/// A port.
#[derive(Clone, Copy, Debug)]
pub struct PortSpec {
    /// Raw rate of the link.
    pub rate: Rate,
    /// Propagation and device latency.
    pub latency: Span,
    /// The node it sends from.
    pub near: u32,
    /// The node it sends to.
    pub far: u32,
    /// The link of the other direction.
    pub twin: u32,
    /// How both its ends forward.
    pub forwarding: Forwarding,
    /// Every so manieth data packet is lost on the wire; 0: none.
    pub lose_every: u32,
    /// The probability that a data packet is lost on the wire, in 2⁻³².
    pub lose_per_2_32: u32,
}

/// A class of data.
#[derive(Clone, Copy, Debug)]
pub struct ClassSpec {
    /// Classes of a higher priority go first.
    pub priority: u8,
    /// Share of wire bytes among classes of one priority.
    pub weight: u16,
    /// Whether it is paused rather than dropped.
    pub lossless: bool,
    /// Marking at egress.
    pub marking: Marking,
}

/// When a packet is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// Never.
    Off,
    /// By the depth of the egress queue in wire bytes: never up to `kmin`, with a probability that rises to `pmax` at
    /// `kmax`, always beyond.
    Red {
        /// Depth up to which nothing is marked.
        kmin: u32,
        /// Depth beyond which all is marked.
        kmax: u32,
        /// Probability at `kmax`, in 2⁻³².
        pmax: u32,
        /// Which depth counts.
        at: MarkAt,
    },
    /// By the depth of the egress queue, if the packet has the credit to leave (a port that lacks credits is a victim and
    /// not the root of a congestion).
    Root {
        /// Depth beyond which it is marked.
        threshold: u32,
        /// Mark also where credits lacked.
        victims: bool,
    },
}

/// Which depth decides a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkAt {
    /// What the packet finds before itself.
    Enqueue,
    /// What it leaves behind.
    Dequeue,
}

/// Turns between inputs at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Inputs {
    /// In order of arrival.
    #[default]
    Fifo,
    /// One packet of each input that has some, in turn.
    RoundRobin,
    /// In order of arrival; a packet waits in its input, with those of its class behind it, until the one before it there
    /// has left.
    HeadOfLine,
}

/// What keeps buffers from overflowing.
#[derive(Clone, Debug)]
pub enum FlowControlSpec {
    /// Nothing: buffers have no bound.
    Unlimited,
    /// A shared buffer: lossless classes pause their inputs, others drop.
    Shared(SharedSpec),
    /// Credits per link and class (virtual lane).
    Credits(CreditSpec),
}

/// A shared buffer, the same at every forwarding node.
#[derive(Clone, Copy, Debug)]
pub struct SharedSpec {
    /// Bytes of a node.
    pub size: u64,
    /// Ports that have a reserve and headroom set aside; `None`: the links that end at the node.
    pub ports: Option<u32>,
    /// When an input is paused.
    pub threshold: Threshold,
    /// Bytes that an input always has, of each lossless class.
    pub reserve: u64,
    /// Bytes of an input, of each lossless class, for what arrives after it has asked for a pause.
    pub headroom: u64,
    /// The share of free bytes that an egress queue of a lossy class may fill, in 2⁻¹⁶.
    pub lossy_alpha: u64,
    /// The most bytes of an egress queue of a lossy class.
    pub lossy_limit: u64,
    /// The frame that asks for a pause or ends it.
    pub pause: PauseSpec,
    /// When a packet's room is free again.
    pub freed: Freed,
}

/// When the room of a packet that leaves is free again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freed {
    /// When its tail has left.
    #[default]
    AtEnd,
    /// When it begins to leave, as simulators have it that give a packet back whole to the wire.
    AtStart,
}

/// When an input of a lossless class is paused.
#[derive(Clone, Copy, Debug)]
pub enum Threshold {
    /// At `xoff` bytes of the input and above, until it holds less than `xon`.
    Static {
        /// Pauses.
        xoff: u64,
        /// Resumes below it.
        xon: u64,
    },
    /// At a share of the shared bytes that are free, until it is `offset` below.
    Dynamic {
        /// The share, in 2⁻¹⁶.
        alpha: u64,
        /// How far below it an input resumes.
        offset: u64,
    },
}

/// A pause frame.
#[derive(Clone, Copy, Debug)]
pub struct PauseSpec {
    /// Bytes that it takes on the wire.
    pub wire: u32,
    /// When it takes effect, counted from the decision; `None`: when the frame has arrived and `response` is over.
    pub acts_after: Option<Span>,
    /// What the receiver of a frame needs to act on it.
    pub response: Span,
    /// How long a frame pauses, in quanta of 512 bit times; whoever asked asks again at half of it. 0: until it is ended.
    pub quanta: u16,
}

/// Credits.
#[derive(Clone, Copy, Debug)]
pub struct CreditSpec {
    /// Bytes of buffer behind each link, per class; at most 2,048 blocks of 64 B.
    pub buffer: Bytes,
    /// From the departure of a packet to the dispatch of its credit.
    pub release: Span,
    /// Wire bytes of the packet that carries credits back.
    pub wire: u32,
}

/// How a queue pair sends and recovers.
#[derive(Clone, Copy, Debug)]
pub struct FlowSpec {
    /// Its class.
    pub class: u8,
    /// What the receiver and the sender do about losses.
    pub recovery: Recovery,
    /// Packets that one acknowledgement covers.
    pub ack_every: u32,
    /// How marks come back.
    pub notice: Notice,
    /// Whether a changed rate moves the start of a packet that waits for its turn.
    pub retime: bool,
    /// After how long without progress the sender goes back; `None`: never.
    pub timeout: Option<Span>,
    /// Timeouts in a row after which it gives up.
    pub retries: u8,
    /// Who chooses its path.
    pub paths: Paths,
    /// With selective recovery: a packet is missing once one has come that was sent so many after it. More than the packets
    /// that paths reorder; [`u32::MAX`]: only timeouts tell.
    pub reorder: u32,
    /// Payload bytes that may be unacknowledged, whatever the controller allows; one packet always may.
    pub window: u64,
    /// The largest random gap after a packet, uniform from nothing on, as a share of the packet's time in 2⁻³².
    pub jitter: u32,
}

impl Default for FlowSpec {
    fn default() -> Self {
        Self {
            class: 0,
            recovery: Recovery::None,
            ack_every: 1,
            notice: Notice::Echo,
            retime: true,
            timeout: None,
            retries: 7,
            paths: Paths::Pinned,
            reorder: 1,
            window: u64::MAX,
            jitter: 0,
        }
    }
}

/// Who chooses a path. All but the first are choices at nodes among the links of shortest ways; those that choose for each
/// packet may reorder, so the receiver has to keep what comes early ([`Recovery::Selective`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paths {
    /// The route that was given.
    #[default]
    Pinned,
    /// Each packet takes the link of the shortest queue that is not held; equals by chance.
    LeastQueue,
    /// Each packet takes the next link.
    RoundRobin,
    /// Each packet takes a link by chance.
    Spray,
    /// As `LeastQueue`, but a packet follows the last one that came less than `gap` before it.
    Flowlet {
        /// The pause after which a new link may be taken.
        gap: Span,
    },
}

/// What is done about losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing is lost; what is lost nevertheless is not reported and never sent again, but for a timeout.
    None,
    /// One negative acknowledgement a gap; all from the gap on is sent again.
    GoBackN,
    /// The same, but from the start of the message.
    GoBack0,
    /// The receiver keeps what comes after a gap; what is missing is sent again.
    Selective,
}

/// How marks come back to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// In the acknowledgement.
    Echo,
    /// As a packet of its own, at most one in the interval.
    Packet {
        /// Least time between two of a flow.
        interval: Span,
        /// From the marked packet to the dispatch of the notice.
        delay: Span,
    },
}

impl NetSpec {
    /// Wire bytes of a full packet.
    #[inline]
    #[must_use]
    pub const fn full(&self) -> u32 {
        self.mtu + self.overhead
    }

    /// Whether the parts fit together.
    ///
    /// # Errors
    /// The first fault found.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.classes.is_empty() || self.classes.len() > MOST_CLASSES {
            return Err(SpecError::Classes(self.classes.len()));
        }
        for (index, port) in self.ports.iter().enumerate() {
            let nodes = self.endpoints.len();
            let twins = self.ports.get(port.twin as usize);
            let fits = (port.near as usize) < nodes && (port.far as usize) < nodes;
            if !fits || !twins.is_some_and(|twin| twin.near == port.far && twin.far == port.near) {
                return Err(SpecError::Port(index));
            }
        }
        if self.grain == 0 || self.grain > MOST_PACKETS {
            return Err(SpecError::Grain(self.grain));
        }
        if let Control::Class(class) = self.control
            && usize::from(class) >= self.classes.len()
        {
            return Err(SpecError::NoClass(class));
        }
        let waits = |class: u8| match self.control {
            Control::Express => false,
            Control::Class(control) => control == class,
            Control::WithData => true,
        };
        if self.grants.is_some()
            && let Some(class) = (0..self.classes.len() as u8).find(|class| waits(*class) && self.may_drop(*class))
        {
            return Err(SpecError::GrantsDropped(class));
        }
        if let Some(port) = self.raises.iter().find(|port| **port as usize >= self.ports.len()) {
            return Err(SpecError::Port(*port as usize));
        }
        if !self.lanes.is_empty() && self.lanes.len() != self.classes.len() {
            return Err(SpecError::Classes(self.lanes.len()));
        }
        for storm in &self.storms {
            if storm.port as usize >= self.ports.len() {
                return Err(SpecError::Port(storm.port as usize));
            }
            if usize::from(storm.class) >= self.classes.len() {
                return Err(SpecError::NoClass(storm.class));
            }
            if storm.from > storm.until {
                return Err(SpecError::Thresholds { low: storm.from.as_ps(), high: storm.until.as_ps() });
            }
        }
        for class in &self.classes {
            if let Marking::Red { kmin, kmax, .. } = class.marking
                && kmin > kmax
            {
                return Err(SpecError::Thresholds { low: u64::from(kmin), high: u64::from(kmax) });
            }
        }
        let full = u64::from(self.mtu) + u64::from(self.overhead);
        match &self.flow_control {
            FlowControlSpec::Unlimited => Ok(()),
            FlowControlSpec::Credits(credits) => {
                let need = full.div_ceil(64) * 64;
                let have = self.lanes.iter().min().unwrap_or(&credits.buffer).get();
                if have < need { Err(SpecError::Buffer { have, need }) } else { Ok(()) }
            }
            FlowControlSpec::Shared(shared) => self.check_shared(shared, full),
        }
    }

    /// Whether nodes may drop packets of a class, but for faults.
    fn may_drop(&self, class: u8) -> bool {
        let lossy = !self.classes[usize::from(class)].lossless;
        self.watchdog.is_some() || lossy && matches!(self.flow_control, FlowControlSpec::Shared(_))
    }

    fn check_shared(&self, shared: &SharedSpec, full: u64) -> Result<(), SpecError> {
        if shared.size < full {
            return Err(SpecError::Buffer { have: shared.size, need: full });
        }
        if let Threshold::Static { xoff, xon } = shared.threshold
            && xon > xoff
        {
            return Err(SpecError::Thresholds { low: xon, high: xoff });
        }
        let lossless = self.classes.iter().filter(|class| class.lossless).count() as u64;
        if lossless == 0 {
            return Ok(());
        }
        let mut inputs = vec![0u64; self.endpoints.len()];
        self.ports.iter().for_each(|port| inputs[port.far as usize] += 1);
        let nodes = inputs.iter().zip(&self.endpoints).filter(|(_, endpoint)| !**endpoint);
        let ports = shared.ports.map_or(nodes.map(|(inputs, _)| *inputs).max().unwrap_or(0), u64::from);
        let inputs = ports.saturating_mul(lossless);
        let aside = inputs.saturating_mul(shared.headroom.saturating_add(shared.reserve));
        if matches!(shared.threshold, Threshold::Dynamic { .. }) && aside >= shared.size {
            let most = (shared.size / inputs.max(1)).saturating_sub(shared.reserve);
            return Err(SpecError::Aside { aside, size: shared.size, most });
        }
        Ok(())
    }
}
