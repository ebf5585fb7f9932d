//! A link that is slower than it should be: by rate, by width, by latency, by errors and the retries they cause.

use sim_core::ids::LinkId;
use sim_core::units::{Bytes, Rate, Span};

use super::patient::Patient;
use super::target::{Item, Wanted, links_of};
use super::{Effect, FaultError, Lossy};
use crate::device::{Link, LinkClass};
use crate::fabric::Fabric;
use crate::route::RouteRequest;

/// A slower link. Of the keys that set a rate only one may be given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Degraded {
    /// Its rate in place of its own, one direction.
    pub rate: Option<Rate>,
    /// Its rate as a part of its own, above 0, at most 1.
    pub factor: Option<f64>,
    /// Lanes that are left of a PCIe link.
    pub lanes: Option<u32>,
    /// NVLinks that are left of a bundle.
    pub links: Option<u32>,
    /// The PCIe generation that it is trained down to.
    pub speed: Option<u32>,
    /// Latency in addition to its own, one way.
    pub added_latency: Span,
    /// How often it damages what it carries.
    pub errors: Option<Errors>,
}

/// How often a link damages what it carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Errors {
    /// Probability that a bit is wrong after error correction.
    BitErrorRate(f64),
    /// Probability that a packet is lost.
    PacketLoss(f64),
}

/// What errors cost on a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Retries {
    /// Probability that a packet has to be sent again.
    pub(crate) loss: f64,
    /// Packets that are under way when the loss is noticed, and go again.
    pub(crate) window: f64,
    /// The share of the rate that is left.
    pub(crate) goodput: f64,
    /// Mean time that a packet waits for its repetition.
    pub(crate) delay: Span,
}

impl Retries {
    /// Go-back-N: each loss costs the packet itself and all that followed it within a round trip.
    ///
    /// With loss `p`, round trip `t`, packets of `wire` bytes at `rate`: `N = 1 + ⌈t · rate / wire⌉`, the share of the
    /// rate that is left is `(1 − p) / (1 − p + p N)`, and a packet is late by `t · p / (1 − p)` in the mean
    /// (Bertsekas, Gallager: Data Networks, 2nd ed. 1992, section 2.4.1). With `N = 1` the share is `1 − p`.
    pub(crate) fn go_back_n(loss: f64, round_trip: Span, wire: Bytes, rate: Rate) -> Self {
        let loss = loss.clamp(0.0, 0.999_999);
        let packets = round_trip.as_us() * 1e-6 * rate.get() as f64 / wire.get().max(1) as f64;
        let window = 1.0 + packets.ceil();
        let goodput = (1.0 - loss) / (1.0 - loss + loss * window);
        let delay = Span::from_us_f64(round_trip.as_us() * loss / (1.0 - loss));
        Self { loss, window, goodput, delay }
    }
}

impl Errors {
    /// The probability that a packet of `wire` bytes is lost: `1 − (1 − BER)^(8 · wire)`.
    #[must_use]
    pub fn packet_loss(self, wire: Bytes) -> f64 {
        match self {
            Self::BitErrorRate(rate) => -(8.0 * wire.get() as f64 * (-rate).ln_1p()).exp_m1(),
            Self::PacketLoss(loss) => loss,
        }
    }

    const fn key(self) -> &'static str {
        match self {
            Self::BitErrorRate(_) => "bit_error_rate",
            Self::PacketLoss(_) => "packet_loss",
        }
    }

    const fn value(self) -> f64 {
        match self {
            Self::BitErrorRate(value) | Self::PacketLoss(value) => value,
        }
    }
}

/// Bytes of the unit that a link repeats when it was damaged, headers included.
fn packet(fabric: &Fabric, link: &Link) -> Bytes {
    // The overhead is that of a network packet, which is cut into several of these.
    let cut = |payload: u64| {
        let pieces = fabric.mtu().get().div_ceil(payload.max(1)).max(1);
        Bytes::new(payload + link.packet_overhead.get() / pieces)
    };
    match link.class {
        LinkClass::Pcie => cut(fabric.node_spec().pcie_payload.get()),
        LinkClass::Network | LinkClass::Uplink => fabric.mtu() + link.packet_overhead,
        LinkClass::NvLink => cut(256),
        // Coherent links carry cache lines.
        _ => cut(64),
    }
}

/// Time from the loss of a packet until its repetition leaves: there and back over the link itself where links repeat
/// (PCIe, NVLink, sockets), over the longest path of the network where only its ends do.
fn round_trip(fabric: &Fabric, link: &Link) -> Span {
    if !link.class.is_network() {
        return link.latency * 2;
    }
    let (first, last) = (fabric.nodes().first(), fabric.nodes().last());
    let nics = first.and_then(|n| n.nics.first()).zip(last.and_then(|n| n.nics.last()));
    let route = nics.and_then(|(a, b)| fabric.route(&RouteRequest::auto(*a, *b)).ok());
    let one_way: Span = route.map_or(link.latency, |r| r.links.iter().map(|&id| fabric.link(id).latency).sum());
    one_way * 2
}

