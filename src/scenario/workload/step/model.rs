//! The model of a step: by name, or by dimensions.

use sim_workload::model::catalogue::Models;
use sim_workload::model::{Model, ModelFault, ModelSpec};

use super::Asked;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, suggest};

/// The model; `None` if there is none or it is at fault, which has been told.
pub(in super::super) fn model(asked: &Asked<'_>, out: &mut Diagnostics) -> Option<Model> {
    if let Some(name) = asked.view.text("model") {
        return match Models::builtin().get(name) {
            Ok(named) => Some(named.model.clone()),
            Err(unknown) => {
                let names: Vec<&str> = unknown.known.iter().map(String::as_str).collect();
                let message = format!("unknown model `{}`", unknown.name);
                let fault = asked.fault(Code::UnknownTransformer, message, &["model"], "not in the catalogue");
                let help = match &unknown.near {
                    Some(near) => format!("did you mean `{near}`? {} are known: {}", names.len(), names.join(", ")),
                    None => suggest(&unknown.name, names),
                };
                out.push(fault.help(help).help("or give its dimensions: model = { layers = 32, hidden = 4096, ... }"));
                None
            }
        };
    }
    let view = asked.view.table("model")?;
    let spec = ModelSpec {
        name: view.text("name").unwrap_or_default().to_owned(),
        layers: view.integer("layers")?,
        dense_layers: view.integer("dense_layers")?,
        hidden: view.integer("hidden")?,
        heads: view.integer("heads")?,
        kv_heads: view.integer("kv_heads"),
        head_dim: view.integer("head_dim"),
        query_rank: view.integer("query_rank"),
        kv_rank: view.integer("kv_rank"),
        nope_dim: view.integer("nope_dim"),
        rope_dim: view.integer("rope_dim"),
        value_dim: view.integer("value_dim"),
        window: view.integer("window"),
        window_every: view.integer("window_every"),
        ffn: view.integer("ffn")?,
        gated: view.boolean("gated"),
        experts: view.integer("experts"),
        top_k: view.integer("top_k"),
        shared_experts: view.integer("shared_experts")?,
        expert_ffn: view.integer("expert_ffn"),
        expert_groups: view.integer("expert_groups"),
        top_groups: view.integer("top_groups"),
        vocab: view.integer("vocab")?,
        tied: view.boolean("tied"),
        layer_norm: view.boolean("layer_norm"),
        biases: view.boolean("biases"),
        positions: view.integer("positions")?,
        mtp_layers: view.integer("mtp_layers")?,
    };
    match spec.check() {
        Ok(model) => Some(model),
        Err(faults) => {
            for fault in &faults {
                out.push(dimensions(asked, fault));
            }
            None
        }
    }
}

/// What is wrong with a dimension, at its key.
fn dimensions(asked: &Asked<'_>, fault: &ModelFault) -> Diagnostic {
    let at = |code, message: String, keys: &[&str], label: String| {
        let mut paths: Vec<String> = keys.iter().map(|key| format!("model.{key}")).collect();
        paths.push("model".to_owned());
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        asked.fault(code, message, &paths, label)
    };
    match fault {
        ModelFault::Missing { key, why } => {
            at(Code::BadSizes, format!("`{key}` of the model is missing or zero"), &[key], (*why).to_owned())
        }
        ModelFault::Absurd { key, value, limit } => {
            at(Code::BadSizes, format!("`{key} = {value}` is absurd"), &[key], format!("at most {limit}"))
        }
        ModelFault::TooLarge { small, value, large, bound } => {
            let label = format!("{small} = {value}, {large} = {bound}");
            at(Code::BadSizes, format!("`{small} <= {large}` does not hold"), &[small, large], label)
        }
        ModelFault::NotDivisible { whole, value, part, divisor, near } => {
            let label = format!("{whole} = {value}, {part} = {divisor}");
            let fault = at(Code::BadSizes, format!("`{whole} % {part} = 0` does not hold"), &[part, whole], label);
            fault.help(format!("near: {part} = {near}"))
        }
        ModelFault::TooManyParameters { .. } | ModelFault::Text(_) => {
            at(Code::BadSizes, fault.to_string(), &[], "this model".to_owned())
        }
    }
}
