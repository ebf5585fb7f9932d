//! TIMELY.

use std::sync::Arc;

use sim_core::rate_control::{RateSpec, TimelyParams};

use super::super::reader::Inside;
use super::{Control, Odd, SHARE, fraction};
use crate::scenario::keys::{Kind, TableSpec, key};

/// A rate by the gradient of delay.
pub(super) const TIMELY: Control = Control {
    odd: |rate| {
        let RateSpec::Timely(timely) = rate else { return None };
        let label = format!("low is {}, and high is {}", timely.low, timely.high);
        (timely.low > timely.high).then_some(Odd { low: "timely.low", high: "timely.high", label })
    },
    ..Control::new("timely", |reader, _| Some(RateSpec::Timely(Arc::new(read(&mut reader.inside("timely"))?))))
        .keys(&KEYS)
};

static KEYS: TableSpec = TableSpec {
    name: "transport.timely",
    doc: "TIMELY (SIGCOMM 2015): a rate by the gradient of round trips.",
    keys: &[
        key("low", Kind::Time, "Below it the rate rises (paper).").default("50 us"),
        key("high", Kind::Time, "Above it the rate falls (paper).").default("500 us"),
        key("min_rtt", Kind::Time, "What gradients are divided by (paper).").default("20 us"),
        key("gain", SHARE, "Gain of the mean of differences (CoNEXT 2016).").default("0.875"),
        key("beta", SHARE, "Share that a cut takes (paper).").default("0.8"),
        key("additive", Kind::Rate, "A step of a rise (paper).").default("10 Mb/s"),
        key("segment", Kind::Size(false), "Bytes between samples (paper).").default("16 KiB"),
        key("min_rate", Kind::Rate, "The least rate (assumed).").default("10 Mb/s"),
    ],
};

fn read(table: &mut Inside<'_, '_, '_>) -> Option<TimelyParams> {
    Some(TimelyParams {
        low: table.time("low")?,
        high: table.time("high")?,
        min_rtt: table.time("min_rtt")?,
        gain: fraction(table.number("gain")?),
        multiplicative: fraction(table.number("beta")?),
        additive: table.rate("additive")?,
        segment: table.size("segment")?.get(),
        min: table.rate("min_rate")?,
        ..TimelyParams::default()
    })
}
