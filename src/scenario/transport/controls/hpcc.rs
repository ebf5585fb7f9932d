//! HPCC.

use std::sync::Arc;

use sim_core::rate_control::{HpccParams, RateSpec};
use sim_core::units::Bytes;

use super::super::reach::Reach;
use super::super::reader::Inside;
use super::{Control, SHARE, fraction};
use crate::scenario::keys::{Kind, TableSpec, key};

/// A window by what packets read in ports.
pub(super) const HPCC: Control =
    Control::new("hpcc", |reader, reach| Some(RateSpec::Hpcc(Arc::new(read(&mut reader.inside("hpcc"), reach)?))))
        .keys(&KEYS);

static KEYS: TableSpec = TableSpec {
    name: "transport.hpcc",
    doc: "HPCC (SIGCOMM 2019): a window by what each packet reads in the ports that it leaves.",
    keys: &[
        key("utilisation", SHARE, "eta: the utilisation aimed at (paper).").default("0.95"),
        key("stages", Kind::Integer(0, 255), "Round trips of additive increase before a multiplicative one (paper).")
            .default("5"),
        key(
            "additive",
            Kind::Size(false),
            "Added to the window at each update. Without it, the paper's rule for 100 flows: a bandwidth-delay product x (1 - eta) / \
             100 (assumed).",
        ),
    ],
};

fn read(table: &mut Inside<'_, '_, '_>, reach: &Reach) -> Option<HpccParams> {
    let utilisation = fraction(table.number("utilisation")?);
    let base = HpccParams::new(reach.nic, reach.round_trip, reach.mtu.get());
    let usual = utilisation.rest().of(reach.product().get()) / 100;
    Some(HpccParams {
        utilisation,
        stages: table.integer("stages")?,
        additive: table.size_or("additive", Bytes::new(usual.max(1))).get(),
        ..base
    })
}
