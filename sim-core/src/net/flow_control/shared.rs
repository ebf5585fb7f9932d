//! A shared buffer: an account per input and class with a reserve, a share of the common bytes up to a threshold, and
//! headroom for what arrives after the pause was asked for; lossy classes drop at their egress queue.
//!
//! The accounts are those of commodity switches (Zhu and others: Congestion control for large-scale RDMA deployments,
//! SIGCOMM 2015, section 4): with `T = α·(B − Σ headroom − Σ reserve − shared in use)`, an input that is beyond `T`
//! fills its headroom and pauses what feeds it.

use super::{Admit, Place, Signal, Tell};
use crate::net::spec::{Freed, NetSpec, SharedSpec, Threshold};

/// What an input holds of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// In the reserve and the shared bytes.
    bytes: u64,
    headroom: u64,
    paused: bool,
    peak: u64,
    headroom_peak: u64,
}

/// The common bytes of a node.
#[derive(Clone, Copy, Debug, Default)]
struct Buffer {
    /// What is not set aside for reserves and headroom.
    size: u64,
    used: u64,
    /// The share of what is free that an input may have, in 2⁻¹⁶.
    alpha: u64,
}

/// Shared buffers of all nodes.
#[derive(Clone, Debug)]
pub(in crate::net) struct Shared {
    spec: SharedSpec,
    classes: usize,
    lossless: [bool; crate::net::spec::MOST_CLASSES],
    accounts: Vec<Account>,
    buffers: Vec<Buffer>,
    pub(in crate::net) pauses: u64,
    pub(in crate::net) resumes: u64,
}

impl Shared {
    pub(in crate::net) fn new(spec: SharedSpec, net: &NetSpec) -> Self {
        // What a unit that has begun sends beyond a pause has room of its own, so that thresholds are those of single packets.
        let more = u64::from(net.grain - 1) * u64::from(net.full());
        let mut lossless = [false; crate::net::spec::MOST_CLASSES];
        net.classes.iter().zip(&mut lossless).for_each(|(class, flag)| *flag = class.lossless);
        let mut inputs = vec![0u64; net.endpoints.len()];
        net.ports.iter().for_each(|port| inputs[port.far as usize] += 1);
        let alpha = if let Threshold::Dynamic { alpha, .. } = spec.threshold { alpha } else { 0 };
        let buffers = inputs.iter().enumerate().map(|(node, inputs)| {
            let own = net.buffers.iter().find(|buffer| buffer.node as usize == node);
            let (size, alpha) = own.map_or((spec.size, alpha), |own| (own.size, own.alpha));
            let ports = spec.ports.map_or(*inputs, u64::from);
            let lossless = net.classes.iter().filter(|class| class.lossless).count() as u64;
            let aside = ports.saturating_mul(lossless).saturating_mul(spec.headroom.saturating_add(spec.reserve));
            // Where thresholds are set, headroom is part of what is in use.
            let own = if alpha == 0 { ports.saturating_mul(lossless.max(1)).saturating_mul(more) } else { 0 };
            Buffer { size: size.saturating_sub(aside).saturating_add(own), used: 0, alpha }
        });
        let spec = SharedSpec { headroom: spec.headroom.saturating_add(more), ..spec };
        Self {
            spec,
            classes: net.classes.len(),
            lossless,
            accounts: vec![Account::default(); net.ports.len() * net.classes.len()],
            buffers: buffers.collect(),
            pauses: 0,
            resumes: 0,
        }
    }

    #[inline]
    fn account(&self, at: Place) -> usize {
        at.from as usize * self.classes + at.class as usize
    }

    #[cold]
    fn signal(&self, at: Place, tell: Tell) -> Signal {
        let pause = self.spec.pause;
        let (port, class) = (at.from, at.class);
        Signal { port, class, tell, wire: pause.wire, acts_after: pause.acts_after, extra: pause.response }
    }

    #[inline]
    pub(super) fn frees_at_start(&self) -> bool {
        self.spec.freed == Freed::AtStart
    }

