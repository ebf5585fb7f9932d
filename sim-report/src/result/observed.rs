//! What was recorded of packets: ports and queue pairs one by one, and series over time.

use serde::{Deserialize, Serialize};

/// One class of a port, over all simulations of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PortRow {
    /// The link that it sends on.
    pub link: String,
    /// The class of traffic, from 0.
    pub class: u32,
    /// Wire bytes sent of packets that queued.
    pub bytes: u64,
    /// Those packets.
    pub packets: u64,
    /// Wire bytes of acknowledgements and notices that went before all; with the first class.
    pub control_bytes: u64,
    /// Time on the wire over the run's time, 0..1.
    pub utilization: f64,
    /// Mean depth of the queue.
    pub mean_queue_bytes: f64,
    /// The depth that it was below for 99 % of the time, to a power of two.
    pub p99_queue_bytes: u64,
    /// Deepest queue, without the packet in service.
    pub peak_queue_bytes: u64,
    /// Packets marked.
    pub ecn_marked: u64,
    /// Notices of congestion (CNP, BECN) that set out here.
    pub cnps: u64,
    /// How often it was paused.
    pub pfc_pauses: u64,
    /// How long.
    pub pfc_pause_us: f64,
    /// Pauses that its far end asked it for.
    pub pfc_sent: u64,
    /// How long these lasted.
    pub pfc_sent_us: f64,
    /// Frames that asked again for a pause that went on.
    pub pfc_refreshes: u64,
    /// How often it lacked a credit.
    pub credit_waits: u64,
    /// How long.
    pub credit_stall_us: f64,
    /// Most bytes of it in the buffer at its far end.
    pub ingress_peak_bytes: u64,
    /// Most of these that lay in headroom.
    pub headroom_peak_bytes: u64,
    /// Packets dropped for lack of room, of traffic that may be dropped.
    pub drops: u64,
    /// Packets dropped of traffic that may not: headroom was too small.
    pub headroom_drops: u64,
    /// Packets dropped by the watchdog.
    pub watchdog_drops: u64,
    /// Packets lost on its wire.
    pub lost: u64,
    /// Packets that had been sent before, each time that one left.
    pub retransmitted: u64,
}

/// What a queue pair did for one program, or one transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowRow {
    /// The simulation.
    pub run: String,
    /// The NIC that sent.
    pub src: String,
    /// The NIC that received.
    pub dst: String,
    /// The queue pair's number.
    pub qp: u32,
    /// Payload that arrived.
    pub bytes: u64,
    /// Messages that arrived.
    pub messages: u64,
    /// When it first had something to send.
    pub start_us: f64,
    /// From then to the arrival of its last message.
    pub fct_us: f64,
    /// From then until the sender knew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acked_us: Option<f64>,
    /// `fct_us` over what its message takes alone on its path; for single messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<f64>,
    /// Packets that arrived marked.
    pub marked: u64,
    /// Notices sent for it.
    pub cnps: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Time that ports of its path were held while it had something on its way, summed over them.
    pub held_us: f64,
    /// Time that its window was full.
    pub window_us: f64,
    /// Time that its rate made it wait.
    pub paced_us: f64,
    /// It gave up.
    pub failed: bool,
    /// The links of its path; where switches choose for each packet, those that it would take without choice.
    pub path: Vec<String>,
}

/// Samples of one simulation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesResult {
    /// The simulation.
    pub run: String,
    /// Time between two samples that was asked for.
    pub asked_us: f64,
    /// Time between two samples: larger where so many would not have fit.
    pub interval_us: f64,
    /// The instants.
    pub time_us: Vec<f64>,
    /// The links that carried something.
    pub links: Vec<LinkSeries>,
    /// The queue pairs that sent something.
    pub flows: Vec<FlowSeries>,
    /// Links and queue pairs that carried something and are not in these lists.
    pub left_out: u64,
}

/// Samples of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSeries {
    /// Its name.
    pub link: String,
    /// Wire bytes queued.
    pub queue_bytes: Vec<u64>,
    /// Wire bytes sent since the sample before, over time.
    #[serde(rename = "rate_GBps")]
    pub rate: Vec<f64>,
    /// Whether a class was held: paused, or without credit.
    pub held: Vec<bool>,
    /// Packets marked since the sample before.
    pub marked: Vec<u32>,
}

