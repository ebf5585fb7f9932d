//! The commands in README.md and docs/ are run, and print what is shown there.
//!
//! A fenced block marked `console` holds commands after `$ ` and what they print. `fabricsim …` (also spelt
//! `cargo run --release -- …`) is run in a copy of the repository's inputs; other commands are not. Shown is standard
//! output, and standard error where the command fails. A line `…` stands for any number of lines.
//!
//! The pictures in `docs/img` are made by commands as well, and are held to them.
//!
//! `UPDATE_DOCS=1 cargo test --test readme` renews outputs and pictures; what is elided stays elided.

mod cli_common;

use std::fs;
use std::path::{Path, PathBuf};

use cli_common::fabricsim_in;
use tempfile::TempDir;

const ELISION: &str = "…";

/// Folders that commands may read.
const INPUTS: &[&str] = &["scenarios", "docs/data"];

/// Pictures: the folder in which a command is run, the command, the file that it makes, the picture in `docs/img`.
const PICTURES: &[(&str, &str, &str, &str)] = &[
    (
        "docs/data",
        "compare h100-2x8-infiniband.txt --system hgx-h100 --nodes 2 --out picture",
        "picture/chart.svg",
        "h100-2x8-infiniband.svg",
    ),
    ("scenarios", "run incast-roce.toml --series 5us --out ../picture", "../picture/queues.svg", "incast-queue.svg"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// The arguments of a command line; quotes keep blanks together.
fn arguments(line: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let (mut word, mut quote, mut any) = (String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), c) => word.push(c),
            (None, '"' | '\'') => (quote, any) = (Some(c), true),
            (None, ' ') => {
                if any || !word.is_empty() {
                    out.push(std::mem::take(&mut word));
                }
                any = false;
            }
            (None, c) => word.push(c),
        }
    }
    if any || !word.is_empty() {
        out.push(word);
    }
    out
}

/// The arguments for the program, if the command calls it.
fn call(command: &str) -> Option<Vec<String>> {
    let rest = command.strip_prefix("cargo run --release -- ").or_else(|| command.strip_prefix("fabricsim "))?;
    Some(arguments(rest))
}

/// What is to be shown of `actual`, elided as `old` is.
fn elided(old: &[String], actual: &[String]) -> Vec<String> {
    let Some(first) = old.iter().position(|l| l == ELISION) else { return actual.to_vec() };
    let last = old.iter().rposition(|l| l == ELISION).unwrap_or(first);
    let tail = old.len() - 1 - last;
    if actual.len() <= first + tail {
        return actual.to_vec();
    }
    let mut out = actual[..first].to_vec();
    out.push(ELISION.to_owned());
    out.extend_from_slice(&actual[actual.len() - tail..]);
    out
}

#[test]
fn outputs_are_elided_as_they_were() {
    let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(elided(&lines("a b … z"), &lines("1 2 3 4 5")), lines("1 2 … 5"));
    assert_eq!(elided(&lines("a …"), &lines("1 2 3")), lines("1 …"));
    assert_eq!(elided(&lines("a b"), &lines("1 2 3")), lines("1 2 3"));
    assert_eq!(elided(&lines("a … z"), &lines("1 2")), lines("1 2"));
    assert_eq!(arguments("--set a=1 --message \"tokens=32 x\" ''"), ["--set", "a=1", "--message", "tokens=32 x", ""]);
}

