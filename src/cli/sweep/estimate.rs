//! About how long a sweep takes, from three of its points.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::super::context::Context;
use super::super::fault::{Exit, Failure};
use super::super::interrupt;
use crate::diagnostic::counted;
use crate::sweep::Sweep;
use crate::sweep::play;

/// The longest that a point is played for it.
const LONGEST: Duration = Duration::from_secs(10);

/// Plays the first, the middle and the last point, and says on standard error what follows.
pub(super) fn tell(sweep: &Sweep, points: &[usize], threads: usize, context: &Context) -> Result<(), Failure> {
    let mut at = vec![0, points.len() / 2, points.len() - 1];
    at.dedup();
    let by_user = interrupt::flag();
    let mut sum = Duration::ZERO;
    let mut cut = false;
    let tried: Vec<usize> = at.iter().map(|at| points[*at]).collect();
    for point in &tried {
        let flag = Arc::new(AtomicBool::new(false));
        let over = AtomicBool::new(false);
        let began = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if began.elapsed() > LONGEST || by_user.load(Ordering::Relaxed) {
                        flag.store(true, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            sum += play::play(sweep, &[*point], 1, &flag, |_, _| true).busy;
            over.store(true, Ordering::Relaxed);
        });
        cut |= flag.load(Ordering::Relaxed);
        if by_user.load(Ordering::Relaxed) {
            return Err(Failure::silent(Exit::Interrupted));
        }
    }
    let each = sum.as_secs_f64() / tried.len() as f64;
    let used = threads.clamp(1, points.len());
    let all = each * points.len() as f64 / used as f64;
    let more = if cut { "more than " } else { "about " };
    context.note(&format!(
        "{more}{} on {}, if other points take as long as {}",
        time(all),
        counted(used, "thread"),
        tried.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
    ));
    Ok(())
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}
