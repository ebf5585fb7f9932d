//! What the points of a sweep had to say, without saying it a thousand times.

use std::collections::BTreeMap;

use crate::diagnostic::{Code, Diagnostics, Severity};
use crate::sweep::Played;

/// Findings about points, one of each kind, and points that could not be played.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The finding of the lowest point of each code, and how many points have one.
    warnings: BTreeMap<Code, (usize, usize, Diagnostics)>,
    /// The lowest point that failed, why, and what was found.
    failed: Option<(usize, String, Diagnostics)>,
}

impl Seen {
    pub(super) fn add(&mut self, point: usize, played: &Played) {
        let mut own: BTreeMap<Code, Diagnostics> = BTreeMap::new();
        for finding in played.found.list.iter().filter(|d| d.severity() == Severity::Warning) {
            own.entry(finding.code)
                .or_insert_with(|| Diagnostics { sources: played.found.sources.clone(), list: vec![finding.clone()] });
        }
        for (code, found) in own {
            let (lowest, points, kept) = self.warnings.entry(code).or_insert_with(|| (point, 0, found.clone()));
            *points += 1;
            if point < *lowest {
                (*lowest, *kept) = (point, found);
            }
        }
        if played.failed && self.failed.as_ref().is_none_or(|(lowest, ..)| point < *lowest) {
            let why = played.cells.iter().rev().nth(1).cloned().unwrap_or_default();
            self.failed = Some((point, why, played.found.clone()));
        }
    }

    /// One warning a kind, with how many points it is about.
    pub(super) fn warnings(&self) -> Diagnostics {
        let mut all = Diagnostics::new();
        for (lowest, points, found) in self.warnings.values() {
            let mut found = found.clone();
            for finding in &mut found.list {
                let others = points - 1;
                let more =
                    if others == 0 { String::new() } else { format!("; {others} more points have such a warning") };
                finding.notes.push(format!("of point {lowest}{more}"));
            }
            all.absorb(found);
        }
        all
    }

    /// The lowest point that failed, and why.
    pub(super) fn first_failed(&self) -> Option<(usize, &str)> {
        self.failed.as_ref().map(|(point, why, _)| (*point, why.as_str()))
    }

    /// What was found about it.
    pub(super) fn first_found(&self) -> Option<Diagnostics> {
        self.failed.as_ref().map(|(.., found)| found.clone())
    }
}
