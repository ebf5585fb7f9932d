//! What a network of packets counts.

use super::Net;
use super::flow_control::Scheme;
use super::observe::Series;
use super::roots::Victim;
use crate::units::{Span, Time};

/// Octaves of the depth of a queue: below 64 B, below 128 B, and so on; the last one has no upper end.
pub const OCTAVES: usize = 24;

/// The octave of a depth.
#[inline]
#[must_use]
pub const fn octave(bytes: u64) -> usize {
    let octave = (u64::BITS - (bytes >> 6).leading_zeros()) as usize;
    if octave < OCTAVES { octave } else { OCTAVES - 1 }
}

/// Of a port and class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Wire bytes sent of packets that have queued.
    pub bytes: u64,
    /// Those packets.
    pub packets: u64,
    /// Wire bytes of the control packets among them.
    pub queued_control_bytes: u64,
    /// Those control packets.
    pub queued_control: u64,
    /// Wire bytes of control packets that went before all others; in the first class's counters.
    pub control_bytes: u64,
    /// Most wire bytes in the queue, without the packet in service.
    pub peak: u64,
    /// Packets marked.
    pub marks: u64,
    /// Packets dropped for lack of room.
    pub drops: u64,
    /// Those of a lossless class: headroom was too small.
    pub headroom_drops: u64,
    /// Packets dropped by the watchdog.
    pub watchdog_drops: u64,
    /// Packets lost on the wire behind it.
    pub lost: u64,
    /// Packets that were sent again, each time that one of them left.
    pub resent: u64,
    /// How often it was paused.
    pub pauses: u64,
    /// How often it lacked a credit.
    pub waits: u64,
    /// How long it was held: paused, or without credit.
    pub held: Span,
    /// How often the node at the far end has asked it to pause.
    pub asked: u64,
    /// How long that lasted in all.
    pub asked_for: Span,
    /// Frames that asked again for a pause that went on, if frames have an end ([`quanta`](super::spec::PauseSpec)). They
    /// are counted, and take no time on the wire: 84 B in half of the longest pause are less than 10⁻⁴ of it.
    pub refreshes: u64,
    /// Most bytes of it in the buffer at the far end.
    pub input_peak: u64,
    /// Most bytes of that which lay in headroom.
    pub headroom_peak: u64,
    /// Notices of congestion that set out here.
    pub notices: u64,
    /// Sum of queued bytes over time, in byte·ns.
    pub byte_ns: u64,
    /// Time in ns at a depth of each [`octave`].
    pub histogram: [u64; OCTAVES],
}

impl PortCounters {
    /// Adds what another run counted: sums, and the larger of peaks.
    pub fn add(&mut self, other: &Self) {
        let sum = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        sum(&mut self.bytes, other.bytes);
        sum(&mut self.packets, other.packets);
        sum(&mut self.queued_control_bytes, other.queued_control_bytes);
        sum(&mut self.queued_control, other.queued_control);
        sum(&mut self.control_bytes, other.control_bytes);
        sum(&mut self.marks, other.marks);
        sum(&mut self.drops, other.drops);
        sum(&mut self.headroom_drops, other.headroom_drops);
        sum(&mut self.watchdog_drops, other.watchdog_drops);
        sum(&mut self.lost, other.lost);
        sum(&mut self.resent, other.resent);
        sum(&mut self.pauses, other.pauses);
        sum(&mut self.waits, other.waits);
        sum(&mut self.asked, other.asked);
        sum(&mut self.refreshes, other.refreshes);
        sum(&mut self.notices, other.notices);
        sum(&mut self.byte_ns, other.byte_ns);
        self.held += other.held;
        self.asked_for += other.asked_for;
        self.peak = self.peak.max(other.peak);
        self.input_peak = self.input_peak.max(other.input_peak);
        self.headroom_peak = self.headroom_peak.max(other.headroom_peak);
        self.histogram.iter_mut().zip(other.histogram).for_each(|(to, more)| *to += more);
    }

    /// Time in ns over which depths were counted.
    #[must_use]
    pub fn observed_ns(&self) -> u64 {
        self.histogram.iter().sum()
    }

