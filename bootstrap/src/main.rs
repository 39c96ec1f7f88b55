//! `atoll-bootstrap`: where new nodes will find their first peers.

use std::process::ExitCode;

use clap::Parser;

/// The bootstrap server of Atoll: it will tell new nodes of a run where others are.
///
/// This version has no network yet, so there is nothing to serve. Whole swarms run in the
/// simulator: `cargo testnet up`.
#[derive(Debug, Parser)]
#[command(name = "atoll-bootstrap", version)]
struct Arguments {}

fn main() -> ExitCode {
    // Wrong usage ends here, with clap's own message and exit code 2.
    let Arguments {} = Arguments::parse();
    eprintln!(
        "error: this version of atoll has no network yet, so there is nothing to serve\n\
         hint: `cargo testnet up` runs a whole swarm in the simulator"
    );
    ExitCode::from(2)
}
