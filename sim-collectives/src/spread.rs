//! How far parameters and forms of the timing model may be off: what intervals are made of. The data have their sources.

use std::sync::OnceLock;

use serde::Deserialize;

use crate::timing::{Origin, Parameter, Unit};

/// The embedded data.
const DATA: &str = include_str!("../data/spread.toml");

#[derive(Debug, Deserialize)]
struct File {
    origin: ByOrigin,
    parameter: Vec<Named>,
    form: Vec<Form>,
    jitter: ByBand,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct ByOrigin {
    spec: Option<f64>,
    measured: Option<f64>,
    fitted: Option<f64>,
    assumed: Option<f64>,
}

impl ByOrigin {
    const fn of(self, origin: Origin) -> Option<f64> {
        match origin {
            Origin::Spec => self.spec,
            Origin::Measured => self.measured,
            Origin::Fitted => self.fitted,
            Origin::Assumed => self.assumed,
        }
    }
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
    #[serde(flatten)]
    share: ByOrigin,
    #[serde(default)]
    us: f64,
}

#[derive(Debug, Deserialize)]
struct Form {
    class: String,
    reach: String,
    generation: String,
    #[serde(flatten)]
    sigma: ByBand,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct ByBand {
    small: f64,
    mid: f64,
    large: f64,
}

impl ByBand {
    const fn of(self, bytes: u64) -> f64 {
        match Band::of(bytes) {
            Band::Small => self.small,
            Band::Mid => self.mid,
            Band::Large => self.large,
        }
    }
}

/// Sizes that are alike in what may be off: to 64 KiB, to 64 MiB, above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are those of the data")]
pub enum Band {
    Small,
    Mid,
    Large,
}

impl Band {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Small, Self::Mid, Self::Large];

    /// That of a size.
    #[must_use]
    pub const fn of(bytes: u64) -> Self {
        match bytes {
            0..=65_536 => Self::Small,
            65_537..=67_108_864 => Self::Mid,
            _ => Self::Large,
        }
    }

    /// Its name in the data.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Mid => "mid",
            Self::Large => "large",
        }
    }
}

/// What rows have in common whose form is one: reach, algorithm, protocol and band; as text `node/ring/LL/small`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FormClass {
    /// How far the run reaches.
    pub reach: Reach,
    /// The algorithm.
    pub algorithm: String,
    /// The protocol.
    pub protocol: String,
    /// The sizes.
    pub band: Band,
}

impl core::fmt::Display for FormClass {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}/{}/{}/{}", self.reach.name(), self.algorithm, self.protocol, self.band.name())
    }
}

impl core::str::FromStr for FormClass {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let [reach, algorithm, protocol, band] = text.split('/').collect::<Vec<_>>()[..] else { return Err(()) };
        Ok(Self {
            reach: Reach::ALL.into_iter().find(|r| r.name() == reach).ok_or(())?,
            algorithm: Some(algorithm).filter(|a| !a.is_empty()).ok_or(())?.to_owned(),
            protocol: Some(protocol).filter(|p| !p.is_empty()).ok_or(())?.to_owned(),
            band: Band::ALL.into_iter().find(|b| b.name() == band).ok_or(())?,
        })
    }
}

fn file() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| toml::from_str(DATA).expect("the embedded spreads are sound"))
}

/// The normal distribution's 0.95 quantile: 90 % lie between it and its negative.
pub const Z90: f64 = 1.644_853_627;

/// One standard deviation of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Of the value's logarithm.
    pub share: f64,
    /// On top, µs.
    pub us: f64,
}

impl Spread {
    /// That of a parameter: its own, where it has one, else by name and origin.
    #[must_use]
    pub fn of(parameter: &Parameter) -> Self {
        if let Some(share) = parameter.spread {
            return Self { share, us: 0.0 };
        }
        let (name, origin) = (parameter.name(), parameter.origin);
        let named = file().parameter.iter().find(|p| name.starts_with(&p.name));
        let share = named.and_then(|p| p.share.of(origin)).or(file().origin.of(origin)).unwrap_or(0.0);
        Self { share, us: named.map_or(0.0, |p| p.us) }
    }