/// Samples of a queue pair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSeries {
    /// `node1.nic0->node0.nic0`, with the queue pair's number where several join the two.
    pub flow: String,
    /// Payload that arrived since the sample before, over time.
    #[serde(rename = "rate_GBps")]
    pub rate: Vec<f64>,
    /// The rate that its control allows on the wire; absent where it does not limit.
    #[serde(rename = "allowed_GBps")]
    pub allowed: Vec<Option<f64>>,
    /// Payload sent and not acknowledged, in whole packets.
    pub outstanding_bytes: Vec<u64>,
}

impl SeriesResult {
    /// The same with at most so many instants, links and flows: every so manieth instant, the links of the deepest queues, the
    /// flows whose data came last, of those that end alike the ones that moved most; in order of name as they were.
    #[must_use]
    pub fn cut(&self, instants: usize, most: usize) -> Self {
        let step = self.time_us.len().div_ceil(instants.max(1)).max(1);
        let mean = |all: &[f64]| all.chunks(step).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect();
        let links = largest(&self.links, most, |link| {
            let peak = link.queue_bytes.iter().max().copied().unwrap_or(0);
            (peak, (link.rate.iter().sum::<f64>() * 1e3) as u64)
        });
        let flows = largest(&self.flows, most, |flow| {
            let ended = flow.rate.iter().rposition(|rate| *rate > 0.0).map_or(0, |at| at as u64 + 1);
            (ended, (flow.rate.iter().sum::<f64>() * 1e3) as u64)
        });
        let left_out = self.left_out + (self.links.len() - links.len() + self.flows.len() - flows.len()) as u64;
        Self {
            run: self.run.clone(),
            asked_us: self.asked_us,
            interval_us: self.interval_us * step as f64,
            time_us: self.time_us.iter().step_by(step).copied().collect(),
            links: links
                .into_iter()
                .map(|link| LinkSeries {
                    link: link.link.clone(),
                    queue_bytes: link.queue_bytes.chunks(step).map(|c| c.iter().max().copied().unwrap_or(0)).collect(),
                    rate: mean(&link.rate),
                    held: link.held.chunks(step).map(|c| c.iter().any(|held| *held)).collect(),
                    marked: link.marked.chunks(step).map(|c| c.iter().sum()).collect(),
                })
                .collect(),
            flows: flows
                .into_iter()
                .map(|flow| FlowSeries {
                    flow: flow.flow.clone(),
                    rate: mean(&flow.rate),
                    allowed: flow.allowed.iter().step_by(step).copied().collect(),
                    outstanding_bytes: flow.outstanding_bytes.iter().step_by(step).copied().collect(),
                })
                .collect(),
            left_out,
        }
    }
}

/// The `most` largest, in their order.
fn largest<T>(all: &[T], most: usize, key: impl Fn(&T) -> (u64, u64)) -> Vec<&T> {
    let mut places: Vec<usize> = (0..all.len()).collect();
    places.sort_by_key(|at| core::cmp::Reverse(key(&all[*at])));
    places.truncate(most);
    places.sort_unstable();
    places.into_iter().map(|at| &all[at]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_keeps_peaks_means_and_the_largest() {
        let link = |name: &str, queue: Vec<u64>| LinkSeries {
            link: name.to_owned(),
            rate: queue.iter().map(|bytes| *bytes as f64).collect(),
            held: queue.iter().map(|bytes| *bytes > 2).collect(),
            marked: vec![1; queue.len()],
            queue_bytes: queue,
        };
        let all = SeriesResult {
            interval_us: 1.0,
            time_us: vec![0.0, 1.0, 2.0, 3.0, 4.0],
            links: vec![link("a", vec![1; 5]), link("b", vec![0, 9, 0, 2, 4]), link("c", vec![5; 5])],
            ..SeriesResult::default()
        };
        let cut = all.cut(3, 2);
        assert_eq!((cut.time_us.as_slice(), cut.interval_us, cut.left_out), (&[0.0, 2.0, 4.0][..], 2.0, 1));
        assert_eq!(cut.links.iter().map(|l| l.link.as_str()).collect::<Vec<_>>(), ["b", "c"]);
        let b = &cut.links[0];
        assert_eq!((b.queue_bytes.as_slice(), b.rate.as_slice()), (&[9, 2, 4][..], &[4.5, 1.0, 4.0][..]));
        assert_eq!((b.held.as_slice(), b.marked.as_slice()), (&[true, false, true][..], &[2, 2, 1][..]));
        assert_eq!(all.cut(100, 100), all);
    }
}
