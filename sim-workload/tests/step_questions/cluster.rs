//! A cluster, a step on it, and what it came to. Whatever is asked, each step that is played is held to what no step may break.

use sim_collectives::timing::Timing;
use sim_collectives::{Machine as Communicator, Request, Software, links};
use sim_core::engine::Limits;
use sim_core::network::Network;
use sim_core::units::{Bytes, Span, Time};
use sim_topology::{Catalogue, Fabric, FabricSpec, LinkClass};
use sim_topology::{Fault, FaultKind};
use sim_workload::compute::{Figures, Machine, Number};
use sim_workload::job::{Choices, Job, Mode};
use sim_workload::messages::Operation;
use sim_workload::model::{Model, ModelSpec, Models};
use sim_workload::parallel::{Group, Placement, Ranks, SizesSpec, Zero};
use sim_workload::step::calls::Calls;
use sim_workload::step::carrier::{Carrier, Start};
use sim_workload::step::islands::Islands;
use sim_workload::step::make;
use sim_workload::step::outcome::Outcome;
use sim_workload::step::overlap::Overlap;
use sim_workload::step::plan::Call;
use sim_workload::step::play::{Options, Player, play};

/// A fabric, and where ranks go on it.
pub(crate) struct Cluster {
    pub(crate) fabric: Fabric,
    pub(crate) placement: Placement,
    software: Software,
}

impl Cluster {
    /// Nodes of a system of the catalogue over a rail-optimized network without oversubscription.
    pub(crate) fn of(system: &str, nodes: u32) -> Self {
        Self::with(system, nodes, |_| {})
    }

    /// The same, changed.
    pub(crate) fn with(system: &str, nodes: u32, change: impl FnOnce(&mut FabricSpec)) -> Self {
        let node = Catalogue::builtin().system(system).unwrap().node.clone();
        let mut spec = FabricSpec::new(node, nodes);
        change(&mut spec);
        let fabric = Fabric::build(&spec, Catalogue::builtin()).unwrap();
        let per_node = (fabric.gpus().len() / fabric.nodes().len()) as u64;
        let nodes_per_domain = u64::from(fabric.nodes_per_domain());
        let placement = Placement { nodes_per_domain, ..Placement::nodes_of(per_node) };
        Self { fabric, placement, software: Software::default() }
    }

    /// With something broken.
    pub(crate) fn broken(self, target: &str, kind: FaultKind) -> Self {
        let fault = Fault { target: target.to_owned(), pick: None, kind };
        let (fabric, _) = self.fabric.with_faults(&[fault], 1, true, Catalogue::builtin()).unwrap();
        Self { fabric, ..self }
    }

