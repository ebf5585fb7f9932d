//! How far the rows of a cluster lie from what its own fitted values predict, by class: what its intervals rest on then.

use std::collections::BTreeMap;

use sim_collectives::spread::{Band, FormClass, Z90};

use super::{Measured, Outcome, identify::t90};
use crate::simulate::reach;

/// A class needs so many rows to say anything.
const LEAST: usize = 5;

/// The least deviation: below it, more rows than there are would be needed to tell.
const FLOOR: f64 = 0.02;

/// The standard deviation of ln(measured / predicted) of each class with rows enough, such that [`Z90`] of them hold another row of
/// the cluster nine times in ten: the scatter about the fit, over what is left of the rows when each parameter has taken its part of
/// them, widened by Student's t for how few they are.
#[must_use]
pub fn forms(tables: &[Measured<'_>], outcome: &Outcome) -> Vec<(FormClass, f64)> {
    let mut classes: BTreeMap<FormClass, Vec<f64>> = BTreeMap::new();
    for row in &outcome.rows {
        let table = &tables[row.table];
        let request = &table.rows[row.place].0;
        let Ok(machine) = table.loaded.machine(&table.group) else { continue };
        let Ok(plan) = machine.plan(request) else { continue };
        let class = FormClass {
            reach: reach(&machine),
            algorithm: plan.algorithm.to_owned(),
            protocol: plan.protocol.to_string(),
            band: Band::of(request.bytes.get()),
        };
        classes.entry(class).or_default().push((row.measured.as_us() / row.after.as_us()).ln());
    }
    let (rows, parameters) = (outcome.rows.len() as f64, outcome.parameters.len() as f64);
    let left = (1.0 - parameters / rows.max(1.0)).max(0.0);
    let one = |(class, off): (FormClass, Vec<f64>)| {
        let n = off.len() as f64;
        let freedom = n * left;
        (off.len() >= LEAST && freedom >= 1.0).then(|| {
            let scatter = (off.iter().map(|r| r * r).sum::<f64>() / freedom).sqrt();
            (class, (scatter * t90(freedom as usize) / Z90 * (1.0 + 1.0 / n).sqrt()).max(FLOOR))
        })
    };
    classes.into_iter().filter_map(one).collect()
}
