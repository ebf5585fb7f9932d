//! What the steps of one call cost, by the kind of work and the call's shape.

use sim_core::program::{Cost, Spacing};
use sim_core::units::{Bytes, PsPerByte, Rate, Span};

use super::{Key, Timing};
use crate::lanes::Work;
use crate::nccl::Protocol;

/// What the cost of a step depends on beside the kind of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallShape {
    /// The protocol.
    pub protocol: Protocol,
    /// Threads of a channel's block.
    pub threads: u32,
    /// Heads of an NVLS call.
    pub heads: u32,
    /// Whether NVLS goes on between nodes.
    pub between_nodes: bool,
    /// What the library plans for one channel of one GPU's NVLink, GB/s; infinite without NVLink.
    pub planned_gbps: f64,
}

/// Heads that the fixed cost of a loop is given for.
const LOOP_HEADS: u64 = 8;

/// Warps of a point-to-point block: 640 threads.
const WARPS: u32 = 20;

/// The values of a step that moves its data in passes of all threads, as LL and LL128 do.
#[derive(Clone, Copy, Debug)]
struct Passes {
    step: Key,
    thread: Key,
    rate: Key,
    /// Data that a thread moves in a pass, bytes.
    per_thread: f64,
    /// Threads of a full block.
    full: f64,
    /// Whether threads go from pass to pass together, so that the rate is that of full passes and goes with their number.
    whole: bool,
}

impl Passes {
    const RING_LL: Self = Self {
        step: Key::RingLlStep,
        thread: Key::RingLlThread,
        rate: Key::RingLlRate,
        per_thread: 8.0,
        full: 512.0,
        whole: true,
    };
    const TREE_LL: Self =
        Self { step: Key::TreeLlStep, thread: Key::TreeLlThread, rate: Key::TreeLlRate, ..Self::RING_LL };
    const RING_LL128: Self = Self {
        step: Key::RingLl128Step,
        thread: Key::RingLl128Thread,
        rate: Key::RingLl128Rate,
        per_thread: 24.0,
        full: 640.0,
        whole: false,
    };
    const TREE_LL128: Self =
        Self { step: Key::TreeLl128Step, thread: Key::TreeLl128Thread, rate: Key::TreeLl128Rate, ..Self::RING_LL128 };
}

/// The costs of one call.
#[derive(Clone, Copy, Debug)]
pub struct CallTiming<'a> {
    pub(super) timing: &'a Timing,
    pub(super) shape: CallShape,
}

