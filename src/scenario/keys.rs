//! What may stand in a scenario: every table and key with type, unit, default and meaning.
//!
//! The tables in [`tables`] are the only place that knows the keys. Validation, did-you-mean, the JSON Schema, the
//! reference page and the defaults are all made from them.

mod catalogue;
mod experts;
mod fabric;
mod facts;
mod faults;
mod inference;
mod node;
mod observe;
mod step;
mod tables;
mod transport;

pub(crate) use catalogue::CATALOGUE;
pub(crate) use faults::FAULTS;
pub(crate) use inference::{FAILURES, INFERENCE, KV_TRANSFER};
pub(crate) use node::{PCIE, SLOT};
pub(crate) use observe::OBSERVE;
pub(crate) use step::{SLOW_RANK, STEP};
pub use tables::ROOT;
pub(crate) use tables::{COLLECTIVE, DATATYPES, OPERATIONS, REDUCTIONS, TRANSFER, TRANSFER_ITEM};
pub(crate) use transport::TRANSPORT;

/// A table of keys.
#[derive(Debug)]
pub struct TableSpec {
    /// Name of the table, as in `[fabric]`; for variants with the variant, as in `workload.collective`.
    pub name: &'static str,
    /// What it describes.
    pub doc: &'static str,
    /// The keys.
    pub keys: &'static [KeySpec],
}

/// A key.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// As written.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The value that holds when the key is left out, written as in TOML but without quotes; `None` if there is none
    /// or if it depends on other keys (the text then says how).
    pub default: Option<&'static str>,
    /// Whether it must be given.
    pub required: bool,
    /// What it means.
    pub doc: &'static str,
}

