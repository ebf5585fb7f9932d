//! Everything that fabricsim says about a result, and what it reads from measurements.
//!
//! * [`result`]: the serialisable result types, one JSON envelope for all verbs.
//! * [`nccl_log`]: a reader for what nccl-tests printed, in any layout and any state.
//! * [`compare`]: predicted beside measured, error figures and the pattern of the residuals.
//! * [`metrics`]: operations, and nccl-tests' algbw, busbw and counts.
//! * [`table`]: text tables, nccl-tests' own layout, CSV.
//! * [`plot`]: SVG charts.

pub mod compare;
pub mod metrics;
pub mod nccl_log;
pub mod plot;
pub mod result;
pub mod table;
