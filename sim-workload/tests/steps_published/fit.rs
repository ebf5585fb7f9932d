//! One number a group of rows, fitted on those with the fewest GPUs.

use std::collections::BTreeMap;

use crate::closed::{Fit, Parts};
use crate::mapping::Case;

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

    /// Whether the row is held against a fit that it had no part in.
    pub(crate) fn proves(&self) -> bool {
        !self.inside && !self.case.contradicts
    }
}

/// Fits and scores all cases by `step`.
pub(crate) fn score(cases: Vec<Case>, step: &dyn Fn(&Case, Fit) -> Parts) -> Vec<Scored> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, case) in cases.iter().enumerate() {
        groups.entry(case.group()).or_default().push(i);
    }
    let mut fits: BTreeMap<String, (Fit, u64)> = BTreeMap::new();
    for (group, members) in &groups {
        let usable = || members.iter().map(|i| &cases[*i]).filter(|c| !c.contradicts);
        let fewest = usable().map(|c| c.row.gpus).min().unwrap_or(0);
        let base: Vec<&Case> = usable().filter(|c| c.row.gpus == fewest).collect();
        fits.insert(group.clone(), (efficiency(&base, step), fewest));
    }
    cases
        .into_iter()
        .map(|case| {
            let group = case.group();
            let (fit, fewest) = fits[&group];
            let inside = case.row.gpus == fewest && !case.contradicts;
            let parts = step(&case, fit);
            Scored { plain: step(&case, Fit::NONE).total, fitted: parts.total, parts, inside, fit, case }
        })
        .collect()
}

/// The efficiency at which the rows' mean logarithmic error is nothing.
fn efficiency(rows: &[&Case], step: &dyn Fn(&Case, Fit) -> Parts) -> Fit {
    if rows.is_empty() {
        return Fit::NONE;
    }
    let error = |efficiency: f64| -> f64 {
        let fit = Fit { efficiency };
        rows.iter().map(|c| (step(c, fit).total / c.seconds).ln()).sum::<f64>() / rows.len() as f64
    };
    let (mut low, mut high) = (0.05, 4.0);
    for _ in 0..24 {
        let middle: f64 = f64::sqrt(low * high);
        if error(middle) > 0.0 { low = middle } else { high = middle }
    }
    // Three digits are more than there is to know.
    Fit { efficiency: (f64::sqrt(low * high) * 1e3).round() / 1e3 }
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

/// Errors of ratios: of each two rows of one family, GPU, model, numbers and software that differ in sizes, |predicted ratio over published
/// ratio − 1|.
pub(crate) fn ratios(rows: &[&Scored]) -> Vec<f64> {
    let mut out = Vec::new();
    for (i, a) in rows.iter().enumerate() {
        for b in &rows[i + 1..] {
            let (x, y) = (&a.case, &b.case);
            let same = x.group() == y.group()
                && x.row.model == y.row.model
                && x.row.number == y.row.number
                && x.row.source_release() == y.row.source_release();
            if same && !x.contradicts && !y.contradicts && x.row.shape() != y.row.shape() {
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
