//! The hardware catalogue, the builders of nodes and fabrics, and the routes through them.
//!
//! ```
//! use sim_topology::{Catalogue, Fabric, FabricSpec, RouteRequest};
//!
//! let catalogue = Catalogue::builtin();
//! let node = catalogue.system("hgx-h100")?.node.clone();
//! let fabric = Fabric::build(&FabricSpec::new(node, 4), catalogue)?;
//! let (from, to) = (fabric.find("node0.gpu3")?, fabric.find("node2.gpu3")?);
//! let route = fabric.route(&RouteRequest::auto(from, to))?;
//! let hops: Vec<_> = route.links.iter().map(|&link| fabric.link_name(link)).collect();
//! assert_eq!(hops[2], "node0.nic3->leaf3");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The way of the data: [`NodeSpec`] and [`FabricSpec`] say what is wanted, [`Fabric::build`] checks it against the
//! [`Catalogue`] and freezes it into flat arrays of [`Device`]s and directed [`Link`]s, and everything else reads those.
//! All rates are of one direction; all latencies are one way.

pub mod catalogue;
mod device;
pub mod fabric;
pub mod faults;
pub mod import;
pub mod node;
mod path_class;
mod route;
#[cfg(test)]
mod testing;
pub mod text;
pub mod topo;

pub use catalogue::{Catalogue, UnknownName};
pub use device::{Device, DeviceId, DeviceKind, Link, LinkClass, Node};
pub use fabric::{
    BuildError, Cables, DragonflySpec, Fabric, FabricKind, FabricPlan, FabricSpec, LinkPlace, NicOverride, OneWay,
    PathChoice, Places, SwitchPlace, Tier, TransportKind, UnknownDevice,
};
pub use faults::{Fault, FaultKind};
pub use node::{
    Bounce, CpuSpec, CpuVendor, GpudirectLevel, NicPolicy, NodeSpec, NvlinkSpec, PcieSpec, SlotSpec, SocketLinkSpec,
    XgmiSpec, names_device,
};
pub use path_class::PathClass;
pub use route::{HostUse, PairKind, PxnRelay, Route, RouteError, RouteRequest, Via, path_hash};
