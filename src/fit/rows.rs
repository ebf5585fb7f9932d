//! The rows of a fit and their predictions, each simulated once for the values that it depends on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use rayon::prelude::*;
use sim_collectives::timing::{Key, Origin, Parameter, Unit};
use sim_core::engine;
use sim_core::outcome::StopReason;
use sim_core::units::{Span, Time};

use super::bounds::{Bounds, STANDARD};
use super::{FitError, Measured, Options};
use crate::simulate::predict_with;

/// Values of parameters.
pub(super) type Values = BTreeMap<Key, f64>;

/// A measured row.
pub(super) struct Observation {
    pub(super) table: usize,
    pub(super) place: usize,
    pub(super) measured: Span,
    /// The first row that is the same call on the same cluster, and so has the same prediction.
    twin: usize,
    /// The parameters that its prediction asks for.
    asks: Vec<Key>,
}

/// The rows with what their predictions need.
pub(super) struct Evidence<'a> {
    tables: &'a [Measured<'a>],
    options: &'a Options,
    pub(super) rows: Vec<Observation>,
    start: Vec<Parameter>,
    /// Time by row and the bits of the values that it asks for.
    known: Mutex<HashMap<(usize, Vec<u64>), Span>>,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(tables: &'a [Measured<'a>], options: &'a Options) -> Result<Self, FitError> {
        let least = Span::from_us_f64(sim_report::nccl_log::LEAST_US);
        let sound = |(_, time): &(usize, Span)| *time >= least;
        let mut rows = Vec::new();
        let mut first: HashMap<String, usize> = HashMap::new();
        for (table, of) in tables.iter().enumerate() {
            for (place, measured) in of.rows.iter().map(|r| r.1).enumerate().filter(sound) {
                let call = format!("{:x} {:?} {:?} {:?}", of.loaded.hash, of.group, of.calls, of.rows[place].0);
                let twin = *first.entry(call).or_insert(rows.len());
                rows.push(Observation { table, place, measured, twin, asks: Vec::new() });
            }
        }
        let Some(first) = tables.first().filter(|_| !rows.is_empty()) else {
            return Err(FitError::Rows { rows: 0, parameters: options.parameters.len().max(1) });
        };
        let start = first.parameters();
        let mut evidence = Self { tables, options, rows, start, known: Mutex::default() };
        evidence.look()?;
        Ok(evidence)
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
            for key in &row.asks {
                self.start[*key as usize].clone_from(&models[row.table][*key as usize]);
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
        let mut seen: BTreeMap<Key, (usize, f64)> = BTreeMap::new();
        for row in &self.rows {
            for key in row.asks.iter().copied() {
                let value = models[row.table][key as usize].value;
                let (table, first) = *seen.entry(key).or_insert((row.table, value));
                if first != value {
                    let of = |table: usize, value: f64| (self.tables[table].name.clone(), value);
                    let tables = Box::new((of(table, first), of(row.table, value)));
                    return Err(FitError::Unlike { key, tables });
                }
            }
        }
        Ok(())
    }

    /// The values before.
    pub(super) fn start(&self) -> Values {
        self.start.iter().map(|p| (p.key, p.value)).collect()
    }

    pub(super) fn parameter(&self, key: Key) -> (f64, Origin) {
        let p = &self.start[key as usize];
        (p.value, p.origin)
    }

    pub(super) fn bounds(&self, key: Key) -> Bounds {
        let given = self.options.bounds.iter().find(|(name, _)| name == key.name()).map(|(_, b)| *b);
        given.unwrap_or_else(|| Bounds::usual(key.unit(), self.parameter(key).0))
    }

    /// The parameters that some row asks for.
    pub(super) fn asked_for(&self) -> impl Iterator<Item = &Parameter> {
        let asked: BTreeSet<Key> = self.rows.iter().flat_map(|r| r.asks.iter().copied()).collect();
        self.start.iter().filter(move |p| asked.contains(&p.key))
    }

    /// Whether the prediction of a row asks for a parameter.
    pub(super) fn asks(&self, row: usize, key: Key) -> bool {
        self.rows[row].asks.contains(&key)
    }

    /// The parameters to fit, in the model's order.
    pub(super) fn choose(&self, options: &Options) -> Result<Vec<Key>, FitError> {
        let mut keys: Vec<Key> = Vec::new();
        for wanted in &options.parameters {
            let before = keys.len();
            keys.extend(Key::ALL.iter().filter(|key| key.name() == wanted || key.group() == wanted));
            if keys.len() == before {
                return Err(FitError::Unknown { name: wanted.clone() });
            }
        }
        if options.parameters.is_empty() {
            keys = self.asked_for().map(|p| p.key).filter(|key| STANDARD.contains(key)).collect();
        }
        for (name, bounds) in &options.bounds {
            let sound =
                bounds.low.is_finite() && bounds.high.is_finite() && 0.0 <= bounds.low && bounds.low < bounds.high;
            let within = |key: &Key| match key.unit() {
                Unit::Us => true,
                Unit::GbytePerSecond => bounds.low > 0.0,
                Unit::Share => bounds.low >= 0.01 && bounds.high <= 1.0,
            };
            if !sound || !keys.iter().any(|key| key.name() == name && within(key)) {
                return Err(FitError::Bounds { name: name.clone(), bounds: *bounds });
            }
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    pub(super) fn row(&self, row: usize, before: Span, after: Span) -> super::Row {
        let of = &self.rows[row];
        super::Row { table: of.table, place: of.place, measured: of.measured, before, after }
    }

    pub(super) fn simulations(&self) -> usize {
        self.known.lock().map_or(0, |known| known.len())
    }

    fn key(&self, row: usize, values: &Values) -> (usize, Vec<u64>) {
        (
            self.rows[row].twin,
            self.rows[row].asks.iter().map(|key| values.get(key).map_or(0, |v| v.to_bits())).collect(),
        )
    }

    /// The predicted times of some rows, in their order.
    pub(super) fn times(&self, values: &Values, rows: &[usize]) -> Result<Vec<Span>, FitError> {
        let keys: Vec<_> = rows.iter().map(|row| self.key(*row, values)).collect();
        let known: Vec<Option<Span>> = match self.known.lock() {
            Ok(known) => keys.iter().map(|key| known.get(key).copied()).collect(),
            Err(_) => vec![None; keys.len()],
        };
        let mut missing: Vec<usize> =
            rows.iter().zip(&known).filter(|(_, t)| t.is_none()).map(|(row, _)| self.rows[*row].twin).collect();
        missing.sort_unstable();
        missing.dedup();
        let played = self.play(values, &missing)?.into_iter().map(|(time, _)| time);
        let played: HashMap<usize, Span> = missing.into_iter().zip(played).collect();
        // What wasn't known has been played.
        let of = |(row, known): (&usize, Option<Span>)| known.unwrap_or_else(|| played[&self.rows[*row].twin]);
        let times: Vec<Span> = rows.iter().zip(known).map(of).collect();
        if let Ok(mut known) = self.known.lock() {
            known.extend(keys.into_iter().zip(times.iter().copied()));
        }
        Ok(times)
    }

    /// Plays rows: time and the parameters asked for.
    fn play(&self, values: &Values, rows: &[usize]) -> Result<Vec<(Span, Vec<Key>)>, FitError> {
        // Large sizes take longest; begun first, they leave no thread idle at the end.
        let mut order: Vec<usize> = rows.to_vec();
        let bytes = |row: &usize| self.tables[self.rows[*row].table].rows[self.rows[*row].place].0.bytes;
        order.sort_by_key(|row| (core::cmp::Reverse(bytes(row)), *row));
        let played: HashMap<usize, Result<(Span, Vec<Key>), FitError>> =
            order.par_iter().with_max_len(1).map(|row| (*row, self.one(values, *row))).collect();
        let mut played = played;
        rows.iter().map(|row| played.remove(row).unwrap_or_else(|| self.one(values, *row))).collect()
    }

    fn one(&self, values: &Values, row: usize) -> Result<(Span, Vec<Key>), FitError> {
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
        let played = predict_with(table.loaded, &table.group, &table.rows[of.place].0, table.calls, limits, |timing| {
            for p in &self.start {
                // A value that a table's model has of its own stays, unless it is one of those that change.
                match values.get(&p.key) {
                    Some(value) if *value != p.value => {
                        let set = timing.set(p.key, *value, Origin::Fitted, "fit");
                        debug_assert!(set.is_ok(), "{} = {value}", p.key);
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
            StopReason::Finished => Ok((Span::from_us_f64(predicted.row.time_us), asks)),
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
