//! Inference: instances that serve a model, and what is asked of them.

mod idle;

use sim_core::units::{Bytes, Span};
use sim_topology::{Catalogue, Fabric};
use sim_workload::compute::{Figures, Machine, Number};
use sim_workload::experts::Payload;
use sim_workload::model::Model;
use sim_workload::serving::cache_transfer::NicChoice;
use sim_workload::serving::goodput::Goal;
use sim_workload::serving::report::Slo;
use sim_workload::serving::requests::{Arrivals, Demand, Lengths};
use sim_workload::serving::server::Order;
use sim_workload::serving::{Instance, Launch, Numbers, Shape, ShapeFault, ShapeSpec};

use super::super::keys::INFERENCE;
use super::super::tree::Node;
use super::super::view::View;
use super::rated::rated;
use super::step::{Asked, model};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Place};

/// A workload of inference.
#[derive(Clone, Debug, PartialEq)]
pub struct Inference {
    /// The name in results.
    pub name: Option<String>,
    /// The model.
    pub model: Model,
    /// The GPU as kernels meet it.
    pub machine: Machine,
    /// Where its rates come from, in words.
    pub rates: String,
    /// Numbers of weights and cache.
    pub numbers: Numbers,
    /// How steps that decode start their kernels.
    pub launch: Launch,
    /// How steps with a prefill do.
    pub launch_prefill: Launch,
    /// Of each step beside kernels and messages.
    pub overhead: Span,
    /// What goes to experts.
    pub dispatch: Payload,
    /// Load of the fullest rank of experts over the mean, in millionths.
    pub imbalance: u64,
    /// Whether two halves of a batch take turns.
    pub two_batches: bool,
    /// Instances for all, or for prompts.
    pub first: PoolSpec,
    /// Instances for answers, and how caches get to them.
    pub second: Option<(PoolSpec, Moves)>,
    /// Which work comes first.
    pub order: Order,
    /// Most tokens of a step of each group of ranks with requests of its own.
    pub max_tokens: u64,
    /// Bytes of a GPU for weights and cache.
    pub memory: Bytes,
    /// How sums are done; `None` as NCCL chooses.
    pub all_reduce: Option<sim_collectives::algorithms::Name>,
    /// How tokens go to experts in steps that decode, and in those with prompts; `None` as sends and receives.
    pub expert_kernels: [Option<sim_collectives::algorithms::Name>; 2],
    /// What is asked; one request if only steps are.
    pub demand: Demand,
    /// Whether requests are served.
    pub serves: bool,
    /// Requests that quantiles leave out.
    pub warm: u64,
    /// What is looked for.
    pub goal: Option<Goal>,
    /// Sequences of the decode steps that are shown.
    pub batches: Vec<u64>,
    /// What a GPU costs.
    pub price: Option<GpuPrice>,
    /// Where the scenario says so.
    pub place: Place,
}

/// Seconds for which requests may come: times are counted in ps, and drawn ones can be some way above their mean.
const LONGEST: f64 = 1e7;

/// What a GPU costs.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuPrice {
    /// Dollars an hour, the least and the most.
    pub usd_per_hour: (f64, f64),
    /// Where it is from, in words.
    pub source: String,
}

/// Instances that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolSpec {
    /// How the model is divided.
    pub shape: Shape,
    /// How many.
    pub replicas: u32,
    /// The first GPU.
    pub from: u32,
    /// Most requests of each group of ranks with requests of its own.
    pub max_batch: u64,
}

/// How caches get from one pool to the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moves {
    /// Layers go as soon as they are made.
    pub by_layer: bool,
    /// By which NIC.
    pub nics: NicChoice,
    /// The share of its rate that payload reaches, in millionths.
    pub share: u64,
    /// Bytes of a message.
    pub block: Bytes,
    /// Its least time.
    pub per_block: Span,
    /// What is agreed on before.
    pub base: Span,
}

impl Inference {
    /// An instance of a pool.
    #[must_use]
    pub fn instance(&self, pool: &PoolSpec) -> Instance<'_> {
        Instance {
            numbers: self.numbers,
            launch: self.launch,
            launch_prefill: self.launch_prefill,
            overhead: self.overhead,
            dispatch: self.dispatch,
            imbalance: self.imbalance,
            two_batches: self.two_batches,
            ..Instance::new(&self.model, pool.shape, self.machine.clone())
        }
    }

    /// Tokens in the cache of a sequence in the steps that are shown: half of its answer is made.
    #[must_use]
    pub fn shown_context(&self) -> u64 {
        self.demand.prompts.mean() + self.demand.outputs.mean() / 2
    }

    /// The name in results: its own, else the model's.
    #[must_use]
    pub fn title(&self) -> &str {
        self.name.as_deref().unwrap_or(if self.model.name.is_empty() { "inference" } else { &self.model.name })
    }

    /// The pools.
    pub fn pools(&self) -> impl Iterator<Item = &PoolSpec> {
        core::iter::once(&self.first).chain(self.second.iter().map(|(pool, _)| pool))
    }

    /// The GPUs of all instances, by their number in the fabric.
    pub fn gpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.pools().flat_map(|pool| pool.from..pool.from + pool.gpus())
    }
}

