//! Communicators of a step, and what each of their calls is on a cluster.
//!
//! | operation | what the library is asked for | size |
//! |---|---|---|
//! | all-reduce | all-reduce | the buffer |
//! | all-gather | all-gather | the gathered result, rounded up to a multiple of ranks times an element |
//! | reduce-scatter | reduce-scatter | a rank's input, likewise |
//! | all-to-all | all-to-all | what a rank sends, to itself included, likewise |
//! | the same, of experts | what [`Exchange::request`] says, where tokens don't go evenly to all by sends and receives | |
//! | send between stages (two ranks of [`Group::Pipeline`]) | a send and a receive: from the first to the second | what is sent |
//! | send in another group | each rank to the next, the last to the first, between two ranks both ways | what each sends |
//!
//! A call takes what its kernels take from the moment at which the last member has come to it: frameworks launch kernels long
//! before, so that the host's time for a call ([`Launch::host_time`]), which bounds a benchmark of small calls, is not part of it.
//! The time from a kernel's start to its first operation is ([`Launch::kernel_time`], shorter in captured graphs), as the
//! machine's `launch` has it.
//!
//! [`Launch::host_time`]: sim_collectives::launch::Launch::host_time
//! [`Launch::kernel_time`]: sim_collectives::launch::Launch::kernel_time

use core::fmt;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use sim_collectives::nccl::Operation as Of;
use sim_collectives::plan::Traffic;
use sim_collectives::{Machine, Request};
use sim_core::feeders::Feeders;
use sim_core::network::Network;
use sim_core::program::Program;
use sim_core::program_builder::ProgramBuilder;
use sim_core::units::{Bytes, Span};
use sim_topology::Fabric;

use super::carrier::CarryError;
use super::exchange::Exchange;
use super::plan::Call;
use crate::messages::Operation;
use crate::parallel::Group;

/// Makes the communicator of GPUs, by their numbers in the fabric; or says why not.
pub type Make<'a> = Box<dyn Fn(&[u32]) -> Result<Machine<'a>, String> + 'a>;

/// Changes what the library is asked for in a call of these GPUs: a forced algorithm, protocol or number of channels, another
/// element, another traffic.
pub type Adjust<'a> = Box<dyn Fn(&[u32], &Call, &mut Request) + 'a>;

/// The communicators and calls of a step on a cluster.
pub struct Calls<'a> {
    fabric: &'a Fabric,
    network: Network,
    make: Make<'a>,
    adjust: Option<Adjust<'a>>,
    communicators: Vec<Vec<u32>>,
    calls: Vec<Call>,
    machines: Vec<Option<Machine<'a>>>,
    /// What further communicators do, each with one call.
    programs: Vec<Program>,
    announced: Option<Announced>,
    /// How calls take tokens to experts.
    exchanges: Vec<Exchange>,
}

/// What is known of all calls that will be started.
#[derive(Debug)]
struct Announced {
    calls: FxHashSet<(u32, u32)>,
    launch: Span,
}

impl fmt::Debug for Calls<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (communicators, calls) = (self.communicators.len(), self.calls.len());
        f.debug_struct("Calls").field("communicators", &communicators).field("calls", &calls).finish_non_exhaustive()
    }
}

/// The least time from a call to its first operation, so that what starts at an instant never meets what ends there.
const LEAST_LAUNCH: Span = Span::from_ps(1);

/// Members of a group that errors name.
const NAMED: usize = 8;

impl<'a> Calls<'a> {
    /// The calls of these communicators (each a list of numbers of GPUs of `fabric`, in order of rank) over `network`, which has the
    /// fabric's links.
    #[must_use]
    pub fn new(
        fabric: &'a Fabric,
        network: Network,
        make: Make<'a>,
        communicators: Vec<Vec<u32>>,
        calls: Vec<Call>,
    ) -> Self {
        let machines = communicators.iter().map(|_| None).collect();
        Self {
            fabric,
            network,
            make,
            adjust: None,
            communicators,
            calls,
            machines,
            programs: Vec::new(),
            announced: None,
            exchanges: Vec::new(),
        }
    }

    /// The same calls, each asked for as `adjust` changes it.
    #[must_use]
    pub fn adjusted(self, adjust: Adjust<'a>) -> Self {
        Self { adjust: Some(adjust), ..self }
    }

