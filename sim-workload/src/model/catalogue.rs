//! Models by name: `data/models.toml`.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::Deserialize;

use super::{Model, ModelFault, ModelSpec};

/// A model of the catalogue: dimensions, what its makers say of it, and where that stands.
#[derive(Clone, Debug)]
pub struct NamedModel {
    /// The model.
    pub model: Model,
    /// Other names that are accepted.
    pub aliases: Vec<String>,
    /// Published parameters in billions.
    pub total: Published,
    /// Published parameters of a token, in billions.
    pub active: Option<Published>,
    /// Rank of the adapters that it is usually fine-tuned with.
    pub lora_rank: Option<u64>,
    /// Where the dimensions were read.
    pub source: String,
    /// Whether they were read there, or are commonly quoted and were not re-checked.
    pub standing: String,
    /// Where and why the published figures are not what the dimensions give.
    pub deviation: Option<String>,
    /// A remark.
    pub note: Option<String>,
}

/// A published number of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Billions of parameters.
    pub billions: f64,
    /// What it was rounded to, in billions: 0.01 for a figure of two decimals.
    pub rounded_to: f64,
}

impl Published {
    /// Whether `parameters` rounds to the published figure.
    #[must_use]
    pub fn agrees(&self, parameters: u64) -> bool {
        (parameters as f64 / 1e9 - self.billions).abs() <= self.rounded_to / 2.0 + 1e-9
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    dims: ModelSpec,
    #[serde(default)]
    aliases: Vec<String>,
    total: Published,
    active: Option<Published>,
    lora_rank: Option<u64>,
    source: String,
    standing: String,
    deviation: Option<String>,
    note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    model: Vec<Row>,
}

/// A name that is not in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown model `{name}`; {}", self.tail())]
pub struct UnknownModel {
    /// The name as given, at most 60 characters of it.
    pub name: String,
    /// A known name that is close to it.
    pub near: Option<String>,
    /// All names, without aliases.
    pub known: Vec<String>,
}

impl UnknownModel {
    fn tail(&self) -> String {
        match &self.near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known: {}", self.known.join(", ")),
        }
    }
}

/// Why a file of models can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelsError {
    /// Not TOML, or other keys.
    #[error("{0}")]
    Text(String),
    /// Dimensions that don't fit together.
    #[error("model `{name}`: {fault}")]
    Dimensions {
        /// The model.
        name: String,
        /// The first fault.
        fault: ModelFault,
    },
    /// A name that two models have.
    #[error("two models are called `{0}`")]
    Twice(String),
}

/// Models by name.
#[derive(Clone, Debug)]
pub struct Models {
    rows: Vec<NamedModel>,
}

static BUILTIN: LazyLock<Models> = LazyLock::new(|| match Models::parse(include_str!("../../data/models.toml")) {
    Ok(models) => models,
    Err(error) => unreachable!("the embedded models are checked by tests: {error}"),
});

impl Models {
    /// The models that are compiled in.
    #[must_use]
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Reads a file of models.
    ///
    /// # Errors
    /// If it is not TOML, dimensions don't fit together, or a name comes twice.
    pub fn parse(text: &str) -> Result<Self, ModelsError> {
        let file: File = toml::from_str(text).map_err(|e: toml::de::Error| ModelsError::Text(e.to_string()))?;
        let mut names = BTreeSet::new();
        let mut rows = Vec::with_capacity(file.model.len());
        for row in file.model {
            for name in std::iter::once(&row.dims.name).chain(&row.aliases) {
                if !names.insert(name.clone()) {
                    return Err(ModelsError::Twice(name.clone()));
                }
            }
            let model = row.dims.check().map_err(|faults| ModelsError::Dimensions {
                name: row.dims.name.clone(),
                fault: faults.into_iter().next().unwrap_or(ModelFault::Text(String::new())),
            })?;
            rows.push(NamedModel {
                model,
                aliases: row.aliases,
                total: row.total,
                active: row.active,
                lora_rank: row.lora_rank,
                source: row.source,
                standing: row.standing,
                deviation: row.deviation,
                note: row.note,
            });
        }
        Ok(Self { rows })
    }

    /// The model called `name`, whatever the case of its letters.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn get(&self, name: &str) -> Result<&NamedModel, UnknownModel> {
        let wanted = name.to_lowercase();
        let names = |row: &NamedModel| std::iter::once(row.model.name.clone()).chain(row.aliases.clone());
        self.rows.iter().find(|row| names(row).any(|n| n == wanted)).ok_or_else(|| {
            let mut near: Vec<(f64, &str)> = self
                .rows
                .iter()
                .map(|row| (strsim::jaro_winkler(&row.model.name, &wanted), row.model.name.as_str()))
                .filter(|(score, _)| *score > 0.8)
                .collect();
            near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
            UnknownModel {
                name: name.chars().take(60).collect(),
                near: near.first().map(|(_, n)| (*n).to_owned()),
                known: self.rows.iter().map(|row| row.model.name.clone()).collect(),
            }
        })
    }

    /// All models in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &NamedModel> {
        self.rows.iter()
    }
}
