//! Point-to-point transfers: a list or a pattern.

use sim_core::random::{mix, stream};
use sim_core::units::{Bytes, Rate, Span};
use sim_topology::{DeviceId, DeviceKind, Fabric, HostUse, RouteRequest, Via};

use super::super::Packets;
use super::super::keys::TRANSFER_ITEM;
use super::super::tree::Node;
use super::super::view::View;
use super::collective::exclusive;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place};

/// Transfers that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfers {
    /// The name in results.
    pub name: Option<String>,
    /// Played at the same time as those of the workload before.
    pub with_previous: bool,
    /// Beside a step they begin again when the last has arrived.
    pub repeat: bool,
    /// Who sends what to whom.
    pub traffic: Traffic,
    /// Where the scenario says so.
    pub place: Option<Place>,
}

/// Who sends what to whom.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// Each transfer by itself.
    List(Vec<Transfer>),
    /// Transfers of one size that start at one time, each between two ranks.
    Pairs {
        /// Sender and receiver.
        pairs: Vec<(DeviceId, DeviceId)>,
        /// Size of each.
        bytes: Bytes,
        /// When they start.
        start: Span,
        /// How they are carried.
        way: Way,
    },
    /// Each rank to every other, in the order of the sender, then of the distance.
    AllToAll {
        /// The GPUs, in order of rank.
        ranks: Vec<DeviceId>,
        /// Size of each.
        bytes: Bytes,
        /// When they start.
        start: Span,
        /// How they are carried.
        way: Way,
    },
}

/// How a transfer is carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Over what.
    pub via: Carrier,
    /// What host memory holds before it passes it on, where data stop over in it.
    pub staging: Option<Bytes>,
    /// How its packets are carried: the number of one of [`Packets::ways`](crate::scenario::Packets).
    pub packets: u16,
    /// Queue pairs over which it is spread, if not as many as the transport has.
    pub qps: Option<u16>,
    /// The NICs of both ends, if they are not to be the nearest.
    pub nics: Option<(DeviceId, DeviceId)>,
    /// The rate at which its sender posts it, if that bounds it.
    pub pace: Option<Rate>,
    /// Time before its first byte.
    pub launch: Span,
}

impl Way {
    /// The route that is asked for.
    #[must_use]
    pub const fn request(self, src: DeviceId, dst: DeviceId) -> RouteRequest {
        let request = self.via.request(src, dst);
        match self.nics {
            Some((src, dst)) => request.via(Via::Nics { src, dst }),
            None => request,
        }
    }
}

/// What carries a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carrier {
    /// As the hardware would.
    #[default]
    Auto,
    /// Without a stop in host memory, whatever the distance: peer-to-peer, GPUDirect RDMA, GPUDirect Storage.
    Direct,
    /// By way of host memory.
    Host,
    /// The copy engine between host and GPU memory, with the time that its launch takes.
    Memcpy,
    /// The CPU through a mapping of GPU memory.
    Gdrcopy,
    /// NVLink.
    Nvlink,
    /// PCIe, though there is NVLink.
    Pcie,
}

impl Carrier {
    fn of(word: &str) -> Self {
        match word {
            "direct" => Self::Direct,
            "host" => Self::Host,
            "memcpy" => Self::Memcpy,
            "gdrcopy" => Self::Gdrcopy,
            "nvlink" => Self::Nvlink,
            "pcie" => Self::Pcie,
            _ => Self::Auto,
        }
    }

    /// The catalogue's name of the software that copies, if there is one.
    #[must_use]
    pub const fn copy_way(self) -> Option<&'static str> {
        match self {
            Self::Memcpy => Some("memcpy"),
            Self::Gdrcopy => Some("gdrcopy"),
            _ => None,
        }
    }

    /// The route that is asked for.
    #[must_use]
    pub const fn request(self, src: DeviceId, dst: DeviceId) -> RouteRequest {
        let auto = RouteRequest::auto(src, dst);
        match self {
            Self::Auto | Self::Memcpy | Self::Gdrcopy => auto,
            Self::Direct => auto.host(HostUse::Never),
            Self::Host => auto.host(HostUse::Always),
            Self::Nvlink => auto.via(Via::NvlinkOnly),
            Self::Pcie => auto.via(Via::NoNvlink),
        }
    }
}

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Sender.
    pub src: DeviceId,
    /// Receiver.
    pub dst: DeviceId,
    /// Size.
    pub bytes: Bytes,
    /// When it starts.
    pub start: Span,
    /// How it is carried.
    pub way: Way,
}

