//! Who goes next at a port: classes by priority, then by weight; inputs by arrival or in turn.

use super::Net;
use super::counters::Tally;
use super::flow_control::Place;
use super::packet::{List, NONE, Packets};
use super::spec::{Inputs, NetSpec};

/// A class at a port: packets, or at an endpoint the queue pairs that may send.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClassQueue {
    /// Packets in order of arrival (or queue pairs in turn).
    pub(super) list: List,
    /// At an endpoint: control packets that wait as data do, before the data.
    pub(super) own: List,
    pub(super) bytes: u64,
    pub(super) packets: u32,
    /// With inputs in turn: the last of the circle of inputs that have some, plus one.
    pub(super) circle: u32,
    /// Bytes that it may send in its turn among classes of one priority.
    pub(super) deficit: u32,
    /// The packet in front had to wait for a credit.
    pub(super) waited: bool,
    pub(super) tally: Tally,
}

/// A queue of an input at a port.
#[derive(Clone, Copy, Debug, Default)]
struct InputQueue {
    list: List,
    next: u32,
}

/// Queues per (port, class, input), where inputs take turns; lines per (input, class), where heads block.
#[derive(Clone, Debug, Default)]
pub(super) struct InputQueues {
    queues: Vec<InputQueue>,
    /// First queue of each port.
    first: Vec<u32>,
    /// A link's number among those that end at its far node, and how many a port's near node has.
    order: Vec<u32>,
    degree: Vec<u32>,
    /// With head-of-line blocking: per input and class what waits for the packet in front to leave.
    lines: Vec<Line>,
    classes: usize,
}

/// What has come over a link, of a class, while its first packet is queued or in service elsewhere.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    waiting: List,
    /// A packet of it is queued or in service.
    busy: bool,
}

impl InputQueues {
    pub(super) fn new(spec: &NetSpec) -> Self {
        let mut this = Self { classes: spec.classes.len(), ..Self::default() };
        match spec.inputs {
            Inputs::Fifo => return this,
            Inputs::HeadOfLine => {
                this.lines = vec![Line::default(); spec.ports.len() * spec.classes.len()];
                return this;
            }
            Inputs::RoundRobin => {}
        }
        let mut inputs = vec![0u32; spec.endpoints.len()];
        for port in &spec.ports {
            this.order.push(inputs[port.far as usize]);
            inputs[port.far as usize] += 1;
        }
        let mut queues = 0;
        for port in &spec.ports {
            let degree = if spec.endpoints[port.near as usize] { 0 } else { inputs[port.near as usize] };
            this.first.push(queues);
            this.degree.push(degree);
            queues += degree * spec.classes.len() as u32;
        }
        this.queues = vec![InputQueue::default(); queues as usize];
        this
    }

    #[inline]
    pub(super) fn push(&mut self, queue: &mut ClassQueue, port: u32, place: Place, slot: u32, packets: &mut Packets) {
        if self.first.is_empty() {
            queue.list.push(slot, packets);
        } else {
            self.push_in_turn(queue, port, place, slot, packets);
        }
    }

    #[inline(never)]
    fn push_in_turn(&mut self, queue: &mut ClassQueue, port: u32, place: Place, slot: u32, packets: &mut Packets) {
        let degree = self.degree[port as usize];
        let at = self.first[port as usize] + u32::from(place.class) * degree + self.order[place.from as usize];
        let idle = self.queues[at as usize].list.head == NONE;
        self.queues[at as usize].list.push(slot, packets);
        if idle {
            if queue.circle == 0 {
                self.queues[at as usize].next = at;
            } else {
                let last = queue.circle as usize - 1;
                self.queues[at as usize].next = self.queues[last].next;
                self.queues[last].next = at;
            }
            queue.circle = at + 1;
        }
    }

