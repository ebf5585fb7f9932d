//! The communication library of a scenario.

use indexmap::IndexMap;
use sim_collectives::nccl::Version;

use super::tree::{Node, Value};
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, shorten};

/// The communication library and how it is started.
#[derive(Clone, Debug, PartialEq)]
pub struct Software {
    /// The NCCL version whose choices are modelled.
    pub nccl: Version,
    /// NCCL's environment variables, in the order in which they were written.
    pub env: IndexMap<String, String>,
    /// Launches are captured in a CUDA graph.
    pub graph: bool,
    /// PXN: messages may go through a GPU of the same node that is on the right rail.
    pub pxn: bool,
}

/// A value whose meaning another part of the program knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// A text, such as a quantity with unit.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A number with a fraction.
    Number(f64),
    /// A boolean.
    Boolean(bool),
}

impl Scalar {
    fn of(node: &Node) -> Option<Self> {
        Some(match &node.value {
            Value::Text(text) => Self::Text(text.clone()),
            Value::Integer(Some(value)) => Self::Integer(*value),
            Value::Float(value) => Self::Number(*value),
            Value::Boolean(value) => Self::Boolean(*value),
            _ => return None,
        })
    }

    /// As an environment variable has it: booleans are 1 and 0.
    #[must_use]
    pub fn as_env(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Integer(value) => value.to_string(),
            Self::Number(value) => value.to_string(),
            Self::Boolean(value) => u8::from(*value).to_string(),
        }
    }

    /// The value as a number, if it is one.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Number(value) => Some(*value),
            _ => None,
        }
    }
}

/// The values of a table with free keys.
pub(super) fn scalars(view: &View<'_>, key: &str) -> IndexMap<String, Scalar> {
    let entries = view.node(key).and_then(Node::as_table).map_or(&[][..], |t| &t.entries);
    entries.iter().filter_map(|e| Some((e.key.clone(), Scalar::of(&e.node)?))).collect()
}

pub(super) fn software(root: &View<'_>, out: &mut Diagnostics) -> Software {
    let view = root.table_or_empty("software");
    let nccl = view.text_or_default("nccl").parse().unwrap_or_else(|error| {
        if let Some(node) = view.node("nccl") {
            let fault = Diagnostic::new(Code::OutOfRange, "no NCCL version that is modelled");
            out.push(fault.at(node.place.clone(), format!("{error}")));
        }
        Version::default()
    });
    let entries = view.node("env").and_then(Node::as_table).map_or(&[][..], |t| &t.entries);
    for entry in entries {
        if !entry.key.starts_with("NCCL_") {
            let fault = Diagnostic::new(Code::NoEffect, format!("`{}` has no effect", shorten(&entry.key)));
            let fault = fault.at(entry.key_place.clone(), "only variables that begin with NCCL_ are looked at");
            let upper = entry.key.to_uppercase();
            let help = if upper.starts_with("NCCL_") { format!("write {upper}") } else { String::new() };
            out.push(fault.help(help));
        }
    }
    let env = scalars(&view, "env").into_iter().map(|(k, v)| (k, v.as_env())).collect();
    let pxn = view.boolean("pxn");
    Software { nccl, env, graph: view.boolean("graph"), pxn }
}