    /// The same calls, of which some take tokens to experts in these ways.
    #[must_use]
    pub fn exchanging(self, exchanges: Vec<Exchange>) -> Self {
        Self { exchanges, ..self }
    }

    /// The same calls, and programs that are carried beside them: each as the call 0 of a communicator of its own behind the others.
    /// Returned are the numbers of these communicators.
    #[must_use]
    pub fn beside(mut self, programs: Vec<Program>) -> (Self, core::ops::Range<u32>) {
        let first = self.communicators.len() as u32;
        let last = first + programs.len() as u32;
        self.communicators.resize(last as usize, Vec::new());
        self.machines.resize_with(last as usize, || None);
        self.programs = programs;
        (self, first..last)
    }

    /// The same calls, of which no others than these (each a communicator and a call) will be started. What all of them have in common is
    /// made use of: links that only one other feeds cost no events of their own, and none of them uses a link before the least
    /// of their launches.
    ///
    /// # Errors
    /// If one of them is not possible.
    pub fn announced(mut self, calls: impl IntoIterator<Item = (u32, u32)>) -> Result<Self, CarryError> {
        let calls: FxHashSet<(u32, u32)> = calls.into_iter().collect();
        let mut in_order: Vec<(u32, u32)> = calls.iter().copied().collect();
        in_order.sort_unstable();
        let mut feeders = Feeders::new(self.network.links().len());
        let mut launch: Option<Span> = None;
        for (communicator, call) in in_order {
            let program = self.program(communicator, call)?;
            feeders.add(&program);
            let first = program.kernels.iter().map(|kernel| kernel.launch).min().filter(|_| !program.routes.is_empty());
            launch = launch.into_iter().chain(first).min();
        }
        // Where packets go, routes are cut.
        if self.network.packets().is_none() {
            self.network = self.network.in_series(feeders.series());
        }
        self.announced = Some(Announced { calls, launch: launch.unwrap_or(Span::ZERO) });
        Ok(self)
    }

    /// A time that each call takes from its beginning to its first use of a link; nothing if calls were not announced.
    #[must_use]
    pub fn least_launch(&self) -> Span {
        self.announced.as_ref().map_or(Span::ZERO, |announced| announced.launch)
    }