    #[inline(always)]
    pub(super) fn admit(&mut self, at: Place, wire: u32, queue: u64) -> Admit {
        let wire = u64::from(wire);
        let index = self.account(at);
        let spec = &self.spec;
        let buffer = &mut self.buffers[at.node as usize];
        let account = &mut self.accounts[index];
        let free = buffer.size.saturating_sub(buffer.used);
        if !self.lossless[at.class as usize] {
            let share = share_of(free, spec.lossy_alpha);
            if queue + wire > share.min(spec.lossy_limit) || wire > free {
                return Admit::Drop { fault: false };
            }
            buffer.used += wire;
            account.bytes += wire;
            account.peak = account.peak.max(account.bytes);
            return Admit::Keep(None);
        }
        let pauses = match spec.threshold {
            Threshold::Static { xoff, .. } => {
                if account.bytes + wire > xoff.saturating_add(spec.headroom) || wire > free {
                    return Admit::Drop { fault: true };
                }
                account.bytes += wire;
                buffer.used += wire;
                account.peak = account.peak.max(account.bytes);
                account.bytes >= xoff
            }
            Threshold::Dynamic { .. } => {
                let alpha = buffer.alpha;
                let threshold = share_of(free, alpha);
                let shared = account.bytes.saturating_sub(spec.reserve);
                if account.headroom + wire > spec.headroom && shared + wire > threshold {
                    return Admit::Drop { fault: true };
                }
                let bytes = account.bytes + wire;
                let beyond = bytes.saturating_sub(spec.reserve);
                if beyond == 0 {
                    account.bytes = bytes;
                } else if beyond > threshold {
                    account.headroom += wire;
                    account.headroom_peak = account.headroom_peak.max(account.headroom);
                } else {
                    account.bytes = bytes;
                    buffer.used += wire.min(beyond);
                }
                account.peak = account.peak.max(account.bytes + account.headroom);
                // The threshold before this packet, as the admission saw it.
                account.headroom > 0
                    || account.bytes.saturating_sub(spec.reserve)
                        >= share_of(buffer.size.saturating_sub(buffer.used), alpha)
            }
        };
        if account.paused || !pauses {
            return Admit::Keep(None);
        }
        account.paused = true;
        self.pauses += 1;
        Admit::Keep(Some(self.signal(at, Tell::Pause)))
    }

    #[inline(always)]
    pub(super) fn release(&mut self, at: Place, wire: u32) -> Option<Signal> {
        let wire = u64::from(wire);
        let index = self.account(at);
        let spec = &self.spec;
        let buffer = &mut self.buffers[at.node as usize];
        let account = &mut self.accounts[index];
        if !self.lossless[at.class as usize] {
            account.bytes -= wire;
            buffer.used -= wire;
            return None;
        }
        let resumes = match spec.threshold {
            Threshold::Static { xon, .. } => {
                account.bytes -= wire;
                buffer.used -= wire;
                account.bytes < xon
            }
            Threshold::Dynamic { offset, .. } => {
                let alpha = buffer.alpha;
                let headroom = account.headroom.min(wire);
                let shared = (wire - headroom).min(account.bytes.saturating_sub(spec.reserve));
                account.headroom -= headroom;
                account.bytes -= wire - headroom;
                buffer.used -= shared;
                let shared = account.bytes.saturating_sub(spec.reserve);
                account.headroom == 0
                    && (shared == 0 || shared + offset <= share_of(buffer.size.saturating_sub(buffer.used), alpha))
            }
        };
        if !account.paused || !resumes {
            return None;
        }
        account.paused = false;
        self.resumes += 1;
        Some(self.signal(at, Tell::Resume))
    }

    pub(super) fn room(&self, node: u32, class: u8, used: u64) -> u64 {
        let buffer = &self.buffers[node as usize];
        let free = buffer.size.saturating_sub(buffer.used.max(used));
        if !self.lossless[usize::from(class)] {
            return share_of(free, self.spec.lossy_alpha).min(self.spec.lossy_limit).min(free);
        }
        match self.spec.threshold {
            Threshold::Static { xoff, .. } => xoff.min(free),
            Threshold::Dynamic { .. } => share_of(free, buffer.alpha),
        }
    }

    pub(super) fn is_asking(&self, link: u32, class: u8) -> bool {
        self.accounts[link as usize * self.classes + usize::from(class)].paused
    }

    pub(super) fn peaks_of(&self, link: u32, class: u8) -> (u64, u64) {
        let account = &self.accounts[link as usize * self.classes + usize::from(class)];
        (account.peak, account.headroom_peak)
    }

    /// The most bytes that an input held, and the most of its headroom.
    pub(in crate::net) fn peaks(&self) -> (u64, u64) {
        self.accounts.iter().fold((0, 0), |(a, b), x| (a.max(x.peak), b.max(x.headroom_peak)))
    }
}

/// A share in 2⁻¹⁶.
#[inline]
fn share_of(free: u64, alpha: u64) -> u64 {
    ((u128::from(free) * u128::from(alpha)) >> 16) as u64
}
