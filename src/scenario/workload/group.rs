//! The GPUs of a communicator: rank numbers, and ranges of them with a stride.

use sim_topology::Fabric;

use super::super::tree::{Node, Value};
use super::super::view::View;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, shorten};

/// The ranks that `group` names, in order; all of the first so many (`ranks`) without it.
pub(super) fn group(view: &View<'_>, fabric: &Fabric, out: &mut Diagnostics) -> Option<Vec<u32>> {
    let Some(node) = view.node("group") else {
        return super::ranks(view, fabric, 2, out).map(|n| (0..n).collect());
    };
    let one = core::slice::from_ref(node);
    let items = node.as_array().unwrap_or(one);
    let gpus = fabric.gpus().len();
    let mut seen = vec![false; gpus];
    let mut group = Vec::with_capacity(items.len());
    let faults_before = out.list.len();
    for item in items {
        for rank in members(item, gpus, out) {
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
                    let last = gpus.saturating_sub(1);
                    out.push(fault.at(item.place.clone(), format!("ranks go from 0 to {last}")));
                }
            }
        }
    }
    if out.list.len() > faults_before {
        return None;
    }
    if group.len() < 2 {
        let fault = Diagnostic::new(Code::OutOfRange, "a group needs at least 2 ranks");
        out.push(fault.at(node.place.clone(), format!("it has {}", group.len())));
        return None;
    }
    Some(group)
}

/// The ranks that one member names; of a range beyond the GPUs there are only the first that is none.
fn members(item: &Node, gpus: usize, out: &mut Diagnostics) -> Vec<i64> {
    match &item.value {
        Value::Integer(Some(rank)) => vec![*rank],
        Value::Text(text) => {
            let Some((first, last, stride)) = range(text) else {
                let fault = Diagnostic::new(Code::WrongType, format!("`{}` is no range of ranks", shorten(text)));
                let fault = fault.at(item.place.clone(), "not understood");
                out.push(fault.help("write \"0-31\", with a stride \"0-31/8\" (0, 8, 16, 24), or a rank \"5\""));
                return Vec::new();
            };
            if last < first {
                let fault = Diagnostic::new(Code::OutOfRange, format!("the range ends at {last}, before it begins"));
                out.push(fault.at(item.place.clone(), format!("{first} to {last}")));
                return Vec::new();
            }
            let there = |rank: &i64| usize::try_from(*rank).is_ok_and(|r| r < gpus);
            let mut list: Vec<i64> = (first..=last).step_by(stride).take_while(there).collect();
            let beyond = first + list.len() as i64 * stride as i64;
            list.extend((beyond <= last).then_some(beyond));
            list
        }
        _ => Vec::new(),
    }
}

/// First, last and stride of `5`, `0-31` or `0-31/8`.
fn range(text: &str) -> Option<(i64, i64, usize)> {
    let number = |text: &str| {
        let text = text.trim();
        let digits = !text.is_empty() && text.len() < 10 && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse::<i64>().ok()).flatten()
    };
    let (ends, stride) = match text.split_once('/') {
        Some((ends, stride)) => (ends, usize::try_from(number(stride)?).ok().filter(|s| *s > 0)?),
        None => (text, 1),
    };
    match ends.split_once('-') {
        Some((first, last)) => Some((number(first)?, number(last)?, stride)),
        None => number(ends).map(|rank| (rank, rank, stride)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(range("0-31/8"), Some((0, 31, 8)));
        assert_eq!(range(" 4 - 7 "), Some((4, 7, 1)));
        assert_eq!(range("5"), Some((5, 5, 1)));
        for text in ["", "a", "1-", "-3", "1-2-3", "0-8/0", "1/", "0-99999999999", "+1"] {
            assert_eq!(range(text), None, "{text}");
        }
    }
}