impl CallTiming<'_> {
    /// The cost of one slice of `work`; sizes are wire bytes (flags included), since that is what lanes move.
    #[must_use]
    pub fn cost(&self, work: Work) -> Cost {
        let (t, s) = (self.timing, self.shape);
        let passes = match s.protocol {
            Protocol::Ll => Some((Passes::RING_LL, Passes::TREE_LL)),
            Protocol::Ll128 => Some((Passes::RING_LL128, Passes::TREE_LL128)),
            Protocol::Simple => None,
        };
        let simple = |rate: f64| self.plain(Key::SimpleStep, rate);
        let copied = || t.ask(Key::SimpleRate).min(s.planned_gbps);
        // A loop of heads × chunk takes heads × (loop_us / 8 + chunk / rate); a step is told the bytes of one chunk.
        let of_loop = |fixed: Key, rate: Key| {
            let span = t.span(fixed).scaled(u64::from(s.heads.max(1)) * 1_000_000 / LOOP_HEADS);
            Cost { fixed: span, ..self.plain(fixed, t.ask(rate) / f64::from(s.heads.max(1))) }
        };
        let of_heads = |rate: Key| t.ask(rate) / f64::from(s.heads.max(1));
        match (work, passes) {
            (Work::Free, _) => Cost::default(),
            (Work::Ring | Work::Tree, None) => simple(copied()),
            // Peers on NVLink write the last step straight into the output buffer: only its arrival is waited for.
            (Work::DirectReceive, None) => simple(f64::INFINITY),
            (Work::Ring, Some((ring, _))) => self.in_passes(ring, 1.0),
            (Work::DirectReceive, Some((ring, _))) => self.received(ring, 1.0),
            (Work::Tree, Some((_, tree))) => self.in_passes(tree, 1.0),
            (Work::Stage, _) if s.between_nodes => of_loop(Key::NvlsTreeLoop, Key::NvlsTreeRate),
            (Work::Stage, _) => of_loop(Key::NvlsLoop, Key::NvlsRate),
            (Work::Multimem | Work::MultimemTree, _) if s.between_nodes => {
                self.plain(Key::NvlsTreeHead, of_heads(Key::NvlsTreeHeadRate))
            }
            (Work::Multimem | Work::MultimemTree, _) => self.plain(Key::NvlsHead, of_heads(Key::NvlsHeadRate)),
            (Work::Spread { width }, _) => simple(copied() / f64::from(width.max(1))),
            (Work::Direct, _) => self.plain(Key::DirectStep, t.ask(Key::DirectRate)),
            (Work::Symmetric { heads, reduces }, _) => {
                let rate = t.ask(if reduces { Key::SymmetricReduceRate } else { Key::SymmetricCopyRate });
                Cost { per_byte: self.per_byte(rate / f64::from(heads.max(1))), ..Cost::default() }
            }
            (Work::Copy, _) => self.plain(Key::CopyEngineCopy, t.ask(Key::CopyEngineRate)),
            // The sender writes into the output buffer.
            (Work::DirectPointToPoint { .. }, None) => self.plain(Key::P2pStep, f64::INFINITY),
            (Work::PointToPoint { width } | Work::DirectPointToPoint { width }, passes) => {
                // The 20 warps of a block are shared out evenly, whole warps at a time; a lone pair has ten each way.
                let warps = (WARPS / (2 * u32::from(width.max(1)))).max(1);
                if let Some((ring, _)) = passes {
                    // LL's passes are as long as the threads of a direction are many.
                    let all = if ring.whole { WARPS } else { WARPS / 2 };
                    let part = f64::from(warps) / f64::from(all);
                    let receives = matches!(work, Work::DirectPointToPoint { .. });
                    return if receives { self.received(ring, part) } else { self.in_passes(ring, part) };
                }
                // A single warp copies and signals in turn; a few do not yet fill what their block can move.
                let lone = if warps == 1 { t.ask(Key::P2pLoneWarpShare) } else { 1.0 };
                let rate = (f64::from(warps) * lone * t.ask(Key::P2pWarpRate)).min(t.ask(Key::P2pRate));
                self.plain(Key::P2pStep, rate)
            }
        }
    }

    /// The cost of one slice of `work` that a kernel reads from host memory, over PCIe, at a rate of wire bytes at most, since
    /// a block has only so many reads under way. It is lower where another GPU wrote there (`shared`) than where a NIC did.
    #[must_use]
    pub fn cost_of_host(&self, work: Work, shared: bool) -> Cost {
        let cost = self.cost(work);
        if work == Work::Free {
            return cost;
        }
        let rate = self.timing.ask(if shared { Key::HostSharedRate } else { Key::HostRate });
        // The reads bound it, whatever is left for the last pass.
        Cost { per_byte: cost.per_byte.max(Rate::from_gbyte_f64(rate).ps_per_byte()), whole: false, ..cost }
    }

    /// A fixed cost and a rate of data.
    fn plain(&self, fixed: Key, data_gbps: f64) -> Cost {
        Cost { fixed: self.timing.span(fixed), per_byte: self.per_byte(data_gbps), ..Cost::default() }
    }

    /// LL and LL128: threads move 8 B or 24 B of data each in a pass, of which a full block's first costs `thread_us`
    /// when all have work; beyond it data move at a rate. A step has `part` of the block's threads. In LL a pass (of the
    /// line that a thread waits for, and hands on) takes its time however many threads take part, and few bytes of a last
    /// pass as long as many: the rate is that of a full block.
    fn in_passes(&self, of: Passes, part: f64) -> Cost {
        let (t, threads) = (self.timing, f64::from(self.shape.threads));
        let pass = of.per_thread * threads * part * wire_factor(self.shape.protocol);
        let rate = t.ask(of.rate) * part * if of.whole { threads / of.full } else { 1.0 };
        let first_us = t.ask(of.thread) * (threads * if of.whole { part } else { 1.0 } / of.full).min(1.0);
        let ps_per_byte = first_us * 1e6 / pass.max(1.0);
        Cost {
            fixed: t.span(of.step),
            pass: Bytes::new(pass as u64),
            pass_per_byte: if ps_per_byte > 0.0 {
                Rate::from_gbyte_f64(1e3 / ps_per_byte).ps_per_byte()
            } else {
                PsPerByte::FREE
            },
            per_byte: self.per_byte(rate),
            whole: of.whole,
        }
    }

    /// A receive that hands on nothing. In LL it goes along with the sender's passes.
    fn received(&self, of: Passes, part: f64) -> Cost {
        let cost = self.in_passes(of, part);
        if of.whole { cost.last_pass() } else { cost }
    }

    /// The cost of a wire byte at a rate of data.
    fn per_byte(&self, data_gbps: f64) -> PsPerByte {
        if data_gbps.is_finite() {
            Rate::from_gbyte_f64(data_gbps * wire_factor(self.shape.protocol)).ps_per_byte()
        } else {
            PsPerByte::FREE
        }
    }

    /// What a channel moves in steps of so many bytes of data, GB/s of data, beside the fixed cost of each.
    #[must_use]
    pub fn data_rate(&self, work: Work, bytes: u64) -> f64 {
        let cost = self.cost(work);
        let wire = (bytes.max(1) as f64 * wire_factor(self.shape.protocol)) as u64;
        let time = cost.hold(wire) - cost.fixed;
        bytes.max(1) as f64 / (time.as_us() * 1e3).max(f64::MIN_POSITIVE)
    }

    /// The same with the fixed cost of each step.
    #[must_use]
    pub fn step_rate(&self, work: Work, bytes: u64) -> f64 {
        let time = self.cost(work).hold((bytes.max(1) as f64 * wire_factor(self.shape.protocol)) as u64);
        bytes.max(1) as f64 / (time.as_us() * 1e3).max(f64::MIN_POSITIVE)
    }

    /// Latency of a message inside a node beyond its path.
    #[must_use]
    pub fn local_latency(&self, nvlink: bool) -> Span {
        let protocol = self.shape.protocol;
        self.timing.span(if nvlink { Key::nvlink(protocol) } else { Key::pcie(protocol) })
    }

    /// Latency of a message between nodes beyond its path.
    #[must_use]
    pub fn network_latency(&self) -> Span {
        self.timing.span(Key::network(self.shape.protocol))
    }

    /// How far apart the messages of a queue pair begin, where those of more than `above` do.
    #[must_use]
    pub fn spacing(&self, above: Option<Bytes>) -> Spacing {
        let turn = self.timing.span(Key::NetworkTurn);
        match above {
            Some(above) => Spacing { above, time: self.timing.span(Key::NetworkSplit), turn },
            None => Spacing { above: Bytes::ZERO, time: Span::ZERO, turn },
        }
    }

    /// Time from the end of the consuming operation to the posting of the clear-to-send.
    #[must_use]
    pub fn clear_to_send(&self) -> Span {
        self.timing.span(Key::NetworkCts)
    }
}

