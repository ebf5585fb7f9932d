//! `[transport]` where packets are played: what a preset and a scenario say, put together with what follows from the fabric.

mod checks;
mod classes;
pub(super) mod controls;
mod queues;
mod reach;
mod reader;
mod ways;

use sim_core::net::Drain;
use sim_core::net::spec::{Control, FlowControlSpec, GrantSpec, Inputs};
use sim_core::units::{Bytes, Rate, Span};
use sim_topology::{Catalogue, Fabric, TransportKind};

use super::keys::TRANSPORT;
use super::observe::Observed;
use super::transport_preset;
use super::tree::{Node, Table, Value};
use super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, shorten, suggest};

pub use classes::Class;
pub(crate) use reach::Reach;
pub use reader::Parameter;
use reader::Reader;
pub use ways::Carried;
pub(super) use ways::without_packets;

/// How packets fare between NICs.
#[derive(Clone, Debug)]
pub struct Packets {
    /// The preset that it rests on.
    pub preset: Option<String>,
    /// The word of `flow_control`.
    pub flow_control_name: &'static str,
    /// The word of `rate_control`.
    pub rate_control_name: &'static str,
    /// Seed of marks and sprays.
    pub seed: u64,
    /// Wire bytes of control packets.
    pub control_size: u32,
    /// The classes of data.
    pub classes: Vec<Class>,
    /// Lanes of each: the class of number `c` is that of lanes `c · lanes` and on.
    pub lanes: u8,
    /// What keeps buffers from overflowing.
    pub flow_control: FlowControlSpec,
    /// Turns at switches.
    pub inputs: Inputs,
    /// How what workloads send is carried; first the way of those that ask for nothing of their own.
    pub ways: Vec<Carried>,
    /// The probability that a data packet is lost on a link, in 2⁻³².
    pub lost: u32,
    /// What control packets wait for.
    pub control: Control,
    /// What receivers grant, where they do.
    pub grants: Option<GrantSpec>,
    /// Whether each switch has the buffer of its row, rather than all the same.
    pub own_buffers: bool,
    /// Packets that may move as one; `None`: as many as make no difference.
    pub grain: Option<u32>,
    /// How often held ports are looked through.
    pub stall_check: Span,
    /// After how long of being held a port's packets are dropped.
    pub watchdog: Option<Span>,
    /// After how long a NIC whose receive pipeline has stopped is kept from pausing its switch.
    pub nic_watchdog: Option<Span>,
    /// After how long without a packet that arrives the run is given up.
    pub no_progress: Option<Span>,
    /// What is recorded beside the counters.
    pub observed: Observed,
    /// What NICs read ahead of a queue pair's messages.
    pub fetch: Bytes,
    /// When NICs hold their switch's port.
    pub drain: Option<Drain>,
    /// All values in force, in the order in which they were asked for.
    pub parameters: Vec<Parameter>,
    /// How far and fast the network is.
    pub(crate) reach: Reach,
}

/// Keys that have a meaning without packets.
const WITHOUT: [&str; 6] = ["model", "kind", "mtu", "packet_overhead", "path_choice", "qps"];

/// Whether a path choice is made by switches, packet by packet.
fn by_switches(word: &str) -> bool {
    matches!(word, "adaptive" | "flowlet" | "spray" | "round-robin")
}

/// Whether packets are played, and keys that have no effect as they aren't.
fn are_played(view: &View<'_>, table: Option<&Table>, out: &mut Diagnostics) -> bool {
    let only: Vec<_> = table.map_or_else(Vec::new, |table| {
        let entries = table.entries.iter().filter(|entry| {
            let switched = entry.key == "path_choice"
                && entry.node.as_text().is_some_and(|text| {
                    let word = text.trim().to_lowercase().replace('_', "-");
                    by_switches(&word)
                });
            switched || !WITHOUT.contains(&entry.key.as_str())
        });
        entries.collect()
    });
    match view.text("model").map(|_| view.choice("model")) {
        None => !only.is_empty(),
        Some(Some("packets")) => true,
        Some(_) => {
            for entry in only {
                let of_preset = transport_preset::is_preset(out.sources.name(entry.node.place.source)).is_some();
                if !of_preset {
                    let fault = Diagnostic::new(Code::NoEffect, format!("`{}` has no effect", entry.key));
                    let label = "links are virtual here: no packet is played";
                    out.push(fault.at(entry.key_place.clone(), label).help("model = \"packets\""));
                }
            }
            false
        }
    }
}

