//! What a text without a row is, for the error that says so.

use super::error::{LogError, LogErrorKind};

/// What to say if no row is found.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) lines: usize,
    pub(super) ink: bool,
    pub(super) binary: bool,
    /// A header, banner or rank line was seen.
    pub(super) nccl_tests: bool,
    pub(super) nccl_info: Option<usize>,
    pub(super) damaged: Option<LogError>,
    pub(super) failure: Option<(usize, String)>,
    pub(super) last: (usize, String),
    pub(super) first: (usize, String),
    pub(super) foreign: Option<(usize, &'static str)>,
}

impl Evidence {
    /// The error that fits best.
    pub(super) fn explain(self) -> LogError {
        use LogErrorKind::{Binary, Damaged, Empty, NoRow, NotALog};
        if let Some(error) = self.damaged {
            debug_assert_eq!(error.kind, Damaged);
            return error;
        }
        if !self.ink && !self.binary {
            return LogError::new(Empty, 1, 1, "the log is empty")
                .hint("did the run write its output to another file?");
        }
        if let Some((line, text)) = self.failure {
            return LogError::new(NoRow, line, 1, "the run failed before it printed a row")
                .text(&text)
                .hint("mend the run first; NCCL_DEBUG=WARN says more");
        }
        let (line, text) = self.last;
        if self.nccl_tests {
            return LogError::new(NoRow, line, 1, "the run's header is there, but the log ends before the first row")
                .text(&text)
                .hint("the run was stopped, hangs, or its output was cut");
        }
        if let Some((line, what)) = self.foreign {
            return LogError::new(NotALog, line, 1, format!("this looks like {what}"));
        }
        if let Some(line) = self.nccl_info {
            return LogError::new(NoRow, line, 1, "there are lines of NCCL, but nothing that nccl-tests printed")
                .hint("the output of rank 0 holds the table");
        }
        if self.binary {
            return LogError::new(Binary, 1, 1, "the file is not text").expected("the text that nccl-tests printed");
        }
        let (line, text) = self.first;
        LogError::new(NotALog, line, 1, "nothing here comes from nccl-tests").text(&text)
    }
}

/// Other tools' output that people confuse with a log.
pub(super) fn foreign(line: &str) -> Option<&'static str> {
    let line = line.trim_start();
    [
        ("<!DOCTYPE", "a web page"),
        ("<html", "a web page"),
        ("#bytes     #iterations", "output of perftest (ib_write_bw and the like)"),
        ("# OSU MPI", "output of the OSU micro-benchmarks"),
        ("[[workload]]", "a scenario file"),
        ("\tGPU0", "output of nvidia-smi topo -m"),
        ("GPU0", "output of nvidia-smi topo -m"),
        ("<system version", "a topology of NCCL (XML)"),
    ]
    .into_iter()
    .find(|(sign, _)| line.starts_with(sign))
    .map(|(_, what)| what)
}
