//! Named random streams: one seeded generator per (purpose, entity).
//!
//! Adding a source of jitter to one switch moves no other draw, since every stream is seeded from the scenario's seed,
//! the name of the purpose and the number of the entity alone. The generator is Xoshiro256++ (Blackman, Vigna: Scrambled
//! linear pseudorandom number generators, ACM TOMS 47, 2021), named by its algorithm so that a new version of a
//! library can't change a result.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// The stream of `purpose` for the entity numbered `entity` under the scenario's `seed`.
///
/// ```
/// use rand::Rng;
/// let mut a = sim_core::random::stream(1, "jitter", 7);
/// let mut b = sim_core::random::stream(1, "jitter", 7);
/// assert_eq!(a.next_u64(), b.next_u64());
/// ```
#[must_use]
pub fn stream(seed: u64, purpose: &str, entity: u64) -> Xoshiro256PlusPlus {
    let mut state = mix(seed ^ 0x9e37_79b9_7f4a_7c15);
    for byte in purpose.bytes() {
        state = mix(state ^ u64::from(byte));
    }
    Xoshiro256PlusPlus::seed_from_u64(mix(state ^ mix(entity)))
}

/// A hash of 64 bits to 64 bits (the finaliser of SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
#[must_use]
pub const fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;
    use rand_distr::{Distribution, Exp1, StandardNormal};

    #[test]
    fn the_first_draws_never_change() {
        let mut rng = stream(1, "test", 0);
        let draws: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(
            draws,
            [
                13_673_870_454_511_376_132,
                4_411_779_099_860_580_761,
                13_084_186_974_594_897_805,
                3_390_730_694_794_194_038
            ]
        );
        let normal: f64 = StandardNormal.sample(&mut rng);
        let exponential: f64 = Exp1.sample(&mut rng);
        assert_eq!(format!("{normal:.12} {exponential:.12}"), "1.188368386507 0.104715561830");
    }

    #[test]
    fn streams_are_independent_of_each_other() {
        let first = |purpose, entity| stream(9, purpose, entity).next_u64();
        assert_ne!(first("jitter", 0), first("jitter", 1));
        assert_ne!(first("jitter", 0), first("ecmp", 0));
    }
}
