//! Predictions beside a run's rows, and their figures by band.

use std::fs;
use std::path::PathBuf;

use fabricsim::scenario::{Input, Loaded, Scenario, Setting};
use fabricsim::simulate::predict;
use rayon::prelude::*;
use serde::Deserialize;
use sim_collectives::Request;
use sim_collectives::nccl::{Datatype, Element, Operation, Reduction};
use sim_collectives::timing::{Key, Parameter};
use sim_core::engine::Limits;
use sim_core::units::Bytes;
use sim_report::compare::BandName;

use crate::run::{self, Measured, Run, root};

/// A row: what was measured and predicted, and what was predicted to run.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) measured: Measured,
    pub(crate) predicted: f64,
    pub(crate) how: String,
}

impl Row {
    /// Error in percent, signed: above zero where the prediction is too slow.
    pub(crate) fn error(&self) -> f64 {
        (self.predicted / self.measured.us - 1.0) * 100.0
    }
}

/// A run with its rows played.
#[derive(Clone, Debug)]
pub(crate) struct Scored {
    pub(crate) run: Run,
    pub(crate) nodes: u32,
    pub(crate) gpu: String,
    pub(crate) rows: Vec<Row>,
    /// The values that its prediction asked for.
    pub(crate) asked: Vec<Parameter>,
    /// What the values come from that it is scored with in place of those that its cluster had a part in.
    pub(crate) left_out: Option<String>,
}

pub(crate) const BANDS: [BandName; 3] = [BandName::Small, BandName::Mid, BandName::Large];

impl Scored {
    /// The values that its prediction asked for and that its own cluster had a part in.
    pub(crate) fn own(&self) -> Vec<Key> {
        let clusters = run::clusters();
        let part = |p: &&Parameter| p.runs.iter().any(|run| clusters.get(run) == Some(&self.run.cluster));
        self.asked.iter().filter(part).map(|p| p.key).collect()
    }

    /// Whether its prediction is one of a value that was fitted on its cluster.
    pub(crate) fn in_sample(&self) -> bool {
        !self.own().is_empty()
    }

    pub(crate) fn errors(&self, band: BandName) -> Vec<f64> {
        self.rows.iter().filter(|r| BandName::of(Bytes::new(r.measured.bytes)) == band).map(Row::error).collect()
    }
}

/// The figures of some errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) n: usize,
    pub(crate) signed: f64,
    pub(crate) absolute: f64,
}

impl Figures {
    pub(crate) fn of(errors: &[f64]) -> Option<Self> {
        let absolute = median(errors.iter().map(|e| e.abs()).collect())?;
        Some(Self { n: errors.len(), signed: median(errors.to_vec())?, absolute })
    }

    pub(crate) fn cell(of: Option<Self>) -> String {
        of.map_or_else(|| "–".to_owned(), |f| format!("{:+.1} / {:.1} ({})", f.signed, f.absolute, f.n))
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (n > 0).then(|| if n % 2 == 1 { values[n / 2] } else { f64::midpoint(values[n / 2 - 1], values[n / 2]) })
}

/// Values with which runs are scored in place of those that their clusters had a part in: a line of `tests/data/left-out/index.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LeftOut {
    /// The file of timing parameters, as `fabricsim fit --out` writes it.
    pub(crate) profile: String,
    /// The runs that are scored with them.
    pub(crate) scores: Vec<String>,
}

impl LeftOut {
    pub(crate) fn all() -> Vec<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Index {
            left_out: Vec<LeftOut>,
        }
        let text = fs::read_to_string(Self::folder().join("index.toml")).unwrap();
        toml::from_str::<Index>(&text).unwrap_or_else(|e| panic!("index.toml: {e}")).left_out
    }

    fn folder() -> PathBuf {
        root().join("tests/data/left-out")
    }

    fn of(run: &Run) -> Option<Self> {
        Self::all().into_iter().find(|l| l.scores.contains(&run.id))
    }

    fn path(&self) -> PathBuf {
        Self::folder().join(&self.profile)
    }

    /// What the values come from, in words.
    pub(crate) fn source(&self) -> String {
        let path = self.path();
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let table: toml::Table = toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        table["profile"]["source"].as_str().expect("a profile says where its values come from").to_owned()
    }

    /// The runs that had a part in the values: those that their source names.
    pub(crate) fn runs(&self) -> Vec<String> {
        let source = self.source();
        let words = source.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        words.filter(|word| run::clusters().contains_key(*word)).map(str::to_owned).collect()
    }
}

