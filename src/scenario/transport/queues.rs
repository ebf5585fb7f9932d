//! Queues of switches: marks, buffers, pauses, credits.

use sim_core::net::spec::{CreditSpec, FlowControlSpec, Freed, MarkAt, Marking, PauseSpec, SharedSpec, Threshold};
use sim_core::units::{Bytes, Rate, Span};
use sim_topology::Fabric;

use super::controls::Control;
use super::reach::Reach;
use super::reader::{Inside, Reader};

/// The buffer of a switch whose row has none (HPCC's ns-3).
const BUFFER: Bytes = Bytes::mib(32);
/// The most that credits can announce: 2,048 blocks of 64 B.
pub(super) const MOST_CREDIT: Bytes = Bytes::kib(128);

/// When packets are marked that senders of a control are to hear of.
pub(super) fn marking(ecn: &mut Inside<'_, '_, '_>, control: &Control, reach: &Reach) -> Option<Marking> {
    let usual = control.marks.map_or("off", |marks| marks.marking);
    let at = |word: &str| if word == "dequeue" { MarkAt::Dequeue } else { MarkAt::Enqueue };
    // A twentieth of a bit time more or less: rates are counted in bytes.
    let per_gbit = |bytes: u64| Bytes::new(bytes * 8 * (reach.nic.get() / 1_000_000) / 1_000);
    Some(match ecn.choice_or("marking", usual) {
        "red" => Marking::Red {
            kmin: small(ecn.size_or("kmin", per_gbit(4_000))),
            kmax: small(ecn.size_or("kmax", per_gbit(16_000))),
            pmax: share(ecn.number("pmax")?),
            at: at(ecn.choice_or("at", "enqueue")),
        },
        "step" => {
            let k = small(ecn.size_or("step", Bytes::new(reach.product().get() / 7).max(reach.packet)));
            Marking::Red { kmin: k, kmax: k, pmax: u32::MAX, at: at(ecn.choice_or("at", "enqueue")) }
        }
        "root" => Marking::Root {
            threshold: small(ecn.size_or("threshold", Bytes::new(lane(reach).get() / 2))),
            victims: ecn.boolean("victims"),
        },
        _ => Marking::Off,
    })
}

/// A lane's buffer by the rate of the links.
fn lane(reach: &Reach) -> Bytes {
    if reach.fastest <= Rate::gbit(200) { Bytes::kib(64) } else { MOST_CREDIT }
}

/// What keeps buffers from overflowing; `lossy`: some class may be dropped.
pub(super) fn flow_control(
    reader: &mut Reader<'_, '_>,
    word: &str,
    lossy: bool,
    fabric: &Fabric,
    reach: &Reach,
) -> Option<FlowControlSpec> {
    Some(match word {
        "credits" => {
            let mut credits = reader.inside("credits");
            FlowControlSpec::Credits(CreditSpec {
                buffer: credits.size_or("per_lane", lane(reach)),
                release: credits.time("release")?,
                wire: small(credits.size("packet")?),
            })
        }
        "pfc" | "drop" => FlowControlSpec::Shared(shared(reader, word == "pfc", lossy, fabric, reach)?),
        _ => FlowControlSpec::Unlimited,
    })
}

fn shared(reader: &mut Reader<'_, '_>, pfc: bool, lossy: bool, fabric: &Fabric, reach: &Reach) -> Option<SharedSpec> {
    let places = fabric.places().ok()?;
    let least = places.buffers.iter().flatten().min().copied().unwrap_or(BUFFER);
    let mut buffer = reader.inside("buffer");
    let size = buffer.size_or("size", least).get();
    let freed = if buffer.choice_or("freed", "at-end") == "at-start" { Freed::AtStart } else { Freed::AtEnd };
    let mut spec = SharedSpec {
        size,
        ports: None,
        threshold: Threshold::Dynamic { alpha: 1 << 13, offset: 3072 },
        reserve: 0,
        headroom: 0,
        lossy_alpha: 1 << 16,
        lossy_limit: u64::MAX,
        pause: PauseSpec { wire: 84, acts_after: None, response: Span::ZERO, quanta: 0 },
        freed,
    };
    if lossy {
        spec.lossy_alpha = alpha(buffer.number("alpha_lossy")?);
        spec.lossy_limit = if buffer.has("limit") { buffer.size("limit")?.get() } else { u64::MAX };
    }
    if !pfc {
        return Some(spec);
    }
    let mut pfc = reader.inside("pfc");
    spec.threshold = if pfc.has("xoff") {
        let xoff = pfc.size("xoff")?.get();
        let below = xoff.saturating_sub(2 * reach.packet.get());
        Threshold::Static { xoff, xon: pfc.size_or("xon", Bytes::new(below)).get() }
    } else {
        Threshold::Dynamic { alpha: alpha(pfc.number("alpha")?), offset: pfc.size("xon_offset")?.get() }
    };
    spec.reserve = pfc.size("reserve")?.get();
    let frame = pfc.size("frame")?;
    let acts_after = if pfc.has("acts_after") { Some(pfc.time("acts_after")?) } else { None };
    let response = match acts_after {
        // The way of the frame is in it.
        Some(_) => Span::ZERO,
        None => pfc.time_or("response", response(reach.fastest)),
    };
    spec.headroom = pfc.size_or("headroom", reach.headroom(frame, response)).get();
    spec.pause = PauseSpec { wire: small(frame), acts_after, response, quanta: pfc.integer("quanta")? };
    Some(spec)
}

/// The bound of IEEE 802.3 on what a sender needs to act on a frame.
fn response(rate: Rate) -> Span {
    let bound = [(10, 30_720), (25, 40_960), (40, 60_416), (100, 201_728), (400, 463_360)];
    let bits = bound.iter().find(|(gbit, _)| rate <= Rate::gbit(*gbit)).map_or(2 * 463_360, |(_, bits)| *bits);
    rate.ps_per_byte().cost(Bytes::new(bits / 8))
}

/// Whether more can arrive after a pause than the headroom holds.
pub(super) fn overruns(flow_control: &FlowControlSpec, reach: &Reach) -> bool {
    needed(flow_control, reach).is_some_and(|(have, need)| have < need)
}

/// The headroom, and what can arrive after a pause.
pub(super) fn needed(flow_control: &FlowControlSpec, reach: &Reach) -> Option<(Bytes, Bytes)> {
    let FlowControlSpec::Shared(shared) = flow_control else { return None };
    let have = Bytes::new(shared.headroom);
    let need = match shared.pause.acts_after {
        Some(after) => {
            let flight = reach.fastest.ps_per_byte().bytes_in(after + reach.longest);
            flight + reach.packet + reach.packet
        }
        None => reach.headroom(Bytes::new(u64::from(shared.pause.wire)), shared.pause.response),
    };
    Some((have, need))
}

/// A size in 32 bits; larger ones are as good as no bound.
fn small(size: Bytes) -> u32 {
    u32::try_from(size.get()).unwrap_or(u32::MAX)
}

/// A share in 2⁻³².
pub(super) fn share(share: f64) -> u32 {
    (share * 4_294_967_296.0).min(4_294_967_295.0) as u32
}

/// A factor in 2⁻¹⁶.
fn alpha(factor: f64) -> u64 {
    (factor * 65_536.0).round() as u64
}
