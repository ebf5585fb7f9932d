//! Links that are down at times.

use super::state::Flapping;
use crate::ids::LinkId;
use crate::units::Time;

/// When a segment that could start on `link` at `at` does start, and counts the time that it is held.
///
/// Kept out of the loop that crosses links, since few of them flap.
#[inline(never)]
pub(super) fn start(flapping: &mut [Flapping], link: LinkId, at: Time) -> Time {
    let Ok(index) = flapping.binary_search_by_key(&link.0, |f| f.link) else { return at };
    let entry = &mut flapping[index];
    let up = entry.outage.up_from(at);
    entry.held += up.since(at);
    up
}
