//! How one copy of a model is divided over the GPUs that serve it.

use crate::model::Model;
use crate::nearest::Nearest;

/// Sizes as they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeSpec {
    /// Ranks t that the matrices of attention and dense layers are divided over (`tp`).
    pub tensor: u64,
    /// Stages of a pipeline p (`pp`).
    pub pipeline: u64,
    /// Ranks d with requests of their own, which share the experts (attention data parallelism, `attention_dp`).
    pub data: u64,
    /// Ranks e that experts are divided over (`ep`); without it t·d in a model of experts when d > 1, else 1.
    pub expert: Option<u64>,
}

impl Default for ShapeSpec {
    fn default() -> Self {
        Self { tensor: 1, pipeline: 1, data: 1, expert: None }
    }
}

/// Checked sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shape {
    /// Tensor parallelism t.
    pub tensor: u64,
    /// Stages p.
    pub pipeline: u64,
    /// Data parallelism of attention d.
    pub data: u64,
    /// Expert parallelism e.
    pub expert: u64,
    /// Ranks te = t·d/e that an expert's matrices are divided over.
    pub expert_tensor: u64,
}

/// A size that can't be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeFault {
    /// A size of zero, or beyond what makes sense.
    #[error("`{key} = {value}`: from 1 to {most}")]
    Range {
        /// The key.
        key: &'static str,
        /// What was given.
        value: u64,
        /// The most.
        most: u64,
    },
    /// A relation that does not hold.
    #[error("`{rule}` does not hold: {values}; near: {key} = {near}")]
    Rule {
        /// The relation.
        rule: &'static str,
        /// The values in it.
        values: String,
        /// The key that would be changed.
        key: &'static str,
        /// Values that would do.
        near: Nearest,
    },
    /// Experts are divided in a model that has none.
    #[error("`ep = {expert}`: the model has no experts")]
    NoExperts {
        /// What was given.
        expert: u64,
    },
    /// Attention in parallel over data makes groups only in a model of experts.
    #[error("`attention_dp = {data}`: the model has no experts to share; serve {data} copies instead (`replicas`)")]
    NothingShared {
        /// What was given.
        data: u64,
    },
}

/// Most ranks in a direction.
const MOST: u64 = 4096;

impl ShapeSpec {
    /// Checks the sizes against `model`.
    ///
    /// # Errors
    /// All faults at once.
    pub fn check(&self, model: &Model) -> Result<Shape, Vec<ShapeFault>> {
        let mut faults = Vec::new();
        let expert = self.expert.unwrap_or(if self.data > 1 { self.tensor.saturating_mul(self.data) } else { 1 });
        let sizes = [("tp", self.tensor), ("pp", self.pipeline), ("attention_dp", self.data), ("ep", expert)];
        for (key, value) in sizes {
            if value == 0 || value > MOST {
                faults.push(ShapeFault::Range { key, value, most: MOST });
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        faults.extend(attention_of(model, self.tensor, self.pipeline));
        let mut rule = |holds: bool, rule, values: String, key, value, fits: &dyn Fn(u64) -> bool| {
            if !holds {
                faults.push(ShapeFault::Rule {
                    rule,
                    values,
                    key,
                    near: Nearest::to(value, (1..=MOST).filter(|n| fits(*n))),
                });
            }
        };
        let (t, ffn) = (self.tensor, model.ffn);
        if model.dense_layers > 0 {
            rule(ffn % t == 0, "ffn % tp = 0", format!("ffn = {ffn}, tp = {t}"), "tp", t, &|n| ffn % n == 0);
        }
        let ranks = t * self.data;
        if let Some(experts) = model.experts {
            let values = format!("tp · attention_dp = {ranks}, ep = {expert}");
            rule(ranks.is_multiple_of(expert), "tp · attention_dp % ep = 0", values, "ep", expert, &|n| {
                ranks.is_multiple_of(n)
            });
            let count = experts.experts;
            let values = format!("experts = {count}, ep = {expert}");
            rule(expert <= count, "ep <= experts", values, "ep", expert, &|n| n <= count);
            if ranks.is_multiple_of(expert) {
                let (te, width) = (ranks / expert, experts.ffn);
                let values = format!("expert_ffn = {width}, tp · attention_dp / ep = {te}");
                rule(width % te == 0, "expert_ffn % (tp · attention_dp / ep) = 0", values, "ep", expert, &|n| {
                    n > 0 && ranks.is_multiple_of(n) && width.is_multiple_of(ranks / n)
                });
            }
        } else {
            if expert > 1 && self.expert.is_some() {
                faults.push(ShapeFault::NoExperts { expert });
            }
            if self.data > 1 {
                faults.push(ShapeFault::NothingShared { data: self.data });
            }
        }
        if faults.is_empty() {
            let (tensor, pipeline, data) = (self.tensor, self.pipeline, self.data);
            Ok(Shape { tensor, pipeline, data, expert, expert_tensor: ranks / expert })
        } else {
            Err(faults)
        }
    }
}

/// What is wrong with `tensor` ranks of each of `pipeline` stages (both at least one) that hold the cache of `model`.
#[must_use]
pub fn attention_of(model: &Model, tensor: u64, pipeline: u64) -> Vec<ShapeFault> {
    let (t, p, heads, layers) = (tensor, pipeline, model.heads, model.layers);
    let mut faults = Vec::new();
    if !heads.is_multiple_of(t) {
        let (values, near) = (format!("heads = {heads}, tp = {t}"), (1..=MOST).filter(|n| heads.is_multiple_of(*n)));
        faults.push(ShapeFault::Rule { rule: "heads % tp = 0", values, key: "tp", near: Nearest::to(t, near) });
    }
    if p > layers {
        let (values, near) = (format!("pp = {p}, layers = {layers}"), 1..=layers.min(MOST));
        faults.push(ShapeFault::Rule { rule: "pp <= layers", values, key: "pp", near: Nearest::to(p, near) });
    }
    faults
}

impl Shape {
    /// GPUs of a stage, t·d.
    #[must_use]
    pub const fn stage(&self) -> u64 {
        self.tensor * self.data
    }

    /// All GPUs, t·d·p.
    #[must_use]
    pub const fn gpus(&self) -> u64 {
        self.stage() * self.pipeline
    }

    /// Layers of stage number `stage`: the first stages take what does not divide.
    #[must_use]
    pub fn layers_of(&self, stage: u64, layers: u64) -> core::ops::Range<u64> {
        let (each, more) = (layers / self.pipeline, layers % self.pipeline);
        let from = stage * each + stage.min(more);
        from..from + each + u64::from(stage < more)
    }
}
