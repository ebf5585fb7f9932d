//! The catalogue: GPUs, links, NICs, switches, transports and whole systems, each figure with its source.
//!
//! The data are TOML files in `data/`, embedded at compile time: one table a kind. Each row states its [`Standing`];
//! single keys may differ from their row. A `recalled` figure is one that was not re-checked against a data sheet: it is
//! shown as provisional. [`Catalogue::with_rows`] lays rows of a user's own upon it.

mod cluster;
mod computed;
mod entry;
mod facts;
mod own;
mod preset;
mod rows;
mod table;

use std::sync::LazyLock;

pub use cluster::{Cluster, Published};
pub use computed::ComputedFigure;
pub use entry::{Entry, Figure, Source};
pub use facts::{Constant, Fec, Measured, Optic, PathLatency, PcieSwitch, Power, Price, Rental};
pub use own::{Change, ChangedFigure, OwnRow, OwnRowError, OwnRowFault};
pub use preset::Preset;
pub use rows::{
    C2c, Cable, CopyWay, Family, Gpu, Host, Latency, Nic, NvSwitch, Nvlink, Nvme, Pcie, SocketLink, Switch, System,
    TransportPreset,
};
pub use table::{CatalogueError, Row, Standing, UnknownName};

use entry::Sources;
use table::Table;

/// Declares the kinds of the catalogue: from a line for each come the field, its data files and its part in listings
/// and in rows of the user's own.
macro_rules! kinds {
    ($($field:ident: $row:ty = $key:literal, $words:literal, $($file:literal)+;)*) => {
        /// Hardware by name: what is built in, and what a user laid upon it.
        #[derive(Clone, Debug)]
        pub struct Catalogue {
            $($field: Table<$row>,)*
            sources: Sources,
            changes: Vec<Change>,
        }

        impl Catalogue {
            /// The kinds in the order of listings, each with what it is called in a sentence.
            pub const KINDS: &'static [(&'static str, &'static str)] = &[$(($key, $words)),*];

            fn parse_embedded() -> Result<Self, CatalogueError> {
                Ok(Self {
                    $($field: Table::parse($key, $words, concat!($(include_str!(concat!("../data/", $file))),+))?,)*
                    sources: Sources::parse(include_str!("../data/sources.toml"))?,
                    changes: Vec::new(),
                })
            }

            /// Everything in the catalogue, kind by kind, with each figure's unit, source and standing.
            pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
                std::iter::empty()$(.chain(entry::all(self, &self.$field)))*
            }

            /// The name by which a table knows `name`; `None` if it does not, or if there is no such kind.
            fn canonical(&self, kind: &str, name: &str) -> Option<String> {
                match kind {
                    $($key => self.$field.get(name).ok().map(|row| row.name.clone()),)*
                    _ => None,
                }
            }

            fn unknown(&self, kind: &str, name: &str) -> UnknownName {
                match kind {
                    $($key => self.$field.unknown(name),)*
                    _ => UnknownName::new("kind", kind, Self::KINDS.iter().map(|(key, _)| *key)),
                }
            }

            fn put(&mut self, row: &OwnRow, base: Option<&str>) -> Result<Change, OwnRowFault> {
                match row.kind.as_str() {
                    $($key => self.$field.put(row, base),)*
                    kind => Err(OwnRowFault::UnknownKind(self.unknown(kind, ""))),
                }
            }
        }

        #[cfg(test)]
        impl Catalogue {
            /// Calls `check` with the rows of every kind, without their data.
            fn each_row(&self, mut check: impl FnMut(&'static str, &Row<()>)) {
                $(self.$field.rows().for_each(|row| check($key, &row.without_data()));)*
            }
        }
    };
}

