//! Kernels of ranks: how long they take, what slows them down, and what a rank waited for before each.

use std::cmp::Reverse;

use sim_core::units::{Span, Time};

use super::super::plan::Work;
use super::chain::NONE;
use super::{Options, Player, Running, Takes};
use crate::compute::Jitter;
use crate::parallel::Group;

impl Player<'_> {
    /// When the next kernel ends.
    #[must_use]
    pub fn next_kernel(&mut self) -> Option<Time> {
        while let Some(Reverse((at, rank))) = self.timers.peek().copied() {
            let state = &self.ranks[rank as usize];
            if state.begins == Some(at) || state.running.is_some_and(|r| r.ends == at) {
                return Some(at);
            }
            self.timers.pop();
        }
        None
    }

    /// It is `at`: kernels that end now have ended.
    pub fn kernels_end(&mut self, at: Time) {
        self.now = at;
        while self.next_kernel() == Some(at) {
            let Some(Reverse((_, rank))) = self.timers.pop() else { break };
            if self.ranks[rank as usize].begins.take().is_some() {
                self.books.waits(rank, at.since(Time::ZERO), false, Some(("their beginning", rank)));
                self.books.accounted(rank, at);
                self.begin_rank(rank);
                self.settle();
                continue;
            }
            let Some(running) = self.ranks[rank as usize].running.take() else { continue };
            self.books.kernel(rank, running.began, at, self.label(rank, running.op));
            self.end(rank, running.op, running.binding, [running.began, running.began, at], NONE);
            self.settle();
        }
    }

    pub(super) fn compute(&mut self, rank: u32, op: u32, binding: u32, span: Span) {
        let span = match self.factors.get_mut(rank as usize) {
            Some(factor) => factor(span),
            None => span,
        };
        self.attribute(rank, binding);
        let lost = self.lost(rank);
        let ends = self.now + stretched(span, lost);
        let now = self.now;
        self.ranks[rank as usize].running =
            Some(Running { op, binding, began: now, left: span, since: now, lost, ends });
        self.timers.push(Reverse((ends, rank)));
    }

    /// Books the time in which the rank had no kernel, back from what has come with `binding`.
    fn attribute(&mut self, rank: u32, binding: u32) {
        let (idle, mut now, mut at) = (self.books.idle_from(rank), self.now, binding);
        while now > idle {
            let node = self.chains.get(at);
            let Some(node) = node else {
                self.books.waits(rank, now.since(idle), self.plan.stages.len() > 1, None);
                break;
            };
            let op = self.op_of(node.rank, node.op);
            let group = match op.work {
                Work::Compute(_) | Work::Uneven(_) => {
                    self.books.waits(rank, now.since(idle), false, Some((op.label.what, node.rank)));
                    break;
                }
                Work::Send(_) | Work::Receive(_) => Group::Pipeline,
                Work::Call(call) => self.plan.calls[call as usize].group,
            };
            let (began, other) = (node.from.clamp(idle, now), node.rank != rank);
            let joined = if other { idle } else { node.joined.clamp(idle, began) };
            // What the last member to come had waited for.
            let last = self.chains.get(node.before).map(|n| (self.op_of(n.rank, n.op).label.what, n.rank));
            at = node.own;
            // Groups over several stages wait for the last stage to be done, not for a slow rank.
            let over_stages = matches!(group, Group::All | Group::Model | Group::Ends | Group::Pipeline);
            self.books.exposes(rank, group, now.since(began));
            self.books.waits(rank, began.since(joined), over_stages && self.plan.stages.len() > 1, last);
            now = joined;
        }
        self.books.accounted(rank, self.now);
    }

    /// The part of the GPU that messages take now.
    fn lost(&self, rank: u32) -> u64 {
        let Some(slowdown) = self.options.slowdown else { return 0 };
        let [up, out, own] = self.ranks[rank as usize].under_way;
        let part = |n: u32, lost: u64| if n > 0 { lost } else { 0 };
        let lost = part(up, slowdown.scale_up) + part(out, slowdown.scale_out) + part(own, self.options.exchange);
        lost.min(950_000)
    }

    /// A message of a rank begins or ends: its kernel gets another part of the GPU.
    pub(super) fn under_way(&mut self, rank: u32, communicator: u32, takes: Takes, begins: bool) {
        let kind = match takes {
            Takes::Messages => usize::from(self.out[communicator as usize]),
            Takes::Processors => 2,
            Takes::Nothing => return,
        };
        if self.options.slowdown.is_none() {
            return;
        }
        let count = &mut self.ranks[rank as usize].under_way[kind];
        *count = if begins { *count + 1 } else { count.saturating_sub(1) };
        let (lost, now) = (self.lost(rank), self.now);
        let Some(running) = &mut self.ranks[rank as usize].running else { return };
        if running.lost == lost || running.ends <= now {
            return;
        }
        let done = u128::from(now.since(running.since).as_ps()) * u128::from(1_000_000 - running.lost) / 1_000_000;
        running.left = Span::from_ps(running.left.as_ps().saturating_sub(u64::try_from(done).unwrap_or(u64::MAX)));
        running.since = now;
        running.lost = lost;
        running.ends = now + stretched(running.left, lost);
        self.timers.push(Reverse((running.ends, rank)));
    }
}

/// How long work of `span` takes when messages take `lost` millionths of the GPU.
fn stretched(span: Span, lost: u64) -> Span {
    if lost == 0 {
        return span;
    }
    let ps = (u128::from(span.as_ps()) * 1_000_000).div_ceil(u128::from(1_000_000 - lost.min(999_999)));
    Span::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
}

/// What kernels of each rank take; none if all take what the law says.
pub(super) fn factors(options: &Options, ranks: usize) -> Vec<Box<dyn FnMut(Span) -> Span + Send>> {
    let quiet = Jitter { seed: options.jitter.seed, ..Jitter::default() };
    if options.jitter == quiet && options.slow.is_empty() {
        return Vec::new();
    }
    let of = |rank: usize| -> Box<dyn FnMut(Span) -> Span + Send> {
        let slow: f64 = options.slow.iter().filter(|(r, _)| *r as usize == rank).map(|(_, f)| *f).product();
        let mut gpu = options.jitter.gpu(rank as u64);
        Box::new(move |span| {
            let span = gpu.next(span);
            if slow == 1.0 { span } else { Span::from_ps((span.as_ps() as f64 * slow).round() as u64) }
        })
    };
    (0..ranks).map(of).collect()
}