    /// The cluster.
    #[must_use]
    pub const fn fabric(&self) -> &'a Fabric {
        self.fabric
    }

    /// Its network.
    #[must_use]
    pub const fn network(&self) -> &Network {
        &self.network
    }

    /// The communicators.
    #[must_use]
    pub fn communicators(&self) -> &[Vec<u32>] {
        &self.communicators
    }

    /// The different calls.
    #[must_use]
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// A call and its group in words.
    #[must_use]
    pub fn describe(&self, communicator: u32, call: u32) -> String {
        let own = self.communicators.len() - self.programs.len();
        if let Some(number) = (communicator as usize).checked_sub(own) {
            return format!("traffic {number} beside the step");
        }
        let ranks = self.communicators.get(communicator as usize).map_or(&[][..], Vec::as_slice);
        let named: Vec<String> = ranks.iter().take(NAMED).map(u32::to_string).collect();
        let more = if ranks.len() > NAMED { format!(", ... ({} in all)", ranks.len()) } else { String::new() };
        let group = format!("GPUs {}{more}", named.join(", "));
        match self.calls.get(call as usize) {
            Some(call) => format!("{} ({} of {}) of {group}", call.name, call.operation, call.bytes),
            None => format!("call {call} of {group}"),
        }
    }

    fn impossible(&self, communicator: u32, call: u32, why: impl fmt::Display) -> CarryError {
        CarryError::Impossible { what: self.describe(communicator, call), why: why.to_string() }
    }

    /// The communicator, made when it is first asked for.
    fn machine(&mut self, communicator: u32) -> Result<&Machine<'a>, String> {
        let index = communicator as usize;
        let (Some(slot), Some(ranks)) = (self.machines.get_mut(index), self.communicators.get(index)) else {
            return Err(format!("there is no communicator {communicator}"));
        };
        match slot {
            Some(machine) => Ok(machine),
            None => Ok(slot.insert((self.make)(ranks)?)),
        }
    }

    /// What the library is asked for.
    fn request(&self, ranks: &[u32], call: &Call) -> Request {
        let n = ranks.len() as u64;
        if let Some(exchange) = call.exchange.and_then(|number| self.exchanges.get(number as usize)) {
            let mut request = exchange.request(call.bytes, ranks.len() as u32);
            if let Some(adjust) = &self.adjust {
                adjust(ranks, call, &mut request);
            }
            return request;
        }
        let mut request = match call.operation {
            Operation::AllReduce => Request::new(Of::AllReduce, call.bytes),
            Operation::AllGather => Request::new(Of::AllGather, call.bytes),
            Operation::ReduceScatter => Request::new(Of::ReduceScatter, call.bytes),
            Operation::AllToAll => Request::new(Of::AllToAll, call.bytes),
            // A message to another stage goes one way; a ring of two, as context parallelism has it, goes both ways.
            Operation::Send if call.group == Group::Pipeline && n == 2 => {
                let matrix: Arc<[u64]> = Arc::from([0, call.bytes.get(), 0, 0]);
                Request { traffic: Traffic::Matrix(matrix), ..Request::new(Of::AllToAllV, call.bytes) }
            }
            Operation::Send => Request::new(Of::SendRecv, call.bytes),
        };
        if let Some(adjust) = &self.adjust {
            adjust(ranks, call, &mut request);
        }
        // Frameworks pad what is divided among ranks.
        if request.operation.bytes_per_count(2) > 1 && request.traffic == Traffic::Even {
            let unit = n * request.element.datatype.bytes().max(1);
            request.bytes = Bytes::new(request.bytes.get().next_multiple_of(unit));
        }
        request
    }

    /// What the engine plays for a call; its kernel `i` is that of member `i`.
    ///
    /// # Errors
    /// If there is no such call or nothing can run it.
    pub fn program(&mut self, communicator: u32, call: u32) -> Result<Program, CarryError> {
        if self.announced.as_ref().is_some_and(|announced| !announced.calls.contains(&(communicator, call))) {
            return Err(self.impossible(communicator, call, "it was not announced"));
        }
        let made = self.lower(communicator, call);
        let mut program = made.map_err(|why| self.impossible(communicator, call, why))?;
        program.launch_floor = Span::ZERO;
        for kernel in &mut program.kernels {
            kernel.launch = kernel.launch.max(LEAST_LAUNCH);
        }
        Ok(program)
    }

    /// Whether the library has a way to do a call; without what the engine plays, which takes longer to write.
    ///
    /// # Errors
    /// If there is no such call or nothing can run it.
    pub fn offered(&mut self, communicator: u32, call: u32) -> Result<(), CarryError> {
        let of = |calls: &mut Self| {
            let what = *calls.calls.get(call as usize).ok_or_else(|| format!("there is no call {call}"))?;
            let ranks = calls.communicators.get(communicator as usize).cloned().unwrap_or_default();
            if ranks.len() < 2 {
                return Ok(());
            }
            let request = calls.request(&ranks, &what);
            calls.machine(communicator)?.plan(&request).map(drop).map_err(|e| e.to_string())
        };
        of(self).map_err(|why| self.impossible(communicator, call, why))
    }

    fn lower(&mut self, communicator: u32, call: u32) -> Result<Program, String> {
        let own = self.communicators.len() - self.programs.len();
        if let Some(program) = (communicator as usize).checked_sub(own).and_then(|at| self.programs.get(at)) {
            return Ok(program.clone());
        }
        let what = *self.calls.get(call as usize).ok_or_else(|| format!("there is no call {call}"))?;
        let ranks = self.communicators.get(communicator as usize);
        let ranks = ranks.ok_or_else(|| format!("there is no communicator {communicator}"))?;
        if ranks.len() < 2 {
            // Alone there is nothing to do.
            let mut nothing = ProgramBuilder::new();
            ranks.iter().for_each(|_| {
                nothing.kernel(Span::ZERO, Span::ZERO);
            });
            return Ok(nothing.finish());
        }
        let request = self.request(ranks, &what);
        let machine = self.machine(communicator)?;
        let plan = machine.plan(&request).map_err(|e| e.to_string())?;
        let mut program = plan.program(machine, 1).map_err(|e| e.to_string())?;
        program.flows.iter_mut().for_each(|flow| flow.way = request.way);
        Ok(program)
    }
}
