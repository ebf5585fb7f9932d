//! The timing model: what a step costs beyond the wire.
//!
//! This is apart from NCCL's selection model ([`nccl`](crate::nccl)), which picks an algorithm and predicts badly. Values
//! come from `data/timing.toml`, by GPU generation and transport, each with its origin and the runs that had a part in it; a
//! scenario's `[profile]` can replace them. A value is named by a [`Key`], so that none can be asked for that isn't there.

mod catalogue;
mod cost;
mod key;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;
use sim_core::units::Span;

use crate::spread::FormClass;

pub use catalogue::catalogue;
pub use cost::{CallShape, CallTiming, wire_factor};
pub use key::{Key, LinkKind, Unit, UnknownKey};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A data sheet or specification.
    Spec,
    /// Read off a measurement.
    Measured,
    /// The least error over named measurements.
    Fitted,
    /// Nobody measured it here.
    Assumed,
}

impl Origin {
    /// Its letter in tables: S, M, F or A.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Spec => 'S',
            Self::Measured => 'M',
            Self::Fitted => 'F',
            Self::Assumed => 'A',
        }
    }

    /// The word, as in profiles.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::Measured => "measured",
            Self::Fitted => "fitted",
            Self::Assumed => "assumed",
        }
    }
}

/// One value of the timing model, for lists and overrides.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Which it is; its name is a `[profile]` key.
    pub key: Key,
    /// Its value, in the key's unit.
    pub value: f64,
    /// Where it comes from.
    pub origin: Origin,
    /// The source in words.
    pub source: String,
    /// The published runs that had a part in it, by name; none of a value that replaces a built-in one.
    pub runs: &'static [String],
    /// The generation or transport in whose data it stands; empty where it replaces a built-in one.
    pub stands: &'static str,
    /// One standard deviation of the value's logarithm, where this value has its own.
    pub spread: Option<f64>,
}

impl Parameter {
    /// Its name, as a `[profile]` key.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.key.name()
    }
}

/// Not a finite number of zero or more (above zero for rates and shares, and at most 1 for these).
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("`{key} = {value}` must be a finite number, zero or more, above zero for a rate, from 0.01 to 1 for a share")]
pub struct ValueError {
    /// The parameter.
    pub key: Key,
    /// What was given.
    pub value: f64,
}

/// The values for one GPU generation and one transport.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// In the order of [`Key::ALL`].
    parameters: Vec<Parameter>,
    read: Option<Read>,
    /// Forms that a fit found on the cluster itself.
    forms: BTreeMap<FormClass, f64>,
}

/// Which of the values have been asked for, shared by clones. It is no part of what they are, so that all are equal.
#[derive(Clone, Debug)]
struct Read(Arc<[AtomicBool]>);

impl PartialEq for Read {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Timing {
    /// The built-in values for GPUs of compute capability `sm` (times ten) over `transport`.
    ///
    /// An unknown generation takes the nearest older one's values, an unknown transport InfiniBand's.
    #[must_use]
    pub fn builtin(sm: u32, transport: &str) -> Self {
        Self { parameters: catalogue::parameters(sm, transport), read: None, forms: BTreeMap::new() }
    }

    /// No cost beyond the wire: what closed forms assume.
    #[must_use]
    pub fn ideal() -> Self {
        let mut timing = Self::builtin(90, "infiniband");
        for p in &mut timing.parameters {
            let value = match p.key.unit() {
                Unit::Share => 1.0,
                Unit::GbytePerSecond => f64::INFINITY,
                Unit::Us => 0.0,
            };
            *p = Parameter { value, ..own(p.key, Origin::Assumed, "ideal") };
        }
        timing
    }

    /// All values, in the order of [`Key::ALL`].
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// A value with what is known of it, which does not count as asked for.
    #[must_use]
    pub fn parameter(&self, key: Key) -> &Parameter {
        &self.parameters[key as usize]
    }

    /// A value, which counts as asked for. [`Unit`] says what it is measured in.
    #[must_use]
    pub fn ask(&self, key: Key) -> f64 {
        if let Some(Read(read)) = &self.read {
            read[key as usize].store(true, Ordering::Relaxed);
        }
        self.parameter(key).value
    }

    /// A time, which counts as asked for.
    #[must_use]
    pub fn span(&self, key: Key) -> Span {
        debug_assert_eq!(key.unit(), Unit::Us, "{key}");
        Span::from_us_f64(self.ask(key))
    }

    /// The same, keeping a record of its own of the values that are asked for.
    #[must_use]
    pub fn watched(mut self) -> Self {
        self.read = Some(Read(self.parameters.iter().map(|_| AtomicBool::new(false)).collect()));
        self
    }

