//! Whether the settings of packets fit together, and which of them have no effect.

use sim_core::net::spec::{Control as Controls, FlowControlSpec, Marking, Paths, Recovery, SharedSpec, Threshold};
use sim_core::units::Bytes;
use sim_topology::{Fabric, Places};

use super::super::transport_preset;
use super::super::tree::{Entry, Node, Table, Value};
use super::classes::Class;
use super::controls::{Control, Odd};
use super::queues::{self, MOST_CREDIT};
use super::{Carried, Packets, Parameter, WITHOUT};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place};

/// Reports all that does not fit.
pub(super) fn check(packets: &Packets, table: &Table, fabric: &Fabric, places: &Places, out: &mut Diagnostics) {
    let before = out.list.len();
    check_all(packets, table, fabric, places, out);
    // What classes or ways have in common is told once.
    let mut told: Vec<(Code, Option<Place>)> = Vec::new();
    let mut number = 0;
    out.list.retain(|fault| {
        number += 1;
        let known = told.iter().any(|(code, place)| *code == fault.code && *place == fault.place);
        told.push((fault.code, fault.place.clone()));
        number <= before || fault.place.is_none() || !known
    });
}

fn check_all(packets: &Packets, table: &Table, fabric: &Fabric, places: &Places, out: &mut Diagnostics) {
    other_flow_control(packets, table, out);
    without_effect(packets, table, out);
    let at = |key: &str, fault: Diagnostic, label: String| match node(table, key) {
        Some(node) => fault.at(node.place.clone(), label),
        None => fault.note(label),
    };
    if u64::from(packets.control_size) > packets.reach.packet.get() {
        let fault = Diagnostic::new(Code::OutOfRange, "an acknowledgement is larger than a full packet of data");
        let label = format!("at most {} here", packets.reach.packet);
        out.push(at("ack_size", fault, label).help("ack_size = \"86 B\" (RoCE), \"30 B\" (InfiniBand)"));
    }
    for class in &packets.classes {
        marking(packets, class, &at, out);
    }
    match &packets.flow_control {
        FlowControlSpec::Credits(_) => credits(packets, &at, out),
        FlowControlSpec::Shared(shared) => self::shared(packets, shared, places, &at, out),
        FlowControlSpec::Unlimited => {}
    }
    for way in &packets.ways {
        // What a workload asks for is told where it does.
        let at = |key: &str, fault: Diagnostic, label: String| match &way.place {
            Some(place) => fault.at(place.clone(), label),
            None => at(key, fault, label),
        };
        // What several workloads have wrong is told once.
        let mut found = Diagnostics { sources: out.sources.clone(), list: Vec::new() };
        carried(packets, way, packets.lost > 0 || fabric.loses_packets(), &at, &mut found);
        found.list.retain(|fault| {
            way.place.is_none()
                || out.list.iter().all(|known| known.code != fault.code || known.message != fault.message)
        });
        out.list.append(&mut found.list);
        if let Some(Odd { low, high, label }) = (Control::of(way.rate_control_name).odd)(&way.rate) {
            let fault = Diagnostic::new(Code::BadThresholds, format!("`{low}` is above `{high}`"));
            out.push(at(if node(table, low).is_some() { low } else { high }, fault, label));
        }
    }
    let waits = |at: usize, class: &Class| match packets.control {
        Controls::Express => false,
        Controls::WithData => !class.spec.lossless,
        Controls::Class(control) => usize::from(control / packets.lanes) == at && !class.spec.lossless,
    };
    let lossy = matches!(packets.flow_control, FlowControlSpec::Shared(_))
        && packets.classes.iter().enumerate().any(|(at, class)| waits(at, class));
    if packets.grants.is_some() && packets.control != Controls::Express && (lossy || packets.watchdog.is_some()) {
        let fault = Diagnostic::new(Code::GrantsDropped, "asks and grants may be dropped, and are not sent again");
        let label = "they wait as data do, which switches may drop".to_owned();
        out.push(at("control_class", fault, label).help("control_class = \"express\""));
    }
    if let Some(drain) = &packets.drain
        && drain.xon > drain.xoff
    {
        let fault = Diagnostic::new(Code::BadThresholds, "`endpoint.rx_xon` is above `endpoint.rx_xoff`");
        let label = format!("{}, and rx_xoff is {}", drain.xon, drain.xoff);
        out.push(at("endpoint.rx_xon", fault, label).help("rx_xon is where the port may go on, below rx_xoff"));
    }
}