impl PoolSpec {
    /// GPUs of all its instances.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        u32::try_from(self.shape.gpus() * u64::from(self.replicas)).unwrap_or(u32::MAX)
    }
}

/// The choice of NICs of a table.
pub(super) fn nic_choice(view: &View<'_>) -> Option<NicChoice> {
    Some(match view.choice("nics")? {
        "pinned" => NicChoice::Pinned(view.integer("nic")?),
        "round-robin" => NicChoice::RoundRobin,
        "striped" => NicChoice::Striped,
        _ => NicChoice::Affine,
    })
}

/// Keys of how caches go that have no effect, and why.
pub(super) fn of_one_nic(view: &View<'_>) -> Vec<(&'static str, &'static str)> {
    let mut out = Vec::new();
    if view.has("nic") && view.choice("nics") != Some("pinned") {
        out.push(("nic", "only nics = \"pinned\" looks at it"));
    }
    if view.has("block") && view.time("per_block").is_none_or(|time| time == Span::ZERO) {
        out.push(("block", "blocks count where each takes time: `per_block`"));
    }
    out
}

/// The share of a NIC's rate that payload reaches, in millionths.
pub(super) fn nic_share(view: &View<'_>) -> Option<u64> {
    Some((view.number("nic_share")? * 1e6).round() as u64)
}

/// What is wrong with how a model is divided, with `path` to the table of the key.
pub(super) fn misfit(asked: &Asked<'_>, fault: &ShapeFault, path: &dyn Fn(&str) -> String) -> Diagnostic {
    let (key, message, label, near) = match fault {
        ShapeFault::Range { key, most, .. } => (*key, fault.to_string(), format!("1 to {most}"), None),
        ShapeFault::Rule { rule, values, key, near } => {
            let near = format!("near: {} = {near}", path(key).rsplit('.').next().unwrap_or(key));
            (*key, format!("`{rule}` does not hold"), values.clone(), Some(near))
        }
        ShapeFault::NoExperts { .. } => ("ep", fault.to_string(), "has no effect".to_owned(), None),
        ShapeFault::NothingShared { .. } => ("attention_dp", fault.to_string(), "here".to_owned(), None),
    };
    let found = asked.fault(Code::BadSizes, message, &[&path(key)], label);
    match near {
        Some(near) => found.help(near),
        None => found,
    }
}

/// What the GPU costs: as the workload says, else what the catalogue has of rents.
fn price(view: &View<'_>, gpu: &str, catalogue: &Catalogue) -> Option<GpuPrice> {
    if let Some(usd) = view.number("usd_per_gpu_hour") {
        return Some(GpuPrice { usd_per_hour: (usd, usd), source: "usd_per_gpu_hour".to_owned() });
    }
    let row = catalogue.rental_of(gpu)?;
    let source = format!("catalog rental {}, {} of {}", row.name, row.standing, row.date);
    Some(GpuPrice { usd_per_hour: (row.min_usd_per_hour, row.max_usd_per_hour), source })
}

/// Instances of a table; their sizes are checked and they have GPUs.
fn pool(
    asked: &Asked<'_>,
    view: &View<'_>,
    inside: &str,
    model: &Model,
    (fabric, from): (&Fabric, u32),
    out: &mut Diagnostics,
) -> Option<PoolSpec> {
    let spec = ShapeSpec {
        tensor: view.integer("tp")?,
        pipeline: view.integer("pp")?,
        data: view.integer("attention_dp")?,
        expert: view.integer("ep"),
    };
    let path = |key: &str| if inside.is_empty() { key.to_owned() } else { format!("{inside}.{key}") };
    let shape = match spec.check(model) {
        Ok(shape) => shape,
        Err(faults) => {
            faults.iter().for_each(|fault| out.push(misfit(asked, fault, &path)));
            return None;
        }
    };
    let pool = PoolSpec { shape, replicas: view.integer("replicas")?, from, max_batch: view.integer("max_batch")? };
    let (need, have) = (u64::from(from) + u64::from(pool.gpus()), fabric.gpus().len() as u64);
    if need > have {
        let message =
            format!("{} instances of {} GPUs need {need} GPUs, and there are {have}", pool.replicas, shape.gpus());
        let keys = [path("replicas"), path("tp"), path("attention_dp"), path("pp")];
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let fault = asked.fault(Code::BadSizes, message, &keys, format!("from GPU {from} on"));
        out.push(fault.help("set `nodes` higher, or fewer replicas"));
        return None;
    }
    Some(pool)
}