pub(crate) fn load(run: &Run, settings: &[Setting]) -> Loaded {
    let input = Input::File(root().join(run.scenario_path()));
    let layout = run.gpus_per_thread.map(|gpus| Setting::value("layout", "software.gpus_per_thread", gpus));
    let settings: Vec<Setting> = layout.into_iter().chain(settings.iter().cloned()).collect();
    Scenario::load(&input, &settings).unwrap_or_else(|faults| {
        panic!("{}", fabricsim::diagnostic::text(&faults, fabricsim::diagnostic::Style::Plain))
    })
}

pub(crate) fn datatype(name: &str) -> Datatype {
    match name {
        "int8" | "uint8" => Datatype::Int8,
        "int32" | "uint32" => Datatype::Int32,
        "half" => Datatype::Half,
        "bfloat16" => Datatype::Bfloat16,
        "float" => Datatype::Float,
        other => panic!("datatype {other}"),
    }
}

/// Plays rows of a run with settings laid upon its scenario; with the values that they asked for.
pub(crate) fn play(run: &Run, settings: &[Setting], rows: &[Measured]) -> (Loaded, Vec<Row>, Vec<Parameter>) {
    let loaded = load(run, settings);
    assert!(loaded.scenario.gpus() >= run.ranks, "{}: {} GPUs", run.id, loaded.scenario.gpus());
    let op: Operation = run.operation.parse().unwrap();
    let group: Vec<u32> = (0..run.ranks).collect();
    let machine = loaded.machine(&group).unwrap_or_else(|e| panic!("{}: {e}", run.id));
    let network = loaded.library_network();
    let one = |measured: &Measured| {
        let mut request = Request::new(op, Bytes::new(measured.bytes));
        request.element = Element { datatype: datatype(&run.datatype), reduction: Reduction::Sum };
        let played = predict(&machine, &network, &request, (1, 20), Limits::default())
            .unwrap_or_else(|e| panic!("{}: {} B: {e}", run.id, measured.bytes));
        Row {
            measured: *measured,
            predicted: played.row.time_us,
            how: format!("{}/{}", played.row.algorithm, played.row.protocol),
        }
    };
    // The largest first, so that no thread begins with it when the others are done.
    let mut order: Vec<&Measured> = rows.iter().collect();
    order.reverse();
    let mut rows: Vec<Row> = order.into_par_iter().with_max_len(1).map(one).collect();
    rows.reverse();
    let asked = machine.timing.read().into_iter().cloned().collect();
    drop(machine);
    (loaded, rows, asked)
}

/// The parameters that a run is scored with, as settings of its scenario.
pub(crate) fn settings(run: &Run) -> Vec<Setting> {
    let path = LeftOut::of(run).map(|l| l.path().display().to_string());
    path.into_iter().map(|path| Setting::text("left out", "profile.from", path)).collect()
}

pub(crate) fn score(run: &Run) -> Scored {
    let settings = settings(run);
    // A GPU by itself has no communicator that could be played.
    let (loaded, rows, asked) = if run.ranks > 1 {
        play(run, &settings, &run.played())
    } else {
        (load(run, &settings), Vec::new(), Vec::new())
    };
    let spec = &loaded.scenario.cluster;
    Scored {
        nodes: spec.nodes,
        gpu: spec.node.gpu.clone(),
        rows,
        asked,
        left_out: LeftOut::of(run).map(|l| l.source()),
        run: run.clone(),
    }
}