    /// With an environment variable of the library.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.software.knobs.set(name, value).unwrap();
        self
    }

    /// The GPU's kernels.
    pub(crate) fn machine(&self) -> Machine {
        let (figures, gpu) = (Figures::builtin(), &self.fabric.node_spec().gpu);
        let memory = Catalogue::builtin().gpu(gpu).unwrap().memory_rate;
        Machine::of(figures.device(gpu).unwrap(), Number::Bf16, memory, figures)
    }

    fn made(&self, groups: Vec<Vec<u32>>, calls: Vec<Call>) -> Calls<'_> {
        let make = |ranks: &[u32]| {
            Communicator::new(&self.fabric, Catalogue::builtin(), &self.software, ranks).map_err(|e| e.to_string())
        };
        Calls::new(&self.fabric, self.network(), Box::new(make), groups, calls)
    }

    /// The links as the library's messages fill them: of a NIC's port, a share.
    fn network(&self) -> Network {
        let sm = Catalogue::builtin().gpu(&self.fabric.node_spec().gpu).unwrap().sm;
        let timing = Timing::builtin(sm, self.fabric.spec().transport.as_str());
        links::by_library(&self.fabric, &timing)
    }

    fn gpu(&self, rank: u64) -> u32 {
        self.placement.gpu(rank) as u32
    }

    /// What all groups of a kind take for a call that they begin together, and what links carry.
    pub(crate) fn call(&self, ranks: &Ranks, group: Group, operation: Operation, bytes: Bytes) -> (Span, Carried<'_>) {
        let of = |members: Vec<u64>| members.into_iter().map(|r| self.gpu(r)).collect::<Vec<_>>();
        let groups: Vec<Vec<u32>> = ranks.groups(group).into_iter().map(of).collect();
        self.alone(groups, Call { name: "asked", operation, bytes, group, exchange: None }, |_| {})
    }

    /// What these groups of GPUs take for a call that they begin together, and what links carry; the request is changed before.
    pub(crate) fn alone(
        &self,
        groups: Vec<Vec<u32>>,
        call: Call,
        adjust: impl Fn(&mut Request) + 'static,
    ) -> (Span, Carried<'_>) {
        let starts: Vec<Start> =
            (0..groups.len() as u32).map(|g| Start { communicator: g, call: 0, token: g }).collect();
        let calls = self.made(groups, vec![call]).adjusted(Box::new(move |_, _, request| adjust(request)));
        let mut carrier = Islands::new(calls, Limits::default());
        carrier.start(&starts, Time::ZERO).unwrap();
        let (mut last, mut ends) = (Time::ZERO, Vec::new());
        while let Some(at) = carrier.next(Time::MAX).unwrap() {
            carrier.take(&mut ends);
            last = at;
        }
        (last.since(Time::ZERO), Carried { fabric: &self.fabric, links: carrier.carried().unwrap() })
    }
}

/// Payload of each link.
pub(crate) struct Carried<'a> {
    fabric: &'a Fabric,
    links: Vec<Bytes>,
}

impl Carried<'_> {
    fn over(&self, class: impl Fn(LinkClass) -> bool) -> u64 {
        let of = self.fabric.links().iter().zip(&self.links);
        of.filter(|(link, _)| class(link.class)).map(|(_, bytes)| bytes.get()).sum()
    }

    /// Over scale-up links.
    pub(crate) fn scale_up(&self) -> u64 {
        self.over(|class| class == LinkClass::NvLink)
    }

    /// Out of NICs: what goes up to a leaf comes down to another NIC.
    pub(crate) fn nics(&self) -> u64 {
        self.over(|class| class == LinkClass::Network) / 2
    }

    /// The most that a link of a class carries, as a share of what it could in this time.
    pub(crate) fn busiest(&self, class: LinkClass, time: Span) -> f64 {
        let of = self.fabric.links().iter().zip(&self.links).filter(|(link, _)| link.class == class);
        of.map(|(link, bytes)| bytes.get() as f64 / (link.rate.get() as f64 * time.as_secs())).fold(0.0, f64::max)
    }

    /// Between switches.
    pub(crate) fn uplinks(&self) -> u64 {
        self.over(|class| class == LinkClass::Uplink)
    }
}

/// A step as it is asked for.
pub(crate) struct Asked {
    pub(crate) model: Model,
    pub(crate) sizes: SizesSpec,
    pub(crate) order: &'static str,
    pub(crate) overlap: Overlap,
    pub(crate) choices: Choices,
    pub(crate) mode: Mode,
    pub(crate) options: Options,
    /// The part of the laws' rates that kernels reach, in millionths.
    pub(crate) efficiency: u64,
}

/// A model of the catalogue.
pub(crate) fn named(name: &str) -> Model {
    Models::builtin().get(name).unwrap().model.clone()
}

/// A dense model of a few layers of Llama 3 8B's widths.
pub(crate) fn dense(layers: u64) -> Model {
    let spec = ModelSpec {
        layers,
        hidden: 4096,
        heads: 32,
        kv_heads: Some(8),
        ffn: 14_336,
        gated: true,
        vocab: 128_256,
        ..ModelSpec::default()
    };
    spec.check().unwrap()
}

