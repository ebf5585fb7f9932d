//! Logs that could not be compared: for standard error as one failure, for all forms of the answer as entries of their own.

use sim_report::compare::Failed;

use super::super::fault::{Exit, Failure};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// What went wrong, log by log.
#[derive(Debug, Default)]
pub(super) struct Failures {
    list: Vec<(String, Failure)>,
}

impl Failures {
    /// Adds what went wrong with a log.
    pub(super) fn push(&mut self, log: &str, failure: Failure) {
        self.list.push((log.to_owned(), failure));
    }

    /// The comparison was broken off before all logs were looked at.
    pub(super) fn interrupted(&mut self, at: &str) {
        if !self.list.iter().any(|(_, failure)| failure.exit == Exit::Interrupted) {
            let fault = Diagnostic::new(Code::Interrupted, "interrupted").note(format!("before {at}"));
            self.push(at, Failure::of(Exit::Interrupted, fault));
        }
    }

    /// Whether a log of a baseline is missing because it, or its file, could not be compared.
    pub(super) fn explain(&self, log: &str) -> bool {
        self.list.iter().any(|(failed, failure)| {
            let failed = sim_report::compare::key(failed);
            let table = log.strip_prefix(&failed).is_some_and(|rest| rest.is_empty() || rest.starts_with('#'));
            table || failure.exit == Exit::Interrupted
        })
    }

    /// Each as an entry of the answer.
    pub(super) fn told(&self) -> Vec<Failed> {
        let one = |(log, failure): &(String, Failure)| -> Vec<Failed> {
            let all = &failure.diagnostics;
            let told = |diagnostic: &Diagnostic| Failed {
                log: log.clone(),
                code: diagnostic.code.id().to_owned(),
                message: plain(all, diagnostic).message,
                details: diagnostic.notes.iter().chain(&diagnostic.help).cloned().collect(),
            };
            all.list.iter().map(told).collect()
        };
        self.list.iter().flat_map(one).collect()
    }

    /// All as one: their findings together, with the first one's exit code.
    pub(super) fn all(self) -> Option<Failure> {
        let mut failures = self.list.into_iter().map(|(_, failure)| failure);
        let mut sum = failures.next()?;
        for failure in failures {
            for diagnostic in &failure.diagnostics.list {
                sum.diagnostics.push(plain(&failure.diagnostics, diagnostic));
            }
        }
        Some(sum)
    }
}

/// A finding without a place: places belong to texts of its own. The place is named in its message.
fn plain(all: &Diagnostics, diagnostic: &Diagnostic) -> Diagnostic {
    let line = all.line(diagnostic);
    let message = match &diagnostic.place {
        Some(_) => line.split_once(' ').map_or(line.clone(), |(_, rest)| rest.to_owned()),
        None => diagnostic.message.clone(),
    };
    Diagnostic { message, place: None, related: Vec::new(), ..diagnostic.clone() }
}
