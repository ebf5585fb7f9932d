//! Arrivals that need no sorting.
//!
//! A port is done with a packet when that has left, which takes an event. What it sends arrives later, and over links of
//! equal latency and forwarding equally much later: scheduled when the port is done, the arrivals of all these links come in
//! order of time. They go into a lane of the queue. A short packet may be out of order; it is sorted as other events are.

use super::port::Port;
use super::spec::NetSpec;

/// No lane.
pub(super) const NO_LANE: u8 = u8::MAX;

/// The most lanes.
const LANES: usize = 4;

/// The ports of a network, each with the lane of its arrivals, if there are few.
pub(super) fn ports(spec: &NetSpec) -> Vec<Port> {
    let mut ports: Vec<Port> = (0..spec.ports.len()).map(|link| Port::new(spec, link)).collect();
    let mut lanes: Vec<u64> = Vec::new();
    for port in &mut ports {
        // From the end of a full packet at the port to its arrival.
        let held = if port.last { port.full } else { port.full.min(port.hold) };
        let after = (held + port.latency).as_ps().saturating_sub(port.full.as_ps());
        let lane = lanes.iter().position(|lane| *lane == after).unwrap_or(lanes.len());
        if after > 0 && lane < LANES {
            if lane == lanes.len() {
                lanes.push(after);
            }
            port.lane = lane as u8;
        }
    }
    ports
}
