//! What can be wrong with a list of faults.

use core::fmt;

/// Why a fault can't be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}: {label}")]
pub struct FaultError {
    /// Its number in the list.
    pub fault: usize,
    /// The key at fault: `target`, `rate`, `down_for`, ...
    pub key: &'static str,
    /// What sort of error it is.
    pub kind: FaultErrorKind,
    /// What is wrong.
    pub message: String,
    /// Why, beside the place.
    pub label: String,
    /// What to do.
    pub help: Option<String>,
}

/// The sorts of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultErrorKind {
    /// The target names nothing.
    Unknown,
    /// A value is outside what can be.
    Range,
    /// It contradicts another fault, or the kind of thing that its target is.
    Contradiction,
    /// Parts of the fabric can't reach each other any more.
    Partition,
}

impl FaultError {
    /// An error at a key, for the fault at hand.
    pub(super) fn new(
        key: &'static str,
        kind: FaultErrorKind,
        message: impl Into<String>,
        label: impl Into<String>,
    ) -> Self {
        Self { fault: 0, key, kind, message: message.into(), label: label.into(), help: None }
    }

    /// A value outside what can be.
    pub(super) fn range(key: &'static str, message: impl Into<String>, label: impl Into<String>) -> Self {
        Self::new(key, FaultErrorKind::Range, message, label)
    }

    /// A contradiction.
    pub(super) fn contradiction(key: &'static str, message: impl Into<String>, label: impl Into<String>) -> Self {
        Self::new(key, FaultErrorKind::Contradiction, message, label)
    }

    /// With advice.
    pub(super) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// Something to know about a fault that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultWarning {
    /// Its number in the list.
    pub fault: usize,
    /// The key it is about.
    pub key: &'static str,
    /// What is so.
    pub message: String,
    /// Why, beside the place.
    pub label: String,
}

impl fmt::Display for FaultWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message, self.label)
    }
}
