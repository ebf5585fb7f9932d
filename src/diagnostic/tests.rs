use super::*;

fn sample() -> Diagnostics {
    let mut all = Diagnostics::new();
    let text = "name = \"é\"\nrate = 400\nspine = 3\n";
    let source = all.sources.add("dir/cluster.toml", text);
    let at = |needle: &str| {
        let start = text.find(needle).unwrap();
        Place { source, span: start..start + needle.len() }
    };
    all.push(
        Diagnostic::new(Code::MissingUnit, "unit missing")
            .at(at("400"), "a bare number: 400 what?")
            .related(at("\"é\""), "in this part")
            .help("write \"400 Gb/s\"\nor \"50 GB/s\""),
    );
    all.push(Diagnostic::new(Code::NoEffect, "`spine` has no effect: 100%").at(at("spine"), "x,y:z").note("a note"));
    all
}

#[test]
fn text_shows_the_line_with_a_caret() {
    let shown = text(&sample(), Style::Plain);
    for part in [
        "error[E012]: unit missing",
        "--> dir/cluster.toml:2:8",
        "2 | rate = 400",
        "^^^ a bare number: 400 what?",
        "help: write \"400 Gb/s\"",
        "warning[W010]",
        "note: a note",
        "1 error, 1 warning",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'));
    assert!(text(&sample(), Style::Coloured).contains('\u{1b}'));
}

#[test]
fn json_counts_characters_from_one() {
    let list = json(&sample());
    let place = list[0].place.as_ref().unwrap();
    assert_eq!((place.line, place.column, place.end_line, place.end_column), (2, 8, 2, 11));
    assert_eq!((list[0].related[0].column, list[0].related[0].end_column), (8, 11));
    assert_eq!(list[1].severity, Severity::Warning);
}

#[test]
fn github_escapes_what_would_end_a_field() {
    let shown = github(&sample());
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("::error file=dir/cluster.toml,line=2,endLine=2,col=8,endColumn=11,title=E012 unit"));
    assert!(lines[0].contains("%0Ahelp: write"));
    assert!(lines[1].contains("title=W010 `spine` has no effect%3A 100%25::x,y:z%0Anote: a note"), "{}", lines[1]);
}

#[test]
fn sarif_names_its_rules_and_regions() {
    let log = sarif(&sample());
    let run = &log["runs"][0];
    assert_eq!(run["tool"]["driver"]["rules"][0]["id"], "E012");
    assert_eq!(run["results"][0]["ruleIndex"], 0);
    assert_eq!(run["results"][0]["locations"][0]["physicalLocation"]["region"]["startColumn"], 8);
    assert_eq!(run["results"][1]["level"], "warning");
}

#[test]
fn places_outside_the_text_are_brought_inside() {
    let mut all = Diagnostics::new();
    let source = all.sources.add("a", "é");
    for span in [0..99, 1..2, 7..9, 2..2] {
        all.push(Diagnostic::new(Code::Syntax, "x").at(Place { source, span }, "y"));
    }
    assert!(text(&all, Style::Plain).contains("a:1:"));
    assert_eq!(json(&all).len(), 4);
}

#[test]
fn near_names_are_found() {
    assert_eq!(similar("leafs", ["leaves", "spines"]), Some("leaves"));
    assert_eq!(similar("AllReduce", ["all_gather", "all_reduce"]), Some("all_reduce"));
    assert_eq!(similar("rail", ["rail-optimized", "leaf-spine"]), Some("rail-optimized"));
    assert_eq!(similar("xyzzy", ["leaves", "spines"]), None);
    assert_eq!(similar("", ["leaves"]), None);
}