impl Degraded {
    /// The keys that set a rate and are given.
    fn rate_keys(&self) -> Vec<&'static str> {
        let given = [
            ("rate", self.rate.is_some()),
            ("factor", self.factor.is_some()),
            ("lanes", self.lanes.is_some()),
            ("links", self.links.is_some()),
        ];
        given.into_iter().filter(|(_, is)| *is).map(|(key, _)| key).collect()
    }

    fn check(&self) -> Result<(), FaultError> {
        let keys = self.rate_keys();
        if keys.len() > 1 || (self.speed.is_some() && keys.iter().any(|k| *k != "lanes")) {
            let mut keys = keys;
            keys.extend(self.speed.is_some().then_some("speed"));
            let key = keys[1];
            let label = format!("{} each set the rate", keys.join(", "));
            return Err(FaultError::contradiction(key, "one way to set a rate is enough", label)
                .help("`lanes` and `speed` may stand together; otherwise keep one"));
        }
        if let Some(factor) = self.factor
            && !(factor > 0.0 && factor <= 1.0)
        {
            let label = format!("{factor}; a part of the link's own rate: above 0, at most 1");
            return Err(FaultError::range("factor", "`factor` is out of range", label)
                .help("kind = \"dead\" is a link that carries nothing"));
        }
        if let Some(errors) = self.errors
            && !(errors.value() > 0.0 && errors.value() < 1.0)
        {
            let label = format!("{}; a probability: above 0, below 1", errors.value());
            return Err(FaultError::range(errors.key(), format!("`{}` is out of range", errors.key()), label));
        }
        Ok(())
    }

    fn wanted(&self) -> Wanted {
        if self.lanes.is_some() || self.speed.is_some() {
            Wanted::Pcie
        } else if self.links.is_some() {
            Wanted::ScaleUp
        } else {
            Wanted::Cable
        }
    }

    /// The link as it becomes, and what it loses if it is one of the network.
    fn change(&self, id: LinkId, patient: &Patient<'_>) -> Result<(Link, Option<Lossy>), FaultError> {
        let fabric = patient.fabric();
        let mut link = *fabric.link(id);
        let own = link.rate;
        let too_much = |key: &'static str, asked: String, has: String| {
            let label = format!("{asked}, and {} has {has}", fabric.link_name(id));
            FaultError::range(key, "a fault can't make a link faster", label)
        };
        let part = |whole: u64, of: u32| {
            Rate::bytes_per_sec((u128::from(own.get()) * u128::from(whole) / u128::from(of.max(1))) as u64)
        };
        if let Some(rate) = self.rate {
            if rate > own {
                return Err(too_much("rate", rate.to_string(), own.to_string()));
            }
            link.rate = rate;
        }
        if let Some(factor) = self.factor {
            link.rate = Rate::bytes_per_sec((own.get() as f64 * factor) as u64);
        }
        for (key, left) in [("lanes", self.lanes), ("links", self.links)] {
            let Some(left) = left else { continue };
            if left > link.width {
                return Err(too_much(key, format!("{left} {key}"), link.width.to_string()));
            }
            (link.rate, link.width) = (part(u64::from(left), link.width), left);
        }
        if let Some(generation) = self.speed {
            let row = patient.catalogue.pcie(generation).map_err(|error| {
                FaultError::range("speed", format!("no PCIe generation {generation}"), error.to_string())
            })?;
            let rate = Rate::bytes_per_sec(row.lane_rate.get().saturating_mul(u64::from(link.width)));
            if rate > link.rate {
                return Err(too_much("speed", format!("Gen{generation} x{} is {rate}", link.width), own.to_string()));
            }
            link.rate = rate;
            let packets = fabric.mtu().get().div_ceil(fabric.node_spec().pcie_payload.get().max(1));
            link.packet_overhead = row.tlp_overhead * packets;
        }
        link.latency += self.added_latency;
        let (mut lossy, sound) = (None, (link.rate, link.latency));
        if let Some(errors) = self.errors {
            let wire = packet(fabric, &link);
            let retries = Retries::go_back_n(errors.packet_loss(wire), round_trip(fabric, &link), wire, link.rate);
            link.rate = Rate::bytes_per_sec((link.rate.get() as f64 * retries.goodput) as u64);
            link.latency += retries.delay;
            lossy = link.class.is_network().then_some(retries.loss);
        }
        link.rate = link.rate.max(Rate::MIN);
        let lossy = lossy.map(|loss| Lossy { loss, before: sound, after: (link.rate, link.latency) });
        Ok((link, lossy))
    }
}

/// The change in a few words: `25.0 of 50.0 GB/s, 8 of 16 lanes, 2 us later`.
fn words(before: &Link, after: &Link) -> String {
    let mut what = Vec::new();
    if after.width != before.width {
        let unit = if before.class == LinkClass::Pcie { "lanes" } else { "links" };
        what.push(format!("{} of {} {unit}", after.width, before.width));
    }
    if after.rate != before.rate {
        what.push(format!("{} of {} GB/s", gbyte(after.rate), gbyte(before.rate)));
    }
    if after.latency > before.latency {
        what.push(format!("{} later", after.latency - before.latency));
    }
    what.join(", ")
}

fn gbyte(rate: Rate) -> String {
    let value = rate.as_gbyte();
    if value < 0.1 { format!("{value:.3}") } else { format!("{value:.1}") }
}

impl Effect for Degraded {
    fn name(&self) -> &'static str {
        "degraded"
    }

    fn rank(&self) -> u8 {
        5
    }

    fn apply(&self, items: &[Item], patient: &mut Patient<'_>) -> Result<String, FaultError> {
        self.check()?;
        let links = patient.living(links_of(items, patient.fabric(), self.wanted())?)?;
        let mut all: Vec<String> = Vec::new();
        let mut changed = false;
        for id in links {
            let before = *patient.fabric().link(id);
            let (after, lossy) = self.change(id, patient)?;
            if let Some(lossy) = lossy {
                patient.lose(id, lossy);
            }
            if before == after {
                continue;
            }
            changed = true;
            let what = words(&before, &after);
            if !all.contains(&what) && all.len() < 4 {
                all.push(what.clone());
            }
            patient.degrade(id, what, |link| *link = after);
        }
        if !changed {
            patient.warn("target", "the fault has no effect", "the links have that rate and latency already");
            return Ok("nothing changed".to_owned());
        }
        Ok(all.join("; "))
    }
}
