//! From files, `extends` and settings to one tree.

mod settings;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::designs::{self, Designs};
use super::presets;
use super::tree::{self, Entry, Node, Table, Value};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Files, Place, Sources, shorten};
pub(super) use settings::split_key;
use settings::{FAULT, apply, set};

/// The largest scenario file that is read.
pub const MAX_BYTES: u64 = 4 << 20;
/// The longest chain of `extends`.
pub(super) const MAX_DEPTH: usize = 16;

/// One key set from outside the file, by `--set a.b=1` or by a flag that stands for a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What the user typed it under: `--set`, `--nodes`.
    pub origin: String,
    /// The key, parts separated by dots; members of arrays by number (`workload.0.op` or `workload[0].op`). `None` if
    /// the text itself is `key=value`.
    pub key: Option<String>,
    /// The value as typed, or `key=value`.
    pub text: String,
    /// Whether the value is text whatever it looks like (a name, a size), rather than any TOML value.
    pub literal: bool,
    /// Whether the text is the path of a file of which the `[catalogue]` is taken.
    file: bool,
}

impl Setting {
    /// `--set key=value`; the value is TOML, and text where it isn't.
    #[must_use]
    pub fn set(text: impl Into<String>) -> Self {
        Self { origin: "--set".to_owned(), key: None, text: text.into(), literal: false, file: false }
    }

    /// A flag whose value is text, such as `--system hgx-h100`.
    #[must_use]
    pub fn text(origin: &str, key: impl Into<String>, text: impl Into<String>) -> Self {
        Self { origin: origin.to_owned(), key: Some(key.into()), text: text.into(), literal: true, file: false }
    }

    /// `--fault "TARGET KEY=VALUE …"`: one more `[[fault]]`.
    #[must_use]
    pub fn fault(text: impl Into<String>) -> Self {
        Self {
            origin: "--fault".to_owned(),
            key: Some(FAULT.to_owned()),
            text: text.into(),
            literal: true,
            file: false,
        }
    }

    /// A flag whose value is a TOML value, such as `--nodes 2`.
    #[must_use]
    pub fn value(origin: &str, key: impl Into<String>, value: impl ToString) -> Self {
        Self { origin: origin.to_owned(), key: Some(key.into()), text: value.to_string(), literal: false, file: false }
    }

    /// `--catalogue FILE`: catalogue rows out of a file.
    #[must_use]
    pub fn catalogue(path: impl Into<String>) -> Self {
        let (origin, key) = ("--catalogue".to_owned(), Some("catalogue".to_owned()));
        Self { origin, key, text: path.into(), literal: true, file: true }
    }

    /// Whether its text is the path of a file.
    pub(crate) const fn is_file(&self) -> bool {
        self.file
    }

    /// Whether it sets a key of the catalogue.
    pub(super) fn is_of_catalogue(&self) -> bool {
        let path = self.key.as_deref().or_else(|| self.text.split_once('=').map(|(key, _)| key)).unwrap_or("");
        path.split('.').next().is_some_and(|first| first.trim() == "catalogue")
    }
}

/// Where a scenario comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file.
    File(PathBuf),
    /// Standard input, or any text that is at hand; the name is for messages.
    Text {
        /// What messages call it.
        name: String,
        /// The TOML.
        text: String,
    },
    /// Nothing: settings alone make the scenario.
    Flags,
}

/// The merged tree of an input with all that it extends, one of its designs and the settings. Faults go to `diagnostics`.
pub(super) fn tree(input: &Input, settings: &[Setting], diagnostics: &mut Diagnostics) -> (Table, Designs) {
    let table = match input {
        Input::File(path) => file(path, None, &mut Vec::new(), diagnostics),
        Input::Text { name, text } => {
            let source = diagnostics.sources.add(name.clone(), text.clone());
            let table = tree::parse(source, text, diagnostics);
            extend(table, Path::new("."), &mut Vec::new(), diagnostics)
        }
        Input::Flags => Table::default(),
    };
    over(table, settings, &[], diagnostics)
}