impl Traffic {
    /// How many transfers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Pairs { pairs, .. } => pairs.len(),
            Self::AllToAll { ranks, .. } => ranks.len() * ranks.len().saturating_sub(1),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The transfers, one by one.
    pub fn iter(&self) -> Box<dyn Iterator<Item = Transfer> + '_> {
        match self {
            Self::List(list) => Box::new(list.iter().copied()),
            Self::Pairs { pairs, bytes, start, way } => Box::new(pairs.iter().map(|&(src, dst)| {
                let (bytes, start, way) = (*bytes, *start, *way);
                Transfer { src, dst, bytes, start, way }
            })),
            Self::AllToAll { ranks, bytes, start, way } => {
                let n = ranks.len();
                Box::new((0..n).flat_map(move |i| {
                    (1..n).map(move |d| Transfer {
                        src: ranks[i],
                        dst: ranks[(i + d) % n],
                        bytes: *bytes,
                        start: *start,
                        way: *way,
                    })
                }))
            }
        }
    }
}

/// The checks that need no fabric.
pub(super) fn shape(view: &View<'_>, item: &Node, out: &mut Diagnostics) {
    exclusive(
        view,
        "list",
        &["pattern", "size", "ranks", "endpoints", "target", "shift", "start", "via", "staging"],
        out,
    );
    let complain = |message: &str, label: &str, help: &str, out: &mut Diagnostics| {
        out.push(Diagnostic::new(Code::MissingKey, message).at(item.place.clone(), label).help(help));
    };
    match (view.node("list"), view.node("pattern")) {
        (None, None) => complain(
            "a transfer needs a `list` or a `pattern`",
            "neither is here",
            "pattern = \"all_to_all\" and size = \"1 MiB\", or list = [{ src = 0, dst = 8, bytes = \"1 MiB\" }]",
            out,
        ),
        (None, Some(_)) if !view.has("size") => {
            complain(
                "`size` is missing",
                "this pattern lacks `size`",
                "size = \"1 MiB\": the bytes of each transfer",
                out,
            );
        }
        _ => {}
    }
    for (key, pattern) in [("target", "incast"), ("shift", "shift")] {
        if let (Some(node), Some(found)) = (view.node(key), view.choice("pattern"))
            && found != pattern
        {
            let fault = Diagnostic::new(Code::NoEffect, format!("`{key}` has no effect"));
            out.push(fault.at(node.place.clone(), format!("only the pattern `{pattern}` looks at it")));
        }
    }
}