    /// The values that have been asked for since [`watched`](Self::watched), in the order of [`Key::ALL`]: what a prediction rests on.
    #[must_use]
    pub fn read(&self) -> Vec<&Parameter> {
        let Some(Read(read)) = &self.read else { return Vec::new() };
        self.parameters
            .iter()
            .zip(read.iter())
            .filter(|(_, seen)| seen.load(Ordering::Relaxed))
            .map(|(p, _)| p)
            .collect()
    }

    /// Takes what has been asked of `other` for asked of this one too, if both are watched.
    pub fn read_too(&self, other: &Self) {
        if let (Some(Read(own)), Some(Read(read))) = (&self.read, &other.read) {
            for (own, _) in own.iter().zip(read.iter()).filter(|(_, seen)| seen.load(Ordering::Relaxed)) {
                own.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Replaces a value.
    ///
    /// # Errors
    /// If the value can't be one.
    pub fn set(&mut self, key: Key, value: f64, origin: Origin, source: &str) -> Result<(), ValueError> {
        let sound = match key.unit() {
            Unit::Share => (0.01..=1.0).contains(&value),
            Unit::GbytePerSecond => value.is_finite() && value > 0.0,
            Unit::Us => value.is_finite() && value >= 0.0,
        };
        if !sound {
            return Err(ValueError { key, value });
        }
        self.parameters[key as usize] = Parameter { value, ..own(key, origin, source) };
        Ok(())
    }

    /// Gives a value a standard deviation of its own (of its logarithm).
    pub fn set_spread(&mut self, key: Key, spread: f64) {
        self.parameters[key as usize].spread = Some(spread);
    }

    /// Sets the standard deviation that rows of a class have about predictions by these values, in place of that of clusters in
    /// general.
    pub fn set_form(&mut self, class: FormClass, sigma: f64) {
        self.forms.insert(class, sigma);
    }

    /// The standard deviation of a class that was found on the cluster itself, if one was.
    #[must_use]
    pub fn form(&self, class: &FormClass) -> Option<f64> {
        self.forms.get(class).copied()
    }

    /// The model of one call.
    #[must_use]
    pub const fn call(&self, shape: CallShape) -> CallTiming<'_> {
        CallTiming { timing: self, shape }
    }
}

/// A parameter that no built-in data have.
fn own(key: Key, origin: Origin, source: &str) -> Parameter {
    Parameter { key, value: 0.0, origin, source: source.to_owned(), runs: &[], stands: "", spread: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_data_are_sound_and_every_value_has_a_source() {
        for sm in [60, 70, 80, 90, 100, 103, 120] {
            for transport in ["infiniband", "roce", "efa", "tcp", "tcpxo", "unknown"] {
                let mut timing = Timing::builtin(sm, transport);
                for p in timing.parameters().to_vec() {
                    assert!(!p.source.is_empty(), "{}", p.key);
                    assert_eq!(timing.parameter(p.key), &p);
                    timing.set(p.key, p.value, p.origin, &p.source).unwrap();
                }
            }
        }
        let rate = |sm| Timing::builtin(sm, "roce").ask(Key::SimpleRate);
        assert_eq!(rate(86), rate(80));
    }

    #[test]
    fn what_is_read_is_known() {
        let timing = Timing::builtin(90, "infiniband");
        assert!(timing.read().is_empty());
        let timing = timing.watched();
        let (_, clone) = (timing.ask(Key::LaunchKernel), timing.clone());
        let _ = clone.call(CallShape {
            protocol: crate::nccl::Protocol::Ll,
            threads: 512,
            heads: 0,
            between_nodes: false,
            planned_gbps: 1.0,
        });
        assert_eq!(timing.read().iter().map(|p| p.name()).collect::<Vec<_>>(), ["launch.kernel_us"]);
        assert_eq!(timing, Timing::builtin(90, "infiniband").watched());
    }

    #[test]
    fn values_can_be_replaced_and_faults_are_told() {
        let mut timing = Timing::builtin(90, "infiniband");
        timing.set(Key::RingLlStep, 1.5, Origin::Fitted, "test").unwrap();
        assert_eq!(timing.ask(Key::RingLlStep), 1.5);
        assert_eq!(timing.parameter(Key::RingLlStep).runs.len(), 0);
        let unknown = "ring_ll.stepus".parse::<Key>().unwrap_err();
        assert_eq!(unknown.similar, Some(Key::RingLlStep));
        assert!(timing.set(Key::RingLlStep, f64::NAN, Origin::Fitted, "").is_err());
        assert!(timing.set(Key::RingLlRate, 0.0, Origin::Fitted, "").is_err());
        let kind = LinkKind::of(sim_topology::LinkClass::Uplink);
        assert!(timing.set(kind.share(), 1.01, Origin::Fitted, "").is_err());
        timing.set(kind.share(), 0.9, Origin::Fitted, "test").unwrap();
        assert_eq!(timing.ask(Key::LinkNetworkShare), 0.9);
    }
}
