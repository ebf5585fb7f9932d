//! sim-topology