impl Asked {
    /// A step of `model` in these sizes, the rest as usual.
    pub(crate) fn new(model: Model, sizes: SizesSpec) -> Self {
        let (overlap, choices, options) = (Overlap::default(), Choices::default(), Options::default());
        let options = Options { slowdown: Some(Figures::builtin().overlap), ..options };
        let (order, mode, efficiency) = ("tp-cp-ep-dp-pp", Mode::Training, 1_000_000);
        Self { model, sizes, order, overlap, choices, mode, options, efficiency }
    }

    pub(crate) fn ranks(&self) -> Ranks {
        Ranks::new(&self.order.parse().unwrap(), &self.sizes.check(&self.model).unwrap()).unwrap()
    }

    /// Played on a cluster.
    pub(crate) fn on<'a>(&self, cluster: &'a Cluster) -> Played<'a> {
        let sizes = self.sizes.check(&self.model).unwrap();
        let job = Job { choices: self.choices, mode: self.mode, ..Job::training(&self.model, &sizes) };
        let mut machine = cluster.machine().scaled(self.efficiency);
        if sizes.zero == Zero::Parameters {
            // Units are reduced in the width of parameters, and added to nothing.
            machine.gradient = 2;
        }
        let plan = make::plan(&job, &machine, &self.overlap);
        let ranks = self.ranks();
        let nics_alone = |c: &sim_workload::step::play::Communicator| {
            let members: Vec<u64> = c.ranks.iter().map(|r| u64::from(*r)).collect();
            cluster.placement.spread(&members).over_nics_alone()
        };
        let player = Player::new(&plan, &ranks, &self.options, nics_alone);
        let gpus =
            |c: &sim_workload::step::play::Communicator| c.ranks.iter().map(|r| cluster.gpu(u64::from(*r))).collect();
        let groups = player.communicators().iter().map(gpus).collect();
        let mut carrier = Islands::new(cluster.made(groups, plan.calls.clone()), Limits::default());
        let outcome = play(player, &mut carrier, &|| false).unwrap();
        let carried = Carried { fabric: &cluster.fabric, links: carrier.carried().unwrap() };
        let played = Played { outcome, carried };
        played.sound();
        played
    }

    /// Its time on a cluster, in seconds.
    pub(crate) fn seconds(&self, cluster: &Cluster) -> f64 {
        self.on(cluster).seconds()
    }
}

/// What a step came to.
pub(crate) struct Played<'a> {
    pub(crate) outcome: Outcome,
    pub(crate) carried: Carried<'a>,
}

impl Played<'_> {
    pub(crate) fn seconds(&self) -> f64 {
        self.outcome.end.since(Time::ZERO).as_secs()
    }

    /// What the mean rank waited for messages of a kind of group, as a share of the step.
    pub(crate) fn exposed(&self, group: Group) -> f64 {
        let of = self.outcome.ranks.iter().map(|r| r.exposed.get(&group).map_or(0.0, |s| s.as_secs()));
        of.sum::<f64>() / self.outcome.ranks.len() as f64 / self.seconds()
    }

    /// The same of all kinds.
    pub(crate) fn communication(&self) -> f64 {
        let of = self.outcome.ranks.iter().map(|r| r.communication().as_secs());
        of.sum::<f64>() / self.outcome.ranks.len() as f64 / self.seconds()
    }

    /// The parts of each rank add up to the step, the critical path has no gap, and no link carries more than its rate.
    fn sound(&self) {
        let whole = self.outcome.end.since(Time::ZERO);
        for (rank, parts) in self.outcome.ranks.iter().enumerate() {
            assert_eq!(parts.total(), whole, "rank {rank}: {parts:?}");
        }
        let mut at = Time::ZERO;
        for piece in &self.outcome.path {
            assert_eq!(piece.from, at, "{piece:?}");
            at = piece.to;
        }
        assert_eq!(at, self.outcome.end);
        for class in LinkClass::ALL {
            let share = self.carried.busiest(class, whole);
            assert!(share <= 1.0, "{class}: {share}");
        }
    }
}
