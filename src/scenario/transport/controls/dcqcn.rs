//! DCQCN, as published and as adapters' firmware has it.

use std::sync::Arc;

use sim_core::rate_control::{DcqcnFirmwareParams, DcqcnParams, Fraction, RateSpec, Recovery, StageRule};
use sim_core::units::{Bytes, Span};

use super::super::reach::Reach;
use super::super::reader::Inside;
use super::{Control, Marks, SHARE, fraction};
use crate::scenario::keys::{Kind, TableSpec, key};

const MARKS: Marks = Marks { marking: "red", notice: "packet", interval_us: 50 };
const TABLE: Control = Control::new("dcqcn", |_, _| None).keys(&KEYS);

/// As SIGCOMM 2015 has it.
pub(super) const PUBLISHED: Control = Control {
    marks: Some(MARKS),
    retimes: true,
    read: |reader, reach| Some(RateSpec::Dcqcn(Arc::new(published(&mut reader.inside("dcqcn"), reach)?))),
    ..TABLE
};

/// As adapters have it.
pub(super) const FIRMWARE: Control = Control {
    word: "dcqcn-firmware",
    shares_table: true,
    // Dumps of adapters.
    marks: Some(Marks { interval_us: 4, ..MARKS }),
    read: |reader, reach| Some(RateSpec::DcqcnFirmware(Arc::new(firmware(&mut reader.inside("dcqcn"), reach)?))),
    ..PUBLISHED
};

static KEYS: TableSpec = TableSpec {
    name: "transport.dcqcn",
    doc: "DCQCN. `set` gives what the other keys do not.",
    keys: &[
        key(
            "set",
            Kind::Choice(&["paper", "firmware", "simulated"]),
            "paper: SIGCOMM 2015. firmware: defaults of adapters since ConnectX-4. simulated: HPCC's ns-3, whose increases follow \
             the line rate. Without it, paper for dcqcn, firmware for dcqcn-firmware.",
        ),
        key("alpha_timer", Kind::Time, "K: the period of alpha. paper 55 us, firmware and simulated 1 us."),
        key("gain", SHARE, "g, the gain of alpha. paper and simulated 1/256, firmware 5/1024."),
        key("initial_alpha", SHARE, "alpha at the first notice. paper and simulated 1, firmware 1023/1024."),
        key(
            "cut_gate",
            Kind::Time,
            "dcqcn-firmware: least time between two cuts; 0 is none. firmware and simulated 4 us, paper 0.",
        ),
        key(
            "timer",
            Kind::Time,
            "T: the rate rises each such time; 0 is never. paper 55 us, firmware and simulated 300 us.",
        ),
        key(
            "byte_counter",
            Kind::Size(true),
            "B: it rises each so many bytes; 0 is never. paper 10 MB, firmware 32767 B, simulated 0.",
        ),
        key("threshold", Kind::Integer(0, 1000), "F: rises of fast recovery. paper 5, firmware and simulated 1."),
        key("additive", Kind::Rate, "R_AI. paper 40 Mb/s, firmware 5 Mb/s, simulated 5 Mb/s for each 25 Gb/s."),
        key(
            "hyper",
            Kind::Rate,
            "R_HAI. paper 400 Mb/s (assumed), firmware 50 Mb/s, simulated 50 Mb/s for each 25 Gb/s.",
        ),
        key("min_rate", Kind::Rate, "The least rate. paper 10 Mb/s (assumed), firmware 1 Mb/s, simulated 100 Mb/s."),
        key("first_rate", Kind::Rate, "dcqcn-firmware: the most at the first notice. Without it, no bound."),
        key(
            "keep_target",
            Kind::Boolean,
            "dcqcn-firmware: a cut makes the rate the target only if the timer raised it since the last cut.",
        )
        .default("true"),
        key(
            "free_alpha",
            Kind::Boolean,
            "dcqcn-firmware: alpha moves on a timer that runs freely, and not at each notice.",
        )
        .default("true"),
        key("retime", Kind::Boolean, "A changed rate moves the start of a packet that waits for its turn.")
            .default("true"),
    ],
};

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
