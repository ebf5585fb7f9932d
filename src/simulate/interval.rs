//! How far a predicted time may be off: a 90 % interval.
//!
//! To first order, in logarithms: each group of timing parameters is made slower by one standard deviation
//! ([`sim_collectives::spread`]), all its values together, and what that does to the time is one independent deviation; to these
//! come other draws of hashed paths, what no values of the parameters follow, and the scatter from run to run. A link can
//! carry less than its data rate and not more, so its deviation counts upwards only.

use std::collections::BTreeMap;

use sim_collectives::spread::{self, Band, FormClass, Reach, Spread, Z90};
use sim_collectives::timing::{Key, LinkKind};
use sim_collectives::{Machine, Request};
use sim_core::engine;
use sim_core::outcome::{Outcome, StopReason};
use sim_report::result::CollectiveResult;
use sim_topology::{LinkClass, PathChoice};

use super::{Predicted, RunError, predict, profile};
use crate::scenario::Packets;

/// Other draws of paths that are played, where switches hash.
const DRAWS: u64 = 4;

/// A time with its 90 % interval.
#[derive(Clone, Debug)]
pub struct Ranged {
    /// The prediction.
    pub predicted: Predicted,
    /// Lower end, µs.
    pub low_us: f64,
    /// Upper end, µs.
    pub high_us: f64,
    /// Deviations of ln(time), one standard deviation each, by what they come from.
    pub deviations: Vec<(String, f64)>,
    /// Timing parameters that the prediction asked for.
    pub asked: Vec<Key>,
}

impl Ranged {
    fn finished(&self) -> bool {
        self.predicted.outcome.reason == StopReason::Finished
    }
}

/// Plays one size, and as often again as there are groups of parameters that its time depends on.
///
/// # Errors
/// If the call can't be run.
pub fn predict_ranged(
    machine: &Machine<'_>,
    packets: Option<&Packets>,
    request: &Request,
    calls: (u32, u32),
    limits: &engine::Limits,
) -> Result<Ranged, RunError> {
    let play = |machine: &Machine<'_>| {
        let network = profile::library(machine.fabric, &machine.timing, packets);
        predict(machine, &network, request, calls, limits.clone())
    };
    let mut own = machine.clone();
    own.timing = own.timing.watched();
    let predicted = play(&own)?;
    machine.timing.read_too(&own.timing);
    let asked: Vec<Key> = own.timing.read().into_iter().map(|p| p.key).collect();
    let time = predicted.row.time_us;
    let mut ranged = Ranged { low_us: time, high_us: time, predicted, deviations: Vec::new(), asked };
    if !ranged.finished() || time <= 0.0 {
        return Ok(ranged);
    }
    for (name, members) in groups(&ranged.asked) {
        let mut moved = own.clone();
        let mut same = true;
        for key in members {
            let p = own.timing.parameter(key);
            let slower = Spread::of(p).slower(key.unit(), p.value);
            same &= slower == p.value;
            let set = moved.timing.set(key, slower, p.origin, &p.source);
            debug_assert!(set.is_ok(), "{set:?}");
        }
        if same {
            continue;
        }
        let slower = play(&moved)?;
        if slower.outcome.reason == StopReason::Finished {
            ranged.deviations.push((name.to_owned(), (slower.row.time_us / time).ln()));
        }
    }
    if let Some(deviation) = draws(&own, &ranged.predicted.outcome, time, &play)? {
        ranged.deviations.push(("paths".to_owned(), deviation));
    }
    let row = &ranged.predicted.row;
    let class = form_class(machine, row);
    let sm = machine.comm.facts().compute_cap;
    let in_general = || spread::form(&row.algorithm, &row.protocol, class.reach, sm, row.bytes);
    // What a fit found on the cluster itself says more than what others have.
    let form = machine.timing.form(&class).unwrap_or_else(in_general);
    ranged.deviations.push(("form".to_owned(), form));
    ranged.deviations.push(("jitter".to_owned(), spread::jitter(row.bytes)));
    let sum = |wanted: &dyn Fn(&str) -> bool| -> f64 {
        ranged.deviations.iter().filter(|(name, _)| wanted(name)).map(|(_, d)| d * d).sum::<f64>().sqrt()
    };
    ranged.low_us = time * (-Z90 * sum(&|name| !name.starts_with("link."))).exp();
    ranged.high_us = time * (Z90 * sum(&|_| true)).exp();
    Ok(ranged)
}

/// The parameters by what moves together: those of a group, but each kind of link by itself.
fn groups(asked: &[Key]) -> BTreeMap<&'static str, Vec<Key>> {
    let mut out: BTreeMap<&str, Vec<Key>> = BTreeMap::new();
    for key in asked {
        let alone = LinkKind::ALL.iter().any(|kind| kind.share() == *key);
        out.entry(if alone { key.name() } else { key.group() }).or_default().push(*key);
    }
    out
}

/// What other draws of paths do, where switches hash and something went up: the root of the mean square of ln(time / time).
fn draws(
    own: &Machine<'_>,
    outcome: &Outcome,
    time: f64,
    play: &dyn Fn(&Machine<'_>) -> Result<Predicted, RunError>,
) -> Result<Option<f64>, RunError> {
    let links = own.fabric.links().iter().zip(&outcome.links);
    let up = links.filter(|(link, counted)| link.class == LinkClass::Uplink && counted.payload > 0).count();
    if own.fabric.path_choice() != PathChoice::Hash || up == 0 {
        return Ok(None);
    }
    let mut sum = 0.0;
    for draw in 1..=DRAWS {
        let played = play(&Machine { draw, ..own.clone() })?;
        sum += (played.row.time_us / time).ln().powi(2);
    }
    Ok(Some((sum / DRAWS as f64).sqrt()))
}

/// What a row has in common with others of one form.
#[must_use]
pub fn form_class(machine: &Machine<'_>, row: &CollectiveResult) -> FormClass {
    FormClass {
        reach: reach(machine),
        algorithm: row.algorithm.clone(),
        protocol: row.protocol.clone(),
        band: Band::of(row.bytes),
    }
}

/// How far a communicator reaches.
#[must_use]
pub fn reach(machine: &Machine<'_>) -> Reach {
    if machine.group.nodes().len() < 2 {
        return Reach::Node;
    }
    match machine.fabric.spec().transport.as_str() {
        "infiniband" | "roce" => Reach::Network,
        _ => Reach::Preset,
    }
}
