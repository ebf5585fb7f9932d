//! Writing answers: to standard output, or to files that are complete or absent.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sim_report::result::{Envelope, Warning};

use super::context::{overrides, warnings};
use super::fault::{Exit, Failure};
use crate::diagnostic::{Code, Diagnostic, shorten};
use crate::scenario::Loaded;

/// Prints an answer. A reader that has gone away (`| head`) ends the program quietly.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Err(Failure::silent(Exit::Done)),
        Err(error) => {
            let fault = Diagnostic::new(Code::Unwritable, format!("cannot write to standard output: {error}"));
            Err(Failure::of(Exit::Usage, fault))
        }
    }
}

/// Prints results as JSON in their envelope.
pub(super) fn print_json<R: Serialize>(
    scenario: &str,
    seed: u64,
    warnings: Vec<Warning>,
    results: R,
) -> Result<(), Failure> {
    let envelope = Envelope::new(scenario, seed, results).with_warnings(warnings);
    print(&envelope.to_json().map_err(Failure::internal)?)
}

/// Prints results that rest on a scenario as JSON in their envelope: with its warnings and its own catalogue rows.
pub(super) fn print_loaded<R: Serialize>(scenario: &str, loaded: &Loaded, results: R) -> Result<(), Failure> {
    print_warned(scenario, loaded, warnings(&loaded.diagnostics), results)
}

/// The same with these warnings in place of the scenario's.
pub(super) fn print_warned<R: Serialize>(
    scenario: &str,
    loaded: &Loaded,
    warnings: Vec<Warning>,
    results: R,
) -> Result<(), Failure> {
    let envelope = Envelope::new(scenario, loaded.scenario.seed, results)
        .with_warnings(warnings)
        .with_overrides(overrides(&loaded.catalogue));
    print(&envelope.to_json().map_err(Failure::internal)?)
}

/// Whether a file could be written there: in a folder that is there, no folder or device itself, and nothing unless `force` is set.
pub(super) fn writable(path: &Path, force: bool) -> Result<(), Failure> {
    let shown = shorten(&path.display().to_string());
    if path.is_dir() {
        let fault = Diagnostic::new(Code::Unwritable, format!("cannot write `{shown}`: it is a folder"));
        return Err(Failure::of(Exit::Usage, fault.help("name a file in it")));
    }
    if !force && path.symlink_metadata().is_ok() {
        let fault = Diagnostic::new(Code::Exists, format!("`{shown}` exists already"))
            .help("give another name, or overwrite it with `--force`");
        return Err(Failure::of(Exit::Usage, fault));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let why = match folder.metadata() {
        Ok(found) if found.is_dir() => None,
        Ok(_) => Some("its folder is a file"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some("its folder does not exist"),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Some("its folder is a file"),
        // The attempt will tell.
        Err(_) => None,
    };
    if let Some(why) = why {
        let fault = Diagnostic::new(Code::Unwritable, format!("cannot write `{shown}`: {why}"));
        return Err(Failure::of(Exit::Usage, fault));
    }
    // A rename would put a plain file in the place of a pipe or a device.
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        let fault = Diagnostic::new(Code::Unwritable, format!("cannot write `{shown}`: it is no plain file"));
        return Err(Failure::of(Exit::Usage, fault.help("name a file of your own")));
    }
    Ok(())
}

/// Whether no output is one of the files that are read (those are never replaced, not even when forced), and no two outputs
/// are one file. Outputs come with their flags, files that are read with what they are.
pub(super) fn apart(outputs: &[(&str, PathBuf)], read: &[(&str, PathBuf)]) -> Result<(), Failure> {
    let refuse = |path: &Path, why: String| {
        let message = format!("cannot write `{}`: {why}", shorten(&path.display().to_string()));
        Err(Failure::of(Exit::Usage, Diagnostic::new(Code::Unwritable, message).help("give another name")))
    };
    for (at, (flag, path)) in outputs.iter().enumerate() {
        let own = whole(path);
        if let Some((what, _)) = read.iter().find(|(_, other)| whole(other) == own) {
            return refuse(path, format!("it is {what} that is read"));
        }
        if let Some((other, _)) = outputs[..at].iter().find(|(_, other)| whole(other) == own) {
            return refuse(path, format!("{other} and {flag} would write the same file"));
        }
    }
    Ok(())
}

/// The one path of a file, whether it is there or only its folder is; in other cases the path as it is meant.
fn whole(path: &Path) -> PathBuf {
    let folder =
        |path: &Path| path.parent().map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p }.to_owned());
    let there = path.canonicalize().ok();
    let beside = || Some(folder(path)?.canonicalize().ok()?.join(path.file_name()?));
    there.or_else(beside).unwrap_or_else(|| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// Writes a file as a whole: to a temporary name in the same folder, then renamed. An existing file is an error unless
/// `force` is set.
pub(super) fn write(path: &Path, bytes: &[u8], force: bool) -> Result<(), Failure> {
    writable(path, force)?;
    let shown = shorten(&path.display().to_string());
    let unwritable = |error: std::io::Error| {
        let why = match error.kind() {
            std::io::ErrorKind::NotFound => "its folder does not exist".to_owned(),
            std::io::ErrorKind::NotADirectory => "its folder is a file".to_owned(),
            std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        Failure::of(Exit::Usage, Diagnostic::new(Code::Unwritable, format!("cannot write `{shown}`: {why}")))
    };
    let Some(name) = path.file_name() else {
        let fault = Diagnostic::new(Code::Unwritable, format!("cannot write `{shown}`: not the name of a file"));
        return Err(Failure::of(Exit::Usage, fault));
    };
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(temporary);
    let done = std::fs::File::create_new(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, path));
    done.map_err(|error| {
        // The temporary file may not exist; the first error is the one to report.
        let _ = std::fs::remove_file(&temporary);
        unwritable(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_whole_and_never_overwritten_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        write(&path, b"one", false).unwrap();
        let failure = write(&path, b"two", false).unwrap_err();
        assert_eq!((failure.exit, failure.diagnostics.list[0].code), (Exit::Usage, Code::Exists));
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        write(&path, b"two", true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        for bad in [dir.path().to_owned(), dir.path().join("none/x"), path.join("x")] {
            // Told before the work, too.
            let failure = writable(&bad, true).unwrap_err();
            assert_eq!(failure.diagnostics.list[0].code, Code::Unwritable, "{bad:?}");
            let failure = write(&bad, b"x", true).unwrap_err();
            assert_eq!(failure.diagnostics.list[0].code, Code::Unwritable, "{bad:?}");
        }
        // One file is one file, however it is named.
        let (own, sub) = (path.clone(), dir.path().join("none/../b.json"));
        std::fs::create_dir(dir.path().join("none")).unwrap();
        let b = dir.path().join("b.json");
        assert!(apart(&[("--a", own.clone()), ("--b", b.clone())], &[("a log", sub.with_file_name("c"))]).is_ok());
        for (outputs, read) in [
            (vec![("--a", b.clone()), ("--b", sub.clone())], vec![]),
            (vec![("--a", sub)], vec![("a log", b)]),
            (vec![("--a", own.clone())], vec![("a log", dir.path().join("./a.json"))]),
        ] {
            let failure = apart(&outputs, &read).unwrap_err();
            assert_eq!((failure.exit, failure.diagnostics.list[0].code), (Exit::Usage, Code::Unwritable));
        }
        std::fs::remove_dir(dir.path().join("none")).unwrap();
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["a.json"]);
    }
}