/// The node of a key, `ecn.kmin`.
fn node<'a>(table: &'a Table, key: &str) -> Option<&'a Node> {
    if let Some((name, inner)) = key.strip_prefix("class.").and_then(member) {
        let named = |item: &&Table| item.get("name").and_then(Node::as_text).map(str::trim) == Some(name);
        let mut members = table.get("class")?.as_array()?.iter().filter_map(Node::as_table);
        return members.find(named).and_then(|class| node(class, inner)).or_else(|| node(table, inner));
    }
    let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    let found = table.get(first)?;
    match rest {
        Some(rest) => node(found.as_table()?, rest),
        None => Some(found),
    }
}

/// `train.ecn.kmin` is the key `ecn.kmin` of the class `train`; a name may have dots itself.
fn member(key: &str) -> Option<(&str, &str)> {
    let at = key.find(".ecn.").or_else(|| key.rfind('.'))?;
    Some((&key[..at], &key[at + 1..]))
}

type At<'a> = dyn Fn(&str, Diagnostic, String) -> Diagnostic + 'a;

/// The key of a class's marks as it is written: its own, or that of all.
fn named(packets: &Packets, class: &Class, key: &str) -> String {
    if packets.has_named_classes() { format!("class.{}.ecn.{key}", class.name) } else { format!("ecn.{key}") }
}

fn marking(packets: &Packets, class: &Class, at: &At<'_>, out: &mut Diagnostics) {
    if let Marking::Red { kmin, kmax, .. } = class.spec.marking
        && kmin > kmax
    {
        let key = named(packets, class, "kmin");
        let fault =
            Diagnostic::new(Code::BadThresholds, format!("`{key}` is above `{}`", named(packets, class, "kmax")));
        out.push(at(&key, fault, format!("{kmin} B, and kmax is {kmax} B")).help("kmin is where marks begin"));
    }
}

/// Whether what queue pairs do fits the network.
fn carried(packets: &Packets, way: &Carried, loses: bool, at: &At<'_>, out: &mut Diagnostics) {
    let Some(class) = packets.classes.get(way.asked.class) else { return };
    if way.flow.paths != Paths::Pinned && way.flow.recovery != Recovery::Selective {
        let fault = Diagnostic::new(
            Code::ReorderedPaths,
            "these paths reorder packets, and the receiver takes gaps for losses",
        );
        out.push(
            at("recovery", fault, "selective recovery keeps what comes early".to_owned())
                .help("recovery = \"selective\""),
        );
    }
    if loses && way.flow.recovery == Recovery::None {
        let fault = Diagnostic::new(Code::Unprotected, "packets are lost, and nothing sends them again");
        let label = "messages that lose a packet never arrive".to_owned();
        out.push(at("recovery", fault, label).help("recovery = \"selective\""));
    }
    if let Some(rto) = way.flow.timeout
        && rto < packets.reach.round_trip
    {
        let fault = Diagnostic::new(Code::EarlyTimeout, "senders go back before an acknowledgement can have come");
        let label = format!("an unloaded round trip of the longest path takes {}", packets.reach.round_trip);
        out.push(at("rto", fault, label).help("rto = \"67 ms\", the default"));
    }
    let facts = way.rate.facts();
    if facts.hears_marks && class.spec.marking == Marking::Off {
        let message = format!("`{}` waits for marks, and nothing marks", way.rate_control_name);
        let fault = Diagnostic::new(Code::DeafControl, message);
        out.push(at("ecn.marking", fault, "no queue marks".to_owned()).help("[transport.ecn] marking = \"red\""));
    }
    let lossy = matches!(packets.flow_control, FlowControlSpec::Shared(_)) && !class.spec.lossless;
    if lossy && !facts.slows_down && way.flow.window == u64::MAX {
        let fault = Diagnostic::new(Code::Unprotected, "packets are dropped, and nothing slows senders down");
        let label = "neither pauses, nor a rate control that hears marks or delays".to_owned();
        out.push(at("flow_control", fault, label).help("rate_control = \"dcqcn-firmware\", or flow_control = \"pfc\""));
    }
}

