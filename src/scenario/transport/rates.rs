//! Controllers of senders' rates, and how marks come back to them.

use std::sync::Arc;

use sim_core::net::spec::{GrantSpec, Notice};
use sim_core::rate_control::{
    DcqcnFirmwareParams, DcqcnParams, DctcpParams, FecnParams, Fraction, HpccParams, RateSpec, Recovery, StageRule,
    SwiftParams, TimelyParams,
};
use sim_core::units::{Bytes, Span};

use super::reach::Reach;
use super::reader::{Inside, Reader};

/// How marks come back, and whether a changed rate moves what waits.
pub(super) fn notice(reader: &mut Reader<'_, '_>, rate_control: &str) -> Option<(Notice, bool)> {
    let dcqcn = matches!(rate_control, "dcqcn" | "dcqcn-firmware");
    let retime = if dcqcn { reader.inside("dcqcn").boolean("retime") } else { true };
    if matches!(rate_control, "none" | "fixed" | "swift" | "timely" | "hpcc" | "receiver") {
        return Some((Notice::Echo, retime));
    }
    let mut ecn = reader.inside("ecn");
    let usual = if dcqcn || rate_control == "fecn" { "packet" } else { "echo" };
    if ecn.choice_or("notice", usual) == "echo" {
        return Some((Notice::Echo, retime));
    }
    let interval = Span::from_us(match rate_control {
        "dcqcn-firmware" => 4,
        "dcqcn" => 50,
        _ => 0,
    });
    let interval = ecn.time_or("cnp_interval", interval);
    Some((Notice::Packet { interval, delay: ecn.time("cnp_delay")? }, retime))
}

pub(super) fn rate(reader: &mut Reader<'_, '_>, word: &str, reach: &Reach) -> Option<RateSpec> {
    Some(match word {
        "fixed" => RateSpec::Fixed { window: reader.size_or("window", reach.product()) },
        "dcqcn" => RateSpec::Dcqcn(Arc::new(published(&mut reader.inside("dcqcn"), reach)?)),
        "dcqcn-firmware" => RateSpec::DcqcnFirmware(Arc::new(firmware(&mut reader.inside("dcqcn"), reach)?)),
        "hpcc" => RateSpec::Hpcc(Arc::new(hpcc(&mut reader.inside("hpcc"), reach)?)),
        "receiver" => RateSpec::Receiver { unasked: reader.inside("receiver").size("unasked")? },
        "dctcp" => RateSpec::Dctcp(Arc::new(dctcp(&mut reader.inside("dctcp"), reach)?)),
        "swift" => RateSpec::Swift(Arc::new(swift(&mut reader.inside("swift"), reach)?)),
        "timely" => RateSpec::Timely(Arc::new(timely(&mut reader.inside("timely"))?)),
        "fecn" => RateSpec::Fecn(Arc::new(fecn(&mut reader.inside("fecn"))?)),
        _ => RateSpec::None,
    })
}

/// A share as the core counts it; exact for parts of 2³².
fn fraction(share: f64) -> Fraction {
    Fraction::ratio((share * 4_294_967_296.0).round() as u64, 1 << 32)
}

/// The values of a set.
fn set(word: &str, reach: &Reach) -> DcqcnFirmwareParams {
    let paper = DcqcnParams::paper();
    match word {
        "firmware" => DcqcnFirmwareParams::shipped(),
        "simulated" => DcqcnFirmwareParams::simulated(reach.nic),
        _ => DcqcnFirmwareParams {
            alpha_timer: paper.alpha_timer,
            gain: paper.gain,
            initial_alpha: paper.initial_alpha,
            cut_gate: Span::ZERO,
            recovery: paper.recovery,
            ..DcqcnFirmwareParams::shipped()
        },
    }
}

fn recovery(table: &mut Inside<'_, '_, '_>, base: Recovery, stages: StageRule) -> Recovery {
    Recovery {
        timer: table.time_or("timer", base.timer),
        byte_counter: table.size_or("byte_counter", Bytes::new(base.byte_counter)).get(),
        threshold: table.integer_or("threshold", base.threshold),
        additive: table.rate_or("additive", base.additive),
        hyper: table.rate_or("hyper", base.hyper),
        min: table.rate_or("min_rate", base.min),
        stages,
    }
}

fn published(table: &mut Inside<'_, '_, '_>, reach: &Reach) -> Option<DcqcnParams> {
    let base = set(table.choice_or("set", "paper"), reach);
    Some(DcqcnParams {
        alpha_timer: table.time_or("alpha_timer", base.alpha_timer),
        gain: share_or(table, "gain", base.gain),
        initial_alpha: share_or(table, "initial_alpha", base.initial_alpha),
        recovery: recovery(table, base.recovery, StageRule::Published),
    })
}

fn share_or(table: &mut Inside<'_, '_, '_>, key: &str, base: Fraction) -> Fraction {
    fraction(table.number_or(key, base.raw() as f64 / 4_294_967_296.0))
}

fn firmware(table: &mut Inside<'_, '_, '_>, reach: &Reach) -> Option<DcqcnFirmwareParams> {
    let base = set(table.choice_or("set", "firmware"), reach);
    Some(DcqcnFirmwareParams {
        free_alpha: table.boolean("free_alpha"),
        cut_gate: table.time_or("cut_gate", base.cut_gate),
        keep_target: table.boolean("keep_target"),
        alpha_timer: table.time_or("alpha_timer", base.alpha_timer),
        gain: share_or(table, "gain", base.gain),
        initial_alpha: share_or(table, "initial_alpha", base.initial_alpha),
        first_rate: if table.has("first_rate") { table.rate("first_rate") } else { base.first_rate },
        recovery: recovery(table, base.recovery, base.recovery.stages),
    })
}

fn dctcp(table: &mut Inside<'_, '_, '_>, reach: &Reach) -> Option<DctcpParams> {
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

fn hpcc(table: &mut Inside<'_, '_, '_>, reach: &Reach) -> Option<HpccParams> {
    let utilisation = fraction(table.number("utilisation")?);
    let base = HpccParams::new(reach.nic, reach.round_trip, reach.mtu.get());
    let usual = utilisation.rest().of(reach.product().get()) / 100;
    Some(HpccParams {
        utilisation,
        stages: table.integer("stages")?,
        additive: table.size_or("additive", Bytes::new(usual.max(1))).get(),
        ..base
    })
}

/// What receivers grant.
pub(super) fn grants(reader: &mut Reader<'_, '_>, reach: &Reach) -> GrantSpec {
    let mut table = reader.inside("receiver");
    let product = reach.product().get();
    GrantSpec {
        budget: table.size_or("budget", Bytes::new(product + product / 2)).get(),
        unit: table.size_or("unit", reach.mtu).get(),
    }
}

fn swift(table: &mut Inside<'_, '_, '_>, reach: &Reach) -> Option<SwiftParams> {
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

fn timely(table: &mut Inside<'_, '_, '_>) -> Option<TimelyParams> {
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

fn fecn(table: &mut Inside<'_, '_, '_>) -> Option<FecnParams> {
    let base = FecnParams::linear(table.integer("entries")?);
    Some(FecnParams {
        increase: table.integer("increase")?,
        timer: table.integer("timer")?,
        min: table.integer("min")?,
        limit: table.integer_or("limit", base.limit),
        ..base
    })
}
