//! Admission by receivers.

use sim_core::net::spec::GrantSpec;
use sim_core::rate_control::RateSpec;
use sim_core::units::Bytes;

use super::super::reach::Reach;
use super::super::reader::Reader;
use super::Control;
use crate::scenario::keys::{Kind, TableSpec, key};

/// What receivers grant.
pub(super) const RECEIVER: Control = Control {
    grants: Some(grants),
    ..Control::new("receiver", |reader, _| {
        Some(RateSpec::Receiver { unasked: reader.inside("receiver").size("unasked")? })
    })
    .keys(&KEYS)
};

static KEYS: TableSpec = TableSpec {
    name: "transport.receiver",
    doc: "Admission by receivers: senders ask, and each receiver grants in turn to all that have asked.",
    keys: &[
        key(
            "budget",
            Kind::Size(false),
            "Payload that a receiver has granted and not received. Without it, 1.5 bandwidth-delay products (assumed).",
        ),
        key("unit", Kind::Size(false), "Payload of a grant. Without it, one packet (assumed)."),
        key("unasked", Kind::Size(true), "Payload that may be sent before the first grant (assumed).").default("0 B"),
    ],
};

/// What receivers grant.
fn grants(reader: &mut Reader<'_, '_>, reach: &Reach) -> GrantSpec {
    let mut table = reader.inside("receiver");
    let product = reach.product().get();
    GrantSpec {
        budget: table.size_or("budget", Bytes::new(product + product / 2)).get(),
        unit: table.size_or("unit", reach.mtu).get(),
    }
}
