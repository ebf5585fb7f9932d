//! Files that a job has read, each of them once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::Diagnostic;

/// What came of reading a file.
type Read = Result<String, Box<Diagnostic>>;

/// Files as they were when they were read first: whoever shares them meets the same text, whatever has become of the file.
#[derive(Clone, Debug, Default)]
pub struct Files(Arc<Mutex<BTreeMap<PathBuf, Read>>>);

impl Files {
    /// The text of a file, or why it has none: what is known, or what `read` says.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn get(&self, path: &Path, read: impl FnOnce() -> Read) -> Read {
        // A panic elsewhere leaves what is kept as it was.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.entry(path.to_owned()).or_insert_with(read).clone()
    }
}
