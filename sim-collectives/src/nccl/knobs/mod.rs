//! Environment variables: what `NCCL_*` changes.

mod list;
mod table;

use core::fmt;
use std::collections::BTreeMap;

use super::algorithm::Algorithm;
use super::path::PathType;
use super::protocol::Protocol;

pub use list::NameList;
pub use table::{Knob, Reader};

use table::Form;

/// The environment variables of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Knobs {
    algorithms: Option<NameList<Algorithm>>,
    protocols: Option<NameList<Protocol>>,
    numbers: BTreeMap<Knob, i64>,
    levels: BTreeMap<Knob, PathType>,
    inert: BTreeMap<String, String>,
}

/// What setting a variable does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is obeyed.
    Read {
        /// The variable.
        knob: Knob,
        /// The part of the model that looks at it.
        reader: Reader,
    },
    /// It is accepted, as NCCL accepts it, and changes nothing here.
    None {
        /// A variable of similar name that does have an effect.
        similar: Option<&'static str>,
    },
}

/// Why a variable cannot be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnobError {
    /// The name is none of NCCL's.
    Name {
        /// The name.
        name: String,
        /// A variable of similar name.
        similar: Option<&'static str>,
    },
    /// The value cannot be read.
    Value {
        /// The variable.
        knob: Knob,
        /// The value.
        value: String,
        /// What may stand there.
        expected: String,
    },
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name { name, similar } => {
                write!(f, "`{name}` is no NCCL variable: expected a name that begins with `NCCL_`")?;
                match similar {
                    Some(similar) => write!(f, "; did you mean `{similar}`?"),
                    None => Ok(()),
                }
            }
            Self::Value { knob, value, expected } => write!(f, "{}=`{value}`: expected {expected}", knob.name()),
        }
    }
}

impl core::error::Error for KnobError {}

impl Knobs {
    /// Sets a variable, as an environment does: a later value replaces an earlier one, and an empty value unsets it.
    ///
    /// Every name that begins with `NCCL_` is accepted; one that nothing here looks at is [`Effect::None`].
    ///
    /// # Errors
    /// If the name is none of NCCL's, or the value cannot be read. Nothing is changed then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<Effect, KnobError> {
        let name = name.trim();
        let Some(knob) = Knob::from_name(name) else {
            if !name.starts_with("NCCL_") {
                return Err(KnobError::Name { name: name.to_owned(), similar: Knob::similar(name) });
            }
            self.inert.insert(name.to_owned(), value.to_owned());
            return Ok(Effect::None { similar: Knob::similar(name) });
        };
        let value = value.trim();
        let wrong = |expected: String| KnobError::Value { knob, value: value.to_owned(), expected };
        if value.is_empty() {
            self.unset(knob);
            return Ok(Effect::Read { knob, reader: knob.reader() });
        }
        match knob.form() {
            Form::Algorithms => self.algorithms = Some(NameList::parse(value).map_err(wrong)?),
            Form::Protocols => self.protocols = Some(NameList::parse(value).map_err(wrong)?),
            Form::Level => {
                let level = PathType::parse_level(value)
                    .map_err(|_| wrong("a path type (LOC, NVL, PIX, PXB, PHB, SYS) or a level 0 to 5".into()))?;
                self.levels.insert(knob, level);
            }
            // 1 stands for sockets, 0 for any other network.
            Form::Net => drop(self.numbers.insert(knob, i64::from(value.eq_ignore_ascii_case("socket")))),
            Form::Number { least, most } => {
                let number = parse_number(value).filter(|n| (least..=most).contains(n));
                let number = number.ok_or_else(|| wrong(format!("a whole number from {least} to {most}")))?;
                self.numbers.insert(knob, number);
            }
        }
        Ok(Effect::Read { knob, reader: knob.reader() })
    }

    fn unset(&mut self, knob: Knob) {
        match knob.form() {
            Form::Algorithms => self.algorithms = None,
            Form::Protocols => self.protocols = None,
            Form::Level => drop(self.levels.remove(&knob)),
            Form::Number { .. } | Form::Net => drop(self.numbers.remove(&knob)),
        }
    }

    /// The value of a numeric variable, if set.
    #[must_use]
    pub fn number(&self, knob: Knob) -> Option<i64> {
        self.numbers.get(&knob).copied()
    }

    /// The value of a `*_LEVEL` variable, if set.
    #[must_use]
    pub fn level(&self, knob: Knob) -> Option<PathType> {
        self.levels.get(&knob).copied()
    }

    /// `NCCL_ALGO`, if set.
    #[must_use]
    pub const fn algorithms(&self) -> Option<&NameList<Algorithm>> {
        self.algorithms.as_ref()
    }

    /// `NCCL_PROTO`, if set.
    #[must_use]
    pub const fn protocols(&self) -> Option<&NameList<Protocol>> {
        self.protocols.as_ref()
    }

    /// Whether a variable is set.
    #[must_use]
    pub fn is_set(&self, knob: Knob) -> bool {
        match knob {
            Knob::Algo => self.algorithms.is_some(),
            Knob::Proto => self.protocols.is_some(),
            _ => self.numbers.contains_key(&knob) || self.levels.contains_key(&knob),
        }
    }

    /// Whether the network is reached through sockets whatever the NICs can do: with `NCCL_NET=Socket`, and in place of
    /// `verbs` (InfiniBand, RoCE) with `NCCL_IB_DISABLE=1`.
    #[must_use]
    pub fn sockets(&self, verbs: bool) -> bool {
        self.number(Knob::Net) == Some(1) || (verbs && self.number(Knob::IbDisable) == Some(1))
    }

    /// The variables that were set and change nothing, by name.
    pub fn inert(&self) -> impl Iterator<Item = (&str, &str)> {
        self.inert.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A channel count within `NCCL_MIN/MAX_NCHANNELS` and `NCCL_MIN/MAX_CTAS`, at most `limit`.
    pub(super) fn clamp_channels(&self, channels: u32, limit: u32) -> u32 {
        let channels = self.clamp_by(channels, Knob::MinNchannels, Knob::MaxNchannels, limit);
        self.clamp_by(channels, Knob::MinCtas, Knob::MaxCtas, limit)
    }

    /// NVLS channels are bounded by the CTA limits alone.
    pub(super) fn clamp_nvls_channels(&self, channels: u32, limit: u32) -> u32 {
        self.clamp_by(channels, Knob::MinCtas, Knob::MaxCtas, limit)
    }

    fn clamp_by(&self, channels: u32, least: Knob, most: Knob, limit: u32) -> u32 {
        let bound = |knob, default| self.number(knob).and_then(|n| u32::try_from(n).ok()).unwrap_or(default);
        let channels = channels.max(bound(least, 1));
        channels.min(bound(most, limit)).clamp(1, limit)
    }
}

/// Decimal, or hexadecimal with `0x`, as `strtoll` reads it; a suffix K, M or G multiplies by powers of 1024.
fn parse_number(text: &str) -> Option<i64> {
    if let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return i64::from_str_radix(hex, 16).ok();
    }
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<i64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests;