    /// The value of a parameter that is slower by one standard deviation: times up, rates and shares down.
    #[must_use]
    pub fn slower(self, unit: Unit, value: f64) -> f64 {
        match unit {
            Unit::Us => value * self.share.exp() + self.us,
            Unit::Share => (value * (-self.share).exp()).max(0.01),
            Unit::GbytePerSecond => value * (-self.share).exp(),
        }
    }
}

/// How far a run reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// One NVLink domain or host.
    Node,
    /// Over InfiniBand or RoCE.
    Network,
    /// Over a software stack of which only a latency and a goodput are known.
    Preset,
}

impl Reach {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Node, Self::Network, Self::Preset];

    /// Its name in the data.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Network => "network",
            Self::Preset => "preset",
        }
    }
}

/// The generation of GPUs of compute capability `sm` (times ten), as far as forms are told apart by it.
#[must_use]
pub const fn generation(sm: u32) -> &'static str {
    match sm {
        0..80 => "older",
        80 => "ampere",
        90..100 => "hopper",
        100..120 => "blackwell",
        _ => "workstation",
    }
}

/// Standard deviation of ln(measured / predicted) that no values of the parameters follow.
#[must_use]
pub fn form(algorithm: &str, protocol: &str, reach: Reach, sm: u32, bytes: u64) -> f64 {
    let any = |wanted: &str, is: &str| wanted == "*" || wanted == is;
    let generation = generation(sm);
    let fits = |f: &&Form| {
        let (a, p) = f.class.split_once('/').unwrap_or((&f.class, "*"));
        any(a, algorithm) && any(p, protocol) && any(&f.reach, reach.name()) && any(&f.generation, generation)
    };
    file().form.iter().find(fits).map_or(0.1, |f| f.sigma.of(bytes))
}

/// Standard deviation of ln(time) from run to run.
#[must_use]
pub fn jitter(bytes: u64) -> f64 {
    file().jitter.of(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Timing;

    #[test]
    fn every_parameter_has_a_spread_and_slower_is_slower() {
        for sm in [70, 80, 90, 100] {
            for transport in ["infiniband", "roce", "efa", "tcp", "tcpxo"] {
                for p in Timing::builtin(sm, transport).parameters() {
                    let spread = Spread::of(p);
                    assert!(
                        (0.0..1.0).contains(&spread.share) && (0.0..1.0).contains(&spread.us),
                        "{}: {spread:?}",
                        p.key
                    );
                    let slower = spread.slower(p.key.unit(), p.value);
                    assert!(if p.key.unit() == Unit::Us { slower >= p.value } else { slower <= p.value }, "{}", p.key);
                }
            }
        }
        let mut own = Timing::builtin(90, "infiniband").parameters()[0].clone();
        own.spread = Some(0.01);
        assert_eq!(Spread::of(&own), Spread { share: 0.01, us: 0.0 });
    }

    #[test]
    fn classes_are_read_as_they_are_written() {
        for text in ["node/ring/LL/small", "network/nvls_tree/Simple/large", "preset/tree/LL128/mid"] {
            assert_eq!(text.parse::<FormClass>().unwrap().to_string(), text);
        }
        for text in
            ["", "node", "node/ring/LL", "node/ring/LL/tiny", "moon/ring/LL/mid", "node//LL/mid", "node/a/b/mid/c"]
        {
            assert!(text.parse::<FormClass>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_class_has_a_form() {
        for reach in [Reach::Node, Reach::Network, Reach::Preset] {
            for bytes in [8, 1 << 20, 1 << 30] {
                let sigma = form("anything", "Simple", reach, 90, bytes);
                assert!((0.0..2.0).contains(&sigma) && jitter(bytes) > 0.0);
            }
        }
    }
}
