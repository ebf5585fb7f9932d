//! Looks at a network at instants of its own: samples of queues and rates, the window in which depths are counted,
//! devices that begin to pause, and that nothing has arrived for too long.
//!
//! No event is scheduled for a look: between two events nothing changes, so what is due is done before the next event,
//! as of the instant at which it was due.

use super::Net;
use super::counters::{OCTAVES, Tally};
use crate::rate_control::RateControl as _;
use crate::units::{PsPerByte, Span, Time};

/// Instants beyond which every other one is dropped, and the interval doubled.
const MOST_SAMPLES: usize = 1 << 16;
/// Instants that are kept in any case.
const LEAST_SAMPLES: usize = 64;
/// Queue pairs that are sampled by their ends, at most: the first.
const MOST_FLOWS: usize = 4_096;

/// What was sampled, as it was just before each instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// Time between two samples: a power of two times what was asked for, so that there are at most 65,536.
    pub interval: Span,
    /// The instants.
    pub at: Vec<Time>,
    /// Per port that was asked for.
    pub ports: Vec<PortSeries>,
    /// Per queue pair that was asked for.
    pub flows: Vec<FlowSeries>,
    /// Queue pairs that were asked for by their ends and are not among them: only the first 4,096 are.
    pub left_out: u64,
}

/// Samples of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSeries {
    /// The port.
    pub port: u32,
    /// Wire bytes queued, over all classes.
    pub queued: Vec<u64>,
    /// Wire bytes sent so far.
    pub sent: Vec<u64>,
    /// Whether a class was held.
    pub held: Vec<bool>,
    /// Packets marked so far.
    pub marks: Vec<u32>,
}

/// Samples of a queue pair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowSeries {
    /// The queue pair.
    pub flow: u32,
    /// The cost of a byte at its rate; [`PsPerByte::FREE`] does not limit.
    pub pace: Vec<PsPerByte>,
    /// Payload bytes that have arrived so far, each counted once.
    pub arrived: Vec<u64>,
    /// Payload bytes sent and not acknowledged, in whole packets.
    pub out: Vec<u64>,
}

/// When to look, and what was seen.
#[derive(Clone, Debug)]
pub(super) struct Observer {
    /// When something is due next.
    pub(super) due: Time,
    sample: Time,
    from: Time,
    to: Time,
    /// Storms in order of their beginning, and how many have begun.
    storms: Vec<usize>,
    begun: usize,
    /// When something arrived that was not there before, or was first to be sent, last.
    pub(super) progress: Time,
    series: Series,
    /// Depths as they were counted when the window ended.
    kept: Vec<(Tally, [u64; OCTAVES])>,
}

impl Observer {
    pub(super) fn new(spec: &super::spec::NetSpec) -> Self {
        let observe = &spec.observe;
        let nothing = observe.ports.is_empty() && observe.flows.is_empty() && observe.between.is_empty();
        let samples = observe.interval > Span::ZERO && !nothing;
        let mut storms: Vec<usize> = (0..spec.storms.len()).collect();
        storms.sort_by_key(|storm| spec.storms[*storm].from);
        let port = |port: &u32| PortSeries { port: *port, ..PortSeries::default() };
        let flow = |flow: &u32| FlowSeries { flow: *flow, ..FlowSeries::default() };
        let series = Series {
            interval: observe.interval,
            at: Vec::new(),
            ports: observe.ports.iter().map(port).collect(),
            flows: observe.flows.iter().map(flow).collect(),
            left_out: 0,
        };
        Self {
            due: Time::ZERO,
            sample: if samples { observe.from } else { Time::MAX },
            from: if observe.from > Time::ZERO { observe.from } else { Time::MAX },
            to: observe.to,
            storms,
            begun: 0,
            progress: Time::ZERO,
            series,
            kept: Vec::new(),
        }
    }

    pub(super) fn series(&self) -> Series {
        self.series.clone()
    }

    /// What was counted of a queue's depth, if the window has ended.
    pub(super) fn depths(&self, queue: usize) -> Option<(Tally, [u64; OCTAVES])> {
        self.kept.get(queue).copied()
    }
}

impl Series {
    /// Every other sample is dropped.
    fn thin(&mut self) {
        fn halve<T: Copy>(all: &mut Vec<T>) {
            *all = all.iter().step_by(2).copied().collect();
        }
        halve(&mut self.at);
        for port in &mut self.ports {
            halve(&mut port.queued);
            halve(&mut port.sent);
            halve(&mut port.held);
            halve(&mut port.marks);
        }
        for flow in &mut self.flows {
            halve(&mut flow.pace);
            halve(&mut flow.arrived);
            halve(&mut flow.out);
        }
        self.interval = Span::from_ps(self.interval.as_ps().saturating_mul(2));
    }
}

