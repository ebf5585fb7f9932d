//! Flows that go over a network of packets, in three legs.
//!
//! A route is links of the host that sends, then links of the network, then links of the host that receives. The first and the
//! last leg may be empty. On the first one a flow is as any other, and ends at the endpoint where the network begins. There it
//! hands its messages to a queue pair. What that delivers goes on over the last leg as a second flow, packet by packet, to the
//! end of the route.

use core::ops::Range;

use super::Engine;
use super::load::LoadError;
use super::packets::Leg;
use super::state::{FlowState, Message, NONE, Ring, Segment};
use crate::program::{Flow, Program, Sink};
use crate::queue::Store;

/// Where the route of a flow is cut, and what it hands its messages to.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// The flow's number within the program.
    flow: u32,
    /// The links of the network, within the route.
    over: Range<u32>,
    qp: u32,
}

/// Legs of a flow that do without a network of packets, as ranges of the arena of routes.
fn legs<'a>(cut: Option<&'a Cut>, flow: &'a Flow) -> impl Iterator<Item = Range<u32>> + 'a {
    let all = flow.route.clone();
    let (first, last) = cut
        .map_or((all.clone(), 0..0), |cut| (all.start..all.start + cut.over.start, all.start + cut.over.end..all.end));
    [first, last].into_iter().filter(|leg| !leg.is_empty())
}

impl<S: Store> Engine<S> {
    /// Cuts the routes of a program that is to be loaded, and opens its queue pairs.
    ///
    /// # Errors
    /// If a route can't be cut in three, or a junction is to be reached over the network.
    pub(super) fn cut_routes(&mut self, program: &Program, number: u32) -> Result<Vec<Cut>, LoadError> {
        let Some(wired) = self.net.as_deref_mut() else { return Ok(Vec::new()) };
        let mut cuts = Vec::new();
        let mut forked = vec![false; program.flows.len()];
        for junction in &program.junctions {
            forked[junction.outputs.start as usize..junction.outputs.end as usize].fill(true);
        }
        for (i, flow) in program.flows.iter().enumerate() {
            let route = &program.routes[flow.route.start as usize..flow.route.end as usize];
            let queued = |link: &crate::ids::LinkId| wired.port(*link) != NONE;
            let Some(start) = route.iter().position(queued) else { continue };
            let end = start + route[start..].iter().take_while(|link| queued(link)).count();
            if route[end..].iter().any(queued) {
                return Err(LoadError::TwoNetworks { flow: i });
            }
            if forked[i] || matches!(flow.sink, Sink::Junction(_)) {
                return Err(LoadError::Junction { flow: i });
            }
            let onward = end < route.len();
            let segment = flow.segment.get();
            let qp = wired
                .open(&route[start..end], (segment, flow.way), onward, (number, i as u32))
                .map_err(|fault| LoadError::QueuePair { flow: i, fault })?;
            cuts.push(Cut { flow: i as u32, over: start as u32..end as u32, qp });
        }
        Ok(cuts)
    }

    /// Calls `each` with every leg of a program that does without a network of packets.
    pub(super) fn each_leg(program: &Program, cuts: &[Cut], mut each: impl FnMut(Range<u32>)) {
        let mut cuts = cuts.iter().peekable();
        for (i, flow) in program.flows.iter().enumerate() {
            let cut = cuts.next_if(|cut| cut.flow as usize == i);
            legs(cut, flow).for_each(&mut each);
        }
    }

    /// Lets flows that were loaded from `base` on end where the network begins, and adds those that go on behind it.
    pub(super) fn load_legs(&mut self, cuts: &[Cut], base: usize) {
        for cut in cuts {
            let flow = base as u32 + cut.flow;
            let state = &mut self.flows[flow as usize];
            let behind = usize::from(state.hops) - cut.over.end as usize;
            state.hops = cut.over.start as u8;
            state.qp = cut.qp;
            let last = FlowState {
                lone: Segment::default(),
                current: Message::default(),
                route: state.route + cut.over.end,
                segments: Ring::EMPTY,
                messages: Ring::EMPTY,
                hops: behind as u8,
                qp: NONE,
                spaced: NONE,
                ..state.clone()
            };
            let mut onward = NONE;
            if behind > 0 {
                onward = self.flows.len() as u32;
                self.flows.push(last);
            }
            if let Some(wired) = self.net.as_deref_mut() {
                wired.legs[cut.qp as usize] = Leg { flow, onward };
            }
        }
    }
}