/// Wire bytes per data byte of a protocol, flags included.
#[must_use]
pub const fn wire_factor(protocol: Protocol) -> f64 {
    match protocol {
        Protocol::Ll => 2.0,
        Protocol::Ll128 => 128.0 / 120.0,
        Protocol::Simple => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that the cost of `work` asks for.
    fn asked(work: Work, protocol: Protocol, between_nodes: bool) -> Vec<&'static str> {
        let timing = Timing::builtin(90, "infiniband").watched();
        let shape = CallShape { protocol, threads: 512, heads: 8, between_nodes, planned_gbps: 20.0 };
        let _ = timing.call(shape).cost(work);
        timing.read().iter().map(|p| p.name()).collect()
    }

    #[test]
    fn a_cost_asks_for_what_it_depends_on_and_nothing_else() {
        let simple = Protocol::Simple;
        assert_eq!(asked(Work::Free, simple, true), [""; 0]);
        assert_eq!(asked(Work::Ring, simple, true), ["simple.rate_gbps", "simple.step_us"]);
        assert_eq!(asked(Work::DirectReceive, simple, false), ["simple.step_us"]);
        assert_eq!(
            asked(Work::Tree, Protocol::Ll, true),
            ["tree_ll.rate_gbps", "tree_ll.step_us", "tree_ll.thread_us"]
        );
        assert_eq!(asked(Work::Stage, simple, false), ["nvls.loop_us", "nvls.rate_gbps"]);
        assert_eq!(asked(Work::Multimem, simple, true), ["nvls_tree.head_rate_gbps", "nvls_tree.head_us"]);
        let wide = Work::PointToPoint { width: 8 };
        let all = ["p2p.lone_warp_share", "p2p.rate_gbps", "p2p.step_us", "p2p.warp_rate_gbps"];
        assert_eq!(asked(wide, simple, false), all);
        assert_eq!(asked(wide, Protocol::Ll128, false).len(), 3);
    }

    #[test]
    fn passes_of_ll_are_whole_and_as_long_for_few_threads() {
        let timing = Timing::builtin(100, "infiniband");
        let call = |threads, protocol| {
            timing.call(CallShape { protocol, threads, heads: 8, between_nodes: false, planned_gbps: 20.0 })
        };
        let us = |threads, work, data: u64| {
            let cost = call(threads, Protocol::Ll).cost(work);
            (cost.hold(2 * data) - cost.fixed).as_us()
        };
        let beyond = |threads, work, data| us(threads, work, data) - us(threads, work, 8 * u64::from(threads));
        let pass = 4096.0 / 8.5e3;
        for (threads, data, passes) in
            [(512, 4096, 0.0), (512, 4112, 1.0), (512, 8192, 1.0), (256, 4096, 1.0), (256, 2064, 1.0)]
        {
            assert!((beyond(threads, Work::Ring, data) - passes * pass).abs() < 1e-3, "{threads} threads, {data} B");
        }
        // Who only receives is done a pass after the sender.
        assert!(beyond(512, Work::DirectReceive, 1 << 20).abs() < 1e-3);
        // A lone message has half of the block each way.
        let lone = |bytes| us(640, Work::PointToPoint { width: 1 }, bytes);
        assert!((lone(5120) - lone(2560) - pass).abs() < 1e-3);
        // LL128 goes on byte by byte.
        let cost = call(640, Protocol::Ll128).cost(Work::Ring);
        assert!(cost.hold(20_000) < cost.hold(20_016));
    }
}