/// The tree of a scenario that was read, with one of its designs, the settings, the values of single keys upon these, and
/// what it names taken in.
pub(super) fn over(
    mut table: Table,
    settings: &[Setting],
    keys: &[(&[String], &Place, &Node)],
    diagnostics: &mut Diagnostics,
) -> (Table, Designs) {
    let designs = designs::lay(&mut table, settings, diagnostics);
    for setting in settings.iter().filter(|setting| setting.wanted_design().is_none()) {
        // A flag that names a system stands in place of the one that the file describes.
        if setting.key.as_deref() == Some("system") {
            table.remove("node");
        }
        if setting.file {
            rows_of(Path::new(&setting.text), &mut table, diagnostics);
        } else {
            apply(&mut table, setting, diagnostics);
        }
    }
    for (parts, place, node) in keys {
        if parts.len() == 1 && parts[0] == "system" {
            table.remove("node");
        }
        if let [workload, number, sizes] = parts
            && (workload.as_str(), sizes.as_str()) == ("workload", "sizes")
        {
            without_range(&mut table, number);
        }
        set(&mut table, parts, place, (*node).clone(), diagnostics);
    }
    table = super::reference_cluster::under(table, diagnostics);
    table = super::transport_preset::under(table, diagnostics);
    super::profile::below(&mut table, 0, diagnostics);
    if let Some(profile) = table.entries.iter_mut().find(|e| e.key == "profile") {
        profile.node.flatten();
    }
    (table, designs)
}

/// Takes the range of sizes out of a workload whose sizes are listed in its place.
fn without_range(table: &mut Table, number: &str) {
    let workloads = table.entries.iter_mut().find(|e| e.key == "workload").map(|e| &mut e.node.value);
    if let (Some(Value::Array(items)), Ok(number)) = (workloads, number.parse::<usize>())
        && let Some(Value::Table(workload)) = items.get_mut(number).map(|item| &mut item.value)
    {
        workload.entries.retain(|entry| !matches!(entry.key.as_str(), "min" | "max" | "factor"));
    }
}

/// Lays the catalogue rows of a file upon `table`.
fn rows_of(path: &Path, table: &mut Table, diagnostics: &mut Diagnostics) {
    let before = diagnostics.list.len();
    let read = file(path, None, &mut Vec::new(), diagnostics);
    let mut found = false;
    for entry in read.entries {
        match entry.key.as_str() {
            "catalogue" => {
                found = true;
                table.lay(Table { entries: vec![entry] });
            }
            "schema" | "name" | "description" => {}
            other => {
                let message = format!("`{}` has no place in a file of catalogue rows", shorten(other));
                let fault = Diagnostic::new(Code::BadArgument, message);
                let fault = fault.at(entry.key_place, "--catalogue takes `[catalogue.KIND.NAME]` tables only");
                diagnostics.push(fault.help("give the file as the scenario if it is one"));
            }
        }
    }
    if !found && diagnostics.list.len() == before {
        let fault = Diagnostic::new(Code::BadArgument, format!("`{}` has no catalogue rows", path.display()));
        diagnostics.push(fault.help("[catalogue.switch.qm9700] and below it, for instance, latency_ns = 300"));
    }
}

/// A file with what it extends. `from` is the place of the `extends` that named it.
pub(super) fn file(
    path: &Path,
    from: Option<&Place>,
    chain: &mut Vec<PathBuf>,
    diagnostics: &mut Diagnostics,
) -> Table {
    let fail = |diagnostics: &mut Diagnostics, diagnostic: Diagnostic| {
        diagnostics.push(match from {
            Some(place) => diagnostic.at(place.clone(), "named here"),
            None => diagnostic,
        });
        Table::default()
    };
    let text = match read(path, diagnostics.sources.files()) {
        Ok(text) => text,
        Err(diagnostic) => return fail(diagnostics, *diagnostic),
    };
    let identity = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if let Some(first) = chain.iter().position(|p| *p == identity) {
        let circle: Vec<String> =
            chain[first..].iter().chain([&identity]).map(|p| format!("`{}`", base_name(p))).collect();
        let diagnostic = Diagnostic::new(Code::Cycle, "`extends` runs in a circle")
            .note(circle.join(" extends "))
            .help("take one of the `extends` out");
        return fail(diagnostics, diagnostic);
    }
    if chain.len() >= MAX_DEPTH {
        return fail(diagnostics, Diagnostic::new(Code::Cycle, format!("`extends` more than {MAX_DEPTH} files deep")));
    }
    chain.push(identity);
    let source = diagnostics.sources.add(path.display().to_string(), text.clone());
    let table = tree::parse(source, &text, diagnostics);
    let table = extend(table, path.parent().unwrap_or(Path::new(".")), chain, diagnostics);
    chain.pop();
    table
}

/// A file's own keys, whatever it extends.
pub(crate) fn read_table(path: &Path, diagnostics: &mut Diagnostics) -> Table {
    match read(path, diagnostics.sources.files()) {
        Ok(text) => {
            let source = diagnostics.sources.add(path.display().to_string(), text.clone());
            tree::parse(source, &text, diagnostics)
        }
        Err(diagnostic) => {
            diagnostics.push(*diagnostic);
            Table::default()
        }
    }
}

