//! Kernels that take as long as the experts of a rank get tokens: a number for each list of times, one for each rank of a group.

use std::cell::RefCell;
use std::collections::BTreeMap;

use sim_core::units::Span;

use crate::model::kernels::{Kernel, Work};

/// Lists of times, each known by its number.
#[derive(Debug, Default)]
pub(super) struct Uneven(RefCell<Lists>);

#[derive(Debug, Default)]
struct Lists {
    all: Vec<Box<[Span]>>,
    numbers: BTreeMap<Box<[Span]>, u32>,
}

impl Uneven {
    /// The number of a list.
    pub(super) fn number(&self, list: Box<[Span]>) -> u32 {
        let mut lists = self.0.borrow_mut();
        if let Some(number) = lists.numbers.get(&list) {
            return *number;
        }
        let number = lists.all.len() as u32;
        lists.all.push(list.clone());
        lists.numbers.insert(list, number);
        number
    }

    /// The number of the list in which each time is changed.
    pub(super) fn changed(&self, number: u32, change: impl Fn(Span) -> Span) -> u32 {
        let list = self.0.borrow().all[number as usize].iter().map(|span| change(*span)).collect();
        self.number(list)
    }

    /// The number of the sums of two lists.
    pub(super) fn sum(&self, a: u32, b: u32) -> u32 {
        let list = {
            let all = &self.0.borrow().all;
            all[a as usize].iter().zip(&all[b as usize]).map(|(a, b)| *a + *b).collect()
        };
        self.number(list)
    }

    /// Whether all of its times are zero.
    pub(super) fn is_zero(&self, number: u32) -> bool {
        self.0.borrow().all[number as usize].iter().all(|span| *span == Span::ZERO)
    }

    /// All lists, in the order of their numbers.
    pub(super) fn lists(self) -> Vec<Box<[Span]>> {
        self.0.into_inner().all
    }
}

/// Whether a kernel works on what experts get. Tokens are put in order before they are sent, and summed up after they have come
/// back: as many on each rank.
pub(super) fn by_load(kernel: &Kernel) -> bool {
    matches!(kernel.work, Work::Grouped { .. }) || kernel.name == "activation of experts"
}

/// A kernel of experts that get `factor` times as many tokens; `None` if they get none. Rows are divided evenly over a rank's experts.
pub(super) fn loaded(kernel: &Kernel, factor: f64) -> Option<Kernel> {
    let scaled = |n: u64| (n as f64 * factor).round() as u64;
    let work = match kernel.work {
        Work::Grouped { groups, rows, n, k } => Work::Grouped { groups, rows: scaled(rows), n, k },
        Work::Memory { elements } => Work::Memory { elements: scaled(elements) },
        other => other,
    };
    let none = matches!(work, Work::Grouped { rows: 0, .. } | Work::Memory { elements: 0 });
    (!none).then_some(Kernel { work, ..*kernel })
}