    /// The mean depth over time.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.byte_ns as f64 / (self.observed_ns().max(1)) as f64
    }

    /// The depth that the queue was at or below for a `share` of the time, from the octaves: their upper end, or the peak
    /// if that is less.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let want = share * self.observed_ns() as f64;
        let mut sum = 0;
        for (octave, ns) in self.histogram.iter().enumerate() {
            sum += ns;
            if sum as f64 >= want && *ns > 0 {
                return if octave == 0 { 0 } else { self.peak.min(1 << (octave + 6)) };
            }
        }
        self.peak
    }
}

/// What is counted at every hop.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) peak: u64,
    /// Bytes times ticks.
    area: u64,
    /// When that was last added to.
    touched: Time,
}

/// Time is booked in ticks of 1,024 ps; what is less waits for the next time.
const TICK: u32 = 10;

const fn ns(ticks: u64) -> u64 {
    (ticks as u128 * (1 << TICK) / 1_000) as u64
}

impl Tally {
    /// The queue was `depth` deep until `now`.
    #[inline]
    pub(super) fn pass(&mut self, depth: u64, now: Time, histogram: &mut [u64; OCTAVES]) {
        let ticks = now.since(self.touched).as_ps() >> TICK;
        self.touched += Span::from_ps(ticks << TICK);
        self.area = self.area.saturating_add(depth.saturating_mul(ticks));
        histogram[octave(depth)] += ticks;
    }

    /// Counts of depths begin anew.
    pub(super) fn forget(&mut self, depth: u64, histogram: &mut [u64; OCTAVES]) {
        (self.area, self.peak) = (0, depth);
        *histogram = [0; OCTAVES];
    }
}

/// Of the whole network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Hops of data packets.
    pub data_hops: u64,
    /// Hops of control packets.
    pub control_hops: u64,
    /// Packets marked.
    pub marks: u64,
    /// Notices and echoed marks that senders took in.
    pub notices: u64,
    /// Pauses that nodes asked for.
    pub pauses: u64,
    /// Pauses that nodes ended.
    pub resumes: u64,
    /// Packets that carried credits.
    pub credit_packets: u64,
    /// Packets dropped for lack of room.
    pub drops: u64,
    /// Those of lossless classes: headroom was too small.
    pub headroom_drops: u64,
    /// Packets dropped by the watchdog.
    pub watchdog_drops: u64,
    /// Packets lost on the wire.
    pub lost: u64,
}

/// Of a queue pair, and of one flow after the other where it serves several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowOutcome {
    /// The queue pair that sent it.
    pub qp: u32,
    /// The program that it is of, and its flow there, where an engine has opened it.
    pub program: u32,
    /// See `program`.
    pub flow: u32,
    /// When it first had something to send.
    pub started_at: Time,
    /// When its last complete message arrived.
    pub delivered_at: Time,
    /// When the sender knew.
    pub acked_at: Time,
    /// Messages that arrived.
    pub messages: u64,
    /// Payload bytes that arrived, each counted once.
    pub payload: u64,
    /// Packets that arrived, copies included.
    pub arrived: u64,
    /// Packets that were marked when they arrived.
    pub marked: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
    /// Packets sent again.
    pub resent: u64,
    /// Notices sent for it.
    pub notices: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// It gave up.
    pub failed: bool,
    /// How long it had something on its way.
    pub busy: Span,
    /// How long ports of its route were held meanwhile: the sum over them.
    pub behind_held: Span,
    /// How long its window was full, with more to send.
    pub windowed: Span,
    /// How long its rate made it wait, although its port was free and the next packet was there.
    pub paced: Span,
}

