//! Point-to-point transfers: a list or a pattern.

use sim_core::random::{mix, stream};
use sim_core::units::{Bytes, Span};
use sim_topology::{DeviceId, Fabric};

use super::super::keys::TRANSFER_ITEM;
use super::super::tree::Node;
use super::super::view::View;
use super::collective::exclusive;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// Transfers that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfers {
    /// The name in results.
    pub name: Option<String>,
    /// Who sends what to whom.
    pub traffic: Traffic,
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
    },
    /// Each rank to every other, in the order of the sender, then of the distance.
    AllToAll {
        /// The GPUs, in order of rank.
        ranks: Vec<DeviceId>,
        /// Size of each.
        bytes: Bytes,
        /// When they start.
        start: Span,
    },
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
            Self::Pairs { pairs, bytes, start } => {
                Box::new(pairs.iter().map(|&(src, dst)| Transfer { src, dst, bytes: *bytes, start: *start }))
            }
            Self::AllToAll { ranks, bytes, start } => {
                let n = ranks.len();
                Box::new((0..n).flat_map(move |i| {
                    (1..n).map(move |d| Transfer {
                        src: ranks[i],
                        dst: ranks[(i + d) % n],
                        bytes: *bytes,
                        start: *start,
                    })
                }))
            }
        }
    }
}

/// The checks that need no fabric.
pub(super) fn shape(view: &View<'_>, item: &Node, out: &mut Diagnostics) {
    exclusive(view, "list", &["pattern", "size", "ranks", "target", "shift", "start"], out);
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
    seed: u64,
    number: u64,
    out: &mut Diagnostics,
) -> Option<Transfers> {
    shape(view, item, out);
    let name = view.text("name").map(str::to_owned);
    if let Some(list) = view.node("list") {
        let traffic: Vec<Transfer> = view.items("list").iter().filter_map(|entry| one(entry, fabric, out)).collect();
        if view.items("list").is_empty() {
            out.push(Diagnostic::new(Code::OutOfRange, "no transfers").at(list.place.clone(), "the list is empty"));
        }
        return Some(Transfers { name, traffic: Traffic::List(traffic) });
    }
    let pattern = view.choice("pattern")?;
    let (bytes, start) = (view.size("size")?, view.time("start")?);
    let n = super::ranks(view, fabric, 2, out)? as usize;
    let ranks = fabric.gpus().get(..n)?.to_vec();
    let traffic = match pattern {
        "all_to_all" => Traffic::AllToAll { ranks, bytes, start },
        "incast" => {
            let target = match view.node("target") {
                Some(node) => super::device(node, fabric, out)?,
                None => ranks[0],
            };
            let pairs = ranks.into_iter().filter(|r| *r != target).map(|r| (r, target)).collect();
            Traffic::Pairs { pairs, bytes, start }
        }
        "permutation" => {
            let partner = permutation(n, seed, number);
            Traffic::Pairs { pairs: (0..n).map(|i| (ranks[i], ranks[partner[i]])).collect(), bytes, start }
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
            Traffic::Pairs { pairs: (0..n).map(|i| (ranks[i], ranks[(i + distance) % n])).collect(), bytes, start }
        }
        _ => return None,
    };
    Some(Transfers { name, traffic })
}

fn one(entry: &Node, fabric: &Fabric, out: &mut Diagnostics) -> Option<Transfer> {
    let view = View::new(entry.as_table()?, &TRANSFER_ITEM);
    let (from, to) = (view.node("src")?, view.node("dst")?);
    let (src, dst) = (super::device(from, fabric, out), super::device(to, fabric, out));
    let (src, dst) = (src?, dst?);
    if src == dst {
        let fault = Diagnostic::new(Code::OutOfRange, format!("{} would send to itself", fabric.device(src).name));
        out.push(fault.at(to.place.clone(), "the same device as `src`"));
        return None;
    }
    Some(Transfer { src, dst, bytes: view.size("bytes")?, start: view.time("start")? })
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
        let traffic = Traffic::AllToAll { ranks, bytes: Bytes::kib(1), start: Span::ZERO };
        let mut pairs: Vec<_> = traffic.iter().map(|t| (t.src, t.dst)).collect();
        assert_eq!(pairs.len(), traffic.len());
        pairs.sort();
        pairs.dedup();
        assert_eq!(pairs.len(), 20);
        assert!(pairs.iter().all(|(a, b)| a != b));
    }
}