/// What a command prints, as lines without trailing blanks.
fn printed(folder: &Path, args: &[String]) -> Vec<String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ran = fabricsim_in(folder, &args);
    assert!(!ran.err.contains("E099") && !ran.err.contains("panicked"), "{args:?}: {ran:?}");
    let mut text = ran.out;
    if ran.code != 0 {
        text.push_str(&ran.err);
    }
    let mut lines: Vec<String> = text.lines().map(|l| l.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// The document with the outputs of its commands as they are now, and how many commands were run.
fn renewed(text: &str, folder: &Path) -> (String, usize) {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    let mut ran = 0;
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        if line != "```console" {
            continue;
        }
        while let Some(command) = lines.next_if(|l| *l != "```") {
            out.push_str(command);
            out.push('\n');
            let mut old: Vec<String> = Vec::new();
            while let Some(line) = lines.next_if(|l| *l != "```" && !l.starts_with("$ ")) {
                old.push(line.to_owned());
            }
            // A blank line before the next command is for the eye.
            let blank = old.last().is_some_and(String::is_empty) && lines.peek().is_some_and(|l| l.starts_with("$ "));
            if blank {
                old.pop();
            }
            let shown = match command.strip_prefix("$ ").and_then(call) {
                Some(args) => {
                    ran += 1;
                    elided(&old, &printed(folder, &args))
                }
                None => old,
            };
            for line in shown.iter().map(String::as_str).chain(blank.then_some("")) {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    (out, ran)
}

/// A folder with the inputs of commands.
fn inputs() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for input in INPUTS.iter().filter(|i| root().join(i).is_dir()) {
        copy(&root().join(input), &folder.path().join(input));
    }
    folder
}

fn blessed() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

#[test]
fn the_pictures_are_what_the_program_draws() {
    for (place, command, made, picture) in PICTURES {
        let folder = inputs();
        let place = folder.path().join(place);
        let words = arguments(command);
        let ran = fabricsim_in(&place, &words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(ran.code, 0, "{ran:?}");
        let drawn = fs::read_to_string(place.join(made)).unwrap();
        let target = root().join("docs/img").join(picture);
        if blessed() {
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(&target, drawn).unwrap();
        } else {
            let shown = fs::read_to_string(&target).unwrap_or_default();
            assert!(shown == drawn, "{picture} is old: UPDATE_DOCS=1 cargo test --test readme renews it");
        }
    }
}

#[test]
fn the_documents_show_what_the_program_prints() {
    let folder = inputs();
    let mut documents: Vec<PathBuf> = vec![root().join("README.md")];
    documents.extend(fs::read_dir(root().join("docs")).unwrap().map(|e| e.unwrap().path()));
    documents.retain(|d| d.extension().is_some_and(|e| e == "md"));
    documents.sort();
    let (mut all, mut old) = (0, Vec::new());
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        let (now, ran) = renewed(&text, folder.path());
        all += ran;
        if now != text && blessed() {
            fs::write(&document, now).unwrap();
        } else if let Some((shown, is)) = text.lines().zip(now.lines()).find(|(a, b)| a != b) {
            old.push(format!("{}:\n  shown    {shown}\n  printed  {is}", document.display()));
        } else if now != text {
            old.push(format!("{}: lines are missing or too many", document.display()));
        }
    }
    assert!(all > 0, "no command was found");
    assert!(old.is_empty(), "outdated; UPDATE_DOCS=1 cargo test --test readme renews the outputs\n{}", old.join("\n"));
}

/// Scenarios on the pages: blocks `toml` that say how many nodes there are.
#[test]
fn scenarios_on_the_pages_are_valid() {
    let mut seen = 0;
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "md") {
            continue;
        }
        let page = fs::read_to_string(&path).unwrap().replace("\r\n", "\n");
        for block in page.split("\n```toml\n").skip(1) {
            let text = block.split("\n```").next().unwrap_or_default().to_owned();
            if !text.lines().any(|line| line.starts_with("nodes =")) {
                continue;
            }
            seen += 1;
            let input = fabricsim::scenario::Input::Text { name: path.display().to_string(), text };
            if let Err(faults) = fabricsim::scenario::Scenario::load(&input, &[]) {
                panic!("{}", fabricsim::diagnostic::text(&faults, fabricsim::diagnostic::Style::Plain));
            }
        }
    }
    assert!(seen >= 2, "{seen} scenarios");
}
