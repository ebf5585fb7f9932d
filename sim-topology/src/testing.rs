//! Fabrics for tests.

use crate::{Catalogue, Fabric, FabricSpec, NodeSpec, NvlinkSpec, PcieSpec, SlotSpec};

/// `gpus` GPUs that share NVSwitches, each with a NIC on its own PCIe switch, half of them on each socket.
pub(crate) fn node(gpus: u32) -> NodeSpec {
    let system = Catalogue::builtin().system("hgx-b200").expect("built in");
    let slot = SlotSpec { generation: 5, lanes: 16 };
    let row = |i: u32| {
        PcieSpec::new(u32::from(i >= gpus.div_ceil(2)), true, slot, vec![format!("gpu{i}"), format!("nic{i}")])
    };
    NodeSpec {
        gpus,
        nics: gpus,
        nvlink: Some(NvlinkSpec { chip: Some("nvswitch4".into()), links: vec![1; 18], ..NvlinkSpec::default() }),
        pcie: (0..gpus).map(row).collect(),
        ..system.node.clone()
    }
}

/// The catalogue's node `name`.
pub(crate) fn system(name: &str) -> NodeSpec {
    Catalogue::builtin().system(name).expect("built in").node.clone()
}

/// `nodes` of the catalogue's `name` with all defaults.
pub(crate) fn cluster(name: &str, nodes: u32) -> Fabric {
    build(&FabricSpec { system: Some(name.into()), ..FabricSpec::new(system(name), nodes) })
}

/// The fabric, which must build.
pub(crate) fn build(spec: &FabricSpec) -> Fabric {
    Fabric::build(spec, Catalogue::builtin()).unwrap_or_else(|e| panic!("{e}"))
}
