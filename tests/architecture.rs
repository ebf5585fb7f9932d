//! The shape of the repository: who may depend on whom, what the core may speak of, how long a file may be, and that
//! what the documents name is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{Metadata, MetadataCommand};

/// Which crates of the workspace each may depend on.
const ALLOWED: &[(&str, &[&str])] = &[
    ("sim-core", &[]),
    ("sim-topology", &["sim-core"]),
    ("sim-report", &["sim-core"]),
    ("sim-collectives", &["sim-core", "sim-topology"]),
    ("sim-workload", &["sim-core", "sim-topology", "sim-collectives"]),
    ("fabricsim", &["sim-core", "sim-topology", "sim-collectives", "sim-workload", "sim-report"]),
];

/// What the core does not know. Words of code and of its texts, not of comments.
const FOREIGN: &[&str] = &["gpu", "nvlink", "nvswitch", "nic", "pxn", "rank", "collective", "nccl", "toml"];
/// Identifiers of the core that may contain such a word.
const ALLOWANCES: &[&str] = &["nccl_size"];

/// The longest file.
const MOST_LINES: usize = 600;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn metadata() -> Metadata {
    MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec().unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The files below `folder` with this ending, sorted.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == ending) {
                out.push(path);
            }
        }
    }
    out.sort();
    out
}

/// A path as the documents write it: from the root, with slashes.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().replace('\\', "/")
}

/// All Rust files of the workspace.
fn sources() -> Vec<PathBuf> {
    let mut out = Vec::new();
    for package in metadata().packages {
        let folder = package.manifest_path.parent().unwrap().as_std_path().to_owned();
        for part in ["src", "tests", "benches", "examples"] {
            out.extend(files(&folder.join(part), "rs"));
        }
    }
    out
}

/// README, ARCHITECTURE, CONTRIBUTING, CHANGELOG, the page of the benches and everything in docs.
fn documents() -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "benches/README.md"]
            .map(|name| root().join(name))
            .into_iter()
            .collect();
    out.extend(files(&root().join("docs"), "md"));
    out
}

#[test]
fn crates_depend_downwards_only() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let packages = metadata().packages;
    let ours: BTreeSet<String> = packages.iter().map(|p| p.name.to_string()).collect();
    for package in &packages {
        let name = package.name.to_string();
        let Some(may) = allowed.get(name.as_str()) else {
            panic!("{name} is not in the table of tests/architecture.rs: say what it may depend on")
        };
        for dependency in package.dependencies.iter().filter(|d| ours.contains(&d.name)) {
            assert!(
                may.contains(&dependency.name.as_str()),
                "{name} depends on {}; it may depend on {may:?} only",
                dependency.name
            );
        }
    }
}

#[test]
fn crates_take_lints_version_and_licence_from_the_workspace() {
    let packages = metadata().packages;
    let first = &packages[0];
    for package in &packages {
        assert_eq!(package.version, first.version, "{}", package.name);
        assert_eq!(package.license.as_deref(), Some("MIT OR Apache-2.0"), "{}", package.name);
        let manifest = read(package.manifest_path.as_std_path());
        assert!(manifest.contains("[lints]\nworkspace = true"), "{}", package.manifest_path);
    }
}

/// The words of a line of code: identifiers cut at `_` and at capitals, in small letters, without a plural's s.
fn words(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    for identifier in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
        if ALLOWANCES.contains(&identifier) {
            continue;
        }
        let mut word = String::new();
        let mut small = false;
        for c in identifier.chars() {
            if c == '_' || (c.is_uppercase() && small) {
                out.push(std::mem::take(&mut word));
            }
            if c != '_' {
                word.extend(c.to_lowercase());
            }
            small = c.is_lowercase();
        }
        out.push(word);
    }
    out.retain(|word| !word.is_empty());
    for word in &mut out {
        if word.len() > 3 && word.ends_with('s') {
            word.pop();
        }
    }
    out
}

#[test]
fn identifiers_are_cut_into_words() {
    assert_eq!(words("let gpus = GpuRanks::of(nic_rate);"), ["let", "gpu", "gpu", "rank", "of", "nic", "rate"]);
    assert_eq!(words("nccl_size"), [""; 0]);
}

