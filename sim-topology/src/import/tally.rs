//! Many places with one fault become one finding.

use core::ops::Range;

use super::finding::{Finding, FindingKind};

/// Places with the same kind of fault.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    kind: FindingKind,
    first: Option<(Range<usize>, String)>,
    count: usize,
}

impl Tally {
    pub(super) const fn new(kind: FindingKind) -> Self {
        Self { kind, first: None, count: 0 }
    }

    /// One more.
    pub(super) fn add(&mut self, at: Range<usize>, label: impl Into<String>) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some((at, label.into()));
        }
    }

    /// The finding at the first place, with the number of all.
    pub(super) fn finding(self, message: &str) -> Option<Finding> {
        let (at, label) = self.first?;
        let message = if self.count > 1 { format!("{message} ({} times)", self.count) } else { message.to_owned() };
        Some(Finding::new(self.kind, message).at(at, label))
    }
}