/// Reads and checks transfers. `number` is the workload's, for its random stream.
pub(super) fn transfers(
    view: &View<'_>,
    item: &Node,
    fabric: &Fabric,
    packets: Option<&Packets>,
    (seed, number): (u64, u64),
    out: &mut Diagnostics,
) -> Option<Transfers> {
    shape(view, item, out);
    let over = super::way(view, None, packets, out);
    let name = view.text("name").map(str::to_owned);
    let with_previous = view.boolean("with_previous");
    let repeat = view.boolean("repeat");
    let place = Some(item.place.clone());
    if let Some(list) = view.node("list") {
        let traffic: Vec<Transfer> =
            view.items("list").iter().filter_map(|entry| one(entry, view, fabric, packets, out)).collect();
        if view.items("list").is_empty() {
            out.push(Diagnostic::new(Code::OutOfRange, "no transfers").at(list.place.clone(), "the list is empty"));
        }
        return Some(Transfers { name, with_previous, repeat, traffic: Traffic::List(traffic), place });
    }
    let pattern = view.choice("pattern")?;
    let (bytes, start, way) = (view.size("size")?, view.time("start")?, way(view, (over, view.integer("qps")), out)?);
    let ranks = match view.choice("endpoints") {
        Some("nics") => nics(view, fabric, out)?,
        _ => {
            let n = super::ranks(view, fabric, 2, out)? as usize;
            fabric.gpus().get(..n)?.to_vec()
        }
    };
    let n = ranks.len();
    let traffic = match pattern {
        "all_to_all" => Traffic::AllToAll { ranks, bytes, start, way },
        "incast" => {
            let target = match view.node("target") {
                Some(node) => super::device(node, fabric, out)?,
                None => ranks[0],
            };
            let pairs = ranks.into_iter().filter(|r| *r != target).map(|r| (r, target)).collect();
            Traffic::Pairs { pairs, bytes, start, way }
        }
        "permutation" => {
            let partner = permutation(n, seed, number);
            Traffic::Pairs { pairs: (0..n).map(|i| (ranks[i], ranks[partner[i]])).collect(), bytes, start, way }
        }
        "shift" => {
            let distance: usize = view.integer::<u32>("shift")? as usize;
            if distance.is_multiple_of(n) {
                let fault = Diagnostic::new(Code::OutOfRange, format!("a shift by {distance} among {n} ranks"));
                let fault = fault.help(format!("use 1 to {}", n - 1));
                out.push(match view.node("shift") {
                    Some(node) => fault.at(node.place.clone(), "every rank would send to itself"),
                    None => fault,
                });
                return None;
            }
            Traffic::Pairs { pairs: (0..n).map(|i| (ranks[i], ranks[(i + distance) % n])).collect(), bytes, start, way }
        }
        _ => return None,
    };
    if let Some(node) = view.node("via") {
        all_carried(&traffic, way.via, fabric, node, out)?;
    }
    Some(Transfers { name, with_previous, repeat, traffic, place })
}

/// The NICs that a pattern is over, node by node.
fn nics(view: &View<'_>, fabric: &Fabric, out: &mut Diagnostics) -> Option<Vec<DeviceId>> {
    let mut all: Vec<DeviceId> = fabric.nodes().iter().flat_map(|node| node.nics.iter().copied()).collect();
    let wanted = view.integer::<u32>("ranks").map_or(all.len(), |n| n as usize);
    if wanted > all.len() || wanted < 2 {
        let message = format!("{wanted} NICs of {} for a pattern", all.len());
        let fault = Diagnostic::new(Code::OutOfRange, message);
        let node = view.node("ranks").or(view.node("endpoints"));
        out.push(match node {
            Some(node) => fault.at(node.place.clone(), format!("2 to {} are possible", all.len())),
            None => fault,
        });
        return None;
    }
    all.truncate(wanted);
    Some(all)
}

/// Pairs up to which those that can't be are counted; beyond, the first is named alone.
const COUNTED: usize = 65_536;

/// Reports the first pair of a pattern that the means doesn't join, with how many there are; `None` if there is one.
fn all_carried(traffic: &Traffic, via: Carrier, fabric: &Fabric, node: &Node, out: &mut Diagnostics) -> Option<()> {
    let mut refused = traffic.iter().filter_map(|t| refusal(via, t.src, t.dst, fabric));
    let Some(first) = refused.next() else { return Some(()) };
    let all = traffic.len();
    let note = (all > 1 && all <= COUNTED).then(|| format!("{} of the {all} pairs are not", refused.count() + 1));
    let fault = first.at(node);
    out.push(match note {
        Some(note) => fault.note(note),
        None => fault,
    });
    None
}

fn one(
    entry: &Node,
    outer: &View<'_>,
    fabric: &Fabric,
    packets: Option<&Packets>,
    out: &mut Diagnostics,
) -> Option<Transfer> {
    let view = View::new(entry.as_table()?, &TRANSFER_ITEM);
    let (from, to) = (view.node("src")?, view.node("dst")?);
    let (src, dst) = (super::device(from, fabric, out), super::device(to, fabric, out));
    let (src, dst) = (src?, dst?);
    if src == dst {
        let fault = Diagnostic::new(Code::OutOfRange, format!("{} would send to itself", fabric.device(src).name));
        out.push(fault.at(to.place.clone(), "the same device as `src`"));
        return None;
    }
    let over = super::way(&view, Some(outer), packets, out);
    let way = way(&view, (over, view.integer("qps").or(outer.integer("qps"))), out)?;
    if let Some(node) = view.node("via") {
        carried(way.via, src, dst, fabric, node, out)?;
    }
    Some(Transfer { src, dst, bytes: view.size("bytes")?, start: view.time("start")?, way })
}

