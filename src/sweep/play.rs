//! The points of a sweep, spread over threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::{Played, Sweep};

/// How much of the threads' time went into points.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Use {
    /// From the first point to the last.
    pub wall: Duration,
    /// Time in points, of all threads.
    pub busy: Duration,
    /// How many threads there were.
    pub threads: usize,
}

impl Use {
    /// The part of all threads' time that went into points, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        let all = self.wall.as_secs_f64() * self.threads as f64;
        if all > 0.0 { (self.busy.as_secs_f64() / all).min(1.0) } else { 1.0 }
    }
}

/// Plays points, one a thread at a time, taken in order; each is handed to `take` with its place in `todo` as soon as it is done,
/// on the thread that calls. `todo` has the numbers of points. Where `take` returns false, no more are begun and `interrupt` is
/// set; those under way are then given up.
pub fn play(
    sweep: &Sweep,
    todo: &[usize],
    threads: usize,
    interrupt: &Arc<AtomicBool>,
    mut take: impl FnMut(usize, Played) -> bool,
) -> Use {
    let threads = threads.clamp(1, todo.len().max(1));
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    let busy = std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let mut workers = Vec::with_capacity(threads);
        for _ in 0..threads {
            let (next, sender) = (&next, sender.clone());
            workers.push(scope.spawn(move || {
                // What is parallel within a point runs on this thread alone.
                let alone = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
                let mut busy = Duration::ZERO;
                while !interrupt.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(point) = todo.get(at) else { break };
                    let began = Instant::now();
                    let played = sweep.play(*point, interrupt);
                    busy += began.elapsed();
                    let Some(played) = played else { break };
                    if sender.send((at, played)).is_err() {
                        break;
                    }
                }
                drop(alone);
                busy
            }));
        }
        drop(sender);
        let mut go_on = true;
        for (at, played) in receiver {
            if go_on && !take(at, played) {
                interrupt.store(true, Ordering::Relaxed);
                go_on = false;
            }
        }
        workers.into_iter().filter_map(|worker| worker.join().ok()).sum()
    });
    Use { wall: began.elapsed(), busy, threads }
}
