//! `atoll-testnet`: swarms on one machine.

use std::process::ExitCode;

use atoll_testnet::cli::{self, Cli};
use clap::Parser;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut stdout = std::io::stdout().lock();
    cli::run(&cli, &mut stdout)
}
