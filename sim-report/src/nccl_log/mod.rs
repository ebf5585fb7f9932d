//! Reading what nccl-tests printed, however it was pasted.
//!
//! [`read`] copes with every column layout since NCCL 1, with labels of `mpirun` and `srun` before the lines, time
//! stamps, indentation, collapsed blanks, debugging output between the rows, tables without headers, several tables
//! in one file, and the JSON of `-J`. What is damaged, of time zero or wrong by nccl-tests' own check becomes a [`LogWarning`]
//! and doesn't count ([`Row::halves`]); a log with one complete row is usable. What the text doesn't say (the operation, the number of ranks) is worked out from the figures, and the
//! answer says so ([`OperationSource`], [`RanksSource`]).
//!
//! ```
//! let text = "\
//! #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
//!   1073741824     268435456     float     sum      -1   7163.5  149.89  224.84      0   7161.8  149.93  224.89      0
//! ";
//! let log = sim_report::nccl_log::read(text.as_bytes()).unwrap();
//! assert_eq!(log.tables[0].ranks, Some(4)); // 224.84 / 149.89 = 2·3/4
//! ```

mod error;
mod evidence;
mod header;
mod infer;
mod json;
mod lines;
mod ranks;
mod row;
mod scan;
mod types;
mod usable;

use std::io::Read;

pub use error::{LogError, LogErrorKind};
pub use types::{
    Check, Convention, DataType, Device, Layout, LogWarning, NcclLog, OperationSource, OutOfBounds, Parameters,
    RanksSource, Row, Spread, Table, Timing,
};
pub use usable::{LEAST_US, Unusable};

/// What a log may cost. Beyond a limit reading ends with an error that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of input.
    pub bytes: u64,
    /// Bytes of JSON or UTF-16 input, which is held in memory as a whole.
    pub whole_bytes: u64,
    /// Bytes of one line; the rest of a longer one is skipped with a warning.
    pub line_bytes: usize,
    /// Rows of all tables together.
    pub rows: usize,
    /// Rank lines of one run.
    pub devices: usize,
    /// Warnings kept; further ones are only counted.
    pub warnings: usize,
}

impl Default for Limits {
    /// 1 GiB of text, 32 MiB of JSON, lines of 64 KiB, 200,000 rows, 200,000 ranks, 100 warnings.
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            whole_bytes: 32 << 20,
            line_bytes: 64 << 10,
            rows: 200_000,
            devices: 200_000,
            warnings: 100,
        }
    }
}

/// Reads a log from memory.
///
/// # Errors
/// If there is no complete row, or a limit is passed.
pub fn read(bytes: &[u8]) -> Result<NcclLog, LogError> {
    read_from(bytes, None, &Limits::default())
}

/// Reads a log from memory; `name`, the file's name, may tell the operation where nothing in the text does.
///
/// # Errors
/// As [`read`].
pub fn read_named(bytes: &[u8], name: &str) -> Result<NcclLog, LogError> {
    read_from(bytes, Some(name), &Limits::default())
}

/// Reads a log from a stream within `limits`, in memory that does not grow with what surrounds the rows.
///
/// # Errors
/// As [`read`], and if the stream cannot be read.
pub fn read_from(input: impl Read, name: Option<&str>, limits: &Limits) -> Result<NcclLog, LogError> {
    let mut lines = lines::Lines::new(input, limits);
    let mut scan = scan::Scan::new(name, limits);
    match lines.sniff()? {
        lines::Shape::Utf16 { big_endian } => {
            let text = lines::decode_utf16(&lines.whole()?, big_endian);
            scan.warn(1, 1, "the file is UTF-16; it was converted");
            let mut decoded = lines::Lines::new(text.as_bytes(), limits);
            let shape = decoded.sniff()?;
            scan_all(&mut decoded, shape, &mut scan)?;
        }
        shape => scan_all(&mut lines, shape, &mut scan)?,
    }
    scan.finish()
}

fn scan_all<R: Read>(
    lines: &mut lines::Lines<'_, R>,
    shape: lines::Shape,
    scan: &mut scan::Scan<'_>,
) -> Result<(), LogError> {
    match shape {
        lines::Shape::Json => json::read(&lines.whole()?, scan),
        lines::Shape::Archive(what) => Err(LogError::archive(what)),
        // What was UTF-16 once is text by now.
        lines::Shape::Text | lines::Shape::Utf16 { .. } => scan_lines(lines, scan),
    }
}

fn scan_lines<R: Read>(lines: &mut lines::Lines<'_, R>, scan: &mut scan::Scan<'_>) -> Result<(), LogError> {
    while let Some(line) = lines.next_line()? {
        scan.line(&line)?;
    }
    Ok(())
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
