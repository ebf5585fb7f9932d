//! How what workloads send is carried: their class, and the control, paths and recovery that differ from the transport's.

use sim_core::net::spec::{FlowSpec, Paths, Recovery};
use sim_core::rate_control::RateSpec;
use sim_core::units::{Bytes, Span};

use super::super::keys::{COLLECTIVE, TRANSFER, TRANSFER_ITEM};
use super::super::tree::Node;
use super::super::view::View;
use super::classes::Class;
use super::controls::Control;
use super::reach::Reach;
use super::reader::Reader;
use super::{Packets, by_switches, queues};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place, shorten, suggest};

/// Keys of a workload, or of one transfer, that say how it is carried.
const KEYS: [&str; 4] = ["class", "rate_control", "path_choice", "recovery"];

/// What a workload asks for; what it leaves out is as the transport has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// Its class, by number.
    pub(super) class: usize,
    rate_control: Option<&'static str>,
    path_choice: Option<&'static str>,
    recovery: Option<&'static str>,
}

/// A way in which packets are carried.
#[derive(Clone, Debug)]
pub struct Carried {
    pub(super) asked: Asked,
    /// What queue pairs do.
    pub flow: FlowSpec,
    /// Their controller.
    pub rate: RateSpec,
    /// Its word in `rate_control`.
    pub rate_control_name: &'static str,
    /// Where it was first asked for; `None`: by nobody, as it is the transport's own.
    pub(super) place: Option<Place>,
}

/// What all ways have in common.
pub(super) struct Common {
    pub(super) flow_control: &'static str,
    pub(super) rate_control: &'static str,
    pub(super) path_choice: &'static str,
    pub(super) packet_loss: f64,
    /// Some link loses packets.
    pub(super) loses: bool,
    pub(super) ack_every: u32,
    pub(super) watchdog: bool,
    pub(super) overruns: bool,
    /// Acknowledgements wait in a class that may be dropped.
    pub(super) lossy_control: bool,
    pub(super) lanes: u8,
}

/// What a table asks for, `outer` where it says nothing itself; faults are told by `tell`.
fn asked(view: &View<'_>, outer: Asked, names: &[&str], tell: &mut dyn FnMut(Diagnostic)) -> Option<Asked> {
    let word = |key: &str, outer| if view.has(key) { view.choice(key) } else { outer };
    let class = match view.node("class") {
        None => outer.class,
        Some(node) => {
            let name = node.as_text()?.trim();
            let known = names.iter().position(|known| *known == name);
            if known.is_none() {
                let fault = Diagnostic::new(Code::UnknownChoice, format!("unknown class `{}`", shorten(name)));
                tell(if names.is_empty() {
                    fault.at(node.place.clone(), "there are no classes").help("[[transport.class]] name = \"…\"")
                } else {
                    fault.at(node.place.clone(), suggest(name, names.iter().copied()))
                });
            }
            known?
        }
    };
    Some(Asked {
        class,
        rate_control: word("rate_control", outer.rate_control),
        path_choice: word("path_choice", outer.path_choice),
        recovery: word("recovery", outer.recovery),
    })
}

/// All that workloads ask for, each once, after the way of those that ask for nothing.
pub(super) fn all_asked(
    root: &View<'_>,
    names: &[&str],
    once: &str,
    out: &mut Diagnostics,
) -> Vec<(Asked, Option<Place>)> {
    let mut list = vec![(Asked::default(), None)];
    let mut one = |view: &View<'_>, outer: Asked| {
        let found = asked(view, outer, names, &mut |fault| out.push(fault))?;
        if let (Some(word), Some(node)) = (found.path_choice, view.node("path_choice"))
            && !by_switches(word)
            && word != once
        {
            let fault = Diagnostic::new(Code::NotOverPackets, format!("`{word}` paths for a workload alone"));
            let label = format!("what this fabric does once for a flow is `{once}`");
            out.push(fault.at(node.place.clone(), label).help("[transport] path_choice has it for all"));
            return None;
        }
        if list.iter().all(|(known, _)| *known != found) {
            let node = KEYS.iter().find_map(|key| view.node(key));
            list.push((found, node.map(|node| node.place.clone())));
        }
        Some(found)
    };
    for item in root.items("workload") {
        let Some(table) = item.as_table() else { continue };
        match table.get("kind").and_then(Node::as_text) {
            Some("collective") => {
                one(&View::new(table, &COLLECTIVE), Asked::default());
            }
            Some("transfer") => {
                let view = View::new(table, &TRANSFER);
                let Some(outer) = one(&view, Asked::default()) else { continue };
                for entry in view.items("list").iter().filter_map(Node::as_table) {
                    one(&View::new(entry, &TRANSFER_ITEM), outer);
                }
            }
            _ => {}
        }
    }
    list
}

