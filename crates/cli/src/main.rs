//! The program; what it does is in the library.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    corelane_cli::run()
}
