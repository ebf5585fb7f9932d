//! Several training steps on one fabric, and transfers beside steps.

mod cli_common;

use std::fs;

use cli_common::{Ran, fabricsim_in};

/// Four nodes under two leaves, and FSDP of a small model on the nodes that each job names.
fn scenario(jobs: &[(&str, &str)], more: &str) -> String {
    let job = |(nodes, keys): &(&str, &str)| {
        format!(
            "[[workload]]\nkind = \"step\"\nname = \"job {nodes}\"\nranks = 16\nfsdp = true\nsequence = 512\nglobal_batch = 16\n\
             model = {{ layers = 4, hidden = 1024, heads = 16, ffn = 4096, vocab = 8192 }}\n{keys}\
             [workload.placement]\nnodes = [{nodes}]\n"
        )
    };
    let jobs: String = jobs.iter().map(job).collect();
    format!(
        "system = \"hgx-h100\"\nnodes = 4\n[fabric]\nkind = \"leaf-spine\"\nleaves = 2\noversubscription = 4\n{jobs}{more}"
    )
}

fn run(toml: &str, args: &[&str]) -> Ran {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("jobs.toml"), toml).unwrap();
    fabricsim_in(dir.path(), &[&["run", "jobs.toml"][..], args].concat())
}

fn results(toml: &str) -> serde_json::Value {
    run(toml, &["--format", "json"]).json()["results"].clone()
}

#[test]
fn jobs_over_the_same_spines_slow_each_other_down() {
    // Both have a node under each leaf.
    let alone = results(&scenario(&[("0, 2", "")], ""));
    let both = results(&scenario(&[("0, 2", ""), ("1, 3", "with_previous = true\n")], ""));
    let us = |step: &serde_json::Value| step["time_us"].as_f64().unwrap();
    assert!(us(&both["step"]) > 1.01 * us(&alone["step"]), "{} {}", us(&both["step"]), us(&alone["step"]));
    assert_eq!(both["further_steps"].as_array().unwrap().len(), 1);
    // What each would take alone is told, and is what it takes alone.
    assert_eq!(both["step"]["alone"]["time_us"], alone["step"]["time_us"]);
    // Each has its own calls; what was simulated of them was for both.
    let reuse = |of: &serde_json::Value| of["reuse"].clone();
    let (first, second) = (reuse(&both["step"]), reuse(&both["further_steps"][0]));
    assert_eq!(first["calls"], alone["step"]["reuse"]["calls"]);
    let sum = first["calls"].as_u64().unwrap() + second["calls"].as_u64().unwrap();
    assert_eq!((first["together"].as_u64(), second["together"].as_u64()), (Some(sum), Some(sum)));
    assert_eq!(first["played"], second["played"]);
    let other = results(&scenario(&[("1, 3", "")], ""));
    assert_eq!(both["further_steps"][0]["alone"]["time_us"], other["step"]["time_us"]);
    assert!(alone["step"].get("alone").is_none());
    let text = run(&scenario(&[("0, 2", ""), ("1, 3", "with_previous = true\n")], ""), &[]);
    assert!(text.out.contains("beside the others, most of it exposed dp messages (+"), "{}", text.out);
    // Jobs under leaves of their own do not.
    let apart = results(&scenario(&[("0, 1", "")], ""));
    let side = results(&scenario(&[("0, 1", ""), ("2, 3", "with_previous = true\n")], ""));
    assert_eq!(us(&side["step"]), us(&apart["step"]));
}

#[test]
fn transfers_run_beside_a_step() {
    let beside = |repeat: &str| {
        format!(
            "[[workload]]\nkind = \"transfer\"\nname = \"checkpoint\"\nwith_previous = true\n{repeat}pattern = \"shift\"\nshift = 16\n\
             ranks = 32\nsize = \"8 MiB\"\n"
        )
    };
    let alone = results(&scenario(&[("0, 2", "")], ""));
    let with = results(&scenario(&[("0, 2", "")], &beside("repeat = true\n")));
    let us = |of: &serde_json::Value| of["step"]["time_us"].as_f64().unwrap();
    assert!(us(&with) > 1.01 * us(&alone), "{} {}", us(&with), us(&alone));
    assert_eq!(with["step"]["alone"]["time_us"], alone["step"]["time_us"]);
    assert_eq!(with["beside_steps"][0]["name"], "checkpoint");
    assert!(with["beside_steps"][0]["times"].as_u64().unwrap() > 1, "{with}");
    let once = run(&scenario(&[("0, 2", "")], &beside("")), &[]);
    assert!(once.out.contains("checkpoint has arrived by then, after "), "{once:?}");
    let one = &with["beside_steps"][0];
    let (mean, first) = (one["time_us"].as_f64().unwrap(), one["first_us"].as_f64().unwrap());
    assert!(mean > 100.0 && first > 100.0 && mean * one["times"].as_f64().unwrap() <= us(&with) + 1.0, "{one}");
}

/// However much is to be sent, it takes turns with the step's messages.
#[test]
fn large_transfers_do_not_stand_before_the_step() {
    let us = |size: &str| {
        let beside = format!(
            "[[workload]]\nkind = \"transfer\"\nwith_previous = true\npattern = \"shift\"\nshift = 16\nranks = 32\nsize = \"{size}\"\n"
        );
        results(&scenario(&[("0, 2", "")], &beside))["step"]["time_us"].as_f64().unwrap()
    };
    // Both are longer than the step.
    let (long, longer) = (us("1 GiB"), us("4 GiB"));
    assert!((longer / long - 1.0).abs() < 0.01, "{long} {longer}");
}

#[test]
fn what_cannot_run_together_is_refused() {
    let both = run(&scenario(&[("0, 2", ""), ("2, 3", "with_previous = true\n")], ""), &[]);
    assert_eq!(both.code, 2, "{both:?}");
    assert!(both.err.contains("is of this step and of `job 0, 2` before it"), "{}", both.err);
    let first = run(&scenario(&[("0, 2", "with_previous = true\n")], ""), &[]);
    assert!(first.err.contains("there is no step before this one to run with"), "{}", first.err);
    let repeat = "[[workload]]\nkind = \"transfer\"\nrepeat = true\npattern = \"shift\"\nsize = \"1 MiB\"\n";
    let alone = run(&scenario(&[("0, 2", "")], repeat), &[]);
    assert!(alone.err.contains("transfers repeat beside a step only"), "{}", alone.err);
    // A step with faults is a step: what repeats beside it is not another fault.
    let beside = repeat.replace("repeat = true", "repeat = true\nwith_previous = true");
    let faulty = run(&scenario(&[("0, 2", "tp = 3\n")], &format!("{beside}{beside}")), &[]);
    assert_eq!(faulty.code, 2, "{faulty:?}");
    assert!(faulty.err.contains("E120") && !faulty.err.contains("transfers repeat"), "{}", faulty.err);
}
