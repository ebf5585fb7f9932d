//! Outages of a link on a schedule.

use serde::{Deserialize, Serialize};

use crate::units::{Span, Time};

/// When a link is down: from `first` on for `down_for`, and again `every` so long.
///
/// A link that is down takes no new segment: its start is put off to the end of the outage. What is on the wire when an
/// outage begins still arrives, so a schedule is exact to one segment's serialisation per outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Outage {
    /// Start of the first outage, from the start of the run.
    pub first: Span,
    /// How long each outage lasts.
    pub down_for: Span,
    /// From the start of an outage to the start of the next, longer than `down_for`; `None` if there is only one.
    pub every: Option<Span>,
}

impl Outage {
    /// Outages of `down_for` that begin at `first` and then `every` so long.
    #[must_use]
    pub const fn periodic(first: Span, down_for: Span, every: Span) -> Self {
        Self { first, down_for, every: Some(every) }
    }

    /// The earliest instant from `at` on at which the link is up: `at` itself, or the end of the outage it lies in.
    ///
    /// Closed form: with `t = at − first`, the outage of number `⌊t / every⌋` is the only one `at` can lie in. A link
    /// whose outages leave no gap is never up again: [`Time::MAX`].
    #[must_use]
    pub const fn up_from(&self, at: Time) -> Time {
        let (now, first, down) = (at.as_ps(), self.first.as_ps(), self.down_for.as_ps());
        if now < first {
            return at;
        }
        let into = match self.every {
            Some(every) if every.as_ps() <= down => return Time::MAX,
            Some(every) => (now - first) % every.as_ps(),
            None => now - first,
        };
        if into < down { Time::from_ps(now.saturating_add(down - into)) } else { at }
    }

    /// The share of the time that the link is down in the long run, 0 to 1; 0 for a single outage.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.every.map_or(0.0, |every| (self.down_for.as_ps() as f64 / every.as_ps().max(1) as f64).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_within_an_outage_go_to_its_end() {
        let ps = Span::from_ps;
        let outage = Outage::periodic(ps(100), ps(10), ps(40));
        for (at, up) in [(0, 0), (99, 99), (100, 110), (109, 110), (110, 110), (139, 139), (140, 150), (189, 190)] {
            assert_eq!(outage.up_from(Time::from_ps(at)), Time::from_ps(up), "{at}");
        }
        assert_eq!(outage.share(), 0.25);
        let once = Outage { every: None, ..outage };
        assert_eq!(once.up_from(Time::from_ps(105)), Time::from_ps(110));
        assert_eq!(once.up_from(Time::from_ps(145)), Time::from_ps(145));
        assert_eq!(Outage::periodic(ps(5), ps(9), ps(9)).up_from(Time::from_ps(7)), Time::MAX);
    }

    #[test]
    fn brute_force_agrees() {
        for (first, down, every) in [(0, 1, 2), (3, 5, 11), (7, 0, 4), (20, 3, 4)] {
            let outage = Outage::periodic(Span::from_ps(first), Span::from_ps(down), Span::from_ps(every));
            let is_down = |t: u64| (0..100).any(|k| (first + k * every..first + k * every + down).contains(&t));
            for t in 0..200 {
                let up = (t..).find(|&t| !is_down(t)).unwrap();
                assert_eq!(outage.up_from(Time::from_ps(t)).as_ps(), up, "{first} {down} {every} at {t}");
            }
        }
    }
}
