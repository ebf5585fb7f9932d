//! Marking at egress: whether a packet is told that it met congestion; and the draws of a network.

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::spec::Marking;
use crate::random;

/// The streams that are drawn from: one a purpose and port, made at its first draw.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    seed: u64,
    marks: Vec<Option<Xoshiro256PlusPlus>>,
    losses: Vec<Option<Xoshiro256PlusPlus>>,
    gaps: Vec<Option<Xoshiro256PlusPlus>>,
}

impl Draws {
    pub(super) fn new(seed: u64, links: usize) -> Self {
        Self { seed, marks: vec![None; links], losses: vec![None; links], gaps: vec![None; links] }
    }

    #[inline]
    fn mark(&mut self, link: u32) -> u32 {
        draw(&mut self.marks[link as usize], self.seed, "mark", link)
    }

    /// Thirty-two bits that decide whether a packet is lost behind a port.
    pub(super) fn loss(&mut self, link: u32) -> u32 {
        draw(&mut self.losses[link as usize], self.seed, "drop", link)
    }
}

impl Draws {
    /// Thirty-two bits that decide a gap after a packet of an endpoint's port.
    pub(super) fn gap(&mut self, link: u32) -> u32 {
        draw(&mut self.gaps[link as usize], self.seed, "jitter", link)
    }
}

#[inline]
fn draw(stream: &mut Option<Xoshiro256PlusPlus>, seed: u64, purpose: &str, entity: u32) -> u32 {
    let stream = stream.get_or_insert_with(|| random::stream(seed, purpose, u64::from(entity)));
    (stream.next_u64() >> 32) as u32
}

/// Whether a queue of `depth` wire bytes at `link` marks a packet; `credited` says that it did not wait for a credit.
///
/// Random early detection in integers: the probability `pmax·(depth − kmin)/(kmax − kmin)` is compared as
/// `draw·(kmax − kmin) < pmax·(depth − kmin)`, and a draw is made only between the thresholds.
#[inline]
pub(super) fn marks(marking: Marking, depth: u64, credited: bool, link: u32, draws: &mut Draws) -> bool {
    match marking {
        Marking::Off => false,
        Marking::Red { kmin, kmax, pmax, .. } => {
            let (kmin, kmax) = (u64::from(kmin), u64::from(kmax));
            depth > kmin
                && (depth > kmax
                    || u128::from(draws.mark(link)) * u128::from(kmax - kmin)
                        < u128::from(pmax) * u128::from(depth - kmin))
        }
        Marking::Root { threshold, victims } => depth > u64::from(threshold) && (credited || victims),
    }
}