impl Net {
    /// Does all that was due until `now`.
    #[cold]
    pub(super) fn look(&mut self, now: Time) {
        while self.observer.sample <= now && self.observer.sample <= self.observer.to {
            let at = self.observer.sample;
            self.sample(at);
            self.observer.sample = at + self.observer.series.interval;
        }
        if self.observer.from <= now {
            let from = core::mem::replace(&mut self.observer.from, Time::MAX);
            for (queue, histogram) in self.queues.iter_mut().zip(&mut self.histograms) {
                queue.tally.pass(queue.bytes, from, histogram);
                queue.tally.forget(queue.bytes, histogram);
            }
        }
        if self.observer.to <= now && self.observer.kept.is_empty() && self.observer.to != Time::MAX {
            let to = self.observer.to;
            for (queue, histogram) in self.queues.iter_mut().zip(&mut self.histograms) {
                queue.tally.pass(queue.bytes, to, histogram);
                self.observer.kept.push((queue.tally, *histogram));
            }
        }
        let observer = &self.observer;
        let mut due = observer.sample.min(observer.from);
        if observer.sample > observer.to {
            due = observer.from;
        }
        if observer.kept.is_empty() {
            due = due.min(observer.to);
        }
        if let Some(index) = observer.storms.get(observer.begun) {
            due = due.min(self.spec.storms[*index].from);
        }
        if let Some(limit) = self.spec.no_progress {
            let after = |from: Time| Time::from_ps(from.as_ps().saturating_add(limit.as_ps()));
            let until = after(observer.progress);
            if until > now {
                due = due.min(until);
            } else if self.qps.iter().any(|qp| qp.una < qp.end && qp.state != super::qp::State::Failed) {
                self.stall.stuck = true;
            } else {
                self.observer.progress = now;
                due = due.min(after(now));
            }
        }
        self.observer.due = due;
    }

    /// The next storm that is due by `now`, once.
    pub(super) fn next_storm(&mut self, now: Time) -> Option<super::spec::Storm> {
        let storm = self.spec.storms[*self.observer.storms.get(self.observer.begun)?];
        (storm.from <= now).then(|| {
            self.observer.begun += 1;
            storm
        })
    }

    fn sample(&mut self, at: Time) {
        let classes = usize::from(self.classes);
        let series = &mut self.observer.series;
        let each = self.spec.observe.most / (series.ports.len() + series.flows.len()).max(1);
        while series.at.len() >= each.clamp(LEAST_SAMPLES, MOST_SAMPLES) {
            series.thin();
        }
        series.at.push(at);
        for samples in &mut series.ports {
            let port = samples.port as usize;
            let queues = self.queues.get(port * classes..(port + 1) * classes).unwrap_or(&[]);
            samples.queued.push(queues.iter().map(|queue| queue.bytes).sum());
            let control = self.ports.get(port).map_or(0, |port| port.control);
            samples.sent.push(queues.iter().map(|queue| queue.tally.bytes).sum::<u64>() + control);
            samples.held.push(self.ports.get(port).is_some_and(|port| port.stopped | port.drained != 0));
            let counters = self.counters.get(port * classes..(port + 1) * classes).unwrap_or(&[]);
            samples.marks.push(counters.iter().map(|class| class.marks).sum::<u64>() as u32);
        }
        for samples in &mut series.flows {
            let qp = self.qps.get(samples.flow as usize);
            samples.pace.push(qp.map_or(PsPerByte::FREE, |qp| qp.rate.pace()));
            samples.arrived.push(qp.map_or(0, |qp| qp.before + qp.outcome.payload));
            let packets = qp.map_or(0, |qp| u64::from(qp.nxt.saturating_sub(qp.una)));
            samples.out.push(packets * u64::from(self.spec.mtu));
        }
    }

    /// A queue pair has been opened from one node to another: whether it is sampled by its ends.
    pub(super) fn watch(&mut self, qp: u32, from: u32, to: u32) {
        let observe = &self.spec.observe;
        let is = |list: &[bool], node: u32| list.get(node as usize).copied().unwrap_or(false);
        let meant = observe.between.iter().any(|ends| is(&ends.from, from) && is(&ends.to, to));
        if !meant || observe.flows.contains(&qp) || self.observer.sample == Time::MAX {
            return;
        }
        let series = &mut self.observer.series;
        if series.flows.len() - observe.flows.len() >= MOST_FLOWS {
            series.left_out += 1;
            return;
        }
        // It was not there at the instants so far.
        let before = series.at.len();
        series.flows.push(FlowSeries {
            flow: qp,
            pace: vec![PsPerByte::FREE; before],
            arrived: vec![0; before],
            out: vec![0; before],
        });
    }
}
