//! A collective operation over a sweep of sizes.

use sim_collectives::algorithms::{Name, by_name};
use sim_collectives::nccl::{Algorithm as Library, Datatype, Operation, Protocol, Reduction};
use sim_core::units::Bytes;
use sim_topology::Fabric;

use super::super::quantity;
use super::super::tree::Node;
use super::super::view::View;
use super::group::group;
use super::traffic::{self, Uneven};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place};

/// A collective operation, run at each of some sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Collective {
    /// The name in results.
    pub name: Option<String>,
    /// The operation.
    pub op: Operation,
    /// The sizes as nccl-tests counts them, in the order to run.
    pub sizes: Vec<Bytes>,
    /// Type of the elements.
    pub datatype: Datatype,
    /// The name of this type in nccl-tests.
    pub type_name: String,
    /// The operator of a reduction.
    pub reduction: Reduction,
    /// Its name in nccl-tests.
    pub reduction_name: String,
    /// The GPUs that take part, by rank number; rank i of the operation is `group[i]`.
    pub group: Vec<u32>,
    /// The root, as an index into `group`.
    pub root: u32,
    /// A forced algorithm.
    pub algorithm: Option<Name>,
    /// A forced protocol.
    pub protocol: Option<Protocol>,
    /// A forced number of channels.
    pub channels: Option<u32>,
    /// Operations that are timed, back to back.
    pub iterations: u32,
    /// Operations before those that are timed.
    pub warmup: u32,
    /// What goes where.
    pub uneven: Uneven,
    /// Whether it runs at the same time as the collective before it.
    pub with_previous: bool,
    /// How its packets are carried: the number of one of [`Packets::ways`](crate::scenario::Packets).
    pub way: u16,
    /// Where the scenario says what to run: the forced algorithm or protocol, else the operation.
    pub place: Option<Place>,
}

/// Reads and checks a collective; without a fabric only what needs none.
pub(super) fn collective(view: &View<'_>, fabric: Option<&Fabric>, out: &mut Diagnostics) -> Option<Collective> {
    let op: Option<Operation> = view.choice("op").and_then(|op| op.parse().ok());
    let sizes = sizes(view, op, out);
    exclusive(view, "group", &["ranks"], out);
    let fabric = fabric?;
    let group = group(view, fabric, out)?;
    let root: u32 = view.integer("root")?;
    if root as usize >= group.len() {
        let fault = Diagnostic::new(Code::OutOfRange, format!("root {root} of a group of {}", group.len()));
        let fault = match view.node("root") {
            Some(node) => fault.at(node.place.clone(), format!("0 to {}", group.len() - 1)),
            None => fault,
        };
        out.push(fault);
        return None;
    }
    let op = op?;
    without_effect(view, op, out);
    let uneven = traffic::uneven(view, op, group.len() as u32, out)?;
    let sizes = uneven.size(group.len() as u32).map(|size| vec![size]).or(sizes);
    Some(Collective {
        name: view.text("name").map(str::to_owned),
        op,
        sizes: sizes?,
        datatype: datatype(view.choice("datatype").unwrap_or_default()),
        type_name: view.choice("datatype").unwrap_or_default().to_owned(),
        reduction: reduction(view.choice("reduction").unwrap_or_default()),
        reduction_name: view.choice("reduction").unwrap_or_default().to_owned(),
        group,
        root,
        algorithm: view.choice("algorithm").and_then(|t| t.parse().ok()),
        protocol: view.choice("protocol").and_then(|t| t.parse().ok()),
        channels: view.integer("channels"),
        iterations: view.integer("iterations")?,
        warmup: view.integer("warmup")?,
        uneven,
        with_previous: view.boolean("with_previous"),
        way: 0,
        place: ["algorithm", "protocol", "op"].iter().find_map(|key| Some(view.node(key)?.place.clone())),
    })
}

/// Warns of what is forced on an operation that has no such choice.
fn without_effect(view: &View<'_>, op: Operation, out: &mut Diagnostics) {
    // An algorithm of sends and receives is the same whatever it is called.
    let named = view.choice("algorithm").and_then(by_name);
    let messages = op.is_point_to_point() && named.is_some_and(|a| a.name().parse::<Library>().is_ok());
    let only = |key: &'static str, whose: &'static str, yes: bool| (!yes).then_some((key, whose));
    let experts = matches!(op, Operation::Dispatch | Operation::Combine);
    let (of_v, of_experts) = ("it is for alltoallv", "it is for dispatch and combine");
    let idle = [
        messages.then_some(("algorithm", "it is made of sends and receives, which know none of NCCL's algorithms")),
        (op == Operation::SendRecv).then_some(("channels", "a message takes as many channels as it has parts")),
        only("matrix", of_v, op == Operation::AllToAllV),
        only("skew", of_v, op == Operation::AllToAllV),
        only("tokens", of_experts, experts),
        only("hidden", of_experts, experts),
        only("experts", of_experts, experts),
        only("top_k", of_experts, experts),
        only("top_nodes", of_experts, experts),
        only("reduction", "it reduces nothing", op.reduces()),
        only("sizes", "a barrier has no size", op != Operation::Barrier),
        only("min", "a barrier has no size", op != Operation::Barrier),
        only("max", "a barrier has no size", op != Operation::Barrier),
    ];
    let idle = idle.into_iter().flatten();
    for (key, why) in idle {
        if let Some(node) = view.node(key) {
            let fault = Diagnostic::new(Code::NoEffect, format!("`{key}` has no effect on {op}"));
            out.push(fault.at(node.place.clone(), why));
        }
    }
}