/// Lays `table` upon the file that it extends, if it does.
pub(super) fn extend(
    mut table: Table,
    folder: &Path,
    chain: &mut Vec<PathBuf>,
    diagnostics: &mut Diagnostics,
) -> Table {
    let Some(Entry { node, .. }) = table.remove("extends") else { return table };
    let Some(name) = node.as_text() else {
        let label = format!("{}; the path of a file is due", node.describe());
        let diagnostic = Diagnostic::new(Code::WrongType, "`extends` takes a text").at(node.place, label);
        diagnostics.push(diagnostic.help("extends = \"base.toml\""));
        return table;
    };
    let mut below = file(&folder.join(name), Some(&node.place), chain, diagnostics);
    below.lay(table);
    below
}

fn base_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The path that a text names: relative to the file that it stands in, which for a flag is the folder that the user is in.
pub(super) fn beside(name: &Node, sources: &Sources) -> Option<PathBuf> {
    let folder = Path::new(sources.name(name.place.source)).parent().unwrap_or(Path::new(""));
    Some(folder.join(name.as_text()?))
}

/// The text of a file that a scenario consists of or names, as it was when it was first read.
pub(super) fn read(path: &Path, files: &Files) -> Result<String, Box<Diagnostic>> {
    files.get(path, || from_disk(path))
}

fn from_disk(path: &Path) -> Result<String, Box<Diagnostic>> {
    let shown = shorten(&path.display().to_string());
    let unreadable = |why: String| Diagnostic::new(Code::Unreadable, format!("cannot read `{shown}`: {why}"));
    let io = |error: std::io::Error| {
        Box::new(match error.kind() {
            std::io::ErrorKind::NotFound => unreadable("there is no such file".to_owned()).maybe_help(nearby(path)),
            std::io::ErrorKind::PermissionDenied => unreadable("permission denied".to_owned()),
            _ => unreadable(error.to_string()),
        })
    };
    let meta = std::fs::metadata(path).map_err(io)?;
    if meta.is_dir() {
        let help = format!("name a file in it, e.g. `{shown}/scenario.toml`");
        return Err(Box::new(unreadable("it is a folder".to_owned()).help(help)));
    }
    let too_large = |bytes: u64| {
        Box::new(
            Diagnostic::new(
                Code::TooLarge,
                format!("`{shown}` has {:.1} MiB; a scenario has at most 4 MiB", bytes as f64 / 1_048_576.0),
            )
            .help("logs of nccl-tests go to `fabricsim compare`"),
        )
    };
    if meta.len() > MAX_BYTES {
        return Err(too_large(meta.len()));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(io)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(too_large(bytes.len() as u64));
    }
    decode(&shown, bytes)
}

/// Bytes as text: UTF-8, with or without a byte-order mark, without NUL bytes.
///
/// # Errors
/// A diagnostic that names the first wrong byte.
pub fn decode(name: &str, bytes: Vec<u8>) -> Result<String, Box<Diagnostic>> {
    let refuse = |at: usize, what: &str| {
        Diagnostic::new(Code::NotText, format!("`{name}` is not UTF-8 text: {what} at byte {at}"))
            .help("a scenario is a TOML file; `fabricsim init` writes one to start from")
    };
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(Box::new(refuse(0, "a UTF-16 byte-order mark").help("save the file as UTF-8")));
    }
    if let Some(at) = bytes.iter().position(|b| *b == 0) {
        return Err(Box::new(refuse(at, "a NUL byte")));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_owned)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let byte = error.as_bytes().get(at).copied().unwrap_or(0);
            Err(Box::new(refuse(at, &format!("0x{byte:02x}"))))
        }
    }
}

