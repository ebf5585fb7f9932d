//! Routes through the network, from a NIC to a NIC.

use sim_core::ids::LinkId;

use super::{Fabric, PathChoice};
use crate::device::DeviceId;
use crate::route::path_hash;

impl Fabric {
    /// Appends the links from one NIC to another and says how many equal paths there are; `None` if there is no path.
    ///
    /// `choice` is the number of the path among the equal ones; without it, the fabric's way of choosing decides.
    pub(crate) fn append_between_nics(
        &self,
        src: DeviceId,
        dst: DeviceId,
        entropy: u64,
        choice: Option<u32>,
        links: &mut Vec<LinkId>,
    ) -> Option<u32> {
        let (out, into) = (self.attach_of(src)?, self.attach_of(dst)?);
        if src == dst {
            return None;
        }
        links.push(out.up);
        let routes = self.switch_routes();
        let (a, b) = (out.leaf.0, into.leaf.0);
        let (paths, _) = routes.minimal(a, b)?;
        match (choice, self.path_choice()) {
            (Some(k), _) => routes.append(a, b, k, links),
            (None, PathChoice::Hash) => {
                let k = path_hash(src, dst, entropy) % u64::from(paths.max(1));
                routes.append(a, b, k as u32, links);
            }
            (None, PathChoice::Destination) => {
                routes.append_static(a, b, u64::from(into.position).wrapping_add(entropy), links);
            }
        }
        links.push(into.down);
        Some(paths)
    }
}