#[test]
fn the_core_speaks_of_links_and_lanes_only() {
    let mut found = Vec::new();
    for path in files(&root().join("sim-core/src"), "rs") {
        for (number, line) in read(&path).lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for word in words(code).iter().filter(|w| FOREIGN.contains(&w.as_str())) {
                found.push(format!("{}:{}: `{word}` in: {}", shown(&path), number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "sim-core knows nothing of these things:\n{}", found.join("\n"));
}

#[test]
fn no_file_is_longer_than_one_idea() {
    let long: Vec<String> = sources()
        .iter()
        .map(|path| (shown(path), read(path).lines().count()))
        .filter(|(_, lines)| *lines > MOST_LINES)
        .map(|(path, lines)| format!("{path}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "at most {MOST_LINES} lines a file; divide these:\n{}", long.join("\n"));
}

#[test]
fn every_scenario_is_named_in_the_documents() {
    let text: String = documents().iter().map(|d| read(d)).collect();
    for path in files(&root().join("scenarios"), "toml") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(text.contains(&name), "{name} is named neither in README.md nor in docs/");
    }
}

/// The targets of Markdown links in `text`, outside code.
fn links(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("code");
        let mut rest = prose.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            if let Some(end) = rest.find(')') {
                out.push(rest[..end].to_owned());
            }
        }
        rest = prose.as_str();
        while let Some(at) = rest.find("src=\"") {
            rest = &rest[at + 5..];
            if let Some(end) = rest.find('"') {
                out.push(rest[..end].to_owned());
            }
        }
    }
    out
}

/// The anchors of the headings of a document, as hosting sites make them.
fn anchors(text: &str) -> BTreeSet<String> {
    text.lines()
        .filter(|l| l.starts_with('#'))
        .map(|l| {
            let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
            l.trim_start_matches('#').trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
        })
        .collect()
}

#[test]
fn links_of_the_documents_lead_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = read(&document);
        for link in links(&text) {
            if link.starts_with("http://") || link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').map_or((link.as_str(), None), |(f, a)| (f, Some(a)));
            let target = if file.is_empty() { document.clone() } else { document.parent().unwrap().join(file) };
            let there = target.exists() && anchor.is_none_or(|a| anchors(&read(&target)).contains(a));
            if !there {
                broken.push(format!("{}: {link}", shown(&document)));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Paths in code marks of a document that look like files or folders of the repository.
fn named_paths(text: &str) -> BTreeSet<String> {
    let starts: Vec<String> = [
        "src",
        "sim-core",
        "sim-topology",
        "sim-collectives",
        "sim-workload",
        "sim-report",
        "tests",
        "docs",
        "scenarios",
        "benches",
    ]
    .iter()
    .map(|s| format!("{s}/"))
    .collect();
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|code| starts.iter().any(|s| code.starts_with(s.as_str())))
        .filter(|code| !code.contains([' ', '*', '{', '<', '…']))
        .map(|code| code.trim_end_matches('/').to_owned())
        .collect()
}

#[test]
fn paths_that_documents_name_exist() {
    let mut missing = Vec::new();
    for document in documents() {
        if document.ends_with("CHANGELOG.md") {
            continue;
        }
        for path in named_paths(&read(&document)) {
            // `file.rs:name` points at a thing in a file, which must hold the name.
            let (file, thing) = path.split_once(':').map_or((path.as_str(), None), |(f, t)| (f, Some(t)));
            let target = root().join(file);
            if !target.exists() || thing.is_some_and(|t| !read(&target).contains(t)) {
                missing.push(format!("{}: {path}", shown(&document)));
            }
        }
    }
    assert!(missing.is_empty(), "named, but not there:\n{}", missing.join("\n"));
}

#[test]
fn the_map_of_the_code_is_complete() {
    // A line of the map is `path`, or `folder/` for all in it; files of a module's own tests need none.
    let text = read(&root().join("ARCHITECTURE.md"));
    let listed: BTreeSet<&str> = text.lines().flat_map(|l| l.split('`').skip(1).step_by(2)).collect();
    let missing: Vec<String> = sources()
        .iter()
        .map(|p| shown(p))
        .filter(|p| !p.rsplit('/').next().is_some_and(|name| name.starts_with("tests")))
        .filter(|p| {
            let folders = p.match_indices('/').map(|(i, _)| &p[..=i]).filter(|f| !f.ends_with("src/"));
            !listed.contains(p.as_str()) && !folders.into_iter().any(|f| listed.contains(f))
        })
        .collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md has no line for\n{}", missing.join("\n"));
}

#[test]
fn build_services_run_the_command_of_the_readme_on_the_stated_rust() {
    let command = "bash .ci/test.sh";
    for file in ["README.md", "CONTRIBUTING.md", ".ci/run"] {
        assert!(read(&root().join(file)).contains(command), "{file} does not name `{command}`");
    }
    let workflow = read(&root().join(".github/workflows/ci.yml"));
    assert!(workflow.contains("run: bash .ci/run"));
    let package = metadata().packages.into_iter().find(|p| p.name.as_str() == "fabricsim").unwrap();
    let oldest = package.rust_version.unwrap();
    let oldest = format!("{}.{}", oldest.major, oldest.minor);
    for part in [format!("rustup toolchain install {oldest} "), format!("cargo +{oldest} check")] {
        assert!(workflow.contains(&part), "the workflow lacks `{part}`");
    }
    assert!(root().join("Cargo.lock").exists(), "the lock file belongs to the repository");
    let changes = read(&root().join("CHANGELOG.md"));
    assert!(changes.contains(&format!("## [{}]", package.version)), "CHANGELOG.md lacks {}", package.version);
}
