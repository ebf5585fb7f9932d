//! Tables as text: aligned columns, nccl-tests' own layout, CSV.

mod csv_file;
mod fit;
mod github;
mod inference;
mod junit;
mod nccl;
mod observed;
mod reports;
mod step;
mod text;
mod transport;

pub use csv_file::{collectives_csv, compare_csv, links_csv, transfers_csv, write_csv};
pub use fit::{fit_text, parameters_line};
pub use github::compare_markdown;
pub use inference::{
    inference_csv, inference_headline, inference_outline_text, inference_text, long_run_headline, long_run_text,
};
pub use junit::junit;
pub use nccl::{NcclDevice, NcclRow, NcclTable};
pub use observed::{flows_csv, ports_csv, series_csv, series_text};
pub use reports::{ab_text, collectives_text, compare_text, links_text, path_text, transfers_text};
pub use step::{step_alone_short, step_csv, step_headline, step_messages, step_outline_text, step_text};
pub use text::{Align, TextTable, number, time_text};
pub use transport::{diff_text, seeds_text, transport_text};
