//! The scenarios that come with the program.

/// A bundled scenario.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name: the file's, without `.toml`.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        &[$(Preset { name: $name, text: include_str!(concat!("../../scenarios/", $name, ".toml")) }),*]
    };
}

/// All bundled scenarios; the first is the one that `init` writes when none is named.
pub const PRESETS: &[Preset] = presets![
    "hgx-h100-2node",
    "rail-4x8",
    "ring-allreduce-1024",
    "alltoall-1024",
    "pcie-shared-uplink",
    "one-transfer",
    "oversubscribed-shift",
    "incast-8to1",
    "incast-roce",
    "pause-storm",
    "victim-lanes",
    "ib-vs-roce-512",
    "gds-weight-load",
    "cross-socket",
    "acs-on",
    "nic-policy",
    "superpod-3tier",
    "hpn-dual-tor",
    "slow-link",
    "flapping-link",
    "straggler",
    "lost-spine",
    "llama3-8b-fsdp",
    "llama3-405b-1024",
    "nvl72-moe",
    "deepseek-experts",
    "decode-tp8",
    "kv-transfer",
    "prefill-decode",
    "failures",
];

/// The names of the bundled scenarios.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    PRESETS.iter().map(|p| p.name)
}

/// The bundled scenario called `name`, with or without `.toml`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    let stem = name.strip_suffix(".toml").unwrap_or(name);
    PRESETS.iter().find(|p| p.name == stem)
}

impl Preset {
    /// What the file says about itself: its first line of comment.
    #[must_use]
    pub fn title(&self) -> &'static str {
        self.text.lines().next().unwrap_or("").trim_start_matches('#').trim()
    }
}