/// The control of what is asked for.
pub(super) fn control(asked: &Asked, usual: &str) -> &'static Control {
    Control::of(asked.rate_control.unwrap_or(usual))
}

/// Reads what a way does.
pub(super) fn carried(
    reader: &mut Reader<'_, '_>,
    (asked, place): (Asked, Option<Place>),
    classes: &[Class],
    common: &Common,
    reach: &Reach,
) -> Option<Carried> {
    let path_word = asked.path_choice.unwrap_or(common.path_choice);
    let per_packet = by_switches(path_word);
    let paths = match path_word {
        "adaptive" => Paths::LeastQueue,
        "spray" => Paths::Spray,
        "round-robin" => Paths::RoundRobin,
        "flowlet" => Paths::Flowlet { gap: reader.time("flowlet_gap")? },
        _ => Paths::Pinned,
    };
    let kept = classes.get(asked.class).is_none_or(|class| class.spec.lossless);
    let lossy = matches!(common.flow_control, "drop" | "pfc") && !kept;
    let usual = match common.flow_control {
        _ if common.packet_loss > 0.0 || per_packet || lossy => "selective",
        "credits" | "none" if !common.loses => "none",
        _ => "go-back-n",
    };
    let recovery = match asked.recovery.unwrap_or_else(|| reader.choice_or("recovery", usual)) {
        "go-back-n" => Recovery::GoBackN,
        "go-back-0" => Recovery::GoBack0,
        "selective" => Recovery::Selective,
        _ => Recovery::None,
    };
    let control = control(&asked, common.rate_control);
    let (notice, retime) = control.notice(reader)?;
    let rate = (control.read)(reader, reach)?;
    let may_lose = common.loses || lossy || common.watchdog || common.overruns || common.lossy_control;
    let timeout = (may_lose && recovery != Recovery::None).then(|| reader.time_or("rto", Span::from_ns(4096 << 14)));
    let flow = FlowSpec {
        class: u8::try_from(asked.class).ok()?.checked_mul(common.lanes)?,
        recovery,
        ack_every: common.ack_every,
        notice,
        retime,
        timeout,
        retries: if timeout.is_some() { reader.integer("retries")? } else { 7 },
        paths,
        reorder: match recovery {
            Recovery::Selective => reader.integer_or("reorder", if per_packet { 256 } else { 1 }),
            _ => 1,
        },
        window: match control.takes_window {
            true => u64::MAX,
            false => reader.size_if("window").map_or(u64::MAX, Bytes::get),
        },
        jitter: queues::share(reader.inside("endpoint").number("jitter")?),
    };
    Some(Carried { asked, flow, rate, rate_control_name: control.word, place })
}

impl Packets {
    /// The way in which what a table of a workload sends is carried, by its number; `outer` is the workload around it.
    pub(in crate::scenario) fn way(&self, view: &View<'_>, outer: Option<&View<'_>>) -> u16 {
        let names: Vec<&str> = self.classes.iter().map(|class| class.name.as_str()).collect();
        // What is wrong has been told.
        let quiet = &mut |_| {};
        let outer = outer.and_then(|outer| asked(outer, Asked::default(), &names, quiet)).unwrap_or_default();
        let found = asked(view, outer, &names, quiet).unwrap_or_default();
        let at = self.ways.iter().position(|way| way.asked == found).unwrap_or(0);
        u16::try_from(at).unwrap_or(0)
    }
}

/// Warns of keys that have no effect on a workload as no packets are played.
pub(in crate::scenario) fn without_packets(view: &View<'_>, out: &mut Diagnostics) {
    for key in KEYS {
        if let Some(node) = view.node(key) {
            let fault = Diagnostic::new(Code::NoEffect, format!("`{key}` has no effect"));
            let label = "links are virtual here: no packet is played";
            out.push(fault.at(node.place.clone(), label).help("[transport] model = \"packets\""));
        }
    }
}
