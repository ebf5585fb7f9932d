//! Swift.

use std::sync::Arc;

use sim_core::rate_control::{RateSpec, SwiftParams};

use super::super::reach::Reach;
use super::super::reader::Inside;
use super::{ADDITIVE_PACKETS, Control, SHARE, fraction};
use crate::scenario::keys::{Kind, TableSpec, key};

/// A window by a target of delay.
pub(super) const SWIFT: Control =
    Control::new("swift", |reader, reach| Some(RateSpec::Swift(Arc::new(read(&mut reader.inside("swift"), reach)?))))
        .keys(&KEYS);

static KEYS: TableSpec = TableSpec {
    name: "transport.swift",
    doc: "Swift (SIGCOMM 2020): a window by the delay of round trips.",
    keys: &[
        key("base_target", Kind::Time, "Target of a round trip before hops and flows are added (assumed).")
            .default("25 us"),
        key("per_hop", Kind::Time, "Added for each hop (assumed).").default("2 us"),
        key("flow_range", Kind::Time, "The most that is added for small windows; 0 is nothing (assumed).")
            .default("125 us"),
        ADDITIVE_PACKETS.default("1"),
        key("beta", SHARE, "Share of the excess delay that a cut takes (paper).").default("0.8"),
        key("largest_cut", SHARE, "The largest cut (paper).").default("0.5"),
        key(
            "max",
            Kind::Integer(1, 1 << 20),
            "Largest window, packets. Without it, two bandwidth-delay products (assumed).",
        ),
    ],
};

fn read(table: &mut Inside<'_, '_, '_>, reach: &Reach) -> Option<SwiftParams> {
    let mtu = reach.mtu.get().max(1);
    let twice = u32::try_from((2 * reach.product().get()).div_ceil(mtu)).unwrap_or(u32::MAX);
    let base_target = table.time("base_target")?;
    let per_hop = table.time("per_hop")?;
    let flow_range = table.time("flow_range")?;
    let additive = fraction(table.number("additive")?);
    let multiplicative = fraction(table.number("beta")?);
    let largest_cut = fraction(table.number("largest_cut")?);
    let max = table.integer_or("max", twice.max(1));
    let base = SwiftParams::new(u32::try_from(mtu).unwrap_or(u32::MAX), max);
    Some(SwiftParams { base_target, per_hop, flow_range, additive, multiplicative, largest_cut, ..base })
}