/// The GPU's rates.
fn machine(
    asked: &Asked<'_>,
    number: Number,
    fabric: &Fabric,
    catalogue: &Catalogue,
    out: &mut Diagnostics,
) -> Option<(Machine, String)> {
    let view = &asked.view;
    let named = ("gpu", view.text("gpu"), "gpu = \"h100-sxm\", efficiency = 0.8");
    let (device, memory) = rated(asked, named, (fabric, catalogue), out)?;
    let efficiency = view.number("efficiency")?;
    let machine = Machine::of(device, number, memory, Figures::builtin()).scaled((efficiency * 1e6).round() as u64);
    let mut rates = format!("{} by tiles", device.gpu);
    if efficiency != 1.0 {
        rates += &format!(", times {efficiency}");
    }
    Some((machine, rates))
}

fn lengths(view: &View<'_>, key: &str, variation: &str) -> Option<Lengths> {
    let mean: u64 = view.integer(key)?;
    let variation = view.number(variation)?;
    // No longer than what 99.99 % are.
    Some(if variation > 0.0 {
        let sigma = (1.0 + variation * variation).ln().sqrt();
        let most = mean as f64 * (3.72 * sigma - sigma * sigma / 2.0).exp();
        Lengths::LogNormal { mean: mean as f64, variation, most: most.ceil() as u64 }
    } else {
        Lengths::Fixed(mean)
    })
}

fn demand(view: &View<'_>, seed: u64) -> Option<Demand> {
    let rate = view.number("rate")?;
    let arrivals = match view.choice("arrivals")? {
        "at-once" => Arrivals::AtOnce,
        "even" => Arrivals::Even { rate },
        "gamma" => Arrivals::Gamma { rate, variation: view.number("variation")? },
        _ => Arrivals::Poisson { rate },
    };
    Some(Demand {
        arrivals,
        prompts: lengths(view, "prompt", "prompt_variation")?,
        outputs: lengths(view, "output", "output_variation")?,
        count: view.integer("requests").unwrap_or(1),
        seed,
    })
}

/// The checks that need no fabric.
pub(super) fn shape(item: &Node, out: &mut Diagnostics) {
    if let Some(table) = item.as_table() {
        model::model(&Asked { view: View::new(table, &INFERENCE), item }, out);
    }
}

