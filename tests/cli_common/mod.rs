//! Runs the built program, for tests of the command line.

#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What a run printed, and its exit code.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Standard output as JSON; fails unless the run went well.
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Fails unless the exit code is `code`, standard output is empty, and standard error has all `parts`.
    pub(crate) fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.out.is_empty(), "{self:?}");
        assert!(!self.err.contains("panicked") && !self.err.contains("E099"), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is not in\n{}", self.err);
        }
    }
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fabricsim"));
    command.env("NO_COLOR", "1").stdin(Stdio::null()).current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

/// Runs with these arguments in the repository's folder.
pub(crate) fn fabricsim(args: &[&str]) -> Ran {
    Ran::of(command().args(args).output().unwrap())
}

/// Runs with these arguments in `folder`.
pub(crate) fn fabricsim_in(folder: &Path, args: &[&str]) -> Ran {
    Ran::of(command().current_dir(folder).args(args).output().unwrap())
}

/// Runs with `input` on standard input.
pub(crate) fn fabricsim_fed(input: &[u8], args: &[&str]) -> Ran {
    use std::io::Write as _;
    let mut child =
        command().args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}
