//! `completions`: scripts that complete the command line.

use clap::Args as ClapArgs;
use clap_complete::Shell;

use super::args::Output;
use super::context::Context;
use super::fault::Failure;
use super::output;

/// A script that completes fabricsim's command line in a shell
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
The script is printed as it is, whatever --format says.

Examples:
  fabricsim completions bash > ~/.local/share/bash-completion/completions/fabricsim
  fabricsim completions zsh > ~/.zfunc/_fabricsim
  fabricsim completions fish > ~/.config/fish/completions/fabricsim.fish";

pub(super) fn run(args: &Args, _context: &Context, command: &mut clap::Command) -> Result<(), Failure> {
    let _ = args.output.format;
    let mut script = Vec::new();
    clap_complete::generate(args.shell, command, "fabricsim", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
