//! What an import has to say about a file: findings with a place, and why a file is refused.

use core::ops::Range;

/// What kind of thing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// A GPU without NVLink where its peers have them, or with fewer links than they.
    NvlinkLost,
    /// A PCIe link below the width or speed of its peers or of its own device.
    LinkDown,
    /// A NIC with no GPU near it, or a GPU with no NIC.
    Far,
    /// An NVLink whose other end is unknown, or the GPU itself.
    NvlinkTarget,
    /// NUMA nodes that are not sockets (NPS, SNC), are unknown, or hide the layout (a virtual machine).
    NumaLayout,
    /// Parts of the file that cannot hold together.
    Contradiction,
    /// Rows or elements that are missing.
    Incomplete,
    /// A bus id or name that is there twice.
    Duplicate,
    /// GPUs or NICs that are not all alike.
    Mixed,
    /// A value that cannot be read and was replaced.
    BadValue,
}

/// Something suspicious in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// What was found; stands alone.
    pub message: String,
    /// The bytes that say so.
    pub at: Option<Range<usize>>,
    /// What those bytes mean.
    pub label: String,
    /// What to do, or what was assumed.
    pub help: Option<String>,
}

impl Finding {
    /// A finding without a place.
    pub(super) fn new(kind: FindingKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), at: None, label: String::new(), help: None }
    }

    /// The same at a place.
    pub(super) fn at(mut self, at: Range<usize>, label: impl Into<String>) -> Self {
        self.at = Some(at);
        self.label = label.into();
        self
    }

    /// The same with advice.
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Why a file cannot be read as what it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}{label}", if .label.is_empty() { "" } else { ": " })]
pub struct Refusal {
    /// What is wrong.
    pub message: String,
    /// The bytes where it shows.
    pub at: Option<Range<usize>>,
    /// What is wrong with those bytes.
    pub label: String,
    /// What to do.
    pub help: Option<String>,
}

impl Refusal {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), at: None, label: String::new(), help: None }
    }

    pub(super) fn at(mut self, at: Range<usize>, label: impl Into<String>) -> Self {
        self.at = Some(at);
        self.label = label.into();
        self
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