/// The preset for a kind of transport and the rate of the NICs' ports.
const fn usual(kind: TransportKind, rate: Rate) -> Option<&'static str> {
    match kind {
        TransportKind::Infiniband if rate.get() <= Rate::gbit(200).get() => Some("ib-hdr"),
        TransportKind::Infiniband if rate.get() <= Rate::gbit(400).get() => Some("ib-ndr"),
        TransportKind::Infiniband => Some("ib-xdr"),
        TransportKind::Roce => Some("roce-lossless"),
        TransportKind::Efa => Some("efa"),
        TransportKind::Tcp | TransportKind::Tcpxo => None,
    }
}

/// What `[transport]` says of packets; `None` where none are played.
pub(super) fn packets(
    root: &View<'_>,
    tree: &Table,
    fabric: &Fabric,
    catalogue: &Catalogue,
    out: &mut Diagnostics,
) -> Option<Packets> {
    let own = root.node("transport").and_then(Node::as_table);
    let view = root.table_or_empty("transport");
    if !are_played(&view, own, out) {
        return None;
    }
    let kind = fabric.spec().transport;
    let place = ["model", "preset", "path_choice"].iter().find_map(|key| view.node(key)).or(root.node("transport"));
    let at = |fault: Diagnostic, label: &str| match place {
        Some(node) => fault.at(node.place.clone(), label),
        None => fault,
    };
    let places = match fabric.places() {
        Ok(places) => places,
        Err(half) => {
            let fault = Diagnostic::new(Code::NotOverPackets, half.to_string());
            out.push(
                at(fault, "packets are asked for here").help("model = \"virtual\", or let the cable be dead both ways"),
            );
            return None;
        }
    };
    if places.links.is_empty() {
        let fault = Diagnostic::new(Code::NoEffect, "there is no network whose packets could be played");
        out.push(at(fault, "one node, or one NVLink domain without NICs"));
        return None;
    }
    if let Some(flaps) = places.links.iter().find(|place| fabric.outage_of(place.link).is_some()) {
        let message = format!("{} is down at times", fabric.link_name(flaps.link));
        let fault = Diagnostic::new(Code::NotOverPackets, message);
        out.push(at(fault, "packets are asked for here, and their links can't flap").help("model = \"virtual\""));
        return None;
    }
    let rate = fabric.plan().rate;
    let Some(usual) = usual(kind, rate) else {
        let fault = Diagnostic::new(Code::Unsupported, format!("packets of {kind} are not modelled"));
        let label = "the congestion control of kernels, and of TCPXO, is not among those that are";
        out.push(at(fault, label).help("model = \"virtual\", or kind = \"roce\""));
        return None;
    };
    // Without a preset of the scenario's own the usual one is laid below.
    let mut whole = own.cloned().unwrap_or_default();
    let mut preset = view.text("preset").map(|name| name.trim().to_lowercase());
    if preset.is_none() {
        let nowhere =
            Node { value: Value::Text(usual.to_owned()), place: place.map_or_else(nowhere, |n| n.place.clone()) };
        let mut keys = transport_preset::keys(tree, (usual, &nowhere), out)?;
        if let Some(Value::Table(mut below)) = keys.remove("transport").map(|entry| entry.node.value) {
            // The fabric has been built with these.
            for key in ["kind", "mtu", "packet_overhead"] {
                below.remove(key);
            }
            below.lay(whole);
            whole = below;
        }
        preset = Some(usual.to_owned());
    }
    let reach = Reach::of(fabric);
    let mut reader = Reader::new(View::new(&whole, &TRANSPORT), catalogue, preset.as_deref(), out);
    let packets = read(&mut reader, root, fabric, kind, reach, preset.clone());
    let parameters = reader.into_parameters();
    let seed = root.integer("seed").unwrap_or(1);
    let packets = Packets { parameters, seed, ..packets? };
    checks::check(&packets, &whole, fabric, &places, out);
    Some(packets)
}

/// A place in no text.
fn nowhere() -> crate::diagnostic::Place {
    let mut sources = crate::diagnostic::Sources::default();
    crate::diagnostic::Place { source: sources.add("", ""), span: 0..0 }
}

