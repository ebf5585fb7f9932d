//! DCTCP.

use std::sync::Arc;

use sim_core::rate_control::{DctcpParams, RateSpec};
use sim_core::units::Bytes;

use super::super::reach::Reach;
use super::super::reader::Inside;
use super::{ADDITIVE_PACKETS, Control, Marks, SHARE, fraction};
use crate::scenario::keys::{Kind, TableSpec, key};

/// A window by the share of marked packets.
pub(super) const DCTCP: Control = Control {
    marks: Some(Marks { marking: "step", notice: "echo", interval_us: 0 }),
    ..Control::new("dctcp", |reader, reach| Some(RateSpec::Dctcp(Arc::new(read(&mut reader.inside("dctcp"), reach)?))))
        .keys(&KEYS)
};

static KEYS: TableSpec = TableSpec {
    name: "transport.dctcp",
    doc: "DCTCP (SIGCOMM 2010) with a window in bytes.",
    keys: &[
        key("gain", SHARE, "g, the gain of the marked share.").default("0.0625"),
        ADDITIVE_PACKETS.default("1"),
        key("initial", Kind::Size(false), "Window at the start. Without it, one bandwidth-delay product (assumed)."),
        key("max", Kind::Size(false), "Largest window. Without it, four times the initial one (assumed)."),
    ],
};

fn read(table: &mut Inside<'_, '_, '_>, reach: &Reach) -> Option<DctcpParams> {
    let base = DctcpParams::new(reach.nic, reach.round_trip, reach.mtu.get());
    let initial = table.size_or("initial", Bytes::new(base.initial)).get();
    Some(DctcpParams {
        gain: fraction(table.number("gain")?),
        step: (table.number("additive")? * reach.mtu.get() as f64) as u64,
        initial,
        min: base.min,
        max: table.size_or("max", Bytes::new(initial.saturating_mul(4))).get(),
    })
}
