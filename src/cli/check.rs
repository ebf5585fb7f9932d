//! `check`: validates a scenario, and reports all faults at once.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use serde_json::json;
use sim_report::result::{Envelope, InferenceOutline, StepOutline};
use sim_report::table::{inference_outline_text, step_outline_text};

use super::args::{self, System};
use super::context::{Context, overrides, warnings};
use super::fault::{Exit, Failure};
use super::output;
use crate::diagnostic::{self, Diagnostics, Severity};
use crate::scenario::{Designs, Input, Loaded, Scenario, Setting, Workload};

/// Validate a scenario: all errors at once, and warnings
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The scenario; `-` is standard input
    #[arg(value_name = "SCENARIO")]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    system: System,
    /// The form of the findings
    #[arg(long, value_name = "FORM", default_value = "text", help_heading = "Output")]
    format: CheckFormat,
}

/// The forms of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CheckFormat {
    /// For people, with the line and a caret, on standard error.
    Text,
    /// For programs.
    Json,
    /// GitHub workflow annotations.
    Github,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

const EXAMPLES: &str = "\
Examples:
  fabricsim check cluster.toml
  fabricsim check cluster.toml --set fabric.spines=4
  fabricsim check cluster.toml --format github";

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let input = args::input(args.scenario.as_ref())?;
    if input == Input::Flags && !args.system.names_one() {
        return Err(args::no_cluster("check"));
    }
    let mut settings = args.system.settings()?;
    settings.extend(context.settings.iter().cloned());
    let (mut loaded, mut findings) = checked(&input, &settings);
    let designs = Designs::of(&input, &settings);
    if !designs.asked {
        for name in designs.names.iter().skip(1) {
            let mut settings = settings.clone();
            settings.push(Setting::design("[[design]]", name));
            let (other, more) = checked(&input, &settings);
            loaded = loaded.filter(|_| other.is_some());
            findings.absorb(more);
        }
        findings.sort();
    }
    match args.format {
        CheckFormat::Text => {
            context.say(&findings);
            if let Some(loaded) = &loaded {
                output::print(&summary(loaded, &findings))?;
            }
        }
        CheckFormat::Json => {
            let name = args.scenario.as_ref().map_or("flags".to_owned(), |p| p.display().to_string());
            let seed = loaded.as_ref().map_or(context.seed.unwrap_or(1), |l| l.scenario.seed);
            let mut results = json!({
                "valid": loaded.is_some(),
                "errors": findings.count(Severity::Error),
                "diagnostics": diagnostic::json(&findings),
            });
            if let (Some(loaded), Some(map)) = (&loaded, results.as_object_mut()) {
                let steps = steps(loaded);
                if !steps.is_empty() {
                    map.insert("steps".to_owned(), json!(steps));
                }
                let inference = inference(loaded);
                if !inference.is_empty() {
                    map.insert("inference".to_owned(), json!(inference));
                }
            }
            let own = loaded.as_ref().map_or_else(Vec::new, |l| overrides(&l.catalogue));
            let envelope = Envelope::new(name, seed, results).with_warnings(warnings(&findings)).with_overrides(own);
            output::print(&envelope.to_json().map_err(Failure::internal)?)?;
        }
        CheckFormat::Github => output::print(&diagnostic::github(&findings))?,
        CheckFormat::Sarif => {
            let text = serde_json::to_string_pretty(&diagnostic::sarif(&findings)).map_err(Failure::internal)?;
            output::print(&(text + "\n"))?;
        }
    }
    if loaded.is_some() { Ok(()) } else { Err(Failure::silent(Exit::Usage)) }
}

/// The scenario, unless it can't be played, and all findings.
fn checked(input: &Input, settings: &[Setting]) -> (Option<Loaded>, Diagnostics) {
    match Scenario::load(input, settings) {
        Ok(loaded) => {
            let mut findings = loaded.refused();
            let valid = findings.list.is_empty();
            findings.list.extend(loaded.diagnostics.list.iter().cloned());
            findings.list.extend(loaded.idle_variables());
            findings.sort();
            (valid.then_some(loaded), findings)
        }
        Err(findings) => (None, findings),
    }
}

/// What the steps of a scenario are made of.
fn steps(loaded: &Loaded) -> Vec<StepOutline> {
    let of = |workload: &Workload| if let Workload::Step(step) = workload { Some(step.outline()) } else { None };
    loaded.scenario.workloads.iter().filter_map(of).collect()
}

/// What the workloads of inference are made of.
fn inference(loaded: &Loaded) -> Vec<InferenceOutline> {
    let of = |workload: &Workload| if let Workload::Inference(one) = workload { Some(one.outline()) } else { None };
    loaded.scenario.workloads.iter().filter_map(of).collect()
}

fn summary(loaded: &Loaded, findings: &Diagnostics) -> String {
    let warnings = findings.count(Severity::Warning);
    let remark = match warnings {
        0 => String::new(),
        1 => ", 1 warning".to_owned(),
        n => format!(", {n} warnings"),
    };
    let mut out = format!("ok{remark}: {}\n", loaded.head());
    for step in steps(loaded) {
        out += &format!("\n{}", step_outline_text(&step));
    }
    for one in inference(loaded) {
        out += &format!("\n{}", inference_outline_text(&one));
    }
    out
}