fn read(
    reader: &mut Reader<'_, '_>,
    root: &View<'_>,
    fabric: &Fabric,
    kind: TransportKind,
    reach: Reach,
    preset: Option<String>,
) -> Option<Packets> {
    let ib = kind == TransportKind::Infiniband;
    let or_efa = |efa, ib_word, other| match kind {
        TransportKind::Infiniband => ib_word,
        TransportKind::Efa => efa,
        _ => other,
    };
    let flow_control_name = reader.choice_or("flow_control", or_efa("drop", "credits", "pfc"));
    let rate_control_name = reader.choice_or("rate_control", or_efa("swift", "none", "dcqcn-firmware"));
    let path_choice = reader.choice_or("path_choice", if ib { "destination" } else { "hash" });
    let packet_loss = reader.number("packet_loss")?;
    let loses = packet_loss > 0.0 || fabric.loses_packets();
    let control_size =
        u32::try_from(reader.size_or("ack_size", Bytes::new(if ib { 30 } else { 86 })).get()).unwrap_or(u32::MAX);
    let ack_every = reader.integer("ack_every")?;
    let pfc = flow_control_name == "pfc";
    let watchdog = if pfc { reader.inside("pfc").time("watchdog") } else { None };
    let nic_watchdog = if pfc { reader.inside("pfc").time("nic_watchdog") } else { None };
    let named = classes::named(reader)?;
    let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
    let asked = ways::all_asked(root, &names, fabric.path_choice().as_str(), reader.out());
    let lanes = classes::lanes(reader, flow_control_name, named.len().max(1), fabric)?;
    let heard = |class: usize| {
        let own = asked.iter().filter(|(asked, _)| asked.class == class);
        let mut controls = own.map(|(asked, _)| ways::control(asked, rate_control_name));
        controls.find(|control| control.marks.is_some()).unwrap_or(controls::Control::of(rate_control_name))
    };
    let classes = classes::classes(reader, &named, lanes, flow_control_name, heard, &reach)?;
    let lossy = classes.iter().any(|class| !class.spec.lossless);
    let flow_control = queues::flow_control(reader, flow_control_name, lossy, fabric, &reach)?;
    let control = control(reader, &names, lanes)?;
    let dropped = |class: u8| classes.get(usize::from(class / lanes.max(1))).is_some_and(|class| !class.spec.lossless);
    let common = ways::Common {
        flow_control: flow_control_name,
        rate_control: rate_control_name,
        path_choice,
        packet_loss,
        loses,
        ack_every,
        watchdog: watchdog.is_some(),
        overruns: queues::overruns(&flow_control, &reach),
        lossy_control: matches!(flow_control, FlowControlSpec::Shared(_))
            && matches!(control, Control::Class(class) if dropped(class)),
        lanes,
    };
    let mut list = Vec::new();
    for asked in asked {
        list.push(ways::carried(reader, asked, &classes, &common, &reach)?);
    }
    let inputs = match reader.choice_or("inputs", "fifo") {
        "round-robin" => Inputs::RoundRobin,
        "head-of-line" => Inputs::HeadOfLine,
        _ => Inputs::Fifo,
    };
    let granted = list.iter().find_map(|way| controls::Control::of(way.rate_control_name).grants);
    let grants = granted.map(|grants| grants(reader, &reach));
    let own_buffers = matches!(flow_control, FlowControlSpec::Shared(_)) && !reader.inside("buffer").has("size");
    let grain = reader.integer_or_word("grain");
    let stall_check = reader.time("stall_check")?;
    let mut endpoint = reader.inside("endpoint");
    let fetch = endpoint.size("fetch")?;
    let drain = match flow_control_name {
        "pfc" | "credits" => Some(Drain { xoff: endpoint.size("rx_xoff")?, xon: endpoint.size("rx_xon")? }),
        _ => None,
    };
    Some(Packets {
        preset,
        seed: 1,
        flow_control_name,
        rate_control_name,
        control_size,
        classes,
        lanes,
        flow_control,
        inputs,
        ways: list,
        lost: queues::share(packet_loss),
        control,
        grants,
        own_buffers,
        grain,
        stall_check,
        watchdog,
        nic_watchdog,
        no_progress: None,
        observed: Observed::default(),
        fetch,
        drain,
        parameters: Vec::new(),
        reach,
    })
}

/// What control packets wait for.
fn control(reader: &mut Reader<'_, '_>, names: &[&str], lanes: u8) -> Option<Control> {
    let word = reader.text("control_class");
    match word.to_lowercase().as_str() {
        "express" => return Some(Control::Express),
        "data" => return Some(Control::WithData),
        _ => {}
    }
    if let Some(at) = names.iter().position(|name| *name == word) {
        return u8::try_from(at).ok()?.checked_mul(lanes).map(Control::Class);
    }
    let node = reader.view().node("control_class")?;
    let fault = Diagnostic::new(Code::UnknownChoice, format!("unknown class `{}`", shorten(&word)));
    let known = ["express", "data"].into_iter().chain(names.iter().copied());
    reader.out().push(fault.at(node.place.clone(), suggest(&word, known)));
    None
}