kinds! {
    systems: System = "system", "system", "systems.toml" "systems-pcie.toml" "systems-more.toml";
    gpus: Gpu = "gpu", "GPU", "gpus.toml";
    nvlinks: Nvlink = "nvlink", "NVLink generation", "nvlink.toml";
    nvswitches: NvSwitch = "nvswitch", "NVSwitch chip", "nvswitch.toml";
    pcie: Pcie = "pcie", "PCIe generation", "pcie.toml";
    pcie_switches: PcieSwitch = "pcie_switch", "PCIe switch", "pcie_switches.toml";
    c2c: C2c = "c2c", "chip-to-chip link", "c2c.toml";
    socket_links: SocketLink = "socket_link", "socket link", "socket_links.toml";
    hosts: Host = "host", "host CPU", "hosts.toml";
    nvmes: Nvme = "nvme", "NVMe drive", "hosts.toml";
    copies: CopyWay = "copy", "way to copy", "hosts.toml";
    nics: Nic = "nic", "NIC", "nics.toml";
    switches: Switch = "switch", "switch", "switches.toml";
    transports: TransportPreset = "transport", "transport", "transports.toml";
    presets: Preset = "preset", "transport preset", "presets.toml";
    latencies: Latency = "latency", "latency", "latency.toml";
    cables: Cable = "cable", "cable", "cables.toml";
    clusters: Cluster = "cluster", "cluster", "clusters.toml";
    optics: Optic = "optic", "transceiver", "optics.toml";
    fecs: Fec = "fec", "error correction", "fec.toml";
    paths: PathLatency = "path_latency", "path latency", "path_latencies.toml";
    constants: Constant = "constant", "constant", "constants.toml";
    prices: Price = "price", "price", "prices.toml";
    rentals: Rental = "rental", "rental", "rentals.toml";
    powers: Power = "power", "power", "power.toml";
    measurements: Measured = "measured", "measurement", "measured.toml";
}

static BUILTIN: LazyLock<Catalogue> = LazyLock::new(|| match Catalogue::parse_embedded() {
    Ok(catalogue) => catalogue,
    Err(error) => unreachable!("the embedded catalogue is checked by tests: {error}"),
});

