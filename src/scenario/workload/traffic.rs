//! What goes where in operations that leave it open: all-to-all with unequal parts, and tokens to experts.

use std::sync::Arc;

use sim_collectives::experts::Experts;
use sim_collectives::nccl::Operation;
use sim_collectives::plan::Traffic;
use sim_core::units::Bytes;

use super::super::quantity;
use super::super::tree::Node;
use super::super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// How an operation's data are spread over the ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Uneven {
    /// Evenly.
    #[default]
    No,
    /// Bytes from each rank to each, row by row.
    Matrix(Arc<[u64]>),
    /// To rank j in proportion to (j + 1)^−s.
    Zipf(f64),
    /// By the experts of tokens.
    Experts(Experts),
}

impl Uneven {
    /// The traffic of a call of `bytes` on `ranks` ranks.
    #[must_use]
    pub fn traffic(&self, bytes: Bytes, ranks: u32) -> Traffic {
        match self {
            Self::No => Traffic::Even,
            Self::Matrix(matrix) => Traffic::Matrix(Arc::clone(matrix)),
            Self::Experts(experts) => Traffic::Experts(*experts),
            Self::Zipf(s) => {
                let weight = |j: u32| f64::from(j + 1).powf(-s);
                let all: f64 = (0..ranks).map(weight).sum();
                let part = |j: u32| (bytes.get() as f64 * weight(j) / all / 16.0).round() as u64 * 16;
                Traffic::Matrix((0..ranks).flat_map(|_| (0..ranks).map(part)).collect())
            }
        }
    }

    /// The size of the operation, where the traffic gives it: the most that a rank sends or receives.
    #[must_use]
    pub fn size(&self, ranks: u32) -> Option<Bytes> {
        let Self::Matrix(matrix) = self else { return None };
        let n = ranks as usize;
        let row = |r: usize| matrix[r * n..(r + 1) * n].iter().sum::<u64>();
        let column = |c: usize| matrix.iter().skip(c).step_by(n).sum::<u64>();
        (0..n).map(|r| row(r).max(column(r))).max().map(Bytes::new)
    }
}

/// Reads and checks what is said of it; `None` after a fault.
pub(super) fn uneven(view: &View<'_>, op: Operation, ranks: u32, out: &mut Diagnostics) -> Option<Uneven> {
    super::collective::exclusive(view, "matrix", &["skew", "sizes", "min", "max"], out);
    match op {
        Operation::AllToAllV if view.has("matrix") => matrix(view, ranks, out).map(Uneven::Matrix),
        Operation::AllToAllV => Some(view.number("skew").map_or(Uneven::No, Uneven::Zipf)),
        Operation::Dispatch | Operation::Combine => experts(view, ranks, out).map(Uneven::Experts),
        _ => Some(Uneven::No),
    }
}

fn matrix(view: &View<'_>, ranks: u32, out: &mut Diagnostics) -> Option<Arc<[u64]>> {
    let rows = view.items("matrix");
    let place = view.node("matrix")?.place.clone();
    let width = |row: &Node| row.as_array().map_or(0, <[Node]>::len);
    let wrong = rows.iter().find(|row| width(row) != ranks as usize);
    if rows.len() != ranks as usize || wrong.is_some() {
        let message = format!("a matrix of sizes for {ranks} ranks has {ranks} rows of {ranks}");
        let (place, label) = match wrong {
            Some(row) if rows.len() == ranks as usize => (row.place.clone(), format!("{} sizes", width(row))),
            _ => (place, format!("{} rows", rows.len())),
        };
        out.push(Diagnostic::new(Code::NotDivisible, message).at(place, label));
        return None;
    }
    let sizes = rows.iter().filter_map(Node::as_array).flatten().map(|node| quantity::size(node).map(Bytes::get));
    sizes.collect()
}

fn experts(view: &View<'_>, ranks: u32, out: &mut Diagnostics) -> Option<Experts> {
    let (experts, top_k): (u32, u32) = (view.integer("experts")?, view.integer("top_k")?);
    let mut fault = |key: &str, message: String, label: String| {
        let finding = Diagnostic::new(Code::NotDivisible, message);
        out.push(match view.node(key) {
            Some(node) => finding.at(node.place.clone(), label),
            None => finding.help(format!("`{key}` is {label} unless it is set")),
        });
        None
    };
    if !experts.is_multiple_of(ranks) {
        let rest = experts % ranks;
        return fault(
            "experts",
            format!("{experts} experts do not lie evenly on {ranks} ranks"),
            format!("{rest} over"),
        );
    }
    if top_k > experts {
        return fault("top_k", format!("a token can't have {top_k} of {experts} experts"), top_k.to_string());
    }
    Some(Experts { top_nodes: view.integer("top_nodes"), ..Experts::free(experts, top_k) })
}

/// Bytes of a token of so many elements of so many bytes; 8-bit floats carry a scale of 4 B per 128 values.
pub(super) fn token(hidden: u64, element: u64, fp8: bool) -> u64 {
    hidden * element + if fp8 { hidden.div_ceil(128) * 4 } else { 0 }
}