fn credits(packets: &Packets, at: &At<'_>, out: &mut Diagnostics) {
    let (FlowControlSpec::Credits(credits), reach) = (&packets.flow_control, &packets.reach) else { return };
    let need = Bytes::new(reach.packet.get().div_ceil(64) * 64);
    let least = packets.classes.iter().filter_map(|class| Some((class, class.credits?))).min_by_key(|(_, own)| *own);
    let all = packets.classes.iter().all(|class| class.credits.is_some());
    let (key, have) = match least {
        Some((class, own)) if all || own < credits.buffer || own > MOST_CREDIT => {
            (format!("class.{}.credits", class.name), own)
        }
        _ => ("credits.per_lane".to_owned(), credits.buffer),
    };
    let key = key.as_str();
    if have < need || have > MOST_CREDIT {
        let fault =
            Diagnostic::new(Code::BufferTooSmall, "credits must hold one packet, and at most 2,048 blocks of 64 B");
        let label = format!("{have}; a full packet takes {need}, and {MOST_CREDIT} is the most");
        out.push(at(key, fault, label).help(format!("per_lane = \"{MOST_CREDIT}\"")));
        return;
    }
    let cost = reach.fastest.ps_per_byte();
    let wire = Bytes::new(u64::from(credits.wire));
    let round = reach.longest + reach.longest + credits.release + cost.cost(wire) + cost.cost(reach.packet);
    // Credits come by whole packets: what a lane holds of them counts.
    let whole = have.get() / need.get() * reach.packet.get();
    let rate = whole as f64 / (round.as_us() * 1e-6) * 8.0 / 1e9;
    let line = reach.fastest.as_gbyte() * 8.0;
    if rate < line * 0.995 {
        let fault = Diagnostic::new(
            Code::CreditsShort,
            format!("credits let a link carry {} of {line:.0} Gb/s", rate_text(rate)),
        );
        let label = format!("{have} of credits come round in {round}");
        let more = cost.bytes_in(round);
        let help = format!("{more} would fill the longest link; shorter cables need less");
        out.push(at(key, fault, label).help(help));
    }
}

fn shared(packets: &Packets, shared: &SharedSpec, places: &Places, at: &At<'_>, out: &mut Diagnostics) {
    let (size, packet) = (Bytes::new(shared.size), packets.reach.packet);
    if size < packet {
        let fault = Diagnostic::new(Code::BufferTooSmall, "a switch's buffer holds no packet");
        out.push(at("buffer.size", fault, format!("{size}; a full packet takes {packet}")));
        return;
    }
    let lossless = packets.classes.iter().filter(|class| class.spec.lossless).count();
    if shared.lossy_alpha == 0 && lossless < packets.classes.len() {
        let fault = Diagnostic::new(Code::BadThresholds, "`buffer.alpha_lossy` gives queues nothing");
        out.push(at("buffer.alpha_lossy", fault, "above 0 is due".to_owned()));
    }
    if packets.flow_control_name != "pfc" || lossless == 0 {
        return;
    }
    // Each lane of a lossless class has a reserve and headroom of its own.
    let inputs = most_inputs(places) * (lossless * usize::from(packets.lanes)) as u64;
    let aside = inputs.saturating_mul(shared.headroom.saturating_add(shared.reserve));
    let pause_at = match shared.threshold {
        Threshold::Static { xoff, xon } => {
            if xon >= xoff {
                let fault = Diagnostic::new(Code::BadThresholds, "`pfc.xon` is not below `pfc.xoff`");
                out.push(at("pfc.xon", fault, format!("{xon} B, and xoff is {xoff} B")));
                return;
            }
            if xon == 0 {
                let fault = Diagnostic::new(Code::BadThresholds, "`pfc.xon` is 0: a pause would never end");
                let label = format!("an input resumes when it holds less than xon; xoff is {}", Bytes::new(xoff));
                out.push(at("pfc.xon", fault, label).help("without `xon` it is `xoff` less two packets"));
                return;
            }
            if xoff > shared.size {
                let fault = Diagnostic::new(Code::BufferOvercommitted, "`pfc.xoff` is above the buffer");
                out.push(at("pfc.xoff", fault, format!("{} of {size}", Bytes::new(xoff))));
                return;
            }
            // What fills the buffer exactly does no harm: nothing is shared.
            if aside > shared.size {
                out.push(overcommitted(packets, shared, inputs, aside, at));
                return;
            }
            xoff
        }
        Threshold::Dynamic { alpha, .. } => {
            if alpha == 0 {
                let fault = Diagnostic::new(Code::BadThresholds, "`pfc.alpha` pauses inputs at nothing");
                out.push(at("pfc.alpha", fault, "above 0 is due".to_owned()));
                return;
            }
            if aside >= shared.size {
                out.push(overcommitted(packets, shared, inputs, aside, at));
                return;
            }
            // With a queue of the highest `kmin`.
            let kmins =
                packets.classes.iter().filter(|class| class.spec.lossless).map(|class| kmin(class).unwrap_or(0));
            let free = (shared.size - aside).saturating_sub(kmins.max().unwrap_or(0));
            u64::try_from((u128::from(free) * u128::from(alpha)) >> 16).unwrap_or(u64::MAX) + shared.reserve
        }
    };
    if let Some((have, need)) = queues::needed(&packets.flow_control, &packets.reach)
        && have < need
    {
        let fault = Diagnostic::new(Code::HeadroomSmall, "the headroom is smaller than what can still arrive");
        let label = format!("{have}; {need} can arrive before a pause acts");
        out.push(at("pfc.headroom", fault, label).help("leave it out to have what the longest link needs"));
    }
    for class in packets.classes.iter().filter(|class| class.spec.lossless) {
        let Some(kmin) = kmin(class).filter(|kmin| *kmin > pause_at) else { continue };
        let fault = Diagnostic::new(Code::MarksAfterPauses, "inputs are paused before anything is marked");
        let label = format!("marks begin at {kmin} B, and a single input is paused at {pause_at} B");
        let bound = marks_first(shared, aside, inputs, pause_at);
        let key = named(packets, class, "kmin");
        out.push(at(&key, fault, label).help(format!("below {bound} B marks come first whatever the traffic")));
    }
}

