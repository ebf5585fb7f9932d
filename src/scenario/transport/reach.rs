//! Sizes and times of a fabric that thresholds and windows follow.

use sim_core::units::{Bytes, Rate, Span};
use sim_topology::{Fabric, RouteRequest};

/// How far and how fast the network is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Rate of a NIC's port.
    pub(crate) nic: Rate,
    /// Rate of the fastest link of the network.
    pub(crate) fastest: Rate,
    /// Latency of its longest link.
    pub(crate) longest: Span,
    /// Wire bytes of a full packet.
    pub(crate) packet: Bytes,
    /// Payload of a full packet.
    pub(crate) mtu: Bytes,
    /// The unloaded round trip of a full packet and its acknowledgement over the longest path from the first NIC.
    pub(crate) round_trip: Span,
}

impl Reach {
    pub(crate) fn of(fabric: &Fabric) -> Self {
        let network = || fabric.links().iter().filter(|link| link.class.is_network() && link.alive);
        let mtu = fabric.mtu();
        let overhead = network().map(|link| link.packet_overhead).max().unwrap_or(Bytes::ZERO);
        let packet = mtu + overhead;
        // As built: a slow cable moves no threshold.
        let nic = fabric.plan().rate.max(Rate::MIN);
        // From a NIC that is dead, or whose cable is, no way leads anywhere.
        let mut cabled = vec![false; fabric.devices().len()];
        network().for_each(|link| cabled[link.from.index()] = true);
        let nics = fabric.nodes().iter().flat_map(|node| node.nics.iter().copied());
        let nics: Vec<_> = nics.filter(|nic| fabric.device(*nic).alive && cabled[nic.index()]).collect();
        let one_way = |route: &[sim_core::ids::LinkId]| {
            route
                .iter()
                .map(|id| fabric.link(*id))
                .fold(Span::ZERO, |sum, link| sum + link.latency + link.rate.ps_per_byte().cost(packet))
        };
        let first = nics.first().copied();
        let ways = first.into_iter().flat_map(|first| {
            let others = nics.iter().skip(1).map(move |nic| RouteRequest::auto(first, *nic));
            others.filter_map(|request| fabric.route(&request).ok())
        });
        let longest_way = ways.map(|route| one_way(&route.links)).max().unwrap_or(Span::ZERO);
        let back = ways_back(longest_way, nic, packet);
        Self {
            nic,
            fastest: network().map(|link| link.rate).max().unwrap_or(nic),
            longest: network().map(|link| link.latency).max().unwrap_or(Span::ZERO),
            packet,
            mtu,
            round_trip: longest_way + back,
        }
    }

    /// Payload that fills the longest path: rate of a NIC's port x round trip.
    pub(crate) fn product(&self) -> Bytes {
        self.nic.ps_per_byte().bytes_in(self.round_trip).max(self.mtu)
    }

    /// What can arrive after an input has asked for a pause: `2 d C + 2 S + frame + response C`, with the link's delay `d`, its
    /// rate `C` and a full packet `S` that delays the frame and one that its sender can't abort.
    pub(crate) fn headroom(&self, frame: Bytes, response: Span) -> Bytes {
        let cost = self.fastest.ps_per_byte();
        let flight = cost.bytes_in(self.longest + self.longest + response);
        flight + self.packet + self.packet + frame
    }
}

/// An acknowledgement's way back, about the way there without a full packet.
fn ways_back(there: Span, nic: Rate, packet: Bytes) -> Span {
    let one = nic.ps_per_byte().cost(packet);
    if there > one { Span::from_ps(there.as_ps() - one.as_ps()) } else { there }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headroom with the response times of IEEE 802.3 and 5 ns/m, without interface delays, KB: per row rate, cable, response in
    /// bit times, and frames of 1518, 4178 and 9216 B.
    #[test]
    fn headroom_of_rates_cables_and_frames() {
        let rows = [
            (100, 30, 201_728, [32.1, 37.4, 47.5]),
            (100, 300, 201_728, [65.8, 71.2, 81.2]),
            (400, 3, 463_360, [62.5, 67.9, 77.9]),
            (400, 100, 463_360, [111.0, 116.4, 126.4]),
            (400, 300, 463_360, [211.0, 216.4, 226.4]),
        ];
        for (gbit, metres, response, columns) in rows {
            for (frame, want) in [1518, 4178, 9216].into_iter().zip(columns) {
                let rate = Rate::gbit(gbit);
                let reach = Reach {
                    nic: rate,
                    fastest: rate,
                    longest: Span::from_ns(5) * metres,
                    packet: Bytes::new(frame),
                    mtu: Bytes::new(frame),
                    round_trip: Span::ZERO,
                };
                let response = rate.ps_per_byte().cost(Bytes::new(response / 8));
                let got = reach.headroom(Bytes::new(84), response).get() as f64 / 1e3;
                assert!((got - want).abs() <= 0.06, "{gbit} Gb/s, {metres} m, {frame} B: {got} KB for {want}");
            }
        }
    }
}