impl Catalogue {
    /// The catalogue that is compiled in.
    #[must_use]
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// What a user laid upon the built-in rows, in the order given.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The GPU called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn gpu(&self, name: &str) -> Result<&Row<Gpu>, UnknownName> {
        self.gpus.get(name)
    }

    /// The rent of the GPU called `gpu`, if it is known.
    #[must_use]
    pub fn rental_of(&self, gpu: &str) -> Option<&Row<Rental>> {
        self.rentals.rows().find(|row| row.gpu == gpu)
    }

    /// The NIC called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn nic(&self, name: &str) -> Result<&Row<Nic>, UnknownName> {
        self.nics.get(name)
    }

    /// The network switch called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn switch(&self, name: &str) -> Result<&Row<Switch>, UnknownName> {
        self.switches.get(name)
    }

    /// The NVSwitch chip called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn nvswitch(&self, name: &str) -> Result<&Row<NvSwitch>, UnknownName> {
        self.nvswitches.get(name)
    }

    /// The node system called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn system(&self, name: &str) -> Result<&Row<System>, UnknownName> {
        self.systems.get(name)
    }

    /// All node systems in the order of the data file.
    pub fn systems(&self) -> impl Iterator<Item = &Row<System>> {
        self.systems.rows()
    }

    /// The reference cluster called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn cluster(&self, name: &str) -> Result<&Row<Cluster>, UnknownName> {
        self.clusters.get(name)
    }

    /// All reference clusters in the order of the data file.
    pub fn clusters(&self) -> impl Iterator<Item = &Row<Cluster>> {
        self.clusters.rows()
    }

    /// All network switches in the order of the data file.
    pub fn switches(&self) -> impl Iterator<Item = &Row<Switch>> {
        self.switches.rows()
    }

    /// All GPUs in the order of the data file.
    pub fn gpus(&self) -> impl Iterator<Item = &Row<Gpu>> {
        self.gpus.rows()
    }

    /// NVLink of `generation`: the last row of it, so that a user's own comes before what is built in.
    ///
    /// # Errors
    /// If that generation is not in the catalogue.
    pub fn nvlink(&self, generation: u32) -> Result<&Row<Nvlink>, UnknownName> {
        self.nvlinks
            .last(|row| row.generation == generation)
            .ok_or_else(|| self.nvlinks.unknown(&format!("nvlink{generation}")))
    }

    /// PCIe of `generation`: the last row of it, so that a user's own comes before what is built in.
    ///
    /// # Errors
    /// If that generation is not in the catalogue.
    pub fn pcie(&self, generation: u32) -> Result<&Row<Pcie>, UnknownName> {
        self.pcie
            .last(|row| row.generation == generation)
            .ok_or_else(|| self.pcie.unknown(&format!("pcie{generation}")))
    }

    /// The kind of a GPU's links to other GPUs: the row that it names, else that of its NVLink generation; `None` if it
    /// has neither.
    ///
    /// # Errors
    /// If that row or generation is not in the catalogue.
    pub fn gpu_link(&self, gpu: &Gpu) -> Result<Option<&Row<Nvlink>>, UnknownName> {
        match (&gpu.link, gpu.nvlink_gen) {
            (Some(name), _) => self.nvlinks.get(name).map(Some),
            (None, Some(generation)) => self.nvlink(generation).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The PCIe switch chip called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn pcie_switch(&self, name: &str) -> Result<&Row<PcieSwitch>, UnknownName> {
        self.pcie_switches.get(name)
    }

    /// All transceivers in the order of the data file.
    pub fn optics(&self) -> impl Iterator<Item = &Row<Optic>> {
        self.optics.rows()
    }

    /// The price called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn price(&self, name: &str) -> Result<&Row<Price>, UnknownName> {
        self.prices.get(name)
    }

    /// The figure of the constant called `name`, in its own unit.
    ///
    /// # Errors
    /// If there is none, or it is a range; with a did-you-mean.
    pub fn constant(&self, name: &str) -> Result<f64, UnknownName> {
        self.constants.get(name)?.value.ok_or_else(|| self.constants.unknown(name))
    }

    /// The latency of the whole path called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn path_latency(&self, name: &str) -> Result<&Row<PathLatency>, UnknownName> {
        self.paths.get(name)
    }

    /// The measurement called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn measured(&self, name: &str) -> Result<&Row<Measured>, UnknownName> {
        self.measurements.get(name)
    }

    /// The chip-to-chip link called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn c2c(&self, name: &str) -> Result<&Row<C2c>, UnknownName> {
        self.c2c.get(name)
    }

    /// The socket link called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn socket_link(&self, name: &str) -> Result<&Row<SocketLink>, UnknownName> {
        self.socket_links.get(name)
    }

    /// The root complex of the CPU called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn host(&self, name: &str) -> Result<&Row<Host>, UnknownName> {
        self.hosts.get(name)
    }

    /// The NVMe drive called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn nvme(&self, name: &str) -> Result<&Row<Nvme>, UnknownName> {
        self.nvmes.get(name)
    }

    /// The way to copy called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn copy_way(&self, name: &str) -> Result<&Row<CopyWay>, UnknownName> {
        self.copies.get(name)
    }

    /// The network transport called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn transport(&self, name: &str) -> Result<&Row<TransportPreset>, UnknownName> {
        self.transports.get(name)
    }

    /// The set-up of a transport called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn preset(&self, name: &str) -> Result<&Row<Preset>, UnknownName> {
        self.presets.get(name)
    }

    /// All set-ups of transports in the order of the data file.
    pub fn presets(&self) -> impl Iterator<Item = &Row<Preset>> {
        self.presets.rows()
    }

    /// The latency of the part called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn latency(&self, name: &str) -> Result<&Row<Latency>, UnknownName> {
        self.latencies.get(name)
    }

    /// The kind of network cable for a run of `metres`: the shortest kind that is long enough, else the longest.
    ///
    /// # Errors
    /// If the catalogue holds no cable.
    pub fn cable(&self, metres: f64) -> Result<&Row<Cable>, UnknownName> {
        let kinds = || self.cables.rows().filter(|cable| !cable.backplane);
        let fits = kinds().filter(|cable| metres <= cable.max_m).min_by(|a, b| a.max_m.total_cmp(&b.max_m));
        let longest = || kinds().max_by(|a, b| a.max_m.total_cmp(&b.max_m));
        fits.or_else(longest).ok_or_else(|| self.cables.unknown("any"))
    }

    /// The entry called `name`, of whatever kind; systems come first.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean over all kinds.
    pub fn entry(&self, name: &str) -> Result<Entry<'_>, UnknownName> {
        self.entries().find(|e| e.answers_to(name)).ok_or_else(|| {
            UnknownName::new("catalogue entry", name, self.entries().flat_map(|e| e.all_names().collect::<Vec<_>>()))
        })
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_facts;
#[cfg(test)]
mod tests_own;
