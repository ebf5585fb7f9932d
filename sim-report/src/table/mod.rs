//! Tables as text: aligned columns, nccl-tests' own layout, CSV.

mod csv_file;
mod nccl;
mod text;

pub use csv_file::{collectives_csv, compare_csv, links_csv, transfers_csv, write_csv};
pub use nccl::{NcclDevice, NcclRow, NcclTable};
pub use text::{Align, TextTable, number, time_text};
