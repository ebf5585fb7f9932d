//! sim-collectives