    /// Whether heads of lines block what is behind them.
    #[inline]
    pub(super) fn block(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Whether a packet has to wait in its input's line; if so, it does.
    #[inline]
    pub(super) fn waits(&mut self, place: Place, slot: u32, packets: &mut Packets) -> bool {
        if self.lines.is_empty() {
            return false;
        }
        let line = &mut self.lines[place.from as usize * self.classes + usize::from(place.class)];
        if line.busy {
            line.waiting.push(slot, packets);
            return true;
        }
        line.busy = true;
        false
    }

    /// The packet in front of an input's line has left; the next one, if there is one.
    #[inline]
    pub(super) fn next_in_line(&mut self, place: Place, packets: &Packets) -> Option<u32> {
        if self.lines.is_empty() {
            return None;
        }
        let line = &mut self.lines[place.from as usize * self.classes + usize::from(place.class)];
        let slot = line.waiting.pop(packets);
        line.busy = slot != NONE;
        line.busy.then_some(slot)
    }

    /// Calls `what` with every packet of a queue.
    pub(super) fn for_each(&self, queue: &ClassQueue, packets: &Packets, mut what: impl FnMut(u32)) {
        let mut list = |head: u32| {
            let mut at = head;
            while at != NONE {
                what(at);
                at = packets[at].next;
            }
        };
        if self.first.is_empty() {
            list(queue.list.head);
        } else if queue.circle != 0 {
            let mut at = queue.circle - 1;
            loop {
                list(self.queues[at as usize].list.head);
                at = self.queues[at as usize].next;
                if at + 1 == queue.circle {
                    break;
                }
            }
        }
    }

    /// The packet whose turn it is. The queue is not empty.
    #[inline]
    pub(super) fn peek(&self, queue: &ClassQueue) -> u32 {
        if self.first.is_empty() {
            return queue.list.head;
        }
        let last = queue.circle as usize - 1;
        self.queues[self.queues[last].next as usize].list.head
    }

    /// Takes it out.
    #[inline]
    pub(super) fn pop(&mut self, queue: &mut ClassQueue, packets: &Packets) -> u32 {
        if self.first.is_empty() { queue.list.pop(packets) } else { self.pop_in_turn(queue, packets) }
    }

    #[inline(never)]
    fn pop_in_turn(&mut self, queue: &mut ClassQueue, packets: &Packets) -> u32 {
        let last = queue.circle as usize - 1;
        let turn = self.queues[last].next as usize;
        let slot = self.queues[turn].list.pop(packets);
        if self.queues[turn].list.head != NONE {
            queue.circle = turn as u32 + 1;
        } else if turn == last {
            queue.circle = 0;
        } else {
            self.queues[last].next = self.queues[turn].next;
        }
        slot
    }
}

/// Classes of one priority, the most urgent first, as masks; and what a class may send a turn.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    masks: Vec<u16>,
    quantum: Vec<u32>,
    /// The largest packet, or unit: what a class may have left of its turns when the next one comes.
    most: u32,
}

impl Groups {
    pub(super) fn new(spec: &NetSpec) -> Self {
        let mut priorities: Vec<u8> = spec.classes.iter().map(|class| class.priority).collect();
        priorities.sort_unstable_by(|a, b| b.cmp(a));
        priorities.dedup();
        let of = |priority: &u8| {
            let classes = spec.classes.iter().enumerate().filter(|(_, class)| class.priority == *priority);
            classes.fold(0, |mask, (index, _)| mask | 1 << index)
        };
        let full = (spec.mtu + spec.overhead).max(spec.control_size);
        let most = full.saturating_mul(spec.grain);
        let quantum = spec.classes.iter().map(|class| full.saturating_mul(u32::from(class.weight.max(1))));
        Self { masks: priorities.iter().map(of).collect(), quantum: quantum.collect(), most }
    }
}

impl Net {
    /// The class that goes next, of those in `may` (not empty): the most urgent; among equals by deficit round-robin
    /// (Shreedhar, Varghese, SIGCOMM 1995) with a quantum of one full packet times the weight. With it, what its deficit was
    /// charged.
    #[inline]
    pub(super) fn choose_class(&mut self, link: u32, may: u16) -> Option<(u8, u32)> {
        let group = *self.groups.masks.iter().find(|mask| *mask & may != 0)? & may;
        if group & (group - 1) == 0 {
            return Some((group.trailing_zeros() as u8, 0));
        }
        loop {
            let turn = self.ports[link as usize].turn;
            let at = self.queue_at(link, turn);
            if group >> turn & 1 != 0 {
                let wire = self.head_wire(link, turn);
                let queue = &mut self.queues[at];
                if queue.deficit >= wire {
                    queue.deficit -= wire;
                    return Some((turn, wire));
                }
            }
            let next = (turn + 1) % self.classes;
            self.ports[link as usize].turn = next;
            if group >> next & 1 != 0 {
                // One that was held in its turn does not make up for it.
                let (quantum, most) = (self.groups.quantum[next as usize], self.groups.most);
                let at = self.queue_at(link, next);
                let queue = &mut self.queues[at];
                queue.deficit = quantum.saturating_add(queue.deficit.min(most));
            }
        }
    }

    /// Wire bytes of the packet whose turn it is in a class that has some.
    pub(super) fn head_wire(&self, link: u32, class: u8) -> u32 {
        let queue = &self.queues[self.queue_at(link, class)];
        if !self.ports[link as usize].endpoint {
            self.packets[self.inputs.peek(queue)].wire
        } else if queue.own.head == NONE {
            self.next_wire(queue.list.head)
        } else {
            self.packets[queue.own.head].wire
        }
    }
}
