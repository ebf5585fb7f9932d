//! sim-report