/// The depth at which marks of a class begin.
fn kmin(class: &Class) -> Option<u64> {
    if let Marking::Red { kmin, .. } = class.spec.marking { Some(u64::from(kmin)) } else { None }
}

/// A rate of `gbit` Gb/s with its unit, so that a slow one is not shown as 0 nor one below the line as the line.
fn rate_text(gbit: f64) -> String {
    match gbit {
        g if g >= 1.0 => format!("{g:.1} Gb/s"),
        g if g >= 1e-3 => format!("{:.1} Mb/s", g * 1e3),
        g => format!("{:.1} kb/s", g * 1e6),
    }
}

/// That headroom and reserve of `inputs`, `aside` together, leave nothing of the buffer.
fn overcommitted(packets: &Packets, shared: &SharedSpec, inputs: u64, aside: u64, at: &At<'_>) -> Diagnostic {
    let [headroom, reserve, aside, size] = [shared.headroom, shared.reserve, aside, shared.size].map(Bytes::new);
    let what = if packets.classes.len() * usize::from(packets.lanes) > 1 { "inputs and classes" } else { "inputs" };
    let message = format!(
        "{inputs} {what} x ({headroom} of headroom + {reserve} of reserve) are {aside}, and a switch has {size}"
    );
    let fault = Diagnostic::new(Code::BufferOvercommitted, message);
    let most = (shared.size / inputs.max(1)).saturating_sub(shared.reserve);
    let (key, help) = match most {
        0 => ("pfc.reserve", "a smaller reserve".to_owned()),
        most => ("pfc.headroom", format!("less than {} of headroom fit", Bytes::new(most))),
    };
    at(key, fault, "nothing is left to share".to_owned()).help(help)
}

/// The most inputs of a switch.
fn most_inputs(places: &Places) -> u64 {
    let mut inputs = vec![0u64; places.devices.len()];
    for link in &places.links {
        inputs[link.far as usize] += 1;
    }
    let switches = inputs.iter().zip(&places.endpoints).filter(|(_, endpoint)| !**endpoint);
    switches.map(|(inputs, _)| *inputs).max().unwrap_or(0)
}

/// The `kmin` below which marks come first whatever the traffic: an input whose packets are spread over all queues.
fn marks_first(shared: &SharedSpec, aside: u64, inputs: u64, pause_at: u64) -> u64 {
    match shared.threshold {
        Threshold::Static { .. } => pause_at / inputs.max(1),
        Threshold::Dynamic { alpha, .. } => {
            ecn_bound((shared.size - aside) as f64, inputs as f64, alpha as f64 / 65_536.0) as u64
        }
    }
}

/// `a B / (q (1 + a))` for `q` queues that share `free` bytes, of which an input is paused at the share `a`: DCQCN (SIGCOMM 2015),
/// section 4, for one class. With its eight classes `q = 8 n` and `a` is theirs together.
fn ecn_bound(free: f64, queues: f64, share: f64) -> f64 {
    share * free / (queues.max(1.0) * (1.0 + share))
}

