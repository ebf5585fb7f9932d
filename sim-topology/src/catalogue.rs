//! What is built in: GPUs, links, NICs, switches, transports and whole systems, each figure with its source.
//!
//! The data are TOML files in `data/`, embedded at compile time. Each row states its [`Standing`]; single keys may
//! differ from their row. A `recalled` figure is one that was not re-checked against a data sheet: it is shown as
//! provisional.

mod entry;
mod rows;
mod table;

use std::sync::LazyLock;

pub use entry::{Entry, Figure, Source};
pub use rows::{
    C2c, Cable, CopyWay, Family, Gpu, Host, Latency, Nic, NvSwitch, Nvlink, Nvme, Pcie, SocketLink, Switch, System,
    TransportPreset,
};
pub use table::{CatalogueError, Row, Standing, UnknownName};

use entry::Sources;
use table::Table;

/// The built-in hardware, by name.
#[derive(Clone, Debug)]
pub struct Catalogue {
    gpus: Table<Gpu>,
    nvlinks: Table<Nvlink>,
    nvswitches: Table<NvSwitch>,
    pcie: Table<Pcie>,
    c2c: Table<C2c>,
    socket_links: Table<SocketLink>,
    hosts: Table<Host>,
    nvmes: Table<Nvme>,
    copies: Table<CopyWay>,
    nics: Table<Nic>,
    switches: Table<Switch>,
    transports: Table<TransportPreset>,
    latencies: Table<Latency>,
    cables: Table<Cable>,
    systems: Table<System>,
    sources: Sources,
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

    fn parse_embedded() -> Result<Self, CatalogueError> {
        let links = include_str!("../data/links.toml");
        let latency = include_str!("../data/latency.toml");
        let hosts = include_str!("../data/hosts.toml");
        Ok(Self {
            gpus: Table::parse("gpu", "GPU", include_str!("../data/gpus.toml"))?,
            nvlinks: Table::parse("nvlink", "NVLink generation", links)?,
            nvswitches: Table::parse("nvswitch", "NVSwitch", links)?,
            pcie: Table::parse("pcie", "PCIe generation", links)?,
            c2c: Table::parse("c2c", "chip-to-chip link", links)?,
            socket_links: Table::parse("socket_link", "socket link", links)?,
            hosts: Table::parse("host", "host CPU", hosts)?,
            nvmes: Table::parse("nvme", "NVMe drive", hosts)?,
            copies: Table::parse("copy", "way to copy", hosts)?,
            nics: Table::parse("nic", "NIC", include_str!("../data/nics.toml"))?,
            switches: Table::parse("switch", "switch", include_str!("../data/switches.toml"))?,
            transports: Table::parse("transport", "transport", include_str!("../data/transports.toml"))?,
            latencies: Table::parse("latency", "latency", latency)?,
            cables: Table::parse("cable", "cable", latency)?,
            systems: Table::parse("system", "system", include_str!("../data/systems.toml"))?,
            sources: Sources::parse(include_str!("../data/sources.toml"))?,
        })
    }

    /// The GPU called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn gpu(&self, name: &str) -> Result<&Row<Gpu>, UnknownName> {
        self.gpus.get(name)
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

    /// All network switches in the order of the data file.
    pub fn switches(&self) -> impl Iterator<Item = &Row<Switch>> {
        self.switches.rows()
    }

    /// All GPUs in the order of the data file.
    pub fn gpus(&self) -> impl Iterator<Item = &Row<Gpu>> {
        self.gpus.rows()
    }

    /// NVLink of `generation`.
    ///
    /// # Errors
    /// If that generation is not in the catalogue.
    pub fn nvlink(&self, generation: u32) -> Result<&Row<Nvlink>, UnknownName> {
        self.nvlinks.get(&format!("nvlink{generation}"))
    }

    /// PCIe of `generation`.
    ///
    /// # Errors
    /// If that generation is not in the catalogue.
    pub fn pcie(&self, generation: u32) -> Result<&Row<Pcie>, UnknownName> {
        self.pcie.get(&format!("pcie{generation}"))
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

    /// The latency of the part called `name`.
    ///
    /// # Errors
    /// If there is none; with a did-you-mean.
    pub fn latency(&self, name: &str) -> Result<&Row<Latency>, UnknownName> {
        self.latencies.get(name)
    }

    /// The kind of cable for a run of `metres`: the first that is long enough, else the longest.
    ///
    /// # Errors
    /// If the catalogue holds no cable.
    pub fn cable(&self, metres: f64) -> Result<&Row<Cable>, UnknownName> {
        let fits = self.cables.rows().find(|cable| metres <= cable.max_m);
        fits.or_else(|| self.cables.rows().last()).ok_or_else(|| self.cables.unknown("any"))
    }

    /// Everything in the catalogue, kind by kind, with each figure's unit, source and standing.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let sources = &self.sources;
        entry::all(sources, &self.systems)
            .chain(entry::all(sources, &self.gpus))
            .chain(entry::all(sources, &self.nvlinks))
            .chain(entry::all(sources, &self.nvswitches))
            .chain(entry::all(sources, &self.pcie))
            .chain(entry::all(sources, &self.c2c))
            .chain(entry::all(sources, &self.socket_links))
            .chain(entry::all(sources, &self.hosts))
            .chain(entry::all(sources, &self.nvmes))
            .chain(entry::all(sources, &self.copies))
            .chain(entry::all(sources, &self.nics))
            .chain(entry::all(sources, &self.switches))
            .chain(entry::all(sources, &self.transports))
            .chain(entry::all(sources, &self.latencies))
            .chain(entry::all(sources, &self.cables))
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
