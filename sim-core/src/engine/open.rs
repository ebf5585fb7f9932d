//! Engines whose drivers load programs while others run, and go on step by step.
//!
//! What is played up to an instant does not depend on what is loaded later ([`Limits::open`](super::Limits::open)), so a driver can
//! ask for what happens until then, think, and load more.

use super::state::MANY;
use super::{Engine, Notice, flapping, link_states};
use crate::event::{Phase, Word};
use crate::ids::LinkId;
use crate::network::Network;
use crate::outcome::StopReason;
use crate::queue::Store;
use crate::units::{Span, Time};

impl<S: Store> Engine<S> {
    /// Plays what is due up to `until`, that instant included, or up to the first notices, which it adds to `heard`. Returns why
    /// nothing is left to do, if that is so: [`StopReason::Finished`] where all is at rest.
    ///
    /// Notices come as soon as an end is settled, which can be before its instant, and no later than that if kernels run once.
    #[inline(never)]
    pub fn go_to(&mut self, until: Time, heard: &mut Vec<Notice>) -> Option<StopReason> {
        self.horizon = until + Span::from_ps(1);
        let stop = self.go_on();
        self.horizon = Time::MAX;
        heard.append(&mut self.notices);
        stop
    }

    /// When the next event is due, if one is pending.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        self.pending.earliest()
    }

    /// The instant from which on nothing of what was played can be felt any more, if nothing is left to do: that of the last
    /// event, or when the last link is free.
    #[must_use]
    pub fn rest(&self) -> Time {
        self.links.iter().map(|link| link.free).fold(self.latest, Time::max)
    }

    /// Events so far, and those of them that were counted without being played.
    #[must_use]
    pub const fn events(&self) -> (u64, u64) {
        (self.engine.events, self.watch.repeated.events)
    }

    /// Puts the engine on a larger network, in which its link `i` is `places[i]`. Places ascend, so that links keep their order, and
    /// with it events of one instant. Between two calls of [`go_to`](Self::go_to), without a network of packets.
    pub fn move_to(&mut self, network: &Network, places: &[u32]) {
        debug_assert!(places.is_sorted() && places.len() == self.links.len() && self.net.is_none());
        let place = |link: u32| places.get(link as usize).copied().unwrap_or(link);
        let before = core::mem::take(&mut self.links);
        self.links = link_states(network, self.mtu);
        for (i, mut link) in before.into_iter().enumerate() {
            link.feeder = if link.feeder < MANY { place(link.feeder) } else { link.feeder };
            self.links[places[i] as usize] = link;
        }
        let held = core::mem::replace(&mut self.flapping, flapping(network.links()));
        for old in held {
            let new = self.flapping.iter_mut().find(|new| new.link == place(old.link));
            new.into_iter().for_each(|new| new.held = old.held);
        }
        self.routes.iter_mut().for_each(|link| link.0 = place(link.0));
        self.fans.iter_mut().for_each(|fan| fan.link = place(fan.link));
        for event in self.pending.drain() {
            let word = event.word();
            let word = match word.phase() {
                Phase::Source | Phase::Arrival => {
                    let link = LinkId(place(word.link_id().0));
                    Word::segment(word.phase(), link, word.flow_id(), word.number())
                }
                _ => word,
            };
            self.pending.push(event.at(), word);
        }
        self.forget_states();
        self.watch.due = false;
    }
}