/// The keys `via` and `staging`, beside the way in which its packets are carried.
fn way(view: &View<'_>, (packets, qps): (u16, Option<u16>), out: &mut Diagnostics) -> Option<Way> {
    let via = Carrier::of(view.choice("via")?);
    let staging = view.size("staging");
    if let (Some(node), Some(size)) = (view.node("staging"), staging) {
        if size > Bytes::gib(1) || size < Bytes::kib(4) {
            let fault = Diagnostic::new(Code::OutOfRange, "`staging` is out of range");
            out.push(fault.at(node.place.clone(), format!("{size}; 4 KiB to 1 GiB are possible")));
            return None;
        }
        if !matches!(via, Carrier::Auto | Carrier::Host) {
            let fault = Diagnostic::new(Code::NoEffect, "`staging` has no effect");
            out.push(fault.at(node.place.clone(), "these data do not stop over in host memory"));
        }
    }
    Some(Way { via, staging, packets, qps, ..Way::default() })
}

/// Reports a means that there is not between two devices; `None` if so.
fn carried(
    via: Carrier,
    src: DeviceId,
    dst: DeviceId,
    fabric: &Fabric,
    node: &Node,
    out: &mut Diagnostics,
) -> Option<()> {
    match refusal(via, src, dst, fabric) {
        None => Some(()),
        Some(refusal) => {
            out.push(refusal.at(node));
            None
        }
    }
}

/// Why a means can't carry from one device to another.
struct Refusal {
    message: String,
    label: String,
    help: &'static str,
}

impl Refusal {
    fn at(self, node: &Node) -> Diagnostic {
        Diagnostic::new(Code::NoPath, self.message).at(node.place.clone(), self.label).help(self.help)
    }
}

fn refusal(via: Carrier, src: DeviceId, dst: DeviceId, fabric: &Fabric) -> Option<Refusal> {
    let (a, b) = (fabric.device(src), fabric.device(dst));
    let refusal = |label: String, help: &'static str| {
        Some(Refusal { message: format!("{} to {} is not possible so", a.name, b.name), label, help })
    };
    let between = |one, other| (a.kind == one && b.kind == other) || (a.kind == other && b.kind == one);
    if via.copy_way().is_some() && (a.node != b.node || !between(DeviceKind::Gpu, DeviceKind::HostMemory)) {
        let label = "it copies between a GPU and the host memory of its node";
        return refusal(label.to_owned(), "list = [{ src = \"node0.memory0\", dst = \"node0.gpu0\", ... }]");
    }
    let error = fabric.route(&via.request(src, dst)).err()?;
    refusal(error.to_string(), "via = \"auto\" takes what there is")
}

/// A permutation of n ranks without fixed points, one cycle of all (S. Sattolo, Information Processing Letters 22, 1986).
fn permutation(n: usize, seed: u64, number: u64) -> Vec<usize> {
    use rand::Rng as _;
    let mut random = stream(seed, "permutation", mix(number));
    let mut partner: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        // A multiple of 2^64 / i too small by at most i/2^64: no bias that could be seen.
        let j = ((u128::from(random.next_u64()) * i as u128) >> 64) as usize;
        partner.swap(i, j);
    }
    partner
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn permutations_have_no_fixed_point(n in 2usize..200, seed in any::<u64>(), number in 0u64..9) {
            let partner = permutation(n, seed, number);
            prop_assert!(partner.iter().enumerate().all(|(i, p)| i != *p));
            let mut sorted = partner.clone();
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..n));
            prop_assert_eq!(partner, permutation(n, seed, number));
        }
    }

    #[test]
    fn all_to_all_meets_every_pair_once() {
        let ranks: Vec<DeviceId> = (0..5).map(DeviceId).collect();
        let traffic = Traffic::AllToAll { ranks, bytes: Bytes::kib(1), start: Span::ZERO, way: Way::default() };
        let mut pairs: Vec<_> = traffic.iter().map(|t| (t.src, t.dst)).collect();
        assert_eq!(pairs.len(), traffic.len());
        pairs.sort();
        pairs.dedup();
        assert_eq!(pairs.len(), 20);
        assert!(pairs.iter().all(|(a, b)| a != b));
    }
}
