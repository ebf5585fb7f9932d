//! A folder for the files that `--out` writes.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::fault::{Exit, Failure};
use super::output;
use crate::diagnostic::{Code, Diagnostic, shorten};

/// Every file that some verb writes into such a folder, so that an old run and a new one never mix.
const OURS: &[&str] = &[
    "result.json",
    "collectives.csv",
    "transfers.csv",
    "links.csv",
    "compare.csv",
    "step.csv",
    "critical_path.csv",
    "timeline.json",
    "timeline.svg",
    "inference.csv",
    "ports.csv",
    "flows.csv",
    "series.csv",
    "chart.svg",
    "queues.svg",
    "rates.svg",
];

/// A folder that is there and can be written.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    force: bool,
    written: RefCell<Vec<String>>,
}

/// The files of such a folder beside their flag, to see that they are none of those that are read.
pub(super) fn files(folder: &Path, names: &[&str]) -> Vec<(&'static str, PathBuf)> {
    names.iter().map(|name| ("--out", folder.join(name))).collect()
}

impl Folder {
    /// Makes the folder, and sees that each of `names` can be written there, and none would be overwritten unasked.
    pub(super) fn prepare(folder: &Path, names: &[&str], force: bool) -> Result<Self, Failure> {
        let shown = shorten(&folder.display().to_string());
        let unwritable = |error: std::io::Error| {
            let why = match error.kind() {
                std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::NotADirectory => "it is a file".to_owned(),
                std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
                _ => error.to_string(),
            };
            let fault = Diagnostic::new(Code::Unwritable, format!("cannot write into the folder `{shown}`: {why}"));
            Failure::of(Exit::Usage, fault.help("give another folder by `--out`"))
        };
        std::fs::create_dir_all(folder).map_err(unwritable)?;
        let probe = folder.join(format!(".fabricsim.{}.tmp", std::process::id()));
        std::fs::File::create_new(&probe).map_err(unwritable)?;
        std::fs::remove_file(&probe).map_err(unwritable)?;
        if let Some(name) = names.iter().find(|name| folder.join(name).is_dir()) {
            let message = format!("cannot write `{name}` into `{shown}`: a folder of that name is there");
            let fault = Diagnostic::new(Code::Unwritable, message).help("give another folder by `--out`");
            return Err(Failure::of(Exit::Usage, fault));
        }
        if !force && let Some(name) = names.iter().find(|name| folder.join(name).symlink_metadata().is_ok()) {
            let fault = Diagnostic::new(Code::Exists, format!("`{shown}` has a `{name}` already"));
            let help = "give another folder by `--out`, or overwrite its files with `--force`";
            return Err(Failure::of(Exit::Usage, fault.help(help)));
        }
        Ok(Self { path: folder.to_owned(), force, written: RefCell::default() })
    }

    /// Writes one file of it.
    pub(super) fn file(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        output::write(&self.path.join(name), bytes, self.force)?;
        self.written.borrow_mut().push(name.to_owned());
        Ok(())
    }

    /// Removes what an earlier run left there and this one has not written anew.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        let written = self.written.borrow();
        for name in OURS.iter().filter(|name| self.force && !written.iter().any(|w| w == *name)) {
            let path = self.path.join(name);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound && !path.is_dir() => {
                    let message = format!("cannot remove `{}`, which is of an earlier run: {error}", path.display());
                    return Err(Failure::of(Exit::Usage, Diagnostic::new(Code::Unwritable, message)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes one file that `write` fills.
    pub(super) fn table(
        &self,
        name: &str,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), csv::Error>,
    ) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        write(&mut bytes).map_err(Failure::internal)?;
        self.file(name, &bytes)
    }
}
