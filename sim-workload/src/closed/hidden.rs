//! What of a step's messages is not hidden behind its kernels, and how much longer kernels last beside them.

use std::collections::BTreeMap;

use sim_core::units::Span;

use super::step::after;
use crate::messages::{Message, Overlap as Beside, Phase, sharded};
use crate::parallel::Group;
use crate::step::overlap::Overlap;

/// A message of a stage, how often it comes, and how long one takes.
pub(super) struct Sent {
    pub(super) message: Message,
    pub(super) count: u64,
    /// All of it, in pieces if it comes so.
    pub(super) usual: Span,
    /// What of it stands between kernels of a pass.
    pub(super) shown: Span,
    /// The part of the GPU that it takes, in millionths.
    pub(super) takes: u64,
}

/// Kernels of a stage that messages can be hidden behind.
pub(super) struct Work {
    /// The forward pass of the first micro batch.
    pub(super) first_forward: Span,
    /// The backward pass of the last.
    pub(super) last_back: Span,
    /// Forward kernels of the step.
    pub(super) forward: Span,
    /// Backward ones, and what is recomputed.
    pub(super) back: Span,
    /// Of these attention to blocks that others send, forward and backward.
    pub(super) attention: [Span; 2],
}

/// What comes of messages beside kernels.
pub(super) struct Shown {
    /// What is not hidden, by kind of group.
    pub(super) exposed: BTreeMap<Group, Span>,
    /// How much longer kernels last.
    pub(super) stretched: Span,
}

/// What comes of these messages, apart from what stands between kernels of a pass.
pub(super) fn beside(sent: &[Sent], work: &Work, overlap: &Overlap) -> Shown {
    let mut behind = Behinds {
        first_forward: Behind::new(work.first_forward),
        last_back: Behind::new(work.last_back),
        forward: Behind::new(work.forward),
        back: Behind::new(work.back),
        attention: work.attention.map(Behind::new),
        nothing: Behind::new(Span::ZERO),
    };
    for one in sent.iter().filter(|one| one.message.group != Group::Pipeline && one.usual != one.shown) {
        let Message { phase, overlap: beside, name, .. } = one.message;
        // Behind the last pass that is scattered there is nothing.
        let alone = u64::from(name == sharded::EMBEDDING && beside == Beside::Backward);
        behind.nothing.add(one, alone);
        if let Some(behind) = behind.of(phase, beside, overlap) {
            behind.add(one, one.count - alone);
        }
    }
    let mut out = Shown { exposed: BTreeMap::new(), stretched: Span::ZERO };
    let mut waits = [Span::ZERO; 2];
    for (waits, attention) in waits.iter_mut().zip(&behind.attention) {
        *waits = out.add(attention);
    }
    // Units are hidden behind what other messages take of a pass, too.
    for one in sent.iter().filter(|one| !after(one.message.phase) && one.message.overlap != Beside::PreviousUnit) {
        waits[usize::from(one.message.phase != Phase::Forward)] += one.shown * one.count;
    }
    [behind.forward.waits, behind.back.waits] = waits;
    for behind in [&behind.first_forward, &behind.last_back, &behind.forward, &behind.back, &behind.nothing] {
        out.add(behind);
    }
    out
}

impl Shown {
    /// Adds what comes of one kind of work; returns what of its messages is exposed.
    fn add(&mut self, behind: &Behind) -> Span {
        let (left, lost) = behind.left();
        self.stretched += lost;
        let mut sum = Span::ZERO;
        for (group, span) in left {
            sum += span;
            *self.exposed.entry(group).or_default() += span;
        }
        sum
    }
}

/// Kernels of a step, and the messages beside each.
struct Behinds {
    first_forward: Behind,
    last_back: Behind,
    forward: Behind,
    back: Behind,
    attention: [Behind; 2],
    nothing: Behind,
}

impl Behinds {
    /// Where a message hides that is not shown in a pass; `None` if other micro batches hide it.
    fn of(&mut self, phase: Phase, beside: Beside, overlap: &Overlap) -> Option<&mut Behind> {
        let forward = phase == Phase::Forward;
        Some(match (phase, beside) {
            (_, Beside::Attention) => &mut self.attention[usize::from(!forward)],
            (Phase::Forward, Beside::PreviousUnit | Beside::SplitGemm | Beside::Forward) => &mut self.forward,
            (_, Beside::PreviousUnit | Beside::SplitGemm) => &mut self.back,
            (Phase::Backward, Beside::Backward) => &mut self.back,
            (Phase::FirstForward, _) if overlap.parameters => &mut self.first_forward,
            (Phase::LastBackward, _) if overlap.gradients => &mut self.last_back,
            (Phase::Forward | Phase::Recompute | Phase::Backward, _) => return None,
            _ => &mut self.nothing,
        })
    }
}

/// Work of a kind and what runs beside it.
struct Behind {
    work: Span,
    sent: BTreeMap<Group, Span>,
    /// What messages take of the GPU while they are under way, times their time, in ps.
    taken: u128,
    /// Time in which kernels wait for other messages.
    waits: Span,
}

impl Behind {
    const fn new(work: Span) -> Self {
        Self { work, sent: BTreeMap::new(), taken: 0, waits: Span::ZERO }
    }

    fn add(&mut self, one: &Sent, count: u64) {
        let span = less(one.usual, one.shown) * count;
        *self.sent.entry(one.message.group).or_default() += span;
        self.taken += u128::from(span.as_ps()) * u128::from(one.takes) / 1_000_000;
    }

    /// What is not hidden, by kind of group, in proportion; and by how much kernels last longer.
    fn left(&self) -> (Vec<(Group, Span)>, Span) {
        let sum: Span = self.sent.values().copied().sum();
        let all = less(sum, self.waits);
        let taken = Span::from_ps(u64::try_from(self.taken).unwrap_or(u64::MAX).min(all.as_ps()));
        // Messages end first, and kernels have lost what these took; or kernels do, which then lasted W/(1 - λ).
        let over = less(all, self.work + taken);
        let lost = if over == Span::ZERO {
            taken
        } else {
            let left = u128::from(less(all, taken).as_ps().max(1));
            let lost = u128::from(self.work.as_ps()) * u128::from(taken.as_ps()) / left;
            Span::from_ps(u64::try_from(lost).unwrap_or(u64::MAX)).min(less(all, self.work))
        };
        let over = less(all, self.work + lost);
        let part = |span: Span| {
            let ps = u128::from(span.as_ps()) * u128::from(over.as_ps()) / u128::from(sum.as_ps().max(1));
            Span::from_ps(ps as u64)
        };
        let left = self.sent.iter().map(|(group, span)| (*group, part(*span))).filter(|(_, span)| *span > Span::ZERO);
        (left.collect(), lost)
    }
}

/// What of `span` is over `by`.
pub(super) const fn less(span: Span, by: Span) -> Span {
    Span::from_ps(span.as_ps().saturating_sub(by.as_ps()))
}
