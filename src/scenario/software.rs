//! The communication library of a scenario.

use std::path::Path;

use indexmap::IndexMap;
use sim_collectives::launch::Launch;
use sim_collectives::nccl::{Effect, Knob, KnobError, Knobs, TunerFile, Version};

use super::channels::Channels;
use super::tree::{Entry, Node, Value};
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Files, Place, shorten};

/// The communication library and how it is started.
#[derive(Clone, Debug, PartialEq)]
pub struct Software {
    /// The NCCL version whose choices are modelled.
    pub nccl: Version,
    /// Whether the scenario or a flag says so, rather than that it is the newest.
    pub nccl_stated: bool,
    /// NCCL's environment variables as they were written, in that order.
    pub env: IndexMap<String, String>,
    /// Where each of them is written.
    pub env_places: IndexMap<String, Place>,
    /// What these variables mean; `NCCL_PXN_DISABLE` is set if `pxn` is false.
    pub knobs: Knobs,
    /// How calls are started.
    pub launch: Launch,
    /// PXN: messages may go through a GPU of the same node that is on the right rail.
    pub pxn: bool,
    /// Channels in place of those of the modelled search.
    pub channels: Option<Channels>,
    /// What NCCL's tuner plugin is told to take.
    pub tuner: Option<TunerFile>,
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

/// Whether setting this variable can change a run. The library's reading of some others is known to
/// [`sim_collectives`], but nothing that is played depends on them yet.
pub(crate) const fn acts(knob: Knob) -> bool {
    match knob {
        Knob::Algo
        | Knob::Proto
        | Knob::MinNchannels
        | Knob::MaxNchannels
        | Knob::MinCtas
        | Knob::MaxCtas
        | Knob::Nthreads
        | Knob::Ll128Nthreads
        | Knob::Buffsize
        | Knob::LlBuffsize
        | Knob::Ll128Buffsize
        | Knob::Ll128C2c
        | Knob::NetOverhead
        | Knob::NvlsEnable
        | Knob::NvlsNchannels
        | Knob::NvlsChunksize
        | Knob::NvlstreeMaxChunksize
        | Knob::PatEnable
        | Knob::CollnetEnable
        | Knob::CollnetNodeThreshold
        | Knob::CrossNic
        | Knob::PxnDisable
        | Knob::P2pPxnLevel
        | Knob::MinP2pNchannels
        | Knob::MaxP2pNchannels
        | Knob::NchannelsPerNetPeer
        | Knob::P2pPerChannelNetBw
        | Knob::P2pNetChunksize
        | Knob::P2pPciChunksize
        | Knob::P2pNvlChunksize
        | Knob::P2pLlThreshold
        | Knob::NetGdrLevel
        | Knob::P2pLevel
        | Knob::P2pDisable
        | Knob::IbQpsPerConnection
        | Knob::IbSplitDataOnQps
        | Knob::IbArThreshold
        | Knob::IbAdaptiveRouting
        | Knob::SocketNthreads
        | Knob::NsocksPerthread
        | Knob::ShmDisable
        | Knob::IbDisable
        | Knob::Net
        | Knob::MnnvlEnable => true,
        Knob::P2pScheduleGroupSize => false,
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
    let mut env_places = IndexMap::new();
    let mut tuner = None;
    let entries = view.node("env").and_then(Node::as_table).map_or(&[][..], |t| &t.entries);
    for entry in entries {
        let Some(value) = Scalar::of(&entry.node).map(|v| v.as_env()) else { continue };
        match entry.key.as_str() {
            TUNER_FILE => tuner = tuner_file(entry, &value, out),
            // The plugin whose file is read.
            TUNER_PLUGIN if entries.iter().any(|e| e.key == TUNER_FILE) => {}
            _ => variable(entry, &value, &mut knobs, out),
        }
        env.insert(entry.key.clone(), value);
        env_places.insert(entry.key.clone(), entry.key_place.clone());
    }
    let mut pxn = view.boolean("pxn");
    match knobs.number(Knob::PxnDisable) {
        Some(disabled) => pxn &= disabled == 0,
        // The key is another spelling of the variable; a value that the variable knows cannot fail.
        None if !pxn => drop(knobs.set(Knob::PxnDisable.name(), "1")),
        None => {}
    }
    let launch = Launch { graph: view.boolean("graph"), gpus_per_thread: view.integer("gpus_per_thread").unwrap_or(1) };
    let channels = super::channels::channels(&view, out);
    Software { nccl, nccl_stated: view.node("nccl").is_some(), env, env_places, knobs, launch, pxn, channels, tuner }
}

/// The variable that names the file of NCCL's example tuner plugin, and the one that names the plugin.
pub(crate) const TUNER_FILE: &str = "NCCL_TUNER_CONFIG_FILE";
const TUNER_PLUGIN: &str = "NCCL_TUNER_PLUGIN";

/// The text of a tuner's file, as it was when it was first read.
pub(super) fn tuner_text(path: &str, files: &Files) -> Result<String, Box<Diagnostic>> {
    let read = || {
        let text = std::fs::metadata(path).and_then(|found| {
            if !found.is_file() || found.len() > super::MAX_BYTES {
                return Err(std::io::Error::other("it is no plain file of at most 4 MiB"));
            }
            std::fs::read_to_string(path)
        });
        let message = |error| format!("cannot read `{}`: {error}", shorten(path));
        text.map_err(|error| Box::new(Diagnostic::new(Code::Unreadable, message(error))))
    };
    files.get(Path::new(path), read)
}

/// Reads the tuner's file; a path that is not absolute begins in the folder in which the program runs.
fn tuner_file(entry: &Entry, path: &str, out: &mut Diagnostics) -> Option<TunerFile> {
    let shown = shorten(path);
    let fault =
        |message: String, label: String| Diagnostic::new(Code::Unreadable, message).at(entry.node.place.clone(), label);
    let text = match tuner_text(path, out.sources.files()) {
        Ok(text) => text,
        Err(unread) => {
            out.push(unread.at(entry.node.place.clone(), "the tuner's file"));
            return None;
        }
    };
    out.sources.add_data(path, text.clone());
    match TunerFile::parse(&text) {
        Ok(file) if file.is_empty() => {
            let idle = Diagnostic::new(Code::NoEffect, format!("`{shown}` has no rule"));
            out.push(idle.at(entry.node.place.clone(), "no line of it is for calls that are played"));
            None
        }
        Ok(file) => Some(file),
        Err(error) => {
            let help = "`bench OP … --tuner FILE` writes such a file";
            out.push(
                fault(format!("`{shown}` is no file of NCCL's example tuner plugin"), error.to_string()).help(help),
            );
            None
        }
    }
}

/// Sets one variable, and reports what is wrong with it or that it changes nothing.
fn variable(entry: &Entry, value: &str, knobs: &mut Knobs, out: &mut Diagnostics) {
    let name = shorten(&entry.key);
    let fault = match knobs.set(&entry.key, value) {
        Ok(Effect::Read { knob, .. }) if acts(knob) => return,
        Ok(Effect::Read { .. }) => Diagnostic::new(Code::NoEffect, format!("`{name}` has no effect here"))
            .at(entry.key_place.clone(), "the variable is known, but nothing that is simulated depends on it"),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The list above against the source: a variable acts if code beside the table of variables and the remarks about
    /// them names it.
    #[test]
    fn variables_that_act_have_a_reader() {
        fn sources(folder: &std::path::Path, all: &mut String) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.file_name().and_then(|n| n.to_str()) {
                    Some("notes.rs" | "table.rs" | "tests.rs") => {}
                    _ if path.is_dir() => sources(&path, all),
                    _ => *all += &std::fs::read_to_string(&path).unwrap_or_default(),
                }
            }
        }
        let mut all = String::new();
        sources(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/sim-collectives/src")), &mut all);
        all += include_str!("cluster.rs");
        assert!(all.len() > 100_000, "{}", all.len());
        for knob in Knob::ALL {
            let named = format!("Knob::{knob:?}");
            let read = all.match_indices(&named).any(|(at, _)| {
                let next = all[at + named.len()..].chars().next();
                next.is_some_and(|c| !c.is_alphanumeric())
            });
            // Read only to order exchanges that nothing plays in that order.
            let idle = matches!(knob, Knob::P2pScheduleGroupSize);
            assert_eq!(acts(*knob), read && !idle, "{}", knob.name());
        }
    }
}
