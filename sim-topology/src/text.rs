//! Serde forms of quantities as people write them: `"400 Gb/s"`, `"1.5 us"`.
//!
//! Rates are written back so that they read as the same value: in whole Gb/s where that is exact, else in B/s.

use sim_core::units::Rate;

/// An optional rate as text; for `#[serde(default, with = "text::rate_opt")]`.
pub mod rate_opt {
    use super::{Rate, rate_text};
    use serde::{Deserialize, Deserializer, Serializer, de};

    /// Reads a rate from its text form.
    ///
    /// # Errors
    /// If the text is not a rate; the message says what was expected.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Rate>, D::Error> {
        Option::<String>::deserialize(deserializer)?.map(|text| text.parse().map_err(de::Error::custom)).transpose()
    }

    /// Writes a rate in its text form.
    ///
    /// # Errors
    /// If the serializer fails.
    pub fn serialize<S: Serializer>(rate: &Option<Rate>, serializer: S) -> Result<S::Ok, S::Error> {
        match rate {
            Some(rate) => serializer.serialize_some(&rate_text(*rate)),
            None => serializer.serialize_none(),
        }
    }
}

/// A rate as text; for `#[serde(with = "text::rate")]`.
pub mod rate {
    use super::{Rate, rate_text};
    use serde::{Deserialize, Deserializer, Serializer, de};

    /// Reads a rate from its text form.
    ///
    /// # Errors
    /// If the text is not a rate; the message says what was expected.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }

    /// Writes a rate in its text form.
    ///
    /// # Errors
    /// If the serializer fails.
    pub fn serialize<S: Serializer>(rate: &Rate, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&rate_text(*rate))
    }
}

/// The shortest text that parses back to exactly this rate.
#[must_use]
pub fn rate_text(rate: Rate) -> String {
    let n = rate.get();
    if n.is_multiple_of(125_000_000) { format!("{} Gb/s", n / 125_000_000) } else { format!("{n} B/s") }
}

/// A name close to `wanted` among `known`, for a did-you-mean.
///
/// Compared without case; `None` if nothing is close.
pub(crate) fn closest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let wanted = wanted.to_lowercase();
    let score = |name: &str| {
        let name = name.to_lowercase();
        let part = name.split(['-', '_', '.']).any(|part| part.len() > 1 && part == wanted);
        if part { 0.95 } else { strsim::jaro_winkler(&name, &wanted) }
    };
    let mut best: Option<(f64, &str)> = None;
    for name in known {
        let s = score(name);
        if s >= 0.8 && best.is_none_or(|(b, _)| s > b) {
            best = Some((s, name));
        }
    }
    best.map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_read_back_as_they_were() {
        for n in [1_000, 125_000_000, 50_000_000_000, 63_015_384_615] {
            let rate = Rate::bytes_per_sec(n);
            assert_eq!(rate_text(rate).parse::<Rate>().unwrap(), rate);
        }
    }

    #[test]
    fn near_names() {
        let known = ["hgx-h100", "hgx-a100", "nvl72-gb200"];
        assert_eq!(closest("hgx_h100", known).as_deref(), Some("hgx-h100"));
        assert_eq!(closest("GB200", known).as_deref(), Some("nvl72-gb200"));
        assert_eq!(closest("zzz", known), None);
    }
}
