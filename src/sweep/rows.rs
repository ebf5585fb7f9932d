//! The rows of a sweep in a CSV file: in the order of the points, each appended as soon as its turn has come, so that the
//! file can be taken up again wherever it ends.
//!
//! A row that is done before one in front of it goes to a second file beside it (`FILE.waiting`), which is removed at the
//! end: nothing that was played is lost when the program is.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::Sweep;
use super::parquet::Rows;
use crate::diagnostic::{Code, Diagnostic, counted, shorten};

/// A file of rows that is written.
#[derive(Debug)]
pub struct RowFile {
    path: PathBuf,
    file: File,
    waiting: Waiting,
    /// Rows whose turn has not come, by their places in the order.
    held: BTreeMap<usize, Vec<u8>>,
    /// Rows in the file: the place of the next.
    next: usize,
    /// Rows that say why a point could not be played.
    failed: usize,
    /// Whether the file was made by this call.
    begun: bool,
}

#[derive(Debug)]
struct Waiting {
    path: PathBuf,
    file: Option<File>,
}

type Fault = Box<Diagnostic>;

/// A row as a line of CSV.
pub(super) fn line(cells: &[String]) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(Vec::new());
    // Neither can fail: a vector takes all, and there is one record.
    let _ = writer.write_record(cells);
    writer.into_inner().unwrap_or_default()
}

/// The records of some lines.
pub(super) fn records(bytes: &[u8]) -> impl Iterator<Item = Vec<String>> {
    let reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let cells =
        |record: csv::ByteRecord| record.iter().map(|cell| String::from_utf8_lossy(cell).into_owned()).collect();
    reader.into_byte_records().map_while(Result::ok).map(cells)
}

/// The part of a file that ends with a whole line.
pub(super) fn whole(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1)]
}

fn shown(path: &Path) -> String {
    shorten(&path.display().to_string())
}

fn unwritable(path: &Path, error: &std::io::Error) -> Fault {
    let why = match error.kind() {
        ErrorKind::NotFound => "its folder does not exist".to_owned(),
        ErrorKind::NotADirectory => "its folder is a file".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::IsADirectory => "it is a folder".to_owned(),
        _ => error.to_string(),
    };
    Box::new(Diagnostic::new(Code::Unwritable, format!("cannot write `{}`: {why}", shown(path))))
}

/// The finding about a file that is there, where a new one was to be written.
#[must_use]
pub fn exists(path: &Path) -> Fault {
    let fault = Diagnostic::new(Code::Exists, format!("`{}` exists already", shown(path)));
    Box::new(fault.help("go on with it by `--resume`, or give another name"))
}

/// The finding about a file of something else.
fn other(path: &Path, why: String) -> Fault {
    let fault = Diagnostic::new(Code::OtherSweep, format!("`{}` is not of this sweep", shown(path)));
    Box::new(fault.note(why).help("give another name by `--out`; the file is left as it is"))
}