/// Reads and checks a workload of inference.
pub(super) fn inference(
    item: &Node,
    fabric: &Fabric,
    catalogue: &Catalogue,
    seed: u64,
    out: &mut Diagnostics,
) -> Option<Box<Inference>> {
    let view = View::new(item.as_table()?, &INFERENCE);
    let asked = Asked { view, item };
    let model = model::model(&asked, out);
    let weights = match view.choice("precision") {
        Some("fp8") => Number::Fp8,
        Some("fp4") => Number::Fp4,
        _ => Number::Bf16,
    };
    let cache = if view.choice("cache") == Some("fp8") { Number::Fp8 } else { Number::Bf16 };
    let machine = machine(&asked, weights, fabric, catalogue, out);
    let model = model?;
    let first = pool(&asked, &view, "", &model, (fabric, 0), out)?;
    let second = match view.table("decode") {
        None => None,
        Some(decode) => {
            let pool = pool(&asked, &decode, "decode", &model, (fabric, first.gpus()), out)?;
            let moves = Moves {
                by_layer: decode.boolean("by_layer"),
                nics: nic_choice(&decode)?,
                share: nic_share(&decode)?,
                block: decode.size("block")?,
                per_block: decode.time("per_block")?,
                base: decode.time("base")?,
            };
            Some((pool, moves))
        }
    };
    let figures = Figures::builtin();
    let eager = Launch::Eager { device: figures.launch, host: view.time("host")? };
    let (machine, rates) = machine?;
    let own = &fabric.node_spec().gpu;
    let memory_gb = catalogue.gpu(own).ok()?.memory_gb;
    let slo = view.table("slo").and_then(|slo| {
        let ms = |key| slo.time(key).map(|time| time.as_us() / 1e3);
        let limits = Slo { ttft_ms: ms("ttft")?, tpot_ms: ms("tpot")? };
        Some(Goal { slo: limits, share: slo.number("share")?, warm: view.integer("warm")? })
    });
    let batches: Vec<u64> = view
        .node("batch")
        .and_then(Node::as_array)
        .map(|items| super::super::cluster::integers(items).into_iter().map(u64::from).collect())
        .unwrap_or_else(|| vec![1, 8, 64]);
    let mut inference = Inference {
        name: view.text("name").map(str::to_owned),
        machine,
        rates,
        numbers: Numbers { weights, cache },
        launch: if view.boolean("graphs") { Launch::Graph(figures.graph_launch) } else { eager },
        launch_prefill: eager,
        overhead: view.time("overhead")?,
        dispatch: if view.choice("dispatch") == Some("fp8") { Payload::FP8 } else { Payload::BF16 },
        imbalance: (view.number("imbalance")? * 1e6).round() as u64,
        two_batches: view.boolean("two_batches"),
        first,
        second,
        order: if view.choice("order") == Some("prefill-first") { Order::PrefillFirst } else { Order::Chunked },
        max_tokens: view.integer("max_tokens")?,
        memory: Bytes::new((memory_gb * 1e9 * view.number("memory")?) as u64),
        all_reduce: view.choice("all_reduce").and_then(|name| name.parse().ok()),
        expert_kernels: ["expert_kernel", "expert_kernel_prefill"]
            .map(|key| view.choice(key).and_then(|name| name.parse().ok())),
        demand: demand(&view, seed)?,
        serves: view.has("requests"),
        warm: view.integer("warm")?,
        goal: slo,
        batches,
        price: price(&view, own, catalogue),
        place: item.place.clone(),
        model,
    };
    fits(&asked, &inference, out)?;
    if inference.serves && inference.warm >= inference.demand.count {
        let count = inference.demand.count;
        let fault = asked.fault(Code::OutOfRange, "`warm` leaves out all requests", &["warm"], "none would be counted");
        out.push(fault.help(format!("a number below requests = {count}")));
        return None;
    }
    let mean = match inference.demand.arrivals {
        Arrivals::AtOnce => 0.0,
        Arrivals::Even { rate } | Arrivals::Poisson { rate } | Arrivals::Gamma { rate, .. } => {
            inference.demand.count as f64 / rate.max(f64::MIN_POSITIVE)
        }
    };
    if inference.serves && mean > LONGEST {
        let message = format!("requests would come for {mean:.0} seconds, and {LONGEST:.0} can be counted");
        let fault = asked.fault(Code::OutOfRange, message, &["rate", "requests"], "so few a second");
        out.push(fault.help("a higher `rate`, or fewer `requests`"));
        return None;
    }
    fitting_batches(&asked, &mut inference, out);
    idle::keys(&asked, &inference, out);
    Some(Box::new(inference))
}

/// Warns of steps that decode more sequences than there is cache for; those that nobody asked for are left out.
fn fitting_batches(asked: &Asked<'_>, inference: &mut Inference, out: &mut Diagnostics) {
    let pool = inference.pools().last().unwrap_or(&inference.first);
    let room = inference.instance(pool).room(inference.memory);
    let most = (room / inference.shown_context().max(1)).max(1);
    if !asked.view.has("batch") {
        inference.batches.retain(|sequences| *sequences <= most);
        return;
    }
    if let Some(over) = inference.batches.iter().find(|sequences| **sequences > most) {
        let message = format!("{over} sequences of {} tokens have no room in the cache", inference.shown_context());
        let fault = asked.fault(Code::WouldNotFit, message, &["batch"], format!("an instance holds {room} tokens"));
        out.push(fault.help(format!("{most} or less; the step is timed as if there were room")));
    }
}

/// Whether weights and the longest request fit.
fn fits(asked: &Asked<'_>, inference: &Inference, out: &mut Diagnostics) -> Option<()> {
    let longest = inference.demand.prompts.most().saturating_add(inference.demand.outputs.most());
    for pool in inference.pools() {
        let instance = inference.instance(pool);
        let (weights, room) = (instance.weights(), instance.room(inference.memory) / pool.shape.data);
        if room >= longest {
            continue;
        }
        let what = if weights >= inference.memory {
            format!("weights of {weights} a GPU do not fit in {}", inference.memory)
        } else {
            format!(
                "a request of {longest} tokens does not fit: weights take {weights} of {}, and {room} tokens are left",
                inference.memory
            )
        };
        let fault = asked.fault(Code::DoesNotFit, what, &["tp", "model"], "an instance of this size");
        out.push(fault.help("raise `tp`, `pp` or `ep`; precision = \"fp8\"; cache = \"fp8\"; or shorter requests"));
        return None;
    }
    Some(())
}
