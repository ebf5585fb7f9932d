//! Regions: parts of a large run that touch one another only after a while, each played for that while on its own.
//!
//! Where records of a run are more than a core's caches hold, an event waits for memory most of its time: between two events
//! of a lane come those of all the others. Connections whose slots come back by a message ([`Credit::Message`]) cut a program
//! in *regions* that share no link ([`cut`]): those with lanes, and the *wires* between them. A message that a lane sends into
//! wires leaves when the operation has ended and the sender's latency is over, which is the *lookahead* at least. So all that
//! wires do before `earliest event + lookahead` is settled by what was sent already; and when they have done it, all that
//! arrives at a region of lanes before that instant is known. Each is then played to that instant, one after the other, with
//! a queue of its own.
//!
//! Nothing that is measured changes by it: what happens, and when, is the same, and events of one instant keep their order
//! wherever they can meet. An arrival is told to its region ahead of time, as everywhere (it counts from its instant on).
//!
//! [`Credit::Message`]: crate::program::Credit::Message

mod cut;

use core::sync::atomic::Ordering;

use super::soon::LARGE;
use super::{Engine, Notice};
use crate::event::{Event, Phase, Word};
use crate::outcome::StopReason;
use crate::queue::{Pending, Store};
use crate::units::{Span, Time};

/// Looks for a period after which a large run is cut in regions instead.
const PATIENCE: u32 = 12;

/// A program that is played region by region.
#[derive(Debug)]
pub(super) struct Regions<S> {
    /// The region of each link, junction, receive end and send end, as far as they have one.
    of_link: Vec<u16>,
    of_junction: Vec<u16>,
    of_receiver: Vec<u16>,
    of_sender: Vec<u16>,
    of_lane: Vec<u16>,
    /// The regions, wires first, and how many are wires.
    list: Vec<Region<S>>,
    wires: u16,
    /// The one that is played now; its queue is the engine's.
    current: u16,
    /// What is sent into wires leaves so much later at least.
    lookahead: Span,
    /// Up to where wires have been played.
    end: Time,
}

/// A region: its events, and what wires have for it.
#[derive(Debug)]
struct Region<S> {
    pending: Pending<S>,
    mail: Vec<Mail>,
}

/// A message, or a slot that comes back, at a region of lanes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mail {
    /// The part of a message is at a receive end.
    Part { receiver: u32, message: u32, at: Time },
    /// A slot is back at a send end.
    Credit { sender: u32, at: Time },
}

impl<S: Store> Regions<S> {
    /// The region where an event takes place.
    fn of(&self, word: Word) -> u16 {
        match word.phase() {
            Phase::Lane => self.of_lane[word.lane_id().index()],
            Phase::Meeting => self.of_junction[word.lane_id().index()],
            _ => self.of_link[word.link_id().index()],
        }
    }

    /// Keeps what arrives at another region, if it is one of the wires that is played now.
    #[inline]
    pub(super) fn keep(&mut self, mail: Mail) -> bool {
        if self.current >= self.wires {
            return false;
        }
        let region = match mail {
            Mail::Part { receiver, .. } => self.of_receiver[receiver as usize],
            Mail::Credit { sender, .. } => self.of_sender[sender as usize],
        };
        self.list[region as usize].mail.push(mail);
        true
    }

    /// The queue of other wires, if that is where the event takes place.
    #[inline]
    pub(super) fn queue_of_wires(&mut self, at: Time, word: Word) -> Option<&mut Pending<S>> {
        let region = self.of_link[word.link_id().index()];
        debug_assert!(
            region == self.current || at >= self.end,
            "sent at {at} into what has been played up to {}",
            self.end
        );
        (region != self.current).then(|| &mut self.list[region as usize].pending)
    }
}

impl<S: Store> Engine<S> {
    /// A large run in which nothing has come again so far is cut in regions, if it can be.
    pub(super) fn consider_regions(&mut self, looks: u32) {
        self.apart = !self.whole && looks >= PATIENCE && self.flows.len() >= LARGE && self.limits.one_program;
    }

    /// Whether a run may be cut in regions: one program, and nothing that looks beyond a region.
    fn can_be_apart(&self) -> bool {
        self.limits.one_program
            && self.live == 1
            && self.timers == 0
            && self.limits.events == u64::MAX
            && self.flapping.is_empty()
            && self.net.is_none()
    }

    /// Plays all that is loaded region by region, from between two instants on; `None` if that is over, and where regions
    /// can't be told.
    #[inline(never)]
    pub(super) fn play_apart(&mut self) -> Option<StopReason> {
        self.apart = false;
        if !self.can_be_apart() {
            return None;
        }
        let Some(regions) = self.cut() else {
            // It is of one piece, and stays so.
            self.whole = true;
            return None;
        };
        let mut regions = Box::new(regions);
        self.watch_nothing();
        for event in self.pending.drain() {
            let region = regions.of(event.word());
            regions.list[region as usize].pending.push(event.at(), event.word());
        }
        self.regions = Some(regions);
        let stop = self.play_regions();
        self.join_regions();
        stop
    }

