//! fabricsim
