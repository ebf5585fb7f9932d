//! How far lanes and kernels have come, and how often a period can come again before one of them gets where it is not
//! the same any more: the last loop, whose chunks are of another size, the end of an operation or of the last iteration.

use crate::engine::Engine;
use crate::engine::state::LaneState;
use crate::program::Layout;
use crate::queue::Store;
use crate::units::{Span, Time};

/// Where a lane was.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneMark {
    turn: u32,
    repetition: u32,
    chunk: u32,
    left: u64,
}

/// Where a kernel was.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelMark {
    iteration: u32,
    started: Time,
    end: Time,
}

/// How far all had come.
#[derive(Debug)]
pub(super) struct Marks {
    lanes: Vec<LaneMark>,
    kernels: Vec<KernelMark>,
}

/// What a lane does in a period.
enum Course {
    /// The same as before, without getting on, or from one iteration to another.
    Stays,
    /// So many loops.
    Loops(u32),
    /// So many repetitions of its present operation.
    Repetitions(u32),
    /// So many bytes of its present chunk, in whole slices.
    Slices(u64),
}

impl LaneMark {
    fn course(self, lane: &LaneState, iterations: u32) -> Option<Course> {
        let same_chunk = self.repetition == lane.repetition && self.chunk == lane.chunk;
        if lane.done {
            return (self.turn == lane.turn).then_some(Course::Stays);
        }
        if self.turn == lane.turn && same_chunk && self.left > lane.left && iterations == 0 {
            let bytes = self.left - lane.left;
            return bytes.is_multiple_of(lane.slice.max(1)).then_some(Course::Slices(bytes));
        }
        if self.left != lane.left {
            return None;
        }
        if self.turn == lane.turn && same_chunk {
            return Some(Course::Stays);
        }
        if iterations > 0 || self.turn > lane.turn {
            return None;
        }
        if self.turn < lane.turn {
            return same_chunk.then_some(Course::Loops(lane.turn - self.turn));
        }
        (self.repetition < lane.repetition).then(|| Course::Repetitions(lane.repetition - self.repetition))
    }
}

impl<S: Store> Engine<S> {
    pub(super) fn marks(&self) -> Marks {
        let lane = |l: &LaneState| LaneMark { turn: l.turn, repetition: l.repetition, chunk: l.chunk, left: l.left };
        Marks {
            lanes: self.lanes.iter().map(lane).collect(),
            kernels: self
                .kernels
                .iter()
                .map(|k| KernelMark { iteration: k.iteration, started: k.started, end: k.end })
                .collect(),
        }
    }

    /// How often what happened since `marks`, in `period`, comes again for all lanes and kernels; 0 if it does not.
    pub(super) fn room(&self, marks: &Marks, period: Span) -> u64 {
        let mut room = u64::MAX;
        for (kernel, mark) in self.kernels.iter().zip(&marks.kernels) {
            let iterations = kernel.iteration - mark.iteration;
            if iterations == 0 {
                continue;
            }
            if kernel.started.since(mark.started) != period || kernel.end.since(mark.end) != period {
                return 0;
            }
            let all = self.programs[kernel.program as usize].iterations;
            room = room.min(u64::from((all - 1).saturating_sub(kernel.iteration) / iterations));
        }
        for (lane, mark) in self.lanes.iter().zip(&marks.lanes) {
            let kernel = lane.kernel as usize;
            let iterations = self.kernels[kernel].iteration - marks.kernels[kernel].iteration;
            let layout = &self.layouts[lane.layout as usize];
            let more = match mark.course(lane, iterations) {
                None => 0,
                Some(Course::Stays) => continue,
                Some(Course::Loops(loops)) => {
                    // In the last loop chunks are of another size, unless all of the data are whole loops.
                    let last = lane.loops - 1 - u32::from(!layout.is_uniform());
                    u64::from(last.saturating_sub(lane.turn) / loops)
                }
                Some(Course::Repetitions(count)) => self.repetitions(lane, *mark, layout) / u64::from(count),
                // The last slice can be short, and after it comes another chunk.
                Some(Course::Slices(bytes)) => lane.left.saturating_sub(1) / bytes,
            };
            room = room.min(more);
            if room == 0 {
                break;
            }
        }
        room
    }

    /// How many repetitions a lane's operation still has on chunks of the size that it had since `mark`.
    fn repetitions(&self, lane: &LaneState, mark: LaneMark, layout: &Layout) -> u64 {
        let op = &self.ops[lane.pc as usize];
        let bytes = layout.chunk_bytes(lane.turn, mark.chunk);
        let mut chunk = mark.chunk;
        let mut same = 0u32;
        for _ in mark.repetition + 1..op.repeat {
            chunk += op.stride_or_span;
            if chunk >= layout.chunks {
                chunk -= layout.chunks;
            }
            if layout.chunk_bytes(lane.turn, chunk) != bytes {
                break;
            }
            same += 1;
        }
        u64::from(same).saturating_sub(u64::from(lane.repetition - mark.repetition))
    }

    /// Takes lanes and kernels on by `times` what they did since `marks`, in `period` each time.
    pub(super) fn take_on(&mut self, marks: &Marks, times: u64, period: Span) {
        let all = period * times;
        for (lane, mark) in self.lanes.iter_mut().zip(&marks.lanes) {
            let kernel = lane.kernel as usize;
            let iterations = self.kernels[kernel].iteration - marks.kernels[kernel].iteration;
            match mark.course(lane, iterations) {
                None => {}
                Some(Course::Stays) if iterations == 0 => {}
                Some(Course::Stays) => lane.busy_until += all,
                Some(Course::Loops(loops)) => {
                    lane.turn += loops * times as u32;
                    lane.busy_until += all;
                }
                Some(Course::Slices(bytes)) => {
                    lane.left -= bytes * times;
                    lane.busy_until += all;
                }
                Some(Course::Repetitions(count)) => {
                    let more = u64::from(count) * times;
                    lane.repetition += more as u32;
                    let chunks = u64::from(self.layouts[lane.layout as usize].chunks);
                    let stride = u64::from(self.ops[lane.pc as usize].stride_or_span);
                    lane.chunk = ((u64::from(lane.chunk) + more * stride) % chunks) as u32;
                    lane.busy_until += all;
                }
            }
        }
        for (kernel, mark) in self.kernels.iter_mut().zip(&marks.kernels) {
            let iterations = kernel.iteration - mark.iteration;
            if iterations > 0 {
                kernel.iteration += iterations * times as u32;
                kernel.started += all;
                kernel.end += all;
            }
        }
    }

    /// The iterations of a kernel since `marks`.
    pub(super) fn iterations_since(&self, marks: &Marks, kernel: usize) -> u32 {
        self.kernels[kernel].iteration - marks.kernels[kernel].iteration
    }
}
