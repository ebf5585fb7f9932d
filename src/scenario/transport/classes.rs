//! Classes of data: `[[transport.class]]`, else one for all.

use sim_core::net::spec::{ClassSpec, MOST_CLASSES};
use sim_core::units::Bytes;
use sim_topology::Fabric;

use super::super::keys::{Kind, TRANSPORT, TableSpec};
use super::super::tree::{Node, Table, Value};
use super::super::view::View;
use super::controls::Control;
use super::queues;
use super::reach::Reach;
use super::reader::Reader;
use crate::diagnostic::{Code, Diagnostic, shorten};

/// A class of data.
#[derive(Clone, Debug)]
pub struct Class {
    /// By which workloads and results name it.
    pub name: String,
    /// How ports treat it.
    pub spec: ClassSpec,
    /// The buffer of its lane behind a link, if it has one of its own.
    pub credits: Option<Bytes>,
}

impl super::Packets {
    /// Whether the scenario names its classes, rather than having one for all.
    #[must_use]
    pub(super) fn has_named_classes(&self) -> bool {
        // No class can be named so.
        self.classes.iter().all(|class| class.name != ONE)
    }
}

/// The one class that there is where none are named.
const ONE: &str = "data";

/// The members of `[[transport.class]]` with their names, if these are sound; none is fine.
pub(super) fn named<'a>(reader: &mut Reader<'a, '_>) -> Option<Vec<(&'a str, &'a Table)>> {
    let mut list: Vec<(&str, &Table)> = Vec::new();
    for item in reader.view().items("class") {
        let table = item.as_table()?;
        let node = table.get("name")?;
        let name = node.as_text()?.trim();
        let wrong = if list.iter().any(|(known, _)| *known == name) {
            Some("another class has this name")
        } else if matches!(name, "express" | ONE) {
            Some("`control_class` has another meaning for it")
        } else {
            None
        };
        if let Some(why) = wrong {
            let fault = Diagnostic::new(Code::BadName, format!("`{}` can't name a class", shorten(name)));
            reader.out().push(fault.at(node.place.clone(), why));
            return None;
        }
        list.push((name, table));
    }
    Some(list)
}

/// How many lanes each class has.
pub(super) fn lanes(reader: &mut Reader<'_, '_>, flow_control: &str, classes: usize, fabric: &Fabric) -> Option<u8> {
    let grouped = !fabric.between_groups().is_empty();
    let Some(node) = reader.view().node("lanes") else {
        let fits = classes * 2 <= MOST_CLASSES;
        return Some(if grouped && fits && flow_control == "credits" { reader.integer_or("lanes", 2) } else { 1 });
    };
    if grouped {
        return reader.integer("lanes");
    }
    let fault = Diagnostic::new(Code::NoEffect, "`lanes` has no effect");
    let label = "packets go up a lane at links between groups of a dragonfly, and there is none";
    reader.out().push(fault.at(node.place.clone(), label));
    reader.integer::<u8>("lanes").map(|_| 1)
}

/// The specification of a table inside of `[transport]`.
fn spec_of(key: &str) -> Option<&'static TableSpec> {
    match TRANSPORT.key(key)?.kind {
        Kind::Table(spec) | Kind::Tables(spec) => Some(spec),
        _ => None,
    }
}

/// All classes. `heard` is the control that is to hear of a class's marks.
pub(super) fn classes(
    reader: &mut Reader<'_, '_>,
    named: &[(&str, &Table)],
    lanes: u8,
    flow_control: &str,
    heard: impl Fn(usize) -> &'static Control,
    reach: &Reach,
) -> Option<Vec<Class>> {
    let lossless = flow_control != "drop";
    if named.is_empty() {
        let marking = queues::marking(&mut reader.inside("ecn"), heard(0), reach)?;
        let spec = ClassSpec { priority: 0, weight: 1, lossless, marking };
        return Some(vec![Class { name: ONE.to_owned(), spec, credits: None }]);
    }
    if named.len() * usize::from(lanes) > MOST_CLASSES {
        let message = match lanes {
            1 => format!("{} classes; {MOST_CLASSES} are the most", named.len()),
            n => format!("{} classes of {n} lanes each; {MOST_CLASSES} lanes in all are the most", named.len()),
        };
        let fault = Diagnostic::new(Code::OutOfRange, message);
        let place = reader.view().node("class").map(|node| node.place.clone());
        reader.out().push(match place {
            Some(place) => fault.at(place, "counted here"),
            None => fault,
        });
        return None;
    }
    let mut list = Vec::new();
    for (at, (name, table)) in named.iter().enumerate() {
        // What its own table of marks leaves out is as the transport's.
        let mut ecn = reader.view().node("ecn").and_then(Node::as_table).cloned().unwrap_or_default();
        if let Some(own) = table.get("ecn").and_then(Node::as_table) {
            ecn.lay(own.clone());
        }
        let marks = &mut reader.beside(View::new(&ecn, spec_of("ecn")?), format!("class.{name}.ecn"));
        let marking = queues::marking(marks, heard(at), reach)?;
        let own = &mut reader.beside(View::new(table, spec_of("class")?), format!("class.{name}"));
        let (priority, weight) = (own.integer("priority")?, own.integer("weight")?);
        let either = matches!(flow_control, "pfc" | "drop");
        let lossless = if either { own.boolean_or("lossless", lossless) } else { lossless };
        let credits = if flow_control == "credits" { own.size("credits") } else { None };
        contradictions(reader, table, flow_control);
        let spec = ClassSpec { priority, weight, lossless, marking };
        list.push(Class { name: (*name).to_owned(), spec, credits });
    }
    Some(list)
}

/// What a class asks for that its flow control doesn't have.
fn contradictions(reader: &mut Reader<'_, '_>, table: &Table, flow_control: &str) {
    let lossless = table.get("lossless");
    let wanted = lossless.is_some_and(|node| matches!(node.value, Value::Boolean(true)));
    let credits = table.get("credits").filter(|_| flow_control != "credits");
    let [drop, kept, none] = ["drop", "credits", "none"].map(|word| lossless.filter(|_| flow_control == word));
    let wrong = [
        (
            drop.filter(|_| wanted),
            "nothing is paused with flow_control = \"drop\"",
            "flow_control = \"pfc\" has both kinds",
        ),
        (kept.filter(|_| !wanted), "nothing is dropped with flow_control = \"credits\"", "take `lossless` out"),
        (none, "buffers have no bound with flow_control = \"none\"", "flow_control = \"pfc\", or take it out"),
        (credits, "there are none with this flow control", "flow_control = \"credits\", or take it out"),
    ];
    for (node, why, help) in wrong {
        let Some(node) = node else { continue };
        let fault = Diagnostic::new(Code::OtherFlowControl, "a class asks for another flow control");
        reader.out().push(fault.at(node.place.clone(), why).help(help));
    }
}
