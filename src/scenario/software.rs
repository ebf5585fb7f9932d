//! The communication library of a scenario.

use indexmap::IndexMap;
use sim_collectives::nccl::{Effect, Knob, KnobError, Knobs, Version};

use super::tree::{Entry, Node, Value};
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, shorten};

/// The communication library and how it is started.
#[derive(Clone, Debug, PartialEq)]
pub struct Software {
    /// The NCCL version whose choices are modelled.
    pub nccl: Version,
    /// NCCL's environment variables as they were written, in that order.
    pub env: IndexMap<String, String>,
    /// What these variables mean; `NCCL_PXN_DISABLE` is set if `pxn` is false.
    pub knobs: Knobs,
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

pub(super) fn software(root: &View<'_>, out: &mut Diagnostics) -> Software {
    let view = root.table_or_empty("software");
    let nccl = view.text_or_default("nccl").parse().unwrap_or_else(|error| {
        if let Some(node) = view.node("nccl") {
            let fault = Diagnostic::new(Code::OutOfRange, "no NCCL version that is modelled");
            out.push(fault.at(node.place.clone(), format!("{error}")));
        }
        Version::default()
    });
    let mut knobs = Knobs::default();
    let mut env = IndexMap::new();
    let entries = view.node("env").and_then(Node::as_table).map_or(&[][..], |t| &t.entries);
    for entry in entries {
        let Some(value) = Scalar::of(&entry.node).map(|v| v.as_env()) else { continue };
        variable(entry, &value, &mut knobs, out);
        env.insert(entry.key.clone(), value);
    }
    let mut pxn = view.boolean("pxn");
    match knobs.number(Knob::PxnDisable) {
        Some(disabled) => pxn &= disabled == 0,
        // The key is another spelling of the variable; a value that the variable knows cannot fail.
        None if !pxn => drop(knobs.set(Knob::PxnDisable.name(), "1")),
        None => {}
    }
    Software { nccl, env, knobs, graph: view.boolean("graph"), pxn }
}

/// Sets one variable, and reports what is wrong with it or that it changes nothing.
fn variable(entry: &Entry, value: &str, knobs: &mut Knobs, out: &mut Diagnostics) {
    let name = shorten(&entry.key);
    let fault = match knobs.set(&entry.key, value) {
        Ok(Effect::Read { .. }) => return,
        Ok(Effect::None { similar }) => Diagnostic::new(Code::NoEffect, format!("`{name}` has no effect"))
            .at(entry.key_place.clone(), "nothing in the model looks at it")
            .maybe_help(similar.map(|s| format!("did you mean `{s}`?"))),
        Err(KnobError::Name { similar, .. }) => Diagnostic::new(Code::BadName, format!("`{name}` is no NCCL variable"))
            .at(entry.key_place.clone(), "a name that begins with `NCCL_` is due")
            .maybe_help(similar.map(|s| format!("did you mean `{s}`?"))),
        Err(KnobError::Value { expected, .. }) => {
            Diagnostic::new(Code::UnknownChoice, format!("`{name}` cannot be `{}`", shorten(value)))
                .at(entry.node.place.clone(), format!("{expected} is due"))
        }
    };
    out.push(fault);
}