    /// Window after window, until nothing is left before the limit of time.
    fn play_regions(&mut self) -> Option<StopReason> {
        let last = self.limits.time.min(Time::from_ps(u64::MAX / 2));
        loop {
            let regions = self.regions.as_deref_mut()?;
            let earliest = regions.list.iter().filter_map(|r| r.pending.earliest()).min()?;
            if earliest > last || self.live == 0 && self.moving == 0 {
                return None;
            }
            if self.limits.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                return Some(StopReason::Interrupted);
            }
            let end = (earliest + regions.lookahead).min(last + Span::from_ps(1));
            regions.end = end;
            let (count, pending) = (regions.list.len(), regions.list.iter().map(|r| r.pending.len()).sum());
            self.peak_apart = self.peak_apart.max(pending);
            for region in 0..count {
                self.play_region(region, end);
            }
        }
    }

    /// Plays a region up to `end`.
    fn play_region(&mut self, region: usize, end: Time) {
        let Some(regions) = self.regions.as_deref_mut() else { return };
        regions.current = region as u16;
        let mut mail = core::mem::take(&mut regions.list[region].mail);
        core::mem::swap(&mut self.pending, &mut regions.list[region].pending);
        self.fetch_mail(&mail);
        for mail in mail.drain(..) {
            self.open(mail);
        }
        self.fetch_window(end);
        while let Some((now, word)) = self.pending.pop_before(end) {
            self.pending.soon().clear();
            if self.is_void(now, word) {
                continue;
            }
            self.count(now, word);
            self.handle(now, word);
        }
        let Some(regions) = self.regions.as_deref_mut() else { return };
        core::mem::swap(&mut self.pending, &mut regions.list[region].pending);
        regions.list[region].mail = mail;
    }

    /// Reads what the events of a window will need.
    fn fetch_window(&mut self, end: Time) {
        let mut soon = core::mem::take(self.pending.soon());
        soon.clear();
        soon.extend(self.pending.iter().filter(|event| event.at() < end).map(Event::word));
        *self.pending.soon() = soon;
        self.fetch_soon();
    }

    /// Reads what the opening of mail will need.
    fn fetch_mail(&self, mail: &[Mail]) {
        let ends = mail.iter().fold(0, |sum, mail| match *mail {
            Mail::Part { receiver, .. } => sum ^ self.receivers[receiver as usize].waiter,
            Mail::Credit { sender, .. } => sum ^ self.senders[sender as usize].conn,
        });
        let behind = mail.iter().fold(0, |sum, mail| match *mail {
            Mail::Part { receiver, message, .. } => {
                let receiver = &self.receivers[receiver as usize];
                let lane = self.lanes.get(receiver.waiter as usize).map_or(0, |lane| lane.pc);
                sum ^ lane ^ self.arrivals.items[receiver.ring.at(message)].at.as_ps() as u32
            }
            Mail::Credit { sender, .. } => {
                let sender = &self.senders[sender as usize];
                let lane = self.lanes.get(sender.waiter as usize).map_or(0, |lane| lane.pc);
                sum ^ lane ^ self.conns[sender.conn as usize].credited
            }
        });
        core::hint::black_box(ends ^ behind);
    }

    /// Takes note of what arrives, at an instant that is still to come.
    fn open(&mut self, mail: Mail) {
        let now = self.pending.now();
        match mail {
            Mail::Part { receiver, message, at } => self.part_arrives(receiver, message, at, now),
            Mail::Credit { sender, at } => self.credit_arrives(sender, at, now),
        }
    }

    /// Puts the queues of all regions together again.
    fn join_regions(&mut self) {
        let Some(regions) = self.regions.take() else { return };
        self.pending = Pending::default();
        let ended = self.programs.iter().map(|p| p.end).max().unwrap_or(Time::ZERO);
        if self.is_idle() {
            // All that is left is void. A driver that hears of the end is told of it at that instant.
            self.pending = Pending::starting_at(ended.min(self.latest));
        } else {
            let left = regions.list.into_iter().flat_map(|mut region| region.pending.drain());
            left.for_each(|event| self.pending.push(event.at(), event.word()));
            self.pending.skip_to(self.latest);
        }
        // Notices as if they had come one by one; what is not of a kernel is the last.
        let told = core::mem::take(&mut self.told);
        let notices = core::mem::take(&mut self.notices);
        let mut ordered: Vec<(Time, Notice)> =
            notices.into_iter().enumerate().map(|(i, n)| (told.get(i).copied().unwrap_or(Time::MAX), n)).collect();
        ordered.sort_by_key(|(at, notice)| match *notice {
            Notice::Kernel { kernel, iteration, .. } => (*at, kernel, iteration),
            _ => (Time::MAX, 0, 0),
        });
        self.notices = ordered.into_iter().map(|(_, notice)| notice).collect();
    }
}
