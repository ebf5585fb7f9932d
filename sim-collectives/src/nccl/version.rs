//! The NCCL release that is modelled.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// A release, major and minor number; patch levels are not told apart. Releases 2.18 to 2.30 are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    major: u32,
    minor: u32,
}

/// Why a text is no known version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Not of the form 2.minor\[.patch\].
    #[error("`{0}` is no NCCL version: expected two numbers, such as `2.21` or `2.21.5`")]
    Malformed(String),
    /// Before the first or after the last known one.
    #[error("NCCL {} is not modelled: known are {} to {}; take the nearest", .0, Version::OLDEST, Version::NEWEST)]
    Unknown(String),
}

impl Version {
    /// The first release that is modelled.
    pub const OLDEST: Self = Self::v2(18);
    /// The last release that is modelled, the default.
    pub const NEWEST: Self = Self::v2(30);

    pub(crate) const fn v2(minor: u32) -> Self {
        Self { major: 2, minor }
    }

    /// The release `major.minor`.
    ///
    /// # Errors
    /// If it is outside 2.18 to 2.30.
    pub fn new(major: u32, minor: u32) -> Result<Self, VersionError> {
        let version = Self { major, minor };
        if (Self::OLDEST..=Self::NEWEST).contains(&version) {
            Ok(version)
        } else {
            Err(VersionError::Unknown(version.to_string()))
        }
    }

    /// The known release nearest to `major.minor`.
    #[must_use]
    pub fn nearest(major: u32, minor: u32) -> Self {
        Self { major, minor }.clamp(Self::OLDEST, Self::NEWEST)
    }

    /// The major number.
    #[must_use]
    pub const fn major(self) -> u32 {
        self.major
    }

    /// The minor number.
    #[must_use]
    pub const fn minor(self) -> u32 {
        self.minor
    }

    /// Whether this is release 2.`minor` or later.
    pub(crate) const fn since(self, minor: u32) -> bool {
        self.major > 2 || self.minor >= minor
    }

    /// Channels that a communicator may have: 64, 32 before 2.25 (`MAXCHANNELS`, `src/include/device.h`).
    #[must_use]
    pub const fn max_channels(self) -> u32 {
        if self.since(25) { 64 } else { 32 }
    }
}

impl Default for Version {
    fn default() -> Self {
        Self::NEWEST
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = VersionError;

    /// `2.21`, `2.21.5`, `v2.21.5-1` or `2.21.5+cuda12.4`; what follows the second number is not looked at.
    fn from_str(s: &str) -> Result<Self, VersionError> {
        let malformed = || VersionError::Malformed(s.to_owned());
        let text = s.trim().trim_start_matches(['v', 'V']);
        let (major, rest) = text.split_once('.').ok_or_else(malformed)?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (minor, tail) = rest.split_at(end);
        if !(tail.is_empty() || tail.starts_with(['.', '-', '+'])) {
            return Err(malformed());
        }
        Self::new(major.parse().map_err(|_| malformed())?, minor.parse().map_err(|_| malformed())?)
    }
}

impl TryFrom<String> for Version {
    type Error = VersionError;

    fn try_from(text: String) -> Result<Self, VersionError> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        for text in ["2.21", "2.21.5", "v2.21.5-1", " 2.21.5+cuda12.4 "] {
            assert_eq!(text.parse(), Ok(Version::v2(21)), "{text}");
        }
        for text in ["", "2", "2.", "two.one", "2.x", "2.21x"] {
            assert!(matches!(text.parse::<Version>(), Err(VersionError::Malformed(_))), "{text}");
        }
        for text in ["1.3", "2.17.1", "2.31", "3.0"] {
            assert!(matches!(text.parse::<Version>(), Err(VersionError::Unknown(_))), "{text}");
        }
        assert_eq!(Version::nearest(2, 4), Version::OLDEST);
        assert!(Version::v2(21).since(21) && !Version::v2(20).since(21));
    }
}
