//! A collective operation over a sweep of sizes.

use sim_collectives::nccl::{Algorithm, Datatype, Operation, Protocol};
use sim_core::units::Bytes;
use sim_topology::Fabric;

use super::super::quantity;
use super::super::tree::{Node, Value};
use super::super::view::View;
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
    /// The GPUs that take part, by rank number; rank i of the operation is `group[i]`.
    pub group: Vec<u32>,
    /// The root, as an index into `group`.
    pub root: u32,
    /// A forced algorithm.
    pub algorithm: Option<Algorithm>,
    /// A forced protocol.
    pub protocol: Option<Protocol>,
    /// A forced number of channels.
    pub channels: Option<u32>,
    /// Operations that are timed, back to back.
    pub iterations: u32,
    /// Operations before those that are timed.
    pub warmup: u32,
    /// Where the scenario says what to run: the forced algorithm or protocol, else the operation.
    pub place: Option<Place>,
}

/// Reads and checks a collective; without a fabric only what needs none.
pub(super) fn collective(view: &View<'_>, fabric: Option<&Fabric>, out: &mut Diagnostics) -> Option<Collective> {
    let sizes = sizes(view, out);
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
    let op: Operation = view.choice("op")?.parse().ok()?;
    without_effect(view, op, out);
    Some(Collective {
        name: view.text("name").map(str::to_owned),
        op,
        sizes: sizes?,
        datatype: datatype(view.choice("datatype").unwrap_or_default()),
        type_name: view.choice("datatype").unwrap_or_default().to_owned(),
        group,
        root,
        algorithm: view.choice("algorithm").and_then(|t| t.parse().ok()),
        protocol: view.choice("protocol").and_then(|t| t.parse().ok()),
        channels: view.integer("channels"),
        iterations: view.integer("iterations")?,
        warmup: view.integer("warmup")?,
        place: ["algorithm", "protocol", "op"].iter().find_map(|key| Some(view.node(key)?.place.clone())),
    })
}

/// Warns of what is forced on an operation that has no such choice.
fn without_effect(view: &View<'_>, op: Operation, out: &mut Diagnostics) {
    let idle: &[(&str, &str)] = match op {
        Operation::SendRecv => &[
            ("algorithm", "it is made of sends and receives, which know no algorithms"),
            ("channels", "a message takes as many channels as it has parts"),
        ],
        op if op.is_point_to_point() => &[("algorithm", "it is made of sends and receives, which know no algorithms")],
        _ => &[],
    };
    for (key, why) in idle {
        if let Some(node) = view.node(key) {
            let fault = Diagnostic::new(Code::NoEffect, format!("`{key}` has no effect on {op}"));
            out.push(fault.at(node.place.clone(), *why));
        }
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

fn sizes(view: &View<'_>, out: &mut Diagnostics) -> Option<Vec<Bytes>> {
    exclusive(view, "sizes", &["min", "max", "factor"], out);
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

fn group(view: &View<'_>, fabric: &Fabric, out: &mut Diagnostics) -> Option<Vec<u32>> {
    if view.node("group").is_none() {
        return super::ranks(view, fabric, 2, out).map(|n| (0..n).collect());
    }
    let items = view.items("group");
    let gpus = fabric.gpus().len();
    let mut seen = vec![false; gpus];
    let mut group = Vec::with_capacity(items.len());
    let faults_before = out.list.len();
    for item in items {
        let Value::Integer(Some(rank)) = item.value else { continue };
        match usize::try_from(rank).ok().filter(|r| *r < gpus) {
            Some(index) if !seen[index] => {
                seen[index] = true;
                group.push(index as u32);
            }
            Some(_) => {
                let fault = Diagnostic::new(Code::OutOfRange, format!("rank {rank} is in the group twice"));
                out.push(fault.at(item.place.clone(), "again"));
            }
            None => {
                let fault = Diagnostic::new(Code::UnknownDevice, format!("there is no rank {rank}"));
                out.push(fault.at(item.place.clone(), format!("ranks go from 0 to {}", gpus.saturating_sub(1))));
            }
        }
    }
    if out.list.len() > faults_before {
        return None;
    }
    if group.len() < 2 {
        let fault = Diagnostic::new(Code::OutOfRange, "a group needs at least 2 ranks");
        out.push(match view.node("group") {
            Some(Node { place, .. }) => fault.at(place.clone(), format!("it has {}", group.len())),
            None => fault,
        });
        return None;
    }
    Some(group)
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
