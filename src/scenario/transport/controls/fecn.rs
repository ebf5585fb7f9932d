//! InfiniBand's congestion control.

use std::sync::Arc;

use sim_core::rate_control::{FecnParams, RateSpec};

use super::super::reader::Inside;
use super::{Control, Marks, Odd};
use crate::scenario::keys::{Kind, TableSpec, key};

/// A table of delays that notices move up.
pub(super) const FECN: Control = Control {
    marks: Some(Marks { marking: "root", notice: "packet", interval_us: 0 }),
    odd: |rate| {
        let RateSpec::Fecn(fecn) = rate else { return None };
        let label = format!("min is {}, and limit is {}", fecn.min, fecn.limit);
        (u16::from(fecn.min) > fecn.limit).then_some(Odd { low: "fecn.min", high: "fecn.limit", label })
    },
    ..Control::new("fecn", |reader, _| Some(RateSpec::Fecn(Arc::new(read(&mut reader.inside("fecn"))?)))).keys(&KEYS)
};

static KEYS: TableSpec = TableSpec {
    name: "transport.fecn",
    doc: "InfiniBand's congestion control (annex A10): notices move an index up a table of delays, a timer moves it down.",
    keys: &[
        key(
            "entries",
            Kind::Integer(1, 16_384),
            "Entries of the table, each an eighth of a packet time longer than the one before (assumed).",
        )
        .default("128"),
        key("increase", Kind::Integer(1, 255), "CCTI_Increase: added to the index by a notice (assumed).").default("1"),
        key(
            "timer",
            Kind::Integer(0, 65_535),
            "CCTI_Timer: the index falls by one each so many 1.024 us; 0 is never (assumed).",
        )
        .default("150"),
        key("min", Kind::Integer(0, 255), "CCTI_Min: the least index.").default("0"),
        key("limit", Kind::Integer(0, 16_383), "CCTI_Limit: the largest index. Without it, the table's last."),
    ],
};

fn read(table: &mut Inside<'_, '_, '_>) -> Option<FecnParams> {
    let base = FecnParams::linear(table.integer("entries")?);
    Some(FecnParams {
        increase: table.integer("increase")?,
        timer: table.integer("timer")?,
        min: table.integer("min")?,
        limit: table.integer_or("limit", base.limit),
        ..base
    })
}
