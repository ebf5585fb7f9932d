//! How a verb ends when it cannot answer, and the exit codes.

use std::io::Write as _;
use std::process::ExitCode;

use super::context::Context;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// Exit codes of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done, thresholds met.
    Done = 0,
    /// Ran, and a threshold that the user gave was missed.
    Missed = 1,
    /// Bad usage or invalid scenario.
    Usage = 2,
    /// A measurement or import file could not be read.
    Unreadable = 3,
    /// Stopped: deadlock, or a limit of events, time or memory.
    Stopped = 4,
    /// An internal fault.
    Internal = 70,
    /// Interrupted; partial results are kept.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a verb ends early: what to print on standard error, and the exit code.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What to print.
    pub diagnostics: Diagnostics,
    /// The exit code.
    pub exit: Exit,
}

impl Failure {
    /// Bad usage or invalid scenario.
    #[must_use]
    pub fn usage(diagnostics: Diagnostics) -> Self {
        Self { diagnostics, exit: Exit::Usage }
    }

    /// A failure with one finding.
    #[must_use]
    pub fn of(exit: Exit, diagnostic: Diagnostic) -> Self {
        Self { diagnostics: Diagnostics::of(diagnostic), exit }
    }

    /// The end without a word: what was to be said has been said.
    #[must_use]
    pub fn silent(exit: Exit) -> Self {
        Self { diagnostics: Diagnostics::new(), exit }
    }

    /// Something that cannot be, was.
    #[must_use]
    pub fn internal(what: impl core::fmt::Display) -> Self {
        let diagnostic = Diagnostic::new(Code::Internal, format!("internal fault: {what}")).help(REPORT);
        Self::of(Exit::Internal, diagnostic)
    }

    pub(super) fn report(&self, context: &Context) {
        context.say(&self.diagnostics);
    }
}

const REPORT: &str = concat!(
    "this is a bug: please report it with the command line and the scenario at ",
    env!("CARGO_PKG_REPOSITORY"),
    "/issues (fabricsim ",
    env!("CARGO_PKG_VERSION"),
    ")"
);

/// Makes a panic end the process with exit code 70 and a line on how to report it.
pub(super) fn install_panic_hook() {
    std::panic::set_hook(Box::new(|info| {
        let _ = writeln!(std::io::stderr(), "{}", panic_text(info));
        std::process::exit(i32::from(Exit::Internal as u8));
    }));
}

fn panic_text(info: &std::panic::PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let what = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let place = info.location().map_or_else(String::new, |l| format!(" at {}:{}", l.file(), l.line()));
    format!("error[E099]: internal fault: {what}{place}\n  = help: {REPORT}")
}
