//! `sweep merge`: the shards of a sweep, put together.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use sim_report::result::SweepResults;

use super::super::args::{Format, Output};
use super::super::context::Context;
use super::super::fault::Failure;
use super::super::output;
use super::refused;
use super::target::is_parquet;
use crate::diagnostic::counted;
use crate::sweep::merge::{Part, merge};

/// Put the files of a sweep's shards together, in the order of the points; all must be there
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The files, CSV or Parquet
    #[arg(value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Write all rows here, CSV or Parquet by the ending
    #[arg(long, value_name = "FILE.csv|FILE.parquet")]
    out: PathBuf,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  fabricsim sweep merge part1.csv part2.csv --out all.csv
  fabricsim sweep merge part*.parquet --out all.parquet";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let parquet = is_parquet(&args.out)?;
    let read: Vec<_> = args.files.iter().map(|path| ("a file", path.clone())).collect();
    output::apart(&[("--out", args.out.clone())], &read)?;
    output::writable(&args.out, false)?;
    let parts = args
        .files
        .iter()
        .map(|path| Part::read(path))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|fault| refused(*fault))?;
    let all = merge(parts).map_err(Failure::usage)?;
    let bytes = if parquet { all.to_parquet().map_err(Failure::internal)? } else { all.to_csv() };
    output::write(&args.out, &bytes, false)?;
    let out = args.out.display().to_string();
    if args.output.format == Format::Text {
        let of = counted(args.files.len(), "file");
        return output::print(&format!("{out}: {} of {of}\n", counted(all.rows.len(), "row")));
    }
    let cell = |row: &Vec<String>, from_end: usize| row.iter().rev().nth(from_end).cloned().unwrap_or_default();
    let results = SweepResults {
        sweep: all.rows.first().map(|row| cell(row, 0)).unwrap_or_default(),
        file: Some(out.clone()),
        points: all.rows.len() as u64,
        rows: all.rows.len() as u64,
        failed: all.rows.iter().filter(|row| !cell(row, 1).is_empty()).count() as u64,
        columns: all.header,
        ..SweepResults::default()
    };
    output::print_json(&out, context.seed.unwrap_or(1), Vec::new(), results)
}
