//! The collective algorithms: each is one file that writes down lanes.
//!
//! To add one: a new file with a type that implements [`Algorithm`], and its line in [`ALL`].

mod nvls;
mod nvls_tree;
mod pairwise;
mod ring;
mod send_recv;
mod tree;

use crate::call::Call;
use crate::lanes::LaneSink;
use crate::nccl::Operation;

/// An algorithm.
pub trait Algorithm: Sync {
    /// Its name, as in results and as it is forced by.
    fn name(&self) -> &'static str;

    /// Whether it can do `operation` for this call's group.
    fn can(&self, operation: Operation, call: &Call) -> bool;

    /// What every rank does. Only called where [`can`](Self::can) says yes.
    fn write(&self, operation: Operation, call: &Call, lanes: &mut dyn LaneSink);
}

/// All algorithms.
pub const ALL: &[&dyn Algorithm] =
    &[&ring::Ring, &tree::Tree, &nvls::Nvls, &nvls_tree::NvlsTree, &pairwise::Pairwise, &send_recv::SendRecv];

/// The algorithm of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn Algorithm> {
    ALL.iter().copied().find(|a| a.name() == name)
}