impl RowFile {
    /// Opens the file at `path` for the rows of these points of a sweep. One that is there is an error, unless `resume` is
    /// set: then it is checked and gone on with, without a last line that was cut off. A file that is missing or empty is begun.
    ///
    /// # Errors
    /// If it can't be written, is there already, is of another sweep or shard, or if another process writes it.
    pub fn open(path: &Path, sweep: &Sweep, points: &[usize], resume: bool) -> Result<Self, Fault> {
        if path.metadata().is_ok_and(|found| !found.is_file()) {
            let why = if path.is_dir() { "it is a folder" } else { "it is no plain file" };
            let fault = Diagnostic::new(Code::Unwritable, format!("cannot write `{}`: {why}", shown(path)));
            return Err(Box::new(fault.help("name a file of your own")));
        }
        let waiting = PathBuf::from(format!("{}.waiting", path.display()));
        if !resume && waiting.symlink_metadata().is_ok() {
            let fault = Diagnostic::new(Code::Exists, format!("`{}` is left of an interrupted sweep", shown(&waiting)));
            return Err(Box::new(fault.help("go on with it by `--resume`, remove it, or give another name")));
        }
        let begun = path.symlink_metadata().is_err();
        let mut how = OpenOptions::new();
        how.read(true).write(true);
        let opened = if resume { how.create(true).truncate(false).open(path) } else { how.create_new(true).open(path) };
        let mut file = opened.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => exists(path),
            _ => unwritable(path, &error),
        })?;
        if let Err(fs4::TryLockError::WouldBlock) = fs4::FileExt::try_lock(&file) {
            let fault = Diagnostic::new(Code::Exists, format!("another process is writing `{}`", shown(path)));
            return Err(Box::new(
                fault.help("several processes share a sweep by `--shard i/n`, each with its own file"),
            ));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| unwritable(path, &error))?;
        let header = line(&sweep.header());
        let mut rows = Self {
            path: path.to_owned(),
            file,
            waiting: Waiting { path: waiting, file: None },
            held: BTreeMap::new(),
            next: 0,
            failed: 0,
            begun,
        };
        let kept = rows.take_up(&bytes, &header, sweep, points)?;
        let io = |error: std::io::Error| unwritable(path, &error);
        if kept < bytes.len() {
            rows.file.set_len(kept as u64).map_err(io)?;
        }
        rows.file.seek(SeekFrom::Start(kept as u64)).map_err(io)?;
        if kept == 0 {
            rows.file.write_all(&header).map_err(io)?;
        }
        rows.take_up_waiting(sweep, points)?;
        Ok(rows)
    }

    /// Checks what is in the file and counts its rows; how many bytes of it stay.
    fn take_up(&mut self, bytes: &[u8], header: &[u8], sweep: &Sweep, points: &[usize]) -> Result<usize, Fault> {
        let kept = whole(bytes);
        if kept.is_empty() {
            // Nothing, or a first line that was cut off.
            return if header.starts_with(bytes) {
                Ok(0)
            } else {
                Err(other(&self.path, "it does not begin with the names of the sweep's columns".to_owned()))
            };
        }
        if kept.windows(2).any(|pair| pair == b"\r\n") {
            let why = "its lines end in CR LF, and rows in LF: another program has changed it".to_owned();
            return Err(other(&self.path, why));
        }
        let expected = sweep.header();
        let mut list = records(kept);
        let names = list.next().unwrap_or_default();
        if names != expected {
            let why = match names.iter().zip(&expected).find(|(a, b)| a != b) {
                Some((found, due)) => format!("column `{}` is there, `{}` is due", shorten(found), shorten(due)),
                None => format!("it has {}, the sweep {}", counted(names.len(), "column"), expected.len()),
            };
            return Err(other(&self.path, why));
        }
        for record in list {
            let Some(point) = points.get(self.next) else {
                return Err(other(
                    &self.path,
                    format!("it has more than the {} rows of this sweep or shard", points.len()),
                ));
            };
            fits(&record, sweep, *point).map_err(|why| other(&self.path, format!("row {}: {why}", self.next + 1)))?;
            self.failed += usize::from(!record[record.len() - 2].is_empty());
            self.next += 1;
        }
        Ok(kept.len())
    }

    /// Takes up rows whose turn had not come.
    fn take_up_waiting(&mut self, sweep: &Sweep, points: &[usize]) -> Result<(), Fault> {
        let path = self.waiting.path.clone();
        let io = |error: std::io::Error| unwritable(&path, &error);
        let mut file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(io(error)),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let kept = whole(&bytes);
        for record in records(kept) {
            let point = record.first().and_then(|cell| cell.parse::<usize>().ok());
            let at = point.and_then(|point| points.binary_search(&point).ok());
            let why = match (point, at) {
                (Some(point), Some(_)) => fits(&record, sweep, point).err(),
                _ => Some("a row of another shard".to_owned()),
            };
            if let Some(why) = why {
                return Err(other(&path, why));
            }
            if let Some(at) = at.filter(|at| *at >= self.next) {
                self.held.insert(at, line(&record));
            }
        }
        file.set_len(kept.len() as u64).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        self.waiting.file = Some(file);
        self.write_held()
    }

    /// How many rows are done, in turn or not.
    #[must_use]
    pub fn done(&self) -> usize {
        self.next + self.held.len()
    }

    /// Whether the row at a place in the order is done.
    #[must_use]
    pub fn has(&self, at: usize) -> bool {
        at < self.next || self.held.contains_key(&at)
    }

    /// How many rows in the file say why a point could not be played.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.failed
    }

    /// How many rows are in the file, in turn.
    #[must_use]
    pub fn in_turn(&self) -> usize {
        self.next
    }

    /// Puts the row at a place in the order.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn put(&mut self, at: usize, cells: &[String]) -> Result<(), Fault> {
        let row = line(cells);
        if at == self.next {
            self.held.insert(at, row);
            return self.write_held();
        }
        let io = |error: std::io::Error| unwritable(&self.waiting.path, &error);
        let file = match &mut self.waiting.file {
            Some(file) => file,
            none => none.insert(OpenOptions::new().append(true).create(true).open(&self.waiting.path).map_err(io)?),
        };
        file.write_all(&row).map_err(io)?;
        self.held.insert(at, row);
        Ok(())
    }

    /// Writes the rows whose turn has come.
    fn write_held(&mut self) -> Result<(), Fault> {
        while let Some(row) = self.held.remove(&self.next) {
            self.file.write_all(&row).map_err(|error| unwritable(&self.path, &error))?;
            let failed =
                records(&row).next().is_some_and(|cells| cells.len() > 1 && !cells[cells.len() - 2].is_empty());
            self.failed += usize::from(failed);
            self.next += 1;
        }
        Ok(())
    }

    /// The end of a call that left some points out: a file that this call began, and that has no row, is removed.
    pub fn leave(self) {
        if self.begun && self.done() == 0 {
            drop(self.file);
            // One that stays has the names of columns alone, and can be gone on with.
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// The end: nothing waits any more.
    ///
    /// # Errors
    /// If the file of waiting rows can't be removed.
    pub fn finish(self) -> Result<(), Fault> {
        debug_assert!(self.held.is_empty(), "all rows before are there");
        drop(self.waiting.file);
        match std::fs::remove_file(&self.waiting.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(unwritable(&self.waiting.path, &error)),
            _ => Ok(()),
        }
    }
}

/// Whether a table has the rows of these points of a sweep, and no other; `path` is where it was read.
///
/// # Errors
/// What is not so.
pub fn all_fit(path: &Path, table: &Rows, sweep: &Sweep, points: &[usize]) -> Result<(), Fault> {
    if table.header != sweep.header() {
        return Err(other(path, "its columns are others".to_owned()));
    }
    if table.rows.len() != points.len() {
        return Err(other(path, format!("it has {}, {} are due", counted(table.rows.len(), "row"), points.len())));
    }
    for (row, point) in table.rows.iter().zip(points) {
        fits(row, sweep, *point).map_err(|why| other(path, format!("row of point {point}: {why}")))?;
    }
    Ok(())
}

/// Whether a row is that of a point of this sweep.
pub(super) fn fits(record: &[String], sweep: &Sweep, point: usize) -> Result<(), String> {
    let columns = sweep.header().len();
    match record.last() {
        Some(id) if record.len() == columns && *id == sweep.id => {}
        Some(id) if record.len() == columns => {
            let why = "the grid, the columns, the scenario or the version of fabricsim is another";
            return Err(format!("of sweep {}, and this is {}: {why}", shorten(id), sweep.id));
        }
        _ => return Err(format!("it has {}, not {columns}", counted(record.len(), "cell"))),
    }
    let place = sweep.place(point);
    match place.iter().zip(record).position(|(due, found)| due != found) {
        None => Ok(()),
        Some(0) => {
            Err(format!("point {}, where {point} is due (of another shard, or out of order)", shorten(&record[0])))
        }
        Some(at) => Err(format!("`{}` where `{}` is due", shorten(&record[at]), shorten(&place[at]))),
    }
}
