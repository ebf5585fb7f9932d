//! Ctrl-C: once, and what is complete is written; twice, and the program ends at once.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::fault::Exit;

/// A flag that the first Ctrl-C sets. Without a handler (another is installed), it is never set.
pub(super) fn flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    let installed = ctrlc::set_handler(move || {
        if set.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(Exit::Interrupted as u8));
        }
        let _ = writeln!(std::io::stderr(), "\nstopping; what is complete is kept (Ctrl-C again ends at once)");
    });
    debug_assert!(installed.is_ok(), "one verb runs in a process");
    flag
}