/// What a run of a network measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetOutcome {
    /// Per port and class: class is the inner index.
    pub ports: Vec<Vec<PortCounters>>,
    /// Per queue pair; before them, those of flows that queue pairs served earlier.
    pub flows: Vec<FlowOutcome>,
    /// Per queue pair: the ports of its route. One whose path is chosen at nodes takes others as well.
    pub routes: Vec<Vec<u32>>,
    /// Of all.
    pub totals: Totals,
    /// The most bytes that an input held at a node, of one class.
    pub input_peak: u64,
    /// The most bytes of an input's headroom that were used.
    pub headroom_peak: u64,
    /// Blocks of credit sent and not freed.
    pub outstanding_blocks: u64,
    /// Packets in the network.
    pub packets_left: usize,
    /// The most packets at once.
    pub packets_peak: usize,
    /// Packets that may move as one in the end, and why they move alone where that was left to the network.
    pub grain: u32,
    /// See `grain`.
    pub alone: Option<super::coarse::Bound>,
    /// Ports (link and class) that wait for each other in a circle; empty without a deadlock.
    pub cycle: Vec<(u32, u8)>,
    /// Nothing has arrived for as long as was allowed.
    pub no_progress: bool,
    /// Ports and classes where congestion began.
    pub roots: Vec<(u32, u8)>,
    /// Queue pairs that were held up by congestion that is not on their way.
    pub victims: Vec<Victim>,
    /// What was sampled.
    pub series: Series,
}

impl Net {
    /// What was measured until `now`.
    #[must_use]
    pub fn outcome(&mut self, now: Time) -> NetOutcome {
        self.look(now);
        let mut totals = self.totals;
        for (queue, histogram) in self.queues.iter_mut().zip(&mut self.histograms) {
            queue.tally.pass(queue.bytes, now, histogram);
            totals.data_hops += queue.tally.packets;
        }
        // Control packets that waited as data are no data.
        totals.data_hops -= self.control_queued;
        totals.control_hops += self.control_queued;
        let (mut input_peak, mut headroom_peak, mut outstanding_blocks) = (0, 0, 0);
        match &self.scheme {
            Scheme::Unlimited => {}
            Scheme::Shared(shared) => {
                (input_peak, headroom_peak) = shared.peaks();
                totals.pauses = shared.pauses;
                totals.resumes = shared.resumes;
            }
            Scheme::Credits(credits) => {
                input_peak = credits.peak();
                outstanding_blocks = credits.outstanding();
            }
        }
        let ports: Vec<Vec<PortCounters>> = (0..self.ports.len() as u32)
            .map(|link| (0..self.classes).map(|c| self.counters_of(link, c, now)).collect())
            .collect();
        let present = (0..self.qps.len() as u32).map(|qp| self.flow_outcome(qp, now));
        let flows: Vec<FlowOutcome> = self.past.iter().copied().chain(present).collect();
        let routes =
            self.qps.iter().map(|qp| self.routes[qp.route as usize..][..usize::from(qp.hops)].to_vec()).collect();
        let mut outcome = NetOutcome {
            ports,
            flows,
            routes,
            totals,
            input_peak,
            headroom_peak,
            outstanding_blocks,
            packets_left: self.packets.live(),
            packets_peak: self.packets.peak(),
            grain: self.grain_in_force().0,
            alone: self.grain_in_force().1,
            cycle: self.stall.cycle.clone(),
            no_progress: self.stall.stuck,
            roots: Vec::new(),
            victims: Vec::new(),
            series: self.observer.series(),
        };
        self.find_roots(&mut outcome);
        outcome
    }

    fn counters_of(&self, link: u32, class: u8, now: Time) -> PortCounters {
        let at = self.queue_at(link, class);
        let (tally, histogram) = self.observer.depths(at).unwrap_or((self.queues[at].tally, self.histograms[at]));
        let (input_peak, headroom_peak) = self.scheme.peaks_of(link, class);
        let mut counters = self.counters[at];
        self.asked_until(link, class, now, &mut counters);
        PortCounters {
            held: self.held_until(link, class, now),
            bytes: self.queues[at].tally.bytes,
            packets: self.queues[at].tally.packets,
            control_bytes: if class == 0 { self.ports[link as usize].control } else { 0 },
            peak: tally.peak,
            byte_ns: ns(tally.area),
            histogram: histogram.map(ns),
            input_peak,
            headroom_peak,
            ..counters
        }
    }
}
