//! One number a group of rows, fitted on those with the fewest GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use crate::kernels::Fit;
use crate::mapping::Case;
use crate::played::Parts;

/// A case with what came out.
pub(crate) struct Scored {
    pub(crate) case: Case,
    /// Predicted without and with the group's number, in seconds.
    pub(crate) plain: f64,
    pub(crate) fitted: f64,
    /// Where the fitted time goes.
    pub(crate) parts: Parts,
    /// The row had a part in the fit.
    pub(crate) inside: bool,
    pub(crate) fit: Fit,
}

impl Scored {
    pub(crate) fn error(&self) -> f64 {
        self.fitted / self.case.seconds - 1.0
    }

    pub(crate) fn plain_error(&self) -> f64 {
        self.plain / self.case.seconds - 1.0
    }

    /// In a word.
    pub(crate) fn standing(&self) -> &'static str {
        match (self.case.contradicts, self.inside) {
            (true, _) => "not judged",
            (_, true) => "fit",
            _ => "",
        }
    }

    /// Whether the row is held against a fit that it had no part in.
    pub(crate) fn proves(&self) -> bool {
        !self.inside && !self.case.contradicts
    }
}

/// The rows of a case's group that its number is fitted on: those with the fewest GPUs.
fn base<'a>(cases: &'a [Case], group: &str) -> (u64, Vec<&'a Case>) {
    let usable = || cases.iter().filter(|c| !c.contradicts && c.group() == group);
    let fewest = usable().map(|c| c.row.gpus).min().unwrap_or(0);
    (fewest, usable().filter(|c| c.row.gpus == fewest).collect())
}

/// Scores all cases, whose predictions without and with the fit of their group `predict` gives.
pub(crate) fn score(cases: Vec<Case>, predict: &dyn Fn(&Case) -> (f64, Fit, Parts)) -> Vec<Scored> {
    let fewest: Vec<u64> = cases.iter().map(|c| base(&cases, &c.group()).0).collect();
    cases
        .into_iter()
        .zip(fewest)
        .map(|(case, fewest)| {
            let (plain, fit, parts) = predict(&case);
            let inside = case.row.gpus == fewest && !case.contradicts;
            Scored { plain, fitted: parts.total, parts, inside, fit, case }
        })
        .collect()
}

/// The fit of each group by `step`.
pub(crate) fn fits(cases: &[Case], step: &(dyn Fn(&Case, Fit) -> Parts + Sync)) -> BTreeMap<String, Fit> {
    let groups: BTreeSet<String> = cases.iter().map(Case::group).collect();
    let fit = |group: String| {
        let rows = base(cases, &group).1;
        let fit = efficiency(&rows, step);
        (group, fit)
    };
    side_by_side(groups.into_iter().collect(), &fit).into_iter().collect()
}

/// Maps with two threads, in order.
pub(crate) fn side_by_side<T: Send, U: Send>(list: Vec<T>, map: &(dyn Fn(T) -> U + Sync)) -> Vec<U> {
    let work: Mutex<Vec<(usize, T)>> = Mutex::new(list.into_iter().enumerate().rev().collect());
    let done: Mutex<Vec<(usize, U)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = work.lock().expect("no thread panics with the list").pop();
                    let Some((i, item)) = next else { break };
                    let out = map(item);
                    done.lock().expect("no thread panics with the list").push((i, out));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread panics with the list");
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, out)| out).collect()
}

/// The mean logarithmic error of rows.
fn bias(rows: &[&Case], step: &dyn Fn(&Case) -> f64) -> f64 {
    rows.iter().map(|c| (step(c) / c.seconds).ln()).sum::<f64>() / rows.len().max(1) as f64
}

/// The efficiency at which the rows' mean logarithmic error is nothing.
fn efficiency(rows: &[&Case], step: &dyn Fn(&Case, Fit) -> Parts) -> Fit {
    if rows.is_empty() {
        return Fit::NONE;
    }
    let error = |efficiency: f64| bias(rows, &|c| step(c, Fit { efficiency }).total);
    // Secant steps in the logarithm: the error falls by nearly as much as that rises.
    let (mut at, mut last, mut slope) = (0.0_f64, error(1.0), -1.0_f64);
    for _ in 0..8 {
        let next = (at - last / slope).clamp(-3.0, 1.5);
        let found = error(next.exp());
        if (next - at).abs() > 1e-6 {
            slope = ((found - last) / (next - at)).clamp(-2.0, -0.1);
        }
        (at, last) = (next, found);
        if last.abs() < 2e-4 {
            break;
        }
    }
    // Three digits are more than there is to know.
    Fit { efficiency: (at.exp() * 1e3).round() / 1e3 }
}

/// The median; `None` of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (n > 0).then(|| (values[(n - 1) / 2] + values[n / 2]) / 2.0)
}

/// The value that 90 % do not exceed.
pub(crate) fn ninetieth(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let at = (values.len() * 9).div_ceil(10);
    values.get(at.saturating_sub(1)).copied()
}

/// Whether the ratio of two rows is one that is looked at.
pub(crate) fn comparable(a: &Scored, b: &Scored) -> bool {
    let (x, y) = (&a.case, &b.case);
    let same = x.group() == y.group()
        && x.row.model == y.row.model
        && x.row.number == y.row.number
        && x.row.source_release() == y.row.source_release();
    same && !x.contradicts && !y.contradicts && x.row.shape() != y.row.shape()
}

/// Errors of ratios: of each two rows of one family, GPU, model, numbers and software that differ in sizes, |predicted ratio over published
/// ratio − 1|.
pub(crate) fn ratios(rows: &[&Scored]) -> Vec<f64> {
    let mut out = Vec::new();
    for (i, a) in rows.iter().enumerate() {
        for b in &rows[i + 1..] {
            let (x, y) = (&a.case, &b.case);
            if comparable(a, b) {
                out.push(((a.fitted / b.fitted) / (x.seconds / y.seconds) - 1.0).abs());
            }
        }
    }
    out
}

/// Kendall's τ of GPU-seconds a token, over the pairs of rows of one model whose published values differ by 2 % or more.
pub(crate) fn kendall(rows: &[&Scored]) -> Option<(f64, usize)> {
    let (mut agree, mut differ) = (0_usize, 0_usize);
    for (i, a) in rows.iter().enumerate() {
        for b in &rows[i + 1..] {
            if a.case.row.model != b.case.row.model || a.case.contradicts || b.case.contradicts {
                continue;
            }
            let tokens =
                |s: &Scored| (s.case.sizes.global_batch * s.case.sizes.sequence) as f64 / s.case.row.gpus as f64;
            let published = (a.case.seconds / tokens(a)) / (b.case.seconds / tokens(b));
            let ours = (a.fitted / tokens(a)) / (b.fitted / tokens(b));
            if published.ln().abs() < 0.02 {
                continue;
            }
            if (published > 1.0) == (ours > 1.0) { agree += 1 } else { differ += 1 }
        }
    }
    let pairs = agree + differ;
    (pairs > 0).then(|| ((agree as f64 - differ as f64) / pairs as f64, pairs))
}
