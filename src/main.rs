//! The command line of fabricsim; see the library's `cli` module.

fn main() -> std::process::ExitCode {
    fabricsim::cli::main()
}
