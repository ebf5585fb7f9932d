//! Reports on a fabric.
