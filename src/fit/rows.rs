//! The rows of a fit and their predictions, each simulated once for the values that it depends on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use rayon::prelude::*;
use sim_collectives::timing::{Origin, Parameter};
use sim_core::engine;
use sim_core::outcome::StopReason;
use sim_core::units::Time;

use super::bounds::{Bounds, STANDARD};
use super::{FitError, Measured, Options};
use crate::simulate::predict_with;

/// Values of parameters by name.
pub(super) type Values = BTreeMap<String, f64>;

/// A measured row.
pub(super) struct Observation {
    pub(super) table: usize,
    pub(super) place: usize,
    pub(super) measured: f64,
    /// The first row that is the same call on the same cluster, and so has the same prediction.
    twin: usize,
    /// Names of the parameters that its prediction asks for.
    asks: Vec<String>,
}

/// The rows with what their predictions need.
pub(super) struct World<'a> {
    tables: &'a [Measured<'a>],
    options: &'a Options,
    pub(super) rows: Vec<Observation>,
    start: Vec<Parameter>,
    /// Time by row and the bits of the values that it asks for.
    known: Mutex<HashMap<(usize, Vec<u64>), f64>>,
}

impl<'a> World<'a> {
    pub(super) fn new(tables: &'a [Measured<'a>], options: &'a Options) -> Result<Self, FitError> {
        let sound = |(_, time): &(usize, f64)| time.is_finite() && *time >= sim_report::compare::LEAST_US;
        let mut rows = Vec::new();
        let mut first: HashMap<String, usize> = HashMap::new();
        for (table, of) in tables.iter().enumerate() {
            for (place, measured) in of.rows.iter().map(|r| r.1).enumerate().filter(sound) {
                let call = format!("{:x} {} {:?} {:?}", of.loaded.hash, of.ranks, of.calls, of.rows[place].0);
                let twin = *first.entry(call).or_insert(rows.len());
                rows.push(Observation { table, place, measured, twin, asks: Vec::new() });
            }
        }
        let Some(first) = tables.first().filter(|_| !rows.is_empty()) else {
            return Err(FitError::Rows { rows: 0, parameters: options.parameters.len().max(1) });
        };
        let start = first.parameters();
        let mut world = Self { tables, options, rows, start, known: Mutex::default() };
        world.look()?;
        Ok(world)
    }

    /// Plays all rows once with the values before, to see what they ask for.
    fn look(&mut self) -> Result<(), FitError> {
        let all: Vec<usize> = (0..self.rows.len()).collect();
        let start = self.start();
        let found = self.play(&start, &all)?;
        for (row, (_, asks)) in self.rows.iter_mut().zip(&found) {
            row.asks.clone_from(asks);
        }
        let models: Vec<Vec<Parameter>> = self.tables.iter().map(Measured::parameters).collect();
        self.alike(&models)?;
        // The values before are those of the model that asks: another transport's stand in others.
        for row in &self.rows {
            for name in &row.asks {
                let own = models[row.table].iter().find(|p| p.name == *name);
                if let (Some(own), Some(p)) = (own, self.start.iter_mut().find(|p| p.name == *name)) {
                    p.clone_from(own);
                }
            }
        }
        let start = self.start();
        let mut known = HashMap::new();
        for (row, (time, _)) in found.into_iter().enumerate() {
            known.insert(self.key(row, &start), time);
        }
        self.known = Mutex::new(known);
        Ok(())
    }

    /// Parameters that rows of several tables ask for have one value in all their models.
    fn alike(&self, models: &[Vec<Parameter>]) -> Result<(), FitError> {
        let mut seen: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
        for row in &self.rows {
            for name in &row.asks {
                let value = models[row.table].iter().find(|p| p.name == *name).map_or(0.0, |p| p.value);
                let (table, first) = *seen.entry(name).or_insert((row.table, value));
                if first != value {
                    let of = |table: usize, value: f64| (self.tables[table].name.clone(), value);
                    let tables = Box::new((of(table, first), of(row.table, value)));
                    return Err(FitError::Unlike { name: name.clone(), tables });
                }
            }
        }
        Ok(())
    }

    /// The values before.
    pub(super) fn start(&self) -> Values {
        self.start.iter().map(|p| (p.name.clone(), p.value)).collect()
    }

    pub(super) fn parameter(&self, name: &str) -> (f64, Origin) {
        self.start.iter().find(|p| p.name == name).map_or((0.0, Origin::Assumed), |p| (p.value, p.origin))
    }

    pub(super) fn bounds(&self, name: &str) -> Bounds {
        let given = self.options.bounds.iter().find(|(n, _)| n == name).map(|(_, b)| *b);
        given.unwrap_or_else(|| Bounds::usual(name, self.parameter(name).0))
    }

    /// The parameters that some row asks for.
    pub(super) fn asked_for(&self) -> impl Iterator<Item = &Parameter> {
        let asked: BTreeSet<&String> = self.rows.iter().flat_map(|r| &r.asks).collect();
        self.start.iter().filter(move |p| asked.contains(&p.name))
    }

    /// Whether the prediction of a row asks for a parameter.
    pub(super) fn asks(&self, row: usize, name: &str) -> bool {
        self.rows[row].asks.iter().any(|n| n == name)
    }

    /// The parameters to fit, in the model's order.
    pub(super) fn choose(&self, options: &Options) -> Result<Vec<String>, FitError> {
        let mut names: Vec<String> = Vec::new();
        for wanted in &options.parameters {
            let of_group = |p: &&Parameter| p.name == *wanted || p.name.split('.').next() == Some(wanted);
            let found: Vec<String> = self.start.iter().filter(of_group).map(|p| p.name.clone()).collect();
            if found.is_empty() {
                let all = self.start.iter().map(|p| p.name.clone()).collect();
                return Err(FitError::Unknown { name: wanted.clone(), all });
            }
            names.extend(found);
        }
        if options.parameters.is_empty() {
            names = self.asked_for().map(|p| p.name.clone()).filter(|n| STANDARD.contains(&n.as_str())).collect();
        }
        for (name, bounds) in &options.bounds {
            let sound =
                bounds.low.is_finite() && bounds.high.is_finite() && 0.0 <= bounds.low && bounds.low < bounds.high;
            let positive = name.ends_with("_us") || bounds.low > 0.0;
            let share = !name.ends_with("_share") || (bounds.low >= 0.01 && bounds.high <= 1.0);
            if !names.contains(name) || !sound || !positive || !share {
                return Err(FitError::Bounds { name: name.clone(), bounds: *bounds });
            }
        }
        names.sort_by_key(|n| self.start.iter().position(|p| p.name == *n));
        names.dedup();
        Ok(names)
    }

    pub(super) fn row(&self, row: usize, before: f64, after: f64) -> super::Row {
        let of = &self.rows[row];
        super::Row { table: of.table, place: of.place, measured: of.measured, before, after }
    }

    pub(super) fn simulations(&self) -> usize {
        self.known.lock().map_or(0, |known| known.len())
    }

    fn key(&self, row: usize, values: &Values) -> (usize, Vec<u64>) {
        (
            self.rows[row].twin,
            self.rows[row].asks.iter().map(|name| values.get(name).map_or(0, |v| v.to_bits())).collect(),
        )
    }

    /// The predicted times of some rows, µs, in their order.
    pub(super) fn times(&self, values: &Values, rows: &[usize]) -> Result<Vec<f64>, FitError> {
        let keys: Vec<_> = rows.iter().map(|row| self.key(*row, values)).collect();
        let known: Vec<Option<f64>> = match self.known.lock() {
            Ok(known) => keys.iter().map(|key| known.get(key).copied()).collect(),
            Err(_) => vec![None; keys.len()],
        };
        let mut missing: Vec<usize> =
            rows.iter().zip(&known).filter(|(_, t)| t.is_none()).map(|(row, _)| self.rows[*row].twin).collect();
        missing.sort_unstable();
        missing.dedup();
        let played = self.play(values, &missing)?.into_iter().map(|(time, _)| time);
        let played: HashMap<usize, f64> = missing.into_iter().zip(played).collect();
        let of = |(row, known): (&usize, Option<f64>)| known.or_else(|| played.get(&self.rows[*row].twin).copied());
        let times: Vec<f64> = rows.iter().zip(known).map(|pair| of(pair).unwrap_or(f64::NAN)).collect();
        if let Ok(mut known) = self.known.lock() {
            known.extend(keys.into_iter().zip(times.iter().copied()));
        }
        Ok(times)
    }

    /// Plays rows: time and the parameters asked for.
    fn play(&self, values: &Values, rows: &[usize]) -> Result<Vec<(f64, Vec<String>)>, FitError> {
        // Large sizes take longest; begun first, they leave no thread idle at the end.
        let mut order: Vec<usize> = rows.to_vec();
        let bytes = |row: &usize| self.tables[self.rows[*row].table].rows[self.rows[*row].place].0.bytes;
        order.sort_by_key(|row| (core::cmp::Reverse(bytes(row)), *row));
        let played: HashMap<usize, Result<(f64, Vec<String>), FitError>> =
            order.par_iter().with_max_len(1).map(|row| (*row, self.one(values, *row))).collect();
        let mut played = played;
        rows.iter().map(|row| played.remove(row).unwrap_or_else(|| self.one(values, *row))).collect()
    }

    fn one(&self, values: &Values, row: usize) -> Result<(f64, Vec<String>), FitError> {
        let of = &self.rows[row];
        let table = &self.tables[of.table];
        let stopped = |reason| FitError::Stopped { table: table.name.clone(), reason };
        if self.options.interrupt.as_ref().is_some_and(|i| i.load(Ordering::Relaxed)) {
            return Err(stopped(StopReason::Interrupted));
        }
        let own = table.loaded.scenario.limits;
        let limits = engine::Limits {
            events: own.events.unwrap_or(u64::MAX),
            time: own.time.map_or(Time::MAX, |span| Time::ZERO + span),
            interrupt: self.options.interrupt.clone(),
            ..engine::Limits::default()
        };
        let played = predict_with(table.loaded, table.ranks, &table.rows[of.place].0, table.calls, limits, |timing| {
            for p in &self.start {
                // A value that a table's model has of its own stays, unless it is one of those that change.
                match values.get(&p.name) {
                    Some(value) if *value != p.value => {
                        let set = timing.set(&p.name, *value, Origin::Fitted, "fit");
                        debug_assert!(set.is_ok(), "{} = {value}", p.name);
                    }
                    _ => {}
                }
            }
        });
        let (predicted, asks) = played.map_err(|error| FitError::Run {
            table: table.name.clone(),
            number: of.table,
            error: Box::new(error),
        })?;
        match predicted.outcome.reason {
            StopReason::Finished => Ok((predicted.row.time_us, asks)),
            reason => Err(stopped(reason)),
        }
    }
}

impl Measured<'_> {
    /// The timing parameters of its model.
    pub(super) fn parameters(&self) -> Vec<Parameter> {
        self.loaded.timing().parameters().to_vec()
    }
}
