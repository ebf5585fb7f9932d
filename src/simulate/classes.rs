//! What classes of packets did, link by link and in all.

use sim_core::net::NetOutcome;
use sim_report::result::{ClassResult, LinkClassResult};

use super::transport::PortSum;
use crate::scenario::Packets;

/// Sums per port and lane, over the simulations of a run; none where there is one class of one lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    /// Of each lane: the class's name, and the lane's number where a class has several.
    lanes: Vec<(String, Option<u8>)>,
    ports: Vec<Vec<PortSum>>,
}

impl Classes {
    pub(super) fn new(packets: &Packets) -> Self {
        if packets.classes.len() * usize::from(packets.lanes) < 2 {
            return Self::default();
        }
        let several = packets.lanes > 1;
        let of = |name: &String| {
            let name = name.clone();
            (0..packets.lanes).map(move |lane| (name.clone(), several.then_some(lane)))
        };
        Self { lanes: packets.classes.iter().flat_map(|class| of(&class.name)).collect(), ports: Vec::new() }
    }

    /// Adds one simulation.
    pub(super) fn add(&mut self, net: &NetOutcome) {
        if self.lanes.is_empty() {
            return;
        }
        self.ports.resize_with(net.ports.len(), || vec![PortSum::default(); self.lanes.len()]);
        for (sums, counters) in self.ports.iter_mut().zip(&net.ports) {
            sums.iter_mut().zip(counters).for_each(|(sum, class)| sum.add(class));
        }
    }

    /// The lanes of a port that carried something or dropped it.
    pub(super) fn of_port(&self, port: usize) -> Vec<LinkClassResult> {
        let sums = self.ports.get(port).map_or(&[][..], Vec::as_slice);
        let used = self.lanes.iter().zip(sums).filter(|(_, sum)| sum.packets + sum.drops > 0);
        let result = |((class, lane), sum): (&(String, Option<u8>), &PortSum)| LinkClassResult {
            class: class.clone(),
            lane: *lane,
            wire_bytes: sum.wire,
            packets: sum.packets,
            peak_queue_bytes: sum.peak,
            ecn_marked: sum.marks,
            drops: sum.drops,
            pauses: sum.pauses,
            held_us: sum.held.as_us(),
        };
        used.map(result).collect()
    }

    /// All classes; none where there is one of one lane.
    pub(super) fn results(&self, packets: &Packets) -> Vec<ClassResult> {
        if self.lanes.is_empty() {
            return Vec::new();
        }
        let lanes = usize::from(packets.lanes);
        let one = |(at, class): (usize, &crate::scenario::Class)| {
            let mut result = ClassResult {
                class: class.name.clone(),
                priority: class.spec.priority,
                weight: class.spec.weight,
                lossless: class.spec.lossless,
                lanes: packets.lanes,
                ..ClassResult::default()
            };
            for sum in self.ports.iter().flat_map(|port| port.iter().skip(at * lanes).take(lanes)) {
                result.hops += sum.packets;
                result.wire_bytes += sum.wire;
                result.peak_queue_bytes = result.peak_queue_bytes.max(sum.peak);
                result.marks += sum.marks;
                result.drops += sum.drops;
                result.pauses += sum.pauses;
                result.held_us += sum.held.as_us();
            }
            result
        };
        packets.classes.iter().enumerate().map(one).collect()
    }
}
