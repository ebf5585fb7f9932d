//! Files that keys name: their contents count as the keys do.

use super::load;
use super::software::{TUNER_FILE, tuner_text};
use super::tree::{Node, Table, Value};
use super::{designs, hash};
use crate::diagnostic::Sources;

/// Keys that name files, and those that choose other keys; `*` is a number.
const KEYS: [&[&str]; 4] =
    [&["workload", "*", "compute", "profile"], &["software", "env", TUNER_FILE], &["profile", "from"], &[designs::KEY]];

/// Whether a key names a file, or has one that does in it.
pub(super) fn may_name(parts: &[String]) -> bool {
    let alike = |(part, of): (&String, &&str)| *of == "*" || part == of;
    KEYS.iter().any(|key| parts.iter().zip(key.iter()).all(alike))
}

/// A hash of the contents of all files that the keys of a scenario name, once `[profile]` is laid upon the file that it is from.
pub(super) fn contents(root: &Table, sources: &Sources) -> u64 {
    let items = root.get("workload").and_then(Node::as_array).unwrap_or(&[]);
    let kernels = items.iter().filter_map(|item| {
        let node = item.as_table()?.get("compute")?.as_table()?.get("profile")?;
        load::read(&load::beside(node, sources)?, sources.files()).ok()
    });
    let tuner = || {
        let Value::Text(path) = &root.get("software")?.as_table()?.get("env")?.as_table()?.get(TUNER_FILE)?.value
        else {
            return None;
        };
        tuner_text(path, sources.files()).ok()
    };
    let texts: Vec<String> = kernels.chain(tuner()).collect();
    hash::with_files(hash::key(root, "profile"), texts.iter().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_lead_to_files() {
        let may = |key: &str| may_name(&load::split_key(key).unwrap());
        for key in ["workload", "workload.0", "workload.1.compute", "workload[2].compute.profile", "design", "profile"]
        {
            assert!(may(key), "{key}");
        }
        for key in ["nodes", "workload.0.sizes", "workload.0.compute.efficiency", "software.nccl", "profile.net.alpha"]
        {
            assert!(!may(key), "{key}");
        }
    }
}