/// nccl-tests' name as the operator that decisions depend on: `mulsum` is made like an average, each element is multiplied
/// before it is added.
pub(crate) fn reduction(name: &str) -> Reduction {
    match name {
        "prod" => Reduction::Prod,
        "min" => Reduction::Min,
        "max" => Reduction::Max,
        "avg" | "mulsum" => Reduction::Avg,
        _ => Reduction::Sum,
    }
}

/// nccl-tests' name as the type that decisions depend on; signed and unsigned are alike.
fn datatype(name: &str) -> Datatype {
    match name {
        "int8" | "uint8" => Datatype::Int8,
        "int32" | "uint32" => Datatype::Int32,
        "int64" | "uint64" => Datatype::Int64,
        "f8e4m3" | "f8e5m2" => Datatype::Fp8,
        "half" => Datatype::Half,
        "bfloat16" => Datatype::Bfloat16,
        "double" => Datatype::Double,
        _ => Datatype::Float,
    }
}

/// Reports keys that cannot stand beside `key`.
pub(in crate::scenario) fn exclusive(view: &View<'_>, key: &str, others: &[&str], out: &mut Diagnostics) {
    let Some(first) = view.node(key) else { return };
    for other in others {
        if let Some(node) = view.node(other) {
            let fault = Diagnostic::new(Code::Exclusive, format!("`{key}` and `{other}` exclude each other"));
            let fault = fault.at(node.place.clone(), format!("with `{key}` given, this says it twice"));
            out.push(fault.related(first.place.clone(), format!("`{key}` is here")).help("take one of them out"));
        }
    }
}

fn sizes(view: &View<'_>, op: Option<Operation>, out: &mut Diagnostics) -> Option<Vec<Bytes>> {
    exclusive(view, "sizes", &["min", "max", "factor"], out);
    exclusive(view, "tokens", &["sizes", "min", "max", "factor"], out);
    if op == Some(Operation::Barrier) {
        return Some(vec![Bytes::ZERO]);
    }
    if let (Some(Operation::Dispatch | Operation::Combine), Some(tokens)) = (op, view.integer::<u64>("tokens")) {
        let datatype = datatype(view.choice("datatype").unwrap_or_default());
        let token = traffic::token(view.integer("hidden")?, datatype.bytes(), datatype == Datatype::Fp8);
        let size = Bytes::new(tokens.saturating_mul(token));
        if size > quantity::MOST_BYTES {
            out.push(quantity::too_large("tokens", view.node("tokens")?.place.clone()));
            return None;
        }
        return Some(vec![size]);
    }
    if let Some(node) = view.node("sizes") {
        let list: Vec<Bytes> = view.items("sizes").iter().filter_map(quantity::size).collect();
        if node.as_array().is_some_and(<[Node]>::is_empty) {
            out.push(Diagnostic::new(Code::OutOfRange, "no sizes").at(node.place.clone(), "at least one size is due"));
        }
        return Some(list).filter(|list| !list.is_empty());
    }
    let (min, max, factor): (Bytes, Bytes, u64) = (view.size("min")?, view.size("max")?, view.integer("factor")?);
    let place = || view.node("min").or(view.node("max")).map(|n| n.place.clone());
    let complain = |message: String, label: &str, out: &mut Diagnostics| {
        let fault = Diagnostic::new(Code::OutOfRange, message);
        out.push(match place() {
            Some(place) => fault.at(place, label),
            None => fault,
        });
        None
    };
    if min > max {
        return complain(format!("the sweep begins at {min} and ends at {max}"), "`min` is above `max`", out);
    }
    if min == Bytes::ZERO && max > Bytes::ZERO {
        return complain("a sweep by a factor cannot begin at zero".to_owned(), "write \"8 B\"", out);
    }
    Some(sweep(min, max, factor))
}

/// min, min·factor, min·factor², ... up to max.
fn sweep(min: Bytes, max: Bytes, factor: u64) -> Vec<Bytes> {
    let next = |size: &Bytes| size.get().checked_mul(factor).filter(|n| *n > size.get()).map(Bytes::new);
    core::iter::successors(Some(min), next).take_while(|size| *size <= max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sweeps() {
        let sizes = |min, max, factor| sweep(Bytes::new(min), Bytes::new(max), factor).len();
        assert_eq!(sizes(8, 4 << 30, 2), 30);
        assert_eq!(sizes(8, 8, 2), 1);
        assert_eq!(sizes(0, 0, 2), 1);
        assert_eq!(sizes(8, 9, 8), 1);
    }

    proptest! {
        #[test]
        fn sweeps_end(min in 1u64.., span in 0u64.., factor in 2u64..) {
            let list = sweep(Bytes::new(min), Bytes::new(min.saturating_add(span)), factor);
            prop_assert!(!list.is_empty() && list.len() <= 64);
            prop_assert!(list.windows(2).all(|w| w[0] < w[1]));
        }
    }
}
