//! Sizes on the command line, as nccl-tests takes them.

use sim_core::units::{Bytes, UnitErrorKind, parse::nccl_size};

use crate::diagnostic::{Diagnostics, Place};
use crate::scenario::{MOST_BYTES, diagnose, too_large};

/// The size that is the value of `flag`; a fault goes to `out`.
pub(super) fn size(flag: &str, text: &str, out: &mut Diagnostics) -> Option<Bytes> {
    match nccl_size(text) {
        Ok(size) if size > MOST_BYTES => {
            let source = out.sources.add(flag, text);
            out.push(too_large(flag, Place { source, span: 0..text.len() }).help("8, 64K, 8G, or \"64 KiB\""));
            None
        }
        Ok(size) => Some(size),
        Err(error) => {
            let source = out.sources.add(flag, text);
            let place = Place { source, span: 0..text.len() };
            let mut fault = diagnose(flag, &error, text, &place, &out.sources);
            if error.kind == UnitErrorKind::UnknownUnit {
                // The list of units of a scenario lacks those that are understood here alone.
                fault.help = vec!["known here: K, M, G, T (binary), or B, KB, KiB, MB, MiB, GB, GiB".to_owned()];
            }
            out.push(fault.help("8, 64K, 8G, or \"64 KiB\""));
            None
        }
    }
}
