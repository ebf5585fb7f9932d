//! The tables of catalogue rows that no model builds from.

use super::catalogue::{LANES, LIKE, NOTE, POWER, PRICE, TFLOPS, TITLE};
use super::{Kind, TableSpec, Unit, key};

const AMOUNT: Kind = Kind::Number(0.0, 1e15);
const MICROSECONDS: Kind = Kind::Number(0.0, 1e9);

pub(super) static PCIE_SWITCH: TableSpec = TableSpec {
    name: "catalogue.pcie_switch",
    doc: "A PCIe switch chip.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("generation", Kind::Integer(1, 99), "PCIe generation.").required(),
        key("lanes", Kind::Integer(1, 1024), "Lanes of all ports together.").required(),
        key("latency_ns", Kind::Figure(Unit::Nanoseconds), "Latency from port to port.").required(),
        key("forwarding", Kind::Text, "How it forwards.").required(),
        key(
            "collapse_writers",
            Kind::Integer(1, 1024),
            "Devices below it whose writes to two other root ports collapse.",
        ),
        key("collapse_from_GBps", Kind::Figure(Unit::GBps), "What they would have together."),
        key("collapse_to_GBps", Kind::Figure(Unit::GBps), "What they were measured at."),
        POWER,
        PRICE,
    ],
};

pub(super) static OPTIC: TableSpec = TableSpec {
    name: "catalogue.optic",
    doc: "A transceiver.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("ports", Kind::Integer(1, 64), "Network ports of the module.").required(),
        key("port_gbit", Kind::Figure(Unit::Gbit), "Rate of a port.").required(),
        key("max_m", Kind::Number(0.0, 100_000.0), "The longest run, m."),
        POWER,
        key("max_power_w", Kind::Number(0.0, 1e6), "Highest power, W."),
        PRICE,
    ],
};

pub(super) static FEC: TableSpec = TableSpec {
    name: "catalogue.fec",
    doc: "Forward error correction on a port. What links cost is in the `latency` rows `fec-400g` and so on.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("code", Kind::Text, "The code.").required(),
        key("codeword_bits", Kind::Integer(1, 1_000_000), "Bits of a codeword.").required(),
        key("lanes", LANES, "Lanes of the port.").required(),
        key("lane_line_gbit", Kind::Number(0.001, 1e6), "Line rate of a lane, Gb/s.").required(),
        key("decode_ns", Kind::Figure(Unit::Nanoseconds), "Time of the decoder.").required(),
        key("accumulate_ns", Kind::Figure(Unit::Nanoseconds), "Time to collect a codeword.").required(),
        key("latency_ns", Kind::Figure(Unit::Nanoseconds), "With one codeword.").required(),
        key("interleaved_latency_ns", Kind::Figure(Unit::Nanoseconds), "With two interleaved ones.").required(),
    ],
};

pub(super) static PATH_LATENCY: TableSpec = TableSpec {
    name: "catalogue.path_latency",
    doc: "The latency of a whole path for a few bytes.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("path_us", MICROSECONDS, "The value to take, us.").required(),
        key("min_us", MICROSECONDS, "The least, us."),
        key("max_us", MICROSECONDS, "The greatest, us."),
    ],
};

pub(super) static CONSTANT: TableSpec = TableSpec {
    name: "catalogue.constant",
    doc: "A single figure.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("value", AMOUNT, "The figure."),
        key("min", AMOUNT, "The least."),
        key("max", AMOUNT, "The greatest."),
        key("unit", Kind::Text, "Its unit."),
    ],
};

pub(super) static PRICE_ROW: TableSpec = TableSpec {
    name: "catalogue.price",
    doc: "A price.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("amount", AMOUNT, "The price."),
        key("min", AMOUNT, "The least."),
        key("max", AMOUNT, "The greatest."),
        key("currency", Kind::Text, "The currency."),
        key("per", Kind::Text, "What one buys for it.").required(),
        key("date", Kind::Text, "When it was so."),
    ],
};

pub(super) static RENTAL: TableSpec = TableSpec {
    name: "catalogue.rental",
    doc: "The rent of a GPU in a cloud.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("gpu", Kind::Named("a GPU", "h100-sxm"), "The GPU.").required(),
        key("min_usd_per_hour", AMOUNT, "The least, US dollars an hour.").required(),
        key("max_usd_per_hour", AMOUNT, "The greatest, US dollars an hour.").required(),
        key("date", Kind::Text, "When it was so.").required(),
    ],
};

pub(super) static POWER_ROW: TableSpec = TableSpec {
    name: "catalogue.power",
    doc: "What a system or a part draws.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("power_w", Kind::Number(0.0, 1e9), "Typical power, W.").required(),
        key("max_power_w", Kind::Number(0.0, 1e9), "Highest power, W."),
    ],
};

pub(super) static MEASURED: TableSpec = TableSpec {
    name: "catalogue.measured",
    doc: "Something that was measured. Rates are of one direction.",
    keys: &[
        LIKE,
        TITLE,
        NOTE,
        key("subject", Kind::Text, "What it is about.").required(),
        key("gpu", Kind::Text, "The GPU."),
        key("ranks", Kind::Integer(1, 10_000_000), "Ranks that took part."),
        key("operation", Kind::Text, "The collective operation."),
        key("algorithm", Kind::Text, "Its algorithm."),
        key("size", Kind::Text, "The message's size, as it was written."),
        key("dtype", Kind::Text, "The data type."),
        key("bytes", Kind::Integer(0, i64::MAX), "The message's size in bytes."),
        key("rate_GBps", Kind::Figure(Unit::GBps), "The rate."),
        key("both_directions_GBps", Kind::Figure(Unit::GBps), "The sum of both directions."),
        key("of_GBps", Kind::Figure(Unit::GBps), "The net rate of the link beneath."),
        key("rate_gbit", Kind::Figure(Unit::Gbit), "The rate of a network port."),
        key("of_gbit", Kind::Figure(Unit::Gbit), "The net rate of that port."),
        key("busbw_GBps", Kind::Figure(Unit::GBps), "Bus bandwidth."),
        key("latency_us", MICROSECONDS, "A time, us."),
        key("tflops", TFLOPS, "A matrix rate, TFLOP/s."),
        key("efficiency", Kind::Number(0.0, 1.0), "Its share of the dense peak."),
        key("test", Kind::Text, "The program that measured."),
        key("by", Kind::Text, "Who measured."),
        key("feeds", Kind::Text, "The parameter of the catalogue that was taken from it."),
    ],
};
