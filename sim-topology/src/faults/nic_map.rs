//! GPUs that use other NICs than those near them: a wrong topology file, a container that sees too few devices.

use super::patient::Patient;
use super::target::{Item, nodes_of};
use super::{Effect, FaultError, FaultErrorKind};

/// Which NIC each of some GPUs uses, whatever hangs near it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicMap {
    /// Names inside the node: `("gpu3", "nic0")`.
    pub nics: Vec<(String, String)>,
}

/// `3` of `gpu3`.
fn number(text: &str, prefix: &str, count: u32, key: &'static str) -> Result<u32, FaultError> {
    let shown: String = text.chars().take(40).collect();
    match text.trim().strip_prefix(prefix).and_then(|n| n.parse::<u32>().ok()) {
        Some(n) if n < count => Ok(n),
        Some(_) if count == 0 => {
            Err(FaultError::new(key, FaultErrorKind::Unknown, format!("there is no `{shown}`"), "the node has none"))
        }
        Some(_) => {
            let label = format!("a node has {prefix}0 to {prefix}{}", count - 1);
            Err(FaultError::new(key, FaultErrorKind::Unknown, format!("there is no `{shown}` in a node"), label))
        }
        None => {
            let label = format!("write {prefix}0, {prefix}1, ...");
            Err(FaultError::new(key, FaultErrorKind::Unknown, format!("`{shown}` is no {prefix} of a node"), label))
        }
    }
}

impl Effect for NicMap {
    fn name(&self) -> &'static str {
        "nic_map"
    }

    fn rank(&self) -> u8 {
        2
    }

    fn apply(&self, items: &[Item], patient: &mut Patient<'_>) -> Result<String, FaultError> {
        let fabric = patient.fabric();
        let (gpus, nics) = fabric.nodes().first().map_or((0, 0), |n| (n.gpus.len() as u32, n.nics.len() as u32));
        let mut map = Vec::new();
        for (gpu, nic) in &self.nics {
            map.push((number(gpu, "gpu", gpus, "nics")?, number(nic, "nic", nics, "nics")?));
        }
        let nodes = nodes_of(items)?;
        let same = |node: &u32| {
            let node = &fabric.nodes()[*node as usize];
            map.iter().all(|&(g, n)| fabric.nics_of(node.gpus[g as usize]) == [node.nics[n as usize]])
        };
        if nodes.iter().all(same) {
            patient.warn("nics", "the fault has no effect", "these are the NICs that the GPUs use already");
        }
        for node in nodes {
            patient.map_nics(node, &map);
        }
        Ok(self.nics.iter().map(|(gpu, nic)| format!("{gpu} uses {nic}")).collect::<Vec<_>>().join(", "))
    }
}