/// A table of a flow control that is not in force.
fn other_flow_control(packets: &Packets, table: &Table, out: &mut Diagnostics) {
    let word = packets.flow_control_name;
    for (key, ours) in
        [("pfc", word == "pfc"), ("credits", word == "credits"), ("buffer", matches!(word, "pfc" | "drop"))]
    {
        let Some(entry) = table.entry(key).filter(|_| !ours) else { continue };
        let Some(first) = own(entry, out).first().copied() else { continue };
        let message = format!("`[transport.{key}]` does not belong to flow_control = \"{word}\"");
        let mut fault = Diagnostic::new(Code::OtherFlowControl, message);
        fault = fault.at(first.key_place.clone(), "set for another flow control");
        if let Some(node) = table.get("flow_control") {
            fault = fault.related(node.place.clone(), "in force is this one");
        }
        let other = if key == "buffer" { "pfc" } else { key };
        out.push(fault.help(format!("flow_control = \"{other}\", or take the table out")));
    }
}

/// The entries of a table that the scenario itself wrote, and not its preset.
fn own<'a>(entry: &'a Entry, out: &Diagnostics) -> Vec<&'a Entry> {
    let entries = match &entry.node.value {
        Value::Table(inner) => inner.entries.iter().collect(),
        _ => vec![entry],
    };
    let of_preset = |e: &&Entry| transport_preset::is_preset(out.sources.name(e.node.place.source)).is_some();
    entries.into_iter().filter(|e| !of_preset(e)).collect()
}

/// Keys of the scenario that nothing asked for.
fn without_effect(packets: &Packets, table: &Table, out: &mut Diagnostics) {
    for entry in &table.entries {
        let key = entry.key.as_str();
        if key == "preset" || WITHOUT.contains(&key) {
            continue;
        }
        if key == "class" {
            classes_without_effect(packets, entry, out);
            continue;
        }
        // Told already.
        if key == "lanes" {
            continue;
        }
        let inner = entry.node.as_table().is_some();
        let other = matches!(
            (key, packets.flow_control_name),
            ("pfc", "drop" | "credits" | "none")
                | ("credits", "pfc" | "drop" | "none")
                | ("buffer", "credits" | "none")
        );
        // Told already.
        if other {
            continue;
        }
        for written in own(entry, out) {
            let name = if inner { format!("{key}.{}", written.key) } else { key.to_owned() };
            // Marks that each class has otherwise are some class's none the less.
            let is_read =
                |p: &Parameter| p.name == name || p.name.starts_with("class.") && p.name.ends_with(&format!(".{name}"));
            if packets.parameters.iter().any(is_read) {
                continue;
            }
            let fault = Diagnostic::new(Code::NoEffect, format!("`{name}` has no effect"));
            let label = format!(
                "not with flow_control = \"{}\" and rate_control = \"{}\"",
                packets.flow_control_name, packets.rate_control_name
            );
            out.push(fault.at(written.key_place.clone(), label));
        }
    }
}

/// Keys of classes that nothing asked for, and classes that nothing goes by.
fn classes_without_effect(packets: &Packets, entry: &Entry, out: &mut Diagnostics) {
    let members = entry.node.as_array().unwrap_or(&[]).iter().filter_map(Node::as_table);
    for (at, (table, class)) in members.zip(&packets.classes).enumerate() {
        for written in &table.entries {
            let inner = written.node.as_table().map_or(&[][..], |table| &table.entries[..]);
            for key in inner {
                let name = format!("class.{}.{}.{}", class.name, written.key, key.key);
                if packets.parameters.iter().all(|p| p.name != name) {
                    let fault = Diagnostic::new(Code::NoEffect, format!("`{}.{}` has no effect", written.key, key.key));
                    out.push(fault.at(key.key_place.clone(), "not with this marking"));
                }
            }
        }
        let used = packets.ways.iter().any(|way| way.asked.class == at && (at > 0 || way.place.is_some()))
            || at == 0
            || packets.control == Controls::Class(at as u8 * packets.lanes);
        if !used && let Some(node) = table.get("name") {
            let fault = Diagnostic::new(Code::NoEffect, format!("nothing goes by the class `{}`", class.name));
            out.push(
                fault
                    .at(node.place.clone(), "no workload names it")
                    .help(format!("[[workload]] class = \"{}\"", class.name)),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DCQCN, SIGCOMM 2015: 12 MB, 32 ports, 8 classes, 22.4 KB of headroom, beta 8.
    #[test]
    fn the_papers_bound_on_marks() {
        let free = 12e6 - 8.0 * 32.0 * 22_400.0;
        assert!((ecn_bound(free, 256.0, 8.0) / 21_756.0 - 1.0).abs() < 0.001);
        assert!((free / 256.0 / 24_475.0 - 1.0).abs() < 0.001);
    }
}