/// What values a key takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Any text.
    Text,
    /// A text for which another part of the program has the rules; the name is for the reference.
    Named(&'static str, &'static str),
    /// The same, or a table in its place.
    NamedOrTable(&'static str, &'static str, &'static TableSpec),
    /// A whole number within bounds.
    Integer(i64, i64),
    /// A whole number within bounds, or one of some words.
    IntegerOr(i64, i64, &'static [&'static str]),
    /// A number within bounds.
    Number(f64, f64),
    /// A number within bounds, or an array of them: one a tier, from the leaves up.
    PerTier(f64, f64),
    /// `true` or `false`.
    Boolean,
    /// A size with unit; the flag says whether zero is allowed.
    Size(bool),
    /// A rate of one direction with unit, or `{ both_directions = … }`.
    Rate,
    /// A time with unit; zero is allowed.
    Time,
    /// A length of cable with unit.
    Length,
    /// One of some words; other spellings of them are understood, too.
    Choice(&'static [&'static str]),
    /// A device: a rank number or a name such as `node0.gpu3`.
    Device,
    /// Rank numbers, and ranges of them with a stride.
    Ranks,
    /// An array.
    List(&'static Self),
    /// A table.
    Table(&'static TableSpec),
    /// An array of tables.
    Tables(&'static TableSpec),
    /// An array of tables, of the kind that their key `kind` says.
    Variants(&'static [(&'static str, &'static TableSpec)]),
    /// A table with any keys.
    Map(&'static Self),
    /// A text, number or boolean.
    Scalar,
    /// A table of which any keys may be given, since what is left out comes from elsewhere.
    Part(&'static TableSpec),
    /// An array of tables with a `name` and any keys of the scenario, of which one is laid upon the rest.
    Designs,
    /// A figure of the catalogue: a number in the unit that its key names, or a quantity with a unit of its own.
    Figure(Unit),
    /// Any value; who reads it has the rules, and the text says which.
    Any(&'static str),
}

/// The units that keys of the catalogue name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `_GBps`: 10^9 bytes a second, one direction.
    GBps,
    /// `_gbit`: 10^9 bits a second, one direction.
    Gbit,
    /// `_ns`.
    Nanoseconds,
    /// `_bytes`.
    Bytes,
}

impl TableSpec {
    /// The key called `name`.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<&'static KeySpec> {
        self.keys.iter().find(|k| k.name == name)
    }
}

impl Kind {
    /// The kind in words, for the reference and for messages: `a rate such as "400 Gb/s"`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Text => "a text".to_owned(),
            Self::Named(what, example) => format!("{what} such as \"{example}\""),
            Self::NamedOrTable(what, example, spec) => {
                format!("{what} such as \"{example}\", or the table [{}]", spec.name)
            }
            Self::Integer(low, high) => match (*low, *high) {
                (i64::MIN, i64::MAX) => "an integer".to_owned(),
                (low, i64::MAX) => format!("an integer of at least {low}"),
                (low, high) => format!("an integer from {low} to {high}"),
            },
            Self::IntegerOr(low, high, words) => {
                format!("{}, or {}", Self::Integer(*low, *high).describe(), words.join(", "))
            }
            Self::Number(low, high) => {
                if *high == f64::MAX {
                    format!("a number of at least {low}")
                } else {
                    format!("a number from {low} to {high}")
                }
            }
            Self::PerTier(low, high) => format!("{}, or an array of one a tier", Self::Number(*low, *high).describe()),
            Self::Boolean => "true or false".to_owned(),
            Self::Size(_) => "a size such as \"64 KiB\"".to_owned(),
            Self::Rate => "a rate of one direction such as \"400 Gb/s\" or \"50 GB/s\"".to_owned(),
            Self::Time => "a time such as \"1.5 us\"".to_owned(),
            Self::Length => "a length such as \"3 m\"".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Device => "a rank number, or a device such as \"node0.gpu3\"".to_owned(),
            Self::Ranks => "rank numbers and ranges such as [0, \"8-15\"] or \"0-31/8\"".to_owned(),
            Self::List(of) => format!("an array; each member {}", of.describe()),
            Self::Table(spec) => format!("the table [{}]", spec.name),
            Self::Tables(spec) => format!("an array of tables ({})", spec.name),
            Self::Variants(_) => "an array of tables, each with a `kind`".to_owned(),
            Self::Map(of) => format!("a table; each value {}", of.describe()),
            Self::Scalar => "a number, a quantity with unit, or a boolean".to_owned(),
            Self::Part(spec) => format!("keys of the table [{}]", spec.name),
            Self::Designs => "an array of tables, each with a `name` and keys of the scenario".to_owned(),
            Self::Figure(unit) => unit.describe().to_owned(),
            Self::Any(what) => (*what).to_owned(),
        }
    }
}

impl Unit {
    const fn describe(self) -> &'static str {
        match self {
            Self::GBps => "GB/s of one direction above zero, as a number, or a rate such as \"50 GB/s\"",
            Self::Gbit => "Gb/s of one direction above zero, as a number, or a rate such as \"400 Gb/s\"",
            Self::Nanoseconds => "nanoseconds, as a number, or a time such as \"300 ns\"",
            Self::Bytes => "bytes, as a whole number, or a size such as \"128 B\"",
        }
    }

    /// The bounds of the number.
    pub(crate) const fn bounds(self) -> (f64, f64) {
        match self {
            Self::GBps => (0.001, 1e6),
            Self::Gbit => (0.008, 8e6),
            Self::Nanoseconds => (0.0, 1e9),
            Self::Bytes => (0.0, 1e6),
        }
    }
}

/// Spellings that are understood beside the words themselves, which are also taken in any case and with `_` or `-`.
const ALIASES: &[(&str, &str)] = &[
    ("a2a", "alltoall"),
    ("bcast", "broadcast"),
    ("ib", "infiniband"),
    ("rocev2", "roce"),
    ("rail", "rail-optimized"),
    ("single", "single-switch"),
    ("hpn", "dual-tor"),
    ("dmodk", "destination"),
    ("ecmp", "hash"),
    ("bf16", "bfloat16"),
    ("fp16", "half"),
    ("fp32", "float"),
    ("fp64", "double"),
];

/// The word out of `words` that a text means.
pub(crate) fn canonical(words: &'static [&'static str], text: &str) -> Option<&'static str> {
    let fold = |text: &str| -> String {
        text.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).take(40).flat_map(char::to_lowercase).collect()
    };
    let wanted = fold(text);
    let meant = ALIASES.iter().find(|(alias, _)| *alias == wanted).map_or(wanted.clone(), |(_, word)| fold(word));
    words.iter().copied().find(|w| fold(w) == wanted).or_else(|| words.iter().copied().find(|w| fold(w) == meant))
}

/// Builds a key without default.
pub(crate) const fn key(name: &'static str, kind: Kind, doc: &'static str) -> KeySpec {
    KeySpec { name, kind, default: None, required: false, doc }
}

impl KeySpec {
    pub(crate) const fn default(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    pub(crate) const fn required(self) -> Self {
        Self { required: true, ..self }
    }
}