/// A file or bundled scenario with a name like the missing one.
fn nearby(path: &Path) -> Option<String> {
    let wanted = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .take(1000)
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|n| n.ends_with(".toml"))
        .collect();
    names.sort();
    if let Some(alike) = crate::diagnostic::similar(wanted, names.iter().map(String::as_str)) {
        return Some(format!("did you mean `{}`?", path.with_file_name(alike).display()));
    }
    let stem = wanted.trim_end_matches(".toml");
    let preset = crate::diagnostic::similar(stem, presets::names())?;
    Some(format!("`fabricsim init {preset}` writes the bundled scenario of that name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, settings: &[Setting]) -> (Table, Diagnostics) {
        let mut diagnostics = Diagnostics::new();
        let input = Input::Text { name: "t.toml".into(), text: text.into() };
        let (table, _) = tree(&input, settings, &mut diagnostics);
        (table, diagnostics)
    }

    #[test]
    fn settings_reach_into_tables_and_arrays() {
        let (table, d) = with(
            "[[workload]]\nop = \"a\"\n",
            &[Setting::set("workload[0].op=alltoall"), Setting::set("fabric.spines = 8"), Setting::set("mtu=4 KiB")],
        );
        assert!(d.list.is_empty(), "{d:?}");
        let workload = table.get("workload").unwrap().as_array().unwrap()[0].as_table().unwrap();
        assert_eq!(workload.get("op").unwrap().as_text(), Some("alltoall"));
        let spines = table.get("fabric").unwrap().as_table().unwrap().get("spines").unwrap();
        assert!(matches!(spines.value, Value::Integer(Some(8))));
        assert_eq!(d.sources.text(spines.place.source)[spines.place.span.clone()].to_owned(), "8");
        assert_eq!(table.get("mtu").unwrap().as_text(), Some("4 KiB"));
        // 2.20 as a number would be 2.2.
        for (typed, meant) in [("2.20", "2.20"), ("\"2.20\"", "2.20")] {
            let (table, d) = with("", &[Setting::set(format!("software.nccl={typed}"))]);
            assert!(d.list.is_empty(), "{d:?}");
            assert_eq!(table.get("software").unwrap().as_table().unwrap().get("nccl").unwrap().as_text(), Some(meant));
        }
    }

    #[test]
    fn bad_settings_are_reported() {
        for bad in ["nodes", "=3", "a..b=1", "workload.7.op=x", "", "extends=base.toml", " extends = \"base.toml\""] {
            let (_, d) = with("[[workload]]\nop = \"a\"\n", &[Setting::set(bad)]);
            assert_eq!(d.list.len(), 1, "{bad}: {d:?}");
            assert_eq!(d.list[0].code, Code::BadArgument);
        }
    }

    #[test]
    fn a_chain_of_files_ends_or_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("a.toml", "extends = \"b.toml\"\nnodes = 4\n");
        write("b.toml", "extends = \"c.toml\"\nnodes = 3\nseed = 3\n");
        write("c.toml", "nodes = 2\nname = \"c\"\n");
        let mut d = Diagnostics::new();
        let (table, _) = tree(&Input::File(dir.path().join("a.toml")), &[], &mut d);
        assert!(d.list.is_empty(), "{d:?}");
        assert!(matches!(table.get("nodes").unwrap().value, Value::Integer(Some(4))));
        assert!(matches!(table.get("seed").unwrap().value, Value::Integer(Some(3))));
        let name = table.get("name").unwrap();
        assert!(d.sources.name(name.place.source).ends_with("c.toml"));

        write("c.toml", "extends = \"a.toml\"\n");
        let mut d = Diagnostics::new();
        let _ = tree(&Input::File(dir.path().join("a.toml")), &[], &mut d);
        assert_eq!(d.list.len(), 1);
        assert_eq!(d.list[0].code, Code::Cycle);
        assert_eq!(d.list[0].notes, ["`a.toml` extends `b.toml` extends `c.toml` extends `a.toml`"]);
        let place = d.list[0].place.clone().unwrap();
        assert!(d.sources.name(place.source).ends_with("c.toml"));
    }

    #[test]
    fn unreadable_files_say_why() {
        let dir = tempfile::tempdir().unwrap();
        let code = |name: &str, bytes: &[u8]| {
            std::fs::write(dir.path().join(name), bytes).unwrap();
            let mut d = Diagnostics::new();
            let _ = tree(&Input::File(dir.path().join(name)), &[], &mut d);
            d.list.first().map(|d| d.code)
        };
        assert_eq!(code("bom.toml", b"\xef\xbb\xbfnodes = 2\r\n"), None);
        assert_eq!(code("u16.toml", b"\xff\xfen\0"), Some(Code::NotText));
        assert_eq!(code("bin.toml", b"\x7fELF\0\0"), Some(Code::NotText));
        assert_eq!(code("latin.toml", b"name = \"\xe9\""), Some(Code::NotText));
        assert_eq!(code("huge.toml", &vec![b'#'; MAX_BYTES as usize + 1]), Some(Code::TooLarge));
        assert_eq!(code("empty.toml", b""), None);
        let mut d = Diagnostics::new();
        let _ = tree(&Input::File(dir.path().to_owned()), &[], &mut d);
        assert_eq!(d.list[0].code, Code::Unreadable);
        let mut d = Diagnostics::new();
        let _ = tree(&Input::File(dir.path().join("emty.toml")), &[], &mut d);
        assert_eq!(d.list[0].code, Code::Unreadable);
        assert!(d.list[0].help[0].contains("empty.toml"), "{:?}", d.list[0]);
    }
}
