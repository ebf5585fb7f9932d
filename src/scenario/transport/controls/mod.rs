//! Controllers of senders' rates, as scenarios have them: one a file with its word, its table of keys, how it is read, and
//! what it expects of the network around it.
//!
//! To add one: a file with a [`Control`], its `mod`, and its line in [`ALL`].

mod dcqcn;
mod dctcp;
mod fecn;
mod hpcc;
mod plain;
mod receiver;
mod swift;
mod timely;

use sim_core::net::spec::{GrantSpec, Notice};
use sim_core::rate_control::{Fraction, RateSpec};
use sim_core::units::Span;

use super::reach::Reach;
use super::reader::Reader;
use crate::scenario::keys::{KeySpec, Kind, TableSpec, key};

/// All, in the order in which they are offered.
pub(crate) const ALL: &[Control] = &[
    plain::NONE,
    plain::FIXED,
    dcqcn::PUBLISHED,
    dcqcn::FIRMWARE,
    dctcp::DCTCP,
    hpcc::HPCC,
    swift::SWIFT,
    timely::TIMELY,
    receiver::RECEIVER,
    fecn::FECN,
];

/// A controller of a sender's rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control {
    /// Its word in `rate_control`.
    pub(crate) word: &'static str,
    /// Its keys, and whether they are another controller's as well, which brings them along.
    table: Option<&'static TableSpec>,
    shares_table: bool,
    /// How it is told of congestion where nobody says otherwise; `None`: marks are nothing to it.
    pub(super) marks: Option<Marks>,
    /// Its table has the key `retime`.
    retimes: bool,
    /// It is the window of `transport.window`, and is not held by one besides.
    pub(super) takes_window: bool,
    /// What receivers do for it.
    pub(super) grants: Option<fn(&mut Reader<'_, '_>, &Reach) -> GrantSpec>,
    /// Reads its keys.
    pub(super) read: fn(&mut Reader<'_, '_>, &Reach) -> Option<RateSpec>,
    /// What contradicts itself.
    pub(super) odd: fn(&RateSpec) -> Option<Odd>,
}

/// How a controller is told of congestion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marks {
    /// The usual word of `ecn.marking`.
    pub(super) marking: &'static str,
    /// The usual word of `ecn.notice`.
    notice: &'static str,
    /// The usual `ecn.cnp_interval`.
    interval_us: u64,
}

/// Two keys in the wrong order.
pub(super) struct Odd {
    pub(super) low: &'static str,
    pub(super) high: &'static str,
    pub(super) label: String,
}

impl Control {
    /// One that needs nothing but its keys.
    const fn new(word: &'static str, read: fn(&mut Reader<'_, '_>, &Reach) -> Option<RateSpec>) -> Self {
        let odd = |_: &RateSpec| None;
        Self {
            word,
            table: None,
            shares_table: false,
            marks: None,
            retimes: false,
            takes_window: false,
            grants: None,
            read,
            odd,
        }
    }

    const fn keys(self, table: &'static TableSpec) -> Self {
        Self { table: Some(table), ..self }
    }

    /// The one that a word means, else none at all.
    pub(super) fn of(word: &str) -> &'static Self {
        ALL.iter().find(|control| control.word == word).unwrap_or(&plain::NONE)
    }

    /// How marks come back, and whether a changed rate moves what waits.
    pub(super) fn notice(&self, reader: &mut Reader<'_, '_>) -> Option<(Notice, bool)> {
        let retime = match self.table {
            Some(table) if self.retimes => reader.inside(key_of(table)).boolean("retime"),
            _ => true,
        };
        let Some(marks) = self.marks else { return Some((Notice::Echo, retime)) };
        let mut ecn = reader.inside("ecn");
        if ecn.choice_or("notice", marks.notice) == "echo" {
            return Some((Notice::Echo, retime));
        }
        let interval = ecn.time_or("cnp_interval", Span::from_us(marks.interval_us));
        Some((Notice::Packet { interval, delay: ecn.time("cnp_delay")? }, retime))
    }
}

/// `transport.dcqcn` is the key `dcqcn` of `[transport]`.
const fn key_of(table: &'static TableSpec) -> &'static str {
    table.name.split_at("transport.".len()).1
}

/// Words of `rate_control`.
pub(crate) const WORDS: &[&str] = &{
    let mut words = [""; ALL.len()];
    let mut i = 0;
    while i < words.len() {
        words[i] = ALL[i].word;
        i += 1;
    }
    words
};

/// The table that the controller at `i` brings along.
const fn table_of(i: usize) -> Option<&'static TableSpec> {
    if ALL[i].shares_table { None } else { ALL[i].table }
}

const fn tables() -> usize {
    let (mut n, mut i) = (0, 0);
    while i < ALL.len() {
        n += table_of(i).is_some() as usize;
        i += 1;
    }
    n
}

/// The tables of controllers as keys of `[transport]`.
pub(crate) const TABLES: [KeySpec; tables()] = {
    let mut keys = [key("", Kind::Boolean, ""); tables()];
    let (mut n, mut i) = (0, 0);
    while i < ALL.len() {
        if let Some(table) = table_of(i) {
            keys[n] = key(key_of(table), Kind::Table(table), table.doc);
            n += 1;
        }
        i += 1;
    }
    keys
};

const SHARE: Kind = Kind::Number(0.0, 1.0);

const ADDITIVE_PACKETS: KeySpec =
    key("additive", Kind::Number(0.0, 1000.0), "Packets that the window grows by in a round trip (papers).");

/// A share as the core counts it; exact for parts of 2³².
fn fraction(share: f64) -> Fraction {
    Fraction::ratio((share * 4_294_967_296.0).round() as u64, 1 << 32)
}
